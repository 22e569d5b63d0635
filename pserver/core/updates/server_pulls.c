/* server_pulls.c - see server_pulls.h. */
#include "pserver/core/updates/server_pulls.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/rounded_params.h"
#include "pserver/core/updates/server_meters.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"
#include "storage/util/little_endian.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A PULL that waits for its answer. */
typedef struct pull {
    struct pull *next;
    uint64_t     seq, step, own;
    tr_wire_part part;                /* FIRST: the answer is for the whole group. OTHER: that answer is for this trainer, too */
    uint32_t     carrier;             /* FIRST: the rank to which the answer goes, + 1; 0: the trainer is the carrier itself */
    uint32_t     count;
    uint32_t     block[];
} pull;

/* The parameters that a trainer has, and its waiting pulls. */
typedef struct puller {
    pull     *waiting;                /* pulls that wait, in the order of their numbers */
    uint64_t  update, step;           /* the update of the oldest parameters and rows that it got for step `step` */
    uint64_t  shared_step;            /* the last step whose parameters its whole group got */
    uint8_t **copy;                   /* copies of those parameters, block by block, where delay is compensated; else NULL */
} puller;

struct tr__pulls {
    tr__rounded_params *rounded;      /* large parameters in bfloat16; NULL until the first pull in bfloat16 */
    puller  *of;                      /* the pulls of each trainer */
    tr_loan *loan;                    /* two for each rank: its loans of either buffer */
    bool     awaits_loans;            /* the next update would write a buffer that is being sent */
};

static puller *puller_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->pulls->of[trainer->index];
}

/* == life ====================================================================================== */

void tr__pulls_new(tr_server *server)
{
    tr__pulls *p = server->pulls = tr__must_alloc(sizeof *p);

    p->of = tr__must_array((size_t)server->trainer_count, sizeof *p->of);
    p->loan = tr__must_array(2 * (size_t)server->roster->size, sizeof *p->loan);
}

static void free_waiting(puller *p)
{
    while (p->waiting) {
        pull *first = p->waiting;
        p->waiting = first->next;
        free(first);
    }
}

void tr__pulls_free(tr_server *server)
{
    tr__pulls *p = server->pulls;

    for (int i = 0; i < server->trainer_count; i++) {
        free_waiting(&p->of[i]);
        for (uint32_t b = 0; p->of[i].copy && b < server->block_count; b++)
            free(p->of[i].copy[b]);
        free(p->of[i].copy);
    }
    tr__rounded_params_free(p->rounded);
    free(p->of);
    free(p->loan);
    free(p);
}

tr_status tr__pulls_keep_copies(tr_server *server)
{
    for (int i = 0; server->policy.compensation > 0 && i < server->trainer_count; i++) {
        puller *p = &server->pulls->of[i];
        p->copy = tr__must_array(server->block_count + 1, sizeof *p->copy);
        for (uint32_t b = 0; b < server->block_count; b++) {
            const uint64_t bytes = server->block[b].bytes;
            p->copy[b] = tr__array_alloc(bytes);
            if (!p->copy[b])
                return tr_fail(TR_ENOMEM, "no memory for what trainer %d has of '%s', %llu bytes", i,
                               server->setup->blocks[b]->param, (unsigned long long)bytes);
            memcpy(p->copy[b], server->store.param(server->store.self, b), bytes);
        }
    }
    return TR_OK;
}

/* Does the PULL that the carrier has sent before this trainer's still wait, to be answered for all? If it was lost, if its trainer has
 * asked again by itself, or has died, the others get answers of their own. */
static bool waits_with_first(const tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    const tr__trainer  *first = &server->trainer[server->roster->group_first[trainer->index]];
    const tr__deferred *parked = tr__stream_first_parked(server, first);
    const pull         *p = puller_of(server, first)->waiting;

    while (p && (p->part != TR_PART_FIRST || p->step != step))
        p = p->next;
    while (parked && (parked->wire.kind != TR_WIRE_PULL || parked->wire.pull.part != TR_PART_FIRST || parked->wire.pull.step != step))
        parked = parked->next;
    return p || parked;
}

void tr__pulls_forget(tr_server *server, const tr__trainer *trainer)
{
    puller *p = puller_of(server, trainer);

    free_waiting(p);
    tr__server_due(server, TR__RULE_ANSWER);       /* others may have waited for the same answer */
}

/* == when ====================================================================================== */

/* The smallest number of settled steps of all trainers whose next step does not depend on others, or (`with_parked`) of all that make
 * steps. */
