/* scatter.c - some rows of X replaced:  Out = X, then Out[Ids[i]] = Updates[i].
 *
 * Where Ids names a row more than once, the last update stays; without `overwrite` the row is the sum of its updates. X's row itself
 * never counts. Backward: dX is dOut with zeros in the rows of Ids, and dUpdates[i] is dOut[Ids[i]], or zeros where a later one won. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/cast.h"

#include <inttypes.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, IDS, UPDATES };
enum { OUT };
enum { G_X, G_IDS, G_UPDATES, G_DOUT };
enum { G_DX, G_DUPDATES };

typedef struct attrs {
    bool overwrite;
} attrs;

static const tr_op_proto proto = {
    .doc = "X with some rows replaced: Out[Ids[i]] = Updates[i].",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float"), TR_SLOT("Ids", "[m] or [m, 1]", " int32 or int64; row numbers", TR_SLOT_INDEX),
                   {"Updates", "[m, ...]; the rest like X"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, overwrite, BOOL, "of several updates of a row the last one stays; otherwise their sum", .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    tr_shape updates = io->in[X].shape;

    updates.dim[0] = tr_shape_numel(&io->in[IDS].shape);
    return tr__check_shape(io, "Updates", &io->in[UPDATES], &updates);
}

/* Ids as int64, checked, and a byte for each row of X. */
static tr_status read_ids(int64_t **ids, uint8_t **rows, const tr_run *io, const char *type)
{
    const tr_tensor *given = io->in[IDS];
    const int64_t    count = tr_tensor_count(given), height = io->in[X]->shape.dim[0];

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{ids, (size_t)(count + 1) * sizeof **ids}, {rows, (size_t)height + 1}, {NULL, 0}}));
    tr_cast(*ids, TR_INT64, given->data, given->dtype, count);
    const int64_t bad = tr_rows_check(*ids, count, height, -1);
    if (bad >= 0)
        return tr_fail(TR_ERANGE, "%s: number %" PRId64 " at position %" PRId64 " of '%s' is no row of X, which has %" PRId64, type,
                       (*ids)[bad], bad, tr_run_in_name(io, IDS, 0), height);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "scatter_grad",
    .reads = {TR_IN_SHAPE(X), TR_IN(IDS), TR_IN_SHAPE(UPDATES), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(UPDATES)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(scatter, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(scatter), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(scatter_grad, .grad_of = &tr_op_record_scatter, .kernels = TR_FLOAT_KERNELS(scatter_grad));

#else /* the kernels, for each T */

static void NAME(clear_rows)(T *table, const int64_t *ids, int64_t count, int64_t width)
{
    for (int64_t i = 0; i < count; i++)
        memset(table + ids[i] * width, 0, (size_t)width * sizeof(T));
}

static tr_status NAME(scatter)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    tr_tensor    *out = io->out[OUT];
    const int64_t count = tr_tensor_count(io->in[IDS]), width = tr__rows_width(out);
    int64_t      *ids = NULL;
    uint8_t      *rows = NULL;

    TR_TRY(read_ids(&ids, &rows, io, "scatter"));
    if (tr_tensor_count(out) == 0)
        return TR_OK;
    if (out->data != io->in[X]->data)
        memcpy(out->data, io->in[X]->data, (size_t)tr_tensor_count(out) * sizeof(T));
    if (a->overwrite) {
        tr_rows_scatter(out->data, ids, io->in[UPDATES]->data, count, width * (int64_t)sizeof(T));
        return TR_OK;
    }
    NAME(clear_rows)(out->data, ids, count, width);
    NAME(tr_rows_scatter_add)(out->data, ids, io->in[UPDATES]->data, count, width, -1);
    return TR_OK;
}

/* dUpdates, from the last to the first, so that a row is seen when it was overwritten. */
static void NAME(gather_back)(T *to, const T *dout, const int64_t *ids, uint8_t *is_taken, int64_t count, int64_t width, bool overwrite)
{
    for (int64_t i = count - 1; i >= 0; i--) {
        if (overwrite && is_taken[ids[i]])
            memset(to + i * width, 0, (size_t)width * sizeof(T));
        else
            memcpy(to + i * width, dout + ids[i] * width, (size_t)width * sizeof(T));
        is_taken[ids[i]] = 1;
    }
}

static tr_status NAME(scatter_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *dout = io->in[G_DOUT];
    const int64_t    count = tr_tensor_count(io->in[G_IDS]), width = tr__rows_width(dout);
    int64_t         *ids = NULL;
    uint8_t         *is_taken = NULL;

    TR_TRY(read_ids(&ids, &is_taken, io, "scatter_grad"));
    if (tr_tensor_count(dout) == 0)
        return TR_OK;
    if (io->out[G_DX]) {
        memcpy(io->out[G_DX]->data, dout->data, (size_t)tr_tensor_count(dout) * sizeof(T));
        NAME(clear_rows)(io->out[G_DX]->data, ids, count, width);
    }
    if (io->out[G_DUPDATES]) {
        memset(is_taken, 0, (size_t)dout->shape.dim[0]);
        NAME(gather_back)(io->out[G_DUPDATES]->data, dout->data, ids, is_taken, count, width, a->overwrite);
    }
    return TR_OK;
}

#endif
