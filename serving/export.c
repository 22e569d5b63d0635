#include "serving/export.h"

#include "framework/memory.h"
#include "framework/path.h"

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

static tr_status take_part(tr_export *out, const char *folder, const char *name)
{
    if (out->count == TR_EXPORT_PARTS)
        return tr_fail(TR_EFORMAT, "an export of more than %d parts", TR_EXPORT_PARTS);
    if (strchr(name, '/'))
        return tr_fail(TR_EFORMAT, "'%s' is no folder of an export", name);
    TR_TRY(tr_path_inside(&out->part[out->count], folder, name));
    out->count++;
    return TR_OK;
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
        is_good = strcmp(value, "1") == 0;
    else if (strcmp(line, "version") == 0)
        is_good = number_of(&out->version, value);
    else if (strcmp(line, "step") == 0)
        is_good = number_of(&out->step, value);
    else if (strcmp(line, "full") == 0 || strcmp(line, "delta") == 0)
        return (strcmp(line, "full") == 0) == (out->count == 0) ? take_part(out, folder, value)
                                                                : tr_fail(TR_EFORMAT, "the full model comes first, and once");
    return is_good ? TR_OK : tr_fail(TR_EFORMAT, "'%s' says '%s'", line, value);
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
    for (char *line = status == TR_OK ? strtok_r((char *)bytes, "\n", &rest) : NULL; line && status == TR_OK; line = strtok_r(NULL, "\n", &rest))
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
    export->count = 0;
}
