/* standby.c - a standby waits for a call or for a server's death. After a death it tries to take the place until it succeeds or fails. */
#include "pserver/core/client/standby.h"

#include "framework/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t AGAIN = 1000000, PATIENCE = 2000000000;

struct tr_standby {
    const tr_roster *roster;
    tr_standby_take    take;
    tr_standby_replace_trainer replace;
    tr_standby_replicate  replicate;
    void            *self;
    int              server, dead;    /* the place to take; -1: none */
    int64_t          until;
    bool             is_serving;
    tr_status        status;
    char            *text;
};

tr_standby *tr_standby_new(const tr_roster *roster, tr_standby_take take, tr_standby_replace_trainer replace,
                           tr_standby_replicate replicate, void *self)
{
    tr_standby *standby = tr__must_alloc(sizeof *standby);

    *standby = (tr_standby){
        .roster = roster, .take = take, .replace = replace, .replicate = replicate, .self = self, .server = -1, .dead = -1};
    return standby;
}

void tr_standby_free(tr_standby *standby)
{
    if (!standby)
        return;
    free(standby->text);
    free(standby);
}

/* Find a dead server whose place this standby must take. False: there is none. When all trainers are out no server is needed, and the
 * standby leaves. */
static bool find_place(tr_standby *standby)
{
    const tr_roster *roster = standby->roster;

    if (tr_roster_is_over(roster))
        return false;
    for (int i = 0; i < roster->servers && standby->server < 0; i++) {
        const int rank = roster->server_rank[i];
        if (roster->rank[rank].is_dead && tr_roster_standby_for(roster, rank) == roster->self) {
            standby->server = i;
            standby->dead = rank;
        }
    }
    return standby->server >= 0;
}

/* A standby that is taking a server's place ignores all calls. */
static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr_standby        *standby = self;
    const tr_roster *roster = standby->roster;

    (void)now;
    (void)payload;
    (void)is_direct;
    if (wire->kind == TR_WIRE_REPLACE_CALL && standby->server < 0 && standby->status == TR_OK && !roster->rank[peer].is_dead &&
        wire->replace_call.trainer < (uint32_t)roster->trainers)
        standby->replace(standby->self, (int)wire->replace_call.trainer, wire->replace_call.called);
    if (wire->kind == TR_WIRE_REPLICA_CALL && standby->status == TR_OK && wire->server.server < (uint32_t)roster->servers &&
        roster->server_rank[wire->server.server] == peer && !find_place(standby))
        standby->replicate(standby->self, (int)wire->server.server);
}

/* Reads deaths from the roster. It must look again at each call, because the turn changes when another standby takes a place. */
static int64_t tick(void *self, int64_t now)
{
    tr_standby *standby = self;

    if (standby->is_serving || standby->status != TR_OK || !find_place(standby))
        return INT64_MAX;
    if (!standby->until)
        standby->until = now + PATIENCE;
    const tr_status status = standby->take(standby->self, standby->server, standby->dead);
    standby->is_serving = status == TR_OK;
    if (status != TR_OK && (status != TR_EEXIST || now > standby->until)) {
        tr_context(status, "while %s took the place of %s", tr_roster_name(standby->roster, standby->roster->self),
                   tr_roster_name(standby->roster, standby->dead));
        standby->text = tr__must_strdup(tr_error());
        standby->status = TR_EPEER;
    }
    return now + AGAIN;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_standby *standby = self;
    *text = standby->text;
    return standby->status;
}

static void describe(const void *self, char *out, size_t size)
{
    const tr_standby *standby = self;

    out[0] = '\0';
    if (standby->server >= 0)
        snprintf(out, size, "the memory of server %d", standby->server);
}

tr_node tr_standby_node(tr_standby *standby)
{
    return (tr_node){.self = standby, .receive = receive, .tick = tick, .status = status_of, .describe = describe};
}
