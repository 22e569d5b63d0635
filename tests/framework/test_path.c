/* test_path.c - which file a name means in a folder, and what is opened for reading. */
#include "tests/support/expect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/path.h"

/* A new folder with the files `in/w` and `out/w` and these links in `in`. */
static const char *make_folder(void)
{
    static char path[256];
    static int  count;
    char        name[32];

    snprintf(name, sizeof name, "folder%d", count++);
    snprintf(path, sizeof path, "%s", test_path(name));
    assert_int_equal(mkdir(path, 0777), 0);
    const int at = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(at, "in", 0777) | mkdirat(at, "out", 0777), 0);
    close(openat(at, "in/w", O_CREAT | O_WRONLY, 0666));
    close(openat(at, "out/w", O_CREAT | O_WRONLY, 0666));
    assert_int_equal(symlinkat("w", at, "in/same"), 0);
    assert_int_equal(symlinkat("../out/w", at, "in/file"), 0);
    assert_int_equal(symlinkat("../out", at, "in/folder"), 0);
    assert_int_equal(symlinkat("/nowhere", at, "in/nothing"), 0);
    assert_int_equal(symlinkat("../in/w", at, "in/back"), 0);
    assert_int_equal(symlinkat("in", at, "link"), 0);
    close(at);
    return path;
}

static tr_status inside(const char *folder, const char *part, const char *name)
{
    char      path[512], *out = NULL;

    snprintf(path, sizeof path, "%s/%s", folder, part);
    const tr_status status = tr_path_inside(&out, path, name);
    if (status == TR_OK) {
        char wanted[1024];
        snprintf(wanted, sizeof wanted, "%s/%s", path, name);
        assert_string_equal(out, wanted);
    }
    tr_free(out);
    return status;
}

TEST(a_name_is_a_file_in_the_folder)
{
    const char *folder = make_folder();
    char       *out;

    EXPECT_OK(inside(folder, "in", "w"));
    EXPECT_OK(inside(folder, "in", "not/there/yet"));
    EXPECT_OK(inside(folder, "in", "..."));
    EXPECT_OK(inside(folder, "in", "same"));
    EXPECT_OK(inside(folder, "in", "back"));
    EXPECT_OK(inside(folder, "link", "w"));            /* the folder itself may be reached by a link */
    EXPECT_OK(inside(folder, "link", "same"));
    EXPECT_OK(inside(folder, "nowhere", "w"));
    EXPECT_OK(tr_path_inside(&out, "", "w"));
    assert_string_equal(out, "./w");
    tr_free(out);
    EXPECT_OK(tr_path_inside(&out, "/", "tmp"));
    tr_free(out);
}

TEST(no_name_leads_out)
{
    static const char *const parts[] = {"..", ".", "../w", "a/../w", "a/..", "./w"};
    static const char *const links[] = {"file", "folder/w", "folder", "folder/not/there/yet"};
    const char              *folder = make_folder();

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        EXPECT_FAIL(TR_EINVAL, "a part of it is '.' or '..'", inside(folder, "in", parts[i]));
    EXPECT_FAIL(TR_EINVAL, "it begins with '/'", inside(folder, "in", "/etc/passwd"));
    EXPECT_FAIL(TR_EINVAL, "a part between two '/' is empty", inside(folder, "in", "a//b"));
    EXPECT_FAIL(TR_EINVAL, "a part between two '/' is empty", inside(folder, "in", "a/"));
    EXPECT_FAIL(TR_EINVAL, "a control character", inside(folder, "in", "a\n"));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        EXPECT_FAIL(TR_EINVAL, "leads out of the folder", inside(folder, "in", links[i]));
        EXPECT_FAIL(TR_EINVAL, "leads out of the folder", inside(folder, "link", links[i]));
    }
    EXPECT_FAIL(TR_EINVAL, "leads to nothing", inside(folder, "in", "nothing"));
}

/* "/a/bc" begins with the letters of "/a/b" and does not lie in it. */
TEST(a_folder_with_a_longer_name_is_another_one)
{
    char        target[512], link[512];
    const char *folder = make_folder();

    snprintf(target, sizeof target, "%s/inner", folder);
    snprintf(link, sizeof link, "%s/in/longer", folder);
    assert_int_equal(mkdir(target, 0777), 0);
    assert_int_equal(symlink("../inner", link), 0);
    EXPECT_FAIL(TR_EINVAL, "leads out of the folder", inside(folder, "in", "longer"));
}

TEST(files_are_read_whole_up_to_a_size)
{
    const char *path = test_path("five");
    uint8_t    *bytes;
    size_t      size;
    int         fd = open(path, O_CREAT | O_WRONLY, 0666);

    assert_int_equal(write(fd, "12345", 5), 5);
    close(fd);
    EXPECT_OK(tr_path_read(&bytes, &size, path, 5));
    assert_int_equal(size, 5);
    assert_string_equal((char *)bytes, "12345");
    free(bytes);
    EXPECT_FAIL(TR_EFORMAT, "has 5 bytes, more than the possible 4", tr_path_read(&bytes, &size, path, 4));
    EXPECT_FAIL(TR_EIO, "cannot open '/no/such/file'", tr_path_open(&fd, NULL, "/no/such/file"));
    assert_int_equal(errno, ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_a_file_in_the_folder),
        cmocka_unit_test(no_name_leads_out),
        cmocka_unit_test(a_folder_with_a_longer_name_is_another_one),
        cmocka_unit_test(files_are_read_whole_up_to_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
