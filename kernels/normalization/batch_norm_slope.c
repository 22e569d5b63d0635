/* batch_norm_slope.c - see batch_norm_slope.h. */
#include "kernels/normalization/batch_norm_slope.h"

#include "kernels/base/body_lines.h"

int tr__batch_norm_axis(const tr_batch_norm_attrs *a, int rank)
{
    return a->data_layout == TR_CHANNELS_LAST ? rank - 1 : 1;
}

bool tr__batch_norm_is_given(const tr_batch_norm_attrs *a)
{
    return a->is_test || a->use_global_stats;
}

/* The dimensions that a channel's statistics are over. */
static const char *other_dims(tr_composite *c, int rank, int axis)
{
    const char *dims = "";

    for (int i = 0; i < rank; i++)
        if (i != axis)
            dims = tr_composite_text(c, "%s%s%d", dims, *dims ? ", " : "", i);
    return dims;
}

/* variance = the mean of the squares. Without elements it is 0, and the gradients of what follows from it are 0. */
static tr_status add_variance(tr_composite *c, const char *dims)
{
    TR_TRY(tr__add_ones(c, "centred", "ones"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=ones) {dim=[%s]} -> elements", dims));
    TR_TRY(tr_composite_add(c, "clip(X=elements) {min=1.0, max=3e38} -> count"));
    TR_TRY(tr_composite_add(c, "square(X=centred) -> squares"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=squares) {dim=[%s]} -> total", dims));
    return tr_composite_add(c, "elementwise_div(X=total, Y=count) -> variance");
}

/* normal = (X - mean) share, with share = 1 / sqrt(variance + epsilon). The statistics that are given are constants. */
static tr_status add_normal(tr_composite *c, const tr_batch_norm_attrs *a, const char *dims, int axis)
{
    const bool given = tr__batch_norm_is_given(a);

    tr_composite_stop_gradient(c, "SavedMean");
    tr_composite_stop_gradient(c, "SavedVariance");
    TR_TRY(tr__add_wide(c, "X", "x"));
    TR_TRY(tr__add_wide(c, "Scale", "scale"));
    if (given) {
        TR_TRY(tr__add_wide(c, "SavedMean", "mean"));
        TR_TRY(tr__add_wide(c, "SavedVariance", "share"));
    } else {
        TR_TRY(tr_composite_add(c, "reduce_mean(X=x) {dim=[%s]} -> mean", dims));
    }
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=x, Y=mean) {axis=%d} -> centred", axis));
    if (!given) {
        TR_TRY(add_variance(c, dims));
        TR_TRY(tr_composite_add(c, "scale(X=variance) {bias=%.9g} -> padded", (double)a->epsilon));
        TR_TRY(tr_composite_add(c, "rsqrt(X=padded) -> share"));
    }
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=centred, Y=share) {axis=%d} -> normal", axis));
    return tr_composite_add(c, "elementwise_mul(X=scale, Y=share) -> steep");
}

/* With d = Y@GRAD: X@GRAD = Scale share (d - mean of d - normal (mean of d normal)), without the means where statistics are given;
 * Scale@GRAD = sum of d normal, Bias@GRAD = sum of d. */
tr_status tr__batch_norm_slope(tr_composite *c)
{
    const tr_batch_norm_attrs *a = tr_composite_attrs(c);
    int          rank;

    TR_TRY(tr_composite_known_rank(&rank, c, "X"));
    const int   axis = tr__batch_norm_axis(a, rank);
    const char *dims = other_dims(c, rank, axis), *rest = "dy";
    TR_TRY(add_normal(c, a, dims, axis));
    TR_TRY(tr__add_wide(c, "Y@GRAD", "dy"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=dy, Y=normal) -> along"));
    if (!tr__batch_norm_is_given(a)) {
        TR_TRY(tr_composite_add(c, "reduce_mean(X=dy) {dim=[%s]} -> level", dims));
        TR_TRY(tr_composite_add(c, "reduce_mean(X=along) {dim=[%s]} -> pull", dims));
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=normal, Y=pull) {axis=%d} -> drawn", axis));
        TR_TRY(tr_composite_add(c, "elementwise_sub(X=dy, Y=level) {axis=%d} -> shifted", axis));
        TR_TRY(tr_composite_add(c, "elementwise_sub(X=shifted, Y=drawn) -> rest"));
        rest = "rest";
    }
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=%s, Y=steep) {axis=%d} -> dx", rest, axis));
    TR_TRY(tr__add_narrow(c, "dx", "X", "X@GRAD"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=along) {dim=[%s]} -> dscale", dims));
    TR_TRY(tr__add_narrow(c, "dscale", "Scale", "Scale@GRAD"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=dy) {dim=[%s]} -> dbias", dims));
    return tr__add_narrow(c, "dbias", "Bias", "Bias@GRAD");
}

/* A gradient of a gradient with respect to given statistics ends there. Those of the batch are not read by it. */
tr_status tr__batch_norm_end(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);

    if (tr_op_desc_attr_int(op, "is_test", 0) || tr_op_desc_attr_int(op, "use_global_stats", 0))
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED, "%s: no gradient flows through the statistics of a batch that it writes, on which the target depends; set "
                   "stop_gradient of them to take them for constants", op->type);
}
