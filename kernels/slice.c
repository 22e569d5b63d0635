/* slice.c - the part of Input between `starts` and `ends` along some axes.
 *
 * The gradient puts dOut at its place among zeros; it needs no data of Input. */
#include <string.h>

#include "framework/grad_second.h"
#include "kernels/check.h"
#include "kernels/part.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT };
enum { OUT };
enum { G_INPUT, G_DOUT };
enum { G_DINPUT };

typedef struct attrs {
    tr_ints axes, starts, ends;
} attrs;

static const tr_op_proto proto = {
    .doc = "The part of Input from `starts` up to but without `ends`, along `axes`; whole along the others.",
    .in = TR_SLOTS({"Input", "[...] of any type"}),
    .out = TR_SLOTS({"Out", "a part of Input"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, axes, INTS, "the axes that are cut", .required = true),
                     TR_ATTR(attrs, starts, INTS, "first place for each axis; negative counts from the end",
                             .required = true),
                     TR_ATTR(attrs, ends, INTS, "place after the last for each axis; what is too large is the end",
                             .required = true)),
    .attrs_size = sizeof(attrs),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->starts.count != a->axes.count || a->ends.count != a->axes.count)
        return tr_fail(TR_EINVAL, "slice: axes, starts and ends must be equally long, got %d, %d and %d", a->axes.count,
                       a->starts.count, a->ends.count);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* A place along an axis, counted from the front and cut to 0 .. n. */
static int64_t place(int64_t at, int64_t n)
{
    if (at < 0)
        at += n;
    return at < 0 ? 0 : at > n ? n : at;
}

/* Places [begin, end) for each dimension; the shape is known where it is cut. */
static void bounds(int64_t *begin, int64_t *extent, const attrs *a, const tr_shape *x)
{
    for (int d = 0; d < x->rank; d++) {
        begin[d] = 0;
        extent[d] = x->dim[d];
    }
    for (int i = 0; i < a->axes.count; i++) {
        const int     d = a->axes.item[i] < 0 ? a->axes.item[i] + x->rank : a->axes.item[i];
        const int64_t from = place(a->starts.item[i], x->dim[d]), to = place(a->ends.item[i], x->dim[d]);
        begin[d] = from;
        extent[d] = to > from ? to - from : 0;
    }
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape;
    tr_shape       out = {.rank = x.rank};
    int64_t        begin[TR_MAX_RANK];
    int            axis;

    TR_TRY(tr__check_dense(io, "Input", &io->in[INPUT]));
    for (int i = 0; i < a->axes.count; i++)
        TR_TRY(tr__check_axis(&axis, io, "axes", a->axes.item[i], x.rank));
    bounds(begin, out.dim, a, &x);
    bool cuts_rows = false;
    for (int i = 0; i < a->axes.count; i++) {
        const int d = a->axes.item[i] < 0 ? a->axes.item[i] + x.rank : a->axes.item[i];
        cuts_rows = cuts_rows || d == 0;
        if (x.dim[d] < 0)
            out.dim[d] = -1;
    }
    io->out[OUT] = cuts_rows ? tr_meta_dense(io->in[INPUT].dtype, out) : io->in[INPUT];
    io->out[OUT].shape = out;
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */

static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[INPUT];
    int64_t          begin[TR_MAX_RANK], extent[TR_MAX_RANK];

    bounds(begin, extent, io->attrs, &x->shape);
    tr__part_take(io->out[OUT], x, begin);
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DINPUT];
    int64_t    begin[TR_MAX_RANK], extent[TR_MAX_RANK];

    bounds(begin, extent, io->attrs, &dx->shape);
    memset(dx->data, 0, (size_t)(tr_tensor_count(dx) * tr_dtype_size(dx->dtype)));
    tr__part_put(dx, io->in[G_DOUT], begin);
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "slice_grad", .reads = {TR_IN_SHAPE(INPUT), TR_DOUT(OUT)}, .makes = {TR_DIN(INPUT)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(slice, .proto = &proto, .check = check, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(slice_grad, .grad_of = &tr_op_record_slice, .run = run_grad);
