#include "pserver/core/snapshots/server_row_files.h"

#include "framework/base/memory.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_set_rows.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"
#include "storage/util/buffer.h"

#include <stdlib.h>
#include <string.h>

typedef enum phase {
    WAITS,
    UNDER_WAY,                        /* the rank's thread writes or reads the file, one at a time */
    MOVED,                            /* the file is written or read, or this has failed */
    REPLICATES,                       /* the replica does not have the rows yet */
} phase;

/* A request, until it is answered. */
typedef struct wish {
    struct wish                *next;
    tr_wire                     wire;
    int                         trainer;
    Trireme__Pserver__RowsFile *file;
    phase                       phase;
    void                       *rows; /* of a file that was read */
    uint64_t                    bytes;
    tr_form_rows_file           answer;
    char                       *text; /* why not */
} wish;

struct tr__row_files {
    wish *first;
};

/* == life ===================================================================================== */

void tr__row_files_new(tr_server *server)
{
    server->row_files = tr__must_alloc(sizeof *server->row_files);
}

static void drop_first(tr__row_files *files)
{
    wish *w = files->first;

    files->first = w->next;
    trireme__pserver__rows_file__free_unpacked(w->file, NULL);
    free(w->rows);
    free(w->text);
    free(w);
}

void tr__row_files_free(tr_server *server)
{
    while (server->row_files->first)
        drop_first(server->row_files);
    free(server->row_files);
}

/* == requests ================================================================================= */

static tr_status check_save(const tr_server *server, const tr__trainer *trainer, const tr_form_save_rows *what)
{
    const Trireme__Pserver__Table *t = what->table < server->table_count ? server->setup->tables[what->table] : NULL;

    if (!t || !what->shards || what->shard < t->first_shard || what->shard - t->first_shard > t->shard_count ||
        what->shards > t->shard_count - (what->shard - t->first_shard))
        return tr_fail(TR_EFORMAT, "%s wants %u shards of table %u from shard %u on, which this server does not have",
                       tr__server_trainer_name(server, trainer), what->shards, what->table, what->shard);
    return TR_OK;
}

static tr_status check(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (!server->setup || (wire->kind == TR_WIRE_SAVE_ROWS && !server->is_running))
        return tr_fail(TR_EPEER, "%s sent %s before the job has begun", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind));
    if (wire->kind == TR_WIRE_LOAD_ROWS)
        return tr__set_rows_check(server, trainer, wire->load_rows.table);
    if (!tr__server_lags(trainer, wire->save_rows.step))
        TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    return check_save(server, trainer, &wire->save_rows);
}

static bool is_known(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    for (const wish *w = server->row_files->first; w; w = w->next)
        if (w->trainer == trainer->index && w->wire.seq == wire->seq && w->wire.incarnation == wire->incarnation)
            return true;
    return false;
}

static tr_status on_file(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    TR_TRY(check(server, trainer, wire));
    Trireme__Pserver__RowsFile *file = trireme__pserver__rows_file__unpack(NULL, wire->bytes, payload);
    if (!file)
        return tr_fail(TR_EFORMAT, "%s sent a damaged %s", tr__server_trainer_name(server, trainer), tr_wire_kind_name(wire->kind));
    wish **end = &server->row_files->first;
    while (*end)
        end = &(*end)->next;
    wish *w = *end = tr__must_alloc(sizeof *w);
    *w = (wish){.wire = *wire, .trainer = trainer->index, .file = file};
    tr__server_due(server, TR__RULE_ANSWER);
    return TR_OK;
}

static void on_file_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!is_known(server, trainer, wire) && !tr__stream_is_parked(server, trainer))
        on_file(server, trainer, wire, (uint8_t *)(uintptr_t)payload, false);       /* if it does not fit any more, nobody waits for it */
}

const tr__handler tr__row_files_handlers[] = {
    {TR_WIRE_SAVE_ROWS, on_file, on_file_again}, {TR_WIRE_LOAD_ROWS, on_file, on_file_again}, {0}};

/* == the work ================================================================================= */

static bool may_begin(const tr_server *server, const wish *w)
{
    if (!server->is_running)
        return true;
    if (tr__updates_is_updating(server))
        return false;
    return w->wire.kind == TR_WIRE_LOAD_ROWS ||
           tr__pulls_may_answer(server, &server->trainer[w->trainer], w->wire.save_rows.step, w->wire.save_rows.step);
}

/* Append the rows of a shard. */
static tr_status pack_shard(char **all, uint64_t *capacity, uint64_t *used, const tr_server *server, const tr_form_save_rows *what,
                            uint32_t shard)
{
    void    *rows;
    uint64_t bytes;

    TR_TRY(server->store.read_rows(server->store.self, what->table, shard, false, what->since, &rows, &bytes));
    const tr_status status = tr_buffer_reserve(all, capacity, *used + bytes, 1);
    if (status == TR_OK && bytes)
        memcpy(*all + *used, rows, bytes);
    *used += bytes;
    free(rows);
    return status;
}

