/* clip_by_norm.c - shorten X to the length max_norm:  Out = X * min(1, max_norm / |X|).
 *
 * X may be selected rows: rows with equal numbers are added up first, because the length is that of the whole
 * tensor they stand for. The squares are summed exactly, so that it is the same whether X has rows of zeros or leaves
 * them out. No gradient flows through it: it is applied to gradients. */
#ifndef T

#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/exact.h"

#include <math.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

typedef struct attrs {
    float max_norm;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = X where its l2 norm is at most max_norm, else X scaled down to that norm.",
    .in = TR_SLOTS({"X", "any shape, float; selected rows too", TR_SLOT_ROWS}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; rows with equal numbers are added up")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, max_norm, FLOAT, "the greatest norm", .required = true,
                               .range = TR_GREATER(0))),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    if (io->in[X].kind == TR_KIND_SELECTED_ROWS)
        io->out[OUT].shape.dim[0] = -1;
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- registration ------------------------------------------------------------------------------- */

TR_REGISTER_OP(clip_by_norm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(clip_by_norm),
               .inplace = {{X, OUT}}, .inplace_count = 1);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(clip_by_norm)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X], *out = io->out[OUT];
    tr_exact         squares = {0};

    if (x->rows) {
        TR_TRY(tr__rows_merge(io, OUT, x));
        x = out;
    }
    const int64_t n = tr_tensor_count(x);
    NAME(tr_exact_add_squares)(&squares, x->data, n);
    const double norm = sqrt(tr_exact_round_f64(&squares));
    NAME(tr_scale)(out->data, x->data, norm > a->max_norm ? (T)(a->max_norm / norm) : 1, 0, n);
    return TR_OK;
}

#endif
