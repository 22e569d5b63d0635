/* checksums.c - see trireme_checkpoint.h: a line for each file, sorted by name when they are read, and a line with the checksum of these lines. */
#include "storage/checkpoint/checksums.h"

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "storage/table/row_file.h"
#include "storage/util/crc32c.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD "trireme-checksums 1"
enum { MOST_BYTES = 1 << 28, BLOCK = 1 << 18 };

typedef struct entry {
    const char *name;
    uint32_t    crc;
    uint64_t    covered, bytes;       /* of the file: the first ones, under the checksum; all, or 0: any number */
} entry;

struct tr_checksums {
    char    *folder;
    uint8_t *text;                    /* names lie here */
    entry   *entry;
    int      count;
    uint32_t own;
};

uint32_t tr_checksums_of(const void *bytes, size_t size)
{
    return tr_crc32c(0, bytes, size);
}

/* == one file ========================================================================================== */

/* The checksum of the first out->covered bytes of a file; of all, if it has fewer. The loader reads the file a second time, from the
 * system's cache. A single reading that also sums was tried, with and without a block in between. For 192 MB it took 70 to 80 ms of CPU time, two
 * readings take 50, and one without a checksum 30. */
static tr_status sum_file(entry *out, const char *path)
{
    char     *block = tr__must_alloc(BLOCK);
    FILE     *in = NULL;
    tr_status status = tr_path_fopen(&in, &out->bytes, path);
    uint64_t  left = out->covered;

    out->crc = 0;
    for (size_t got = 1; status == TR_OK && got && left; left -= got) {
        got = fread(block, 1, left < BLOCK ? (size_t)left : BLOCK, in);
        out->crc = tr_crc32c(out->crc, block, got);
        if (ferror(in))
            status = tr_fail(TR_EIO, "cannot read '%s': %s", path, strerror(errno));
    }
    out->covered -= left;
    if (in)
        fclose(in);
    free(block);
    return status;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t size = strlen(name), length = strlen(end);

    return size > length && strcmp(name + size - length, end) == 0;
}

tr_status tr_checksums_line(char **out, const char *folder, const char *name)
{
    char *path = NULL;
    entry found = {.covered = ends_with(name, ".rows") ? sizeof(tr_row_file_head) : UINT64_MAX};   /* a file of rows has more of its own */

    TR_TRY(tr_path_inside(&path, folder, name));
    const tr_status status = sum_file(&found, path);
    tr_free(path);
    TR_TRY(status);
    *out = tr__must_format("%08" PRIx32 " %" PRIu64 " %" PRIu64 " %s\n", found.crc, found.covered, found.bytes, name);
    return TR_OK;
}

char *tr_checksums_line_of(const void *content, size_t size, const char *name)
{
    return tr__must_format("%08" PRIx32 " %zu %zu %s\n", tr_checksums_of(content, size), size, size, name);
}

char *tr_checksums_text(const char *lines)
{
    char *begun = tr__must_format(HEAD "\n%s", lines);
    char *text = tr__must_format("%send %08" PRIx32 "\n", begun, tr_checksums_of(begun, strlen(begun)));

    free(begun);
    return text;
}

/* == a folder ========================================================================================== */

static bool take_number(uint64_t *out, char **at, int base)
{
    char *end;

    errno = 0;
    *out = strtoull(*at, &end, base);
    if (end == *at || *end != ' ' || errno)
        return false;
    *at = end + 1;
    return true;
}

