/* server_decisions.c - see server_decisions.h. */
#include "pserver/core/members/server_decisions.h"

#include "framework/base/memory.h"
#include "pserver/core/members/server_decide.h"
#include "pserver/core/members/server_decided.h"
#include "pserver/core/members/server_members.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_rounds.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/updates/server_updates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An undecided report may have been lost. It is repeated after ASK_FIRST nanoseconds, then after twice that time, up to ASK_LAST. */
static const int64_t ASK_FIRST = 2000000, ASK_LAST = 500000000;

struct tr__decisions {
    tr__report *report;               /* server 0: the reports of each server about each trainer; other servers: their own last reports */
    uint32_t   *gathered;             /* server 0: each server's newest gathered snapshot; others: [0] is their undecided report; 0: none */
    bool        reported_gathered;    /* other servers: the report about that snapshot was GATHERED */
    int        *rank;                 /* of each server: its rank at its last message */
    bool        has_open, has_open_members;       /* other servers: an undecided report about updates or snapshots; about members */
    bool        are_members_deferred;  /* decisions about members wait for the end of a decided update */
    int64_t     ask_at, ask_after;    /* time of the next repetition, INT64_MAX: none; the interval */
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

    d->report = tr__must_array(speakers * trainers, sizeof *d->report);
    d->gathered = tr__must_array(speakers, sizeof *d->gathered);
    d->rank = tr__must_array(servers, sizeof *d->rank);
    memcpy(d->rank, server->roster->server_rank, servers * sizeof *d->rank);
    d->ask_at = INT64_MAX;
}

void tr__decisions_free(tr_server *server)
{
    free(server->decisions->report);
    free(server->decisions->gathered);
    free(server->decisions->rank);
    free(server->decisions);
}

tr_status tr__decisions_begin(tr_server *server, const tr_commit *commit)
{
    const tr_commit *decided = is_first(server) ? commit : NULL;

    /* Snapshots of the dead process do not concern this one, which has gathered none. */
    if (commit)
        tr__snapshots_give_up(server, commit->newest_snapshot);
    if (decided)
        tr__snapshots_give_up(server, decided->snapshot.number);
    tr__server_due(server, TR__RULE_DECIDE);
    tr__server_due(server, TR__RULE_MEMBERS);
    return tr__decided_begin(server, decided);
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
    tr__server_fail(server, tr_fail(TR_EPEER, "%s died, and %s, a dead server's successor, misses its step %llu for update %llu", name,
                                    tr_roster_name(server->roster, server->roster->self),
                                    (unsigned long long)server->decided.settled[t->index], (unsigned long long)server->decided.update));
}

/* Will neither this trainer nor a replacement send anything more? */
static bool is_missing_for_good(const tr_server *server, const tr__trainer *t)
{
    return tr_membership_is_over(t->state) || tr__server_is_decided_lost(server, t->index) ||
           (tr__members_has_died(server, t) && !tr__members_are_replaceable(server, t));
}

/* The first trainer whose contribution to the decided update is not here, or (`for_good`) can never arrive. NULL: there is none. */
static const tr__trainer *first_missing(const tr_server *server, bool for_good)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (is_in(server, i) && !tr__round_of(server, t)->is_full && (!for_good || is_missing_for_good(server, t)))
            return t;
    }
    return NULL;
}

static bool are_all_out(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (!tr__server_is_out(server, i))
            return false;
    return true;
}

static bool is_any_draining(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].state == TR_MEMBER_DRAINING)
            return true;
    return false;
}

/* A successor may miss a step of the last update for good. No rank needs that update once all trainers are out and none of them drains. */
static bool ends_without_update(const tr_server *server)
{
    return tr__server_is_pending(server) && are_all_out(server) && !is_any_draining(server) && first_missing(server, true);
}

/* Are all contributions to the decided update here? The core fails if one of them can never arrive. */
static bool has_all(tr_server *server)
{
    const tr__trainer *missing = first_missing(server, true);

    if (missing && !ends_without_update(server))
        fail_for_missing(server, missing);
    return !first_missing(server, false);
}

bool tr__decisions_are_complete(const tr_server *server)
{
    return !server->is_running || (are_all_out(server) && (!tr__server_is_pending(server) || ends_without_update(server)));
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
    if (tr__updates_are_deciding(server) && !ends_without_update(server))
        return NULL;
    for (int i = 0; i < server->trainer_count; i++)
        if (tr__server_is_decided_lost(server, i) && !tr_membership_is_over(server->trainer[i].state))
            return &server->trainer[i];
    return NULL;
}

/* == reporting ================================================================================= */

static void send_ready(tr_server *server, int trainer, const tr__report *report)
{
    const tr_wire ready = {.kind = TR_WIRE_READY, .ready = {.step = report->step, .pulled = report->pulled, .trainer = (uint32_t)trainer}};

    tr__server_send(server, server->roster->server_rank[0], ready, NULL);
}

