/* spectral_norm.c - a weight divided by its largest singular value:  Out = Weight / (u^T W v + eps). (Miyato et al., 2018)
 *
 * W is Weight as a matrix whose rows are dimension `dim`. u and v begin as U and V and are bettered by power_iters steps of
 * v = W^T u / |W^T u|, u = W v / |W v|. Made of products; the gradient takes u and v as constants, which is exact once they have
 * converged. U and V themselves stay as they are. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"

#include <stdio.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { WEIGHT, U, V };
enum { OUT };

typedef struct attrs {
    int32_t dim, power_iters;
    float   eps;
} attrs;

static const tr_op_proto proto = {
    .doc = "A weight divided by its largest singular value, which is found by power iterations.",
    .in = TR_SLOTS({"Weight", "float, of rank 2 to 5"}, {"U", "[extent of dimension dim]; where the iterations begin"},
                   {"V", "[product of the other extents]; where the iterations begin"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like Weight", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, dim, INT, "the dimension that makes the rows of the matrix: 0, or 1 of transposed convolutions",
                               .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, power_iters, INT, "how many iterations", .number = 1, .range = TR_BETWEEN(0, 100)),
                       TR_ATTR(attrs, eps, FLOAT, "added to lengths, and to the singular value, before they divide", .number = 1e-12, .range = TR_AT_LEAST(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape w = io->in[WEIGHT].shape;

    if (w.rank < 2 || w.rank > 5)
        return tr_fail(TR_ESHAPE, "%s: Weight must have rank 2 to 5, got %s", io->type, TR_SHAPE_STR(w));
    const int64_t rows = w.dim[a->dim], others = tr_shape_product(&w, 0, a->dim), behind = tr_shape_product(&w, a->dim + 1, w.rank);
    TR_TRY(tr__check_shape(io, "U", &io->in[U], &TR_SHAPE(rows)));
    return tr__check_shape(io, "V", &io->in[V], &TR_SHAPE(others < 0 || behind < 0 ? -1 : others * behind));
}

/* -- parts -------------------------------------------------------------------------------------- */

/* The matrix, [rows, columns]. */
static tr_status add_matrix(tr_composite *c, int dim)
{
    int  rank;
    char perm[64], *end = perm;

    if (dim == 0)
        return tr_composite_add(c, "flatten2(X=Weight) {axis=1} -> matrix");
    TR_TRY(tr_composite_known_rank(&rank, c, "Weight"));
    for (int i = 2; i < rank; i++)
        end += sprintf(end, ", %d", i);
    *end = '\0';
    TR_TRY(tr_composite_add(c, "transpose2(X=Weight) {axis=[1, 0%s]} -> turned", perm));
    return tr_composite_add(c, "flatten2(X=turned) {axis=1} -> matrix");
}

/* The row `to` = the row `from` times the matrix, or its transpose, of length 1. */
static tr_status add_step(tr_composite *c, const char *from, const char *to, bool transposed, double eps)
{
    TR_TRY(tr_composite_add(c, "matmul(X=%s, Y=matrix) {transpose_Y=%s} -> %s.long", from, transposed ? "true" : "false", to));
    TR_TRY(tr_composite_add(c, "squared_l2_norm(X=%s.long) -> %s.squares", to, to));
    TR_TRY(tr_composite_add(c, "sqrt(X=%s.squares) -> %s.root", to, to));
    TR_TRY(tr_composite_add(c, "scale(X=%s.root) {bias=%.9g} -> %s.length", to, eps, to));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=%s.long, Y=%s.length) -> %s", to, to, to));
    tr_composite_stop_gradient(c, to);
    return TR_OK;
}

static tr_status expand(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    char         u[24] = "u0", v[24] = "v0", next[24];

    TR_TRY(add_matrix(c, a->dim));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=U) {axes=[0]} -> u0"));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=V) {axes=[0]} -> v0"));
    for (int i = 1; i <= a->power_iters; i++) {
        snprintf(v, sizeof v, "v%d", i);
        TR_TRY(add_step(c, u, v, false, a->eps));
        snprintf(next, sizeof next, "u%d", i);
        TR_TRY(add_step(c, v, next, true, a->eps));
        memcpy(u, next, sizeof u);
    }
    TR_TRY(tr_composite_add(c, "matmul(X=%s, Y=matrix) -> stretched", u));
    TR_TRY(tr_composite_add(c, "matmul(X=stretched, Y=%s) {transpose_Y=true} -> product", v));
    TR_TRY(tr_composite_add(c, "reshape2(X=product) {shape=[1]} -> largest"));
    TR_TRY(tr_composite_add(c, "scale(X=largest) {bias=%.9g} -> sigma", (double)a->eps));
    return tr_composite_add(c, "elementwise_div(X=Weight, Y=sigma) -> Out");
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "spectral_norm_grad",
    .reads = {TR_IN(WEIGHT), TR_IN(U), TR_IN(V), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(WEIGHT)},
    .second = tr__second_body,
};
TR_REGISTER_OP(spectral_norm, .proto = &proto, .infer = infer, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(spectral_norm_grad, .grad_of = &tr_op_record_spectral_norm);
