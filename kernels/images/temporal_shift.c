/* temporal_shift.c - some channels of each frame of a video come from the frame before it, others from the one after it.
 * (Lin et al., TSM, 2018)
 *
 * X is [videos * seg_num, channels, height, width]. The first shift_ratio of the channels are those of the frame before, the next
 * shift_ratio those of the frame behind; there are zeros where a video has no such frame. Backward moves them back. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X };
enum { OUT };
enum { G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t seg_num;
    float   shift_ratio;
} attrs;

static const tr_op_proto proto = {
    .doc = "Takes a share of the channels from the frame before, another one from the frame behind; zeros at the ends.",
    .in = TR_SLOTS(TR_SLOT("X", "[frames, channels, height, width]", ", seg_num frames of each video")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, seg_num, INT, "frames of a video", .required = true, .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, shift_ratio, FLOAT, "the share of the channels that comes from either side", .number = 0.25,
                               .range = TR_BETWEEN(0, 0.5))),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    if (x.dim[0] >= 0 && x.dim[0] % a->seg_num != 0)
        return tr_fail(TR_ESHAPE, "%s: X %s has %lld frames, which are no videos of %d", io->type, TR_SHAPE_STR(x),
                       (long long)x.dim[0], a->seg_num);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* Channels [first, last) of each frame are those of the frame `step` away, or zeros. */
static void shift(tr_tensor *out, const tr_tensor *x, int64_t frames, int64_t first, int64_t last, int step)
{
    const int64_t channels = x->shape.dim[1], plane = x->shape.dim[2] * x->shape.dim[3] * tr_dtype_size(x->dtype);
    const size_t  bytes = (size_t)((last - first) * plane);

    for (int64_t n = 0; n < x->shape.dim[0]; n++) {
        const int64_t from = n % frames + step;
        char         *to = (char *)out->data + (n * channels + first) * plane;
        if (from < 0 || from >= frames)
            memset(to, 0, bytes);
        else
            memcpy(to, (const char *)x->data + ((n + step) * channels + first) * plane, bytes);
    }
}

static void shift_all(tr_tensor *out, const tr_tensor *x, const attrs *a, int step)
{
    const int64_t channels = x->shape.dim[1];
    const int64_t before = (int64_t)((double)channels * a->shift_ratio), behind = (int64_t)((double)channels * 2 * a->shift_ratio);

    shift(out, x, a->seg_num, 0, before, -step);
    shift(out, x, a->seg_num, before, behind, step);
    shift(out, x, a->seg_num, behind, channels, 0);
}

static tr_status run(const tr_run *io)
{
    shift_all(io->out[OUT], io->in[X], io->attrs, 1);
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    shift_all(io->out[G_DX], io->in[G_DOUT], io->attrs, -1);
    return TR_OK;
}

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "temporal_shift_grad", .reads = {TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(temporal_shift, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(temporal_shift_grad, .grad_of = &tr_op_record_temporal_shift, .run = run_grad);
