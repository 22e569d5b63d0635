/* later_math.c - small operators of later versions of Fluid (1.8, 2.0) that saved programs hold, made of older ones: bmm, fill_any_like, flip, index_select,
 * log_softmax, mish, p_norm, silu. (Those with other forms of an operator stand in later_forms.c.) */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/base/shapes.h"

#include <math.h>

enum { X, Y };
enum { OUT };

/* An operator of X alone; `infer_` NULL: Out is like X. */
#define UNARY(name, proto_, infer_, expand_)                                                                                            \
    static const tr_grad_rule name##_rule = {                                                                                           \
        .op = #name "_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)}, .second = tr__second_body,            \
    };                                                                                                                                  \
    TR_REGISTER_OP(name, .proto = &proto_, .infer = infer_, .expand = expand_, .types = TR_FLOAT_TYPES, .grad = &name##_rule);           \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name)

static const tr_slot_def x_slot[] = {{"X", "any shape, float"}, {.name = NULL}};
static const tr_slot_def like_x[] = {TR_SLOT("Out", "like X", ""), {.name = NULL}};

/* The dimensions with `axis` and another one in each other's place. */
static const char *swapped(tr_composite *c, int rank, int axis, int other)
{
    const char *order = "";

    for (int i = 0; i < rank; i++)
        order = tr_composite_text(c, "%s%s%d", order, *order ? ", " : "", i == axis ? other : i == other ? axis : i);
    return order;
}

/* -- silu, mish ---------------------------------------------------------------------------------------- */
static const tr_op_proto silu_proto = {.doc = "Out = X sigmoid(X). (Elfwing et al., 2017)", .in = x_slot, .out = like_x};
static const tr_op_proto mish_proto = {
    .doc = "Out = X tanh(softplus(X)). (Misra, 2019)", .in = x_slot, .out = like_x, .attr = TR_ATTRS(TR_ATTR_ONLY("threshold", FLOAT, "above it softplus(X) is X, to the last bit of float32", .number = 20)),
};

static tr_status expand_silu(tr_composite *c)
{
    return tr_composite_add(c, "swish(X=X) {beta=1.0} -> Out");
}

static tr_status expand_mish(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "softplus(X=X) -> soft"));
    TR_TRY(tr_composite_add(c, "tanh(X=soft) -> gate"));
    return tr_composite_add(c, "elementwise_mul(X=X, Y=gate) -> Out");
}

UNARY(silu, silu_proto, NULL, expand_silu);
UNARY(mish, mish_proto, NULL, expand_mish);

/* -- flip ----------------------------------------------------------------------------------------------- */
typedef struct flip_attrs {
    tr_ints axis;
} flip_attrs;

static const tr_op_proto flip_proto = {
    .doc = "X with its elements along some axes in the opposite order.", .in = x_slot, .out = like_x,
    TR_ATTRS_OF(flip_attrs, TR_ATTR(flip_attrs, axis, INTS, "along which dimensions; negative ones count from the end", .required = true)),
};

static tr_status expand_flip(tr_composite *c)
{
    const flip_attrs *a = tr_composite_attrs(c);

    return tr_composite_add(c, "reverse(X=X) {axis=[%s]} -> Out", tr_composite_ints(c, &a->axis));
}

UNARY(flip, flip_proto, NULL, expand_flip);

/* -- log_softmax ----------------------------------------------------------------------------------------- */
typedef struct axis_attrs {
    int32_t axis;
} axis_attrs;

static const tr_op_proto log_softmax_proto = {
    .doc = "The logarithm of softmax along an axis: Out = X - log(sum(exp(X))).",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float")), .out = like_x,
    TR_ATTRS_OF(axis_attrs, TR_ATTR(axis_attrs, axis, INT, "along which dimension; negative counts from the end", .number = -1,
                                    .axis_of = "X")),
};

