/* linear_chain_crf.c - how unlikely sequences of tags are under a conditional random field, and crf_decoding: the likeliest.
 *
 * LogLikelihood is, as in Fluid, the negative one: a cost to minimize. Backward reads the exponentials and Alpha rather
 * than the scores. */
#ifndef T

#include <inttypes.h>

#include "framework/threads/precision.h"
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/activation.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/crf.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { EMISSION, TRANSITION, LABEL };
enum { ALPHA, EMISSION_EXPS, TRANSITION_EXPS, COST };            /* of linear_chain_crf */
enum { PATH };                                                   /* of crf_decoding */
enum { G_EMISSION, G_TRANSITION, G_LABEL, G_ALPHA, G_EMISSION_EXPS, G_TRANSITION_EXPS, G_DCOST };
enum { G_DEMISSION, G_DTRANSITION };

#define EMISSION_DOC   " float, of sequences: a score of each tag for each row"
#define TRANSITION_DOC "[tags + 2, tags]: scores of the first tag, of the last tag, then of tag j (column) after tag i (row)"

static const tr_op_proto proto = {
    .doc = "Minus the log of the probability that a conditional random field gives each sequence of labels.",
    .in = TR_SLOTS(TR_SLOT("Emission", "[rows, tags]", EMISSION_DOC), {"Transition", TRANSITION_DOC},
                   TR_SLOT("Label", "[rows, 1]", " int64: the tags", TR_SLOT_INT64)),
    .out = TR_SLOTS({"Alpha", "like Emission: probabilities of the tags, given the rows so far", TR_SLOT_INTERMEDIATE},
                    {"EmissionExps", "like Emission: exp(Emission - the greatest of its row)", TR_SLOT_INTERMEDIATE},
                    {"TransitionExps", "like Transition: its exp", TR_SLOT_INTERMEDIATE},
                    {"LogLikelihood", "[sequences, 1]: the cost; 0 for an empty sequence"}),
};

static const tr_op_proto decoding_proto = {
    .doc = "The likeliest tags under a conditional random field; with Label, 1 where they are right and 0 where not.",
    .in = TR_SLOTS(TR_SLOT("Emission", "[rows, tags]", EMISSION_DOC), {"Transition", TRANSITION_DOC},
                   TR_SLOT("Label", "[rows, 1]", " int64: the right tags", TR_SLOT_OPTIONAL | TR_SLOT_INT64)),
    .out = TR_SLOTS({"ViterbiPath", "[rows, 1] int64, with Emission's sequences", TR_SLOT_INT64}),
};

static tr_status check_transition(const tr_infer *io)
{
    const int64_t tags = io->in[EMISSION].shape.dim[1];

    return tr__check_shape(io, "Transition", &io->in[TRANSITION], &TR_SHAPE(tags < 0 ? -1 : tags + 2, tags));
}

static tr_status infer(const tr_infer *io)
{
    TR_TRY(check_transition(io));
    io->out[ALPHA] = tr_meta_dense(io->in[EMISSION].dtype, io->in[EMISSION].shape);
    io->out[EMISSION_EXPS] = io->out[ALPHA];
    io->out[TRANSITION_EXPS] = tr_meta_dense(io->in[EMISSION].dtype, io->in[TRANSITION].shape);
    io->out[COST] = tr_meta_dense(io->in[EMISSION].dtype, TR_SHAPE(-1, 1));
    return TR_OK;
}

static tr_status infer_decoding(const tr_infer *io)
{
    TR_TRY(check_transition(io));
    io->out[PATH] = io->in[EMISSION];
    io->out[PATH].dtype = TR_INT64;
    io->out[PATH].shape.dim[1] = 1;
    return TR_OK;
}

static tr_status check_labels(const tr_run *io, const char *type, int slot, int64_t tags)
{
    const tr_tensor *label = io->in[slot];
    const int64_t    bad = tr_rows_check(label->data, tr_tensor_count(label), tags, -1);

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: label %" PRId64 " in row %" PRId64 " of '%s' is none of the %" PRId64 " tags", type,
                   ((const int64_t *)label->data)[bad], bad, tr_run_in_name(io, slot, 0), tags);
}

static size_t bytes_of(const tr_tensor *x)
{
    return x ? (size_t)tr_tensor_bytes(x) : 0;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "linear_chain_crf_grad",
    .reads = {TR_IN_SHAPE(EMISSION), TR_IN_SHAPE(TRANSITION), TR_IN(LABEL), TR_OUT(ALPHA), TR_OUT(EMISSION_EXPS),
              TR_OUT(TRANSITION_EXPS), TR_DOUT(COST)},
    .makes = {TR_DIN(EMISSION), TR_DIN(TRANSITION)},
};

