/* text_start.c - see text_start.h. */
#include "trainer/files/text_start.h"

#include <string.h>

typedef struct mark {
    const char *bytes;
    size_t      size;
    const char *what, *advice;
} mark;

#define BYTES(text) text, sizeof text - 1

static const mark foreign[] = {       /* of two that begin alike the longer one comes first */
    {BYTES("\xff\xfe\0\0"), "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8"},
    {BYTES("\0\0\xfe\xff"), "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8"},
    {BYTES("\xff\xfe"), "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"},
    {BYTES("\xfe\xff"), "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8"},
    {BYTES("\x1f\x8b\x08"), "packed by gzip", "let its name end in .gz, or use pipe_command=\"zcat\""},
    {BYTES("BZh91AY&SY"), "packed by bzip2", "use pipe_command=\"bzcat\""},
    {BYTES("\xfd" "7zXZ\0"), "packed by xz", "use pipe_command=\"xzcat\""},
    {BYTES("\x28\xb5\x2f\xfd"), "packed by zstd", "use pipe_command=\"zstdcat\""},
    {BYTES("PK\3\4"), "a zip archive", "unpack it first"},
    {BYTES("PAR1\x15"), "Parquet", "use format=\"parquet\""},
    {BYTES("ARROW1\0\0"), "Arrow's file format", "use format=\"arrow\""},
};

static const char utf8_mark[] = "\xef\xbb\xbf";

static bool begins(const char *bytes, size_t size, const char *want, size_t length)
{
    return size >= length && !memcmp(bytes, want, length);
}

tr_status tr_text_start(size_t *skip, const char *bytes, size_t size, const char *path)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (begins(bytes, size, foreign[i].bytes, foreign[i].size))
            return tr_fail(TR_EFORMAT, "%s: expected text in UTF-8; its first bytes say that it is %s: %s", path, foreign[i].what,
                           foreign[i].advice);
    *skip = begins(bytes, size, BYTES(utf8_mark)) ? sizeof utf8_mark - 1 : 0;
    return TR_OK;
}
