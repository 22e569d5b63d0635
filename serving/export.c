#include "serving/export.h"

#include "framework/base/memory.h"
#include "framework/base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 20 };

static char *current_of(const char *folder)
{
    return tr__must_format("%s/current", folder);
}

bool tr_export_is(const char *folder)
{
    char      *path = current_of(folder);
    const bool is = access(path, F_OK) == 0;

    free(path);
    return is;
}

static bool number_of(int64_t *out, const char *text)
{
    char *end;

    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *out >= 0;
}

/* The checksum after the name is that of the part's own file of checksums. */
static tr_status take_sums(tr_export *out, const char *crc)
{
    const char *part = out->part[out->count - 1];
    char        own[16];

    if (!crc)
        return tr_fail(TR_EFORMAT, "'%s' has no checksum", part);
    TR_TRY(tr_checksums_read(&out->sums[out->count - 1], part, ""));
    if (!out->sums[out->count - 1])
        return tr_fail(TR_EFORMAT, "there is no '%s/%s'", part, TR_CHECKSUMS_FILE);
    snprintf(own, sizeof own, "%08x", tr_checksums_own(out->sums[out->count - 1]));
    return strcmp(own, crc) == 0 ? TR_OK : tr_fail(TR_EFORMAT, "'%s/%s' is damaged, or belongs to another export", part, TR_CHECKSUMS_FILE);
}

static tr_status take_part(tr_export *out, const char *folder, char *name)
{
    char *crc = out->has_sums ? strchr(name, ' ') : NULL;

    if (crc)
        *crc++ = '\0';
    if (out->count == TR_EXPORT_PARTS)
        return tr_fail(TR_EFORMAT, "an export of more than %d parts", TR_EXPORT_PARTS);
    if (strchr(name, '/'))
        return tr_fail(TR_EFORMAT, "'%s' is no folder of an export", name);
    TR_TRY(tr_path_inside(&out->part[out->count], folder, name));
    out->count++;
    return out->has_sums ? take_sums(out, crc) : TR_OK;
}

/* One line: a word and what it says. */
static tr_status take_line(tr_export *out, const char *folder, char *line)
{
    char *value = strchr(line, ' ');
    bool  is_good = value != NULL;

    if (!is_good)
        return tr_fail(TR_EFORMAT, "a line without a value: '%s'", line);
    *value++ = '\0';
    if (strcmp(line, "trireme-export") == 0)
        is_good = strcmp(value, out->has_sums ? "2" : "1") == 0;
    else if (strcmp(line, "version") == 0)
        is_good = number_of(&out->version, value);
    else if (strcmp(line, "step") == 0)
        is_good = number_of(&out->step, value);
    else if (strcmp(line, "full") == 0 || strcmp(line, "delta") == 0)
        return (strcmp(line, "full") == 0) == (out->count == 0) ? take_part(out, folder, value)
                                                                : tr_fail(TR_EFORMAT, "the full model comes first, and once");
    return is_good ? TR_OK : tr_fail(TR_EFORMAT, "'%s' says '%s'", line, value);
}

/* The last line of a file with checksums has that of the lines before. It is cut off. */
static bool is_whole(const tr_export *out, char *text)
{
    const size_t size = strlen(text);
    char         end[16];

    if (!out->has_sums)
        return true;
    if (size < 13)
        return false;
    snprintf(end, sizeof end, "end %08x\n", tr_checksums_of(text, size - 13));
    const bool is = strcmp(text + size - 13, end) == 0;
    text[size - 13] = '\0';
    return is;
}

tr_status tr_export_lone(tr_export *out, const char *folder, const char *model_file)
{
    memset(out, 0, sizeof *out);
    out->count = 1;
    out->part[0] = tr__must_strdup(folder);
    const tr_status status = tr_checksums_read(&out->sums[0], folder, model_file);
    out->has_sums = out->sums[0] != NULL;
    if (status != TR_OK)
        tr_export_deinit(out);
    return status;
}

tr_status tr_export_read(tr_export *out, const char *folder)
{
    char     *path = current_of(folder), *rest = NULL;
    uint8_t  *bytes = NULL;
    size_t    size = 0;
    tr_status status = tr_path_read(&bytes, &size, path, MOST_BYTES);

    memset(out, 0, sizeof *out);
    if (status == TR_OK && strlen((char *)bytes) != size)
        status = tr_fail(TR_EFORMAT, "a zero byte");
    out->has_sums = status == TR_OK && strncmp((char *)bytes, "trireme-export 1\n", 17) != 0;
    if (status == TR_OK && !is_whole(out, (char *)bytes))
        status = tr_fail(TR_EFORMAT, "it is damaged: it does not have the checksum in its last line");
    for (char *line = status == TR_OK ? strtok_r((char *)bytes, "\n", &rest) : NULL; line && status == TR_OK;
         line = strtok_r(NULL, "\n", &rest))
        status = take_line(out, folder, line);
    if (status == TR_OK && (out->count == 0 || out->version < 1))
        status = tr_fail(TR_EFORMAT, "no model is named");
    if (status != TR_OK) {
        tr_export_deinit(out);
        status = tr_context(status, "in the export '%s'", path);
    }
    free(bytes);
    free(path);
    return status;
}

void tr_export_deinit(tr_export *export)
{
    for (int i = 0; i < export->count; i++)
        tr_free(export->part[i]);
    for (int i = 0; i < export->count; i++)
        tr_checksums_free(export->sums[i]);
    export->count = 0;
}
