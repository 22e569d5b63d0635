/* slice.c - the part of Input between `starts` and `ends` along some axes: slice, and strided_slice, which takes every strides[i]-th element.
 *
 * Out is Input with other strides, so both directions are one strided copy. The gradient puts dOut at its place among zeros; it needs no data of Input. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT };
enum { OUT };
enum { G_INPUT, G_DOUT };
enum { G_DINPUT };

typedef struct attrs {
    tr_ints axes, starts, ends, strides, decrease_axis;
} attrs;

static const tr_slot_def in_slots[] = {{"Input", "[...] of any type"}, {.name = NULL}};
static const tr_slot_def out_slots[] = {{"Out", "a part of Input"}, {.name = NULL}};

#define PLACES                                                                                                         \
    TR_ATTR(attrs, axes, INTS, "the axes that are cut", .required = true),                                             \
    TR_ATTR(attrs, starts, INTS, "first place for each axis; negative counts from the end", .required = true),         \
    TR_ATTR(attrs, ends, INTS, "place after the last for each axis; what is too large is the end", .required = true),  \
    TR_ATTR(attrs, decrease_axis, INTS, "axes of which one element is left, and which Out does not have"),             \
    TR_ATTR_IGNORED("infer_flags", INTS)

static const tr_op_proto proto = {
    .doc = "The part of Input from `starts` up to but without `ends`, along `axes`; whole along the others.",
    .in = in_slots, .out = out_slots, TR_ATTRS_OF(attrs, PLACES),
};
static const tr_op_proto strided_proto = {
    .doc = "Every strides[i]-th element of Input from `starts` up to but without `ends`, along `axes`; whole along the others. "
           "With a stride below 0 it goes backwards, and an end of -1 is the place before the first element.",
    .in = in_slots, .out = out_slots,
    TR_ATTRS_OF(attrs, PLACES, TR_ATTR(attrs, strides, INTS, "the distance of two elements for each axis; not 0", .required = true)),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->starts.count != a->axes.count || a->ends.count != a->axes.count)
        return tr_fail(TR_EINVAL, "slice: axes, starts and ends must be equally long, got %d, %d and %d", a->axes.count,
                       a->starts.count, a->ends.count);
    return TR_OK;
}

static tr_status check_strided(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(check(attrs_));
    if (a->strides.count != a->axes.count)
        return tr_fail(TR_EINVAL, "strided_slice: there are %d axes, so strides must have as many; got %d", a->axes.count, a->strides.count);
    for (int i = 0; i < a->strides.count; i++)
        if (a->strides.item[i] == 0)
            return tr_fail(TR_ERANGE, "strided_slice: strides[%d] is 0", i);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* Along one axis: the first place, the distance to the next one, and how many there are. */
typedef struct cut {
    int64_t begin, step, extent;
} cut;

static int64_t between(int64_t low, int64_t at, int64_t high)
{
    return at < low ? low : at > high ? high : at;
}

/* Of an axis of n elements. */
static cut cut_of(int64_t start, int64_t end, int64_t step, int64_t n)
{
    const bool    is_open = step < 0 && end == -1;                         /* as far as the first element */
    const int64_t first = start < 0 ? start + n : start, last = end < 0 && !is_open ? end + n : end;
    const int64_t from = step > 0 ? between(0, first, n) : between(-1, first < 0 ? 0 : first, n - 1);
    const int64_t to = step > 0 ? between(0, last, n) : is_open ? -1 : between(0, last, n);
    const int64_t length = step > 0 ? to - from : from - to, stride = step > 0 ? step : -step;

    return (cut){from, step, length > 0 ? (length + stride - 1) / stride : 0};
}

static bool is_dropped(const attrs *a, int axis, int rank)
{
    for (int i = 0; i < a->decrease_axis.count; i++)
        if (a->decrease_axis.item[i] == axis || a->decrease_axis.item[i] + rank == axis)
            return true;
    return false;
}

/* For each dimension; the shape is known where it is cut. */
static void find_cuts(cut *cuts, const attrs *a, const tr_shape *x)
{
    for (int d = 0; d < x->rank; d++)
        cuts[d] = (cut){0, 1, x->dim[d]};
    for (int i = 0; i < a->axes.count; i++) {
        const int     d = a->axes.item[i] < 0 ? a->axes.item[i] + x->rank : a->axes.item[i];
        const bool    is_last = is_dropped(a, d, x->rank) && a->starts.item[i] == -1 && a->ends.item[i] == 0;   /* x[-1], as Fluid writes it */
        const int64_t step = a->strides.count ? a->strides.item[i] : 1;
        cuts[d] = cut_of(a->starts.item[i], is_last ? x->dim[d] : a->ends.item[i], step, x->dim[d]);
    }
}

