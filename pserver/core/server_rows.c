/* server_rows.c - sparse tables: rows are sent, and gradients of rows are kept until their step is applied.
 *
 * server_step.c alone decides what an update is and which trainers are in it, for tables too. Here the pieces of these trainers are listed, trainer by
 * trainer, and are merged when the update is applied. A table has one copy, which an update changes in place. So rows are sent between two
 * updates, never during one.
 *
 * A contribution has a piece for every table, also where that piece is empty, because the contribution's weight travels with it. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"
#include "pserver/table/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* == life ===================================================================================== */

static tr_status check_table(const tr_server *server, const Trireme__Pserver__Table *t)
{
    const bool has_type = t->dtype == TR_FP32 || t->dtype == TR_FP16 || t->dtype == TR_BF16;

    if (!has_type || t->width < 1 || t->width > 65536)
        return tr_fail(TR_EFORMAT, "%s: table '%s' has rows of %lld %s", tr_roster_name(server->roster, server->roster->self),
                       t->name, (long long)t->width, tr_dtype_name((tr_dtype)t->dtype));
    return TR_OK;
}

tr_status tr__server_tables_new(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    server->table = tr__must_array(setup->n_tables + 1, sizeof *server->table);
    server->rows = tr__must_array(setup->n_tables + 1, sizeof *server->rows);
    server->row_part = tr__must_array(setup->n_tables + 1, sizeof *server->row_part);
    server->row_part_capacity = tr__must_array(setup->n_tables + 1, sizeof *server->row_part_capacity);
    for (size_t i = 0; i < setup->n_tables; i++) {
        const Trireme__Pserver__Table *t = setup->tables[i];
        TR_TRY(check_table(server, t));
        const tr_table_config config = {.dtype = (tr_dtype)t->dtype, .width = t->width, .states = (int)t->n_state_values};
        server->table[i] = (tr__table){t->width, tr_table_row_bytes(&config), tr_table_stride(&config)};
        server->table_count++;
    }
    for (int i = 0; i < server->trainer_count; i++) {
        server->trainer[i].row_pieces = tr__must_array(server->table_count + 1, sizeof(uint64_t));
        server->trainer[i].has_rows = tr__must_array(server->table_count + 1, sizeof(bool));
        server->trainer[i].row_pulled = tr__must_array(server->table_count + 1, sizeof(tr__pulled));
    }
    return TR_OK;
}

/* Of steps up to `step`. */
static void drop_rows(tr_server *server, tr__trainer *trainer, uint64_t step)
{
    while (trainer->rows && trainer->rows->step <= step) {
        tr__rows *rows = trainer->rows;
        trainer->rows = rows->next;
        tr__server_buffer_free(server, rows->payload);
        free(rows);
    }
    if (!trainer->rows)
        trainer->rows_end = &trainer->rows;
}

static void forget_pulled(tr__pulled *pulled)
{
    while (pulled->first) {
        tr__row_pull *pull = pulled->first;
        pulled->first = pull->next;
        free(pull);
    }
    *pulled = (tr__pulled){0};
}

void tr__server_tables_free(tr_server *server)
{
    for (uint32_t i = 0; i < server->table_count; i++)
        free(server->row_part[i]);
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        drop_rows(server, t, UINT64_MAX);
        for (uint32_t k = 0; t->row_pulled && k < server->table_count; k++)
            forget_pulled(&t->row_pulled[k]);
        free(t->row_pulled);
        free(t->row_pieces);
        free(t->has_rows);
    }
    free(server->row_part);
    free(server->row_part_capacity);
    free(server->rows);
    free(server->table);
}

void tr__server_row_pulls_free(tr__trainer *trainer)
{
    while (trainer->row_pulls) {
        tr__row_pull *pull = trainer->row_pulls;
        trainer->row_pulls = pull->next;
        free(pull);
    }
}


/* == gradients in ============================================================================= */

