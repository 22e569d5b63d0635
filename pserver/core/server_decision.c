/* server_decision.c - decisions: which contributions make an update, in the modes where that is not all of them, sync(backups) and sync(fewer)
 * (docs/protocol.md, "Decisions about updates").
 *
 * Servers get a trainer's step at different moments, and of a trainer that dies some servers get the last step and others never do. So server 0
 * decides for all. Every server reports to server 0 which steps it has completely and which trainers are dead for it (READY). A step that every server
 * has may be in an update. Server 0 decides which steps are in it, which are dropped, and which trainers are out (DECISION). Every server, server 0 too,
 * applies and drops exactly these. A job with one server does the same without messages.
 *
 * A decision contains everything that earlier decisions said: for each trainer, how many steps are in the updates so far, and which trainers
 * make the newest update. So a server that missed some decisions needs only the newest one. No server is more than one update behind: a step that may
 * be in an update was computed with the parameters of the update before, as every server had them, or its trainer took part in that update. A server that
 * misses a decision repeats READY, and server 0 answers with the newest.
 *
 * Server 0 commits a decision before it sends it, so its successor sends the same one; the other servers then repeat their READY. Server 0 forgets the
 * reports of a server that has died; its successor reports when trainers have sent it again what it lacks. If a trainer dies
 * after a decision has counted its step in, and before the successor of a dead server has that step, nobody can complete the update: the job fails and is started again
 * from the update before.
 *
 * Invariant: a trainer's step is in an update of all servers, or of none. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is not decided after so long may have been lost, and is said again, less and less often: nanoseconds. */
static const int64_t ASK_FIRST = 2000000, ASK_LAST = 500000000;

/* == life ====================================================================================== */

bool tr__server_has_decisions(const tr_server *server)
{
    return server->merged.sum != NULL;
}

static bool is_first(const tr_server *server)
{
    return server->self == 0;
}

tr_status tr__server_decisions_new(tr_server *server)
{
    const size_t  trainers = (size_t)server->trainer_count, servers = (size_t)server->roster->servers;
    const size_t  speakers = is_first(server) ? servers : 1;
    tr__decisions *v = &server->decisions;

    v->settled = tr__must_array(trainers, sizeof *v->settled);
    v->trainer = tr__must_array(trainers, sizeof *v->trainer);
    v->report = tr__must_array(speakers * trainers, sizeof *v->report);
    v->gathered = tr__must_array(speakers, sizeof *v->gathered);
    v->rank = tr__must_array(servers, sizeof *v->rank);
    memcpy(v->rank, server->roster->server_rank, servers * sizeof *v->rank);
    v->snapshot_update = UINT64_MAX;
    v->ask_at = INT64_MAX;
    return TR_OK;
}

void tr__server_decisions_free(tr_server *server)
{
    free(server->decisions.settled);
    free(server->decisions.trainer);
    free(server->decisions.report);
    free(server->decisions.gathered);
    free(server->decisions.rank);
}

void tr__server_decisions_begin(tr_server *server, const tr_commit *commit)
{
    tr__decisions *v = &server->decisions;

    if (!tr__server_has_decisions(server))
        return;
    v->update = server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        v->settled[i] = server->trainer[i].settled;
    if (!commit || !is_first(server))
        return;
    v->number = commit->decisions;
    v->update = commit->decided;
    for (int i = 0; i < server->trainer_count; i++) {
        v->trainer[i] = commit->trainer[i] & (TR_TRAINER_IN | TR_TRAINER_OUT);
        if (v->trainer[i] & TR_TRAINER_OUT)
            v->trainer[i] |= commit->trainer[i] & TR_TRAINER_LOST;
        v->settled[i] += tr__server_is_pending(server) && v->trainer[i] & TR_TRAINER_IN;
    }
}

bool tr__server_all_decided(const tr_server *server)
{
    if (!tr__server_has_decisions(server))
        return true;
    for (int i = 0; i < server->trainer_count; i++)
        if (!(server->decisions.trainer[i] & TR_TRAINER_OUT))
            return false;
    return !tr__server_is_pending(server);
}

/* == carrying out ============================================================================== */

static bool is_in(const tr_server *server, int trainer)
{
    return server->decisions.trainer[trainer] & TR_TRAINER_IN;
}

