/* cross_entropy.c - Y[i] = -log X[i][Label[i]], or -sum_j Label[i][j] log X[i][j] with soft labels.
 *
 * X holds probabilities. Backward: dX[i][j] = -dY[i] / X[i][j] at the label, 0 elsewhere. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/body_lines.h"
#include "kernels/losses/labels.h"
#include "kernels/shapes/view.h"
#include "kernels/math/arrays/softmax.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, LABEL };
enum { Y };
enum { G_X, G_LABEL, G_DY };
enum { G_DX };

typedef struct attrs {
    bool    soft_label;
    int32_t ignore_index;
} attrs;

static const tr_op_proto proto = {
    .doc = "The cross entropy between rows of probabilities and labels: Y[i] = -log X[i][Label[i]].",
    .in = TR_SLOTS(TR_SLOT("X", "[..., classes]", " float; each row a distribution"),
                   {"Label", "[..., 1] or [...] int64, a class number for each row; with soft_label like X", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Y", "[..., 1]; the loss of each row"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, soft_label, BOOL, "labels are distributions"),
                       TR_ATTR(attrs, ignore_index, INT, "rows with this label cost nothing", .number = -100)),
};

enum { XSHAPE = 1, MATCH_X };
enum { G2_X, G2_LABEL, G2_MATCH_X, G2_DY };

typedef struct attrs2 {
    int32_t ignore_index;
} attrs2;

static const tr_op_proto proto2 = {
    .doc = "The cross entropy of class numbers as cross_entropy computes it, with a gradient that needs nothing of X but MatchX.",
    .in = TR_SLOTS(TR_SLOT("X", "[..., classes]", " float; each row a distribution"),
                   {"Label", "[..., 1] or [...] int64, a class number for each row", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Y", "[..., 1]; the loss of each row"}, TR_SLOT_XSHAPE,
                    {"MatchX", "like Y; X[i][Label[i]], 0 where the label is ignored", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(attrs2, TR_ATTR(attrs2, ignore_index, INT, "rows with this label cost nothing", .number = -100)),
};

static tr_status infer(const tr_infer *io)
{
    return tr__labels_infer(&io->out[Y], io, "X", ((const attrs *)io->attrs)->soft_label);
}

static tr_status infer2(const tr_infer *io)
{
    TR_TRY(tr__labels_infer(&io->out[Y], io, "X", false));
    io->out[MATCH_X] = io->out[Y];
    return io->out[XSHAPE].kind == TR_KIND_NONE ? TR_OK : tr__view_xshape(&io->out[XSHAPE], io, &io->in[X]);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* X@GRAD = -Y@GRAD / X where the label is, or -Y@GRAD Label / X. X counts only where it is divided by. */
static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    if (a->soft_label) {
        TR_TRY(tr_composite_add(c, "scale(X=Label) {scale=-1.0} -> weights"));
        TR_TRY(tr_composite_add(c, "elementwise_div(X=weights, Y=X) -> shares"));
        return tr_composite_add(c, "elementwise_mul(X=shares, Y=Y@GRAD) {axis=0} -> X@GRAD");
    }
    TR_TRY(tr__add_marks(c, "X", a->ignore_index));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=marks) -> picked"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=picked, Y=marks) -> less"));
    TR_TRY(tr_composite_add(c, "scale(X=less) {scale=-1.0, bias=1.0} -> divisors"));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=marks, Y=divisors) -> shares"));
    return tr_composite_add(c, "elementwise_mul(X=shares, Y=Y@GRAD) {axis=0} -> X@GRAD");
}

static const tr_grad_rule grad = {
    .op = "cross_entropy_grad",
    .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(Y)},
    .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope,
};

TR_REGISTER_OP(cross_entropy, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(cross_entropy),
               .grad = &grad);
TR_REGISTER_OP(cross_entropy_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_cross_entropy,
               .kernels = TR_FLOAT_KERNELS(cross_entropy_grad));

/* The same, from MatchX. It is 0 where the label is ignored, and X counts nowhere. */
static tr_status slope2(tr_composite *c)
{
    TR_TRY(tr__add_marks(c, "X", ((const attrs2 *)tr_composite_attrs(c))->ignore_index));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=marks) {dim=[-1], keep_dim=true} -> less"));
    TR_TRY(tr_composite_add(c, "scale(X=less) {bias=1.0} -> ignored"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=MatchX, Y=ignored) -> divisor"));
    TR_TRY(tr_composite_add(c, "elementwise_div(X=Y@GRAD, Y=divisor) -> share"));
    return tr_composite_add(c, "elementwise_mul(X=marks, Y=share) {axis=0} -> X@GRAD");
}

