/* chunk_eval.c - how many chunks, such as names in a text, were found rightly: see kernels/math/sequences/chunks.h. */
#include "kernels/math/arrays/rows.h"
#include "kernels/math/sequences/chunks.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INFERENCE, LABEL };
enum { PRECISION, RECALL, F1_SCORE, NUM_INFER, NUM_LABEL, NUM_CORRECT };

typedef struct attrs {
    int32_t     num_chunk_types;
    tr_chunk_kind chunk_scheme;
    tr_ints     excluded_chunk_types;
} attrs;

static const tr_op_proto proto = {
    .doc = "How many of the chunks that tags mark were found, and the precision, recall and F1 score of these.",
    .in = TR_SLOTS(TR_SLOT("Inference", "[rows] or [rows, 1]", " int64, of sequences: type * tags + tag, or num_chunk_types * tags outside of chunks", TR_SLOT_INT64),
                   TR_SLOT("Label", "[rows] or [rows, 1]", " int64, of the same sequences: the right ones", TR_SLOT_INT64)),
    .out = TR_SLOTS(TR_SLOT("Precision", "[1]", " float32: of the chunks found, the share that is right; 0 where there are none", TR_SLOT_FP32),
                    TR_SLOT("Recall", "[1]", " float32: of the right chunks, the share that was found; 0 where there are none", TR_SLOT_FP32),
                    TR_SLOT("F1-Score", "[1]", " float32: the harmonic mean of both", TR_SLOT_FP32),
                    TR_SLOT("NumInferChunks", "[1]", " int64: chunks found", TR_SLOT_INT64),
                    TR_SLOT("NumLabelChunks", "[1]", " int64: right chunks", TR_SLOT_INT64),
                    TR_SLOT("NumCorrectChunks", "[1]", " int64: chunks found that are right, in all their rows and in their type", TR_SLOT_INT64)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_chunk_types, INT, "how many types of chunks there are", .required = true,
                               .range = TR_GREATER(0)),
                       TR_ATTR(attrs, chunk_scheme, STRING, "the tags of a type: IOB has B (0) and I (1), IOE I and E, IOBES B, I, E "
                               "and S, plain a single one", .text = "IOB", .range = TR_ONE_OF({"IOB", TR_CHUNK_IOB},
                               {"IOE", TR_CHUNK_IOE}, {"IOBES", TR_CHUNK_IOBES}, {"plain", TR_CHUNK_PLAIN})),
                       TR_ATTR(attrs, excluded_chunk_types, INTS, "types that are not counted")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check(const void *attributes)
{
    const attrs *a = attributes;

    for (int i = 0; i < a->excluded_chunk_types.count; i++) {
        const int32_t type = a->excluded_chunk_types.item[i];
        if (type < 0 || type >= a->num_chunk_types)
            return tr_fail(TR_ERANGE, "chunk_eval: %d of excluded_chunk_types is none of the %d types", type, a->num_chunk_types);
    }
    return TR_OK;
}

/* -- kernel --------------------------------------------------------------------------------------- */
static tr_status check_sequences(const tr_run *io, const tr_sequences *found, const tr_sequences *real)
{
    TR_TRY(tr__sequences_check_count(io, INFERENCE, found, LABEL, real));
    for (int64_t i = 0; i < found->count; i++)
        if (found->offset[i + 1] != real->offset[i + 1])
            return tr_fail(TR_ESHAPE, "chunk_eval: sequence %lld has %lld rows in Inference '%s', but %lld in Label '%s'",
                           (long long)i, (long long)(found->offset[i + 1] - found->offset[i]), tr_run_in_name(io, INFERENCE, 0),
                           (long long)(real->offset[i + 1] - real->offset[i]), tr_run_in_name(io, LABEL, 0));
    return TR_OK;
}

static tr_status check_numbers(const tr_run *io, int slot, const tr_chunk_rules *rules)
{
    const int64_t *number = io->in[slot]->data, outside = rules->types * rules->scheme->tags;
    const int64_t  bad = tr_rows_check(number, tr_tensor_count(io->in[slot]), outside + 1, -1);

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "chunk_eval: %lld in row %lld of '%s' must be in 0 .. %lld; with %s and %lld types, %lld is outside "
                   "of chunks", (long long)number[bad], (long long)bad, tr_run_in_name(io, slot, 0), (long long)outside,
                   rules->scheme->name, (long long)rules->types, (long long)outside);
}

static void put(const tr_run *io, const tr_chunk_counts *c)
{
    const double precision = c->found > 0 ? (double)c->right / (double)c->found : 0;
    const double recall = c->real > 0 ? (double)c->right / (double)c->real : 0;

    *(float *)io->out[PRECISION]->data = (float)precision;
    *(float *)io->out[RECALL]->data = (float)recall;
    *(float *)io->out[F1_SCORE]->data = c->right > 0 ? (float)(2 * precision * recall / (precision + recall)) : 0;
    *(int64_t *)io->out[NUM_INFER]->data = c->found;
    *(int64_t *)io->out[NUM_LABEL]->data = c->real;
    *(int64_t *)io->out[NUM_CORRECT]->data = c->right;
}

static tr_status run(const tr_run *io)
{
    const attrs         *a = io->attrs;
    const tr_chunk_rules rules = {&tr_chunk_schemes[a->chunk_scheme], a->num_chunk_types, a->excluded_chunk_types.item,
                                  a->excluded_chunk_types.count};
    const int64_t       *inference = io->in[INFERENCE]->data, *label = io->in[LABEL]->data;
    tr_chunk_counts      counts = {0};
    tr_sequences         found, real;

    TR_TRY(tr__sequences_of(&found, io, INFERENCE, 0));
    TR_TRY(tr__sequences_of(&real, io, LABEL, 0));
    TR_TRY(check_sequences(io, &found, &real));
    TR_TRY(check_numbers(io, INFERENCE, &rules));
    TR_TRY(check_numbers(io, LABEL, &rules));
    for (int64_t i = 0; i < found.count; i++)
        tr_chunks_count(&counts, inference + found.offset[i], label + found.offset[i], found.offset[i + 1] - found.offset[i],
                        &rules);
    put(io, &counts);
    return TR_OK;
}

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(chunk_eval, .proto = &proto, .check = check, .run = run);
