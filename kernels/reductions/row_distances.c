/* row_distances.c - squared_l2_distance and cos_sim: how far rows of X and Y are from each other.
 *
 *     squared_l2_distance:  Out[i] = sum_j (X[i,j] - Y[i,j])^2
 *     cos_sim:              Out[i] = sum_j X[i,j] Y[i,j] / (|X[i]| |Y[i]|)
 *
 * Y may be one row for all rows of X. Both are made of other operators: passes over memory that a kernel would not make
 * much shorter. A row of zeros has no direction: its cosine is 0, and its gradient that of a row of length 1, so that all is finite. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, Y };
enum { SUB_RESULT, DISTANCE };           /* outputs of squared_l2_distance */
enum { COSINE, X_NORM, Y_NORM };         /* of cos_sim */

static const tr_slot_def in_slots[] = {
    TR_SLOT("X", "[n, m, ...]", " float"), {"Y", "like X, or [1, ...]: one row for all"}, {.name = NULL},
};

static const tr_op_proto distance_proto = {
    .doc = "The squared distances of rows: Out = the sum over each row of (X - Y)^2.",
    .in = in_slots,
    .out = TR_SLOTS({"sub_result", "[n, d]; X - Y", TR_SLOT_INTERMEDIATE}, TR_SLOT("Out", "[n, 1]", "")),
};

static const tr_op_proto cosine_proto = {
    .doc = "The cosines of the angles between rows: Out = X Y / (|X| |Y|), sums over each row. 0 of a row of zeros.",
    .in = in_slots,
    .out = TR_SLOTS(TR_SLOT("Out", "[n, 1]", ""), TR_SLOT("XNorm", "[n, 1]", "; |X|", TR_SLOT_INTERMEDIATE),
                    {"YNorm", "[rows of Y, 1]; |Y|", TR_SLOT_INTERMEDIATE}),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", BOOL, .number = 1)),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status check_rows(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;
    tr_shape       y = io->in[Y].shape;

    if (y.rank > 0 && y.dim[0] == 1)
        y.dim[0] = x.dim[0];
    if (!tr_shape_fits(&x, &y))
        return tr_fail(TR_ESHAPE, "%s: Y must be like X %s, or have one row; got %s", io->type, TR_SHAPE_STR(x),
                       TR_SHAPE_STR(io->in[Y].shape));
    return TR_OK;
}

static tr_status infer_distance(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;

    TR_TRY(check_rows(io));
    io->out[SUB_RESULT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], tr_shape_product(&x, 1, x.rank)));
    return TR_OK;
}

static tr_status infer_cosine(const tr_infer *io)
{
    TR_TRY(check_rows(io));
    io->out[Y_NORM] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(io->in[Y].shape.dim[0], 1));
    return TR_OK;
}

/* -- parts ------------------------------------------------------------------------------------ */
static tr_status expand_distance(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "flatten2(X=X) {axis=1} -> x"));
    TR_TRY(tr_composite_add(c, "flatten2(X=Y) {axis=1} -> y"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=x, Y=y) -> sub_result"));
    TR_TRY(tr_composite_add(c, "square(X=sub_result) -> squares"));
    return tr_composite_add(c, "reduce_sum(X=squares) {dim=[1], keep_dim=true} -> Out");
}

/* The length of each row of the matrix `of`, and in `of`.divisor what to divide by: 1 for a row of zeros. */
static tr_status add_length(tr_composite *c, const char *of, const char *length)
{
    TR_TRY(tr_composite_add(c, "square(X=%s) -> %s.squares", of, of));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=%s.squares) {dim=[1], keep_dim=true} -> %s.sum", of, of));
    TR_TRY(tr_composite_add(c, "fill_zeros_like(X=%s.sum) -> %s.zero", of, of));
    TR_TRY(tr_composite_add(c, "equal(X=%s.sum, Y=%s.zero) -> %s.is_zero", of, of, of));
    TR_TRY(tr_composite_add(c, "cast(X=%s.is_zero) {in_dtype=%d, out_dtype=%d} -> %s.none", of, TR_BOOL, tr_composite_dtype(c, "X"), of));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=%s.sum, Y=%s.none) -> %s.square", of, of, of));
    TR_TRY(tr_composite_add(c, "sqrt(X=%s.square) -> %s.divisor", of, of));
    return tr_composite_add(c, "elementwise_sub(X=%s.divisor, Y=%s.none) -> %s", of, of, length);
}

static tr_status expand_cosine(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "flatten2(X=X) {axis=1} -> x"));
    TR_TRY(tr_composite_add(c, "flatten2(X=Y) {axis=1} -> y"));
    TR_TRY(add_length(c, "x", "XNorm"));
    TR_TRY(add_length(c, "y", "YNorm"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=x, Y=y) -> products"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=products) {dim=[1], keep_dim=true} -> dot"));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=dot, Y=x.divisor) -> projected"));
    return tr_composite_add(c, "elementwise_div(X=projected, Y=y.divisor) -> Out");
}

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule distance_rule = {
    .op = "squared_l2_distance_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_OUT(SUB_RESULT), TR_OUT(DISTANCE), TR_DOUT(DISTANCE)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body,
};
TR_REGISTER_OP(squared_l2_distance, .locality = TR_ROWWISE, .proto = &distance_proto, .infer = infer_distance,
               .expand = expand_distance, .types = TR_FLOAT_TYPES, .grad = &distance_rule);
TR_REGISTER_OP(squared_l2_distance_grad, .grad_of = &tr_op_record_squared_l2_distance);

static const tr_grad_rule cosine_rule = {
    .op = "cos_sim_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_OUT(COSINE), TR_OUT(X_NORM), TR_OUT(Y_NORM), TR_DOUT(COSINE)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body,
};
TR_REGISTER_OP(cos_sim, .locality = TR_ROWWISE, .proto = &cosine_proto, .infer = infer_cosine, .expand = expand_cosine,
               .types = TR_FLOAT_TYPES, .grad = &cosine_rule);
TR_REGISTER_OP(cos_sim_grad, .grad_of = &tr_op_record_cos_sim);
