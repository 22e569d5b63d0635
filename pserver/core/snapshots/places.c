/* places.c - see places.h. */
#include "pserver/core/snapshots/places.h"

#include "framework/base/memory.h"

#include <stdlib.h>

typedef Trireme__Pserver__Place   pb_place;
typedef Trireme__Pserver__SnapshotDone pb_done;

static const pb_place *place_in(const pb_done *done, uint32_t trainer)
{
    for (size_t i = 0; i < done->n_places; i++)
        if (done->places[i]->index == trainer)
            return done->places[i];
    return NULL;
}

static bool has_left(const pb_done *done, uint32_t trainer)
{
    for (size_t i = 0; i < done->n_left; i++)
        if (done->left[i] == trainer)
            return true;
    return false;
}

/* Find a place of this trainer in the servers' answers; NULL: no server has one. */
static tr_status find(const pb_place **out, uint32_t trainer, int servers, pb_done *const *answer)
{
    int from = 0;

    *out = NULL;
    for (int s = 0; s < servers; s++) {
        const pb_place *place = place_in(answer[s], trainer);
        if (*out && place && place->steps != (*out)->steps)
            return tr_fail(TR_EPEER, "server %d has trainer %u after step %llu, server %d after step %llu", s, trainer,
                           (unsigned long long)place->steps, from, (unsigned long long)(*out)->steps);
        if (place && !*out) {
            *out = place;
            from = s;
        }
    }
    return TR_OK;
}

/* Did the trainer take part on some servers, while others had lost it? */
static bool is_lost_to_some(uint32_t trainer, int servers, pb_done *const *answer)
{
    bool is_missing = false, is_left = false;

    for (int s = 0; s < servers; s++) {
        is_left |= has_left(answer[s], trainer);
        is_missing |= !place_in(answer[s], trainer) && !has_left(answer[s], trainer);
    }
    return is_missing && !is_left;
}

/* Where the initiator takes part alone, no update without the initiator should come between two servers' copies. But one may: when the
 * initiator waits in a collective, or when a server's successor copies its state later. */
static tr_status check_updates(int servers, pb_done *const *answer)
{
    for (int s = 1; s < servers; s++)
        if (answer[s]->has_updates && answer[0]->has_updates && answer[s]->updates != answer[0]->updates)
            return tr_fail(TR_EPEER, "server %d copied its state after update %llu, server 0 after update %llu", s,
                           (unsigned long long)answer[s]->updates, (unsigned long long)answer[0]->updates);
    return TR_OK;
}

tr_status tr_places_merge(tr_places *out, int trainers, bool is_by_all, int servers, pb_done *const *answer)
{
    *out = (tr_places){tr__must_alloc((size_t)trainers * sizeof *out->place + 1), 0};
    if (!is_by_all)
        TR_TRY(check_updates(servers, answer));
    for (uint32_t i = 0; i < (uint32_t)trainers; i++) {
        const pb_place *place;
        TR_TRY(find(&place, i, servers, answer));
        const bool is_lost = place && is_by_all && is_lost_to_some(i, servers, answer);
        if (is_lost && answer[0]->has_tasks)           /* then server 0's list of tasks may be wrong for other servers */
            return tr_fail(TR_EPEER, "trainer %u died while it was made, and has taken part for some of its parts alone", i);
        if (place && !is_lost)
            out->place[out->count++] = place;
    }
    return TR_OK;
}

void tr_places_deinit(tr_places *places)
{
    free(places->place);
    *places = (tr_places){NULL, 0};
}

bool tr_places_are_given_up(int servers, pb_done *const *answer)
{
    bool is_missing = false;

    for (int s = 0; s < servers; s++) {
        if (!answer[s]->has_part && !answer[s]->given_up)
            return false;
        is_missing |= !answer[s]->has_part;
    }
    return is_missing;
}
