/* cvm.c - the columns of an embedding that count how often an advertisement was shown and clicked, as logs or left out.
 *
 * With use_cvm: Y = X but for Y[0] = log(X[0] + 1) and Y[1] = log(X[1] + 1) - Y[0]; without, Y is X without these two columns.
 * Backward is no derivative where they are concerned: dX[0] and dX[1] are the sample's CVM, which is what a server of such tables adds up
 * there; the other columns are handed on. X may have sequences: then CVM has a row for each of them. */
#ifndef T

#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/sequences/sequence.h"

#include <math.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, CVM };
enum { Y };
enum { G_X, G_CVM, G_DY };
enum { G_DX };
enum { COUNTS = 2 };                   /* columns: shown, clicked */

typedef struct attrs {
    bool use_cvm;
} attrs;

static const tr_op_proto proto = {
    .doc = "The first two columns of X, which count shows and clicks, as logs: Y[0] = log(X[0] + 1), Y[1] = log(X[1] + 1) - Y[0]; or left out. "
           "The gradient of these columns is CVM.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width]", " float; width is at least 2"),
                   {"CVM", "[rows, 2], or [sequences, 2] where X has sequences; the shows and clicks of the samples, same dtype"}),
    .out = TR_SLOTS({"Y", "like X; without use_cvm [rows, width - 2]"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, use_cvm, BOOL, "keep the two columns, as logs", .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *x = &io->in[X];

    if (x->shape.dim[1] >= 0 && x->shape.dim[1] < COUNTS)
        return tr_fail(TR_ESHAPE, "%s: X must be at least 2 wide, for shows and clicks; got %s", io->type, TR_SHAPE_STR(x->shape));
    TR_TRY(tr__check_shape(io, "CVM", &io->in[CVM], &TR_SHAPE(x->lod_level > 0 ? -1 : x->shape.dim[0], COUNTS)));
    io->out[Y] = *x;
    if (!a->use_cvm && x->shape.dim[1] >= 0)
        io->out[Y].shape.dim[1] -= COUNTS;
    return TR_OK;
}

/* CVM's rows: where X has sequences one for each, otherwise one for each row. */
static tr_status find_samples(tr_sequences *out, const tr_run *io)
{
    const int64_t rows = io->in[CVM]->shape.dim[0];

    *out = (tr_sequences){.count = io->in[X]->shape.dim[0]};
    if (tr_tensor_lod_levels(io->in[X]) > 0)
        TR_TRY(tr__sequences_of(out, io, X, 0));
    return rows == out->count ? TR_OK
                              : tr_fail(TR_ESHAPE, "cvm: CVM '%s' has %lld rows, but X '%s' has %lld %s", tr_run_in_name(io, CVM, 0), (long long)rows,
                                        tr_run_in_name(io, X, 0), (long long)out->count, out->offset ? "sequences" : "rows");
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* X@GRAD without the two columns that CVM gives. */
static tr_status slope(tr_composite *c)
{
    if (!((const attrs *)tr_composite_attrs(c))->use_cvm)
        return tr_composite_add(c, "pad(X=Y@GRAD) {paddings=[0, 0, 2, 0]} -> X@GRAD");
    TR_TRY(tr_composite_add(c, "slice(Input=Y@GRAD) {axes=[1], starts=[2], ends=[2147483647]} -> rest"));
    return tr_composite_add(c, "pad(X=rest) {paddings=[0, 0, 2, 0]} -> X@GRAD");
}

static const tr_grad_rule grad = {
    .op = "cvm_grad", .reads = {TR_IN_SHAPE(X), TR_IN(CVM), TR_DOUT(Y)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = slope,
};

TR_REGISTER_OP(cvm, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(cvm), .grad = &grad);
TR_REGISTER_OP(cvm_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_cvm, .kernels = TR_FLOAT_KERNELS(cvm_grad));

#else /* the kernels, for each T */

static tr_status NAME(cvm)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t width = io->in[X]->shape.dim[1], kept = a->use_cvm ? width : width - COUNTS;
    const T      *x = io->in[X]->data;
    T            *y = io->out[Y]->data;
    tr_sequences  samples;

    TR_TRY(find_samples(&samples, io));
    for (int64_t i = 0; i < io->in[X]->shape.dim[0]; i++, x += width, y += kept) {
        memcpy(y, x + width - kept, (size_t)kept * sizeof *y);
        if (a->use_cvm) {
            y[0] = (T)log((double)x[0] + 1);
            y[1] = (T)(log((double)x[1] + 1) - log((double)x[0] + 1));
        }
    }
    return TR_OK;
}

static tr_status NAME(cvm_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t width = io->in[G_X]->shape.dim[1], given = a->use_cvm ? width : width - COUNTS;
    const T      *cvm = io->in[G_CVM]->data, *dy = io->in[G_DY]->data;
    T            *dx = io->out[G_DX]->data;
    tr_sequences  samples;

    TR_TRY(find_samples(&samples, io));
    for (int64_t sample = 0; sample < samples.count; sample++, cvm += COUNTS) {
        const int64_t rows = samples.offset ? samples.offset[sample + 1] - samples.offset[sample] : 1;
        for (int64_t i = 0; i < rows; i++, dx += width, dy += given) {
            memcpy(dx, cvm, COUNTS * sizeof *dx);
            memcpy(dx + COUNTS, dy + given - (width - COUNTS), (size_t)(width - COUNTS) * sizeof *dx);
        }
    }
    return TR_OK;
}

#endif
