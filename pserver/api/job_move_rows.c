/* job_move_rows.c - rows of tables that a script saves, loads or sets (trireme_dist.h).
 *
 * Files are written and read by the servers (server_row_files.h), so rows need no way through a trainer. Where a server's host does not see
 * a file, the trainer that has asked moves the rows.
 *
 * Rows may be set between two steps, while the servers have them. A value that a script sets travels with the next step (job_sets.h). Rows
 * cannot: the forward part of the next step, and any look-up before it, asks the servers for them. So the trainers come together, one of
 * them sends the rows, and they come together again. No step is under way meanwhile.
 *
 * What must stay true: each trainer has called tr_job_set_rows_begin before one of them calls tr_job_set_rows, and that call has returned
 * before a trainer calls tr_job_set_rows_end. The caller sees to that by a collective before and behind it. */
#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_tables.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/store/server_part.h"
#include "pserver/trireme_rows.h"
#include "storage/checkpoint/table_file.h"
#include "storage/stores/object_store.h"
#include "storage/table/table_var.h"

#include "proto/pserver.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t WINDOW = (uint64_t)64 << 20;     /* of bytes on their way */
enum { PIECE = 4 << 20 };             /* bytes of rows in a message */

/* == requests ==================================================================================== */

static void pack_file(tr_client_move *to, const Trireme__Pserver__RowsFile *file)
{
    to->size = trireme__pserver__rows_file__get_packed_size(file);
    to->packed = tr__must_bytes(to->size);
    trireme__pserver__rows_file__pack(file, to->packed);
}

static void ask_to_save(tr_client_move *to, const tr_table_file *file, int table, int server)
{
    Trireme__Pserver__RowsFile packed = TRIREME__PSERVER__ROWS_FILE__INIT;

    packed.path = (char *)(uintptr_t)file->path;
    packed.has_head = file->head != NULL;
    packed.head.data = (uint8_t *)(uintptr_t)file->head;
    packed.head.len = file->head ? (size_t)file->head_bytes : 0;
    packed.has_count_at = packed.has_head;
    packed.count_at = (uint64_t)file->count_at;
    pack_file(to, &packed);
    to->server = server;
    to->wire = (tr_wire){
        .kind = TR_WIRE_SAVE_ROWS,
        .save_rows = {
            .table = (uint32_t)table, .shard = (uint32_t)file->shard, .shards = (uint32_t)file->shards, .since = (uint32_t)file->since}};
}

static void ask_to_load(tr_client_move *to, const tr_table_file *file, int table, int server, bool only_checks)
{
    Trireme__Pserver__RowsFile packed = TRIREME__PSERVER__ROWS_FILE__INIT;

    packed.path = (char *)(uintptr_t)file->path;
    packed.has_head_bytes = packed.has_rows = true;
    packed.head_bytes = (uint64_t)file->head_bytes;
    packed.rows = (uint64_t)file->rows;
    packed.has_crc = file->crc >= 0;
    packed.crc = (uint32_t)file->crc;
    pack_file(to, &packed);
    to->server = server;
    to->wire = (tr_wire){.kind = TR_WIRE_LOAD_ROWS, .load_rows = {.table = (uint32_t)table, .only_checks = only_checks}};
}

/* Ask all at once, and wait for all answers. After a failure the communication thread may still write into `move`. */
static tr_status ask(tr_job *job, tr_client_move *move, int count)
{
    tr_ticket ticket = 0;

    for (int i = 0; i < count; i++)
        TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__MOVE_ROWS, .is_urgent = i + 1 == count}, .move_rows = &move[i]}, &ticket));
    return count ? tr_job_wait(job, ticket) : TR_OK;
}

static tr_status status_of(const tr_client_move *move, const tr_job *job)
{
    const tr_roster *roster = tr_comm_roster(job->rank.comm);

    if (move->answer.status == TR_OK)
        return TR_OK;
    return tr_fail((tr_status)move->answer.status, "%s: %s", tr_roster_name(roster, roster->server_rank[move->server]), move->text);
}

static void free_texts(tr_client_move *move, int count)
{
    for (int i = 0; i < count; i++)
        free(move[i].text);
    free(move);
}

/* == saving ====================================================================================== */

