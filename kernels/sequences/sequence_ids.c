/* sequence_ids.c - sequence_enumerate, sequence_erase and ctc_align: on sequences of numbers of words. */
#ifndef T

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct enumerate_attrs {
    int32_t win_size, pad_value;
} enumerate_attrs;

static const tr_op_proto enumerate_proto = {
    .doc = "Row t of Out is X[t] and those that follow it in the sequence, and pad_value beyond its end.",
    .in = TR_SLOTS({"X", "[rows, 1] int32 or int64, of sequences"}),
    .out = TR_SLOTS({"Out", "[rows, win_size], with X's sequences"}),
    TR_ATTRS_OF(enumerate_attrs, TR_ATTR(enumerate_attrs, win_size, INT, "how many", .required = true, .range = TR_GREATER(0)),
                                 TR_ATTR(enumerate_attrs, pad_value, INT, "what stands beyond the end of a sequence"),
                                 TR_ATTR_IGNORED("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", BOOL, .number = 1)),
};

typedef struct erase_attrs {
    tr_ints tokens;
} erase_attrs;

static const tr_op_proto erase_proto = {
    .doc = "Leaves out the rows of X that hold one of `tokens`.",
    .in = TR_SLOTS({"X", "[rows, 1] int32 or int64, of sequences"}),
    .out = TR_SLOTS({"Out", "[rows left, 1], with as many sequences as X"}),
    TR_ATTRS_OF(erase_attrs, TR_ATTR(erase_attrs, tokens, INTS, "what is left out", .required = true)),
};

typedef struct align_attrs {
    int32_t blank;
    bool    merge_repeated;
} align_attrs;

static const tr_op_proto align_proto = {
    .doc = "What the classes of rows say (connectionist temporal classification): repetitions left out, then blanks.",
    .in = TR_SLOTS({"Input", "[rows, 1] int32 or int64, of sequences: the class of each row"}),
    .out = TR_SLOTS({"Output", "[rows left, 1], with as many sequences as Input"}),
    TR_ATTRS_OF(align_attrs, TR_ATTR(align_attrs, blank, INT, "the class that stands for no label"),
                             TR_ATTR(align_attrs, merge_repeated, BOOL, "leave out rows that repeat the one before them", .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_x(const tr_infer *io, const char *slot)
{
    const tr_shape x = io->in[X].shape;

    TR_TRY(tr__check_ids(io, slot, &io->in[X], true));
    if (x.rank != 2 || (x.dim[1] != 1 && x.dim[1] != -1))
        return tr_fail(TR_ESHAPE, "%s: %s must be [rows, 1], got %s", io->type, slot, TR_SHAPE_STR(x));
    return TR_OK;
}

static tr_status infer_enumerate(const tr_infer *io)
{
    const enumerate_attrs *a = io->attrs;

    TR_TRY(check_x(io, "X"));
    io->out[OUT] = io->in[X];
    io->out[OUT].shape.dim[1] = a->win_size;
    return TR_OK;
}

/* Of operators that leave out rows. */
static tr_status infer_fewer(const tr_infer *io, const char *slot)
{
    TR_TRY(check_x(io, slot));
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, TR_SHAPE(-1, 1), io->in[X].lod_level);
    return TR_OK;
}

static tr_status infer_erase(const tr_infer *io) { return infer_fewer(io, "X"); }
static tr_status infer_align(const tr_infer *io) { return infer_fewer(io, "Input"); }

/* -- kernels ------------------------------------------------------------------------------------ */
static bool is_token(int64_t id, const tr_ints *tokens)
{
    for (int i = 0; i < tokens->count; i++)
        if (tokens->item[i] == id)
            return true;
    return false;
}

/* Scratch memory for what `keep_rows` wants. */
static tr_status flags_of(bool **is_kept, int64_t **offset, const tr_run *io, const tr_sequences *s)
{
    return tr__scratch_pieces(io, (const tr_piece[]){{offset, (size_t)(s->count + 1) * sizeof **offset},
                                                     {is_kept, (size_t)s->offset[s->count] * sizeof **is_kept}, {NULL, 0}});
}

#include "kernels/math/tools/each_number.h"

/* -- registration ------------------------------------------------------------------------------- */
#define ID_KERNELS(name) {{[TR_INT32] = name##_i32, [TR_INT64] = name##_i64}}

TR_REGISTER_OP(sequence_enumerate, .proto = &enumerate_proto, .infer = infer_enumerate,
               .kernels = ID_KERNELS(sequence_enumerate));
TR_REGISTER_OP(sequence_erase, .proto = &erase_proto, .infer = infer_erase, .kernels = ID_KERNELS(sequence_erase));
TR_REGISTER_OP(ctc_align, .proto = &align_proto, .infer = infer_align, .kernels = ID_KERNELS(ctc_align));

#elif !T_IS_FLOATING /* the kernels, for int32 and int64 */

static tr_status NAME(sequence_enumerate)(const tr_run *io)
{
    const enumerate_attrs *a = io->attrs;
    const T               *x = io->in[X]->data;
    T                     *out = io->out[OUT]->data;
    tr_sequences           s;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    for (int64_t i = 0; i < s.count; i++)
        for (int64_t t = s.offset[i]; t < s.offset[i + 1]; t++)
            for (int64_t k = 0; k < a->win_size; k++)
                *out++ = t + k < s.offset[i + 1] ? x[t + k] : (T)a->pad_value;
    return TR_OK;
}

/* Out is the rows that are kept, in sequences of their own; `offset` has room for the offsets of these. */
static tr_status NAME(keep_rows)(const tr_run *io, const tr_sequences *s, const bool *is_kept, int64_t *offset)
{
    const T *x = io->in[X]->data;
    int64_t  left = 0;

    offset[0] = 0;
    for (int64_t i = 0; i < s->count; i++) {
        for (int64_t t = s->offset[i]; t < s->offset[i + 1]; t++)
            left += is_kept[t];
        offset[i + 1] = left;
    }
    TR_TRY(tr_run_resize(io, OUT, 0, io->in[X]->dtype, &TR_SHAPE(left, 1)));
    TR_TRY(tr__sequences_replace_last(io->out[OUT], io->in[X], &(tr_sequences){s->count, offset}));
    T *out = io->out[OUT]->data;
    for (int64_t t = 0; t < s->offset[s->count]; t++)
        if (is_kept[t])
            *out++ = x[t];
    return TR_OK;
}

static tr_status NAME(sequence_erase)(const tr_run *io)
{
    const erase_attrs *a = io->attrs;
    const T           *x = io->in[X]->data;
    tr_sequences       s;
    int64_t           *offset;
    bool              *is_kept = NULL;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(flags_of(&is_kept, &offset, io, &s));
    for (int64_t t = 0; t < s.offset[s.count]; t++)
        is_kept[t] = !is_token(x[t], &a->tokens);
    return NAME(keep_rows)(io, &s, is_kept, offset);
}

static tr_status NAME(ctc_align)(const tr_run *io)
{
    const align_attrs *a = io->attrs;
    const T           *x = io->in[X]->data;
    tr_sequences       s;
    int64_t           *offset;
    bool              *is_kept = NULL;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(flags_of(&is_kept, &offset, io, &s));
    for (int64_t i = 0; i < s.count; i++)
        for (int64_t t = s.offset[i]; t < s.offset[i + 1]; t++)
            is_kept[t] = x[t] != a->blank && !(a->merge_repeated && t > s.offset[i] && x[t] == x[t - 1]);
    return NAME(keep_rows)(io, &s, is_kept, offset);
}

#endif