static void drop_late(tr_server *server, int trainer)
{
    const tr__decisions *v = &server->decisions;
    tr__trainer        *t = &server->trainer[trainer];

    while (t->round->is_full && !server->takes_part[trainer] &&
           t->settled + (tr__server_is_pending(server) && is_in(server, trainer)) < v->settled[trainer])
        tr__server_drop(server, t);
}

/* Is all of the update here that is decided? Fails when it never will be. */
static bool has_all(tr_server *server)
{
    bool is_here = true;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (!is_in(server, i) || t->round->is_full)
            continue;
        if (tr_membership_is_over(t->state)) {
            char name[320];                        /* one of the two names may be in a shared buffer */
            snprintf(name, sizeof name, "%s", tr__server_trainer_name(server, t));
            tr__server_fail(server, tr_fail(TR_EPEER, "%s died, and %s, which has taken a dead server's place, misses its step %llu "
                                            "for update %llu", name, tr_roster_name(server->roster, server->roster->self),
                                            (unsigned long long)server->decisions.settled[i],
                                            (unsigned long long)server->decisions.update));
            return false;
        }
        is_here = false;
    }
    return is_here;
}

static void carry_out(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        drop_late(server, i);
    if (server->queued)
        return;
    if (tr__server_is_pending(server)) {
        if (!has_all(server))
            return;
        for (int i = 0; i < server->trainer_count; i++)
            server->takes_part[i] = is_in(server, i);
        tr__server_apply_merged(server);
        return;
    }
    for (int i = 0; i < server->trainer_count; i++)
        if (server->decisions.trainer[i] & TR_TRAINER_LOST && !tr_membership_is_over(server->trainer[i].state))
            tr__server_trainer_lost(server, &server->trainer[i]);
}

/* == reporting ================================================================================= */

static uint32_t snapshot_flags(const tr_server *server)
{
    if (!tr__server_snapshot_is_decided(server) || !server->snapshot.number)
        return 0;
    return tr__server_snapshot_is_gathered(server) ? TR_READY_GATHERED : server->snapshot.phase != TR__SNAPSHOT_GATHERING ? TR_READY_GIVEN_UP : 0;
}

/* Trainer number `trainer_count` is none: the message is about a snapshot. */
static void say_ready(tr_server *server, int trainer, const tr__report *report)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = server->roster->server_rank[0],
        .wire = {.kind = TR_WIRE_READY, .sender = (uint32_t)server->roster->self,
                 .ready = {.step = report->step, .pulled = report->pulled, .trainer = (uint32_t)trainer, .snapshot = server->snapshot.number,
                           .flags = snapshot_flags(server) | (report->is_lost ? TR_READY_LOST : 0) |
                                    (report->has_left ? TR_READY_LEFT : 0)}}});
}

/* What this server has of a trainer that is not decided yet. */
static tr__report report_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const bool         is_open = t->round->is_full && t->round->step > server->decisions.settled[trainer];
    const bool         is_here = !tr__server_is_out(server, trainer);

    const bool         is_lost = t->state == TR_MEMBER_LOST, has_left = tr_membership_is_over(t->state) && !is_lost;

    return (tr__report){is_open ? t->round->step : 0, t->pulled, is_lost && is_here, has_left && is_here};
}

/* Say what was not said yet, or (`again`) all that is not decided. */
static void report(tr_server *server, bool again)
{
    tr__decisions *v = &server->decisions;
    bool          is_open = false;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__report now = report_of(server, i), said = v->report[i];
        if (!now.step && !now.is_lost && !now.has_left)
            continue;
        is_open = true;
        if (again || (now.step && now.step != said.step) || (now.is_lost && !said.is_lost)) {
            say_ready(server, i, &now);
            v->report[i] = now;
        }
    }
    const uint32_t news = snapshot_flags(server) ? server->snapshot.number : 0;
    if (news > v->snapshot) {
        is_open = true;
        if (again || news != v->gathered[0])
            say_ready(server, server->trainer_count, &(tr__report){0});
        v->gathered[0] = news;
    }
    if (!is_open) {
        v->ask_at = INT64_MAX;
        v->ask_after = 0;
    } else if (v->ask_at == INT64_MAX || again) {
        v->ask_after = v->ask_after ? 2 * v->ask_after : ASK_FIRST;
        v->ask_after = v->ask_after < ASK_LAST ? v->ask_after : ASK_LAST;
        v->ask_at = server->now + v->ask_after;
    }
}

