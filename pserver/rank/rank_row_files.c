#include "pserver/rank/rank_row_files.h"

#include "framework/base/memory.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/table_file.h"

#include <stdlib.h>
#include <string.h>

/* The wish hands the fields below it over to the owner, TR__ROW_FILE hands them back. */
struct tr__row_files_of_rank {
    tr__rank              *rank;
    tr_background          background;
    atomic_bool            is_wished;
    bool                   is_under_way, is_saved;
    const tr_table_config *config;
    uint32_t               first_shard, shard_count;      /* of this server */
    tr_table_file          file;
    char                  *path;
    void                  *head, *rows;
    uint64_t               bytes;
    tr_status              status;
    char                  *error;
};

tr__row_files_of_rank *tr__rank_row_files_new(tr__rank *rank)
{
    tr__row_files_of_rank *f = tr__must_alloc(sizeof *f);

    f->rank = rank;
    return f;
}

void tr__rank_row_files_end(tr__row_files_of_rank *f)
{
    tr_background_join(&f->background);
}

void tr__rank_row_files_free(tr__row_files_of_rank *f)
{
    if (!f)
        return;
    free(f->path);
    free(f->head);
    free(f->rows);
    free(f->error);
    free(f);
}

/* == the driver ================================================================================== */

static void wish(tr__row_files_of_rank *f, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes)
{
    free(f->path);
    free(f->head);
    f->config = tr_server_program_table_config(f->rank->program, table, &f->first_shard, &f->shard_count);
    f->path = tr__must_strdup(file->path);
    f->head = file->head ? memcpy(tr__must_bytes((size_t)file->head_bytes), file->head, (size_t)file->head_bytes) : NULL;
    f->file = *file;
    f->file.path = f->path;
    f->file.head = f->head;
    f->rows = packed;
    f->bytes = bytes;
    f->is_saved = packed != NULL;
    atomic_store(&f->is_wished, true);
    tr__bell_ring(&f->rank->bell);
}

void tr__rank_row_files_save(tr__row_files_of_rank *f, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes)
{
    wish(f, table, file, packed, bytes);
}

void tr__rank_row_files_load(tr__row_files_of_rank *f, uint32_t table, const tr_table_file *file)
{
    wish(f, table, file, NULL, 0);
}

tr_status tr__rank_row_files_take(const tr_table_file **file, void **rows, uint64_t *bytes, tr__row_files_of_rank *f)
{
    *file = &f->file;
    *rows = f->rows;
    *bytes = f->bytes;
    f->rows = NULL;
    if (f->status != TR_OK)
        tr_fail(f->status, "%s", f->error);
    free(f->error);
    f->error = NULL;
    return f->status;
}

/* == the owner =================================================================================== */

static void *run(void *self)
{
    tr__row_files_of_rank *f = self;

    if (f->is_saved)
        f->status = tr_table_file_write(&f->file, f->config, f->rows, f->bytes);
    else
        f->status = tr_table_file_read(&f->rows, &f->bytes, &f->file, f->config, f->first_shard, f->shard_count);
    if (f->status != TR_OK)
        f->error = tr__must_strdup(tr_error());
    if (f->is_saved) {
        free(f->rows);
        f->rows = NULL;
        f->bytes = 0;
    }
    tr_background_end(&f->background);
    tr__bell_ring(&f->rank->bell);
    return NULL;
}

bool tr__rank_row_files_is_due(const tr__row_files_of_rank *f)
{
    return atomic_load(&f->is_wished) || (f->is_under_way && !tr_background_is_under_way(&f->background));
}

static tr_status tell(const tr__row_files_of_rank *f)
{
    return tr__rank_post(f->rank, &(tr__command){.head = {TR__ROW_FILE, .is_urgent = true}});
}

tr_status tr__rank_row_files_serve(tr__row_files_of_rank *f)
{
    if (f->is_under_way && !tr_background_is_under_way(&f->background)) {
        tr_background_join(&f->background);
        f->is_under_way = false;
        TR_TRY(tell(f));
    }
    if (!atomic_exchange(&f->is_wished, false))
        return TR_OK;
    const tr_status begun = tr_background_begin(&f->background, run, f, "move rows of a table");
    f->is_under_way = begun == TR_OK;              /* the thread may have ended already, and has said how */
    if (f->is_under_way)
        return TR_OK;
    f->status = begun;
    f->error = tr__must_strdup(tr_error());
    return tell(f);
}
