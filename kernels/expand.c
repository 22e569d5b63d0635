/* expand.c - repeat X expand_times[i] times along each dimension i.
 *
 * Out seen with two dimensions for each of X's, [times][dim], is X with a stride of 0 along the first. The gradient
 * sums over the repetitions, one dimension after the other. */
#ifndef T

#include <string.h>

#include "framework/grad_second.h"
#include "kernels/check.h"
#include "kernels/math/reduce.h"
#include "kernels/math/transpose.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints expand_times;
} attrs;

static const tr_op_proto proto = {
    .doc = "Repeats X along its dimensions, as tiles.",
    .in = TR_SLOTS({"X", "[...] of any type"}),
    .out = TR_SLOTS({"Out", "dimension i is expand_times[i] times X's"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, expand_times, INTS, "how often along each dimension", .required = true)),
    .attrs_size = sizeof(attrs),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    for (int i = 0; i < a->expand_times.count; i++)
        if (a->expand_times.item[i] < 1)
            return tr_fail(TR_ERANGE, "expand: expand_times[%d] is %d; it must be 1 or more", i,
                           a->expand_times.item[i]);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* One run of dimensions: repeated as a whole `times` times. Dimensions that are not repeated join the run before
 * them, so that few runs remain. */
typedef struct run_of_dims {
    int64_t times, count;
} run_of_dims;

static int find_runs(run_of_dims *runs, const attrs *a, const tr_shape *x)
{
    int count = 0;

    for (int d = 0; d < x->rank; d++)
        if (count > 0 && a->expand_times.item[d] == 1)
            runs[count - 1].count *= x->dim[d];
        else
            runs[count++] = (run_of_dims){a->expand_times.item[d], x->dim[d]};
    return count;
}

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;
    run_of_dims  runs[TR_MAX_RANK];

    TR_TRY(tr__check_dense(io, "X", &io->in[X]));
    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    if (a->expand_times.count != out.rank)
        return tr_fail(TR_ESHAPE, "%s: expand_times has %d elements, but X is %s", io->type, a->expand_times.count,
                       TR_SHAPE_STR(out));
    if (2 * find_runs(runs, a, &out) > TR_MAX_RANK)
        return tr_fail(TR_EUNSUPPORTED, "%s: X %s is repeated along more than %d dimensions", io->type,
                       TR_SHAPE_STR(out), TR_MAX_RANK / 2);
    for (int d = 0; d < out.rank; d++)
        out.dim[d] = out.dim[d] < 0 ? -1 : out.dim[d] * a->expand_times.item[d];
    if (a->expand_times.item[0] == 1)
        io->out[OUT] = io->in[X];
    else
        io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    io->out[OUT].shape = out;
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    run_of_dims      runs[TR_MAX_RANK];
    const int        count = find_runs(runs, io->attrs, &x->shape);
    int64_t          dims[TR_MAX_RANK], from[TR_MAX_RANK], to[TR_MAX_RANK], from_stride = 1, to_stride = 1;

    for (int i = count - 1; i >= 0; i--) {
        dims[2 * i] = runs[i].times;
        dims[2 * i + 1] = runs[i].count;
        from[2 * i] = 0;
        from[2 * i + 1] = from_stride;
        to[2 * i + 1] = to_stride;
        to[2 * i] = to_stride * runs[i].count;
        from_stride *= runs[i].count;
        to_stride *= runs[i].count * runs[i].times;
    }
    tr_copy_strided(io->out[OUT]->data, to, x->data, from, 2 * count, dims, tr_dtype_size(x->dtype));
    return TR_OK;
}

#define TR_TEMPLATE "kernels/expand.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "expand_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(expand, .proto = &proto, .check = check, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(expand_grad, .grad_of = &tr_op_record_expand, .kernels = TR_FLOAT_KERNELS(expand_grad));

#else /* the gradient, for each T */

/* From the last run to the first: dOut is [pre][times][count * what the runs behind became], and the sum over times
 * goes to one half of the scratch memory while the other half is read. */
static tr_status NAME(expand_grad)(const tr_run *io)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_tensor       *dx = io->out[G_DX];
    run_of_dims      runs[TR_MAX_RANK];
    const int        count = find_runs(runs, io->attrs, &dx->shape);
    const int64_t    n = tr_tensor_count(dout);
    const T         *from = dout->data;
    T               *half[2];
    int64_t          post = 1, pre = n;
    int              next = 0;

    TR_TRY(tr_run_scratch((void **)&half[0], io, 2 * (size_t)n * sizeof(T)));
    half[1] = half[0] + n;
    for (int i = count - 1; i >= 0 && n > 0; i--) {
        pre /= runs[i].times * runs[i].count;
        post *= runs[i].count;
        if (runs[i].times == 1)
            continue;
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, half[next], from, pre, runs[i].times, post);
        from = half[next];
        next = !next;
    }
    memcpy(dx->data, from, (size_t)tr_tensor_count(dx) * sizeof(T));
    return TR_OK;
}

#endif
