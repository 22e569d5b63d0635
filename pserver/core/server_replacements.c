/* server_replacements.c - see server_replacements.h. */
#include "pserver/core/server_replacements.h"

#include "framework/memory.h"

#include <stdlib.h>

/* REPLACE_WANT and REPLACE_CALL are repeated while they have no effect: after this time first, and at most every ASK_LAST; nanoseconds. */
static const int64_t ASK_FIRST = 2000000, ASK_LAST = 500000000;

typedef struct vacancy {
    int      dead;                    /* the rank whose replacement is wanted; -1: none is */
    int      called;                  /* server 0: the standby that was called; -1: none */
    uint32_t called_epoch;            /* server 0: of the last standby that was called, whatever has become of it */
} vacancy;

struct tr__replacements {
    vacancy *of;                      /* each trainer */
    int64_t  ask_at, ask_after;
};

void tr__replacements_new(tr_server *server)
{
    tr__replacements *r = server->replacements = tr__must_alloc(sizeof *r);

    r->of = tr__must_array((size_t)server->trainer_count, sizeof *r->of);
    for (int i = 0; i < server->trainer_count; i++)
        r->of[i].dead = r->of[i].called = -1;
}

void tr__replacements_free(tr_server *server)
{
    free(server->replacements->of);
    free(server->replacements);
}

bool tr__replacements_are_possible(const tr_server *server, const tr__trainer *trainer)
{
    return server->is_running && !tr__server_is_decided_lost(server, trainer->index) &&
           tr_roster_replacement_for(server->roster, trainer->rank) >= 0;
}

void tr__replacements_want(tr_server *server, const tr__trainer *trainer)
{
    vacancy *v = &server->replacements->of[trainer->index];

    v->dead = trainer->rank;
    v->called = -1;
    server->replacements->ask_at = 0;
}

void tr__replacements_have(tr_server *server, const tr__trainer *trainer)
{
    server->replacements->of[trainer->index].dead = -1;
}

bool tr__replacements_misses(const tr_server *server, const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_VACANT && server->replacements->of[trainer->index].dead == trainer->rank;
}

/* == calling =================================================================================== */

static void say_wanted(tr_server *server, const tr__trainer *t)
{
    tr__server_send(server, server->roster->server_rank[0],
                    (tr_wire){.kind = TR_WIRE_REPLACE_WANT, .replace_want = {.trainer = (uint32_t)t->index, .rank = (uint32_t)t->rank}}, NULL);
}

static void say_call(tr_server *server, const tr__trainer *t)
{
    const vacancy *v = &server->replacements->of[t->index];

    tr__server_send(server, v->called,
                    (tr_wire){.kind = TR_WIRE_REPLACE_CALL, .replace_call = {.trainer = (uint32_t)t->index, .called = v->called_epoch}}, NULL);
}

/* A standby that was called for no other trainer; -1: there is none. */
static int choose(const tr_server *server, const tr__trainer *t)
{
    bool *called = tr__must_array((size_t)server->roster->size, sizeof *called);

    for (int i = 0; i < server->trainer_count; i++) {
        const vacancy *v = &server->replacements->of[i];
        if (tr__replacements_misses(server, &server->trainer[i]) && v->called >= 0)
            called[v->called] = true;
    }
    const int replacement = tr_roster_replacement_without(server->roster, t->rank, called);
    free(called);
    return replacement;
}

/* Can the standby that was called still come? */
static bool may_come(const tr_server *server, int standby)
{
    return standby >= 0 && server->roster->rank[standby].role == TR_ROLE_STANDBY && tr_roster_is_here(server->roster, standby);
}

/* False: no standby is left. */
static bool look_for_replacement(tr_server *server, const tr__trainer *t)
{
    vacancy *v = &server->replacements->of[t->index];

    if (server->self != 0) {
        if (tr_roster_replacement_for(server->roster, t->rank) < 0)
            return false;
        say_wanted(server, t);
        return true;
    }
    if (!may_come(server, v->called)) {
        v->called = choose(server, t);
        if (v->called < 0)
            return false;
        v->called_epoch = tr_roster_next_epoch(server->roster, t->index, v->called_epoch);
    }
    say_call(server, t);
    return true;
}

/* Must another standby be found at once? */
static bool has_news(const tr_server *server, const tr__trainer *t)
{
    if (server->self == 0)
        return !may_come(server, server->replacements->of[t->index].called);
    return tr_roster_replacement_for(server->roster, t->rank) < 0;
}

static int64_t next_time(tr__replacements *r, int64_t now)
{
    if (now >= r->ask_at) {
        r->ask_after = r->ask_after ? 2 * r->ask_after : ASK_FIRST;
        r->ask_after = r->ask_after < ASK_LAST ? r->ask_after : ASK_LAST;
        r->ask_at = now + r->ask_after;
    }
    return r->ask_at;
}

int64_t tr__replacements_tick(tr_server *server, int64_t now, tr__trainer **hopeless)
{
    tr__replacements *r = server->replacements;
    bool              is_waiting = false;

    *hopeless = NULL;
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        if (!tr__replacements_misses(server, t))
            continue;
        is_waiting = true;
        if ((has_news(server, t) || now >= r->ask_at) && !look_for_replacement(server, t)) {
            *hopeless = t;
            return now;
        }
    }
    if (is_waiting)
        return next_time(r, now);
    r->ask_after = 0;
    return INT64_MAX;
}