/* This process writes the file. It reads the rows from the servers, or from its own table. */
static tr_status save_here(tr_table_file *file, const tr_table_config *config, const tr_scope *scope, const char *name)
{
    void   *rows = NULL;
    int64_t bytes = 0;

    TR_TRY(tr_table_read_rows(&rows, &bytes, scope, name, file->shard, file->shards, file->since));
    const tr_status status = tr_table_file_write(file, config, rows, (uint64_t)bytes);
    free(rows);
    return status;
}

static bool is_here(const tr_table_file *file)
{
    return tr_store_is_uri(file->path) || access(file->path, F_OK) == 0;
}

/* What a server has written, unless its host has another folder of this name. */
static tr_status take_saved(tr_table_file *file, const tr_client_move *move, const tr_job *job)
{
    TR_TRY(status_of(move, job));
    file->rows = (int64_t)move->answer.rows;
    file->crc = (int64_t)move->answer.crc;
    file->last = (int64_t)move->answer.last;
    return is_here(file) ? TR_OK : TR_ENOTFOUND;
}

static tr_status save_by_servers(tr_client_move *move, tr_table_file *files, int count, const tr_table_config *config, tr_job *job,
                                 const tr_scope *scope, const char *name)
{
    for (int i = 0; i < count; i++) {
        tr_status status = take_saved(&files[i], &move[i], job);
        if (status == TR_ENOTFOUND)
            status = save_here(&files[i], config, scope, name);
        TR_TRY(status);
    }
    return TR_OK;
}

tr_status tr_table_save_files(const tr_scope *scope, const char *name, int count, tr_table_file *files)
{
    tr_job       *job;
    tr_table_var *tv;
    int           table;

    TR_TRY(tr_table_var_of(&tv, tr_scope_find(scope, name), "tr_table_save_files", name));
    TR_TRY(tr__job_of_rows(&job, &table, scope, name));
    for (int i = 0; i < count && !job; i++)
        TR_TRY(save_here(&files[i], &tv->config, scope, name));
    if (!job)
        return TR_OK;
    TR_TRY(tr__job_check_ready(job, "tr_table_save_files"));
    tr_client_move *move = tr__must_array((size_t)count + 1, sizeof *move);
    for (int i = 0; i < count; i++)
        ask_to_save(&move[i], &files[i], table, tr_server_of_shard((uint32_t)files[i].shard, tr_job_servers(job)));
    TR_TRY(ask(job, move, count));
    const tr_status status = save_by_servers(move, files, count, &tv->config, job, scope, name);
    free_texts(move, count);
    return status;
}

/* The first shards of files with the rows of shards `from` to `to`, of about `most` bytes each, and none beyond a multiple of `step`. */
static int cut(int *first, int count, int from, int to, int64_t bytes, int64_t most, int step)
{
    const int64_t fit = bytes > most ? (to - from) * most / bytes : to - from;

    while (from < to) {
        int64_t next = from + (fit > 0 ? fit : 1);
        next = next > to ? to : next;
        next = next > (from / step + 1) * step ? (from / step + 1) * step : next;
        first[count++] = from;
        from = (int)next;
    }
    return count;
}

tr_status tr_table_cut_files(int *first, int *count, const tr_scope *scope, const char *name, int64_t most, int least)
{
    tr_job       *job;
    int           table;
    tr_table_part part;

    TR_TRY(tr__job_of_rows(&job, &table, scope, name));
    const int servers = job ? tr_job_servers(job) : 1;
    *count = 0;
    for (int s = 0; s < servers; s++) {
        TR_TRY(tr_table_get_part(&part, scope, name, s));
        *count = cut(first, *count, (int)tr_first_shard(s, servers), (int)tr_first_shard(s + 1, servers), part.rows * part.row_bytes, most,
                     TR_SHARDS / least);
    }
    first[*count] = TR_SHARDS;
    return TR_OK;
}

/* == loading ===================================================================================== */

static bool has_rows_of(const tr_table_file *file, int server, int servers)
{
    return file->shard < (int)tr_first_shard(server + 1, servers) && file->shard + file->shards > (int)tr_first_shard(server, servers);
}

