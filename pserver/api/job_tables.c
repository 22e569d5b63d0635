/* job_tables.c - the tables of a trainer: their setup, and reading and writing all of their rows. Steps are in job_rows.c. */
#include "pserver/api/job_tables.h"

#include "framework/base/memory.h"
#include "framework/base/name.h"
#include "pserver/api/job_calls.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/store/server_part.h"
#include "pserver/store/table_places.h"
#include "pserver/trireme_rows.h"
#include "storage/memory/segment.h"
#include "storage/memory/trainer_vars.h"
#include "storage/table/table_report.h"
#include "storage/table/table_var.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)TR_JOB_TABLE_STATES == (int)TR_TABLE_STATES, "a job's table has room for the states that a table has");

/* == tables ===================================================================================== */

tr_status tr__job_check_tables(const tr_job_spec *spec)
{
    if (spec->cache_rows < 0 || spec->cache_staleness < 0)
        return tr_fail(TR_ERANGE, "tr_job_setup: %lld rows are to be kept for %lld steps", (long long)spec->cache_rows,
                       (long long)spec->cache_staleness);
    for (int i = 0; i < spec->table_count; i++) {
        const tr_job_table   *t = &spec->tables[i];
        const tr_table_config config = {.dtype = t->dtype, .width = t->width, .states = t->states, .init = (tr_table_init)t->init,
                                        .entry_probability = t->entry_probability};
        if (!t->name)
            return tr_fail(TR_EINVAL, "tr_job_setup: table %d has no name", i);
        const tr_status status = tr_table_check_config(&config);
        if (status != TR_OK)
            return tr_context(status, "in tr_job_setup: table '%s'", t->name);
        for (int j = 0; j < i; j++)
            if (!strcmp(spec->tables[j].name, t->name))
                return tr_fail(TR_EEXIST, "tr_job_setup: there are two tables '%s'", t->name);
    }
    return TR_OK;
}

/* == rows on servers' disks ====================================================================== */

tr_status tr_job_spill_table(tr_job *job, const char *name, int64_t memory, const char *folder)
{
    tr__job_tables *tables = &job->tables;

    if (memory <= 0)
        return tr_fail(TR_ERANGE, "tr_job_spill_table: %lld bytes of table '%s' are to stay in memory", (long long)memory, name);
    tr__job_spill *grown = tr__must_array((size_t)tables->spill_count + 1, sizeof *grown);
    if (tables->spill_count)
        memcpy(grown, tables->spill, (size_t)tables->spill_count * sizeof *grown);
    free(tables->spill);
    tables->spill = grown;
    grown[tables->spill_count++] = (tr__job_spill){tr__must_strdup(name), tr__must_strdup(folder), (uint64_t)memory};
    return TR_OK;
}

const tr__job_spill *tr__job_spill_of(const tr_job *job, const char *table)
{
    for (int i = job->tables.spill_count; i-- > 0;)    /* what was said last */
        if (!strcmp(job->tables.spill[i].table, table))
            return &job->tables.spill[i];
    return NULL;
}

/* Only modes async and ssp have a cache: in sync a step needs a row as it is on the servers, and geo has copies of its own. */
static bool keeps_rows(const tr_job *job, const tr_job_spec *spec)
{
    return spec->cache_rows > 0 && spec->cache_staleness > 0 && job->policy.caches_rows;
}

/* In modes in which trainers train copies: open this trainer's copy of a table. If trainers' variables outlive the process, so do their
 * copies of tables: one that an earlier process has left is as after the job's present step. */
static tr_status open_own_table(tr_job *job, int table, const tr_job_table *from)
{
    enum { NUMBER = 16, LONGEST = TR_SEGMENT_NAME - 16 };      /* room for the suffixes of the table's segments */
    const tr_table_config config = tr_table_config_of(from);
    const char           *prefix = getenv("TRIREME_STATE");
    char                  trainer[LONGEST - NUMBER] = "", name[LONGEST];
    const bool            has_name = prefix && *prefix && tr_trainer_vars_name(trainer, sizeof trainer, prefix, tr_job_index(job));

    snprintf(name, sizeof name, "%s.%d", trainer, table);
    return tr_geo_rows_new(&job->tables.item[table].geo, &config, has_name ? name : NULL, (uint64_t)job->step);
}

