/* activation.c - one vector loop for each function of TR_ACT_LIST and one for its gradient. */
#ifndef T
#include "kernels/math/arrays/activation.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/activation_scalar.h"

static const struct {
    const char  *name;
    tr_act_reads reads;
} acts[TR_ACT_COUNT] = {
#define ROW(act, what) [TR_ACT_##act] = {#act, TR_ACT_READS_##what},
    TR_ACT_LIST(ROW)
#undef ROW
};

const char *tr_act_name(tr_act act)
{
    return acts[act].name;
}

tr_act_reads tr_act_grad_reads(tr_act act)
{
    return acts[act].reads;
}

enum { MIN_ITEMS = 8192 };                                   /* elements of a slice */

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    tr_act   act;
    T       *out;
    const T *x, *d;                                          /* d: the incoming gradient */
    T        p, q;
} NAME(job);

#define LOOPS(name, what)                                                                                          \
    TR_CLONES static void NAME(name##_loop)(T *out, const T *x, int64_t n, T p, T q)                               \
    {                                                                                                                  \
        TR_IVDEP                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                            \
            out[i] = NAME(tr_act_##name)(x[i], p, q);                                                              \
    }                                                                                                              \
    TR_CLONES static void NAME(name##_grad_loop)(T *dx, const T *d, const T *v, int64_t n, T p, T q)               \
    {                                                                                                                  \
        TR_IVDEP                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                            \
            dx[i] = NAME(tr_act_d##name)(d[i], v[i], p, q);                                                        \
    }
TR_ACT_LIST(LOOPS)
#undef LOOPS

static void NAME(act_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    T               *out = j->out + begin;
    const T         *x = j->x + begin;
    switch (j->act) {
#define CASE(name, what) case TR_ACT_##name: NAME(name##_loop)(out, x, end - begin, j->p, j->q); break;
        TR_ACT_LIST(CASE)
#undef CASE
    case TR_ACT_COUNT: break;
    }
}

static void NAME(act_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    T               *dx = j->out + begin;
    const T         *d = j->d + begin, *v = j->x + begin;
    switch (j->act) {
#define CASE(name, what) case TR_ACT_##name: NAME(name##_grad_loop)(dx, d, v, end - begin, j->p, j->q); break;
        TR_ACT_LIST(CASE)
#undef CASE
    case TR_ACT_COUNT: break;
    }
}

void NAME(tr_act_apply)(tr_act act, T *out, const T *x, int64_t n, T p, T q)
{
    NAME(job) j = {act, out, x, NULL, p, q};
    if (act != TR_ACT_identity || out != x)
        tr_parallel_range(n, MIN_ITEMS, NAME(act_range), &j);
}

void NAME(tr_act_grad)(tr_act act, T *dx, const T *dout, const T *x, const T *out, int64_t n, T p, T q)
{
    const tr_act_reads reads = acts[act].reads;
    const T           *v = reads == TR_ACT_READS_X ? x : reads == TR_ACT_READS_OUT ? out : dout;
    NAME(job)          j = {act, dx, v, dout, p, q};
    if (act != TR_ACT_identity || dx != dout)
        tr_parallel_range(n, MIN_ITEMS, NAME(act_grad_range), &j);
}

#endif