static tr_status expand_log_softmax(tr_composite *c)
{
    const axis_attrs *a = tr_composite_attrs(c);
    int               rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "X"));
    const char *order = swapped(c, rank, a->axis < 0 ? a->axis + rank : a->axis, rank - 1);
    TR_TRY(tr_composite_add(c, "transpose2(X=X) {axis=[%s]} -> rows", order));
    TR_TRY(tr_composite_add(c, "reduce_max(X=rows) {dim=[-1], keep_dim=true} -> most"));
    tr_composite_stop_gradient(c, "most");
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=rows, Y=most) {axis=0} -> below"));
    TR_TRY(tr_composite_add(c, "exp(X=below) -> shares"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=shares) {dim=[-1], keep_dim=true} -> sum"));
    TR_TRY(tr_composite_add(c, "log(X=sum) -> logs"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=below, Y=logs) {axis=0} -> found"));
    return tr_composite_add(c, "transpose2(X=found) {axis=[%s]} -> Out", order);
}

UNARY(log_softmax, log_softmax_proto, NULL, expand_log_softmax);

/* -- p_norm ---------------------------------------------------------------------------------------------- */
typedef struct norm_attrs {
    float   porder, epsilon;
    int32_t axis;
    bool    keepdim, asvector;
} norm_attrs;

static const tr_op_proto norm_proto = {
    .doc = "The p-norm of vectors along an axis: Out = (sum |X|^p)^(1/p); the largest or the smallest |X| where p is infinite, how many are not 0 where p is 0.",
    .in = x_slot, .out = TR_SLOTS({"Out", "X without the axis, or with 1 in its place"}),
    TR_ATTRS_OF(norm_attrs, TR_ATTR(norm_attrs, porder, FLOAT, "p", .number = 2),
                            TR_ATTR(norm_attrs, axis, INT, "along which dimension; negative counts from the end", .number = -1),
                            TR_ATTR(norm_attrs, epsilon, FLOAT, "added to the sum, so that its root has a slope at 0", .number = 1e-12, .range = TR_AT_LEAST(0)),
                            TR_ATTR(norm_attrs, keepdim, BOOL, "keep the dimension, as 1"),
                            TR_ATTR(norm_attrs, asvector, BOOL, "X as one vector, whatever axis says")),
};

static tr_status infer_norm(const tr_infer *io)
{
    const norm_attrs *a = io->attrs;
    const tr_shape    x = io->in[X].shape;
    tr_shape          out = {.rank = 0};
    int               axis;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, x.rank));
    for (int d = 0; d < x.rank; d++)
        if ((d != axis && !a->asvector) || a->keepdim)
            out.dim[out.rank++] = d == axis || a->asvector ? 1 : x.dim[d];
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out.rank ? out : TR_SHAPE(1));
    return TR_OK;
}

static tr_status expand_norm(tr_composite *c)
{
    const norm_attrs *a = tr_composite_attrs(c);
    const double      p = (double)a->porder;
    const char       *how = tr_composite_text(c, "{dim=[%d], keep_dim=%s, reduce_all=%s}", a->axis, a->keepdim ? "true" : "false", a->asvector ? "true" : "false");

    if (p == 0)
        TR_TRY(tr_composite_add(c, "sign(X=X) -> signs"));
    TR_TRY(tr_composite_add(c, "abs(X=%s) -> sizes", p == 0 ? "signs" : "X"));
    if (isinf(p))
        return tr_composite_add(c, "%s(X=sizes) %s -> Out", p > 0 ? "reduce_max" : "reduce_min", how);
    if (p == 0 || p == 1)
        return tr_composite_add(c, "reduce_sum(X=sizes) %s -> Out", how);
    if (p == 2)
        TR_TRY(tr_composite_add(c, "square(X=X) -> powers"));
    else
        TR_TRY(tr_composite_add(c, "pow(X=sizes) {factor=%.9g} -> powers", p));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=powers) %s -> sum", how));
    TR_TRY(tr_composite_add(c, "scale(X=sum) {bias=%.9g} -> above", (double)a->epsilon));
    if (p == 2)
        return tr_composite_add(c, "sqrt(X=above) -> Out");
    TR_TRY(tr_composite_add(c, "log(X=above) -> logs"));                    /* 1 / p is no float: as a power it would be rounded */
    TR_TRY(tr_composite_add(c, "fill_constant() {shape=[1], value=%.9g, dtype=%d} -> divisor", p, tr_composite_dtype(c, "X")));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=logs, Y=divisor) -> share"));
    return tr_composite_add(c, "exp(X=share) -> Out");
}

UNARY(p_norm, norm_proto, infer_norm, expand_norm);

/* -- index_select ---------------------------------------------------------------------------------------- */
enum { INDEX = 1 };

typedef struct dim_attrs {
    int32_t dim;
} dim_attrs;

static const tr_op_proto select_proto = {
    .doc = "Elements of X along a dimension, by number: Out[i] = X[Index[i]] where dim is 0.",
    .in = TR_SLOTS({"X", "any shape, float"}, {"Index", "[m] or [m, 1] int32 or int64; places along the dimension", TR_SLOT_INDEX}),
    .out = TR_SLOTS({"Out", "like X with m elements along the dimension"}),
    TR_ATTRS_OF(dim_attrs, TR_ATTR(dim_attrs, dim, INT, "along which dimension; negative counts from the end")),
};

