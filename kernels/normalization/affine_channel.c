/* affine_channel.c - each channel of an image times a number, plus a number:  Out = Scale X + Bias.
 *
 * Made of elementwise_mul and elementwise_add. It stands for a batch normalization whose statistics do not change. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, SCALE, BIAS };
enum { OUT };

typedef struct attrs {
    enum { CHANNELS_SECOND, CHANNELS_LAST } data_layout;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = Scale X + Bias, a pair of numbers for each channel.",
    .in = TR_SLOTS({"X", "[batch, channels, height, width] float, or with channels last; or [batch, channels]"},
                   {"Scale", "[channels]"}, {"Bias", "[channels]"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, data_layout, STRING, "where the channels are; AnyLayout is NCHW", .text = "AnyLayout",
                               .range = TR_ONE_OF({"NCHW", CHANNELS_SECOND}, {"AnyLayout", CHANNELS_SECOND},
                                                  {"NHWC", CHANNELS_LAST}))),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    if (x.rank != 4 && x.rank != 2)
        return tr_fail(TR_ESHAPE, "%s: X must have rank 4 or 2, got %s", io->type, TR_SHAPE_STR(x));
    const int64_t channels = x.dim[a->data_layout == CHANNELS_LAST ? x.rank - 1 : 1];
    TR_TRY(tr__check_shape(io, "Scale", &io->in[SCALE], &TR_SHAPE(channels)));
    return tr__check_shape(io, "Bias", &io->in[BIAS], &TR_SHAPE(channels));
}

/* -- parts ------------------------------------------------------------------------------------ */
static tr_status expand(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    const int    axis = a->data_layout == CHANNELS_LAST ? -1 : 1;

    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=Scale) {axis=%d} -> scaled", axis));
    return tr_composite_add(c, "elementwise_add(X=scaled, Y=Bias) {axis=%d} -> Out", axis);
}

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "affine_channel_grad",
    .reads = {TR_IN(X), TR_IN(SCALE), TR_IN(BIAS), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(SCALE), TR_DIN(BIAS)},
    .second = tr__second_body,
};
TR_REGISTER_OP(affine_channel, .proto = &proto, .infer = infer, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(affine_channel_grad, .grad_of = &tr_op_record_affine_channel);
