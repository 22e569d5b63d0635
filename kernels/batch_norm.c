/* batch_norm.c - normalise each channel over the batch, then scale and shift it: batch_norm and sync_batch_norm.
 *
 * Training: mean and variance of the batch, which also move the running Mean and Variance (MeanOut and VarianceOut are
 * the same variables). With is_test or use_global_stats the running ones are used and stay. SavedMean and
 * SavedVariance are what Y was made with (the latter as 1 / sqrt(variance + epsilon), as in Fluid): they are all that
 * backward needs beside X and Scale.
 *
 * In Fluid sync_batch_norm adds up the statistics of all GPUs of a process. Here a process has one batch, so it is batch_norm. */
#ifndef T

#include <string.h>

#include "kernels/check.h"
#include "kernels/cut.h"
#include "kernels/math/elementwise.h"
#include "kernels/math/norm.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, SCALE, BIAS, MEAN, VARIANCE };
enum { Y, MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_INV_STD };
enum { G_X, G_SCALE, G_BIAS, G_SAVED_MEAN, G_SAVED_INV_STD, G_DY };
enum { G_DX, G_DSCALE, G_DBIAS };

typedef struct attrs {
    bool  is_test, use_global_stats;
    float momentum, epsilon;
    enum { CHANNELS_SECOND, CHANNELS_LAST } data_layout;
} attrs;

