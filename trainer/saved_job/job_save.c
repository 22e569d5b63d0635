/* job_save.c - see job_save.h. A store cannot rename. So a save in a store has a folder of its own, and counts when the list of its files,
 * with their checksums, is uploaded, after all of them (python/trireme/stores/saves.py). */
#include "trainer/saved_job/job_save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/beside.h"
#include "framework/tensors/tensor_io.h"
#include "storage/checkpoint/checksums.h"
#include "storage/checkpoint/place.h"
#include "storage/stores/object_store.h"

/* A text that grows in memory. */
typedef struct growing {
    FILE  *out;
    char  *bytes;
    size_t size;
} growing;

static tr_status begin_text(growing *g)
{
    *g = (growing){0};
    g->out = open_memstream(&g->bytes, &g->size);
    return g->out ? TR_OK : tr_fail(TR_ENOMEM, "there is no memory for a file that is saved");
}

/* `bytes` and `size` are complete then. */
static tr_status end_text(growing *g, tr_status status)
{
    const int failed = fclose(g->out);
    return status == TR_OK && failed ? tr_fail(TR_ENOMEM, "there is no memory for a file that is saved") : status;
}

static tr_status find(const tr_tensor **out, const tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find(scope, name);

    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value: the job's startup program does not make it", name);
    *out = &var->tensor;
    return TR_OK;
}

/* == a folder of this machine ================================================================= */

static tr_status save_to_file(const tr_tensor *value, const char *folder, const char *name)
{
    char *path;

    TR_TRY(tr_path_inside(&path, folder, name));
    tr_status status = tr__make_folders(path);
    if (status == TR_OK)
        status = tr_tensor_save(value, path);
    free(path);
    return status;
}

/* == a store ================================================================================== */

/* Write a file, and its line of checksums. */
static tr_status upload(FILE *lines, const tr_tensor *value, const char *save, const char *name)
{
    growing content;
    char   *path;

    TR_TRY(tr_path_inside(&path, save, name));
    tr_status status = begin_text(&content);
    if (status == TR_OK) {
        status = end_text(&content, tr_tensor_write(content.out, value));
        if (status == TR_OK)
            status = tr_place_put(path, content.bytes, content.size);
        char *line = tr_checksums_line_of(content.bytes, content.size, name);
        fputs(line, lines);
        free(line);
        free(content.bytes);
    }
    free(path);
    return status;
}

static tr_status upload_lines(growing *lines, const char *save)
{
    char *path = tr__must_format("%s/%s", save, TR_STORE_SAVED);
    char *text = tr_checksums_text(lines->bytes);

    const tr_status status = tr_place_put(path, text, strlen(text));
    free(text);
    free(path);
    return status;
}

static tr_status save_to_store(const tr_saved_job_desc *desc, const tr_scope *scope, const char *save)
{
    growing          lines;
    const tr_tensor *value = NULL;

    TR_TRY(begin_text(&lines));
    tr_status status = TR_OK;
    for (int i = 0; status == TR_OK && i < desc->saved_count; i++) {
        status = find(&value, scope, desc->saved[i]);
        if (status == TR_OK)
            status = upload(lines.out, value, save, desc->saved[i]);
    }
    status = end_text(&lines, status);
    if (status == TR_OK)
        status = upload_lines(&lines, save);
    free(lines.bytes);
    return status;
}

tr_status tr_saved_job_save(const tr_saved_job_desc *desc, const tr_scope *scope)
{
    const tr_tensor *value = NULL;
    char            *save;

    if (tr_store_is_uri(desc->save_folder)) {
        TR_TRY(tr_store_new_save(&save, desc->save_folder));
        const tr_status status = save_to_store(desc, scope, save);
        free(save);
        return status == TR_OK ? tr_store_remove_old(desc->save_folder) : status;
    }
    for (int i = 0; i < desc->saved_count; i++) {
        TR_TRY(find(&value, scope, desc->saved[i]));
        TR_TRY(save_to_file(value, desc->save_folder, desc->saved[i]));
    }
    return TR_OK;
}
