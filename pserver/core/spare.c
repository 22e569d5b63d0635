/* spare.c - wait for a death, then try until the place is taken or it is too late; or for a call. */
#include "pserver/core/spare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t AGAIN = 1000000, PATIENCE = 2000000000;

struct tr_spare {
    const tr_roster *roster;
    tr_spare_take    take;
    tr_spare_inherit inherit;
    tr_spare_mirror  mirror;
    void            *self;
    int              server, dead;    /* the place to take; -1: none */
    int64_t          until;
    bool             is_serving;
    tr_status        status;
    char            *text;
};

tr_spare *tr_spare_new(const tr_roster *roster, tr_spare_take take, tr_spare_inherit inherit, tr_spare_mirror mirror, void *self)
{
    tr_spare *spare = calloc(1, sizeof *spare);

    *spare = (tr_spare){.roster = roster, .take = take, .inherit = inherit, .mirror = mirror, .self = self, .server = -1, .dead = -1};
    return spare;
}

void tr_spare_free(tr_spare *spare)
{
    if (!spare)
        return;
    free(spare->text);
    free(spare);
}

bool tr_spare_is_serving(const tr_spare *spare)
{
    return spare->is_serving;
}

static void *place(void *self, int peer, const tr_wire *wire)
{
    (void)self;
    (void)peer;
    (void)wire;
    return NULL;
}

/* A server whose place is empty and is ours to take; false: there is none. */
static bool find_place(tr_spare *spare)
{
    const tr_roster *roster = spare->roster;

    for (int i = 0; i < roster->servers && spare->server < 0; i++) {
        const int rank = roster->server_rank[i];
        if (roster->rank[rank].is_dead && tr_roster_spare_for(roster, rank) == roster->self) {
            spare->server = i;
            spare->dead = rank;
        }
    }
    return spare->server >= 0;
}

/* Who is about to be a server comes for nobody else. */
static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_spare        *spare = self;
    const tr_roster *roster = spare->roster;

    (void)now;
    (void)payload;
    (void)is_placed;
    if (wire->kind == TR_WIRE_REPLACE_CALL && spare->server < 0 && spare->status == TR_OK && !roster->rank[peer].is_dead &&
        wire->replace_call.trainer < (uint32_t)roster->trainers)
        spare->inherit(spare->self, (int)wire->replace_call.trainer, wire->replace_call.called);
    if (wire->kind == TR_WIRE_MIRROR_CALL && spare->status == TR_OK && wire->server.server < (uint32_t)roster->servers &&
        roster->server_rank[wire->server.server] == peer && !find_place(spare))
        spare->mirror(spare->self, (int)wire->server.server);
}

/* The roster says who is dead; `tick` looks there, since whose turn it is changes when another spare has taken a place. */
static void lost(void *self, int peer, const char *how)
{
    (void)self;
    (void)peer;
    (void)how;
}

static int64_t tick(void *self, int64_t now)
{
    tr_spare *spare = self;

    if (spare->is_serving || spare->status != TR_OK || !find_place(spare))
        return INT64_MAX;
    if (!spare->until)
        spare->until = now + PATIENCE;
    const tr_status status = spare->take(spare->self, spare->server, spare->dead);
    spare->is_serving = status == TR_OK;
    if (status != TR_OK && (status != TR_EEXIST || now > spare->until)) {
        tr_context(status, "while %s took the place of %s", tr_roster_name(spare->roster, spare->roster->self),
                   tr_roster_name(spare->roster, spare->dead));
        spare->text = strdup(tr_error());
        spare->status = TR_EPEER;
    }
    return now + AGAIN;
}

static bool next(void *self, tr_message *out)
{
    (void)self;
    (void)out;
    return false;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_spare *spare = self;
    *text = spare->text;
    return spare->status;
}

static void describe(const void *self, char *out, size_t size)
{
    const tr_spare *spare = self;

    out[0] = '\0';
    if (spare->server >= 0)
        snprintf(out, size, "the memory of server %d", spare->server);
}

tr_node tr_spare_node(tr_spare *spare)
{
    return (tr_node){spare, place, receive, lost, tick, next, status_of, describe};
}
