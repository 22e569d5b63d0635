/* server_members.c - see server_members.h. */
#include "pserver/core/members/server_members.h"

#include "framework/base/memory.h"
#include "pserver/core/updates/server_updates.h"

#include <stdlib.h>
#include <string.h>

/* REPLACE_CALL is repeated while it has no effect: first after CALL_FIRST nanoseconds, then at growing intervals of up to CALL_LAST. */
static const int64_t CALL_FIRST = 2000000, CALL_LAST = 500000000;

/* A server's report about a trainer. */
typedef struct report {
    bool     is_reported;
    tr_news  news;
    uint32_t rank;                    /* the process that the report is about */
} report;

/* A trainer's process between two decisions. */
typedef struct present {
    uint32_t             vacant_incarnation;     /* incarnation of the decision that made the trainer vacant; 0: none did */
    bool                 has_done;    /* a REPLACE_DONE has come and is not carried out: */
    tr_form_replace_done done;
} present;

struct tr__members {
    report  *report;                  /* server 0: of each server and trainer; other servers: their own last reports */
    present *present;                 /* the process of each trainer */
    int64_t  call_at, call_after;
};

void tr__members_new(tr_server *server)
{
    const size_t trainers = (size_t)server->trainer_count;
    const size_t speakers = server->self == 0 ? (size_t)server->roster->servers : 1;
    tr__members *m = server->members = tr__must_alloc(sizeof *m);

    m->report = tr__must_array(speakers * trainers, sizeof *m->report);
    m->present = tr__must_array(trainers, sizeof *m->present);
}

void tr__members_free(tr_server *server)
{
    free(server->members->report);
    free(server->members->present);
    free(server->members);
}

/* == facts ===================================================================================== */

bool tr__members_are_replaceable(const tr_server *server, const tr__trainer *trainer)
{
    return server->is_running && !tr__server_is_out(server, trainer->index) &&
           tr_roster_replacement_for(server->roster, trainer->rank) >= 0;
}

/* Is a replacement called for this trainer, and not here yet? */
static bool awaits_replacement(const tr_server *server, const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_VACANT && server->decided.member[trainer->index].rank != trainer->rank;
}

/* Is the process that is this trainer, or that is called to become it, unavailable? A called standby may have died, left, or taken another
 * place. */
static bool is_gone(const tr_server *server, int trainer)
{
    const int      rank = server->decided.member[trainer].rank;
    const tr_rank *r = &server->roster->rank[rank];

    if (r->role == TR_ROLE_TRAINER && r->index == trainer)
        return r->is_dead;
    return r->role != TR_ROLE_STANDBY || !tr_roster_is_here(server->roster, rank);
}

/* The report of this server about a trainer, if it has one that is not decided. */
static report report_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    const tr_member   *member = &server->decided.member[trainer];
    const int          now = server->roster->trainer_rank[trainer];
    report             r = {false, TR_NEWS_DIED, (uint32_t)member->rank};

    if (tr__server_is_out(server, trainer))
        return r;
    if (tr_membership_is_over(t->state)) {
        r.news = TR_NEWS_LEFT;
        r.is_reported = t->settled == t->ended;
    } else if (server->roster->rank[now].incarnation > member->incarnation) {
        r = (report){true, TR_NEWS_CAME, (uint32_t)now};
    } else {
        r.is_reported = is_gone(server, trainer);
    }
    return r;
}

/* == deciding ================================================================================== */

static report *report_from(const tr_server *server, int from, int trainer)
{
    return &server->members->report[(size_t)from * (size_t)server->trainer_count + (size_t)trainer];
}

tr_status tr__members_on_news(tr_server *server, int from, const tr_form_member *news)
{
    if (server->self != 0 || news->trainer >= (uint32_t)server->trainer_count)
        return tr_fail(TR_EPEER, "server %d reports to %s on trainer %u", from,
                       tr_roster_name(server->roster, server->roster->self), news->trainer);
    *report_from(server, from, (int)news->trainer) = (report){true, news->news, news->rank};
    return TR_OK;
}

void tr__members_forget(tr_server *server, int from)
{
    const int at = server->self == 0 ? from : 0;

    memset(report_from(server, at, 0), 0, (size_t)server->trainer_count * sizeof(report));
}

/* Has server number `from` reported this about the trainer's present process? */
static bool has_reported(const tr_server *server, int from, int trainer, tr_news news)
{
    const report r = from ? *report_from(server, from, trainer) : report_of(server, trainer);

    return r.is_reported && r.news == news && r.rank == (uint32_t)server->decided.member[trainer].rank;
}

static int count_reports(const tr_server *server, int trainer, tr_news news)
{
    int count = 0;

    for (int s = 0; s < server->roster->servers; s++)
        count += has_reported(server, s, trainer, news);
    return count;
}

bool tr__members_has_died(const tr_server *server, const tr__trainer *trainer)
{
    const report r = report_of(server, trainer->index);

    if (server->self == 0)
        return count_reports(server, trainer->index, TR_NEWS_DIED);
    return r.is_reported && r.news == TR_NEWS_DIED;
}

