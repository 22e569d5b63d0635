/* batch_norm.c - normalise each channel over the batch, then scale and shift it: batch_norm and sync_batch_norm.
 *
 * Training: mean and variance of the batch, which also move the running Mean and Variance (MeanOut and VarianceOut are
 * the same variables). With is_test or use_global_stats the running ones are used and stay. SavedMean and
 * SavedVariance are what Y was made with (the latter as 1 / sqrt(variance + epsilon), as in Fluid): they are all that
 * backward needs beside X and Scale.
 *
 * A batch without elements has no statistics. It leaves the running ones as they are, and they are the ones that were used; so the gradients of
 * Scale and Bias are 0.
 *
 * sync_batch_norm is batch_norm whose batch is that of all replicas which run the program at the same time (reduction.h). Each replica offers
 * its number of elements and its statistics, in the gradient its two sums, and puts all of them together in the order of the replicas.
 * A program that runs alone computes the bits of batch_norm. */
#ifndef T

#include <string.h>

#include "framework/composites/grad_body.h"
#include "framework/runs/reduction.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/norm.h"
#include "kernels/normalization/batch_norm_slope.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, SCALE, BIAS, MEAN, VARIANCE };
enum { Y, MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_INV_STD };
enum { G_X, G_SCALE, G_BIAS, G_SAVED_MEAN, G_SAVED_INV_STD, G_DY };
enum { G_DX, G_DSCALE, G_DBIAS };

typedef tr_batch_norm_attrs attrs;