static uint64_t slowest(const tr_server *server, bool with_parked)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if ((with_parked ? !tr_membership_is_over(t->state) : tr__stream_is_moving(server, t)) && t->settled < least)
            least = t->settled;
    }
    return least;
}

uint64_t tr__pulls_clock(const tr_server *server)
{
    return slowest(server, true);
}

bool tr__pulls_may_answer(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own)
{
    if (trainer->settled < step)
        return false;
    return server->policy.lead < 0 || own <= (uint64_t)server->policy.lead ||
           own - (uint64_t)server->policy.lead <= slowest(server, false);
}

bool tr__pulls_wants_before(const tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    return server->policy.is_lockstep && tr__server_lags(trainer, step) && trainer->settled == trainer->ended &&
           tr__updates_applied_in(server, trainer) == server->updates && server->store.param_before;
}

/* == loans ===================================================================================== */

/* An update writes the buffer of the update before the last one; values are set in that of the last one. */
static tr_loan *loan_of(const tr_server *server, int rank, uint64_t update)
{
    return &server->pulls->loan[2 * (uint64_t)rank + update % 2];
}

static bool is_read(tr_loan *loan)
{
    return loan->is_wanted = loan->readers && !loan->is_void;
}

bool tr__pulls_are_read(tr_server *server, bool sets_values)
{
    bool any = false;

    for (int i = 0; i < server->roster->size; i++) {
        any |= is_read(loan_of(server, i, server->updates + 1));
        any |= sets_values && is_read(loan_of(server, i, server->updates));
    }
    return server->pulls->awaits_loans = any;
}

bool tr__pulls_await_loans(const tr_server *server)
{
    return server->pulls->awaits_loans;
}

void tr__pulls_void_loans(tr_server *server, int rank)
{
    server->pulls->loan[2 * rank].is_void = server->pulls->loan[2 * rank + 1].is_void = true;
}

void tr__pulls_describe_readers(const tr_server *server, char *out, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < server->roster->size && used < size; i++)
        if (loan_of(server, i, server->updates + 1)->is_wanted)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", tr_roster_name(server->roster, i));
    if (used < size)
        snprintf(out + used, size - used, " to receive the parameters of update %llu", (unsigned long long)server->updates - 1);
}

/* == what a trainer has ======================================================================== */

/* Has this server the step after this one already? Then a dead trainer made it, and its replacement repeats it for the other servers. */
static bool is_made(const tr__trainer *trainer, uint64_t step)
{
    return trainer->ended > step;
}

void tr__pulls_record(tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    puller *p = puller_of(server, trainer);

    if (is_made(trainer, step))
        return;
    if (p->step != step)
        p->update = server->updates;               /* of several answers the first one is the oldest */
    p->step = step;
}

void tr__pulls_set(tr_server *server, const tr__trainer *trainer, uint64_t update, uint64_t step)
{
    puller_of(server, trainer)->update = update;
    puller_of(server, trainer)->step = step;
}

uint64_t tr__pulls_update_of(const tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    const puller *p = puller_of(server, trainer);

    /* where parameters are, a step without a pull has those of a step before; rows are asked for in each step, if at all */
    return server->block_count || p->step + 1 == step ? p->update : UINT64_MAX;
}

uint8_t **tr__pulls_copy_of(const tr_server *server, const tr__trainer *trainer)
{
    return puller_of(server, trainer)->copy;
}

/* == answers =================================================================================== */

typedef struct reply {
    tr_server         *server;
    const tr__trainer *trainer;
    uint64_t           seq;
    uint32_t           carrier;
    uint32_t           sent;          /* number of messages of this answer so far */
    bool               is_before;     /* the answer has the parameters before the last update */
} reply;

static uint8_t *param_of(const reply *r, uint32_t index)
{
    const tr_store *store = &r->server->store;
    if (index >= r->server->block_count)
        return (r->is_before ? store->value_before : store->value)(store->self, r->server->block[index].value);
    return r->is_before ? store->param_before(store->self, index) : store->param(store->self, index);
}

/* Queue a message of the answer. `message` has its kind and its own fields. */
static void put_reply(reply *r, const tr_wire *message, uint64_t bytes, void *payload, void *owned)
{
    const bool is_lent = !owned && !r->server->policy.is_lockstep;
    const int  rank = r->trainer->rank;
    tr_loan   *loan = is_lent ? loan_of(r->server, rank, r->server->updates) : NULL;
    tr_message answer = {.peer = rank, .payload = payload, .owned = owned, .loan = loan, .wire = *message};

    if (r->carrier && tr_roster_is_here(r->server->roster, (int)r->carrier - 1)) {
        answer.peer = (int)r->carrier - 1;
        answer.wire.receiver = (uint32_t)rank + 1;
    }
    answer.wire.incarnation = r->trainer->incarnation;
    answer.wire.sender = (uint32_t)r->server->roster->self;
    answer.wire.seq = r->seq;
    answer.wire.bytes = bytes;
    if (loan)
        loan->readers++;
    tr_outbox_put(&r->server->outbox, &answer);
}

