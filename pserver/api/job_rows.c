/* job_rows.c - sparse tables in a trainer's step: rows are pulled, and gradients of rows are pushed.
 *
 * The caller's thread merges duplicate keys and sorts keys by server. The communication thread only moves what lies ready. Each table has
 * memory for the keys of three steps, and for one push. */
#include "pserver/api/job_rows.h"

#include "kernels/math/tools/cast.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_finite.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_send.h"
#include "pserver/api/job_tables.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/store/server_part.h"
#include "pserver/trireme_rows.h"
#include "storage/table/table_var.h"
#include "storage/util/buffer.h"
#include "storage/util/row_copy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* == keys by server =============================================================================== */

static int server_of(int64_t key, int servers)
{
    return tr_server_of_shard(tr_slots_shard(key), servers);
}

/* Compute the transfer's number, set, place and first from its keys. */
static tr_status sort_keys(tr__rows_transfer *transfer, int servers, const int64_t *keys, int64_t count)
{
    TR_TRY(tr_keyset_reset(&transfer->set, count));
    TR_TRY(tr_buffer_reserve(&transfer->number, &transfer->number_capacity, (uint64_t)count, sizeof *transfer->number));
    tr_keyset_add(&transfer->set, transfer->number, keys, count);
    const uint32_t different = transfer->set.count;
    TR_TRY(tr_buffer_reserve(&transfer->place, &transfer->place_capacity, different, sizeof *transfer->place));
    memset(transfer->first, 0, ((size_t)servers + 1) * sizeof *transfer->first);
    for (uint32_t i = 0; i < different; i++) {
        transfer->place[i] = (uint32_t)server_of(transfer->set.keys[i], servers);
        transfer->first[transfer->place[i] + 1]++;
    }
    for (int s = 0; s < servers; s++)
        transfer->first[s + 1] += transfer->first[s];
    for (uint32_t i = 0; i < different; i++)
        transfer->place[i] = (uint32_t)transfer->first[transfer->place[i]]++;
    memmove(transfer->first + 1, transfer->first, (size_t)servers * sizeof *transfer->first);     /* now the ends, which are the next
                                                                                                   * first */
    transfer->first[0] = 0;
    return TR_OK;
}

/* Copy the sorted keys of another table's transfer, which has the same keys. */
static tr_status copy_sorted(tr__rows_transfer *transfer, int servers, const tr__rows_transfer *from)
{
    const uint64_t count = (uint64_t)from->asked.count, different = from->set.count;

    TR_TRY(tr_keyset_copy(&transfer->set, &from->set));
    TR_TRY(tr_buffer_reserve(&transfer->number, &transfer->number_capacity, count, sizeof *transfer->number));
    TR_TRY(tr_buffer_reserve(&transfer->place, &transfer->place_capacity, different, sizeof *transfer->place));
    memcpy(transfer->number, from->number, count * sizeof *transfer->number);
    memcpy(transfer->place, from->place, different * sizeof *transfer->place);
    memcpy(transfer->first, from->first, ((size_t)servers + 1) * sizeof *transfer->first);
    return TR_OK;
}

/* Does the transfer have these keys from `from` on, in this order? */
static bool has_keys(const tr__rows_transfer *transfer, int64_t from, int64_t count, const int64_t *keys)
{
    const tr__keys *asked = &transfer->asked;

    return asked->key && from <= asked->count && count <= asked->count - from &&
           !memcmp(keys, asked->key + from, (size_t)count * sizeof *keys);
}

static bool is_asked(const tr__rows_transfer *transfer, int64_t count, const int64_t *keys)
{
    return count == transfer->asked.count && has_keys(transfer, 0, count, keys);
}

/* Sort the keys of a table's request. Several tables often ask for the same keys, so the tables before are compared first. */
static tr_status sort_asked(const tr_job *job, int table, tr__rows_transfer *transfer)
{
    const tr__keys *asked = &transfer->asked;
    const int       servers = tr_job_servers(job);

    for (int i = 0; i < table && asked->count; i++) {
        const tr__job_table *t = &job->tables.item[i];
        if (is_asked(t->pull, asked->count, asked->key))
            return copy_sorted(transfer, servers, t->pull);
        if (is_asked(t->next, asked->count, asked->key))
            return copy_sorted(transfer, servers, t->next);
        if (t->is_expected && is_asked(t->later, asked->count, asked->key))
            return copy_sorted(transfer, servers, t->later);
    }
    return sort_keys(transfer, servers, asked->key, asked->count);
}