tr_status tr__job_keep_tables(tr_job *job, const tr_job_spec *spec)
{
    const size_t servers = (size_t)tr_job_servers(job);

    job->tables.item = tr__must_array((size_t)spec->table_count + 1, sizeof *job->tables.item);
    for (int i = 0; i < spec->table_count; i++) {
        const tr_job_table *from = &spec->tables[i];
        tr__job_table      *t = &job->tables.item[i];
        t->name = tr__must_strdup(from->name);
        t->dtype = from->dtype;
        t->width = from->width;
        t->row_bytes = from->width * tr_dtype_size(from->dtype);
        t->pull = &t->transfer[0];
        t->next = &t->transfer[1];
        t->push = &t->transfer[2];
        t->later = &t->transfer[3];
        t->is_on_disk = tr_table_spill_folder() || tr__job_spill_of(job, from->name);
        for (int w = 0; w < TR__TRANSFERS; w++) {
            t->transfer[w].first = tr__must_array(servers + 1, sizeof *t->transfer[w].first);
            t->transfer[w].missing = tr__must_array(servers + 1, sizeof *t->transfer[w].missing);
        }
        job->tables.count++;
        if (keeps_rows(job, spec))
            TR_TRY(tr_row_cache_new(&t->cache, spec->cache_rows, t->row_bytes));
        if (job->policy.trains_copies)
            TR_TRY(open_own_table(job, i, from));
    }
    job->tables.cache_staleness = spec->cache_staleness;
    return TR_OK;
}

static void free_transfer(tr__rows_transfer *transfer)
{
    tr_keyset_deinit(&transfer->set);
    free(transfer->number);
    free(transfer->place);
    free(transfer->keys);
    free(transfer->rows);
    free(transfer->first);
    free(transfer->asked.key);
    free(transfer->split);
    free(transfer->missing);
}

static void free_spill(tr_job *job)
{
    for (int i = 0; i < job->tables.spill_count; i++) {
        free(job->tables.spill[i].table);
        free(job->tables.spill[i].folder);
    }
    free(job->tables.spill);
}

void tr__job_free_tables(tr_job *job)
{
    for (int i = 0; i < job->tables.count; i++) {
        for (int w = 0; w < TR__TRANSFERS; w++)
            free_transfer(&job->tables.item[i].transfer[w]);
        tr_row_cache_free(job->tables.item[i].cache);
        tr_geo_rows_free(job->tables.item[i].geo);
        free(job->tables.item[i].name);
    }
    free(job->tables.item);
    free_spill(job);
}

int tr_job_find_table(const tr_job *job, const char *name)
{
    for (int i = 0; i < job->tables.count; i++)
        if (!strcmp(job->tables.item[i].name, name))
            return i;
    return -1;
}

tr_status tr__job_of_rows(tr_job **out, int *table, const tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find(scope, name);

    *out = NULL;
    *table = -1;
    if (!tr_table_var_is_bound(var))
        return TR_OK;
    const tr_table_var *tv = var->object;
    *table = tv->number;
    return tr_table_var_job(out, tv);
}

const char *tr__job_first_missing_table(const tr_job *job)
{
    for (int i = 0; job->tables.pushed < job->tables.count && i < job->tables.count; i++)
        if (!job->tables.item[i].is_pushed)
            return job->tables.item[i].name;
    return NULL;
}

/* Where trainers do not step together, servers have made different numbers of updates. No row is newer than the highest. */
static tr_status ask_updates(int64_t *out, const tr_scope *scope, const char *name, int servers)
{
    tr_table_part part;

    for (int server = 0; server < servers; server++) {
        TR_TRY(tr_table_get_part(&part, scope, name, server));
        *out = part.updates > *out ? part.updates : *out;
    }
    return TR_OK;
}

tr_status tr_job_describe_table(tr_job_table *out, const tr_scope *scope, const char *name)
{
    tr_job       *job;
    tr_table_var *tv;
    int           table;

    TR_TRY(tr_table_var_of(&tv, tr_scope_find(scope, name), "tr_job_describe_table", name));
    tr_table_var_describe(out, tv, name);
    TR_TRY(tr__job_of_rows(&job, &table, scope, name));
    return job ? ask_updates(&out->updates, scope, name, tr_job_servers(job)) : TR_OK;
}

tr_status tr_table_declare(tr_scope *scope, const tr_job_table *table)
{
    const tr_table_config config = tr_table_config_of(table);

    TR_TRY(tr_table_check_config(&config));
    TR_TRY(tr_name_check(table->name));
    tr_var *var = tr__scope_var(scope, table->name);
    const tr_table_segment here = tr_table_var_place(var);
    TR_TRY(tr_table_var_set(var, &config, &here));
    ((tr_table_var *)var->object)->updates = (uint64_t)table->updates;
    return TR_OK;
}

int tr__job_change_share(const tr_job *job)
{
    return job->policy.gathers_per_trainer ? tr_job_trainers(job) : 1;
}

/* == all rows ===================================================================================== */

