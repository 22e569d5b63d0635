/* rank_loss.c - losses of two scores, of which one should be the higher: rank_loss and margin_rank_loss.
 *
 * rank_loss is from Burges et al., Learning to rank using gradient descent (2005). Backward of margin_rank_loss reads Activated, not the scores. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { LABEL, LEFT, RIGHT };
enum { OUT };
enum { G_LABEL, G_LEFT, G_RIGHT, G_DOUT };
enum { G_DLEFT, G_DRIGHT };

static const tr_op_proto rank_proto = {
    .doc = "With o = Left - Right: Out = log(1 + exp(o)) - Label o, the cross entropy of sigmoid(o) and Label.",
    .in = TR_SLOTS(TR_SLOT("Label", "like Left", "; 1: Left should be the higher, 0: Right, 0.5: neither"),
                   {"Left", "[n, 1] float; a score"},
                   TR_SLOT("Right", "like Left", "; another one")),
    .out = TR_SLOTS(TR_SLOT("Out", "like Left", "; the loss")),
};

enum { X1, X2, SIGN };
enum { ACTIVATED, MARGIN_OUT };
enum { M_SIGN, M_ACTIVATED, M_DOUT };
enum { M_DX1, M_DX2 };

typedef struct margin_attrs {
    float margin;
} margin_attrs;

static const tr_op_proto margin_proto = {
    .doc = "Out = max(margin - Label (X1 - X2), 0).",
    .in = TR_SLOTS({"X1", "[n, 1] float; a score"}, TR_SLOT("X2", "like X1", "; another one"),
                   TR_SLOT("Label", "like X1", "; 1: X1 should be the higher, -1: X2")),
    .out = TR_SLOTS(TR_SLOT("Activated", "like X1", "; 1 where Out is above 0, else 0", TR_SLOT_INTERMEDIATE),
                    TR_SLOT("Out", "like X1", "; the loss")),
    TR_ATTRS_OF(margin_attrs, TR_ATTR(margin_attrs, margin, FLOAT, "by how much the one should be the higher")),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradients and registration ------------------------------------------------------------------- */
static tr_status rank_parts(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=Left, Y=Right) -> o"));
    TR_TRY(tr_composite_add(c, "softplus(X=o) -> bent"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=o, Y=Label) -> weighted"));
    return tr_composite_add(c, "elementwise_sub(X=bent, Y=weighted) -> Out");
}

static const tr_grad_rule rank_grad = {
    .op = "rank_loss_grad", .reads = {TR_IN(LABEL), TR_IN(LEFT), TR_IN(RIGHT), TR_DOUT(OUT)}, .makes = {TR_DIN(LEFT), TR_DIN(RIGHT)},
    .second = tr__second_body, .parts = rank_parts,
};
/* X2@GRAD = Out@GRAD Label Activated, X1@GRAD the same turned; where a pair is activated is constant almost everywhere. */
static tr_status margin_slope(tr_composite *c)
{
    tr_composite_stop_gradient(c, "Activated");
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Label, Y=Activated) -> signed"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=signed, Y=Out@GRAD) -> pulled"));
    TR_TRY(tr_composite_add(c, "assign(X=pulled) -> X2@GRAD"));
    return tr_composite_add(c, "scale(X=pulled) {scale=-1.0} -> X1@GRAD");
}

static const tr_grad_rule margin_grad = {
    .op = "margin_rank_loss_grad", .reads = {TR_IN(SIGN), TR_OUT(ACTIVATED), TR_DOUT(MARGIN_OUT)}, .makes = {TR_DIN(X1), TR_DIN(X2)},
    .second = tr__second_body, .body = margin_slope, .rest = tr__grad_ends,
};

TR_REGISTER_OP(rank_loss, .locality = TR_ROWWISE, .proto = &rank_proto, .kernels = TR_FLOAT_KERNELS(rank_loss), .grad = &rank_grad,
               .key = TR_KEY_IN_SLOT, .key_slot = LEFT, .inplace = {{LEFT, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(rank_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_rank_loss, .kernels = TR_FLOAT_KERNELS(rank_loss_grad));
TR_REGISTER_OP(margin_rank_loss, .locality = TR_ROWWISE, .proto = &margin_proto, .kernels = TR_FLOAT_KERNELS(margin_rank_loss),
               .grad = &margin_grad);
TR_REGISTER_OP(margin_rank_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_margin_rank_loss, .kernels = TR_FLOAT_KERNELS(margin_rank_loss_grad));

#else /* the kernels, for each T */

static T *NAME(data_of)(const tr_tensor *x)
{
    return x ? x->data : NULL;
}

static tr_status NAME(rank_loss)(const tr_run *io)
{
    NAME(tr_rank_loss)(io->out[OUT]->data, io->in[LABEL]->data, io->in[LEFT]->data, io->in[RIGHT]->data, tr_tensor_count(io->in[LEFT]));
    return TR_OK;
}

static tr_status NAME(rank_loss_grad)(const tr_run *io)
{
    NAME(tr_rank_loss_grad)(NAME(data_of)(io->out[G_DLEFT]), NAME(data_of)(io->out[G_DRIGHT]), io->in[G_DOUT]->data, io->in[G_LABEL]->data,
                            io->in[G_LEFT]->data, io->in[G_RIGHT]->data, tr_tensor_count(io->in[G_LEFT]));
    return TR_OK;
}

static tr_status NAME(margin_rank_loss)(const tr_run *io)
{
    const margin_attrs *a = io->attrs;
    const int64_t       n = tr_tensor_count(io->in[X1]);
    T                  *active = NAME(data_of)(io->out[ACTIVATED]);

    if (!io->out[ACTIVATED])
        TR_TRY(tr_run_scratch((void **)&active, io, (size_t)n * sizeof *active));
    NAME(tr_margin_rank)(io->out[MARGIN_OUT]->data, active, io->in[SIGN]->data, io->in[X1]->data, io->in[X2]->data, a->margin, n);
    return TR_OK;
}

static tr_status NAME(margin_rank_loss_grad)(const tr_run *io)
{
    NAME(tr_margin_rank_grad)(NAME(data_of)(io->out[M_DX1]), NAME(data_of)(io->out[M_DX2]), io->in[M_DOUT]->data, io->in[M_SIGN]->data,
                              io->in[M_ACTIVATED]->data, tr_tensor_count(io->in[M_ACTIVATED]));
    return TR_OK;
}

#endif
