/* picked.c - see picked.h. Scores and dx are shared among threads by rows; dw by groups, cut where about as many picks
 * lie before as behind: the root of a tree is in every list, its leaves are in few. */
#ifndef T
#include "kernels/math/training/picked.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/rows.h"

#include <string.h>

enum { MIN_ITEMS = 16384, LANES = 16 };

int64_t tr_picked_memory(int64_t count)
{
    return 7 * count + 1;
}

void tr_picked_group(tr_picked_groups *groups, int64_t *memory, const int64_t *id, int64_t rows, int64_t picks)
{
    const int64_t  count = rows * picks;
    int64_t *const unique = memory, *const first = unique + count, *const order = first + count + 1;
    int64_t *const there = order + count, *const at = there + count, *const work = at + count;
    int64_t        used = 0;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = i * picks; k < (i + 1) * picks && id[k] >= 0; k++) {
            there[used] = id[k];
            at[used++] = k;
        }
    groups->count = tr_rows_group(unique, first, order, work, there, used);
    for (int64_t k = 0; k < used; k++)
        there[k] = at[order[k]];
    groups->id = unique;
    groups->first = first;
    groups->at = there;
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    const NAME(tr_picked)  *p;
    const tr_picked_groups *groups;
    const T                *dscore;
    T                      *to;
    bool                    is_packed;
} NAME(job);

/* Rows are short here: fewer chains than lanes.h has. */
TR_INLINE T NAME(dot)(const T *x, const T *y, int64_t n)
{
    T       lane[LANES] = {0}, rest = 0;
    int64_t k = 0;

    for (; k + LANES <= n; k += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[k + j] * y[k + j];
    for (; k < n; k++)
        rest += x[k] * y[k];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0] + rest;
}

TR_INLINE void NAME(add_scaled)(T *to, const T *x, T scale, int64_t n)
{
    TR_IVDEP
    for (int64_t k = 0; k < n; k++)
        to[k] += scale * x[k];
}

TR_CLONES static void NAME(scores_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)       *job = payload;
    const NAME(tr_picked) *p = job->p;

    for (int64_t i = begin; i < end; i++) {
        const int64_t *id = p->id + i * p->picks;
        T             *score = job->to + i * p->picks;
        int64_t        j = 0;
        for (; j < p->picks && id[j] >= 0; j++) {
            if (j + 1 < p->picks && id[j + 1] >= 0)
                __builtin_prefetch(p->w + id[j + 1] * p->width);
            score[j] = NAME(dot)(p->x + i * p->width, p->w + id[j] * p->width, p->width) + (p->bias ? p->bias[id[j]] : 0);
        }
        for (; j < p->picks; j++)
            score[j] = 0;
    }
}

void NAME(tr_picked_scores)(T *score, const NAME(tr_picked) *p)
{
    NAME(job) job = {.p = p, .to = score};
    tr_parallel_range(p->rows, 1 + MIN_ITEMS / (1 + p->picks * p->width), NAME(scores_range), &job);
}

TR_CLONES static void NAME(dx_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)       *job = payload;
    const NAME(tr_picked) *p = job->p;

    memset(job->to + begin * p->width, 0, (size_t)((end - begin) * p->width) * sizeof(T));
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = i * p->picks; k < (i + 1) * p->picks && p->id[k] >= 0; k++)
            NAME(add_scaled)(job->to + i * p->width, p->w + p->id[k] * p->width, job->dscore[k], p->width);
}

void NAME(tr_picked_dx)(T *dx, const T *dscore, const NAME(tr_picked) *p)
{
    NAME(job) job = {.p = p, .dscore = dscore, .to = dx};
    tr_parallel_range(p->rows, 1 + MIN_ITEMS / (1 + p->picks * p->width), NAME(dx_range), &job);
}

TR_CLONES static void NAME(dw_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job)        *job = payload;
    const NAME(tr_picked)  *p = job->p;
    const tr_picked_groups *s = job->groups;
    const int64_t           last = tr_rows_place(s->first, s->count, end);

    for (int64_t g = tr_rows_place(s->first, s->count, begin); g < last; g++) {
        T *to = job->to + (job->is_packed ? g : s->id[g]) * p->width;
        memset(to, 0, (size_t)p->width * sizeof(T));
        for (int64_t k = s->first[g]; k < s->first[g + 1]; k++)
            NAME(add_scaled)(to, p->x + s->at[k] / p->picks * p->width, job->dscore[s->at[k]], p->width);
    }
}

void NAME(tr_picked_dw)(T *to, bool is_packed, const T *dscore, const NAME(tr_picked) *p, const tr_picked_groups *groups)
{
    NAME(job) job = {.p = p, .groups = groups, .dscore = dscore, .to = to, .is_packed = is_packed};
    if (groups->count > 0)
        tr_parallel_range(groups->first[groups->count], 1 + MIN_ITEMS / (1 + p->width), NAME(dw_range), &job);
}

void NAME(tr_picked_dbias)(T *to, bool is_packed, const T *dscore, const tr_picked_groups *groups)
{
    for (int64_t g = 0; g < groups->count; g++) {
        T sum = 0;
        for (int64_t k = groups->first[g]; k < groups->first[g + 1]; k++)
            sum += dscore[groups->at[k]];
        to[is_packed ? g : groups->id[g]] = sum;
    }
}

#endif
