/* server_updates.c - see server_updates.h. */
#include "pserver/core/updates/server_updates.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_meters.h"
#include "pserver/core/updates/server_streams.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Steps of a trainer that are ended and not settled: settled + 1 .. ended. */
typedef struct steps {
    uint64_t *seq;                    /* numbers of the STEP_ENDs; NO_SEQ: of a dead process */
    uint64_t  capacity;
    uint64_t  applied_in;
} steps;

struct tr__updates {
    steps         *of;                /* the unsettled steps of each trainer */
    tr__round    **queue;             /* full rounds, in the order in which they became full; the first one may be in the update in hand */
    int            queued;
    bool           is_updating;       /* the first round of the queue is in the update in hand */
    bool           is_computed;       /* the store has computed the update in hand */
    tr__round     *over;              /* the round of the finished update, until it begins its next step; else NULL */
    bool          *takes_part;
    uint64_t      *settled;           /* the array that tr__updates_commit_of returns */
    uint8_t       *flags;
    atomic_llong   staleness[TR_STALENESS_BINS], dropped;     /* other threads read them for reports */
};

static const uint64_t NO_SEQ = UINT64_MAX;

void tr__updates_new(tr_server *server)
{
    tr__updates *u = server->update_queue = tr__must_alloc(sizeof *u);
    const size_t        trainers = (size_t)server->trainer_count;

    u->of = tr__must_array(trainers, sizeof *u->of);
    u->queue = tr__must_array(trainers + 1, sizeof(tr__round *));
    u->takes_part = tr__must_array(trainers, sizeof *u->takes_part);
    u->settled = tr__must_array(trainers, sizeof *u->settled);
    u->flags = tr__must_array(trainers, sizeof *u->flags);
}

void tr__updates_free(tr_server *server)
{
    tr__updates *u = server->update_queue;

    for (int i = 0; i < server->trainer_count; i++)
        free(u->of[i].seq);
    free(u->of);
    free(u->queue);
    free(u->takes_part);
    free(u->settled);
    free(u->flags);
    free(u);
}

void tr__updates_stats(const tr_server *server, tr_job_stats *stats)
{
    const tr__updates *u = server->update_queue;

    for (int i = 0; i < TR_STALENESS_BINS; i++)
        stats->staleness[i] = atomic_load_explicit(&u->staleness[i], memory_order_relaxed);
    stats->dropped = atomic_load_explicit(&u->dropped, memory_order_relaxed);
}

/* == steps ===================================================================================== */

static steps *steps_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->update_queue->of[trainer->index];
}

static void set_first_open(tr_server *server, const tr__trainer *trainer)
{
    const steps *s = steps_of(server, trainer);

    tr__stream_open(server, trainer, TR__OPEN_STEP, trainer->ended > trainer->settled && s->seq[0] != NO_SEQ ? s->seq[0] : 0);
}

void tr__updates_end_step(tr_server *server, tr__trainer *trainer, uint64_t seq)
{
    steps         *s = steps_of(server, trainer);
    const uint64_t count = trainer->ended++ - trainer->settled;

    if (count == s->capacity) {
        s->capacity = count ? 2 * count : 4;
        s->seq = tr__must_realloc(s->seq, s->capacity * sizeof *s->seq);
    }
    s->seq[count] = seq;
    set_first_open(server, trainer);
}

void tr__updates_end_step_again(tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t seq)
{
    if (step <= trainer->settled)
        return;
    steps_of(server, trainer)->seq[step - trainer->settled - 1] = seq;
    set_first_open(server, trainer);
}

void tr__updates_forget_requests(tr_server *server, const tr__trainer *trainer)
{
    for (uint64_t step = trainer->settled; step < trainer->ended; step++)
        steps_of(server, trainer)->seq[step - trainer->settled] = NO_SEQ;
    set_first_open(server, trainer);
}

void tr__updates_set_settled(tr_server *server, tr__trainer *trainer, uint64_t settled, uint64_t applied_in)
{
    trainer->ended = trainer->settled = settled;
    steps_of(server, trainer)->applied_in = applied_in;
    set_first_open(server, trainer);
}

uint64_t tr__updates_applied_in(const tr_server *server, const tr__trainer *trainer)
{
    return steps_of(server, trainer)->applied_in;
}

static void settle(tr_server *server, tr__trainer *trainer, uint64_t applied_in)
{
    steps *s = steps_of(server, trainer);

    trainer->settled++;
    memmove(s->seq, s->seq + 1, (trainer->ended - trainer->settled) * sizeof *s->seq);
    s->applied_in = applied_in;
    set_first_open(server, trainer);
    tr__stream_owe(server, trainer);
    tr__meters_settled(server, trainer);
    if (tr_membership_is_over(trainer->state))
        tr__server_due(server, TR__RULE_MEMBERS);      /* it may be out now, if it has left */
    tr__server_due(server, TR__RULE_SETTLED);
    tr__server_due(server, TR__RULE_ANSWER);
    tr__server_due(server, TR__RULE_SNAPSHOT);
}

