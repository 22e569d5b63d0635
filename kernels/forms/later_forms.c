/* later_forms.c - operators of later versions of Fluid (1.8, 2.0) that saved programs hold, made of those that they replaced: lookup_table_v2,
 * one_hot_v2, top_k_v2, matmul_v2; and hard_swish. (flatten_contiguous_range stands in squeeze2.c.)
 *
 * They say the same with other shapes: ids need no last dimension of 1, an axis may be given. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"
#include "kernels/base/shapes.h"

enum { X, Y };
enum { OUT, SECOND };

/* -- lookup_table_v2 ---------------------------------------------------------------------------------- */
enum { W, IDS };
enum { L_W, L_IDS };

typedef struct lookup_attrs {
    bool    is_sparse;
    int64_t padding_idx;
} lookup_attrs;

static const tr_op_proto lookup_proto = {
    .doc = "Looks rows up in an embedding table: Out[i] = W[Ids[i]].",
    .in = TR_SLOTS(TR_SLOT("W", "[height, width]", " float; the table"), TR_SLOT("Ids", "[n, ...]", " int64; row numbers", TR_SLOT_INT64)),
    .out = TR_SLOTS({"Out", "[..., width]"}),
    TR_ATTRS_OF(lookup_attrs, TR_ATTR(lookup_attrs, is_sparse, BOOL, "the gradient of W is selected rows"),
                              TR_ATTR(lookup_attrs, padding_idx, LONG, "this id gives zeros and trains nothing; -1 is none", .number = -1),
                              TR_ATTR_IGNORED("is_distributed", BOOL), TR_ATTR_IGNORED("grad_inplace", BOOL),
                              TR_ATTR_ONLY("remote_prefetch", BOOL, "rows of a table on servers need trireme.distributed"),
                              TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("height_sections", LONGS),
                              TR_ATTR_IGNORED("epmap", STRINGS),
                              TR_ATTR_IGNORED("table_names", STRINGS)),
};

/* `shape` with one more dimension behind the others. */
static tr_status longer(tr_shape *out, const tr_infer *io, const char *slot, tr_shape shape, int64_t last)
{
    if (shape.rank >= TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: %s is %s; Out would have more than %d dimensions", io->type, slot, TR_SHAPE_STR(shape), TR_MAX_RANK);
    shape.dim[shape.rank++] = last;
    *out = shape;
    return TR_OK;
}

static tr_status infer_lookup(const tr_infer *io)
{
    io->out[OUT] = io->in[IDS];
    io->out[OUT].dtype = io->in[W].dtype;
    return longer(&io->out[OUT].shape, io, "Ids", io->in[IDS].shape, io->in[W].shape.dim[1]);
}

static tr_status infer_lookup_grad(const tr_infer *io)
{
    io->out[OUT] = tr__rows_grad_meta(&io->in[L_W], ((const lookup_attrs *)io->attrs)->is_sparse, tr_shape_numel(&io->in[L_IDS].shape));
    return TR_OK;
}

static tr_status expand_lookup(tr_composite *c)
{
    const lookup_attrs *a = tr_composite_attrs(c);
    int                 rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "Ids"));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=Ids) {axes=[%d]} -> ids", rank));
    return tr_composite_add(c, "lookup_table(W=W, Ids=ids) {is_sparse=%s, padding_idx=%lld} -> Out", a->is_sparse ? "true" : "false",
                            (long long)a->padding_idx);
}

static const tr_grad_rule lookup_rule = {
    .op = "lookup_table_v2_grad", .reads = {TR_IN(W), TR_IN(IDS), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(W)}, .second = tr__second_body,
};
TR_REGISTER_OP(lookup_table_v2, .proto = &lookup_proto, .infer = infer_lookup, .expand = expand_lookup, .types = TR_FLOAT_TYPES, .grad = &lookup_rule);
TR_REGISTER_OP(lookup_table_v2_grad, .grad_of = &tr_op_record_lookup_table_v2, .infer = infer_lookup_grad);

/* -- one_hot_v2 --------------------------------------------------------------------------------------- */
typedef struct hot_attrs {
    int32_t depth, dtype;
} hot_attrs;

static const tr_op_proto hot_proto = {
    .doc = "Numbers as rows that hold a 1 at the number's place and 0 elsewhere.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " int32 or int64; numbers from 0 to depth - 1")),
    .out = TR_SLOTS({"Out", "[..., depth] of type dtype", TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(hot_attrs, TR_ATTR(hot_attrs, depth, INT, "how many numbers there are", .required = true, .range = TR_GREATER(0)),
                           TR_ATTR(hot_attrs, dtype, INT, "type of Out, as VarType.Type has it", .number = TR_FP32),
                           TR_ATTR_ONLY("allow_out_of_range", BOOL, "give numbers from 0 to depth - 1")),
};

static tr_status infer_hot(const tr_infer *io)
{
    const hot_attrs *a = io->attrs;
    tr_dtype         dtype;

    TR_TRY(tr__dtype_from_attr(&dtype, io, a->dtype));
    TR_TRY(tr__check_ids(io, "X", &io->in[X], true));
    io->out[OUT] = io->in[X];
    io->out[OUT].dtype = dtype;
    return longer(&io->out[OUT].shape, io, "X", io->in[X].shape, a->depth);
}

static tr_status expand_hot(tr_composite *c)
{
    const hot_attrs *a = tr_composite_attrs(c);
    int              rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "X"));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=X) {axes=[%d]} -> numbers", rank));
    return tr_composite_add(c, "one_hot(X=numbers) {depth=%d, dtype=%d} -> Out", a->depth, a->dtype);
}