static tr_status infer_select(const tr_infer *io)
{
    const tr_shape index = io->in[INDEX].shape;
    tr_shape       out = io->in[X].shape;
    int            dim;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(tr__check_axis(&dim, io, "dim", ((const dim_attrs *)io->attrs)->dim, out.rank));
    if (index.rank != 1 && !(index.rank == 2 && (index.dim[1] == 1 || index.dim[1] < 0)))
        return tr_fail(TR_ESHAPE, "%s: Index must be [m] or [m, 1], got %s", io->type, TR_SHAPE_STR(index));
    out.dim[dim] = index.dim[0];
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status expand_select(tr_composite *c)
{
    const dim_attrs *a = tr_composite_attrs(c);
    int              rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "X"));
    const int dim = a->dim < 0 ? a->dim + rank : a->dim;
    if (dim == 0)
        return tr_composite_add(c, "gather(X=X, Index=Index) -> Out");
    const char *order = swapped(c, rank, dim, 0);
    TR_TRY(tr_composite_add(c, "transpose2(X=X) {axis=[%s]} -> rows", order));
    TR_TRY(tr_composite_add(c, "gather(X=rows, Index=Index) -> found"));
    return tr_composite_add(c, "transpose2(X=found) {axis=[%s]} -> Out", order);
}

static const tr_grad_rule select_rule = {
    .op = "index_select_grad", .reads = {TR_IN(X), TR_IN(INDEX), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)}, .second = tr__second_body,
};
TR_REGISTER_OP(index_select, .proto = &select_proto, .infer = infer_select, .expand = expand_select, .types = TR_FLOAT_TYPES, .grad = &select_rule);
TR_REGISTER_OP(index_select_grad, .grad_of = &tr_op_record_index_select);

/* -- bmm --------------------------------------------------------------------------------------------------- */
static const tr_op_proto bmm_proto = {
    .doc = "Out[i] = X[i] Y[i], products of as many matrices as both have.",
    .in = TR_SLOTS(TR_SLOT("X", "[b, n, k]", " float"), TR_SLOT("Y", "[b, k, m]", ", same dtype")),
    .out = TR_SLOTS({"Out", "[b, n, m]"}),
};

static tr_status infer_bmm(const tr_infer *io)
{
    io->out[OUT] = io->in[X];
    io->out[OUT].shape.dim[2] = io->in[Y].shape.dim[2];
    return TR_OK;
}

static tr_status expand_bmm(tr_composite *c)
{
    return tr_composite_add(c, "matmul(X=X, Y=Y) -> Out");
}

static const tr_grad_rule bmm_rule = {
    .op = "bmm_grad", .reads = {TR_IN(X), TR_IN(Y), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)}, .second = tr__second_body,
};
TR_REGISTER_OP(bmm, .proto = &bmm_proto, .infer = infer_bmm, .expand = expand_bmm, .types = TR_FLOAT_TYPES, .grad = &bmm_rule);
TR_REGISTER_OP(bmm_grad, .grad_of = &tr_op_record_bmm);

/* -- fill_any_like ------------------------------------------------------------------------------------------ */
typedef struct fill_attrs {
    float   value;
    int32_t dtype;
} fill_attrs;

enum { LIKE_X = -1 };

static const tr_op_proto fill_proto = {
    .doc = "A tensor of X's shape that is full of one number.",
    .in = TR_SLOTS({"X", "any shape; its values do not matter"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ", of type dtype", TR_SLOT_ANY_TYPE)),
    TR_ATTRS_OF(fill_attrs, TR_ATTR(fill_attrs, value, FLOAT, "the number"),
                            TR_ATTR(fill_attrs, dtype, INT, "type of Out, as VarType.Type has it; -1 is X's", .number = LIKE_X)),
};

static tr_status infer_fill(const tr_infer *io)
{
    const fill_attrs *a = io->attrs;

    return a->dtype == LIKE_X ? TR_OK : tr__dtype_from_attr(&io->out[OUT].dtype, io, a->dtype);
}

static tr_status expand_fill(tr_composite *c)
{
    const fill_attrs *a = tr_composite_attrs(c);
    const int         from = tr_composite_dtype(c, "X"), to = a->dtype == LIKE_X ? from : a->dtype;

    TR_TRY(tr_composite_add(c, "fill_zeros_like(X=X) -> zeros"));
    TR_TRY(tr_composite_add(c, "cast(X=zeros) {in_dtype=%d, out_dtype=%d} -> typed", from, to));
    return tr_composite_add(c, "scale(X=typed) {bias=%.9g} -> Out", (double)a->value);
}

TR_REGISTER_OP(fill_any_like, .proto = &fill_proto, .infer = infer_fill, .expand = expand_fill,
               .types = TR_FLOAT_TYPES | TR_TYPE(TR_INT32) | TR_TYPE(TR_INT64));