/* Pack the rows of the shards, one behind the other. */
static tr_status pack(void **out, uint64_t *size, const tr_server *server, const tr_form_save_rows *what)
{
    char     *all = NULL;
    uint64_t  capacity = 0;
    tr_status status = tr_buffer_reserve(&all, &capacity, 1, 1);

    *size = 0;
    for (uint32_t shard = what->shard; status == TR_OK && shard < what->shard + what->shards; shard++)
        status = pack_shard(&all, &capacity, size, server, what, shard);
    if (status != TR_OK)
        free(all);
    *out = all;
    return status;
}

static tr_table_file file_of(const wish *w)
{
    const Trireme__Pserver__RowsFile *f = w->file;
    const tr_form_save_rows          *save = &w->wire.save_rows;
    tr_table_file                     file = {
        .path = f->path, .crc = f->has_crc ? (int64_t)f->crc : -1, .rows = (int64_t)f->rows, .head_bytes = (int64_t)f->head_bytes};

    if (w->wire.kind == TR_WIRE_LOAD_ROWS)
        return file;
    file.head = f->has_head ? f->head.data : NULL;
    file.head_bytes = (int64_t)f->head.len;
    file.count_at = (int64_t)f->count_at;
    file.shard = (int)save->shard;
    file.shards = (int)save->shards;
    return file;
}

/* The store may be done before it returns. */
static tr_status begin(tr_server *server, wish *w)
{
    const tr_table_file file = file_of(w);
    const tr_store     *store = &server->store;
    void               *rows;
    uint64_t            bytes;

    if (!store->save_rows)
        return tr_fail(TR_EUNSUPPORTED, "this server writes and reads no files");
    w->phase = UNDER_WAY;
    if (w->wire.kind == TR_WIRE_LOAD_ROWS) {
        store->load_rows(store->worker, w->wire.load_rows.table, &file);
        return TR_OK;
    }
    TR_TRY(pack(&rows, &bytes, server, &w->wire.save_rows));
    store->save_rows(store->worker, w->wire.save_rows.table, &file, rows, bytes);
    return TR_OK;
}

static void send_answer(tr_server *server, const wish *w)
{
    const tr__trainer *trainer = &server->trainer[w->trainer];
    const size_t       bytes = w->text ? strlen(w->text) : 0;

    if (w->wire.incarnation == trainer->incarnation)
        tr__server_send(
            server, trainer->rank,
            (tr_wire){
                .kind = TR_WIRE_ROWS_FILE, .incarnation = trainer->incarnation, .seq = w->wire.seq, .bytes = bytes, .rows_file = w->answer},
            bytes ? memcpy(tr__must_bytes(bytes), w->text, bytes) : NULL);
}

static void note(wish *w, tr_status status)
{
    w->phase = MOVED;
    w->answer.status = (uint32_t)status;
    w->text = status == TR_OK ? NULL : tr__must_strdup(tr_error());
}

static void try_to_begin(tr_server *server, wish *w)
{
    const tr_status status = begin(server, w);

    if (status != TR_OK)
        note(w, status);
}

static bool is_gone(const tr_server *server, const wish *w)
{
    return w->wire.incarnation != server->trainer[w->trainer].incarnation;
}

/* While rows are put into the table the next file is read. What is written is packed when its turn comes. */
static void read_ahead(tr_server *server, wish *next)
{
    if (next && next->phase == WAITS && next->wire.kind == TR_WIRE_LOAD_ROWS && !is_gone(server, next) && may_begin(server, next))
        try_to_begin(server, next);
}

/* The rows of a file are as those of WRITE_ROWS. */
static void set_rows(tr_server *server, wish *w)
{
    const tr_form_write_rows what = {.step = w->wire.load_rows.step, .table = w->wire.load_rows.table};
    bool                     replicates = false;
    tr_status                status = TR_OK;

    if (w->bytes && !w->wire.load_rows.only_checks && !is_gone(server, w))
        status = tr__set_rows_take(&replicates, server, &server->trainer[w->trainer], &what, w->rows, w->bytes);
    if (status != TR_OK)
        note(w, status);
    free(w->rows);
    w->rows = NULL;
    if (replicates)
        w->phase = REPLICATES;
}

void tr__row_files_look(tr_server *server)
{
    tr__row_files *files = server->row_files;

    for (wish *w; (w = files->first) && w->phase != UNDER_WAY;) {
        if (w->phase == WAITS && !is_gone(server, w)) {
            if (!may_begin(server, w))
                return;
            try_to_begin(server, w);
            continue;
        }
        if (w->phase == MOVED && w->rows) {
            read_ahead(server, w->next);
            set_rows(server, w);
        }
        if (w->phase == REPLICATES && !tr__replication_has_rows(server))
            return;
        send_answer(server, w);
        drop_first(files);
    }
}

void tr__row_files_done(tr_server *server, tr_status status, const tr_table_file *file, void *rows, uint64_t bytes)
{
    wish *w = server->row_files->first;

    while (w->phase != UNDER_WAY)
        w = w->next;
    note(w, status);
    if (status == TR_OK) {
        w->answer.rows = (uint64_t)file->rows;
        w->answer.last = (uint32_t)file->last;
        w->answer.crc = (uint32_t)file->crc;
    }
    w->rows = rows;
    w->bytes = bytes;
    tr__server_due(server, TR__RULE_ANSWER);
}
