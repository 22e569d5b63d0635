/* job_set_rows.c - rows of tables that a script loads or sets between two steps, while the servers have them (trireme_dist.h,
 * tr_job_set_rows).
 *
 * A value that a script sets travels with the next step (job_sets.h). Rows cannot: the forward part of the next step, and any look-up
 * before it, asks the servers for them. So the trainers come together, one of them sends the rows, and they come together again. No step is
 * under way meanwhile.
 *
 * What must stay true: each trainer has called tr_job_set_rows_begin before one of them calls tr_job_set_rows, and that call has returned
 * before a trainer calls tr_job_set_rows_end. The caller sees to that by a collective before and behind it. */
#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_tables.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/store/server_part.h"
#include "storage/table/table_var.h"

#include <stdlib.h>

static const uint64_t WINDOW = (uint64_t)64 << 20;     /* of bytes on their way */

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
    TR_TRY(tr_table_var_table(&from, tv));
    if (tv->config.width != job->tables.item[table].width || tv->config.dtype != job->tables.item[table].dtype)
        return tr_fail(TR_ESHAPE, "tr_job_set_rows: rows of %lld %s for table '%s', the servers have %lld %s", (long long)tv->config.width,
                       tr_dtype_name(tv->config.dtype), name, (long long)job->tables.item[table].width,
                       tr_dtype_name(job->tables.item[table].dtype));
    for (int server = 0; clear && server < tr_job_servers(job); server++)
        TR_TRY(send(&ticket, job, server, &(tr_client_pack){.table = (uint32_t)table}, true, tv->updates));
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