/* The block of a number in a PULL, without the bit that asks for rounding. */
static uint32_t block_of(uint32_t asked)
{
    return asked & ~TR_ROUNDED_BIT;
}

static bool is_rounded(uint32_t asked)
{
    return asked & TR_ROUNDED_BIT;
}

static uint64_t answer_bytes(const tr_server *server, uint32_t asked)
{
    return tr_rounded_bytes(server->block[block_of(asked)].bytes, is_rounded(asked));
}

static uint8_t *rounded_param_of(const reply *r, uint32_t index)
{
    tr__pulls *p = r->server->pulls;

    if (!p->rounded)
        p->rounded = tr__rounded_params_new(r->server->block_count);
    return tr__rounded_params_get(p->rounded, index, r->server->updates - r->is_before, param_of(r, index), r->server->block[index].bytes);
}

static bool is_small(const tr_server *server, uint32_t index)
{
    return tr_wire_is_small(server->block[index].bytes, server->chunk_bytes);
}

static void reply_large(reply *r, uint32_t asked)
{
    tr_server     *server = r->server;
    const uint32_t index = block_of(asked);
    const uint64_t bytes = answer_bytes(server, asked);
    uint8_t       *param = is_rounded(asked) ? rounded_param_of(r, index) : param_of(r, index);

    for (uint64_t offset = 0; offset < bytes; offset += server->chunk_bytes) {
        const uint64_t left = bytes - offset;
        const tr_wire  data = {.kind = TR_WIRE_DATA, .data = {.offset = offset, .block = index, .number = r->sent++}};
        put_reply(r, &data, left < server->chunk_bytes ? left : server->chunk_bytes, param + offset, NULL);
    }
}

static void put_small(const reply *r, void *to, uint32_t asked)
{
    const uint64_t bytes = r->server->block[block_of(asked)].bytes;
    const uint8_t *param = param_of(r, block_of(asked));

    if (is_rounded(asked))
        tr_rounded_make(to, param, bytes);
    else
        memcpy(to, param, bytes);
}

/* Answer as many small blocks as fit into one message, beginning at index `from`. Returns the index after them. */
static uint32_t reply_small(reply *r, const uint32_t *blocks, uint32_t count, uint32_t from)
{
    tr_server *server = r->server;
    uint64_t   size = 0, cursor;
    uint32_t   n = 0, to = from, index = 0;

    for (; to < count; to++) {
        const uint64_t bytes = answer_bytes(server, blocks[to]);
        if (!is_small(server, block_of(blocks[to])))
            continue;
        if (n && size + tr_wire_entry_size(bytes) > server->chunk_bytes)
            break;
        size += tr_wire_entry_size(bytes);
        n++;
    }
    if (!n)
        return count;
    uint8_t *payload = tr__must_bytes(size);
    cursor = (uint64_t)n * TR_WIRE_ENTRY;
    for (uint32_t i = from; i < to; i++)
        if (is_small(server, block_of(blocks[i])))
            put_small(r, tr_wire_entry_put(payload, index++, &cursor, block_of(blocks[i]), answer_bytes(server, blocks[i])), blocks[i]);
    put_reply(r, &(tr_wire){.kind = TR_WIRE_DATA_MANY, .data_many = {.count = n, .number = r->sent++}}, size, payload, payload);
    return to;
}

static void keep_copy(tr_server *server, puller *p, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t index = block_of(blocks[i]);
        if (index >= server->block_count)
            continue;
        const uint64_t bytes = server->block[index].bytes;
        void          *param = server->store.param(server->store.self, index), *copy = p->copy[index];
        if (is_rounded(blocks[i]))
            tr_rounded_floats(copy, param, bytes);
        else
            memcpy(copy, param, bytes);
    }
}