/* The report of this server about a trainer's undecided step. */
static tr__report report_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const tr__round   *round = tr__round_of(server, t);
    const bool         is_open = round->is_full && round->step > server->decided.settled[trainer];

    return (tr__report){is_open ? round->step : 0, tr__pulls_update_of(server, t, round->step)};
}

/* Send new reports, or (`again`) all undecided ones. Returns whether any report is undecided. */
static bool report_steps(tr_server *server, bool again)
{
    bool is_open = false;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__report now = report_of(server, i), said = server->decisions->report[i];
        if (!now.step)
            continue;
        is_open = true;
        if (again || now.step != said.step) {
            send_ready(server, i, &now);
            server->decisions->report[i] = now;
        }
    }
    return is_open;
}

static void send_snapshot_news(tr_server *server, tr_snapshot_news news)
{
    tr__server_send(server, server->roster->server_rank[0],
                    (tr_wire){.kind = TR_WIRE_SNAPSHOT_NEWS,
                              .snapshot_news = {.decision = server->decided.number, .number = tr__snapshots_number(server), .news = news}},
                    NULL);
}

/* A snapshot is reported when it is gathered here, or is not gathered any more. */
static bool report_snapshot(tr_server *server, bool again)
{
    tr__decisions *d = server->decisions;
    const uint32_t number = tr__snapshots_number(server);
    const bool     is_gathered = tr__snapshots_are_gathered(server);
    const bool     is_open = number > server->decided.snapshot.number &&
                             (is_gathered || tr__snapshots_phase(server) != TR__SNAPSHOT_GATHERING);
    const uint32_t said = is_open ? number : 0;

    if (is_open && (again || said != d->gathered[0] || is_gathered != d->reported_gathered))
        send_snapshot_news(server, is_gathered ? TR_SNAPSHOT_GATHERED : TR_SNAPSHOT_GIVEN_UP);
    d->gathered[0] = said;
    d->reported_gathered = is_gathered;
    return is_open;
}

static void report(tr_server *server, bool again)
{
    server->decisions->has_open = false;
    if (tr__server_decides_updates(server))
        server->decisions->has_open |= report_steps(server, again);
    if (tr__snapshots_are_decided(server))
        server->decisions->has_open |= report_snapshot(server, again);
}

static void report_members(tr_server *server, bool again)
{
    server->decisions->has_open_members = tr__members_report(server, again);
}

/* Set the time of the next repetition of undecided reports. */
static void set_time(tr_server *server, bool again)
{
    tr__decisions *d = server->decisions;

    if (!d->has_open && !d->has_open_members) {
        d->ask_at = INT64_MAX;
        d->ask_after = 0;
    } else if (d->ask_at == INT64_MAX || again) {
        d->ask_after = d->ask_after ? 2 * d->ask_after : ASK_FIRST;
        d->ask_after = d->ask_after < ASK_LAST ? d->ask_after : ASK_LAST;
        d->ask_at = server->now + d->ask_after;
    }
}

/* A successor's SERVING may have been lost. So ask the standby whose turn it is. Returns the time of the next call. */
static int64_t ask_who_serves(tr_server *server, int64_t now)
{
    const tr_roster *roster = server->roster;
    tr__decisions   *d = server->decisions;
    bool             is_missed = false;

    if (!server->retry)
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

    if (!server->is_running || server->status != TR_OK)
        return INT64_MAX;
    if (now >= d->ask_at) {
        report(server, true);
        report_members(server, true);
        set_time(server, true);
    }
    const int64_t who = ask_who_serves(server, now), call = tr__members_tick(server, now);
    const int64_t soon = who < call ? who : call;
    return soon < d->ask_at ? soon : d->ask_at;
}

/* == deciding ================================================================================== */

/* Server 0 commits its decision, then sends it. `outlives`: commit it even in a job with one server, because a successor needs it. */
static void publish(tr_server *server, bool outlives)
{
    server->decided.number++;
    if (outlives || server->roster->servers > 1)
        tr__replication_commit(server);
    for (int i = 1; i < server->roster->servers; i++)
        tr__decided_send(server, i);
}

static bool decide(tr_server *server)
{
    if (tr__updates_are_deciding(server))
        return false;
    const bool has_snapshot = tr__snapshots_are_decided(server) && tr__decide_snapshot(server, server->decisions->gathered);
    const bool has_update = tr__server_decides_updates(server) && tr__decide_update(server, server->decisions->report);
    if (has_snapshot || has_update)
        publish(server, has_snapshot);
    return has_snapshot || has_update;
}

bool tr__decisions_advance(tr_server *server)
{
    if (server->decisions->are_members_deferred && !tr__updates_are_deciding(server))
        tr__server_due(server, TR__RULE_MEMBERS);
    if (is_first(server))
        return decide(server);
    report(server, false);
    set_time(server, false);
    return false;
}