TR_REGISTER_OP(linear_chain_crf, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(linear_chain_crf), .grad = &grad);
TR_REGISTER_OP(linear_chain_crf_grad, .grad_of = &tr_op_record_linear_chain_crf,
               .kernels = TR_FLOAT_KERNELS(linear_chain_crf_grad), .key = TR_KEY_IN_SLOT, .key_slot = G_ALPHA);
TR_REGISTER_OP(crf_decoding, .proto = &decoding_proto, .infer = infer_decoding, .kernels = TR_FLOAT_KERNELS(crf_decoding));

#else /* the kernels, for each T */

static tr_status NAME(linear_chain_crf)(const tr_run *io)
{
    const tr_tensor *x = io->in[EMISSION], *w = io->in[TRANSITION];
    const tr_tensor *alpha = io->out[ALPHA], *x_exp = io->out[EMISSION_EXPS], *w_exp = io->out[TRANSITION_EXPS];
    T               *kept_alpha = alpha ? alpha->data : NULL, *kept_x = x_exp ? x_exp->data : NULL;
    T               *kept_w = w_exp ? w_exp->data : NULL;
    tr_sequences     s;

    TR_TRY(tr__sequences_of(&s, io, EMISSION, 0));
    TR_TRY(check_labels(io, "linear_chain_crf", LABEL, x->shape.dim[1]));
    TR_TRY(tr_run_resize(io, COST, 0, x->dtype, &TR_SHAPE(s.count, 1)));
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&kept_alpha, alpha ? 0 : bytes_of(x)}, {&kept_x, x_exp ? 0 : bytes_of(x)},
                                                     {&kept_w, w_exp ? 0 : bytes_of(w)}, {NULL, 0}}));
    NAME(tr_act_apply)(TR_ACT_exp, kept_w, w->data, tr_tensor_count(w), 0, 0);
    const NAME(tr_crf) c = {s.count, x->shape.dim[1], s.offset, io->in[LABEL]->data, kept_w, kept_x, kept_alpha};
    NAME(tr_crf_cost)(io->out[COST]->data, &c, x->data, w->data);
    return TR_OK;
}

static tr_status NAME(linear_chain_crf_grad)(const tr_run *io)
{
    const tr_tensor *alpha = io->in[G_ALPHA];
    const int64_t    rows = alpha->shape.dim[0], tags = alpha->shape.dim[1];
    const T         *dcost = io->in[G_DCOST]->data;
    tr_tensor       *dx = io->out[G_DEMISSION], *dw = io->out[G_DTRANSITION];
    T               *x_grad = dx ? dx->data : NULL, *beta = NULL, *from = NULL, *to = NULL, *expected = NULL;
    tr_sequences     s;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, G_EMISSION, 0));
    TR_TRY(tr__check_rows(io, G_DCOST, s.count));
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&x_grad, dx ? 0 : bytes_of(alpha)}, {&beta, bytes_of(alpha)}, {&from, bytes_of(alpha)}, {&to, bytes_of(alpha)},
        {&expected, (size_t)(tags * tags) * sizeof(T)}, {NULL, 0}}));
    const NAME(tr_crf) c = {s.count, tags, s.offset, io->in[G_LABEL]->data, io->in[G_TRANSITION_EXPS]->data,
                            io->in[G_EMISSION_EXPS]->data, alpha->data};
    NAME(tr_crf_grad)(x_grad, beta, from, to, &c, dcost);
    if (!dw)
        return TR_OK;
    const tr_precision precision = tr__precision_enter(TR_PRECISION_FLOAT32);      /* sums of probabilities: a loss, no layer */
    NAME(tr_gemm)(true, false, tags, tags, rows, 1, from, tags, to, tags, 0, expected, tags);
    tr__precision_enter(precision);
    NAME(tr_crf_grad_w)(dw->data, &c, x_grad, expected, dcost);
    return TR_OK;
}

static tr_status NAME(crf_decoding)(const tr_run *io)
{
    const tr_tensor *x = io->in[EMISSION], *label = io->in[LABEL];
    const int64_t    rows = x->shape.dim[0], tags = x->shape.dim[1];
    int64_t         *path = io->out[PATH]->data;
    T               *score = NULL;
    int32_t         *back = NULL;
    tr_sequences     s;

    TR_TRY(tr__sequences_of(&s, io, EMISSION, 0));
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&score, bytes_of(x)}, {&back, (size_t)(rows * tags) * sizeof *back},
                                                     {NULL, 0}}));
    NAME(tr_crf_decode)(path, score, back, x->data, io->in[TRANSITION]->data, s.offset, s.count, tags);
    for (int64_t i = 0; i < rows && label; i++)
        path[i] = path[i] == ((const int64_t *)label->data)[i];
    return TR_OK;
}

#endif