/* Out's shape: the extents without the dimensions that are dropped, or [1]. */
static tr_status join(tr_shape *out, const tr_infer *io, const cut *cuts, const bool *is_cut)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape;

    out->rank = 0;
    for (int d = 0; d < x.rank; d++) {
        const int64_t extent = is_cut[d] && x.dim[d] < 0 ? -1 : cuts[d].extent;
        if (!is_dropped(a, d, x.rank))
            out->dim[out->rank++] = extent;
        else if (extent >= 0 && extent != 1)
            return tr_fail(TR_ERANGE, "%s: decrease_axis drops dimension %d of Input %s, so one element must be left of it; got %lld", io->type, d,
                           TR_SHAPE_STR(x), (long long)extent);
    }
    if (out->rank == 0 && x.rank > 0)
        *out = TR_SHAPE(1);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[INPUT].shape;
    tr_shape       out;
    cut            cuts[TR_MAX_RANK];
    bool           is_cut[TR_MAX_RANK] = {false};
    int            axis;

    for (int i = 0; i < a->axes.count; i++) {
        TR_TRY(tr__check_axis(&axis, io, "axes", a->axes.item[i], x.rank));
        is_cut[axis] = true;
    }
    for (int i = 0; i < a->decrease_axis.count; i++) {
        TR_TRY(tr__check_axis(&axis, io, "decrease_axis", a->decrease_axis.item[i], x.rank));
        is_cut[axis] = true;
    }
    find_cuts(cuts, a, &x);
    TR_TRY(join(&out, io, cuts, is_cut));
    io->out[OUT] = is_cut[0] ? tr_meta_dense(io->in[INPUT].dtype, out) : io->in[INPUT];
    io->out[OUT].shape = out;
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */

/* The strides of Out's elements in Out, with Input's dimensions, and in Input; and where in Input the first one lies, in bytes. */
static int64_t lay_out(int64_t *out, int64_t *in, int64_t *extent, const cut *cuts, const tr_tensor *x)
{
    int64_t to = 1, from = 1, offset = 0;

    for (int d = x->shape.rank - 1; d >= 0; d--) {
        out[d] = to;
        in[d] = from * cuts[d].step;
        extent[d] = cuts[d].extent;
        offset += cuts[d].extent ? cuts[d].begin * from : 0;
        to *= cuts[d].extent;
        from *= x->shape.dim[d];
    }
    return offset * tr_dtype_size(x->dtype);
}

static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[INPUT];
    cut              cuts[TR_MAX_RANK];
    int64_t          to[TR_MAX_RANK], from[TR_MAX_RANK], extent[TR_MAX_RANK];

    find_cuts(cuts, io->attrs, &x->shape);
    const int64_t offset = lay_out(to, from, extent, cuts, x);
    tr_copy_strided(io->out[OUT]->data, to, (const char *)x->data + offset, from, x->shape.rank, extent, tr_dtype_size(x->dtype));
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DINPUT];
    cut        cuts[TR_MAX_RANK];
    int64_t    to[TR_MAX_RANK], from[TR_MAX_RANK], extent[TR_MAX_RANK];

    find_cuts(cuts, io->attrs, &dx->shape);
    memset(dx->data, 0, (size_t)(tr_tensor_count(dx) * tr_dtype_size(dx->dtype)));
    const int64_t offset = lay_out(from, to, extent, cuts, dx);
    tr_copy_strided((char *)dx->data + offset, to, io->in[G_DOUT]->data, from, dx->shape.rank, extent, tr_dtype_size(dx->dtype));
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "slice_grad", .reads = {TR_IN_SHAPE(INPUT), TR_DOUT(OUT)}, .makes = {TR_DIN(INPUT)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(slice, .proto = &proto, .check = check, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(slice_grad, .grad_of = &tr_op_record_slice, .run = run_grad);

static const tr_grad_rule strided_grad = {
    .op = "strided_slice_grad", .reads = {TR_IN_SHAPE(INPUT), TR_DOUT(OUT)}, .makes = {TR_DIN(INPUT)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(strided_slice, .proto = &strided_proto, .check = check_strided, .infer = infer, .run = run, .grad = &strided_grad);
TR_REGISTER_OP(strided_slice_grad, .grad_of = &tr_op_record_strided_slice, .run = run_grad);
