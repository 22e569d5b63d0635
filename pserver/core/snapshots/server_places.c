/* server_places.c - see server_places.h. */
#include "pserver/core/snapshots/server_places.h"

#include "framework/base/memory.h"

#include <stdlib.h>

typedef Trireme__Pserver__Snapshot pb_snapshot;
typedef Trireme__Pserver__Place    pb_place;

struct tr__places {
    pb_snapshot *last;                /* its Snapshot in DRAIN or GOODBYE; NULL: this server has none */
    pb_place    *in_snapshot;         /* NULL: the snapshot has no place of this trainer */
    bool         had_left;            /* the trainer had left: all of its steps are in the snapshot */
    pb_place     apart;               /* memory for a place that is computed from the initiator's place */
};

void tr__places_new(tr_server *server)
{
    server->places = tr__must_array((size_t)server->trainer_count, sizeof *server->places);
}

void tr__places_free(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        tr__places_forget(server, &server->trainer[i]);
    free(server->places);
}

tr_status tr__places_on_leave(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr__places *p = &server->places[trainer->index];

    if (!wire->bytes || p->last)
        return TR_OK;
    p->last = trireme__pserver__snapshot__unpack(NULL, wire->bytes, payload);
    return p->last ? TR_OK : tr_fail(TR_EFORMAT, "the goodbye of %s is damaged", tr__server_trainer_name(server, trainer));
}

void tr__places_forget(tr_server *server, const tr__trainer *trainer)
{
    tr__places *p = &server->places[trainer->index];

    if (p->last)
        trireme__pserver__snapshot__free_unpacked(p->last, NULL);
    p->last = NULL;
}

/* Does this trainer make no more steps: has it sent DRAIN or GOODBYE? */
static bool has_left(const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_DRAINING || trainer->state == TR_MEMBER_LEFT;
}

/* The successor of a dead server lacks last places until the draining trainers send DRAIN again. */
bool tr__places_are_complete(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if ((has_left(t) && t->settled < t->ended) || (t->state == TR_MEMBER_DRAINING && !server->places[i].last))
            return false;
    }
    return true;
}

/* The place of a trainer that is `more` steps ahead of the initiator (modulo 2^64: it may be behind). False: there is no such place. */
static bool put_apart(pb_place *out, int trainer, const pb_place *initiator, uint64_t more)
{
    *out = (pb_place)TRIREME__PSERVER__PLACE__INIT;
    out->index = (uint32_t)trainer;
    out->steps = initiator->steps + more;
    out->runs = initiator->runs + more;
    return more && (int64_t)out->steps >= 0 && (int64_t)out->runs >= 0;
}

/* An initiator that is over begins the last snapshot: all trainers are over, and may have made more steps than the initiator. Otherwise
 * each update has a step of both, so their distance stays as it is. */
uint64_t tr__places_step(const tr__trainer *trainer, const tr__trainer *initiator)
{
    const uint64_t step = initiator->ended + trainer->settled - initiator->settled;

    if (tr_membership_is_over(initiator->state))
        return trainer->ended;
    return tr_membership_is_over(trainer->state) && step > trainer->ended ? trainer->ended : step;
}

/* When the initiator takes part alone: may this trainer be at another place in its data? */
static bool may_be_apart(const tr_server *server, const tr__trainer *trainer, const tr__trainer *initiator)
{
    return !server->policy.snapshots_all && !tr_membership_is_over(trainer->state) && !tr_membership_is_over(initiator->state);
}

void tr__places_record(tr_server *server, pb_snapshot *const *part, int initiator)
{
    const tr__trainer *first = &server->trainer[initiator];

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        tr__places        *p = &server->places[i];
        p->had_left = has_left(t) && t->settled == t->ended;
        p->in_snapshot = NULL;
        if (part[i])
            p->in_snapshot = part[i]->place;
        else if (may_be_apart(server, t, first) && put_apart(&p->apart, i, part[initiator]->place, t->settled - first->settled))
            p->in_snapshot = &p->apart;
    }
}

/* A last place is read only when the snapshot is written, because a trainer may send it while the copy is being written. */
static pb_place *place_of(const tr__places *p)
{
    if (p->in_snapshot)
        return p->in_snapshot;
    return p->had_left && p->last ? p->last->place : NULL;
}

void tr__places_fill(const tr_server *server, Trireme__Pserver__SnapshotDone *done)
{
    done->places = tr__must_array((size_t)server->trainer_count + 1, sizeof *done->places);
    done->left = tr__must_array((size_t)server->trainer_count + 1, sizeof *done->left);
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__places *p = &server->places[i];
        if (place_of(p))
            done->places[done->n_places++] = place_of(p);
        if (p->had_left)
            done->left[done->n_left++] = (uint32_t)i;
    }
}