static tr_status check_push(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_form_push_rows *push = &wire->push_rows;

    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    if (push->table >= server->table_count)
        return tr_fail(TR_EFORMAT, "%s pushes rows of table %u; there are %u", tr__server_trainer_name(server, trainer),
                       push->table, server->table_count);
    const tr__table *table = &server->table[push->table];
    if (wire->bytes % (sizeof(int64_t) + (uint64_t)table->width * sizeof(float)))
        return tr_fail(TR_EFORMAT, "%s pushes %llu bytes to table '%s', which are no rows of %lld values",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes,
                       server->setup->tables[push->table]->name, (long long)table->width);
    if (trainer->has_rows[push->table])
        return tr_fail(TR_EPEER, "%s pushed rows of '%s' twice in step %llu", tr__server_trainer_name(server, trainer),
                       server->setup->tables[push->table]->name, (unsigned long long)trainer->ended + 1);
    if (push->piece != trainer->row_pieces[push->table] || push->piece >= push->pieces)
        return tr_fail(TR_EFORMAT, "%s pushes piece %u of %u of rows of '%s', of which %llu came",
                       tr__server_trainer_name(server, trainer), push->piece, push->pieces,
                       server->setup->tables[push->table]->name, (unsigned long long)trainer->row_pieces[push->table]);
    return TR_OK;
}

/* Trainers push gradients of the rows that they have pulled, mostly, in the same order: the slots are known then. A pull and a push are cut
 * into messages at different keys. */
static void take_hints(tr__rows *rows, tr__pulled *pulled, bool is_first)
{
    if (is_first) {
        pulled->at = pulled->first;
        pulled->pushed = 0;
    }
    for (int64_t done = 0, n; done < rows->count; done += n) {
        const tr__row_pull *pull = pulled->at;
        const int64_t       left = rows->count - done, from = pulled->pushed;
        if (!pull)
            return;
        n = pull->count - from < left ? pull->count - from : left;
        if (memcmp(rows->payload + done * (int64_t)sizeof(int64_t), pull->key + from, (size_t)n * sizeof(int64_t)))
            return;
        memcpy(rows->hint + done, pull->hint + from, (size_t)n * sizeof *rows->hint);
        pulled->pushed += n;
        if (pulled->pushed == pull->count) {
            pulled->at = pull->next;
            pulled->pushed = 0;
        }
    }
    rows->has_hints = rows->count > 0;
}

tr_status tr__server_on_push_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload,
                                  bool is_owned)
{
    if (tr__server_has_ended(trainer, wire)) {
        tr__server_buffer_free(server, is_owned ? payload : NULL);
        return TR_OK;
    }
    TR_TRY(check_push(server, trainer, wire));
    const tr_form_push_rows *push = &wire->push_rows;
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[push->table].width * sizeof(float);
    const int64_t  count = (int64_t)(wire->bytes / row);
    tr__rows      *rows = tr__must_bytes(sizeof *rows + (size_t)count * sizeof *rows->hint);
    if (!is_owned && wire->bytes) {
        uint8_t *copy = tr__server_buffer_new(server, wire->bytes);
        memcpy(copy, payload, wire->bytes);
        payload = copy;
    }
    *rows = (tr__rows){.step = push->step, .table = push->table, .weight = push->weight, .count = count,
                       .payload = is_owned || wire->bytes ? payload : NULL};
    take_hints(rows, &trainer->row_pulled[push->table], push->piece == 0);
    *trainer->rows_end = rows;
    trainer->rows_end = &rows->next;
    trainer->has_rows[push->table] = ++trainer->row_pieces[push->table] == push->pieces;
    return TR_OK;
}

const char *tr__server_first_missing_rows(const tr_server *server, const tr__trainer *trainer)
{
    for (uint32_t i = 0; i < server->table_count; i++)
        if (!trainer->has_rows[i])
            return server->setup->tables[i]->name;
    return NULL;
}

void tr__server_rows_ended(tr_server *server, tr__trainer *trainer)
{
    memset(trainer->row_pieces, 0, server->table_count * sizeof *trainer->row_pieces);
    memset(trainer->has_rows, 0, server->table_count * sizeof *trainer->has_rows);
}

