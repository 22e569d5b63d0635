/* server_rows.c - see server_rows.h. */
#include "pserver/core/updates/server_rows.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"
#include "pserver/wire/rounded.h"
#include "storage/table/table.h"

#include <stdlib.h>
#include <string.h>

/* A piece of a table's gradient, until its step is settled. */
typedef struct piece {
    struct piece *next;
    uint64_t      step;
    uint32_t      table;
    double        weight;
    int64_t       count;
    uint8_t      *payload;            /* keys, then values; a buffer of the pool, or NULL */
    bool          has_hints;          /* its rows were pulled, and looked up then (rows_merge.h) */
    uint32_t      hint[];
} piece;

/* A PULL_ROWS or READ_ROWS that waits for its answer. */
typedef struct pull {
    struct pull *next;
    uint64_t     seq, step, own;
    uint32_t     table;
    uint32_t     since;               /* of a shard: only rows that an update after this one has touched; 0: all */
    int64_t      count;               /* number of keys; -1: READ_ROWS, and key[0] is the virtual shard */
    bool         is_rounded;          /* the answer is in bfloat16 */
    bool         has_hints;           /* `hint` is filled in, because the pull was answered */
    uint32_t    *hint;                /* slots of the keys; lies after the keys in memory */
    uint64_t     before;              /* number of keys in earlier messages of the same pull */
    int64_t      key[];
} pull;

/* The last answered pull of a table, of one message or several, with hints for the push of the same keys. */
typedef struct answered {
    pull    *first, **end;
    uint64_t count;                   /* number of keys in all messages of the pull */
    pull    *at;                      /* the message whose keys are pushed next, from `pushed` on */
    int64_t  pushed;
} answered;

/* The gradients of rows that a trainer has sent, and its pulls of rows. */
typedef struct rows_of {
    piece    *pieces, **pieces_end;   /* of steps that are not settled, in order */
    uint64_t *arrived;                /* of each table: pieces of the step after the last ended one */
    bool     *has_all;                /* of each table: all pieces of that step are here */
    pull     *waiting;                /* pulls that wait for their step, or for the end of an update */
    answered *answered;               /* of each table: its last answered pull */
} rows_of;

struct tr__rows {
    rows_of        *of;               /* the gradients and pulls of each trainer */
    tr_rows_update *update;           /* of each table: for the update that is being applied */
    tr_rows_part  **part;
    uint64_t       *part_capacity;
};

static rows_of *rows_of_trainer(const tr_server *server, const tr__trainer *trainer)
{
    return &server->rows->of[trainer->index];
}

/* == life ===================================================================================== */

static tr_status check_table(const tr_server *server, const Trireme__Pserver__Table *t)
{
    const bool has_type = t->dtype == TR_FP32 || t->dtype == TR_FP16 || t->dtype == TR_BF16;

    if (!has_type || t->width < 1 || t->width > 65536)
        return tr_fail(TR_EFORMAT, "%s: table '%s' has rows of %lld %s", tr_roster_name(server->roster, server->roster->self),
                       t->name, (long long)t->width, tr_dtype_name((tr_dtype)t->dtype));
    return TR_OK;
}

tr_status tr__rows_new(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;
    tr__rows                      *r = server->rows = tr__must_alloc(sizeof *r);

    server->table = tr__must_array(setup->n_tables + 1, sizeof *server->table);
    r->of = tr__must_array((size_t)server->trainer_count, sizeof *r->of);
    r->update = tr__must_array(setup->n_tables + 1, sizeof *r->update);
    r->part = tr__must_array(setup->n_tables + 1, sizeof *r->part);
    r->part_capacity = tr__must_array(setup->n_tables + 1, sizeof *r->part_capacity);
    for (int i = 0; i < server->trainer_count; i++) {
        rows_of *of = &r->of[i];
        of->pieces_end = &of->pieces;
        of->arrived = tr__must_array(setup->n_tables + 1, sizeof *of->arrived);
        of->has_all = tr__must_array(setup->n_tables + 1, sizeof *of->has_all);
        of->answered = tr__must_array(setup->n_tables + 1, sizeof *of->answered);
    }
    for (size_t i = 0; i < setup->n_tables; i++) {
        const Trireme__Pserver__Table *t = setup->tables[i];
        TR_TRY(check_table(server, t));
        const tr_table_config config = {.dtype = (tr_dtype)t->dtype, .width = t->width, .states = (int)t->n_state_values};
        server->table[i] = (tr__table){t->width, tr_table_row_bytes(&config), tr_table_stride(&config)};
        server->table_count++;
    }
    return TR_OK;
}

static void free_piece(tr_server *server, piece *p)
{
    tr__server_buffer_free(server, p->payload);
    free(p);
}

