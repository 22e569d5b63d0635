/* simulator_events.c - chance, the heap of events, and the next turn of each rank's two threads. */
#include "tests/support/simulator_state.h"

#include "framework/base/memory.h"

/* == chance ==================================================================================== */

/* splitmix64 */
static uint64_t draw(tr_sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t tr_sim_random(tr_sim *sim, uint64_t limit)
{
    return draw(sim) % limit;
}

bool tr__sim_happens(tr_sim *sim, double probability)
{
    return probability > 0 && (double)(draw(sim) >> 11) * 0x1p-53 < probability;
}

int64_t tr__sim_time(tr_sim *sim, int64_t most)
{
    if (sim->options.is_steady || most <= 0)
        return most;
    return 1 + (int64_t)tr_sim_random(sim, (uint64_t)most);
}

/* == the heap ================================================================================= */

static bool is_before(const tr__event *a, const tr__event *b)
{
    return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void swap(tr__event *a, tr__event *b)
{
    const tr__event t = *a;
    *a = *b;
    *b = t;
}

void tr__sim_push(tr_sim *sim, tr__event e)
{
    if (sim->count == sim->capacity) {
        sim->capacity = sim->capacity ? 2 * sim->capacity : 64;
        sim->heap = tr__must_realloc(sim->heap, sim->capacity * sizeof *sim->heap);
    }
    e.order = sim->created++;
    sim->heap[sim->count] = e;
    for (size_t i = sim->count++; i && is_before(&sim->heap[i], &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&sim->heap[i], &sim->heap[(i - 1) / 2]);
}

tr__event tr__sim_pop(tr_sim *sim)
{
    const tr__event top = sim->heap[0];

    sim->heap[0] = sim->heap[--sim->count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < sim->count; child++)
            if (is_before(&sim->heap[child], &sim->heap[least]))
                least = child;
        if (least == i)
            return top;
        swap(&sim->heap[i], &sim->heap[least]);
        i = least;
    }
}

/* == the next turn ============================================================================= */

int64_t *tr__sim_turn_of(tr_sim *sim, int rank, int thread)
{
    return &sim->at[rank * TR__THREADS + thread];
}

void tr__sim_set_turn(tr_sim *sim, int rank, int thread, int64_t at)
{
    const tr__sim_rank *r = &sim->rank[rank];

    if (thread != TR__BEATER && at < r->busy_until)
        at = r->busy_until;
    if (!r->has_ended)
        *tr__sim_turn_of(sim, rank, thread) = at > r->stopped_until ? at : r->stopped_until;
}

void tr__sim_rouse(tr_sim *sim, int rank, int thread)
{
    if (*tr__sim_turn_of(sim, rank, thread) > sim->now) {
        sim->rank[rank].rest[thread].kind = TR__REST_NONE;
        tr__sim_set_turn(sim, rank, thread, sim->now + (sim->options.turn ? tr__sim_time(sim, sim->options.turn) : 0));
    }
}

void tr__sim_stir(tr_sim *sim, int rank)
{
    for (int k = 0; k < TR__THREADS; k++)
        if (sim->rank[rank].rest[k].kind == TR__REST_HOT || sim->rank[rank].rest[k].kind == TR__REST_YIELD)
            tr__sim_rouse(sim, rank, k);
}