static tr_status check_call(const tr_job *job, int table, int64_t count, const char *call)
{
    TR_TRY(tr__job_check_ready(job, call));
    if (table < 0 || table >= job->tables.count)
        return tr_fail(TR_ERANGE, "%s: table %d; there are %d", call, table, job->tables.count);
    if (count < 0)
        return tr_fail(TR_ERANGE, "%s: %lld keys", call, (long long)count);
    return TR_OK;
}

/* == pull ========================================================================================= */

static tr_status keep_keys(tr__keys *kept, int64_t count, const int64_t *keys)
{
    kept->count = -1;
    TR_TRY(tr_buffer_reserve(&kept->key, &kept->capacity, (uint64_t)count + 1, sizeof *kept->key));
    memcpy(kept->key, keys, (size_t)count * sizeof *keys);
    kept->count = count;
    return TR_OK;
}

static bool find_known(const tr__job_table *t, void *out, int64_t key, uint64_t step)
{
    if (!t->geo)
        return tr_row_cache_get(t->cache, out, key, step);
    if (!tr_geo_rows_has(t->geo, key))
        return false;
    tr_geo_rows_get(t->geo, out, key);
    return true;
}

/* Cached rows are copied to the end of the transfer's rows; the others get places in the order of their servers. */
static tr_status split_known(tr_job *job, tr__job_table *t, tr__rows_transfer *transfer)
{
    const uint32_t different = transfer->set.count;
    const int      servers = tr_job_servers(job);
    uint32_t       known = 0;

    TR_TRY(tr_buffer_reserve(&transfer->split, &transfer->split_capacity, different, sizeof *transfer->split));
    memset(transfer->missing, 0, ((size_t)servers + 1) * sizeof *transfer->missing);
    for (uint32_t i = 0; i < different; i++) {
        const uint32_t last = different - 1 - known;
        if (find_known(t, transfer->rows + last * (uint64_t)t->row_bytes, transfer->set.keys[i], transfer->step)) {
            transfer->split[i] = last;
            known++;
        } else {
            transfer->split[i] = UINT32_MAX;
            transfer->missing[server_of(transfer->set.keys[i], servers) + 1]++;
        }
    }
    for (int s = 0; s < servers; s++)
        transfer->missing[s + 1] += transfer->missing[s];
    for (uint32_t i = 0; i < different; i++)
        if (transfer->split[i] == UINT32_MAX)
            transfer->split[i] = (uint32_t)transfer->missing[server_of(transfer->set.keys[i], servers)]++;
    memmove(transfer->missing + 1, transfer->missing, (size_t)servers * sizeof *transfer->missing);
    transfer->missing[0] = 0;
    transfer->at = transfer->split;
    tr_counter_add(&job->rank.rows_cached, known);
    return TR_OK;
}

/* Put the distinct keys of a request into the order of servers. */
static tr_status order_keys(tr_job *job, int table, tr__rows_transfer *transfer)
{
    TR_TRY(tr_job_wait(job, transfer->ticket));
    TR_TRY(sort_asked(job, table, transfer));
    transfer->at = transfer->place;
    TR_TRY(tr_buffer_reserve(&transfer->keys, &transfer->keys_capacity, transfer->set.count, sizeof *transfer->keys));
    for (uint32_t i = 0; i < transfer->set.count; i++)
        transfer->keys[transfer->place[i]] = transfer->set.keys[i];
    return TR_OK;
}

/* Ask the servers for the rows of these keys, which are in order, except for rows in the cache. The questions for several tables gather,
 * and leave with tr_job_flush or a wait. `keeps`: put the answers into the cache. Without it the cache is not read either. */
static tr_status ask(tr_job *job, int table, tr__rows_transfer *transfer, bool keeps)
{
    tr__job_table *t = &job->tables.item[table];

    TR_TRY(tr_job_wait(job, transfer->ticket));
    const uint32_t different = transfer->set.count;
    transfer->step = (uint64_t)job->step;
    transfer->clock = UINT64_MAX;
    const bool splits = t->geo || (keeps && t->cache);
    transfer->is_new = keeps && splits;
    TR_TRY(tr_buffer_reserve(&transfer->rows, &transfer->rows_capacity, different * (uint64_t)t->row_bytes, 1));
    if (splits)
        TR_TRY(split_known(job, t, transfer));
    for (uint32_t i = 0; splits && i < different; i++)
        transfer->keys[transfer->at[i]] = transfer->set.keys[i];
    transfer->call = (tr_client_rows){.table = (uint32_t)table, .first = splits ? transfer->missing : transfer->first,
                                      .keys = transfer->keys, .to = transfer->rows, .row_bytes = (uint64_t)t->row_bytes,
                                      .clock = &transfer->clock, .is_rounded = job->rounds && t->dtype == TR_FP32};
    return tr__job_call(job, &(tr__command){.head = {TR__PULL_ROWS}, .pull_rows = &transfer->call}, &transfer->ticket);
}

