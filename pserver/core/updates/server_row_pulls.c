/* server_row_pulls.c - see server_row_pulls.h. */
#include "pserver/core/updates/server_row_pulls.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"
#include "pserver/wire/rounded.h"

#include <stdlib.h>
#include <string.h>

/* A PULL_ROWS or READ_ROWS that waits for its answer. */
typedef struct pull {
    struct pull *next;
    uint64_t  seq, step, own;
    uint32_t  table;
    uint32_t  since;                  /* of a shard: only rows that an update after this one has touched; 0: all */
    int64_t   count;                  /* number of keys; -1: READ_ROWS, and key[0] is the virtual shard */
    bool      is_rounded;             /* the answer is in bfloat16 */
    bool      has_hints;              /* `hint` is filled in, because the pull was answered */
    uint32_t *hint;                   /* slots of the keys; lies after the keys in memory */
    uint64_t  before;                 /* number of keys in earlier messages of the same pull */
    int64_t   key[];
} pull;

/* The last answered pull of a table, of one message or several, with hints for the push of the same keys. */
typedef struct answered {
    pull     *first, **end;
    uint64_t  count;                  /* number of keys in all messages of the pull */
    pull     *at;                     /* the message whose keys are pushed next, from `pushed` on */
    int64_t   pushed;
} answered;

typedef struct puller {
    pull     *waiting;                /* pulls that wait for their step, or for the end of an update */
    answered *answered;               /* of each table: its last answered pull */
} puller;

struct tr__row_pulls {
    puller *of;                       /* of each trainer */
};

static puller *puller_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->row_pulls->of[trainer->index];
}

/* == life ===================================================================================== */

void tr__row_pulls_new(tr_server *server)
{
    tr__row_pulls *r = server->row_pulls = tr__must_alloc(sizeof *r);

    r->of = tr__must_array((size_t)server->trainer_count, sizeof *r->of);
    for (int i = 0; i < server->trainer_count; i++)
        r->of[i].answered = tr__must_array(server->table_count + 1, sizeof *r->of[i].answered);
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

static void forget_waiting(puller *of)
{
    while (of->waiting) {
        pull *oldest = of->waiting;
        of->waiting = oldest->next;
        free(oldest);
    }
}

void tr__row_pulls_free(tr_server *server)
{
    tr__row_pulls *r = server->row_pulls;

    for (int i = 0; r && i < server->trainer_count; i++) {
        forget_waiting(&r->of[i]);
        for (uint32_t k = 0; k < server->table_count; k++)
            forget_answered(&r->of[i].answered[k]);
        free(r->of[i].answered);
    }
    if (r)
        free(r->of);
    free(r);
}

void tr__row_pulls_abandon(tr_server *server, const tr__trainer *trainer)
{
    forget_waiting(puller_of(server, trainer));
}

/* == hints ==================================================================================== */

bool tr__row_pulls_take_hints(tr_server *server, const tr__trainer *trainer, uint32_t table, bool is_first, const uint8_t *keys,
                              uint32_t *hints, int64_t count)
{
    answered *last = &puller_of(server, trainer)->answered[table];

    if (is_first) {
        last->at = last->first;
        last->pushed = 0;
    }
    for (int64_t done = 0, n; done < count; done += n) {
        const pull   *from = last->at;
        const int64_t left = count - done, pushed = last->pushed;
        if (!from)
            return false;
        n = from->count - pushed < left ? from->count - pushed : left;
        if (memcmp(keys + done * (int64_t)sizeof(int64_t), from->key + pushed, (size_t)n * sizeof(int64_t)))
            return false;
        memcpy(hints + done, from->hint + pushed, (size_t)n * sizeof *hints);
        last->pushed += n;
        if (last->pushed == from->count) {
            last->at = from->next;
            last->pushed = 0;
        }
    }
    return count > 0;
}

/* == answers ================================================================================== */

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
    answered *last = p->has_hints ? &puller_of(server, trainer)->answered[p->table] : NULL;

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
    pull *p = tr__must_bytes(sizeof *p + (size_t)(count + 1) * (sizeof *p->key + sizeof *p->hint));

    if (wire->kind == TR_WIRE_READ_ROWS) {
        *p = (pull){.seq = wire->seq, .step = wire->read_rows.step, .own = own_steps(wire), .table = wire->read_rows.table,
                    .since = wire->read_rows.since, .count = -1};
        p->key[0] = wire->read_rows.shard;
        return p;
    }
    *p = (pull){.seq = wire->seq, .step = wire->pull_rows.step, .own = own_steps(wire), .table = wire->pull_rows.table,
                        .count = count, .is_rounded = wire->pull_rows.is_rounded, .before = wire->pull_rows.before,
                        .hint = (uint32_t *)(void *)(p->key + count)};
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
    pull **end = &puller_of(server, trainer)->waiting;
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
    for (const pull *p = puller_of(server, trainer)->waiting; p; p = p->next)
        if (p->seq == wire->seq)
            return;
    const uint64_t step = tr_wire_step(wire);
    const bool     is_now = trainer->ended == step || tr__server_lags(trainer, step);
    if (is_now && is_pull(server, wire) && may_read(server, trainer, step, own_steps(wire)))
        answer(server, trainer, parse_pull(wire, payload));
}

/* It changes no result, so it is not kept until the end of an update. */
static tr_status on_expect(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const tr_store *store = &server->store;

    (void)is_owned;
    if (wire->expect_rows.table >= server->table_count || wire->bytes % sizeof(int64_t))
        return tr_fail(TR_EFORMAT, "%s expects rows of %llu bytes of keys from table %u; there are %u tables",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->bytes, wire->expect_rows.table,
                       server->table_count);
    if (!store->expect_rows || tr__updates_is_updating(server))
        return TR_OK;
    int64_t *keys = tr__must_bytes(wire->bytes + 1);   /* the payload may not be aligned */
    memcpy(keys, payload, wire->bytes);
    const tr_status status = store->expect_rows(store->self, wire->expect_rows.table, keys, (int64_t)(wire->bytes / sizeof *keys));
    free(keys);
    if (status != TR_OK)
        tr__server_fail(server, status);
    return TR_OK;
}

const tr__handler tr__row_pulls_handlers[] = {
    {TR_WIRE_PULL_ROWS, on_pull, on_pull_again}, {TR_WIRE_READ_ROWS, on_pull, on_pull_again}, {TR_WIRE_EXPECT_ROWS, on_expect, NULL}, {0}};

void tr__row_pulls_answer(tr_server *server)
{
    for (int i = 0; server->row_pulls && i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        puller      *has = &server->row_pulls->of[i];
        while (has->waiting && may_read(server, t, has->waiting->step, has->waiting->own)) {
            pull *p = has->waiting;
            has->waiting = p->next;
            answer(server, t, p);
        }
    }
}