/* Both operators have these. */
static const tr_slot_def in_slots[] = {
    TR_SLOT("X", "[batch, channels, ...]", " float, or [batch, ..., channels] with data_layout NHWC"),
    {"Scale", "[channels]", TR_SLOT_WIDE},
    {"Bias", "[channels]", TR_SLOT_WIDE},
    {"Mean", "[channels]; the running mean", TR_SLOT_WIDE},
    {"Variance", "[channels]; the running variance", TR_SLOT_WIDE},
    {NULL},
};
static const tr_slot_def out_slots[] = {
    TR_SLOT("Y", "like X", "; may share X's memory"),
    {"MeanOut", "the same variable as Mean", TR_SLOT_WIDE},
    {"VarianceOut", "the same variable as Variance", TR_SLOT_WIDE},
    {"SavedMean", "[channels]; the mean that was used", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
    {"SavedVariance", "[channels]; 1 / sqrt(variance + epsilon) that was used", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
    {NULL},
};
static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, is_test, BOOL, "use the running statistics and leave them"),
    TR_ATTR(attrs, momentum, FLOAT, "the running statistics' share in their next value", .number = 0.9, .range = TR_BETWEEN(0, 1)),
    TR_ATTR(attrs, epsilon, FLOAT, "added to the variance", .number = 1e-5, .range = TR_BETWEEN(0, 0.001)),
    TR_ATTR(attrs, data_layout, STRING, "where the channels are", .text = "NCHW",
            .range = TR_ONE_OF({"NCHW", TR_CHANNELS_SECOND}, {"NHWC", TR_CHANNELS_LAST}, {"AnyLayout", TR_CHANNELS_SECOND})),
    TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_ONLY("fuse_with_relu", BOOL, "add the operator relu after it"),
    TR_ATTR(attrs, use_global_stats, BOOL, "use the running statistics also in training"),
    {NULL},
};
#define FORMULA "Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each channel"
static const tr_op_proto batch_norm_proto = {
    .doc = FORMULA ".",
    .in = in_slots, .out = out_slots, .attr = attr_defs, .attrs_size = sizeof(attrs),
};
static const tr_op_proto sync_batch_norm_proto = {
    .doc = FORMULA ". Mean and variance are those of the samples of all replicas of a program (ParallelExecutor, "
           "with_data_parallel); a program that runs alone computes what batch_norm does.",
    .in = in_slots, .out = out_slots, .attr = attr_defs, .attrs_size = sizeof(attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    static const char *const names[] = {"X", "Scale", "Bias", "Mean", "Variance"};
    const tr_meta           *x = &io->in[X];

    const tr_shape channels = TR_SHAPE(x->shape.dim[tr__batch_norm_axis(io->attrs, x->shape.rank)]);
    for (int slot = SCALE; slot <= VARIANCE; slot++)
        TR_TRY(tr__check_shape(io, names[slot], &io->in[slot], &channels));
    for (int slot = MEAN_OUT; slot <= SAVED_INV_STD; slot++)
        io->out[slot] = tr_meta_dense(io->in[slot == MEAN_OUT ? MEAN : slot == VARIANCE_OUT ? VARIANCE : SCALE].dtype, io->in[SCALE].shape);
    return TR_OK;
}

/* Mean and Variance, which the gradient does not read, would be needed to infer the forward operator. */
static tr_status infer_grad(const tr_infer *io)
{
    static const char *const names[] = {[G_SCALE] = "Scale", "Bias", "SavedMean", "SavedVariance"};
    const tr_meta           *x = &io->in[G_X];

    TR_TRY(tr__check_min_rank(io, "X", x, 2));
    TR_TRY(tr__check_like(io, "Y@GRAD", &io->in[G_DY], x));
    const tr_meta channels = tr_meta_dense(io->in[G_SCALE].dtype, TR_SHAPE(x->shape.dim[tr__batch_norm_axis(io->attrs, x->shape.rank)]));
    for (int slot = G_SCALE; slot <= G_SAVED_INV_STD; slot++)
        TR_TRY(tr__check_like(io, names[slot], &io->in[slot], &channels));
    return TR_OK;
}

/* x as [pre][n][post], n being the channels. */
static tr_cut cut_of(const attrs *a, const tr_tensor *x)
{
    return tr__cut_at(&x->shape, tr__batch_norm_axis(a, x->shape.rank));
}

static double total_count(const double *const *offers, int replicas)
{
    double total = 0;
    for (int r = 0; r < replicas; r++)
        total += offers[r][0];
    return total;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* SECOND is that of gradients of gradients. sync_batch_norm has none: its statistics are those of several programs. */
#define BATCH_NORM(name, SECOND, ...)                                                                                     \
    static const tr_grad_rule name##_rule = {                                                                             \
        .op = #name "_grad",                                                                                              \
        .reads = {TR_IN(X), TR_IN(SCALE), TR_IN_SHAPE(BIAS), TR_OUT(SAVED_MEAN), TR_OUT(SAVED_INV_STD), TR_DOUT(Y)},      \
        .makes = {TR_DIN(X), TR_DIN(SCALE), TR_DIN(BIAS)},                                                                \
        .second = SECOND, .body = tr__batch_norm_slope, .rest = tr__batch_norm_end,                                                            \
    };                                                                                                                    \
    TR_REGISTER_OP(name, .proto = &name##_proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(name), .grad = &name##_rule, \
                   .inplace = {{X, Y}, {MEAN, MEAN_OUT}, {VARIANCE, VARIANCE_OUT}}, .inplace_count = 3, __VA_ARGS__);     \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .infer = infer_grad,                                     \
                   .kernels = TR_FLOAT_KERNELS(name##_grad), .inplace = {{G_DY, G_DX}}, .inplace_count = 1, __VA_ARGS__)

BATCH_NORM(batch_norm, tr__second_body, .reduces = false);
BATCH_NORM(sync_batch_norm, NULL, .reduces = true);

#else /* the kernels, for each T */

/* Scratch for statistics whose output is absent: `slot`'s memory, or the next `channels` of *spare. */
static T *NAME(output_or)(const tr_run *io, int slot, T **spare, int64_t channels)
{
    if (io->out[slot])
        return io->out[slot]->data;
    *spare += channels;
    return *spare - channels;
}

/* Offer {elements, first[channels], second[channels]}; *all has that of each replica. */
static tr_status NAME(put_together)(const double *const **all, const tr_run *io, const T *first, const T *second, const tr_cut *c)
{
    double *mine;

    TR_TRY(tr_run_offer((void **)&mine, io, (size_t)(1 + 2 * c->n) * sizeof *mine));
    mine[0] = (double)(c->pre * c->post);
    for (int64_t i = 0; i < c->n; i++) {
        mine[1 + i] = (double)first[i];
        mine[1 + c->n + i] = (double)second[i];
    }
    return tr_run_gather((const void *const **)all, io);
}

/* out = momentum * running + (1 - momentum) * now */
static void NAME(move_running)(T *out, const T *running, const T *now, T momentum, int64_t channels)
{
    NAME(tr_scale)(out, running, momentum, 0, channels);
    NAME(tr_axpy)(out, 1 - momentum, now, channels);
}

static void NAME(keep_running)(T *out, const T *running, int64_t channels)
{
    if (out != running)
        memcpy(out, running, (size_t)channels * sizeof *out);
}

/* mean and variance of this replica's elements become those of all replicas' elements; *count of how many. */
static tr_status NAME(put_stats_together)(const tr_run *io, double *count, T *mean, T *variance, const tr_cut *c)
{
    const double *const *all;

    TR_TRY(NAME(put_together)(&all, io, mean, variance, c));
    const double total = *count = total_count(all, tr_run_replicas(io));
    for (int64_t i = 0; i < c->n; i++) {
        double m = 0, v = 0;
        for (int r = 0; r < tr_run_replicas(io); r++)
            if (all[r][0] > 0)
                m += all[r][1 + i] * (all[r][0] / total);
        for (int r = 0; r < tr_run_replicas(io); r++) {
            const double apart = all[r][1 + i] - m;
            if (all[r][0] > 0)
                v += (all[r][1 + c->n + i] + apart * apart) * (all[r][0] / total);
        }
        mean[i] = (T)m;
        variance[i] = (T)v;
    }
    return TR_OK;
}

/* The running statistics are used, and stay. */
static void NAME(use_running)(const tr_run *io, T *saved_mean, T *saved_inv_std, int64_t channels)
{
    const attrs *a = io->attrs;
    const T     *mean = io->in[MEAN]->data, *variance = io->in[VARIANCE]->data;

    memcpy(saved_mean, mean, (size_t)channels * sizeof(T));
    NAME(tr_inv_std)(saved_inv_std, variance, a->epsilon, channels);
    NAME(keep_running)(io->out[MEAN_OUT]->data, mean, channels);
    NAME(keep_running)(io->out[VARIANCE_OUT]->data, variance, channels);
}

/* Those of the batch are used, and move the running ones. */
static tr_status NAME(use_batch)(const tr_run *io, bool together, T *saved_mean, T *saved_inv_std, const tr_cut *c)
{
    const attrs *a = io->attrs;
    double       count = (double)(c->pre * c->post);

    NAME(tr_channel_stats)(saved_mean, saved_inv_std, io->in[X]->data, c->pre, c->n, c->post);
    if (together)
        TR_TRY(NAME(put_stats_together)(io, &count, saved_mean, saved_inv_std, c));
    if (count == 0) {
        NAME(use_running)(io, saved_mean, saved_inv_std, c->n);
        return TR_OK;
    }
    NAME(move_running)(io->out[MEAN_OUT]->data, io->in[MEAN]->data, saved_mean, a->momentum, c->n);
    NAME(move_running)(io->out[VARIANCE_OUT]->data, io->in[VARIANCE]->data, saved_inv_std, a->momentum, c->n);
    NAME(tr_inv_std)(saved_inv_std, saved_inv_std, a->epsilon, c->n);
    return TR_OK;
}

static tr_status NAME(norm)(const tr_run *io, bool together)
{
    const tr_cut c = cut_of(io->attrs, io->in[X]);
    T           *spare;

    TR_TRY(tr_run_scratch((void **)&spare, io, 2 * (size_t)c.n * sizeof(T)));
    T *saved_mean = NAME(output_or)(io, SAVED_MEAN, &spare, c.n);
    T *saved_inv_std = NAME(output_or)(io, SAVED_INV_STD, &spare, c.n);
    if (tr__batch_norm_is_given(io->attrs))
        NAME(use_running)(io, saved_mean, saved_inv_std, c.n);
    else
        TR_TRY(NAME(use_batch)(io, together, saved_mean, saved_inv_std, &c));
    NAME(tr_batch_norm)(io->out[Y]->data, io->in[X]->data, saved_mean, saved_inv_std, io->in[SCALE]->data, io->in[BIAS]->data, c.pre, c.n,
                        c.post);
    return TR_OK;
}

static tr_status NAME(batch_norm)(const tr_run *io)
{
    return NAME(norm)(io, false);
}

static tr_status NAME(sync_batch_norm)(const tr_run *io)
{
    return NAME(norm)(io, tr_run_replicas(io) > 1);
}

static tr_status NAME(batch_norm_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const tr_cut  c = cut_of(a, io->in[G_X]);
    const T      *x = io->in[G_X]->data, *scale = io->in[G_SCALE]->data, *dy = io->in[G_DY]->data;
    const T      *mean = io->in[G_SAVED_MEAN]->data, *inv_std = io->in[G_SAVED_INV_STD]->data;
    T            *dx = io->out[G_DX] ? io->out[G_DX]->data : NULL;
    T            *dscale = io->out[G_DSCALE] ? io->out[G_DSCALE]->data : NULL;
    T            *dbias = io->out[G_DBIAS] ? io->out[G_DBIAS]->data : NULL;

    if (tr__batch_norm_is_given(a))
        NAME(tr_batch_norm_global_grad)(dx, dscale, dbias, dy, x, mean, inv_std, scale, c.pre, c.n, c.post);
    else
        NAME(tr_batch_norm_grad)(dx, dscale, dbias, dy, x, mean, inv_std, scale, c.pre, c.n, c.post);
    return TR_OK;
}

/* dScale and dBias are this replica's alone: those of all replicas are summed, as every gradient is. */
static tr_status NAME(grad_together)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const tr_cut  c = cut_of(a, io->in[G_X]);
    const T      *x = io->in[G_X]->data, *scale = io->in[G_SCALE]->data, *dy = io->in[G_DY]->data;
    const T      *mean = io->in[G_SAVED_MEAN]->data, *inv_std = io->in[G_SAVED_INV_STD]->data;
    const int     replicas = tr_run_replicas(io);
    const double *const *all;
    T            *sum;

    TR_TRY(tr_run_scratch((void **)&sum, io, 2 * (size_t)c.n * sizeof(T)));
    T *product = sum + c.n;
    NAME(tr_channel_products)(sum, product, dy, x, mean, c.pre, c.n, c.post);
    for (int64_t i = 0; i < c.n; i++) {
        if (io->out[G_DSCALE])
            ((T *)io->out[G_DSCALE]->data)[i] = product[i] * inv_std[i];
        if (io->out[G_DBIAS])
            ((T *)io->out[G_DBIAS]->data)[i] = sum[i];
    }
    TR_TRY(NAME(put_together)(&all, io, sum, product, &c));
    for (int64_t i = 0; i < c.n; i++) {
        double s = 0, p = 0;
        for (int r = 0; r < replicas; r++) {
            s += all[r][1 + i];
            p += all[r][1 + c.n + i];
        }
        sum[i] = (T)s;
        product[i] = (T)p;
    }
    if (io->out[G_DX])
        NAME(tr_batch_norm_grad_of_sums)(io->out[G_DX]->data, dy, x, mean, inv_std, scale, sum, product, total_count(all, replicas),
                                         c.pre, c.n, c.post);
    return TR_OK;
}

static tr_status NAME(sync_batch_norm_grad)(const tr_run *io)
{
    return tr_run_replicas(io) > 1 && !tr__batch_norm_is_given(io->attrs) ? NAME(grad_together)(io) : NAME(batch_norm_grad)(io);
}

#endif
