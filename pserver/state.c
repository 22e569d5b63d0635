/* state.c - a header, two places for commits, the setup, and memory in order. */
#include "pserver/state.h"

#include "pserver/segment.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, LINE = 64 };
static const char     CONTENT[] = "server";
static const uint64_t LIMIT = (uint64_t)1 << 40;

/* A place for a commit: `settled` and `is_gone` follow it. */
typedef struct place {
    uint64_t updates;
    uint64_t side;
} place;

typedef struct header {
    _Atomic uint64_t current;         /* the place that counts: 0 or 1 */
    _Atomic uint64_t is_ready;
    uint64_t         trainers;
    uint64_t         setup_bytes;
    uint64_t         place[2], setup; /* offsets */
} header;

struct tr_state {
    tr_segment *segment;
    uint64_t    used;
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + LINE - 1) & ~(uint64_t)(LINE - 1);
}

static header *header_of(const tr_state *state)
{
    return tr_segment_base(state->segment);
}

static place *place_of(const tr_state *state, uint64_t index)
{
    return (place *)((char *)header_of(state) + header_of(state)->place[index]);
}

static uint64_t *settled_of(place *p)
{
    return (uint64_t *)(p + 1);
}

static uint8_t *gone_of(const tr_state *state, place *p)
{
    return (uint8_t *)(settled_of(p) + header_of(state)->trainers);
}

static uint64_t place_bytes(uint64_t trainers)
{
    return round_up(sizeof(place) + trainers * (sizeof(uint64_t) + 1));
}

/* == life ====================================================================================== */

static tr_status wrap(tr_state **out, tr_segment *segment)
{
    tr_state *state = calloc(1, sizeof *state);

    if (!state) {
        tr_segment_free(segment);
        return tr_fail(TR_ENOMEM, "no memory for a server's state");
    }
    state->segment = segment;
    *out = state;
    return TR_OK;
}

tr_status tr_state_create(tr_state **out, const char *name, const void *setup, uint64_t bytes, int trainers)
{
    tr_segment *segment;
    tr_state   *state = NULL;
    const uint64_t first = round_up(sizeof(header)), one = place_bytes((uint64_t)trainers);

    if (name)
        tr_segment_remove(name);                   /* there is none, mostly */
    TR_TRY(tr_segment_create(&segment, name, CONTENT, VERSION, LIMIT));
    TR_TRY(wrap(&state, segment));
    state->used = first + 2 * one + round_up(bytes);
    const tr_status status = tr_segment_grow(segment, state->used);
    if (status != TR_OK) {
        tr_state_free(state, true);
        return status;
    }
    header *h = header_of(state);
    h->trainers = (uint64_t)trainers;
    h->setup_bytes = bytes;
    h->place[0] = first;
    h->place[1] = first + one;
    h->setup = first + 2 * one;
    memcpy((char *)h + h->setup, setup, bytes);
    *out = state;
    return TR_OK;
}

tr_status tr_state_attach(tr_state **out, const char *name)
{
    tr_segment *segment;
    tr_state   *state = NULL;

    TR_TRY(tr_segment_attach(&segment, name, CONTENT, VERSION, LIMIT));
    TR_TRY(wrap(&state, segment));
    const header *h = header_of(state);
    if (tr_segment_bytes(segment) < sizeof *h || !atomic_load(&h->is_ready)) {
        tr_state_free(state, false);
        return tr_fail(TR_ENOTFOUND, "the state '%s' was never complete", name);
    }
    state->used = h->setup + round_up(h->setup_bytes);
    *out = state;
    return TR_OK;
}

void tr_state_free(tr_state *state, bool forget)
{
    if (!state)
        return;
    if (forget && tr_segment_name(state->segment)[0])
        tr_segment_remove(tr_segment_name(state->segment));
    tr_segment_free(state->segment);
    free(state);
}

/* == memory ==================================================================================== */

const void *tr_state_setup(const tr_state *state, uint64_t *bytes)
{
    const header *h = header_of(state);

    *bytes = h->setup_bytes;
    return (const char *)h + h->setup;
}

int tr_state_trainers(const tr_state *state)
{
    return (int)header_of(state)->trainers;
}

tr_status tr_state_take(void **out, tr_state *state, uint64_t bytes)
{
    const uint64_t at = state->used;

    TR_TRY(tr_segment_grow(state->segment, at + round_up(bytes)));
    state->used = at + round_up(bytes);
    *out = (char *)header_of(state) + at;
    return TR_OK;
}

void tr_state_ready(tr_state *state)
{
    atomic_store(&header_of(state)->is_ready, 1);
}

/* == commits =================================================================================== */

int tr_state_side(const tr_state *state)
{
    return (int)place_of(state, atomic_load(&header_of(state)->current))->side;
}

tr_commit tr_state_committed(const tr_state *state)
{
    place *p = place_of(state, atomic_load(&header_of(state)->current));

    return (tr_commit){p->updates, settled_of(p), (const bool *)gone_of(state, p)};
}

void tr_state_commit(tr_state *state, const tr_commit *commit, bool switches)
{
    header        *h = header_of(state);
    const uint64_t now = atomic_load(&h->current);
    place         *next = place_of(state, 1 - now);

    next->updates = commit->updates;
    next->side = place_of(state, now)->side ^ switches;
    memcpy(settled_of(next), commit->settled, h->trainers * sizeof *commit->settled);
    memcpy(gone_of(state, next), commit->is_gone, h->trainers);
    atomic_store(&h->current, 1 - now);
}

void tr_state_go_back(tr_state *state)
{
    header *h = header_of(state);
    place  *now = place_of(state, atomic_load(&h->current));

    /* Of the steps before the update there is no list any more; whoever goes back says anew which count. */
    place *next = place_of(state, 1 - atomic_load(&h->current));
    memcpy(next, now, place_bytes(h->trainers));
    next->updates--;
    next->side ^= 1;
    atomic_store(&h->current, 1 - atomic_load(&h->current));
}
