/* server_decisions.c - see server_decisions.h. */
#include "pserver/core/server_decisions.h"

#include "framework/memory.h"
#include "pserver/core/server_decide.h"
#include "pserver/core/server_pulls.h"
#include "pserver/core/server_rounds.h"
#include "pserver/core/server_replication.h"
#include "pserver/core/server_snapshots.h"
#include "pserver/core/server_updates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not decided after so long may have been lost, and is said again, less and less often: nanoseconds. */
static const int64_t ASK_FIRST = 2000000, ASK_LAST = 500000000;

struct tr__decisions {
    tr__report *report;               /* server 0: of each server and trainer; other servers: what they have said themselves */
    uint32_t   *gathered;             /* server 0: the newest snapshot that each server has gathered; other servers: [0] is their own */
    int        *rank;                 /* of each server, when it was last heard */
    int64_t     ask_at, ask_after;    /* say again then what was not answered; INT64_MAX: there is nothing */
    int64_t     asked_at;             /* when the standbys of dead servers were asked whether they serve */
};

/* == life ====================================================================================== */

static bool is_first(const tr_server *server)
{
    return server->self == 0;
}

void tr__decisions_new(tr_server *server)
{
    const size_t   trainers = (size_t)server->trainer_count, servers = (size_t)server->roster->servers;
    const size_t   speakers = is_first(server) ? servers : 1;
    tr__decisions *d = server->decisions = tr__must_alloc(sizeof *d);

    server->decided.settled = tr__must_array(trainers, sizeof *server->decided.settled);
    server->decided.trainer = tr__must_array(trainers, sizeof *server->decided.trainer);
    d->report = tr__must_array(speakers * trainers, sizeof *d->report);
    d->gathered = tr__must_array(speakers, sizeof *d->gathered);
    d->rank = tr__must_array(servers, sizeof *d->rank);
    memcpy(d->rank, server->roster->server_rank, servers * sizeof *d->rank);
    d->ask_at = INT64_MAX;
}

void tr__decisions_free(tr_server *server)
{
    free(server->decided.settled);
    free(server->decided.trainer);
    free(server->decisions->report);
    free(server->decisions->gathered);
    free(server->decisions->rank);
    free(server->decisions);
}

void tr__decisions_begin(tr_server *server, const tr_commit *commit)
{
    tr__decided *d = &server->decided;

    if (!tr__server_has_decisions(server))
        return;
    d->update = server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        d->settled[i] = server->trainer[i].settled;
    tr__server_due(server, TR__RULE_DECIDE);
    if (!commit || !is_first(server))
        return;
    d->number = commit->decisions;
    d->update = commit->decided;
    for (int i = 0; i < server->trainer_count; i++) {
        d->trainer[i] = commit->trainer[i] & (TR_TRAINER_IN | TR_TRAINER_OUT);
        if (d->trainer[i] & TR_TRAINER_OUT)
            d->trainer[i] |= commit->trainer[i] & TR_TRAINER_LOST;
        d->settled[i] += tr__server_is_pending(server) && d->trainer[i] & TR_TRAINER_IN;
    }
}

bool tr__decisions_are_complete(const tr_server *server)
{
    if (!tr__server_has_decisions(server))
        return true;
    for (int i = 0; i < server->trainer_count; i++)
        if (!tr__server_is_out(server, i))
            return false;
    return !tr__server_is_pending(server);
}

/* == carrying out ============================================================================== */

static bool is_in(const tr_server *server, int trainer)
{
    return server->decided.trainer[trainer] & TR_TRAINER_IN;
}

static bool is_late(const tr_server *server, const tr__trainer *t)
{
    const bool is_in_next = tr__server_is_pending(server) && is_in(server, t->index);

    return tr__round_of(server, t)->is_full && !tr__updates_takes_part(server)[t->index] &&
           t->settled + is_in_next < server->decided.settled[t->index];
}

bool tr__decisions_drop_late(tr_server *server)
{
    bool has_dropped = false;

    for (int i = 0; i < server->trainer_count; i++)
        if (is_late(server, &server->trainer[i])) {
            tr__updates_settle_alone(server, &server->trainer[i], true);
            tr__replication_commit(server);
            has_dropped = true;
        }
    return has_dropped;
}

static void fail_for_missing(tr_server *server, const tr__trainer *t)
{
    char name[320];                                /* one of the two names may be in a shared buffer */

    snprintf(name, sizeof name, "%s", tr__server_trainer_name(server, t));
    tr__server_fail(server, tr_fail(TR_EPEER, "%s died, and %s, which has taken a dead server's place, misses its step %llu for update %llu",
                                    name, tr_roster_name(server->roster, server->roster->self),
                                    (unsigned long long)server->decided.settled[t->index], (unsigned long long)server->decided.update));
}