/* Free the gradients of steps up to `step`. */
static void forget_pieces(tr_server *server, rows_of *of, uint64_t step)
{
    while (of->pieces && of->pieces->step <= step) {
        piece *oldest = of->pieces;
        of->pieces = oldest->next;
        free_piece(server, oldest);
    }
    if (!of->pieces)
        of->pieces_end = &of->pieces;
}

static void forget_answered(answered *last)
{
    while (last->first) {
        pull *oldest = last->first;
        last->first = oldest->next;
        free(oldest);
    }
    *last = (answered){0};
}

static void forget_waiting(rows_of *of)
{
    while (of->waiting) {
        pull *oldest = of->waiting;
        of->waiting = oldest->next;
        free(oldest);
    }
}

void tr__rows_free(tr_server *server)
{
    tr__rows *r = server->rows;

    if (!r)
        return;
    for (uint32_t i = 0; i < server->table_count; i++)
        free(r->part[i]);
    for (int i = 0; i < server->trainer_count; i++) {
        rows_of *of = &r->of[i];
        forget_pieces(server, of, UINT64_MAX);
        forget_waiting(of);
        for (uint32_t k = 0; k < server->table_count; k++)
            forget_answered(&of->answered[k]);
        free(of->answered);
        free(of->arrived);
        free(of->has_all);
    }
    free(r->of);
    free(r->part);
    free(r->part_capacity);
    free(r->update);
    free(r);
}

/* == gradients in ============================================================================= */

static tr_status check_push(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr_form_push_rows *push = &wire->push_rows;
    const rows_of           *of = rows_of_trainer(server, trainer);

    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    if (push->table >= server->table_count)
        return tr_fail(TR_EFORMAT, "%s pushes rows of table %u; there are %u", tr__server_trainer_name(server, trainer),
                       push->table, server->table_count);
    const tr__table *table = &server->table[push->table];
    if (wire->bytes % (sizeof(int64_t) + (uint64_t)table->width * sizeof(float)))
        return tr_fail(TR_EFORMAT, "%s pushes %llu bytes to table '%s', which are no rows of %lld values",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes,
                       server->setup->tables[push->table]->name, (long long)table->width);
    if (of->has_all[push->table])
        return tr_fail(TR_EPEER, "%s pushed rows of '%s' twice in step %llu", tr__server_trainer_name(server, trainer),
                       server->setup->tables[push->table]->name, (unsigned long long)trainer->ended + 1);
    if (push->piece != of->arrived[push->table] || push->piece >= push->pieces)
        return tr_fail(TR_EFORMAT, "%s pushes piece %u of %u of rows of '%s', of which %llu came",
                       tr__server_trainer_name(server, trainer), push->piece, push->pieces,
                       server->setup->tables[push->table]->name, (unsigned long long)of->arrived[push->table]);
    return TR_OK;
}

/* Copy the slots of a push's keys from the last pull. Most trainers push gradients of the rows that they pulled, in the same order. But a
 * pull and a push are divided into messages at different keys. */
static void take_hints(piece *p, answered *last, bool is_first)
{
    if (is_first) {
        last->at = last->first;
        last->pushed = 0;
    }
    for (int64_t done = 0, n; done < p->count; done += n) {
        const pull   *from = last->at;
        const int64_t left = p->count - done, pushed = last->pushed;
        if (!from)
            return;
        n = from->count - pushed < left ? from->count - pushed : left;
        if (memcmp(p->payload + done * (int64_t)sizeof(int64_t), from->key + pushed, (size_t)n * sizeof(int64_t)))
            return;
        memcpy(p->hint + done, from->hint + pushed, (size_t)n * sizeof *p->hint);
        last->pushed += n;
        if (last->pushed == from->count) {
            last->at = from->next;
            last->pushed = 0;
        }
    }
    p->has_hints = p->count > 0;
}

static tr_status on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const tr_form_push_rows *push = &wire->push_rows;
    rows_of                 *of = rows_of_trainer(server, trainer);

    if (tr__server_has_ended(trainer, push->step)) {
        tr__server_buffer_free(server, is_owned ? payload : NULL);
        return TR_OK;
    }
    TR_TRY(check_push(server, trainer, wire));
    const uint64_t row = sizeof(int64_t) + (uint64_t)server->table[push->table].width * sizeof(float);
    const int64_t  count = (int64_t)(wire->bytes / row);
    piece         *p = tr__must_bytes(sizeof *p + (size_t)count * sizeof *p->hint);
    if (!is_owned && wire->bytes)
        payload = memcpy(tr__server_buffer_new(server, wire->bytes), payload, wire->bytes);
    *p = (piece){.step = push->step, .table = push->table, .weight = push->weight, .count = count,
                 .payload = is_owned || wire->bytes ? payload : NULL};
    take_hints(p, &of->answered[push->table], push->piece == 0);
    *of->pieces_end = p;
    of->pieces_end = &p->next;
    of->has_all[push->table] = ++of->arrived[push->table] == push->pieces;
    return TR_OK;
}