static tr_status send_rows(tr_job *job, int table, int server, const char *rows, uint64_t bytes, uint64_t stride)
{
    const uint64_t most = stride < PIECE ? PIECE / stride * stride : stride;
    tr_ticket      ticket = 0;

    for (uint64_t at = 0; at < bytes; at += most) {
        const uint64_t  size = bytes - at < most ? bytes - at : most;
        tr__write_call *call = tr__must_alloc(sizeof *call);
        *call = (tr__write_call){
            server, false, 0, {.table = (uint32_t)table, .data = memcpy(tr__must_bytes(size), rows + at, size), .bytes = size}};
        TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__WRITE_ROWS, .is_urgent = true}, .write_rows = call}, &ticket));
    }
    return bytes ? tr_job_wait(job, ticket) : TR_OK;
}

/* The server's host does not see the file: read it here. */
static tr_status load_here(tr_job *job, int table, int server, const tr_table_config *config, const tr_table_file *file, bool only_checks)
{
    const uint32_t first = tr_first_shard(server, tr_job_servers(job)), end = tr_first_shard(server + 1, tr_job_servers(job));
    void          *rows;
    uint64_t       bytes;

    TR_TRY(tr_table_file_read(&rows, &bytes, file, config, first, end - first));
    const tr_status status = only_checks ? TR_OK : send_rows(job, table, server, rows, bytes, tr_table_stride(config));
    free(rows);
    return status;
}

static tr_status take_loaded(tr_job *job, int table, const tr_table_config *config, const tr_client_move *move, const tr_table_file *file)
{
    if (move->answer.status == TR_ENOTFOUND)
        return load_here(job, table, move->server, config, file, move->wire.load_rows.only_checks);
    return status_of(move, job);
}

tr_status tr__job_load_files(tr_job *job, int table, const tr_table_config *config, const tr_table_files *files, bool only_checks)
{
    const int             servers = tr_job_servers(job);
    tr_client_move       *move = tr__must_array((size_t)(files->count * servers) + 1, sizeof *move);
    const tr_table_file **of = tr__must_array((size_t)(files->count * servers) + 1, sizeof *of);
    int                   count = 0;

    for (int i = 0; i < files->count; i++)
        for (int s = 0; s < servers; s++)
            if (has_rows_of(&files->file[i], s, servers)) {
                ask_to_load(&move[count], &files->file[i], table, s, only_checks);
                of[count++] = &files->file[i];
            }
    tr_status status = ask(job, move, count);
    if (status != TR_OK)
        return status;                             /* the communication thread may still write into the moves */
    for (int i = 0; i < count && status == TR_OK; i++)
        status = take_loaded(job, table, config, &move[i], of[i]);
    free_texts(move, count);
    free(of);
    return status;
}

/* The rows of files are wanted in this process after all. */
static tr_status read_all(tr_table *table, const tr_table_files *files)
{
    for (int i = 0; i < files->count; i++) {
        void    *rows;
        uint64_t bytes;
        TR_TRY(tr_table_file_read(&rows, &bytes, &files->file[i], tr_table_get_config(table), 0, TR_SHARDS));
        const tr_status status = tr_table_unpack(table, rows, bytes);
        free(rows);
        TR_TRY(status);
    }
    return TR_OK;
}

tr_status tr_table_load_files(const tr_scope *scope, const char *name, int count, const tr_table_file *files, bool later)
{
    tr_table_var *tv;
    tr_table     *table;

    TR_TRY(tr_table_var_of(&tv, tr_scope_find(scope, name), "tr_table_load_files", name));
    if (tv->source || tv->mapped)
        return tr_fail(TR_EINVAL, "tr_table_load_files: the rows of table '%s' are elsewhere: tr_job_set_rows gives the servers others",
                       name);
    tr_table_files *own = tr__must_alloc(sizeof *own);
    *own = (tr_table_files){count, tr__must_array((size_t)count + 1, sizeof *own->file), read_all};
    for (int i = 0; i < count; i++) {
        own->file[i] = files[i];
        own->file[i].path = tr__must_strdup(files[i].path);
    }
    tr_table_var_read_later(tv, own);
    const tr_status status = later ? TR_OK : tr_table_var_table(&table, tv);
    if (status != TR_OK)
        tr_table_var_read_later(tv, NULL);
    return status;
}

/* == rows that are set between two steps ========================================================== */