/* Is all of the decided update here? Fails when it never will be. */
static bool has_all(tr_server *server)
{
    bool is_here = true;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (!is_in(server, i) || tr__round_of(server, t)->is_full)
            continue;
        if (tr_membership_is_over(t->state)) {
            fail_for_missing(server, t);
            return false;
        }
        is_here = false;
    }
    return is_here;
}

void tr__decisions_queue_update(tr_server *server)
{
    bool *takes_part = tr__updates_takes_part(server);

    if (tr__updates_queued(server) || !tr__server_is_pending(server) || !has_all(server))
        return;
    for (int i = 0; i < server->trainer_count; i++)
        takes_part[i] = is_in(server, i);
    tr__updates_enqueue(server, tr__rounds_merge(server, takes_part));
}

tr__trainer *tr__decisions_next_lost(tr_server *server)
{
    if (tr__updates_queued(server) || tr__server_is_pending(server))
        return NULL;
    for (int i = 0; i < server->trainer_count; i++)
        if (tr__server_is_decided_lost(server, i) && !tr_membership_is_over(server->trainer[i].state))
            return &server->trainer[i];
    return NULL;
}

/* == reporting ================================================================================= */

static uint32_t snapshot_flags(const tr_server *server)
{
    if (!tr__snapshots_are_decided(server) || !tr__snapshots_number(server))
        return 0;
    if (tr__snapshots_are_gathered(server))
        return TR_READY_GATHERED;
    return tr__snapshots_phase(server) != TR__SNAPSHOT_GATHERING ? TR_READY_GIVEN_UP : 0;
}

/* Trainer number `trainer_count` is none: the message is about a snapshot. */
static void say_ready(tr_server *server, int trainer, const tr__report *report)
{
    const uint32_t flags = snapshot_flags(server) | (report->is_lost ? TR_READY_LOST : 0) | (report->has_left ? TR_READY_LEFT : 0);

    tr__server_send(server, server->roster->server_rank[0],
                    (tr_wire){.kind = TR_WIRE_READY, .ready = {.step = report->step, .pulled = report->pulled, .trainer = (uint32_t)trainer,
                                                               .snapshot = tr__snapshots_number(server), .flags = flags}}, NULL);
}

/* What this server has of a trainer that is not decided yet. */
static tr__report report_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const tr__round   *round = tr__round_of(server, t);
    const bool         is_open = round->is_full && round->step > server->decided.settled[trainer];
    const bool         is_here = !tr__server_is_out(server, trainer);
    const bool         is_lost = t->state == TR_MEMBER_LOST, has_left = tr_membership_is_over(t->state) && !is_lost;

    return (tr__report){is_open ? round->step : 0, tr__pulls_update_of(server, t), is_lost && is_here, has_left && is_here};
}

/* Say what was not said yet, or (`again`) all that is not decided. Returns whether anything is not decided. */
static bool report_trainers(tr_server *server, bool again)
{
    bool is_open = false;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__report now = report_of(server, i), said = server->decisions->report[i];
        if (!now.step && !now.is_lost && !now.has_left)
            continue;
        is_open = true;
        if (again || (now.step && now.step != said.step) || (now.is_lost && !said.is_lost)) {
            say_ready(server, i, &now);
            server->decisions->report[i] = now;
        }
    }
    return is_open;
}

static bool report_snapshot(tr_server *server, bool again)
{
    const uint32_t news = snapshot_flags(server) ? tr__snapshots_number(server) : 0;

    if (news <= tr__snapshots_decided(server))
        return false;
    if (again || news != server->decisions->gathered[0])
        say_ready(server, server->trainer_count, &(tr__report){0});
    server->decisions->gathered[0] = news;
    return true;
}

static void report(tr_server *server, bool again)
{
    tr__decisions *d = server->decisions;
    const bool     is_trainer_open = report_trainers(server, again), is_snapshot_open = report_snapshot(server, again);

    if (!is_trainer_open && !is_snapshot_open) {
        d->ask_at = INT64_MAX;
        d->ask_after = 0;
    } else if (d->ask_at == INT64_MAX || again) {
        d->ask_after = d->ask_after ? 2 * d->ask_after : ASK_FIRST;
        d->ask_after = d->ask_after < ASK_LAST ? d->ask_after : ASK_LAST;
        d->ask_at = server->now + d->ask_after;
    }
}

