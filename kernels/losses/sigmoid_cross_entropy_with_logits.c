/* sigmoid_cross_entropy_with_logits.c - the cross entropy of sigmoid(X) and Label, element by element.
 *
 * Out = max(X, 0) - X Label + log(1 + exp(-|X|)), never infinite for finite X. Backward: dX = (sigmoid(X) - Label)
 * dOut. With `normalize` both are divided by the number of elements that are not ignored. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/training/loss.h"

#include <inttypes.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, LABEL };
enum { OUT };
enum { G_X, G_LABEL, G_DOUT };
enum { G_DX };

typedef struct attrs {
    bool    normalize;
    int32_t ignore_index;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = max(X, 0) - X * Label + log(1 + exp(-|X|)): independent yes-or-no questions, with X as log odds.",
    .in = TR_SLOTS({"X", "[n, classes] float; log odds"}, TR_SLOT("Label", "like X", "; probabilities from 0 to 1")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; the loss of each element")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, normalize, BOOL, "divide by the number of elements that are not ignored"),
                       TR_ATTR(attrs, ignore_index, INT, "elements with this label cost nothing", .number = -100)),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */

/* dX = (sigmoid(X) - Label) dOut, where Label is not the one to ignore. */
static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    if (a->normalize)
        return tr_fail(TR_EUNSUPPORTED, "sigmoid_cross_entropy_with_logits with normalize has no gradient of its gradient; divide by the "
                       "number of labels instead");
    TR_TRY(tr_composite_add(c, "sigmoid(X=X) -> chances"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=chances, Y=Label) -> errors"));
    TR_TRY(tr_composite_add(c, "scale(X=Label) {bias=%d.0} -> distance", -a->ignore_index));
    TR_TRY(tr_composite_add(c, "abs(X=distance) -> size"));
    TR_TRY(tr_composite_add(c, "sign(X=size) -> counts"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=errors, Y=counts) -> slope"));
    return tr_composite_add(c, "elementwise_mul(X=Out@GRAD, Y=slope) -> X@GRAD");
}

static const tr_grad_rule grad = {
    .op = "sigmoid_cross_entropy_with_logits_grad",
    .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_body,
    .body = slope,
};

TR_REGISTER_OP(sigmoid_cross_entropy_with_logits, .proto = &proto, .kernels = TR_FLOAT_KERNELS(sigmoid_cross_entropy), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(sigmoid_cross_entropy_with_logits_grad, .grad_of = &tr_op_record_sigmoid_cross_entropy_with_logits,
               .kernels = TR_FLOAT_KERNELS(sigmoid_cross_entropy_grad),
               .inplace = {{G_DOUT, G_DX}, {G_X, G_DX}}, .inplace_count = 2);

#else /* the kernels, for each T */

static T NAME(factor)(const attrs *a, const tr_tensor *label)
{
    if (!a->normalize)
        return 1;
    const int64_t count = NAME(tr_count_not)(label->data, (T)a->ignore_index, tr_tensor_count(label));
    return count > 0 ? 1 / (T)count : 0;
}

static tr_status NAME(sigmoid_cross_entropy)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *label = io->in[LABEL];
    const int64_t    bad = NAME(tr_find_improbable)(label->data, (T)a->ignore_index, tr_tensor_count(label));

    if (bad >= 0)
        return tr_fail(TR_ERANGE, "sigmoid_cross_entropy_with_logits: element %" PRId64 " of row %" PRId64 " of '%s' is %g; a label is "
                       "from 0 to 1, or the ignored %d", bad % tr__rows_width(label), bad / tr__rows_width(label),
                       tr_run_in_name(io, LABEL, 0), (double)((const T *)label->data)[bad], a->ignore_index);
    NAME(tr_sigmoid_cross_entropy)(io->out[OUT]->data, io->in[X]->data, label->data, (T)a->ignore_index,
                                   NAME(factor)(a, label), tr_tensor_count(label));
    return TR_OK;
}

static tr_status NAME(sigmoid_cross_entropy_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *label = io->in[G_LABEL];

    NAME(tr_sigmoid_cross_entropy_grad)(io->out[G_DX]->data, io->in[G_DOUT]->data, io->in[G_X]->data, label->data,
                                        (T)a->ignore_index, NAME(factor)(a, label), tr_tensor_count(label));
    return TR_OK;
}

#endif