bool tr_job_has_rows(const tr_scope *scope, const char *name)
{
    return tr_table_var_is_bound(tr_scope_find(scope, name));
}

static tr_status table_of(tr_job **job, int *table, const tr_scope *scope, const char *name)
{
    TR_TRY(tr__job_of_rows(job, table, scope, name));
    return *job ? TR_OK : tr_fail(TR_ENOTFOUND, "tr_job_set_rows: the servers have no rows of '%s' in this scope", name);
}

tr_status tr_job_set_rows_begin(const tr_scope *scope, const char *name)
{
    tr_job *job;
    int     table;

    TR_TRY(table_of(&job, &table, scope, name));
    if (job->policy.trains_copies || job->policy.backups)
        return tr_fail(
            TR_EUNSUPPORTED,
            "rows of table '%s' are set after step %lld; in mode %s the servers take none. Set or load them before the first step, or "
            "use another mode",
            name, (long long)job->step, job->mode);
    return tr__job_await_servers(job, table);
}

static tr_status send(tr_ticket *ticket, tr_job *job, int server, const tr_client_pack *rows, bool clears, uint64_t clock)
{
    tr__write_call *call = tr__must_alloc(sizeof *call);

    *call = (tr__write_call){server, clears, clock, *rows};
    const tr_status status = tr__job_call(job, &(tr__command){.head = {TR__WRITE_ROWS, .is_urgent = true}, .write_rows = call}, ticket);
    if (status != TR_OK) {
        free(call->rows.data);
        free(call);
    }
    return status;
}

/* Send the rows and the candidates of one virtual shard. */
static tr_status send_shard(tr_ticket *ticket, uint64_t *bytes, tr_job *job, int table, const tr_table *from, uint32_t shard)
{
    tr_client_pack pack[2];
    int            count = 0;
    tr_status      status = tr__job_pack_shard(pack, &count, from, table, shard);

    for (int i = 0; i < count; i++) {
        *bytes += pack[i].bytes;
        if (status == TR_OK)
            status = send(ticket, job, tr_server_of_shard(shard, tr_job_servers(job)), &pack[i], false, 0);
        else
            free(pack[i].data);
    }
    return status;
}

tr_status tr_job_set_rows(const tr_scope *scope, const char *name, const tr_scope *source, bool clear)
{
    tr_job       *job;
    tr_ticket     ticket = 0;
    tr_table_var *tv;
    tr_table     *from;
    uint64_t      bytes = 0;
    int           table;

    TR_TRY(table_of(&job, &table, scope, name));
    TR_TRY(tr__job_check_ready(job, "tr_job_set_rows"));
    TR_TRY(tr_table_var_of(&tv, tr_scope_find(source, name), "tr_job_set_rows", name));
    if (!tv->files)
        TR_TRY(tr_table_var_table(&from, tv));
    if (tv->config.width != job->tables.item[table].width || tv->config.dtype != job->tables.item[table].dtype)
        return tr_fail(TR_ESHAPE, "tr_job_set_rows: rows of %lld %s for table '%s', the servers have %lld %s", (long long)tv->config.width,
                       tr_dtype_name(tv->config.dtype), name, (long long)job->tables.item[table].width,
                       tr_dtype_name(job->tables.item[table].dtype));
    if (tv->files)                                     /* a damaged file must be known before rows go */
        TR_TRY(tr__job_load_files(job, table, &tv->config, tv->files, true));
    for (int server = 0; clear && server < tr_job_servers(job); server++)
        TR_TRY(send(&ticket, job, server, &(tr_client_pack){.table = (uint32_t)table}, true, tv->updates));
    if (tv->files)
        return tr__job_load_files(job, table, &tv->config, tv->files, false);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        TR_TRY(send_shard(&ticket, &bytes, job, table, from, shard));
        if (bytes < WINDOW)
            continue;
        TR_TRY(tr_job_wait(job, ticket));
        bytes = 0;
    }
    return tr_job_wait(job, ticket);
}

tr_status tr_job_set_rows_end(const tr_scope *scope, const char *name)
{
    tr_job *job;
    int     table;

    TR_TRY(table_of(&job, &table, scope, name));
    return tr__job_forget_rows(job, table);
}