static bool take_line(entry *out, char *line)
{
    uint64_t crc;

    if (!take_number(&crc, &line, 16) || !take_number(&out->covered, &line, 10) || !take_number(&out->bytes, &line, 10))
        return false;
    out->crc = (uint32_t)crc;
    out->name = line;
    return *line != '\0';
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* The last line has the checksum of all bytes before it. */
static bool is_whole(uint8_t *text, size_t size, char **last)
{
    char end[16];

    if (size < 13 || strlen((char *)text) != size)
        return false;
    *last = (char *)text + size - 13;
    snprintf(end, sizeof end, "end %08" PRIx32 "\n", tr_crc32c(0, text, size - 13));
    return strcmp(*last, end) == 0;
}

static tr_status parse(tr_checksums *sums, size_t size)
{
    char *last = NULL, *rest = NULL;
    bool  is_good = is_whole(sums->text, size, &last);
    int   lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += sums->text[i] == '\n';
    sums->own = tr_crc32c(0, sums->text, size);
    sums->entry = tr__must_array((size_t)lines + 1, sizeof *sums->entry);
    if (is_good)
        *last = '\0';
    char *line = is_good ? strtok_r((char *)sums->text, "\n", &rest) : NULL;
    is_good = is_good && (!line || strcmp(line, HEAD) == 0);
    while (is_good && line && (line = strtok_r(NULL, "\n", &rest)))
        is_good = take_line(&sums->entry[sums->count++], line);
    qsort(sums->entry, (size_t)sums->count, sizeof *sums->entry, by_name);
    return is_good ? TR_OK : tr_fail(TR_EFORMAT, "the checksums of the files in '%s' are damaged themselves: the last line has another checksum", sums->folder);
}

/* The text in the program's file: *text is NULL where it has none. */
static tr_status read_end(uint8_t **text, size_t *size, const char *path)
{
    uint8_t  end[8];
    uint64_t bytes;
    FILE    *in;

    TR_TRY(tr_path_fopen(&in, &bytes, path));
    bool     is_there = bytes > sizeof end && fseek(in, -(long)sizeof end, SEEK_END) == 0 && fread(end, sizeof end, 1, in) == 1;
    uint32_t length = 0;
    memcpy(&length, end, is_there ? sizeof length : 0);
    is_there = is_there && memcmp(end + 4, TR_CHECKSUMS_END, 4) == 0 && length > 16 && length <= bytes && length <= MOST_BYTES;
    *size = is_there ? length - sizeof end : 0;
    *text = is_there ? tr__must_alloc(*size + 1) : NULL;
    is_there = is_there && fseek(in, (long)(bytes - length), SEEK_SET) == 0 && fread(*text, *size, 1, in) == 1;
    fclose(in);
    if (!is_there) {
        free(*text);
        *text = NULL;
        return TR_OK;
    }
    size_t skipped = 0;
    for (int numbers = 0; numbers < 2 && skipped < *size; skipped++)       /* the field's tag and its length */
        numbers += (*text)[skipped] < 0x80;
    *size -= skipped;
    memmove(*text, *text + skipped, *size + 1);
    return TR_OK;
}

static tr_status read_text(tr_checksums *sums, size_t *size, const char *folder, const char *model_file)
{
    char     *path = tr__must_format("%s/%s", folder, TR_CHECKSUMS_FILE), *model = NULL;
    tr_status status = TR_OK;

    if (access(path, F_OK) == 0)
        status = tr_path_read(&sums->text, size, path, MOST_BYTES);
    else if (*model_file)
        status = tr_path_inside(&model, folder, model_file);
    if (model && access(model, F_OK) == 0)
        status = read_end(&sums->text, size, model);
    tr_free(model);
    free(path);
    return status;
}

tr_status tr_checksums_read(tr_checksums **out, const char *folder, const char *model_file)
{
    tr_checksums *sums = tr__must_alloc(sizeof *sums);
    size_t        size = 0;

    *out = NULL;
    sums->folder = tr__must_strdup(folder);
    tr_status status = read_text(sums, &size, folder, model_file);
    if (status == TR_OK && sums->text)
        status = parse(sums, size);
    if (status == TR_OK && sums->text)
        *out = sums;
    else
        tr_checksums_free(sums);
    return status;
}

void tr_checksums_free(tr_checksums *sums)
{
    if (!sums)
        return;
    free(sums->folder);
    free(sums->text);
    free(sums->entry);
    free(sums);
}

uint32_t tr_checksums_own(const tr_checksums *sums)
{
    return sums->own;
}

static const entry *find(const tr_checksums *sums, const char *name)
{
    const entry key = {.name = name};

    return sums ? bsearch(&key, sums->entry, (size_t)sums->count, sizeof key, by_name) : NULL;
}

bool tr_checksums_has(const tr_checksums *sums, const char *name)
{
    return find(sums, name) != NULL;
}

tr_status tr_checksums_check(const tr_checksums *sums, const char *name)
{
    const entry *said = find(sums, name);
    char        *path = NULL;

    if (!said)
        return TR_OK;
    entry found = {.covered = said->covered};
    TR_TRY(tr_path_inside(&path, sums->folder, name));
    tr_status status = sum_file(&found, path);
    if (status == TR_OK && said->bytes && found.bytes != said->bytes)
        status = tr_fail(TR_EFORMAT, "'%s' is damaged: it has %" PRIu64 " bytes, %" PRIu64 " were written", path, found.bytes, said->bytes);
    else if (status == TR_OK && (found.crc != said->crc || found.covered != said->covered))
        status = tr_fail(TR_EFORMAT, "'%s' is damaged: its checksum is %08" PRIx32 ", %08" PRIx32 " was written. If another file was put here on purpose, "
                         "save the model again", path, found.crc, said->crc);
    tr_free(path);
    return status;
}
