/* sequence.c - see sequence.h. */
#include "kernels/sequences/sequence.h"

#include "framework/plans/plan.h"

enum { MAX_LEVELS = 16 };

static tr_status no_sequences(const tr_run *io, int slot, int index)
{
    const tr_op *op = io->step->op;

    return tr_fail(TR_EINVAL, "%s: %s '%s' has no sequences (LoD); feed it with create_lod_tensor", op->type,
                   tr_op_input_name(op, slot), tr_run_in_name(io, slot, index));
}

static tr_sequences level_of(const tr_tensor *x, int level)
{
    return (tr_sequences){tr_tensor_lod_count(x, level) - 1, tr_tensor_lod_offsets(x, level)};
}

tr_status tr__sequences_of(tr_sequences *out, const tr_run *io, int slot, int index)
{
    const tr_tensor *x = io->ins[slot].item[index];
    const int        levels = tr_tensor_lod_levels(x);

    if (levels == 0)
        return no_sequences(io, slot, index);
    *out = level_of(x, levels - 1);
    return TR_OK;
}

tr_status tr__sequences_at(tr_sequences *out, const tr_run *io, int slot, int level)
{
    const tr_op *op = io->step->op;
    const int    levels = tr_tensor_lod_levels(io->in[slot]);

    if (levels == 0)
        return no_sequences(io, slot, 0);
    if (level < -1 || level >= levels)
        return tr_fail(TR_ERANGE, "%s: level %d of %s '%s', which has %d", op->type, level, tr_op_input_name(op, slot),
                       tr_run_in_name(io, slot, 0), levels);
    *out = level_of(io->in[slot], level < 0 ? levels - 1 : level);
    return TR_OK;
}

tr_status tr__sequences_check_count(const tr_run *io, int slot, const tr_sequences *s, int other_slot, const tr_sequences *other)
{
    const tr_op *op = io->step->op;

    if (s->count == other->count)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: %s '%s' has %lld sequences, but %s '%s' has %lld", op->type, tr_op_input_name(op, slot),
                   tr_run_in_name(io, slot, 0), (long long)s->count, tr_op_input_name(op, other_slot),
                   tr_run_in_name(io, other_slot, 0), (long long)other->count);
}

tr_status tr__check_rows(const tr_run *io, int slot, int64_t rows)
{
    const tr_op    *op = io->step->op;
    const tr_shape *got = &io->in[slot]->shape;

    if (got->rank > 0 && got->dim[0] == rows)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: %s '%s' must have %lld rows, as its sequences say; it is %s", op->type,
                   tr_op_input_name(op, slot), tr_run_in_name(io, slot, 0), (long long)rows, tr_shape_str(got));
}

int64_t tr__sequences_longest(const tr_sequences *s)
{
    int64_t longest = 0;

    for (int64_t i = 0; i < s->count; i++)
        if (s->offset[i + 1] - s->offset[i] > longest)
            longest = s->offset[i + 1] - s->offset[i];
    return longest;
}

tr_status tr__sequences_put(tr_tensor *out, const tr_tensor *like, int keep, const tr_sequences *last)
{
    int64_t        counts[MAX_LEVELS];
    const int64_t *offsets[MAX_LEVELS];
    int            levels = 0;

    if (keep >= MAX_LEVELS)
        return tr_fail(TR_EUNSUPPORTED, "sequences of %d levels; at most %d are supported", keep + 1, MAX_LEVELS);
    for (; levels < keep; levels++) {
        counts[levels] = tr_tensor_lod_count(like, levels);
        offsets[levels] = tr_tensor_lod_offsets(like, levels);
    }
    if (last) {
        counts[levels] = last->count + 1;
        offsets[levels++] = last->offset;
    }
    return tr_tensor_set_lod(out, levels, counts, offsets);
}

tr_status tr__sequences_replace_last(tr_tensor *out, const tr_tensor *like, const tr_sequences *last)
{
    return tr__sequences_put(out, like, tr_tensor_lod_levels(like) - 1, last);
}

tr_meta tr__meta_with_sequences(tr_dtype dtype, tr_shape shape, int levels)
{
    tr_meta meta = tr_meta_dense(dtype, shape);

    meta.lod_level = levels > 0 ? levels : 0;
    return meta;
}

int64_t tr__row_bytes(const tr_tensor *x)
{
    return tr_shape_product(&x->shape, 1, x->shape.rank) * tr_dtype_size(x->dtype);
}