/* A standby that has taken a dead server's place may have said so in vain: the standby that was to take it is asked. */
static int64_t ask_who_serves(tr_server *server, int64_t now)
{
    const tr_roster *roster = server->roster;
    tr__decisions   *d = server->decisions;
    bool             is_missed = false;

    if (!server->retry || !server->is_running)
        return INT64_MAX;
    const bool is_time = now - d->asked_at >= server->retry;
    for (int s = 0; s < roster->servers; s++) {
        const int rank = roster->server_rank[s], standby = roster->rank[rank].is_dead ? tr_roster_standby_for(roster, rank) : -1;
        is_missed |= standby >= 0;
        if (is_time && standby >= 0)
            tr__server_send(server, standby, (tr_wire){.kind = TR_WIRE_SERVING_ASK}, NULL);
    }
    if (is_time)
        d->asked_at = now;
    return is_missed ? d->asked_at + server->retry : INT64_MAX;
}

int64_t tr__decisions_tick(tr_server *server, int64_t now)
{
    tr__decisions *d = server->decisions;

    if (!tr__server_has_decisions(server))
        return INT64_MAX;
    if (now >= d->ask_at)
        report(server, true);
    const int64_t who = ask_who_serves(server, now);
    return who < d->ask_at ? who : d->ask_at;
}

/* == deciding ================================================================================== */

static void send_decision(tr_server *server, int to)
{
    tr__decided                *d = &server->decided;
    Trireme__Pserver__Decision  decision = TRIREME__PSERVER__DECISION__INIT;

    if (!d->number)
        return;
    decision.number = d->number;
    decision.update = d->update;
    decision.n_settled = decision.trainer.len = (size_t)server->trainer_count;
    decision.settled = d->settled;
    decision.trainer.data = d->trainer;
    decision.snapshot = tr__snapshots_decided(server);
    decision.has_snapshot_update = tr__snapshots_decided_update(server) != UINT64_MAX;
    decision.snapshot_update = tr__snapshots_decided_update(server);
    const size_t size = trireme__pserver__decision__get_packed_size(&decision);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__decision__pack(&decision, payload);
    tr__server_send(server, server->roster->server_rank[to], (tr_wire){.kind = TR_WIRE_DECISION, .bytes = size}, payload);
}

/* Server 0 commits what it decides before it says it. */
static bool decide(tr_server *server)
{
    if (!tr__decide(server, &(tr__evidence){server->decisions->report, server->decisions->gathered}))
        return false;
    if (server->roster->servers > 1)
        tr__replication_commit(server);
    for (int i = 1; i < server->roster->servers; i++)
        send_decision(server, i);
    return true;
}

bool tr__decisions_advance(tr_server *server)
{
    if (is_first(server))
        return decide(server);
    report(server, false);
    return false;
}

/* A server that has not gathered the decided snapshot has taken the place of one that had. */
void tr__decisions_follow_snapshot(tr_server *server)
{
    const uint32_t           decided = tr__snapshots_decided(server), number = tr__snapshots_number(server);
    const tr__snapshot_phase phase = tr__snapshots_phase(server);

    if (is_first(server) || decided < number || !decided)
        return;
    const bool is_mine = decided == number && tr__snapshots_decided_update(server) != UINT64_MAX && tr__snapshots_are_gathered(server);
    if (phase == TR__SNAPSHOT_NONE || (phase == TR__SNAPSHOT_GATHERING && !is_mine))
        tr__snapshots_give_up(server, decided);
}

/* == messages ================================================================================== */

static void hear_of_snapshot(tr_server *server, int from, const tr_form_ready *ready)
{
    if (!tr__snapshots_are_decided(server) || ready->snapshot <= tr__snapshots_decided(server))
        return;
    if (ready->flags & TR_READY_GATHERED)
        server->decisions->gathered[from] = ready->snapshot;
    if (ready->flags & TR_READY_GIVEN_UP && tr__snapshots_number(server) <= ready->snapshot)
        tr__snapshots_give_up(server, ready->snapshot);
}

/* Returns whether what is said of the trainer is decided already. */
static bool hear_of_trainer(tr_server *server, int from, const tr_form_ready *ready)
{
    const int   trainer = (int)ready->trainer;
    tr__report *r = &server->decisions->report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];

    if (ready->step && ready->step >= r->step)
        *r = (tr__report){ready->step, ready->pulled, r->is_lost, false};
    r->is_lost |= (ready->flags & TR_READY_LOST) != 0;
    return (ready->step && ready->step <= server->decided.settled[trainer]) ||
           (ready->flags & (TR_READY_LOST | TR_READY_LEFT) && tr__server_is_out(server, trainer));
}

