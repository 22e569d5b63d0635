/* reduce.c - sums, means, products and extremes over some dimensions.
 *
 * The functions of math/arrays/reduce.h work on [pre][n][post], with the middle reduced. Dimensions that lie side by
 * side (all of them, the last ones, the first ones) are that already; others are brought to the end first, and
 * gradients brought back.
 *
 * Backward: sum and mean read no data at all; max and min give the gradient to every element that equals the
 * result. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/body_lines.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };                  enum { OUT };       /* slots of reduce: inputs, outputs */
enum { GX, GOUT, GDOUT };    enum { GDX };       /* of reduce_grad; GX and GOUT are X and Out */

typedef struct attrs {
    tr_ints dim;
    bool    keep_dim, reduce_all;
} attrs;

static const tr_slot_def in_slots[] = {{"X", "any shape"}, {NULL}};
static const tr_slot_def out_slots[] = {{"Out", "X without the dimensions, or with 1 in their place"}, {NULL}};
static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, dim, INTS, "the dimensions; negative ones count from the end", .text = "0"),
    TR_ATTR(attrs, keep_dim, BOOL, "keep the dimensions, as 1"),
    TR_ATTR(attrs, reduce_all, BOOL, "take all dimensions, whatever dim says"),
    {NULL},
};

/* -- shapes ----------------------------------------------------------------------------------- */

/* Which dimensions go, one bit each. */
static unsigned reduced_dims(const attrs *a, int rank)
{
    unsigned mask = 0;

    if (a->reduce_all)
        return (1u << rank) - 1;
    for (int i = 0; i < a->dim.count; i++)
        mask |= 1u << (a->dim.item[i] < 0 ? a->dim.item[i] + rank : a->dim.item[i]);
    return mask;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    tr_shape       out = {.rank = 0};
    int            axis;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    for (int i = 0; i < a->dim.count && !a->reduce_all; i++)
        TR_TRY(tr__check_axis(&axis, io, "dim", a->dim.item[i], x.rank));
    const unsigned reduced = reduced_dims(a, x.rank);
    for (int i = 0; i < x.rank; i++)
        if (!(reduced >> i & 1))
            out.dim[out.rank++] = x.dim[i];
        else if (a->keep_dim)
            out.dim[out.rank++] = 1;
    if (out.rank == 0)
        out = TR_SHAPE(1);
    if (reduced & 1)
        io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    else
        io->out[OUT] = io->in[X];
    io->out[OUT].shape = out;
    return TR_OK;
}

/* How X is cut: as it lies, or, where the dimensions are scattered, transposed with them at the end. */
typedef struct layout {
    tr_cut cut;
    bool   is_transposed;
    int    perm[TR_MAX_RANK], back[TR_MAX_RANK];
} layout;

static layout layout_of(const tr_shape *x, unsigned reduced)
{
    layout l = {.cut = {1, 1, 1}};
    int    first = -1, last = -1, kept = 0, moved = 0;

    for (int i = 0; i < x->rank; i++)
        if (reduced >> i & 1) {
            first = first < 0 ? i : first;
            last = i;
        }
    if (first < 0) {
        l.cut.pre = tr_shape_numel(x);
        return l;
    }
    for (int i = 0; i < x->rank; i++) {
        const bool goes = reduced >> i & 1;
        *(goes ? &l.cut.n : i < first ? &l.cut.pre : &l.cut.post) *= x->dim[i];
        l.is_transposed |= !goes && i > first && i < last;
        kept += !goes;
    }
    if (!l.is_transposed)
        return l;
    l.cut.pre *= l.cut.post;
    l.cut.post = 1;
    for (int i = 0, next = 0; i < x->rank; i++) {
        const int to = reduced >> i & 1 ? kept + moved++ : next++;
        l.perm[to] = i;
        l.back[i] = to;
    }
    return l;
}

static void to_end(void *out, const void *x, const tr_shape *shape, const layout *l, int64_t item_size)
{
    tr_transpose(out, x, shape->rank, shape->dim, l->perm, item_size);
}