/* The rows that were asked for at the end of the last step are those of this step. */
static void take_next(tr__job_table *t)
{
    tr__rows_transfer *now = t->next;

    t->next = t->pull;
    t->pull = now;
    t->next_is_asked = false;
}

tr_status tr__job_prefetch_gather(tr_job *job, int table, int64_t count, const int64_t *keys)
{
    TR_TRY(check_call(job, table, count, "tr_job_prefetch"));
    tr__job_table *t = &job->tables.item[table];

    t->is_prefetched = false;
    if (t->next_is_asked && is_asked(t->next, count, keys)) {
        take_next(t);
        tr_counter_add(&job->rank.rows_ahead, t->pull->set.count);
    } else {
        t->next_is_asked = false;
        TR_TRY(keep_keys(&t->pull->asked, count, keys));
        TR_TRY(order_keys(job, table, t->pull));
        TR_TRY(ask(job, table, t->pull, true));
    }
    t->is_prefetched = true;
    t->taken = 0;
    tr_counter_add(&job->rank.rows_wanted, t->pull->set.count);
    return TR_OK;
}

tr_status tr_job_prefetch(tr_job *job, int table, int64_t count, const int64_t *keys)
{
    TR_TRY(tr__job_prefetch_gather(job, table, count, keys));
    return tr_job_flush(job);
}

/* Servers with rows on disk begin to read now. Others need not know: the keys are sorted while they work (tr__job_tables_ended). */
tr_status tr__job_prefetch_next_gather(tr_job *job, int table, int64_t count, const int64_t *keys)
{
    TR_TRY(check_call(job, table, count, "tr_job_prefetch_next"));
    tr__job_table *t = &job->tables.item[table];

    t->has_later = t->is_expected = false;
    TR_TRY(tr_job_wait(job, t->later->ticket));
    TR_TRY(keep_keys(&t->later->asked, count, keys));
    t->has_later = true;
    if (!t->is_on_disk)
        return TR_OK;
    TR_TRY(order_keys(job, table, t->later));
    t->is_expected = true;
    t->later->call = (tr_client_rows){.table = (uint32_t)table, .first = t->later->first, .keys = t->later->keys};
    return tr__job_call(job, &(tr__command){.head = {TR__EXPECT_ROWS}, .expect_rows = &t->later->call}, &t->later->ticket);
}

bool tr__job_is_on_disk(const tr_job *job, int table)
{
    return job->tables.item[table].is_on_disk;
}

tr_status tr_job_prefetch_next(tr_job *job, int table, int64_t count, const int64_t *keys)
{
    TR_TRY(tr__job_prefetch_next_gather(job, table, count, keys));
    return tr__job_is_on_disk(job, table) ? tr_job_flush(job) : TR_OK;
}

/* The servers answer after they have applied the step. Meanwhile the keys are sorted here. The questions leave with the pull of the
 * parameters if one follows, as after the step before. */
tr_status tr__job_tables_ended(tr_job *job)
{
    /* in mode sync(backups) a gradient counts only with new parameters, so its rows must not be older than those */
    const bool is_late = job->policy.backups > 0, pull_follows = job->blocks.pulled_at + 1 == job->step;
    bool       asks = false;

    job->tables.pushed = 0;
    job->tables.unsent = 0;
    for (int i = 0; i < job->tables.count; i++) {
        tr__job_table *t = &job->tables.item[i];
        t->is_pushed = t->is_prefetched = t->next_is_asked = false;
        if (t->geo)
            tr_geo_rows_forget(t->geo);
        if (!t->has_later || is_late)
            continue;
        tr__rows_transfer *next = t->later;
        t->later = t->next;
        t->next = next;
        if (!t->is_expected)
            TR_TRY(order_keys(job, i, next));
        t->has_later = t->is_expected = false;
        TR_TRY(ask(job, i, next, true));
        t->next_is_asked = asks = true;
    }
    return asks && !pull_follows ? tr_job_flush(job) : TR_OK;
}

/* The last step that may use the rows of a transfer: `staleness` steps after the pull. Under ssp it is earlier, if a later step would
 * need more of the other trainers' steps than are in the rows. */