static const tr_op_proto proto = {
    .doc = "Y = (X - mean) / sqrt(variance + epsilon) * Scale + Bias for each channel.",
    .in = TR_SLOTS({"X", "[batch, channels, ...] float, or [batch, ..., channels] with data_layout NHWC"},
                   {"Scale", "[channels]", TR_SLOT_WIDE}, {"Bias", "[channels]", TR_SLOT_WIDE},
                   {"Mean", "[channels]; the running mean", TR_SLOT_WIDE},
                   {"Variance", "[channels]; the running variance", TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Y", "like X; may share X's memory"}, {"MeanOut", "the same variable as Mean", TR_SLOT_WIDE},
                    {"VarianceOut", "the same variable as Variance", TR_SLOT_WIDE},
                    {"SavedMean", "[channels]; the mean that was used", TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"SavedVariance", "[channels]; 1 / sqrt(variance + epsilon) that was used",
                     TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE}),
    .attr = TR_ATTRS(TR_ATTR(attrs, is_test, BOOL, "use the running statistics and leave them"),
                     TR_ATTR(attrs, momentum, FLOAT, "the running statistics' share in their next value", .number = 0.9,
                             .range = TR_BETWEEN(0, 1)),
                     TR_ATTR(attrs, epsilon, FLOAT, "added to the variance", .number = 1e-5,
                             .range = TR_BETWEEN(0, 0.001)),
                     TR_ATTR(attrs, data_layout, STRING, "where the channels are", .text = "NCHW",
                             .range = TR_ONE_OF({"NCHW", CHANNELS_SECOND}, {"NHWC", CHANNELS_LAST}, {"AnyLayout", CHANNELS_SECOND})),
                     TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_ONLY("fuse_with_relu", BOOL, "add the operator relu behind it"),
                     TR_ATTR(attrs, use_global_stats, BOOL, "use the running statistics also in training")),
    .attrs_size = sizeof(attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static int channel_axis(const attrs *a, int rank)
{
    return a->data_layout == CHANNELS_LAST ? rank - 1 : 1;
}

static bool is_global(const attrs *a)
{
    return a->is_test || a->use_global_stats;
}

static tr_status infer(const tr_infer *io)
{
    static const char *const names[] = {"X", "Scale", "Bias", "Mean", "Variance"};
    const tr_meta           *x = &io->in[X];

    TR_TRY(tr__check_min_rank(io, "X", x, 2));
    const tr_shape channels = TR_SHAPE(x->shape.dim[channel_axis(io->attrs, x->shape.rank)]);
    for (int slot = SCALE; slot <= VARIANCE; slot++) {
        TR_TRY(tr__check_beside(io, names[slot], &io->in[slot], x->dtype));
        TR_TRY(tr__check_shape(io, names[slot], &io->in[slot], &channels));
    }
    io->out[Y] = *x;
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
    const tr_meta channels = tr_meta_dense(io->in[G_SCALE].dtype, TR_SHAPE(x->shape.dim[channel_axis(io->attrs, x->shape.rank)]));
    TR_TRY(tr__check_beside(io, names[G_SCALE], &io->in[G_SCALE], x->dtype));
    for (int slot = G_SCALE; slot <= G_SAVED_INV_STD; slot++)
        TR_TRY(tr__check_like(io, names[slot], &io->in[slot], &channels));
    io->out[G_DX] = *x;
    io->out[G_DSCALE] = io->in[G_SCALE];
    io->out[G_DBIAS] = io->in[G_BIAS];
    return TR_OK;
}

/* x as [pre][n][post], n being the channels. */
static tr_cut cut_of(const attrs *a, const tr_tensor *x)
{
    return tr__cut_at(&x->shape, channel_axis(a, x->shape.rank));
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/batch_norm.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
#define BATCH_NORM(name)                                                                                                  \
    static const tr_grad_rule name##_rule = {                                                                             \
        .op = #name "_grad",                                                                                              \
        .reads = {TR_IN(X), TR_IN(SCALE), TR_IN_SHAPE(BIAS), TR_OUT(SAVED_MEAN), TR_OUT(SAVED_INV_STD), TR_DOUT(Y)},      \
        .makes = {TR_DIN(X), TR_DIN(SCALE), TR_DIN(BIAS)},                                                                \
    };                                                                                                                    \
    TR_REGISTER_OP(name, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(batch_norm), .grad = &name##_rule,  \
                   .inplace = {{X, Y}, {MEAN, MEAN_OUT}, {VARIANCE, VARIANCE_OUT}}, .inplace_count = 3);                  \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .infer = infer_grad,                                     \
                   .kernels = TR_FLOAT_KERNELS(batch_norm_grad), .inplace = {{G_DY, G_DX}}, .inplace_count = 1)

BATCH_NORM(batch_norm);
BATCH_NORM(sync_batch_norm);

#else /* the kernels, for each T */

/* Scratch for statistics whose output is absent: `slot`'s memory, or the next `channels` of *spare. */
static T *NAME(output_or)(const tr_run *io, int slot, T **spare, int64_t channels)
{
    if (io->out[slot])
        return io->out[slot]->data;
    *spare += channels;
    return *spare - channels;
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

static tr_status NAME(batch_norm)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const tr_cut  c = cut_of(a, io->in[X]);
    const T      *x = io->in[X]->data, *mean = io->in[MEAN]->data, *variance = io->in[VARIANCE]->data;
    T            *mean_out = io->out[MEAN_OUT]->data, *variance_out = io->out[VARIANCE_OUT]->data, *spare;

    TR_TRY(tr_run_scratch((void **)&spare, io, 2 * (size_t)c.n * sizeof(T)));
    T *saved_mean = NAME(output_or)(io, SAVED_MEAN, &spare, c.n);
    T *saved_inv_std = NAME(output_or)(io, SAVED_INV_STD, &spare, c.n);
    if (is_global(a)) {
        memcpy(saved_mean, mean, (size_t)c.n * sizeof(T));
        NAME(tr_inv_std)(saved_inv_std, variance, a->epsilon, c.n);
        NAME(keep_running)(mean_out, mean, c.n);
        NAME(keep_running)(variance_out, variance, c.n);
    } else {
        NAME(tr_channel_stats)(saved_mean, saved_inv_std, x, c.pre, c.n, c.post);
        NAME(move_running)(mean_out, mean, saved_mean, a->momentum, c.n);
        NAME(move_running)(variance_out, variance, saved_inv_std, a->momentum, c.n);
        NAME(tr_inv_std)(saved_inv_std, saved_inv_std, a->epsilon, c.n);
    }
    NAME(tr_batch_norm)(io->out[Y]->data, x, saved_mean, saved_inv_std, io->in[SCALE]->data, io->in[BIAS]->data, c.pre,
                        c.n, c.post);
    return TR_OK;
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

    if (is_global(a))
        NAME(tr_batch_norm_global_grad)(dx, dscale, dbias, dy, x, mean, inv_std, scale, c.pre, c.n, c.post);
    else
        NAME(tr_batch_norm_grad)(dx, dscale, dbias, dy, x, mean, inv_std, scale, c.pre, c.n, c.post);
    return TR_OK;
}

#endif
