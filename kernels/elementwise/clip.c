/* clip.c - Out = min(max(X, min), max).
 *
 * X may be selected rows: rows with equal numbers are added up first, because the bounds are those of the tensor
 * they stand for. Backward: the gradient passes where X lies between the bounds. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/elementwise.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };             enum { OUT };      /* slots of clip: inputs, outputs */
enum { GX, GDOUT };     enum { GDX };      /* of clip_grad; GX is X */

typedef struct attrs {
    float min, max;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = min(max(X, min), max)",
    .in = TR_SLOTS({"X", "any shape, float; selected rows too", TR_SLOT_ROWS}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; rows with equal numbers are added up")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, min, FLOAT, "the least value", .required = true),
                       TR_ATTR(attrs, max, FLOAT, "the greatest value", .required = true)),
};

static tr_status check(const void *decoded)
{
    const attrs *a = decoded;

    if (!(a->min <= a->max))
        return tr_fail(TR_ERANGE, "clip: min is %g, which is more than max, %g", (double)a->min, (double)a->max);
    return TR_OK;
}

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    if (io->in[X].kind == TR_KIND_SELECTED_ROWS)
        io->out[OUT].shape.dim[0] = -1;
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static const tr_grad_rule grad = {
    .op = "clip_grad", .reads = {TR_IN(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_gate,
};

TR_REGISTER_OP(clip, .locality = TR_POINTWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(clip),
               .grad = &grad, .check = check, .inplace = {{X, OUT}}, .inplace_count = 1, .is_itemwise = true);
TR_REGISTER_OP(clip_grad, .locality = TR_POINTWISE, .grad_of = &tr_op_record_clip, .kernels = TR_FLOAT_KERNELS(clip_grad),
               .inplace = {{GDOUT, GDX}}, .inplace_count = 1, .is_itemwise = true);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(clip)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X], *out = io->out[OUT];

    if (x->rows) {
        TR_TRY(tr__rows_merge(io, OUT, x));
        x = out;
    }
    NAME(tr_clip)(out->data, x->data, a->min, a->max, tr_tensor_count(x));
    return TR_OK;
}

static tr_status NAME(clip_grad)(const tr_run *io)
{
    const attrs *a = io->attrs;

    NAME(tr_clip_grad)(io->out[GDX]->data, io->in[GDOUT]->data, io->in[GX]->data, a->min, a->max,
                       tr_tensor_count(io->in[GX]));
    return TR_OK;
}

#endif