/* Choose a standby that is not called for another trainer. -1: there is none. */
static int choose(const tr_server *server, int trainer)
{
    const tr_roster *roster = server->roster;
    bool            *called = tr__must_array((size_t)roster->size, sizeof *called);

    for (int i = 0; i < server->trainer_count; i++)
        called[server->decided.member[i].rank] = true;
    const int standby = tr_roster_replacement_without(roster, server->trainer[trainer].rank, called);
    free(called);
    return standby;
}

/* Decide about a trainer whose process is dead: a standby is called, or the trainer is lost. Returns whether anything is decided. */
static bool decide_death(tr_server *server, int trainer, const tr__trainer **hopeless)
{
    tr_member *member = &server->decided.member[trainer];
    const int  standby = choose(server, trainer);

    if (standby >= 0) {
        *member = (tr_member){tr_roster_next_incarnation(server->roster, trainer, member->incarnation), standby};
        server->members->call_at = 0;
    } else if (!server->policy.survives_trainers) {
        *hopeless = &server->trainer[trainer];
        return false;
    } else if (tr__updates_are_deciding(server)) {
        return false;                              /* the decided update may contain a step of this trainer */
    } else {
        server->decided.trainer[trainer] |= TR_TRAINER_OUT | TR_TRAINER_LOST;
    }
    return true;
}

bool tr__members_decide(tr_server *server, const tr__trainer **hopeless)
{
    bool is_news = false;

    for (int i = 0; i < server->trainer_count && !*hopeless; i++) {
        if (tr__server_is_out(server, i))
            continue;
        if (count_reports(server, i, TR_NEWS_DIED)) {
            is_news |= decide_death(server, i, hopeless);
        } else if (!tr__updates_are_deciding(server) && count_reports(server, i, TR_NEWS_LEFT) == server->roster->servers) {
            server->decided.trainer[i] |= TR_TRAINER_OUT;
            is_news = true;
        }
    }
    return is_news;
}

/* == calling =================================================================================== */

static bool has_arrived(const tr_server *server, int trainer)
{
    return server->roster->trainer_rank[trainer] == server->decided.member[trainer].rank;
}

static void say_call(tr_server *server, int trainer)
{
    const tr_member *member = &server->decided.member[trainer];

    tr__server_send(server, member->rank,
                    (tr_wire){.kind = TR_WIRE_REPLACE_CALL, .replace_call = {.trainer = (uint32_t)trainer, .called = member->incarnation}},
                    NULL);
}

static int64_t next_time(tr__members *m, int64_t now)
{
    if (now >= m->call_at) {
        m->call_after = m->call_after ? 2 * m->call_after : CALL_FIRST;
        m->call_after = m->call_after < CALL_LAST ? m->call_after : CALL_LAST;
        m->call_at = now + m->call_after;
    }
    return m->call_at;
}

int64_t tr__members_tick(tr_server *server, int64_t now)
{
    tr__members *m = server->members;
    bool         is_waiting = false;

    for (int i = 0; server->self == 0 && i < server->trainer_count; i++) {
        if (!awaits_replacement(server, &server->trainer[i]) || has_arrived(server, i))
            continue;
        is_waiting = true;
        if (now >= m->call_at)
            say_call(server, i);
    }
    if (is_waiting)
        return next_time(m, now);
    m->call_after = 0;
    return INT64_MAX;
}

/* == reporting ================================================================================= */

static bool is_same(const report *a, const report *b)
{
    return a->is_reported == b->is_reported && a->news == b->news && a->rank == b->rank;
}

static void send_report(tr_server *server, int trainer, const report *r)
{
    tr__server_send(server, server->roster->server_rank[0],
                    (tr_wire){.kind = TR_WIRE_MEMBER, .member = {.decision = server->decided.number, .trainer = (uint32_t)trainer,
                                                                 .rank = r->rank, .news = r->news}}, NULL);
}

bool tr__members_report(tr_server *server, bool again)
{
    bool is_open = false;

    for (int i = 0; i < server->trainer_count; i++) {
        report *said = report_from(server, 0, i);
        const report now = report_of(server, i);
        is_open |= now.is_reported;
        if (now.is_reported && (again || !is_same(&now, said)))
            send_report(server, i, &now);
        *said = now;
    }
    return is_open;
}

/* == carrying out ============================================================================== */

void tr__members_on_done(tr_server *server, const tr_form_replace_done *done)
{
    present *p = &server->members->present[done->trainer];

    if (p->has_done && p->done.called > done->called)
        return;
    p->has_done = true;
    p->done = *done;
}

tr__trainer *tr__members_next_vacant(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr_member *member = &server->decided.member[i];
        present         *p = &server->members->present[i];
        if (member->rank == server->trainer[i].rank || member->incarnation == p->vacant_incarnation)
            continue;
        p->vacant_incarnation = member->incarnation;
        return &server->trainer[i];
    }
    return NULL;
}

tr__trainer *tr__members_next_arrived(tr_server *server, tr_form_replace_done *done)
{
    for (int i = 0; i < server->trainer_count; i++) {
        present *p = &server->members->present[i];
        if (!p->has_done || p->done.called > server->decided.member[i].incarnation)
            continue;
        p->has_done = false;
        if (p->done.called < server->decided.member[i].incarnation || !has_arrived(server, i))
            continue;                              /* another standby was called after this one */
        *done = p->done;
        return &server->trainer[i];
    }
    return NULL;
}