const char *tr__rows_first_missing(const tr_server *server, const tr__trainer *trainer)
{
    for (uint32_t i = 0; i < server->table_count; i++)
        if (!rows_of_trainer(server, trainer)->has_all[i])
            return server->setup->tables[i]->name;
    return NULL;
}

void tr__rows_ended(tr_server *server, const tr__trainer *trainer)
{
    rows_of *of = rows_of_trainer(server, trainer);

    memset(of->arrived, 0, server->table_count * sizeof *of->arrived);
    memset(of->has_all, 0, server->table_count * sizeof *of->has_all);
}

void tr__rows_abandon(tr_server *server, const tr__trainer *trainer)
{
    rows_of *of = rows_of_trainer(server, trainer);
    piece  **at = &of->pieces;

    while (*at && (*at)->step <= trainer->ended)
        at = &(*at)->next;
    of->pieces_end = at;
    while (*at) {
        piece *oldest = *at;
        *at = oldest->next;
        free_piece(server, oldest);
    }
    forget_waiting(of);
    tr__rows_ended(server, trainer);
}

uint64_t tr__rows_stored(const tr_server *server, const tr__trainer *trainer)
{
    uint64_t count = 0;

    for (const piece *p = rows_of_trainer(server, trainer)->pieces; p; p = p->next)
        count++;
    return count;
}

static void list_part(tr__rows *r, int trainer, piece *p)
{
    tr_rows_update *update = &r->update[p->table];
    uint64_t       *capacity = &r->part_capacity[p->table];
    tr_rows_part  **part = &r->part[p->table];

    if ((uint64_t)update->count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 16;
        *part = tr__must_realloc(*part, *capacity * sizeof **part);
    }
    (*part)[update->count++] = (tr_rows_part){trainer, p->weight, p->count, (const int64_t *)(void *)p->payload,
                                              (const float *)(void *)(p->payload + p->count * (int64_t)sizeof(int64_t)), true,
                                              p->has_hints || p->count == 0 ? p->hint : NULL};
    update->part = *part;
}

const tr_rows_update *tr__rows_update(tr_server *server, const bool *takes_part)
{
    tr__rows *r = server->rows;

    for (uint32_t i = 0; i < server->table_count; i++)
        r->update[i].count = 0;
    for (int i = 0; i < server->trainer_count; i++)
        for (piece *p = takes_part[i] ? r->of[i].pieces : NULL; p; p = p->next)
            if (p->step == server->trainer[i].settled + 1)
                list_part(r, i, p);
    return r->update;
}

void tr__rows_forget_settled(tr_server *server)
{
    for (int i = 0; server->rows && i < server->trainer_count; i++)
        forget_pieces(server, &server->rows->of[i], server->trainer[i].settled);
}

/* == rows out ================================================================================= */

static tr_status read_rows(const tr_server *server, const tr__trainer *trainer, pull *p, void *out)
{
    const tr_store *store = &server->store;

    if (tr__pulls_wants_before(server, trainer, p->step))
        return store->rows_before(store->self, p->table, p->key, p->count, out);
    TR_TRY(store->rows(store->self, p->table, p->key, p->count, out, p->hint));
    p->has_hints = true;
    return TR_OK;
}

static tr_status read_shard(const tr_server *server, const pull *p, void **payload, uint64_t *bytes)
{
    return server->store.read_rows(server->store.self, p->table, (uint32_t)p->key[0], false, p->since, payload, bytes);
}

/* Read the rows for the answer of a pull. The payload is malloc'ed. */
static tr_status read_answer(tr_server *server, const tr__trainer *trainer, pull *p, void **payload, uint64_t *bytes)
{
    if (p->count < 0)
        return read_shard(server, p, payload, bytes);
    *bytes = (uint64_t)(p->count * server->table[p->table].row_bytes);
    *payload = tr__must_bytes(*bytes + 1);
    tr__pulls_record(server, trainer, p->step);
    const tr_status status = read_rows(server, trainer, p, *payload);
    if (status != TR_OK)
        free(*payload);
    else if (p->is_rounded)
        tr_rounded_make(*payload, *payload, *bytes);
    *bytes = tr_rounded_bytes(*bytes, p->is_rounded);
    return status;
}

static void send_answer(tr_server *server, const tr__trainer *trainer, pull *p)
{
    void           *payload;
    uint64_t        bytes;
    const tr_status status = read_answer(server, trainer, p, &payload, &bytes);

    if (status != TR_OK) {
        tr__server_fail(server, status);
        return;
    }
    tr__server_send(server, trainer->rank,
                    (tr_wire){.kind = TR_WIRE_DATA_ROWS, .incarnation = trainer->incarnation, .seq = p->seq, .bytes = bytes,
                              .data_rows = {.clock = server->policy.lead >= 0 ? tr__pulls_clock(server) : 0}}, payload);
}