/* Who has taken a dead server's place may have said so in vain: the standby that was to take it is asked. */
static int64_t ask_who_serves(tr_server *server, int64_t now)
{
    const tr_roster *roster = server->roster;
    tr__decisions    *v = &server->decisions;
    bool             is_missed = false;

    if (!server->retry || !server->is_running)
        return INT64_MAX;
    const bool is_time = now - v->asked_at >= server->retry;
    for (int s = 0; s < roster->servers; s++) {
        const int rank = roster->server_rank[s], standby = roster->rank[rank].is_dead ? tr_roster_standby_for(roster, rank) : -1;
        is_missed |= standby >= 0;
        if (is_time && standby >= 0)
            tr_outbox_put(&server->outbox, &(tr_message){.peer = standby, .wire = {.kind = TR_WIRE_SERVING_ASK,
                                                                                 .sender = (uint32_t)roster->self}});
    }
    if (is_time)
        v->asked_at = now;
    return is_missed ? v->asked_at + server->retry : INT64_MAX;
}

int64_t tr__server_watch_decisions(tr_server *server, int64_t now)
{
    tr__decisions *v = &server->decisions;

    if (!tr__server_has_decisions(server))
        return INT64_MAX;
    if (now >= v->ask_at) {
        server->now = now;
        report(server, true);
    }
    const int64_t who = ask_who_serves(server, now);
    return who < v->ask_at ? who : v->ask_at;
}

/* == saying what was decided =================================================================== */

static void send_decision(tr_server *server, int to)
{
    tr__decisions              *v = &server->decisions;
    Trireme__Pserver__Decision  decision = TRIREME__PSERVER__DECISION__INIT;

    if (!v->number)
        return;
    decision.number = v->number;
    decision.update = v->update;
    decision.n_settled = decision.trainer.len = (size_t)server->trainer_count;
    decision.settled = v->settled;
    decision.trainer.data = v->trainer;
    decision.snapshot = v->snapshot;
    decision.has_snapshot_update = v->snapshot_update != UINT64_MAX;
    decision.snapshot_update = v->snapshot_update;
    const size_t size = trireme__pserver__decision__get_packed_size(&decision);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__decision__pack(&decision, payload);
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = server->roster->server_rank[to], .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_DECISION, .sender = (uint32_t)server->roster->self, .bytes = size}});
}

/* Server 0's. */
static bool decide(tr_server *server)
{
    if (!tr__server_decide(server))
        return false;
    if (server->roster->servers > 1)
        tr__server_commit(server, false);
    for (int i = 1; i < server->roster->servers; i++)
        send_decision(server, i);
    return true;
}

/* What server 0 has said of a snapshot holds here. A server that has not gathered it is not who had. */
static void follow_snapshot(tr_server *server)
{
    const tr__decisions *v = &server->decisions;
    tr__snapshot            *snapshot = &server->snapshot;

    if (is_first(server) || v->snapshot < snapshot->number || !v->snapshot)
        return;
    const bool is_mine = v->snapshot == snapshot->number && v->snapshot_update != UINT64_MAX && tr__server_snapshot_is_gathered(server);
    if (snapshot->phase == TR__SNAPSHOT_NONE || (snapshot->phase == TR__SNAPSHOT_GATHERING && !is_mine))
        tr__server_snapshot_give_up(server, v->snapshot);
}

void tr__server_decision_moves(tr_server *server)
{
    tr__decisions *v = &server->decisions;

    v->is_again = true;
    if (!tr__server_has_decisions(server) || !server->is_running || v->is_busy)
        return;
    v->is_busy = true;
    while (v->is_again && server->status == TR_OK) {
        v->is_again = false;
        follow_snapshot(server);
        tr__server_try_snapshot(server);                /* before what comes after it */
        carry_out(server);
        if (is_first(server))
            v->is_again |= decide(server);
        else
            report(server, false);
    }
    v->is_busy = false;
}

/* == messages ================================================================================== */

static void hear_of_snapshot(tr_server *server, int from, const tr_form_ready *ready)
{
    tr__decisions *v = &server->decisions;

    if (!tr__server_snapshot_is_decided(server) || ready->snapshot <= v->snapshot)
        return;
    if (ready->flags & TR_READY_GATHERED)
        v->gathered[from] = ready->snapshot;
    if (ready->flags & TR_READY_GIVEN_UP && server->snapshot.number <= ready->snapshot)
        tr__server_snapshot_give_up(server, ready->snapshot);
}