bool tr__decisions_advance_members(tr_server *server, const tr__trainer **hopeless)
{
    server->decisions->are_members_deferred = tr__updates_are_deciding(server);
    if (!is_first(server)) {
        report_members(server, false);
        set_time(server, false);
        return false;
    }
    const bool is_news = tr__members_decide(server, hopeless);
    if (is_news)
        publish(server, true);
    return is_news;
}

/* A server that has not gathered the decided snapshot is the successor of one that had: it gives the snapshot up. */
void tr__decisions_follow_snapshot(tr_server *server)
{
    const tr_decided_snapshot decided = server->decided.snapshot;
    const uint32_t            number = tr__snapshots_number(server);
    const tr__snapshot_phase  phase = tr__snapshots_phase(server);

    if (is_first(server) || decided.number < number || !decided.number)
        return;
    const bool is_mine = decided.number == number && decided.is_taken && tr__snapshots_are_gathered(server);
    if (phase == TR__SNAPSHOT_NONE || (phase == TR__SNAPSHOT_GATHERING && !is_mine))
        tr__snapshots_give_up(server, decided.number);
}

/* == messages ================================================================================== */

/* Record a server's report about a trainer's step. Returns whether this step is decided already. */
static bool record_ready(tr_server *server, int from, const tr_form_ready *ready)
{
    const int   trainer = (int)ready->trainer;
    tr__report *r = &server->decisions->report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];

    if (ready->step >= r->step)
        *r = (tr__report){ready->step, ready->pulled};
    return ready->step <= server->decided.settled[trainer];
}

static tr_status on_ready(tr_server *server, int from, const tr_form_ready *ready)
{
    if (!is_first(server) || !tr__server_decides_updates(server) || ready->trainer >= (uint32_t)server->trainer_count)
        return tr_fail(TR_EPEER, "server %d reports to %s on a step of trainer %u", from,
                       tr_roster_name(server->roster, server->roster->self), ready->trainer);
    if (record_ready(server, from, ready))
        tr__decided_send(server, from);
    return TR_OK;
}

static tr_status on_snapshot_news(tr_server *server, int from, const tr_form_snapshot_news *news)
{
    if (!is_first(server) || !tr__snapshots_are_decided(server))
        return tr_fail(TR_EPEER, "server %d reports to %s on snapshot %u", from,
                       tr_roster_name(server->roster, server->roster->self), news->number);
    if (news->decision < server->decided.number)
        tr__decided_send(server, from);
    if (news->number <= server->decided.snapshot.number)
        return TR_OK;
    if (news->news == TR_SNAPSHOT_GATHERED)
        server->decisions->gathered[from] = news->number;
    else if (tr__snapshots_number(server) <= news->number)
        tr__snapshots_give_up(server, news->number);
    return TR_OK;
}

static tr_status on_member(tr_server *server, int from, const tr_form_member *news)
{
    TR_TRY(tr__members_on_news(server, from, news));
    if (news->decision < server->decided.number)
        tr__decided_send(server, from);
    return TR_OK;
}

static tr_status on_decision(tr_server *server, int from, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t before = server->decided.number;

    if (from != 0)
        return tr_fail(TR_EPEER, "server %d decides", from);
    TR_TRY(tr__decided_receive(server, payload, wire->bytes));
    if (server->decided.number > before)
        server->decisions->ask_after = 0;
    return TR_OK;
}

/* Another process serves in a server's place: drop the dead one's reports, and send the newest decision or the reports again. */
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
    tr__members_forget(server, from);
    if (tr__snapshots_are_decided(server) && tr__snapshots_phase(server) == TR__SNAPSHOT_GATHERING)
        tr__snapshots_give_up(server, tr__snapshots_number(server));
    if (is_first(server))
        tr__decided_send(server, from);
}

tr_status tr__decisions_on_message(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    const tr_rank *rank = &server->roster->rank[peer];

    /* Ignore a rank that is not a server any more. A server that is not running yet gets the messages again later. */
    if (rank->role != TR_ROLE_SERVER || !server->is_running)
        return TR_OK;
    if (wire->kind == TR_WIRE_READY)
        TR_TRY(on_ready(server, rank->index, &wire->ready));
    else if (wire->kind == TR_WIRE_MEMBER)
        TR_TRY(on_member(server, rank->index, &wire->member));
    else if (wire->kind == TR_WIRE_SNAPSHOT_NEWS)
        TR_TRY(on_snapshot_news(server, rank->index, &wire->snapshot_news));
    else if (wire->kind == TR_WIRE_DECISION)
        TR_TRY(on_decision(server, rank->index, wire, payload));
    else
        on_serving(server, rank->index, peer);
    if (wire->kind != TR_WIRE_READY && wire->kind != TR_WIRE_SNAPSHOT_NEWS)
        tr__server_due(server, TR__RULE_MEMBERS);
    tr__server_due(server, TR__RULE_DECIDE);
    return TR_OK;
}

/* == in words ================================================================================== */

bool tr__decisions_describe(const tr_server *server, char *out, size_t size)
{
    if (!tr__server_decides_updates(server) || !server->is_running)
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