static void answer(tr_server *server, tr__trainer *trainer, const pull *asked)
{
    const uint64_t  step = asked->step;
    const uint32_t *blocks = asked->block, count = asked->count;
    reply           r = {server, trainer, asked->seq, asked->carrier, 0, tr__pulls_wants_before(server, trainer, step)};
    puller         *p = puller_of(server, trainer);

    tr__pulls_record(server, trainer, step);
    if (asked->part == TR_PART_OTHER)
        return;
    if (asked->part == TR_PART_FIRST)
        p->shared_step = step;
    if (p->copy && !is_made(trainer, step))
        keep_copy(server, p, blocks, count);
    for (uint32_t i = 0; i < count;)
        i = reply_small(&r, blocks, count, i);
    for (uint32_t i = 0; i < count; i++)
        if (!is_small(server, block_of(blocks[i])))
            reply_large(&r, blocks[i]);
}

static pull *parse_pull(const tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t count = wire->bytes / 4;
    pull          *p = tr__must_bytes(sizeof *p + count * sizeof(uint32_t));

    p->next = NULL;
    p->seq = wire->seq;
    p->step = wire->pull.step;
    p->own = wire->pull.step - wire->pull.remakes;
    p->part = (tr_wire_part)wire->pull.part;
    p->carrier = wire->pull.part == TR_PART_FIRST ? wire->carrier : 0;
    p->count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        p->block[i] = tr_get_u32(payload + 4 * i);
        const uint32_t index = block_of(p->block[i]);
        if (index >= server->pull_count || (is_rounded(p->block[i]) && server->block[index].dtype != TR_FP32)) {
            free(p);
            return NULL;
        }
    }
    return p;
}

static tr_status on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    if (!tr__server_lags(trainer, wire->pull.step))
        TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    pull  *p = parse_pull(server, wire, payload);
    pull **end = &puller_of(server, trainer)->waiting;
    if (!p)
        return tr_fail(TR_EFORMAT, "%s pulls a block that does not exist, or one in bfloat16 that is not float32",
                       tr__server_trainer_name(server, trainer));
    if (!tr__pulls_may_answer(server, trainer, p->step, p->own))
        tr__meters_holds(server, trainer);
    while (*end)
        end = &(*end)->next;
    *end = p;
    tr__server_due(server, TR__RULE_ANSWER);
    return TR_OK;
}

/* A PULL that comes again waits still. It may have come through a carrier, which has died: the answer goes to the trainer itself. */
static bool still_waits(tr_server *server, const tr__trainer *trainer, uint64_t seq)
{
    tr__deferred *parked = tr__stream_parked(server, trainer, seq);
    pull         *p = puller_of(server, trainer)->waiting;

    if (parked)
        parked->wire.pull.part = TR_PART_OWN;
    while (p && p->seq != seq)
        p = p->next;
    if (p) {
        p->part = TR_PART_OWN;
        p->carrier = 0;
        tr__server_due(server, TR__RULE_ANSWER);
    }
    return parked || p;
}

static void on_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    puller *has = puller_of(server, trainer);

    if (still_waits(server, trainer, wire->seq) || tr__stream_is_parked(server, trainer))
        return;
    /* A PULL of an earlier step was answered, because the trainer has pushed since. A PULL of a later step waits. */
    const bool is_now = trainer->ended == wire->pull.step || tr__server_lags(trainer, wire->pull.step);
    if (!server->is_running || !is_now || !tr__pulls_may_answer(server, trainer, wire->pull.step, wire->pull.step - wire->pull.remakes))
        return;
    pull          *p = parse_pull(server, wire, payload);
    const uint64_t update = has->update;
    if (p)
        answer(server, trainer, p);
    has->update = update;                          /* the trainer may have a part of its first answer already */
    free(p);
}

const tr__handler tr__pulls_handlers[] = {{TR_WIRE_PULL, on_pull, on_pull_again}, {0}};

static void answer_trainer(tr_server *server, tr__trainer *trainer)
{
    puller       *has = puller_of(server, trainer);
    const puller *first = &server->pulls->of[server->roster->group_first[trainer->index]];

    while (has->waiting && tr__pulls_may_answer(server, trainer, has->waiting->step, has->waiting->own)) {
        pull      *p = has->waiting;
        const bool is_shared = p->part == TR_PART_OTHER && first->shared_step == p->step;
        if (p->part == TR_PART_OTHER && !is_shared && waits_with_first(server, trainer, p->step))
            break;
        p->part = is_shared || p->part == TR_PART_FIRST ? p->part : TR_PART_OWN;
        has->waiting = p->next;
        answer(server, trainer, p);
        free(p);
    }
    if (!has->waiting)
        tr__meters_answered(server, trainer);
}

void tr__pulls_answer(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        answer_trainer(server, &server->trainer[i]);
}