static tr_status match_parts(tr_composite *c)
{
    TR_TRY(tr__add_marks(c, "X", ((const attrs2 *)tr_composite_attrs(c))->ignore_index));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=marks) -> picked"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=picked) {dim=[-1], keep_dim=true} -> turned"));
    return tr_composite_add(c, "scale(X=turned) {scale=-1.0} -> MatchX");
}

static const tr_grad_rule grad2 = {
    .op = "cross_entropy_grad2",
    .reads = {TR_IN_SHAPE(X), TR_IN(LABEL), TR_OUT(MATCH_X), TR_DOUT(Y)},
    .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope2, .rest = tr__grad_by_parts, .parts = match_parts,
};

TR_REGISTER_OP(cross_entropy2, .locality = TR_ROWWISE, .proto = &proto2, .infer = infer2, .kernels = TR_FLOAT_KERNELS(cross_entropy2), .grad = &grad2);
TR_REGISTER_OP(cross_entropy_grad2, .locality = TR_ROWWISE, .grad_of = &tr_op_record_cross_entropy2, .kernels = TR_FLOAT_KERNELS(cross_entropy_grad2));

#else /* the kernels, for each T */

static tr_status NAME(cross_entropy)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X], *label = io->in[LABEL];
    const int64_t    rows = tr__labels_rows(x), classes = tr__labels_classes(x);
    T               *y = io->out[Y]->data;

    if (a->soft_label) {
        NAME(tr_cross_entropy_soft)(y, x->data, label->data, rows, classes);
        return TR_OK;
    }
    const int64_t bad = NAME(tr_cross_entropy)(y, x->data, label->data, rows, classes, a->ignore_index);
    return tr__labels_bad_row(io, "cross_entropy", LABEL, label, bad, classes, a->ignore_index);
}

static tr_status NAME(cross_entropy_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[G_X], *label = io->in[G_LABEL];
    const int64_t    rows = tr__labels_rows(x), classes = tr__labels_classes(x);
    const T         *dy = io->in[G_DY]->data;
    T               *dx = io->out[G_DX]->data;

    if (a->soft_label) {
        NAME(tr_cross_entropy_soft_grad)(dx, dy, x->data, label->data, rows, classes);
        return TR_OK;
    }
    const int64_t bad = NAME(tr_cross_entropy_grad)(dx, dy, x->data, label->data, rows, classes, a->ignore_index);
    return tr__labels_bad_row(io, "cross_entropy_grad", G_LABEL, label, bad, classes, a->ignore_index);
}

static tr_status NAME(cross_entropy2)(const tr_run *io)
{
    const attrs2    *a = io->attrs;
    const tr_tensor *x = io->in[X], *label = io->in[LABEL];
    const int64_t    rows = tr__labels_rows(x), classes = tr__labels_classes(x);
    const int64_t    bad = NAME(tr_cross_entropy)(io->out[Y]->data, x->data, label->data, rows, classes, a->ignore_index);

    if (bad < 0 && io->out[MATCH_X])
        NAME(tr_match_labels)(io->out[MATCH_X]->data, x->data, label->data, rows, classes, a->ignore_index);
    return tr__labels_bad_row(io, "cross_entropy2", LABEL, label, bad, classes, a->ignore_index);
}

static tr_status NAME(cross_entropy_grad2)(const tr_run *io)
{
    const attrs2    *a = io->attrs;
    const tr_tensor *dx = io->out[G_DX], *label = io->in[G2_LABEL];
    const int64_t    rows = tr__labels_rows(dx), classes = tr__labels_classes(dx);
    const int64_t    bad = NAME(tr_cross_entropy_match_grad)(dx->data, io->in[G2_DY]->data, io->in[G2_MATCH_X]->data, label->data, rows, classes,
                                                             a->ignore_index);

    return tr__labels_bad_row(io, "cross_entropy_grad2", G2_LABEL, label, bad, classes, a->ignore_index);
}

#endif