static tr_status on_ready(tr_server *server, int from, const tr_form_ready *ready)
{
    bool is_known = ready->flags & TR_READY_GATHERED && ready->snapshot <= tr__snapshots_decided(server);

    if (!is_first(server) || ready->trainer > (uint32_t)server->trainer_count)
        return tr_fail(TR_EPEER, "server %d says to %s what it has of trainer %u", from,
                       tr_roster_name(server->roster, server->roster->self), ready->trainer);
    if (ready->trainer < (uint32_t)server->trainer_count)
        is_known |= hear_of_trainer(server, from, ready);
    hear_of_snapshot(server, from, ready);
    if (is_known)
        send_decision(server, from);
    return TR_OK;
}

static tr_status take_decision(tr_server *server, const Trireme__Pserver__Decision *decision)
{
    const size_t trainers = (size_t)server->trainer_count;
    tr__decided *d = &server->decided;

    if (decision->n_settled != trainers || decision->trainer.len != trainers)
        return tr_fail(TR_EFORMAT, "server 0 decides about %zu trainers instead of %zu", decision->n_settled, trainers);
    if (decision->number <= d->number)
        return TR_OK;
    if (decision->update > server->updates + 1)
        return tr_fail(TR_EPEER, "server 0 decides update %llu; %s has %llu", (unsigned long long)decision->update,
                       tr_roster_name(server->roster, server->roster->self), (unsigned long long)server->updates);
    d->number = decision->number;
    server->decisions->ask_after = 0;
    d->update = decision->update > d->update ? decision->update : d->update;
    memcpy(d->settled, decision->settled, trainers * sizeof *d->settled);
    memcpy(d->trainer, decision->trainer.data, trainers);
    tr__snapshots_set_decided(server, decision->snapshot, decision->has_snapshot_update ? decision->snapshot_update : UINT64_MAX);
    return TR_OK;
}

static tr_status on_decision(tr_server *server, int from, const tr_wire *wire, const uint8_t *payload)
{
    if (from != 0)
        return tr_fail(TR_EPEER, "server %d decides", from);
    Trireme__Pserver__Decision *decision = trireme__pserver__decision__unpack(NULL, wire->bytes, payload);
    if (!decision)
        return tr_fail(TR_EFORMAT, "a decision of server 0 is damaged");
    const tr_status status = take_decision(server, decision);
    trireme__pserver__decision__free_unpacked(decision, NULL);
    return status;
}

/* Another process serves in this place: what the one before had said or heard is to be said again. */
static void on_serving(tr_server *server, int from, int peer)
{
    const size_t   trainers = (size_t)server->trainer_count;
    tr__decisions *d = server->decisions;

    if (d->rank[from] == peer || (!is_first(server) && from != 0))
        return;
    d->rank[from] = peer;
    const int at = is_first(server) ? from : 0;
    memset(&d->report[(size_t)at * trainers], 0, trainers * sizeof *d->report);
    d->gathered[at] = 0;
    if (tr__snapshots_are_decided(server) && tr__snapshots_phase(server) == TR__SNAPSHOT_GATHERING)
        tr__snapshots_give_up(server, tr__snapshots_number(server));
    if (is_first(server))
        send_decision(server, from);
}

tr_status tr__decisions_on_message(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_rank *rank = &server->roster->rank[peer];

    /* A rank that was a server and is none any more has nothing to say. A server that is not running is told later. */
    if (rank->role != TR_ROLE_SERVER || !tr__server_has_decisions(server) || !server->is_running)
        return TR_OK;
    if (wire->kind == TR_WIRE_READY)
        TR_TRY(on_ready(server, rank->index, &wire->ready));
    else if (wire->kind == TR_WIRE_DECISION)
        TR_TRY(on_decision(server, rank->index, wire, payload));
    else
        on_serving(server, rank->index, peer);
    tr__server_due(server, TR__RULE_DECIDE);
    return TR_OK;
}

/* == in words ================================================================================== */

bool tr__decisions_describe(const tr_server *server, char *out, size_t size)
{
    if (!tr__server_has_decisions(server) || !server->is_running)
        return false;
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__round *round = tr__round_of(server, &server->trainer[i]);
        if (tr__server_is_out(server, i) || !round->is_full)
            continue;
        if (!is_first(server)) {
            snprintf(out, size, "server 0 to decide what makes update %llu", (unsigned long long)server->updates + 1);
            return true;
        }
        for (int s = 1; s < server->roster->servers; s++)
            if (server->decisions->report[(size_t)s * (size_t)server->trainer_count + (size_t)i].step != round->step) {
                snprintf(out, size, "server %d to have the gradients of step %llu of trainer %d", s, (unsigned long long)round->step, i);
                return true;
            }
    }
    return false;
}