void tr__server_rows_unended(tr_server *server, tr__trainer *trainer)
{
    tr__rows **at = &trainer->rows;

    while (*at && (*at)->step <= trainer->ended)
        at = &(*at)->next;
    trainer->rows_end = at;
    while (*at) {
        tr__rows *rows = *at;
        *at = rows->next;
        tr__server_buffer_free(server, rows->payload);
        free(rows);
    }
    tr__server_rows_ended(server, trainer);
}

static void list_part(tr_server *server, int trainer, const tr__rows *rows)
{
    tr_rows_update *update = &server->rows[rows->table];
    uint64_t       *capacity = &server->row_part_capacity[rows->table];
    tr_rows_part  **part = &server->row_part[rows->table];

    if ((uint64_t)update->count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 16;
        *part = tr__must_realloc(*part, *capacity * sizeof **part);
    }
    (*part)[update->count++] = (tr_rows_part){trainer, rows->weight, rows->count, (const int64_t *)(void *)rows->payload,
                                              (const float *)(void *)(rows->payload + rows->count * (int64_t)sizeof(int64_t)), true,
                                              rows->has_hints || rows->count == 0 ? rows->hint : NULL};
    update->part = *part;
}

const tr_rows_update *tr__server_rows_update(tr_server *server)
{
    for (uint32_t i = 0; i < server->table_count; i++)
        server->rows[i].count = 0;
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        for (const tr__rows *rows = server->takes_part[i] ? t->rows : NULL; rows; rows = rows->next)
            if (rows->step == t->settled + 1)
                list_part(server, i, rows);
    }
    return server->rows;
}

void tr__server_rows_settled(tr_server *server, tr__trainer *trainer)
{
    drop_rows(server, trainer, trainer->settled);
}

/* == rows out ================================================================================= */

static tr_status read_rows(tr_server *server, const tr__trainer *trainer, tr__row_pull *pull, void *out)
{
    const tr_store *store = &server->store;

    if (tr__server_wants_before(server, trainer, pull->step))
        return store->rows_before(store->self, pull->table, pull->key, pull->count, out);
    store->rows(store->self, pull->table, pull->key, pull->count, out, pull->hint);
    pull->has_hints = true;
    return TR_OK;
}

/* The trainer's next gradient of the table will have these keys, perhaps. */
static void keep_pulled(tr__trainer *trainer, tr__row_pull *pull)
{
    tr__pulled *kept = pull->has_hints ? &trainer->row_pulled[pull->table] : NULL;

    if (kept && (pull->before == 0 || pull->before != kept->count))
        forget_pulled(kept);
    if (!kept || pull->before != kept->count) {        /* messages before it were answered by another server */
        free(pull);
        return;
    }
    pull->next = NULL;
    *(kept->first ? kept->end : &kept->first) = pull;
    kept->end = &pull->next;
    kept->count += (uint64_t)pull->count;
}

static void answer(tr_server *server, tr__trainer *trainer, tr__row_pull *pull)
{
    uint64_t bytes = (uint64_t)(pull->count * server->table[pull->table].row_bytes);
    void    *payload = pull->count < 0 ? NULL : tr__must_bytes(bytes + 1);

    if (pull->count >= 0) {
        tr__server_note_pulled(server, trainer, pull->step);
        const tr_status status = read_rows(server, trainer, pull, payload);
        if (status != TR_OK) {
            free(payload);
            tr__server_fail(server, status);
            return;
        }
    } else {
        const tr_status status = server->store.read_rows(server->store.self, pull->table, (uint32_t)pull->key[0], false, &payload, &bytes);
        if (status != TR_OK) {
            tr__server_fail(server, status);
            return;
        }
        if (pull->key[0] < TR_SHARDS)
            bytes = tr_table_keep_newer(payload, bytes, server->table[pull->table].stride, pull->since);
    }
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = trainer->rank, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_DATA_ROWS, .epoch = trainer->epoch, .sender = (uint32_t)server->roster->self, .seq = pull->seq,
                 .bytes = bytes, .data_rows = {.clock = server->policy.lead >= 0 ? tr__server_clock(server) : 0}}});
}

