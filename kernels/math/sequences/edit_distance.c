/* edit_distance.c - see edit_distance.h. The table of Wagner and Fischer (1974), of which one row is kept. */
#ifndef T
#include "kernels/math/sequences/edit_distance.h"

#include "framework/threads/threadpool.h"

enum { MIN_SEQUENCES = 4 };                                  /* of a slice */

#include "kernels/math/tools/each_number.h"

#elif !T_IS_FLOATING

/* After row i, cell[k] is the distance from the first i of `from` to the first k of `to`. */
static int64_t NAME(distance_of)(const T *from, int64_t n, const T *to, int64_t m, int64_t *cell)
{
    for (int64_t k = 0; k <= m; k++)
        cell[k] = k;
    for (int64_t i = 1; i <= n; i++) {
        int64_t diagonal = cell[0], left = i;
        cell[0] = i;
        for (int64_t k = 1; k <= m; k++) {
            const int64_t changed = diagonal + (from[i - 1] != to[k - 1]);
            const int64_t other = (cell[k] < left ? cell[k] : left) + 1;
            diagonal = cell[k];
            cell[k] = left = changed < other ? changed : other;
        }
    }
    return cell[m];
}

static void NAME(edit_range)(void *payload, int64_t first, int64_t last)
{
    void *const         *both = payload;
    const NAME(tr_edit) *e = both[0];
    int64_t             *distance = both[1];

    for (int64_t i = first; i < last; i++) {
        const int64_t from = e->from_offset[i], to = e->to_offset[i];
        distance[i] = NAME(distance_of)(e->from + from, e->from_offset[i + 1] - from, e->to + to, e->to_offset[i + 1] - to,
                                        e->work + to + i);
    }
}

void NAME(tr_edit_distances)(int64_t *distance, const NAME(tr_edit) *e)
{
    void *both[] = {(void *)e, distance};
    tr_parallel_range(e->count, MIN_SEQUENCES, NAME(edit_range), both);
}

#endif