static void from_end(void *out, const void *x, const tr_shape *shape, const layout *l, int64_t item_size)
{
    int64_t moved[TR_MAX_RANK];

    for (int i = 0; i < shape->rank; i++)
        moved[i] = shape->dim[l->perm[i]];
    tr_transpose(out, x, shape->rank, moved, l->back, item_size);
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- from function to operator ---------------------------------------------------------------- */

#define KERNEL(name, op, type) \
    static tr_status name##_##type(const tr_run *io) { return reduce_##type(io, TR_REDUCE_##op); }
#define GRAD_KERNEL(name, op, type) \
    static tr_status name##_grad_##type(const tr_run *io) { return reduce_grad_##type(io, TR_REDUCE_##op); }

/* READ_X and READ_OUT are TR_IN and TR_OUT where the gradient reads the data of X and Out, else TR_..._SHAPE. */
#define REDUCTION(name, func, formula, READ_X, READ_OUT, ...)                                       \
    KERNEL(name, func, f32) KERNEL(name, func, f64) KERNEL(name, func, i32) KERNEL(name, func, i64) \
    GRAD_KERNEL(name, func, f32) GRAD_KERNEL(name, func, f64)                                       \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = in_slots, .out = out_slots, .attr = attr_defs, .attrs_size = sizeof(attrs), \
    };                                                                                              \
    static const tr_grad_rule name##_rule = {                                                       \
        .op = #name "_grad", .reads = {READ_X(X), READ_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},     \
        ##__VA_ARGS__                                                                               \
    };                                                                                              \
    TR_REGISTER_OP(name, .proto = &name##_proto, .infer = infer, .kernels = TR_NUMBER_KERNELS(name), \
                   .grad = &name##_rule);                                                           \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .kernels = TR_FLOAT_KERNELS(name##_grad));

static const char *how(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    return tr_composite_text(c, "dim=[%s], keep_dim=%s, reduce_all=%s", tr_composite_ints(c, &a->dim), a->keep_dim ? "true" : "false",
                             a->reduce_all ? "true" : "false");
}

/* X@GRAD = Out@GRAD at each element that equals Out, the places of which are constant almost everywhere. */
static tr_status extreme_back(tr_composite *c, const char *type)
{
    TR_TRY(tr__add_ones(c, "Out@GRAD", "ones"));
    TR_TRY(tr_composite_add(c, "%s(X=X, Out=Out, Out@GRAD=ones) {%s} -> places", type, how(c)));
    tr_composite_stop_gradient(c, "places");
    TR_TRY(tr_composite_add(c, "reduce_sum_grad(X=X, Out=Out, Out@GRAD=Out@GRAD) {%s} -> spread", how(c)));
    return tr_composite_add(c, "elementwise_mul(X=spread, Y=places) -> X@GRAD");
}

static tr_status max_back(tr_composite *c) { return extreme_back(c, "reduce_max_grad"); }
static tr_status min_back(tr_composite *c) { return extreme_back(c, "reduce_min_grad"); }

/* X@GRAD = Out@GRAD Out / X, as the kernel has it */
static tr_status product_back(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=Out) -> weighted"));
    TR_TRY(tr_composite_add(c, "reduce_sum_grad(X=X, Out=Out, Out@GRAD=weighted) {%s} -> spread", how(c)));
    return tr_composite_add(c, "elementwise_div(X=spread, Y=X) -> X@GRAD");
}

#define BODY(name) .second = tr__second_body, .body = name

REDUCTION(reduce_max,  MAX,  "Out = the largest of X over the dimensions dim",  TR_IN,       TR_OUT,       BODY(max_back))
REDUCTION(reduce_mean, MEAN, "Out = the mean of X over the dimensions dim",     TR_IN_SHAPE, TR_OUT_SHAPE, .second = tr__second_linear)
REDUCTION(reduce_min,  MIN,  "Out = the smallest of X over the dimensions dim", TR_IN,       TR_OUT,       BODY(min_back))
REDUCTION(reduce_prod, PROD, "Out = the product of X over the dimensions dim",  TR_IN,       TR_OUT,       BODY(product_back))
REDUCTION(reduce_sum,  SUM,  "Out = the sum of X over the dimensions dim",      TR_IN_SHAPE, TR_OUT_SHAPE, .second = tr__second_linear)

