#include "pserver/rank/rank_moving.h"

#include "framework/base/memory.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/table_file.h"

#include <stdlib.h>
#include <string.h>

/* The wish hands the fields below it over to the owner, TR__MOVED hands them back. */
struct tr__moving {
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

tr__moving *tr__moving_new(tr__rank *rank)
{
    tr__moving *m = tr__must_alloc(sizeof *m);

    m->rank = rank;
    return m;
}

void tr__moving_end(tr__moving *m)
{
    tr_background_join(&m->background);
}

void tr__moving_free(tr__moving *m)
{
    if (!m)
        return;
    free(m->path);
    free(m->head);
    free(m->rows);
    free(m->error);
    free(m);
}

/* == the driver ================================================================================== */

static void wish(tr__moving *m, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes)
{
    free(m->path);
    free(m->head);
    m->config = tr_server_program_table_config(m->rank->program, table, &m->first_shard, &m->shard_count);
    m->path = tr__must_strdup(file->path);
    m->head = file->head ? memcpy(tr__must_bytes((size_t)file->head_bytes), file->head, (size_t)file->head_bytes) : NULL;
    m->file = *file;
    m->file.path = m->path;
    m->file.head = m->head;
    m->rows = packed;
    m->bytes = bytes;
    m->is_saved = packed != NULL;
    atomic_store(&m->is_wished, true);
    tr__bell_ring(&m->rank->bell);
}

void tr__moving_save(tr__moving *m, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes)
{
    wish(m, table, file, packed, bytes);
}

void tr__moving_load(tr__moving *m, uint32_t table, const tr_table_file *file)
{
    wish(m, table, file, NULL, 0);
}

tr_status tr__moving_take(const tr_table_file **file, void **rows, uint64_t *bytes, tr__moving *m)
{
    *file = &m->file;
    *rows = m->rows;
    *bytes = m->bytes;
    m->rows = NULL;
    if (m->status != TR_OK)
        tr_fail(m->status, "%s", m->error);
    free(m->error);
    m->error = NULL;
    return m->status;
}

/* == the owner =================================================================================== */

static void *run(void *self)
{
    tr__moving *m = self;

    if (m->is_saved)
        m->status = tr_table_file_write(&m->file, m->config, m->rows, m->bytes);
    else
        m->status = tr_table_file_read(&m->rows, &m->bytes, &m->file, m->config, m->first_shard, m->shard_count);
    if (m->status != TR_OK)
        m->error = tr__must_strdup(tr_error());
    if (m->is_saved) {
        free(m->rows);
        m->rows = NULL;
        m->bytes = 0;
    }
    tr_background_end(&m->background);
    tr__bell_ring(&m->rank->bell);
    return NULL;
}

bool tr__moving_is_due(const tr__moving *m)
{
    return atomic_load(&m->is_wished) || (m->is_under_way && !tr_background_is_under_way(&m->background));
}

static tr_status tell(const tr__moving *m)
{
    return tr__rank_post(m->rank, &(tr__command){.head = {TR__MOVED, .is_urgent = true}});
}

tr_status tr__moving_serve(tr__moving *m)
{
    if (m->is_under_way && !tr_background_is_under_way(&m->background)) {
        tr_background_join(&m->background);
        m->is_under_way = false;
        TR_TRY(tell(m));
    }
    if (!atomic_exchange(&m->is_wished, false))
        return TR_OK;
    const tr_status begun = tr_background_begin(&m->background, run, m, "move rows of a table");
    m->is_under_way = begun == TR_OK;              /* the thread may have ended already, and has said how */
    if (m->is_under_way)
        return TR_OK;
    m->status = begun;
    m->error = tr__must_strdup(tr_error());
    return tell(m);
}