TR_REGISTER_OP(one_hot_v2, .proto = &hot_proto, .infer = infer_hot, .expand = expand_hot, .types = TR_TYPE(TR_INT32) | TR_TYPE(TR_INT64));

/* -- top_k_v2 ----------------------------------------------------------------------------------------- */
typedef struct top_attrs {
    int32_t k, axis;
    bool    largest, sorted;
} top_attrs;

static const tr_op_proto top_proto = {
    .doc = "The k largest or smallest elements along an axis, in order, and where they stand. No gradient flows through it.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float")),
    .out = TR_SLOTS({"Out", "like X with k elements along the axis"}, {"Indices", "int64 like Out", TR_SLOT_INT64}),
    TR_ATTRS_OF(top_attrs, TR_ATTR(top_attrs, k, INT, "how many", .number = 1, .range = TR_AT_LEAST(1)),
                           TR_ATTR(top_attrs, axis, INT, "along which dimension; negative counts from the end", .number = -1,
                                   .axis_of = "X"),
                           TR_ATTR(top_attrs, largest, BOOL, "the largest ones, and not the smallest", .number = 1),
                           TR_ATTR(top_attrs, sorted, BOOL, "in order; they are in any case", .number = 1)),
};

static tr_status infer_top(const tr_infer *io)
{
    const top_attrs *a = io->attrs;
    tr_shape         out = io->in[X].shape;
    const int        axis = tr__axis(a->axis, &out);

    if (out.dim[axis] >= 0 && a->k > out.dim[axis])
        return tr_fail(TR_ESHAPE, "%s: k is %d, but X %s has %lld elements along dimension %d", io->type, a->k, TR_SHAPE_STR(out),
                       (long long)out.dim[axis], axis);
    out.dim[axis] = a->k;
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    io->out[SECOND] = tr_meta_dense(TR_INT64, out);
    return TR_OK;
}

/* The dimensions with `axis` and the last one in each other's place. */
static const char *swapped(tr_composite *c, int rank, int axis)
{
    const char *order = "";

    for (int i = 0; i < rank; i++)
        order = tr_composite_text(c, "%s%s%d", order, *order ? ", " : "", i == axis ? rank - 1 : i == rank - 1 ? axis : i);
    return order;
}

static tr_status expand_top(tr_composite *c)
{
    const top_attrs *a = tr_composite_attrs(c);
    const char      *factor = a->largest ? "1.0" : "-1.0";
    int              rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "X"));
    const char *order = swapped(c, rank, a->axis < 0 ? a->axis + rank : a->axis);
    TR_TRY(tr_composite_add(c, "transpose2(X=X) {axis=[%s]} -> rows", order));
    TR_TRY(tr_composite_add(c, "scale(X=rows) {scale=%s} -> signed", factor));
    TR_TRY(tr_composite_add(c, "top_k(X=signed) {k=%d} -> Out=top, Indices=places", a->k));
    TR_TRY(tr_composite_add(c, "scale(X=top) {scale=%s} -> found", factor));
    TR_TRY(tr_composite_add(c, "transpose2(X=found) {axis=[%s]} -> Out", order));
    return tr_composite_add(c, "transpose2(X=places) {axis=[%s]} -> Out=Indices", order);
}

TR_REGISTER_OP(top_k_v2, .proto = &top_proto, .infer = infer_top, .expand = expand_top, .types = TR_TYPE(TR_FP32) | TR_TYPE(TR_FP64));

/* -- matmul_v2 ---------------------------------------------------------------------------------------- */
typedef struct matmul_attrs {
    bool trans_x, trans_y;
} matmul_attrs;

static const tr_op_proto matmul_proto = {
    .doc = "Out = X Y of matrices, of stacks of matrices, spread over each other as NumPy's are, or of vectors.",
    .in = TR_SLOTS({"X", "[..., n, k] float, or [k]; [..., k, n] with trans_x"},
                   {"Y", "[..., k, m], same dtype, or [k]; [..., m, k] with trans_y"}),
    .out = TR_SLOTS({"Out", "[..., n, m]"}),
    TR_ATTRS_OF(matmul_attrs, TR_ATTR(matmul_attrs, trans_x, BOOL, "transpose the last two dimensions of X"),
                TR_ATTR(matmul_attrs, trans_y, BOOL, "those of Y")),
};

/* Rows or columns of a matrix that may be transposed. A vector X is one row, a vector Y one column. */
static int64_t side(const tr_shape *shape, bool is_transposed, bool is_columns)
{
    if (shape->rank == 1)
        return shape->dim[0];
    return shape->dim[shape->rank - (is_transposed != is_columns ? 1 : 2)];
}