static tr_status on_ready(tr_server *server, int from, const tr_form_ready *ready)
{
    tr__decisions *v = &server->decisions;
    const int     trainer = (int)ready->trainer;
    bool          is_known = ready->flags & TR_READY_GATHERED && ready->snapshot <= v->snapshot;

    if (!is_first(server) || ready->trainer > (uint32_t)server->trainer_count)
        return tr_fail(TR_EPEER, "server %d says to %s what it has of trainer %u", from,
                       tr_roster_name(server->roster, server->roster->self), ready->trainer);
    if (trainer < server->trainer_count) {
        tr__report *r = &v->report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];
        if (ready->step && ready->step >= r->step)
            *r = (tr__report){ready->step, ready->pulled, r->is_lost, false};
        r->is_lost |= (ready->flags & TR_READY_LOST) != 0;
        is_known |= (ready->step && ready->step <= v->settled[trainer]) || (ready->flags & (TR_READY_LOST | TR_READY_LEFT) && tr__server_is_out(server, trainer));
    }
    hear_of_snapshot(server, from, ready);
    if (is_known)
        send_decision(server, from);
    return TR_OK;
}

static tr_status take_decision(tr_server *server, const Trireme__Pserver__Decision *decision)
{
    const size_t  trainers = (size_t)server->trainer_count;
    tr__decisions *v = &server->decisions;

    if (decision->n_settled != trainers || decision->trainer.len != trainers)
        return tr_fail(TR_EFORMAT, "server 0 decides about %zu trainers instead of %zu", decision->n_settled, trainers);
    if (decision->number <= v->number)
        return TR_OK;
    if (decision->update > server->updates + 1)
        return tr_fail(TR_EPEER, "server 0 decides update %llu; %s has %llu", (unsigned long long)decision->update,
                       tr_roster_name(server->roster, server->roster->self), (unsigned long long)server->updates);
    v->number = decision->number;
    v->ask_after = 0;
    v->update = decision->update > v->update ? decision->update : v->update;
    memcpy(v->settled, decision->settled, trainers * sizeof *v->settled);
    memcpy(v->trainer, decision->trainer.data, trainers);
    v->snapshot = decision->snapshot;
    v->snapshot_update = decision->has_snapshot_update ? decision->snapshot_update : UINT64_MAX;
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
static void hear_serving(tr_server *server, int from, int peer)
{
    const size_t  trainers = (size_t)server->trainer_count;
    tr__decisions *v = &server->decisions;

    if (v->rank[from] == peer || (!is_first(server) && from != 0))
        return;
    v->rank[from] = peer;
    const int at = is_first(server) ? from : 0;
    memset(&v->report[(size_t)at * trainers], 0, trainers * sizeof *v->report);
    v->gathered[at] = 0;
    if (tr__server_snapshot_is_decided(server) && server->snapshot.phase == TR__SNAPSHOT_GATHERING)
        tr__server_snapshot_give_up(server, server->snapshot.number);
    if (is_first(server))
        send_decision(server, from);
}

tr_status tr__server_on_peer(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_rank *rank = &server->roster->rank[peer];

    /* Who was a server and is none any more has nothing to say; who is not set up is told later. */
    if (rank->role != TR_ROLE_SERVER || !tr__server_has_decisions(server) || !server->is_running)
        return TR_OK;
    if (wire->kind == TR_WIRE_READY)
        TR_TRY(on_ready(server, rank->index, &wire->ready));
    else if (wire->kind == TR_WIRE_DECISION)
        TR_TRY(on_decision(server, rank->index, wire, payload));
    else
        hear_serving(server, rank->index, peer);
    tr__server_decision_moves(server);
    return TR_OK;
}

/* == in words ================================================================================== */

bool tr__server_describe_decisions(const tr_server *server, char *out, size_t size)
{
    const unsigned long long next = (unsigned long long)server->updates + 1;

    if (!tr__server_has_decisions(server) || !server->is_running)
        return false;
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (tr__server_is_out(server, i) || !t->round->is_full)
            continue;
        if (!is_first(server)) {
            snprintf(out, size, "server 0 to decide what makes update %llu", next);
            return true;
        }
        for (int s = 1; s < server->roster->servers; s++)
            if (tr__server_said_by(server, s, i)->step != t->round->step) {
                snprintf(out, size, "server %d to have the gradients of step %llu of trainer %d", s,
                         (unsigned long long)t->round->step, i);
                return true;
            }
    }
    return false;
}
