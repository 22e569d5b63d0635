/* label_smooth.c - labels that leave some doubt:  Out = (1 - epsilon) X + epsilon PriorDist, or + epsilon / classes.
 *
 * Made of scale and elementwise_add. The number of classes is the last dimension of X when it runs. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, PRIOR };
enum { OUT };

typedef struct attrs {
    float epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = (1 - epsilon) X + epsilon PriorDist; without PriorDist all classes are as likely. (Szegedy et al., 2016)",
    .in = TR_SLOTS(TR_SLOT("X", "[..., classes]", " float; one-hot labels"),
                   {"PriorDist", "[1, classes] or [classes], or like X; how likely each class is", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "the share that is taken from the label", .range = TR_BETWEEN(0, 1))),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *prior = &io->in[PRIOR];
    const tr_shape x = io->in[X].shape;

    if (prior->kind == TR_KIND_NONE)
        return TR_OK;
    const int64_t classes = x.dim[x.rank - 1];
    if (tr_shape_fits(&prior->shape, &x) || (x.rank > 1 && tr_shape_fits(&prior->shape, &TR_SHAPE(1, classes))))
        return TR_OK;
    return tr__check_shape(io, "PriorDist", prior, &TR_SHAPE(classes));
}

/* -- parts ------------------------------------------------------------------------------------ */

/* epsilon / classes, [1]. */
static tr_status add_uniform(tr_composite *c, const attrs *a)
{
    TR_TRY(tr_composite_add(c, "shape(Input=X) -> dims"));
    TR_TRY(tr_composite_add(c, "slice(Input=dims) {axes=[0], starts=[-1], ends=[%d]} -> last", TR_MAX_RANK));
    TR_TRY(tr_composite_add(c, "cast(X=last) {in_dtype=%d, out_dtype=%d} -> classes", TR_INT32, tr_composite_dtype(c, "X")));
    TR_TRY(tr_composite_add(c, "reciprocal(X=classes) -> share"));
    return tr_composite_add(c, "scale(X=share) {scale=%.9g} -> doubt", a->epsilon);
}

static tr_status expand(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "scale(X=X) {scale=%.9g} -> kept", 1 - a->epsilon));
    if (tr_composite_count(c, "PriorDist") > 0)
        TR_TRY(tr_composite_add(c, "scale(X=PriorDist) {scale=%.9g} -> doubt", a->epsilon));
    else
        TR_TRY(add_uniform(c, a));
    return tr_composite_add(c, "elementwise_add(X=kept, Y=doubt) -> Out");
}

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "label_smooth_grad",
    .reads = {TR_IN(X), TR_IN(PRIOR), TR_OUT(OUT), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(PRIOR)},
    .second = tr__second_body,
};
TR_REGISTER_OP(label_smooth, .proto = &proto, .infer = infer, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(label_smooth_grad, .grad_of = &tr_op_record_label_smooth);
