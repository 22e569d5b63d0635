/* plan_arena.c - see plan_arena.h: greedy by size (Pisarchyk and Lee, 2020). */
#include "framework/plan_arena.h"

#include <stdbool.h>
#include <stdlib.h>

#include "framework/size.h"

enum { MEMBERS = 64 };

static int larger_first(const void *a, const void *b)
{
    const tr_span *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->var - y->var;
}

/* What MEMBERS spans have in common that were placed one after the other. Spans of one size are sorted by the numbers of their variables,
 * which is nearly by time. So a search passes over most groups as a whole. */
typedef struct group {
    int     first_from, last_from, first_to, last_to;     /* the earliest and the latest, of all members */
    int64_t low, high;                                     /* where they lie */
    bool    is_solid;                                      /* without a hole */
} group;

static int64_t end_of(const tr_span *span)
{
    return tr_size_add(span->offset, span->bytes);
}

static void join(group *g, const tr_span *s, bool is_first)
{
    if (is_first)
        *g = (group){s->from, s->from, s->to, s->to, s->offset, end_of(s), true};
    g->is_solid = g->is_solid && s->offset <= g->high && g->low <= end_of(s);
    g->first_from = s->from < g->first_from ? s->from : g->first_from;
    g->last_from = s->from > g->last_from ? s->from : g->last_from;
    g->first_to = s->to < g->first_to ? s->to : g->first_to;
    g->last_to = s->to > g->last_to ? s->to : g->last_to;
    g->low = s->offset < g->low ? s->offset : g->low;
    g->high = end_of(s) > g->high ? end_of(s) : g->high;
}

/* Is a member in the way of `mine` at its offset? It may be where neither time nor place tells them apart. */
static bool may_be_in_the_way(const group *g, const tr_span *mine)
{
    return g->first_from <= mine->to && mine->from <= g->last_to && mine->offset < g->high && g->low < end_of(mine);
}

/* Is all of the group in the way? */
static bool is_wall(const group *g, const tr_span *mine)
{
    return g->is_solid && g->last_from <= mine->to && mine->from <= g->first_to;
}

static bool is_in_the_way(const tr_span *other, const tr_span *mine)
{
    return other->from <= mine->to && mine->from <= other->to && mine->offset < end_of(other) && other->offset < end_of(mine);
}

/* Move `mine` upwards over the members of a group. */
static bool climb(tr_span *mine, const tr_span *members, int count, const group *g)
{
    const int64_t before = mine->offset;

    if (!may_be_in_the_way(g, mine))
        return false;
    if (is_wall(g, mine))
        mine->offset = g->high;
    for (int k = 0; mine->offset < g->high && k < count; k++)
        if (is_in_the_way(&members[k], mine))
            mine->offset = end_of(&members[k]);
    return mine->offset != before;
}

/* Give spans[n] the lowest offset where none of those before it is in the way. */
static void place(tr_span *spans, int n, const group *groups)
{
    spans[n].offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int at = 0; at < n; at += MEMBERS)
            moved = climb(&spans[n], &spans[at], n - at < MEMBERS ? n - at : MEMBERS, &groups[at / MEMBERS]) || moved;
    }
}

tr_status tr__arena_place(int64_t *arena_bytes, tr_span *spans, int count)
{
    group *groups = malloc(((size_t)count / MEMBERS + 1) * sizeof *groups);

    *arena_bytes = 0;
    if (!groups)
        return tr_fail(TR_ENOMEM, "no memory to place %d variables", count);
    qsort(spans, (size_t)count, sizeof *spans, larger_first);
    for (int n = 0; n < count; n++) {
        place(spans, n, groups);
        join(&groups[n / MEMBERS], &spans[n], n % MEMBERS == 0);
        *arena_bytes = end_of(&spans[n]) > *arena_bytes ? end_of(&spans[n]) : *arena_bytes;
    }
    free(groups);
    return TR_OK;
}
