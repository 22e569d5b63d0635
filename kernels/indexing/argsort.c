/* argsort.c - the elements along an axis in ascending order, and where each of them stood.
 *
 * Equal elements keep their order; NaN comes last. */
#ifndef T

#include "framework/threads/threadpool.h"
#include "framework/operators/op.h"
#include "kernels/base/cut.h"

#include <stdlib.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT, INDICES };

typedef struct attrs {
    int32_t axis;
} attrs;

static const tr_op_proto proto = {
    .doc = "Sorts along an axis, the smallest first, and says where each element stood.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; sorted"), TR_SLOT("Indices", "like X", ", int64; the places in X", TR_SLOT_INT64)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INT, "along which dimension; negative counts from the end", .number = -1, .axis_of = "X")),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(argsort, .proto = &proto, .kernels = TR_FLOAT_KERNELS(argsort));

#else /* the kernel, for each T */

typedef struct {
    T       value;
    int64_t place;
} NAME(element);

static int NAME(smaller_first)(const void *a, const void *b)
{
    const NAME(element) *p = a, *q = b;
    const bool p_is_nan = p->value != p->value, q_is_nan = q->value != q->value;

    if (p_is_nan != q_is_nan)
        return p_is_nan ? 1 : -1;
    if (p->value != q->value && !p_is_nan)
        return p->value < q->value ? -1 : 1;
    return (p->place > q->place) - (p->place < q->place);
}

typedef struct {
    const T *x;
    T       *out;
    int64_t *place;
    tr_cut   cut;
    NAME(element) *elements;             /* as many as X has */
} NAME(job);

static void NAME(sort_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    step = j->cut.post;

    for (int64_t line = begin; line < end; line++) {
        const int64_t  first = line / step * j->cut.n * step + line % step;
        NAME(element) *e = j->elements + line * j->cut.n;
        for (int64_t i = 0; i < j->cut.n; i++)
            e[i] = (NAME(element)){j->x[first + i * step], i};
        qsort(e, (size_t)j->cut.n, sizeof *e, NAME(smaller_first));
        for (int64_t i = 0; i < j->cut.n; i++) {
            j->out[first + i * step] = e[i].value;
            j->place[first + i * step] = e[i].place;
        }
    }
}

static tr_status NAME(argsort)(const tr_run *io)
{
    const attrs *a = io->attrs;
    NAME(job)    j = {.x = io->in[X]->data, .out = io->out[OUT]->data, .place = io->out[INDICES]->data,
                      .cut = tr__cut_at(&io->in[X]->shape, a->axis)};

    TR_TRY(tr_run_scratch((void **)&j.elements, io, (size_t)tr_tensor_count(io->in[X]) * sizeof *j.elements));
    tr_parallel_range(j.cut.pre * j.cut.post, 1 + 2048 / (j.cut.n + 1), NAME(sort_range), &j);
    return TR_OK;
}

#endif