/* Extent `i` of a stack, counted from its last one; 1 beyond its first. */
static int64_t of_stack(const tr_shape *shape, int i)
{
    return i + 2 < shape->rank ? shape->dim[shape->rank - 3 - i] : 1;
}

static tr_status infer_stack(const tr_infer *io, tr_shape *out, const tr_shape *x, const tr_shape *y)
{
    const int rank = (x->rank > y->rank ? x->rank : y->rank) - 2;

    *out = (tr_shape){.rank = rank > 0 ? rank : 0};
    for (int i = 0; i < rank; i++) {
        const int64_t p = of_stack(x, i), q = of_stack(y, i);
        if (p >= 0 && q >= 0 && p != q && p != 1 && q != 1)
            return tr_fail(TR_ESHAPE, "%s: X is %s, Y %s: stacks of %lld and of %lld do not fit", io->type, TR_SHAPE_STR(*x),
                           TR_SHAPE_STR(*y), (long long)p, (long long)q);
        out->dim[rank - 1 - i] = p == 1 ? q : q == 1 || p >= 0 ? p : q;
    }
    return TR_OK;
}

static tr_status infer_matmul(const tr_infer *io)
{
    const matmul_attrs *a = io->attrs;
    const tr_shape      x = io->in[X].shape, y = io->in[Y].shape;
    tr_shape            out;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(tr__check_min_rank(io, "Y", &io->in[Y], 1));
    const int64_t k = side(&x, a->trans_x, true), rows = side(&y, a->trans_y, false);
    if (k >= 0 && rows >= 0 && k != rows)
        return tr_fail(TR_ESHAPE, "%s: X is %s with rows of %lld, so Y must have %lld rows; got %s with %lld", io->type, TR_SHAPE_STR(x),
                       (long long)k, (long long)k, TR_SHAPE_STR(y), (long long)rows);
    TR_TRY(infer_stack(io, &out, &x, &y));
    if (x.rank > 1)
        out.dim[out.rank++] = side(&x, a->trans_x, false);
    if (y.rank > 1)
        out.dim[out.rank++] = side(&y, a->trans_y, true);
    if (!out.rank)
        out.dim[out.rank++] = 1;
    io->out[OUT] = io->in[x.rank >= y.rank ? X : Y];
    io->out[OUT].shape = out;
    return TR_OK;
}

static tr_status expand_matmul(tr_composite *c)
{
    const matmul_attrs *a = tr_composite_attrs(c);
    int                 x, y;

    TR_TRY(tr_composite_known_rank(&x, c, "X"));
    TR_TRY(tr_composite_known_rank(&y, c, "Y"));
    return tr_composite_add(c, "matmul(X=X, Y=Y) {transpose_X=%s, transpose_Y=%s} -> Out", a->trans_x && x > 1 ? "true" : "false",
                            a->trans_y && y > 1 ? "true" : "false");
}

static const tr_grad_rule matmul_rule = {
    .op = "matmul_v2_grad", .reads = {TR_IN(X), TR_IN(Y), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)}, .second = tr__second_body,
};
TR_REGISTER_OP(matmul_v2, .proto = &matmul_proto, .infer = infer_matmul, .expand = expand_matmul, .types = TR_FLOAT_TYPES, .grad = &matmul_rule);
TR_REGISTER_OP(matmul_v2_grad, .grad_of = &tr_op_record_matmul_v2);

/* -- hard_swish --------------------------------------------------------------------------------------- */
typedef struct swish_attrs {
    float threshold, scale, offset;
} swish_attrs;

static const tr_op_proto swish_proto = {
    .doc = "Out = X min(max(X + offset, 0), threshold) / scale. (Howard et al., 2019)",
    .in = TR_SLOTS({"X", "any shape, float"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(swish_attrs, TR_ATTR(swish_attrs, threshold, FLOAT, "the largest factor, before the division", .number = 6),
                             TR_ATTR(swish_attrs, scale, FLOAT, "the divisor", .number = 6, .range = TR_GREATER(0)),
                             TR_ATTR(swish_attrs, offset, FLOAT, "added to X", .number = 3)),
};

static tr_status expand_swish(tr_composite *c)
{
    const swish_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "scale(X=X) {bias=%.9g} -> moved", (double)a->offset));
    TR_TRY(tr_composite_add(c, "clip(X=moved) {min=0.0, max=%.9g} -> gate", (double)a->threshold));
    TR_TRY(tr_composite_add(c, "fill_constant() {shape=[1], value=%.9g, dtype=%d} -> divisor", (double)a->scale, tr_composite_dtype(c, "X")));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=gate, Y=divisor) -> share"));
    return tr_composite_add(c, "elementwise_mul(X=X, Y=share) -> Out");
}

static const tr_grad_rule swish_rule = {
    .op = "hard_swish_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)}, .second = tr__second_body,
};
TR_REGISTER_OP(hard_swish, .proto = &swish_proto, .expand = expand_swish, .types = TR_FLOAT_TYPES, .grad = &swish_rule);
TR_REGISTER_OP(hard_swish_grad, .grad_of = &tr_op_record_hard_swish);