/* -- of bools --------------------------------------------------------------------------------- */

typedef void (*bool_fn)(uint8_t *out, const uint8_t *x, int64_t pre, int64_t n, int64_t post);

static tr_status reduce_bool(const tr_run *io, bool_fn reduce)
{
    const tr_tensor *x = io->in[X];
    const layout     l = layout_of(&x->shape, reduced_dims(io->attrs, x->shape.rank));
    const uint8_t   *data = x->data;
    uint8_t         *moved;

    if (l.is_transposed) {
        TR_TRY(tr_run_scratch((void **)&moved, io, (size_t)tr_tensor_bytes(x)));
        to_end(moved, data, &x->shape, &l, 1);
        data = moved;
    }
    reduce(io->out[OUT]->data, data, l.cut.pre, l.cut.n, l.cut.post);
    return TR_OK;
}

#define BOOL_REDUCTION(name, func, formula)                                                         \
    static tr_status name(const tr_run *io) { return reduce_bool(io, func); }                       \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = in_slots, .out = out_slots, .attr = attr_defs, .attrs_size = sizeof(attrs), \
    };                                                                                              \
    TR_REGISTER_OP(name, .proto = &name##_proto, .infer = infer, .kernels = {{[TR_BOOL] = name}});

BOOL_REDUCTION(reduce_all, tr_reduce_all, "Out = whether all of X over the dimensions dim are true; X is bool")
BOOL_REDUCTION(reduce_any, tr_reduce_any, "Out = whether any of X over the dimensions dim is true; X is bool")

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(reduce)(const tr_run *io, tr_reduce op)
{
    const tr_tensor *x = io->in[X];
    const layout     l = layout_of(&x->shape, reduced_dims(io->attrs, x->shape.rank));
    const T         *data = x->data;
    T               *moved;

    if (l.is_transposed) {
        TR_TRY(tr_run_scratch((void **)&moved, io, (size_t)tr_tensor_bytes(x)));
        to_end(moved, data, &x->shape, &l, sizeof(T));
        data = moved;
    }
    NAME(tr_reduce_apply)(op, io->out[OUT]->data, data, l.cut.pre, l.cut.n, l.cut.post);
    return TR_OK;
}

#if T_IS_FLOATING
static tr_status NAME(reduce_grad)(const tr_run *io, tr_reduce op)
{
    const tr_tensor *x = io->in[GX];
    const layout     l = layout_of(&x->shape, reduced_dims(io->attrs, x->shape.rank));
    const bool       reads_x = op != TR_REDUCE_SUM && op != TR_REDUCE_MEAN;
    const T         *data = reads_x ? x->data : NULL, *out = reads_x ? io->in[GOUT]->data : NULL;
    const T         *dout = io->in[GDOUT]->data;
    T               *dx = io->out[GDX]->data, *moved;

    if (!l.is_transposed) {
        NAME(tr_reduce_grad)(op, dx, dout, data, out, l.cut.pre, l.cut.n, l.cut.post);
        return TR_OK;
    }
    TR_TRY(tr_run_scratch((void **)&moved, io, 2 * (size_t)tr_tensor_bytes(x)));
    T *const moved_dx = moved + tr_tensor_count(x);
    if (reads_x)
        to_end(moved, data, &x->shape, &l, sizeof(T));
    NAME(tr_reduce_grad)(op, moved_dx, dout, moved, out, l.cut.pre, l.cut.n, l.cut.post);
    from_end(dx, moved_dx, &x->shape, &l, sizeof(T));
    return TR_OK;
}
#endif

#endif