/* Keep the packed rows if there are any. */
static tr_status keep_pack(int *count, tr_client_pack *pack, tr_status status)
{
    if (status == TR_OK && pack->bytes)
        ++*count;
    else if (status == TR_OK)
        free(pack->data);
    return status;
}

/* Two messages for each shard, which has 1/1024 of the keys. */
tr_status tr__job_pack_shard(tr_client_pack *rows, int *count, const tr_table *table, int index, uint32_t shard)
{
    tr_client_pack *pack = &rows[*count];

    *pack = (tr_client_pack){.table = (uint32_t)index};
    TR_TRY(keep_pack(count, pack, tr_table_pack(table, shard, &pack->data, &pack->bytes)));
    pack = &rows[*count];
    *pack = (tr_client_pack){.table = (uint32_t)index, .has_candidates = true};
    return keep_pack(count, pack, tr_table_pack_candidates(table, shard, &pack->data, &pack->bytes));
}

int tr__job_pack_rows(tr_client_pack *rows, const tr_job_spec *spec, int server, int servers)
{
    int count = 0;

    for (int i = 0; i < spec->table_count; i++)
        for (uint32_t shard = tr_first_shard(server, servers); shard < tr_first_shard(server + 1, servers); shard++)
            if (spec->tables[i].first_rows && tr__job_pack_shard(rows, &count, spec->tables[i].first_rows, i, shard) != TR_OK)
                return -1;
    return count;
}

/* Make the calls, all at once. Operations end in the order of their tickets, so the last ticket is that of all. After a failure the thread
 * may still write into the calls, so they are not freed. */
static tr_status read_from_servers(tr__read_call *call, int count, tr_job *job)
{
    tr_ticket ticket = 0;

    for (int i = 0; i < count; i++)
        TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__READ_ROWS, .is_urgent = i + 1 == count}, .read_rows = &call[i]}, &ticket));
    return tr_job_wait(job, ticket);
}

/* Ask a server about its part of a table. `what`: TR_SHARDS for a tr_table_part, TR_SHARDS + 1 for a tr_table_disk. */
static tr_status read_about(void *out, size_t size, tr_job *job, int server, int table, uint32_t what)
{
    TR_TRY(tr__job_check_ready(job, "tr_table_get_part"));
    tr__read_call *call = tr__must_bytes(sizeof *call);
    *call = (tr__read_call){server, what, 0, {.table = (uint32_t)table}};
    TR_TRY(read_from_servers(call, 1, job));
    const uint64_t bytes = call->pack.bytes;
    if (bytes == size)
        memcpy(out, call->pack.data, size);
    free(call->pack.data);
    free(call);
    return bytes == size ? TR_OK : tr_fail(TR_EFORMAT, "server %d sent %llu bytes about a table, expected %zu", server,
                                           (unsigned long long)bytes, size);
}

/* Put the packs together, and free them. */
static tr_status join_packs(void **out, int64_t *bytes, tr__read_call *call, int count)
{
    uint64_t size = 0;

    for (int i = 0; i < count; i++)
        size += call[i].pack.bytes;
    uint8_t *to = *out = malloc(size + 1);
    for (int i = 0; i < count; i++) {
        if (to && call[i].pack.bytes)
            to = (uint8_t *)memcpy(to, call[i].pack.data, call[i].pack.bytes) + call[i].pack.bytes;
        free(call[i].pack.data);
    }
    *bytes = (int64_t)size;
    return *out ? TR_OK : tr_fail(TR_ENOMEM, "no memory for %llu bytes of rows", (unsigned long long)size);
}

static tr_status read_shards(tr__read_call *call, int count, tr_job *job, int table)
{
    TR_TRY(tr__job_check_ready(job, "tr_table_read_rows"));
    for (int i = 0; i < count; i++) {
        call[i].server = tr_server_of_shard(call[i].shard, tr_job_servers(job));
        call[i].pack.table = (uint32_t)table;
    }
    return read_from_servers(call, count, job);
}

tr_status tr__job_await_servers(tr_job *job, int table)
{
    const int      servers = tr_job_servers(job);
    tr__read_call *call = tr__must_array((size_t)servers, sizeof *call);

    for (int i = 0; i < servers; i++)                  /* no row is so new: the answers are empty */
        call[i] = (tr__read_call){.shard = tr_first_shard(i, servers), .since = UINT32_MAX};
    TR_TRY(read_shards(call, servers, job, table));
    for (int i = 0; i < servers; i++)
        free(call[i].pack.data);
    free(call);
    return TR_OK;
}