static uint64_t last_user(const tr_job *job, const tr__rows_transfer *transfer)
{
    const uint64_t until = transfer->step + (uint64_t)job->tables.cache_staleness, bound = (uint64_t)job->policy.lead;

    if (job->policy.lead < 0 || transfer->clock >= until || bound >= until - transfer->clock)
        return until;
    return transfer->clock + bound;
}

/* Wait for pulled rows, and put new ones into the cache. */
static tr_status take_rows(tr_job *job, tr__job_table *t, tr__rows_transfer *transfer)
{
    TR_TRY(tr_job_wait(job, transfer->ticket));
    if (!transfer->is_new)
        return TR_OK;
    transfer->is_new = false;
    const uint64_t until = last_user(job, transfer), count = transfer->missing[tr_job_servers(job)];
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *row = transfer->rows + i * (uint64_t)t->row_bytes;
        if (t->geo)
            TR_TRY(tr_geo_rows_take(t->geo, (uint64_t)job->step + 1, transfer->keys[i], row));
        else
            tr_row_cache_put(t->cache, transfer->keys[i], row, transfer->step, until);
    }
    return TR_OK;
}

/* Lookups of a step mostly come in the order of the prefetched keys. Return the index of the first key among them; -1: the keys were not
 * prefetched. */
static int64_t find_prefetched(const tr__job_table *t, int64_t count, const int64_t *keys)
{
    if (!t->is_prefetched)
        return -1;
    if (has_keys(t->pull, t->taken, count, keys))
        return t->taken;
    return has_keys(t->pull, 0, count, keys) ? 0 : -1;
}

tr_status tr_job_lookup(tr_job *job, int table, int64_t count, const int64_t *keys, float *out)
{
    TR_TRY(check_call(job, table, count, "tr_job_lookup"));
    tr__job_table *t = &job->tables.item[table];
    tr__rows_transfer  *transfer = t->pull;
    int64_t        from = find_prefetched(t, count, keys);

    if (from < 0) {
        t->is_prefetched = false;
        TR_TRY(keep_keys(&t->pull->asked, count, keys));
        TR_TRY(order_keys(job, table, t->pull));
        TR_TRY(ask(job, table, t->pull, false));
        tr_counter_add(&job->rank.rows_wanted, transfer->set.count);
        from = 0;
    }
    t->taken = from + count;
    TR_TRY(take_rows(job, t, transfer));
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *row = transfer->rows + transfer->at[transfer->number[from + i]] * (uint64_t)t->row_bytes;
        if (t->dtype == TR_FP32)
            tr_row_copy(out + i * t->width, row, (size_t)t->row_bytes);
        else
            tr_cast(out + i * t->width, TR_FP32, row, t->dtype, t->width);
    }
    return TR_OK;
}

/* == push ========================================================================================= */

/* Lay out the rows of each server in pieces, with as many rows in each as a message takes. A piece has its keys, then the values, which
 * are aligned to 4; keys may not be aligned to 8. `order` has room for one number for each key. */
static void lay_out_push(const tr__rows_transfer *transfer, const tr__rows_transfer *sorted, const tr__job_table *t, int servers,
                         uint64_t in_piece, uint32_t *order, float **to)
{
    uint8_t *piece = transfer->rows;

    for (uint32_t i = 0; i < sorted->set.count; i++)
        order[sorted->place[i]] = i;
    for (int s = 0; s < servers; s++)
        for (uint64_t begin = transfer->first[s]; begin < transfer->first[s + 1]; begin += in_piece) {
            const uint64_t left = transfer->first[s + 1] - begin, rows = left < in_piece ? left : in_piece;
            float         *values = (float *)(void *)(piece + rows * sizeof(int64_t));
            for (uint64_t row = 0; row < rows; row++) {
                const uint32_t i = order[begin + row];
                memcpy(piece + row * sizeof(int64_t), &sorted->set.keys[i], sizeof(int64_t));
                to[i] = values + row * (uint64_t)t->width;
            }
            piece = (uint8_t *)(values + rows * (uint64_t)t->width);
        }
}

static void add_rows(const tr__rows_transfer *sorted, int64_t width, int64_t count, const float *values, float *const *to)
{
    uint32_t seen = 0;                                 /* at their first appearance numbers come in ascending order */

    for (int64_t i = 0; i < count; i++) {
        const uint32_t number = sorted->number[i];
        const bool     is_first = number == seen;
        tr_row_add(to[number], values + i * width, width, is_first);
        seen += is_first;
    }
}

