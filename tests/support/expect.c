/* expect.c - see expect.h. */
#include "tests/support/expect.h"

#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

void test_expect_ok(tr_status got, const char *call, const char *file, int line)
{
    if (got == TR_OK)
        return;
    print_error("%s\n  returned %s: %s\n", call, tr_status_name(got), tr_error());
    _fail(file, line);
}

void test_expect_fail(tr_status expected, const char *text, tr_status got, const char *call, const char *file, int line)
{
    if (got == expected && strstr(tr_error(), text))
        return;
    print_error("%s\n  returned %s: %s\n  expected %s: ...%s...\n", call, tr_status_name(got),
                got == TR_OK ? "" : tr_error(), tr_status_name(expected), text);
    _fail(file, line);
}

uint8_t *test_read_file(size_t *size, const char *path)
{
    FILE *in = fopen(path, "rb");

    if (!in) {
        print_error("cannot open %s (tests run in the root of the tree)\n", path);
        fail();
    }
    fseek(in, 0, SEEK_END);
    *size = (size_t)ftell(in);
    rewind(in);
    uint8_t *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, in), *size);
    fclose(in);
    return bytes;
}

static char folder[] = "/tmp/trireme-test-XXXXXX";

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *test_path(const char *name)
{
    static char     paths[4][256];
    static unsigned next;
    static int      made;

    if (!made) {
        assert_non_null(mkdtemp(folder));
        atexit(remove_folder);
        made = 1;
    }
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