void tr__updates_settle_alone(tr_server *server, tr__trainer *trainer, bool is_late)
{
    atomic_fetch_add_explicit(&server->update_queue->dropped, is_late, memory_order_relaxed);
    settle(server, trainer, 0);
    tr__round_next(server, tr__round_of(server, trainer));
}

/* == the queue ================================================================================= */

void tr__updates_enqueue(tr_server *server, tr__round *round)
{
    tr__updates *u = server->update_queue;

    round->is_full = true;
    u->queue[u->queued++] = round;
    tr__server_due(server, TR__RULE_BEGIN);
}

int tr__updates_queued(const tr_server *server)
{
    return server->update_queue->queued;
}

bool tr__updates_are_deciding(const tr_server *server)
{
    return tr__server_decides_updates(server) && (server->update_queue->queued || tr__server_is_pending(server));
}

bool tr__updates_is_updating(const tr_server *server)
{
    return server->update_queue->is_updating;
}

bool tr__updates_may_begin(const tr_server *server)
{
    return server->update_queue->queued && !server->update_queue->is_updating;
}

bool *tr__updates_takes_part(const tr_server *server)
{
    return server->update_queue->takes_part;
}

void tr__updates_count_staleness(tr_server *server, uint64_t staleness)
{
    int bin = 0;

    while (staleness && bin < TR_STALENESS_BINS - 1) {
        staleness >>= 1;
        bin++;
    }
    atomic_fetch_add_explicit(&server->update_queue->staleness[bin], 1, memory_order_relaxed);
}

tr_update tr__updates_begin(tr_server *server)
{
    tr__updates *u = server->update_queue;
    const tr__round    *round = u->queue[0];

    for (int i = 0; i < server->trainer_count && !tr__round_is_merged(server, round); i++)
        u->takes_part[i] = i >= round->first && i < round->end && server->trainer[i].ended >= round->step;
    tr__meters_begins(server, u->takes_part);
    u->is_updating = true;
    u->is_computed = false;
    return (tr_update){.number = server->updates + 1, .grad = round->sum, .takes_part = u->takes_part,
                       .compensation = server->policy.compensation};
}

int tr__updates_first_in_hand(const tr_server *server)
{
    return server->update_queue->queue[0]->first;
}

void tr__updates_computed(tr_server *server)
{
    server->update_queue->is_computed = true;
    tr__server_due(server, TR__RULE_FINISH);
}

bool tr__updates_is_computed(const tr_server *server)
{
    return server->update_queue->is_updating && server->update_queue->is_computed;
}

void tr__updates_release_rounds(tr_server *server)
{
    tr__updates *u = server->update_queue;
    tr__round   *round = u->over;

    u->over = NULL;
    if (round && !tr__round_is_merged(server, round))
        tr__round_next(server, round);
    for (int i = 0; round && i < server->trainer_count; i++) {
        if (u->takes_part[i] && tr__round_is_merged(server, round))
            tr__round_next(server, tr__round_of(server, &server->trainer[i]));
        u->takes_part[i] = false;
    }
}

void tr__updates_finish(tr_server *server)
{
    tr__updates *u = server->update_queue;

    assert(u->is_updating && !u->over);
    u->over = u->queue[0];
    server->updates++;
    u->is_updating = false;
    memmove(u->queue, u->queue + 1, (size_t)--u->queued * sizeof(tr__round *));
    for (int i = 0; i < server->trainer_count; i++)
        if (u->takes_part[i])
            settle(server, &server->trainer[i], server->updates);
    tr__server_due(server, TR__RULE_SETTLED);
    tr__server_due(server, TR__RULE_ANSWER);
    tr__server_due(server, TR__RULE_SNAPSHOT);
    tr__server_due(server, TR__RULE_COPY);
    tr__server_due(server, TR__RULE_BEGIN);
    tr__server_due(server, TR__RULE_DECIDE);
}

/* == commits =================================================================================== */

/* The state of a trainer for a commit. If a trainer has left while a step of it is not settled, the commit has it as present: it will send
 * that step and GOODBYE again to a successor of this server. */
static uint8_t flags_of(const tr_server *server, int index, uint64_t settled)
{
    const tr__trainer *t = &server->trainer[index];
    const bool         is_lost = t->state == TR_MEMBER_LOST;
    const bool         is_gone = is_lost || (tr_membership_is_over(t->state) && settled == t->ended);

    return (uint8_t)(server->decided.trainer[index] | (is_gone ? TR_TRAINER_GONE : 0) | (is_lost ? TR_TRAINER_LOST : 0));
}

tr_commit tr__updates_commit_of(tr_server *server, bool with_update)
{
    tr__updates *u = server->update_queue;
    const uint64_t      updates = server->updates + with_update;

    for (int i = 0; i < server->trainer_count; i++) {
        u->settled[i] = server->trainer[i].settled + (with_update && u->takes_part[i]);
        u->flags[i] = flags_of(server, i, u->settled[i]);
    }
    return (tr_commit){.updates = updates, .settled = u->settled, .trainer = u->flags,
                       .decided = tr__server_decides_updates(server) ? server->decided.update : updates,
                       .decisions = server->decided.number, .start = tr_roster_start(server->roster),
                       .member = server->decided.member, .snapshot = server->decided.snapshot, .newest_snapshot = server->newest_snapshot};
}
