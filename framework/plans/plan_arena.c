/* plan_arena.c - see plan_arena.h: greedy by size (Pisarchyk and Lee, 2020).
 *
 * What is taken at which time stands in a tree over the steps. A node is a range of steps, its children are the two halves. A span
 * covers a few nodes as a whole (at most two of a size), and is noted there as lying `throughout`, and there and in all nodes above
 * as lying `sometime`. So what is taken at any time of a range is told by few nodes: `sometime` of those that the range
 * covers, `throughout` of those above. These are each sorted pieces without overlap, which the search climbs in turn until none is in the way.
 *
 * In a deep program nearly all spans lie on top of each other in the middle of time, and their pieces alternate between nodes. The search
 * need not climb them: it begins at `solid`, below which all is taken at one moment of its range. */
#include "framework/plans/plan_arena.h"

#include <stdbool.h>
#include <stdlib.h>

#include "framework/base/size.h"
#include "framework/plans/plan_pieces.h"

enum { MAX_LOOKS = 4000 };            /* of the search for one span */
enum { MAX_SETS = 128 };              /* of pieces that tell of one range: two for each of 31 sizes of nodes, and those above */

typedef struct node {
    tr_pieces throughout, sometime;
    int64_t   solid;                  /* at each moment of the node all is taken below this */
    int64_t   most_solid;             /* the greatest `solid` of the node and of those below */
} node;

typedef struct arena {
    node   *node;                     /* the root is 1, the halves of n are 2 n and 2 n + 1 */
    int     steps;                    /* of the root, a power of two */
    int64_t looks;
    bool    has_memory;
} arena;

/* The memory that is taken while a span lives. */
typedef struct taken {
    const tr_pieces *set[MAX_SETS];
    int              count;
    int64_t          solid;
} taken;

static int larger_first(const void *a, const void *b)
{
    const tr_span *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->var - y->var;
}

static int64_t end_of(const tr_span *span)
{
    return tr_size_add(span->offset, span->bytes);
}

static int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }

/* -- looking for a place ----------------------------------------------------------------------------------- */

static void add_taken(taken *out, const tr_pieces *pieces, int64_t solid)
{
    if (pieces->count > 0)
        out->set[out->count++] = pieces;
    out->solid = greater(out->solid, solid);
}

/* Node n has `steps` steps from `first` on. */
static void find_taken(taken *out, arena *a, const tr_span *span, int n, int first, int steps)
{
    const node *here = &a->node[n];

    a->looks++;
    if (span->from <= first && first + steps - 1 <= span->to) {
        add_taken(out, &here->sometime, here->most_solid);
        return;
    }
    add_taken(out, &here->throughout, here->solid);
    if (span->from < first + steps / 2)
        find_taken(out, a, span, 2 * n, first, steps / 2);
    if (span->to >= first + steps / 2)
        find_taken(out, a, span, 2 * n + 1, first + steps / 2, steps / 2);
}

static int64_t top_of(const taken *there)
{
    int64_t top = 0;
    for (int i = 0; i < there->count; i++)
        top = greater(top, tr__pieces_end(there->set[i]));
    return top;
}

/* The lowest offset where nothing is in the way: where all sets agree that one need not climb. */
static int64_t lowest_free(arena *a, const taken *there, int64_t bytes)
{
    const int64_t last_look = a->looks + MAX_LOOKS;
    int64_t       offset = there->solid;

    for (int agree = 0, i = 0; agree < there->count; i = (i + 1) % there->count) {
        const int climbed = tr__pieces_climb(&offset, there->set[i], bytes);
        agree = climbed ? 1 : agree + 1;
        a->looks += 1 + climbed;
        if (a->looks > last_look)
            return top_of(there);
    }
    return offset;
}

/* -- noting where a span lies --------------------------------------------------------------------------------- */

/* A node whose whole time is the span's. Where all is taken up to the span it now is up to the span's end. `solid` is what nodes above say. */
static void make_solid(arena *a, const tr_span *span, int n, int steps, int64_t solid)
{
    node *here = &a->node[n];

    a->looks++;
    solid = greater(solid, here->solid);
    if (solid >= span->offset) {
        here->solid = greater(here->solid, end_of(span));
    } else if (steps > 1 && here->most_solid >= span->offset) {
        make_solid(a, span, 2 * n, steps / 2, solid);
        make_solid(a, span, 2 * n + 1, steps / 2, solid);
        here->most_solid = greater(here->most_solid, greater(a->node[2 * n].most_solid, a->node[2 * n + 1].most_solid));
    }
    here->most_solid = greater(here->most_solid, here->solid);
}

static void note(arena *a, const tr_span *span, int n, int first, int steps, int64_t solid)
{
    node *here = &a->node[n];

    a->looks++;
    a->has_memory = a->has_memory && tr__pieces_add(&here->sometime, span->offset, end_of(span));
    if (span->from <= first && first + steps - 1 <= span->to) {
        a->has_memory = a->has_memory && tr__pieces_add(&here->throughout, span->offset, end_of(span));
        make_solid(a, span, n, steps, solid);
        return;
    }
    solid = greater(solid, here->solid);
    if (span->from < first + steps / 2)
        note(a, span, 2 * n, first, steps / 2, solid);
    if (span->to >= first + steps / 2)
        note(a, span, 2 * n + 1, first + steps / 2, steps / 2, solid);
    here->most_solid = greater(here->most_solid, greater(a->node[2 * n].most_solid, a->node[2 * n + 1].most_solid));
}

/* -- all of them -------------------------------------------------------------------------------------------------- */

static bool arena_init(arena *a, const tr_span *spans, int count)
{
    int last = 0;

    for (int i = 0; i < count; i++)
        last = spans[i].to > last ? spans[i].to : last;
    *a = (arena){.steps = 1, .has_memory = true};
    while (a->steps <= last)
        a->steps *= 2;
    a->node = calloc(2 * (size_t)a->steps, sizeof *a->node);
    return a->node != NULL;
}

static void arena_deinit(arena *a)
{
    for (int n = 1; n < 2 * a->steps; n++) {
        tr__pieces_deinit(&a->node[n].throughout);
        tr__pieces_deinit(&a->node[n].sometime);
    }
    free(a->node);
}

static void place(arena *a, tr_span *span)
{
    taken there = {0};

    find_taken(&there, a, span, 1, 0, a->steps);
    span->offset = lowest_free(a, &there, span->bytes);
    note(a, span, 1, 0, a->steps, 0);
}

tr_status tr__arena_place(tr_arena_size *size, tr_span *spans, int count)
{
    arena a;

    *size = (tr_arena_size){0};
    if (!arena_init(&a, spans, count))
        return tr_fail(TR_ENOMEM, "no memory to place %d variables", count);
    qsort(spans, (size_t)count, sizeof *spans, larger_first);
    for (int i = 0; i < count && a.has_memory; i++) {
        place(&a, &spans[i]);
        size->bytes = greater(size->bytes, end_of(&spans[i]));
    }
    size->looks = a.looks;
    arena_deinit(&a);
    return a.has_memory ? TR_OK : tr_fail(TR_ENOMEM, "no memory to place %d variables", count);
}