/* Keep an answered pull, because the trainer's next gradient of the table probably has the same keys. */
static void keep_answered(tr_server *server, const tr__trainer *trainer, pull *p)
{
    answered *last = p->has_hints ? &rows_of_trainer(server, trainer)->answered[p->table] : NULL;

    if (last && (p->before == 0 || p->before != last->count))
        forget_answered(last);
    if (!last || p->before != last->count) {       /* earlier messages of the pull were answered by a predecessor of this server */
        free(p);
        return;
    }
    p->next = NULL;
    *(last->first ? last->end : &last->first) = p;
    last->end = &p->next;
    last->count += (uint64_t)p->count;
}

static void answer(tr_server *server, const tr__trainer *trainer, pull *p)
{
    send_answer(server, trainer, p);
    keep_answered(server, trainer, p);
}

static uint32_t table_of(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PULL_ROWS ? wire->pull_rows.table : wire->read_rows.table;
}

static uint64_t own_steps(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PULL_ROWS ? wire->pull_rows.step - wire->pull_rows.remakes : wire->read_rows.step;
}

static pull *parse_pull(const tr_wire *wire, const uint8_t *payload)
{
    const int64_t count = (int64_t)(wire->bytes / sizeof(int64_t));
    pull         *p = tr__must_bytes(sizeof *p + (size_t)(count + 1) * (sizeof *p->key + sizeof *p->hint));

    if (wire->kind == TR_WIRE_READ_ROWS) {
        *p = (pull){.seq = wire->seq, .step = wire->read_rows.step, .own = own_steps(wire), .table = wire->read_rows.table,
                    .since = wire->read_rows.since, .count = -1};
        p->key[0] = wire->read_rows.shard;
        return p;
    }
    *p = (pull){.seq = wire->seq, .step = wire->pull_rows.step, .own = own_steps(wire), .table = wire->pull_rows.table, .count = count,
                .is_rounded = wire->pull_rows.is_rounded, .before = wire->pull_rows.before, .hint = (uint32_t *)(void *)(p->key + count)};
    memcpy(p->key, payload, wire->bytes);
    return p;
}

static bool may_read(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own)
{
    return !tr__updates_is_updating(server) && tr__pulls_may_answer(server, trainer, step, own);
}

static bool is_pull(const tr_server *server, const tr_wire *wire)
{
    const uint32_t table = table_of(wire);
    const bool     is_rounded = wire->kind == TR_WIRE_PULL_ROWS && wire->pull_rows.is_rounded;

    return table < server->table_count && (!is_rounded || server->setup->tables[table]->dtype == TR_FP32) &&
           wire->bytes % sizeof(int64_t) == 0 && wire->bytes / sizeof(int64_t) * (uint64_t)server->table[table].row_bytes <= TR_LIMIT_DATA;
}

static tr_status on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    if (!tr__server_lags(trainer, tr_wire_step(wire)))
        TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    if (!is_pull(server, wire))
        return tr_fail(TR_EFORMAT, "%s pulls %llu bytes of keys from table %u; there are %u tables, and those of float32 are rounded",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes, table_of(wire), server->table_count);
    pull **end = &rows_of_trainer(server, trainer)->waiting;
    while (*end)
        end = &(*end)->next;
    *end = parse_pull(wire, payload);
    tr__server_due(server, TR__RULE_ANSWER);
    return TR_OK;
}

static void on_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!server->is_running || tr__stream_is_parked(server, trainer))          /* the original request may still be parked */
        return;
    for (const pull *p = rows_of_trainer(server, trainer)->waiting; p; p = p->next)
        if (p->seq == wire->seq)
            return;
    const uint64_t step = tr_wire_step(wire);
    const bool     is_now = trainer->ended == step || tr__server_lags(trainer, step);
    if (is_now && is_pull(server, wire) && may_read(server, trainer, step, own_steps(wire)))
        answer(server, trainer, parse_pull(wire, payload));
}

const tr__handler tr__rows_handlers[] = {
    {TR_WIRE_PUSH_ROWS, on_push, NULL}, {TR_WIRE_PULL_ROWS, on_pull, on_pull_again}, {TR_WIRE_READ_ROWS, on_pull, on_pull_again}, {0}};

void tr__rows_answer(tr_server *server)
{
    for (int i = 0; server->rows && i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        rows_of     *of = &server->rows->of[i];
        while (of->waiting && may_read(server, t, of->waiting->step, of->waiting->own)) {
            pull *p = of->waiting;
            of->waiting = p->next;
            answer(server, t, p);
        }
    }
}