static uint32_t table_of(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PULL_ROWS ? wire->pull_rows.table : wire->read_rows.table;
}

static uint64_t own_steps(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PULL_ROWS ? wire->pull_rows.step - wire->pull_rows.remakes : wire->read_rows.step;
}

static tr__row_pull *parse_pull(const tr_wire *wire, const uint8_t *payload)
{
    const int64_t count = (int64_t)(wire->bytes / sizeof(int64_t));
    tr__row_pull *pull = tr__must_bytes(sizeof *pull + (size_t)(count + 1) * (sizeof *pull->key + sizeof *pull->hint));

    if (wire->kind == TR_WIRE_READ_ROWS) {
        *pull = (tr__row_pull){.seq = wire->seq, .step = wire->read_rows.step, .own = own_steps(wire), .table = wire->read_rows.table,
                                .since = wire->read_rows.since, .count = -1};
        pull->key[0] = wire->read_rows.shard;
        return pull;
    }

    *pull = (tr__row_pull){.seq = wire->seq, .step = wire->pull_rows.step, .own = own_steps(wire), .table = wire->pull_rows.table,
                           .count = count, .before = wire->pull_rows.before, .hint = (uint32_t *)(void *)(pull->key + count)};
    memcpy(pull->key, payload, wire->bytes);
    return pull;
}

static bool may_read(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own)
{
    return !server->is_updating && tr__server_may_answer(server, trainer, step, own);
}

static bool is_pull(const tr_server *server, const tr_wire *wire)
{
    const uint32_t table = table_of(wire);

    return table < server->table_count && wire->bytes % sizeof(int64_t) == 0 &&
           wire->bytes / sizeof(int64_t) * (uint64_t)server->table[table].row_bytes <= TR_LIMIT_DATA;
}

tr_status tr__server_on_pull_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!tr__server_lags(trainer, tr_wire_step(wire)))
        TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    if (!is_pull(server, wire))
        return tr_fail(TR_EFORMAT, "%s pulls %llu bytes of keys from table %u; there are %u tables",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes, table_of(wire), server->table_count);
    tr__row_pull  *pull = parse_pull(wire, payload);
    tr__row_pull **end = &trainer->row_pulls;
    while (*end)
        end = &(*end)->next;
    *end = pull;
    tr__server_answer_rows(server);
    return TR_OK;
}

tr_status tr__server_on_write_rows(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer != &server->trainer[0] || !server->setup || server->is_running || wire->write_rows.table >= server->table_count)
        return tr_fail(TR_EPEER, "%s sent rows of table %u; trainer 0 may, before the first step",
                       tr__server_trainer_name(server, trainer), wire->write_rows.table);
    return server->store.write_rows(server->store.self, wire->write_rows.table, payload, wire->bytes, wire->write_rows.has_candidates);
}

void tr__server_pull_rows_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    for (const tr__row_pull *pull = trainer->row_pulls; pull; pull = pull->next)
        if (pull->seq == wire->seq)
            return;                                    /* it waits */
    const uint64_t step = tr_wire_step(wire);
    const bool     is_now = trainer->ended == step || tr__server_lags(trainer, step);
    if (!server->is_running || !is_now || !is_pull(server, wire) || !may_read(server, trainer, step, own_steps(wire)))
        return;
    tr__row_pull *pull = parse_pull(wire, payload);
    answer(server, trainer, pull);
    keep_pulled(trainer, pull);
}

void tr__server_answer_rows(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        while (t->row_pulls && may_read(server, t, t->row_pulls->step, t->row_pulls->own)) {
            tr__row_pull *pull = t->row_pulls;
            t->row_pulls = pull->next;
            answer(server, t, pull);
            keep_pulled(t, pull);
        }
    }
}