tr_status tr__job_forget_rows(tr_job *job, int table)
{
    tr__job_table *t = &job->tables.item[table];

    for (int i = 0; i < 3; i++) {
        TR_TRY(tr_job_wait(job, t->transfer[i].ticket));
        t->transfer[i].is_new = false;
    }
    t->is_prefetched = t->next_is_asked = false;
    tr_row_cache_clear(t->cache);
    return TR_OK;
}

/* The rows of a variable of this process. A failure frees the calls. */
static tr_status pack_shards(tr__read_call *call, int count, const tr_scope *scope, const char *name)
{
    tr_status     status = TR_OK;
    tr_table_var *tv;
    tr_table     *table;

    TR_TRY_GOTO(done, tr_table_var_of(&tv, tr_scope_find(scope, name), "tr_table_read_rows", name));
    TR_TRY_GOTO(done, tr_table_var_table(&table, tv));
    for (int i = 0; i < count; i++)
        TR_TRY_GOTO(done, tr_table_pack_newer(table, call[i].shard, call[i].since, &call[i].pack.data, &call[i].pack.bytes));
    return TR_OK;
done:
    for (int i = 0; i < count; i++)
        free(call[i].pack.data);
    free(call);
    return status;
}

tr_status tr_table_read_rows(void **out, int64_t *bytes, const tr_scope *scope, const char *name, int shard, int count, int64_t since)
{
    tr_job *job;
    int     table;

    TR_TRY(tr__job_of_rows(&job, &table, scope, name));
    if (shard < 0 || count < 1 || count > TR_SHARDS - shard)
        return tr_fail(TR_ERANGE, "tr_table_read_rows: %d shards from shard %d on; there are %d", count, shard, TR_SHARDS);
    if (since < 0 || since > UINT32_MAX)
        return tr_fail(TR_ERANGE, "tr_table_read_rows: since update %lld", (long long)since);
    tr__read_call *call = tr__must_array((size_t)count, sizeof *call);
    for (int i = 0; i < count; i++)
        call[i] = (tr__read_call){.shard = (uint32_t)(shard + i), .since = (uint32_t)since};
    TR_TRY(job ? read_shards(call, count, job, table) : pack_shards(call, count, scope, name));
    const tr_status status = join_packs(out, bytes, call, count);
    free(call);
    return status;
}

/* Find the servers' table, or (*job is NULL) that of this process. */
static tr_status find_part(tr_job **job, int *number, tr_table_var **here, const tr_scope *scope, const char *name, int server,
                           const char *what)
{
    TR_TRY(tr__job_of_rows(job, number, scope, name));
    const int servers = *job ? tr_job_servers(*job) : 1;
    if (server < 0 || server >= servers)
        return tr_fail(TR_ERANGE, "%s: server %d of table '%s'; there are %d", what, server, name, servers);
    return *job ? TR_OK : tr_table_var_of(here, tr_scope_find(scope, name), what, name);
}

tr_status tr_table_get_part(tr_table_part *out, const tr_scope *scope, const char *name, int server)
{
    tr_job       *job;
    int           number;
    tr_table_var *tv;
    tr_table     *here;

    TR_TRY(find_part(&job, &number, &tv, scope, name, server, "tr_table_get_part"));
    if (job)
        return read_about(out, sizeof *out, job, server, number, TR_SHARDS);
    TR_TRY(tr_table_var_table(&here, tv));
    tr_table_describe(out, here);
    out->updates = (int64_t)tv->updates;
    return TR_OK;
}

tr_status tr_table_get_disk(tr_table_disk *out, const tr_scope *scope, const char *name, int server)
{
    tr_job       *job;
    int           number;
    tr_table_var *tv;

    TR_TRY(find_part(&job, &number, &tv, scope, name, server, "tr_table_get_disk"));
    if (job)
        return read_about(out, sizeof *out, job, server, number, TR_SHARDS + 1);
    *out = (tr_table_disk){0};
    if (tv->table)                                     /* otherwise it is empty, or lies in files */
        tr_table_describe_disk(out, tv->table);
    return TR_OK;
}

tr_status tr_table_write_rows(const tr_scope *scope, const char *name, const void *rows, int64_t bytes, bool clear)
{
    tr_table_var *tv;
    tr_table     *table;

    if (tr_table_var_is_bound(tr_scope_find(scope, name)))
        return tr_fail(
            TR_EINVAL,
            "tr_table_write_rows: the servers have the rows of table '%s' since the first step: tr_job_set_rows gives them others", name);
    TR_TRY(tr_table_var_of(&tv, tr_scope_find(scope, name), "tr_table_write_rows", name));
    if (clear)
        tr_table_var_read_later(tv, NULL);
    TR_TRY(tr_table_var_table(&table, tv));
    return tr_table_unpack(table, rows, bytes < 0 ? 0 : (uint64_t)bytes);
}