tr_status tr_job_push_rows(tr_job *job, int table, int64_t count, const int64_t *keys, const float *values, double weight,
                           tr_ticket *ticket)
{
    TR_TRY(check_call(job, table, count, "tr_job_push_rows"));
    tr__job_table *t = &job->tables.item[table];
    tr__rows_transfer  *transfer = t->push;
    const uint64_t bytes = sizeof(int64_t) + (uint64_t)t->width * sizeof(float);
    const uint64_t in_piece = tr_client_rows_in_piece(tr__rank_client(&job->rank), bytes);

    if (t->is_pushed)
        return tr_fail(TR_EINVAL, "tr_job_push_rows: '%s' was pushed already in step %lld", t->name, (long long)job->step + 1);
    if (!isfinite(weight) || weight < 0)
        return tr_fail(TR_ERANGE, "tr_job_push_rows: '%s' with a weight of %g", t->name, weight);
    TR_TRY(tr__job_look_at_rows(job, table, count, keys, values, weight));
    TR_TRY(tr__job_settle(job));
    /* Mostly the gradient has the keys of the step's lookup, which are sorted already. */
    const bool    is_known = is_asked(t->pull, count, keys);
    tr__rows_transfer *sorted = is_known ? t->pull : transfer;
    if (is_known)
        memcpy(transfer->first, sorted->first, ((size_t)tr_job_servers(job) + 1) * sizeof *transfer->first);
    else
        TR_TRY(sort_keys(transfer, tr_job_servers(job), keys, count));
    const uint32_t different = sorted->set.count;
    /* Pointers and numbers are stored after the rows; only this call needs them. */
    TR_TRY(tr_buffer_reserve(&transfer->rows, &transfer->rows_capacity,
                             different * (bytes + sizeof(float *) + sizeof(uint32_t)) + sizeof(float *), 1));
    float **to = (float **)(void *)(transfer->rows + (different * bytes + 7) / 8 * 8);
    lay_out_push(transfer, sorted, t, tr_job_servers(job), in_piece, (uint32_t *)(void *)(to + different), to);
    add_rows(sorted, t->width, count, values, to);
    transfer->call = (tr_client_rows){.table = (uint32_t)table, .first = transfer->first, .pieces = transfer->rows, .push_bytes = bytes,
                                 .weight = weight};
    if (!tr__job_holds_gradients(job))
        TR_TRY(tr__job_send_rows(job, table));
    if (ticket)
        *ticket = tr__job_holds_gradients(job) ? job->last_ticket : transfer->ticket;
    t->is_pushed = true;
    job->tables.pushed++;
    return TR_OK;
}

/* == trainers that train copies ================================================================== */

/* Mostly these are the keys of the step's lookups, and their rows are here. */
tr_status tr__job_own_table(tr_table **out, tr_job *job, int table, int64_t count, const int64_t *keys)
{
    TR_TRY(check_call(job, table, count, "tr__job_own_table"));
    tr__job_table *t = &job->tables.item[table];
    bool           is_here = true;

    *out = NULL;
    if (!t->geo)
        return TR_OK;
    TR_TRY(take_rows(job, t, t->pull));
    for (int64_t i = 0; i < count; i++)
        is_here &= tr_geo_rows_has(t->geo, keys[i]);
    if (!is_here) {
        TR_TRY(keep_keys(&t->pull->asked, count, keys));
        TR_TRY(ask(job, table, t->pull, true));
        TR_TRY(take_rows(job, t, t->pull));
    }
    t->is_prefetched = false;                          /* the memory of the pulled rows now holds the change */
    *out = tr_geo_rows_table(t->geo);
    return TR_OK;
}

tr_status tr__job_push_changes(tr_job *job)
{
    const int64_t *keys;
    const float   *values;
    int64_t        count;

    for (int i = 0; i < job->tables.count; i++) {
        TR_TRY(tr_geo_rows_changes(job->tables.item[i].geo, tr__job_change_share(job), &count, &keys, &values));
        TR_TRY(tr_job_push_rows(job, i, count, keys, values, 1, NULL));
    }
    return TR_OK;
}

/* == variables whose rows the servers have ======================================================== */

static const tr_table_source of_servers = {tr_job_lookup, tr__job_own_table};

tr_status tr_job_bind_table(tr_job *job, tr_scope *scope, const tr_job_table *table)
{
    const tr_table_config config = tr_table_config_of(table);
    const int             number = tr_job_find_table(job, table->name);

    if (number < 0)
        return tr_fail(TR_ENOTFOUND, "tr_job_bind_table: the job has no table '%s'", table->name);
    TR_TRY(tr_table_check_config(&config));
    return tr_table_var_bind(tr__scope_var(scope, table->name), &config, &of_servers, job->rank.job, number);
}
