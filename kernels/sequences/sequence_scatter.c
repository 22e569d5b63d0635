/* sequence_scatter.c - Out is X with updates added:  Out[i, Ids[j]] = X[i, Ids[j]] + Updates[j] for each j of sequence i.
 *
 * Ids may repeat within a sequence; they then add up in order. Backward: dX = dOut, and dUpdates[j] = dOut[i, Ids[j]]. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/math/tools/cast.h"
#include "kernels/math/tools/wrap.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, IDS, UPDATES };
enum { OUT };
enum { G_X, G_IDS, G_UPDATES, G_DOUT };
enum { G_DX, G_DUPDATES };

static const tr_op_proto proto = {
    .doc = "Adds each number of sequence i of Updates to row i of X, where sequence i of Ids says.",
    .in = TR_SLOTS(TR_SLOT("X", "[sequences, width, ...]", " numbers"),
                   {"Ids", "[rows, 1] or [rows] int64 or int32, of sequences", TR_SLOT_INDEX},
                   {"Updates", "as many numbers as Ids, of X's type"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; may share X's memory")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const int64_t ids = tr_shape_numel(&io->in[IDS].shape), updates = tr_shape_numel(&io->in[UPDATES].shape);

    if (ids >= 0 && updates >= 0 && ids != updates)
        return tr_fail(TR_ESHAPE, "%s: Ids is %s and Updates %s; they must hold equally many numbers", io->type,
                       TR_SHAPE_STR(io->in[IDS].shape), TR_SHAPE_STR(io->in[UPDATES].shape));
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* place[j]: the element of X that number j of Ids means. */
static tr_status find_places(int64_t **out, tr_sequences *s, const tr_run *io, const char *type)
{
    const tr_tensor *ids = io->in[IDS];
    const tr_shape  *x = &io->in[X]->shape;
    const int64_t    width = tr_shape_product(x, 1, x->rank);
    int64_t         *place;

    TR_TRY(tr__sequences_of(s, io, IDS, 0));
    if (s->count != x->dim[0] || s->offset[s->count] != tr_tensor_count(ids))
        return tr_fail(TR_ESHAPE,
                       "%s: X '%s' has %" PRId64 " rows, but Ids '%s' %" PRId64 " sequences of single numbers",
                       type, tr_run_in_name(io, X, 0), x->dim[0], tr_run_in_name(io, IDS, 0), s->count);
    TR_TRY(tr_run_scratch((void **)&place, io, (size_t)(tr_tensor_count(ids) + 1) * sizeof *place));
    tr_cast(place, TR_INT64, ids->data, ids->dtype, tr_tensor_count(ids));
    for (int64_t i = 0; i < s->count; i++)
        for (int64_t j = s->offset[i]; j < s->offset[i + 1]; j++) {
            if (place[j] < 0 || place[j] >= width)
                return tr_fail(TR_ERANGE,
                               "%s: number %" PRId64 " at position %" PRId64 " of Ids '%s' is no column of '%s' %s",
                               type, place[j], j, tr_run_in_name(io, IDS, 0), tr_run_in_name(io, X, 0), tr_shape_str(x));
            place[j] += i * width;
        }
    *out = place;
    return TR_OK;
}

#include "kernels/math/tools/each_number.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "sequence_scatter_grad",
    .reads = {TR_IN_SHAPE(X), TR_IN(IDS), TR_IN_SHAPE(UPDATES), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(UPDATES)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(sequence_scatter, .proto = &proto, .infer = infer, .kernels = TR_NUMBER_KERNELS(sequence_scatter),
               .grad = &grad, .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(sequence_scatter_grad, .grad_of = &tr_op_record_sequence_scatter,
               .kernels = TR_FLOAT_KERNELS(sequence_scatter_grad));

#else /* the kernels, for each T */

static tr_status NAME(sequence_scatter)(const tr_run *io)
{
    const T     *updates = io->in[UPDATES]->data;
    T           *out = io->out[OUT]->data;
    tr_sequences s;
    int64_t     *place;

    TR_TRY(find_places(&place, &s, io, "sequence_scatter"));
    if (out != io->in[X]->data)
        memcpy(out, io->in[X]->data, (size_t)tr_tensor_bytes(io->in[X]));
    for (int64_t j = 0; j < s.offset[s.count]; j++)
        out[place[j]] = NAME(tr_plus)(out[place[j]], updates[j]);
    return TR_OK;
}

#if T_IS_FLOATING
static tr_status NAME(sequence_scatter_grad)(const tr_run *io)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_sequences     s;
    int64_t         *place;

    if (io->out[G_DX])
        memcpy(io->out[G_DX]->data, dout->data, (size_t)tr_tensor_bytes(dout));
    if (!io->out[G_DUPDATES])
        return TR_OK;
    TR_TRY(find_places(&place, &s, io, "sequence_scatter_grad"));
    for (int64_t j = 0; j < s.offset[s.count]; j++)
        ((T *)io->out[G_DUPDATES]->data)[j] = ((const T *)dout->data)[place[j]];
    return TR_OK;
}
#endif

#endif
