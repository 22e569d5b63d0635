/* cumsum.c - running sums along an axis:  Out[i] = X[0] + ... + X[i], or without X[i] itself (exclusive), or from the end (reverse).
 *
 * The gradient is a cumsum the other way round. */
#ifndef T

#include "framework/threads/threadpool.h"
#include "framework/operators/op.h"
#include "kernels/base/cut.h"
#include "kernels/base/grad_ops.h"
#include "kernels/math/tools/wrap.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    int32_t axis;
    bool    exclusive, reverse;
} attrs;

static const tr_op_proto proto = {
    .doc = "Running sums along an axis.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " numbers")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INT, "along which dimension; negative counts from the end", .number = -1, .axis_of = "X"),
                       TR_ATTR(attrs, exclusive, BOOL, "leave the element itself out, so that the first sum is 0"),
                       TR_ATTR(attrs, reverse, BOOL, "add from the end")),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_number.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    tr_op_desc       *op = tr__grad_from_dout(maker, "cumsum", "X", 0);

    if (!op)
        return TR_OK;
    tr_op_desc_set_int(op, "axis", tr_op_desc_attr_int(forward, "axis", 0), TR_ATTR_INT);
    tr_op_desc_set_int(op, "exclusive", tr_op_desc_attr_int(forward, "exclusive", 0), TR_ATTR_BOOL);
    tr_op_desc_set_int(op, "reverse", !tr_op_desc_attr_int(forward, "reverse", 0), TR_ATTR_BOOL);
    return tr_grad_append(maker, op);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(cumsum, .proto = &proto, .kernels = TR_NUMBER_KERNELS(cumsum), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);

#else /* the kernels, for each T */

typedef struct {
    const attrs *a;
    const T     *x;
    T           *out;
    tr_cut       cut;
} NAME(job);

/* Lines [begin, end): one for each place before and after the axis. */
static void NAME(sum_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t line = begin; line < end; line++) {
        const int64_t first = line / j->cut.post * j->cut.n * j->cut.post + line % j->cut.post;
        T             sum = 0;
        for (int64_t i = 0; i < j->cut.n; i++) {
            const int64_t at = first + (j->a->reverse ? j->cut.n - 1 - i : i) * j->cut.post;
            const T       next = NAME(tr_plus)(sum, j->x[at]);
            j->out[at] = j->a->exclusive ? sum : next;
            sum = next;
        }
    }
}

static tr_status NAME(cumsum)(const tr_run *io)
{
    const attrs *a = io->attrs;
    NAME(job)    j = {a, io->in[X]->data, io->out[OUT]->data, tr__cut_at(&io->in[X]->shape, a->axis)};

    tr_parallel_range(j.cut.pre * j.cut.post, 1 + 16384 / (j.cut.n + 1), NAME(sum_range), &j);
    return TR_OK;
}

#endif
