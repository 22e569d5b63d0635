/* split_merge.c - a batch in two by a mask, and back: split_lod_tensor, merge_lod_tensor.
 *
 * What is dealt out are rows, or, with LoD, whole sequences of one level (lod_pick.h calls both parts). */
#include <inttypes.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/tensor_arrays/lod_pick.h"

typedef struct level_attrs {
    int32_t level;
} level_attrs;

static const tr_attr_def attr_defs[] = {
    TR_ATTR(level_attrs, level, INT, "the LoD level whose sequences the mask is for", .range = TR_AT_LEAST(0)),
    {.name = NULL},
};

static tr_status check_mask(const tr_infer *io, const tr_meta *mask)
{
    const int rank = mask->shape.rank;

    TR_TRY(tr__check_dtype(io, "Mask", mask, TR_BOOL));
    if (rank > 0 && rank != 1 && !(rank == 2 && (mask->shape.dim[1] == 1 || mask->shape.dim[1] < 0)))
        return tr_fail(TR_ESHAPE, "%s: Mask must be [n] or [n, 1], got %s", io->type, TR_SHAPE_STR(mask->shape));
    return TR_OK;
}

/* -- split_lod_tensor --------------------------------------------------------------------------- */

enum { S_X, S_MASK, S_DTRUE, S_DFALSE };
enum { S_TRUE, S_FALSE };

static const tr_op_proto split_proto = {
    .doc = "OutTrue = the rows (or sequences) of X where Mask is true, OutFalse = the others.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", ", or n sequences of that level"), {"Mask", "[n, 1] bool"}),
    .out = TR_SLOTS({"OutTrue", "what Mask chooses, in order"}, {"OutFalse", "the rest, in order"}),
    .attr = attr_defs,
    .attrs_size = sizeof(level_attrs),
};

static tr_status infer_split(const tr_infer *io)
{
    const level_attrs *attrs = io->attrs;
    const tr_meta     *x = &io->in[S_X];

    TR_TRY(check_mask(io, &io->in[S_MASK]));
    tr_meta part = tr_meta_dense(x->dtype, x->shape);
    part.shape.dim[0] = -1;
    part.lod_level = x->lod_level > attrs->level ? x->lod_level - attrs->level : 0;
    io->out[S_TRUE] = io->out[S_FALSE] = part;
    return TR_OK;
}

static tr_status check_parts(const tr_run *io)
{
    const level_attrs *attrs = io->attrs;
    const int64_t      parts = tr__parts_of(io->in[S_X], attrs->level), masks = tr_tensor_count(io->in[S_MASK]);

    if (parts < 0)
        return tr_fail(TR_EINVAL, "'%s' has %d LoD levels, so there is no level %d to split", tr_run_in_name(io, S_X, 0),
                       tr_tensor_lod_levels(io->in[S_X]), (int)attrs->level);
    if (parts != masks)
        return tr_fail(TR_ESHAPE, "'%s' has %" PRId64 " %s, but the mask '%s' is for %" PRId64, tr_run_in_name(io, S_X, 0),
                       parts, attrs->level < tr_tensor_lod_levels(io->in[S_X]) ? "sequences" : "rows",
                       tr_run_in_name(io, S_MASK, 0), masks);
    return TR_OK;
}

static tr_status take_where(const tr_run *io, int slot, bool wanted)
{
    const int        level = ((const level_attrs *)io->attrs)->level;
    const tr_tensor *x = io->in[S_X];
    const bool      *mask = io->in[S_MASK]->data;
    const int64_t    parts = tr_tensor_count(io->in[S_MASK]);
    tr_pick          pick;

    TR_TRY(tr__pick_start(&pick, io, tr_tensor_lod_levels(x) - level, tr__lod_size(x)));
    for (int64_t k = 0; k < parts; k++)
        if (mask[k] == wanted)
            tr__pick_add(&pick, x, level, k);
    TR_TRY(tr__pick_finish(&pick, io->out[slot], x, NULL, 0));
    for (int64_t k = 0, row = 0; k < parts; k++) {
        const int64_t from = tr__part_row(x, level, k), rows = tr__part_row(x, level, k + 1) - from;
        if (mask[k] != wanted)
            continue;
        tr__copy_rows(io->out[slot], row, x, from, rows);
        row += rows;
    }
    return TR_OK;
}

static tr_status run_split(const tr_run *io)
{
    TR_TRY(check_parts(io));
    TR_TRY(take_where(io, S_TRUE, true));
    return take_where(io, S_FALSE, false);
}

static tr_status run_split_grad(const tr_run *io)
{
    const int        level = ((const level_attrs *)io->attrs)->level;
    const tr_tensor *x = io->in[S_X], *from[2] = {io->in[S_DFALSE], io->in[S_DTRUE]};
    const bool      *mask = io->in[S_MASK]->data;
    tr_tensor       *dx = io->out[0];
    int64_t          row[2] = {0, 0};

    TR_TRY(check_parts(io));
    for (int64_t k = 0; k < tr_tensor_count(io->in[S_MASK]); k++) {
        const int64_t to = tr__part_row(x, level, k), rows = tr__part_row(x, level, k + 1) - to;
        const int     side = mask[k];
        if (!from[side] || !tr__rows_agree(dx, from[side]) || row[side] + rows > from[side]->shape.dim[0])
            return tr_fail(TR_ESHAPE, "split_lod_tensor_grad: Out%s@GRAD is %s", side ? "True" : "False",
                           from[side] ? TR_SHAPE_STR(from[side]->shape) : "missing");
        tr__copy_rows(dx, to, from[side], row[side], rows);
        row[side] += rows;
    }
    return TR_OK;
}

static const tr_grad_rule split_rule = {
    .op = "split_lod_tensor_grad", .reads = {TR_IN_SHAPE(S_X), TR_IN(S_MASK), TR_DOUT(S_TRUE), TR_DOUT(S_FALSE)},
    .makes = {TR_DIN(S_X)},
};

TR_REGISTER_OP(split_lod_tensor, .proto = &split_proto, .infer = infer_split, .run = run_split, .grad = &split_rule);
TR_REGISTER_OP(split_lod_tensor_grad, .grad_of = &tr_op_record_split_lod_tensor, .run = run_split_grad);

/* -- merge_lod_tensor --------------------------------------------------------------------------- */

enum { M_X, M_MASK, M_TRUE, M_FALSE };

static const tr_op_proto merge_proto = {
    .doc = "Out = the rows (or sequences) of InTrue where Mask is true, those of InFalse elsewhere, each in their order.",
    .in = TR_SLOTS({"X", "what was split; only the LoD above `level` is read"}, {"Mask", "[n, 1] bool"},
                   {"InTrue", "a row or sequence for each true"}, {"InFalse", "a row or sequence for each false"}),
    .out = TR_SLOTS({"Out", "n rows or sequences"}),
    .attr = attr_defs,
    .attrs_size = sizeof(level_attrs),
};

static tr_status infer_merge(const tr_infer *io)
{
    const level_attrs *attrs = io->attrs;
    const tr_meta     *yes = &io->in[M_TRUE], *no = &io->in[M_FALSE];

    TR_TRY(check_mask(io, &io->in[M_MASK]));
    if (yes->dtype != no->dtype && yes->dtype != TR_DTYPE_NONE && no->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: InTrue is %s, so InFalse must be, too; got %s", io->type,
                       tr_dtype_name(yes->dtype), tr_dtype_name(no->dtype));
    tr_shape shape = yes->shape.rank > 0 ? yes->shape : no->shape, other = no->shape;
    if (shape.rank > 0)
        shape.dim[0] = -1;
    if (other.rank > 0 && !tr_shape_fits(&shape, &other))
        return tr_fail(TR_ESHAPE, "%s: rows of InTrue are %s, so those of InFalse must be, too; got %s", io->type,
                       TR_SHAPE_STR(shape), TR_SHAPE_STR(other));
    const int below = yes->lod_level > no->lod_level ? yes->lod_level : no->lod_level;
    io->out[0] = tr_meta_dense(yes->dtype != TR_DTYPE_NONE ? yes->dtype : no->dtype, shape);
    io->out[0].lod_level = below > 0 ? attrs->level + below : 0;
    return TR_OK;
}

/* `in[1]` is InTrue: each must have a part for each place where the mask says so. `slots` are theirs. */
static tr_status check_sides(const tr_run *io, int mask_slot, const int slots[2])
{
    const bool      *mask = io->in[mask_slot]->data;
    const tr_tensor *in[2] = {io->in[slots[0]], io->in[slots[1]]};
    int64_t          count[2] = {0, 0};

    for (int64_t k = 0; k < tr_tensor_count(io->in[mask_slot]); k++)
        count[mask[k]]++;
    for (int side = 0; side < 2; side++)
        if (tr__parts_of(in[side], 0) != count[side])
            return tr_fail(TR_ESHAPE, "the mask '%s' is %s %" PRId64 " times, but '%s' has %" PRId64 " %s",
                           tr_run_in_name(io, mask_slot, 0), side ? "true" : "false", count[side],
                           tr_run_in_name(io, slots[side], 0), tr__parts_of(in[side], 0),
                           in[side]->lod ? "sequences" : "rows");
    return TR_OK;
}

static tr_status check_merged(const tr_run *io)
{
    const tr_tensor *yes = io->in[M_TRUE], *no = io->in[M_FALSE];

    TR_TRY(check_sides(io, M_MASK, (const int[]){M_FALSE, M_TRUE}));
    if (!tr__rows_agree(no, yes) ||
        (tr__parts_of(no, 0) > 0 && tr__parts_of(yes, 0) > 0 && tr_tensor_lod_levels(no) != tr_tensor_lod_levels(yes)))
        return tr_fail(TR_ESHAPE, "'%s' is %s with %d LoD levels, '%s' is %s with %d: they do not fit together",
                       tr_run_in_name(io, M_TRUE, 0), TR_SHAPE_STR(yes->shape), tr_tensor_lod_levels(yes),
                       tr_run_in_name(io, M_FALSE, 0), TR_SHAPE_STR(no->shape), tr_tensor_lod_levels(no));
    return TR_OK;
}

static tr_status run_merge(const tr_run *io)
{
    const int   level = ((const level_attrs *)io->attrs)->level;
    tr_tensor  *in[2] = {io->in[M_FALSE], io->in[M_TRUE]}, *out = io->out[0];
    const bool *mask = io->in[M_MASK]->data;
    const int64_t n = tr_tensor_count(io->in[M_MASK]);
    int64_t     next[2] = {0, 0};
    tr_pick     pick;

    TR_TRY(check_merged(io));
    const int levels = tr_tensor_lod_levels(in[tr__parts_of(in[1], 0) > 0]);
    const int keep = levels > 0 && level <= tr_tensor_lod_levels(io->in[M_X]) ? level : 0;
    TR_TRY(tr__pick_start(&pick, io, levels, tr__lod_size(in[0]) + tr__lod_size(in[1])));
    for (int64_t k = 0; k < n; k++)
        tr__pick_add(&pick, in[mask[k]], 0, next[mask[k]]++);
    TR_TRY(tr__pick_finish(&pick, out, in[1], io->in[M_X], keep));
    next[0] = next[1] = 0;
    for (int64_t k = 0, row = 0; k < n; k++) {
        const tr_tensor *from = in[mask[k]];
        const int64_t    part = next[mask[k]]++;
        const int64_t    start = tr__part_row(from, 0, part), rows = tr__part_row(from, 0, part + 1) - start;
        tr__copy_rows(out, row, from, start, rows);
        row += rows;
    }
    return TR_OK;
}

enum { MG_MASK, MG_TRUE, MG_FALSE, MG_DOUT };

/* X, which the gradient does not read, would be needed to infer the forward operator. The kernel looks at the rows. */
static tr_status infer_merge_grad(const tr_infer *io)
{
    TR_TRY(check_mask(io, &io->in[MG_MASK]));
    io->out[0] = io->in[MG_TRUE];
    io->out[1] = io->in[MG_FALSE];
    return TR_OK;
}

static tr_status run_merge_grad(const tr_run *io)
{
    const tr_tensor *in[2] = {io->in[MG_FALSE], io->in[MG_TRUE]}, *dout = io->in[MG_DOUT];
    tr_tensor       *dx[2] = {io->out[1], io->out[0]};
    const bool      *mask = io->in[MG_MASK]->data;
    int64_t          next[2] = {0, 0}, row = 0;

    TR_TRY(check_sides(io, MG_MASK, (const int[]){MG_FALSE, MG_TRUE}));
    for (int64_t k = 0; k < tr_tensor_count(io->in[MG_MASK]); k++) {
        const int     side = mask[k];
        const int64_t part = next[side]++;
        const int64_t to = tr__part_row(in[side], 0, part), rows = tr__part_row(in[side], 0, part + 1) - to;
        if (!tr__rows_agree(in[side], dout) || row + rows > dout->shape.dim[0])
            return tr_fail(TR_ESHAPE, "merge_lod_tensor_grad: Out@GRAD is %s", TR_SHAPE_STR(dout->shape));
        if (dx[side])
            tr__copy_rows(dx[side], to, dout, row, rows);
        row += rows;
    }
    return TR_OK;
}

static const tr_grad_rule merge_rule = {
    .op = "merge_lod_tensor_grad",
    .reads = {TR_IN(M_MASK), TR_IN_SHAPE(M_TRUE), TR_IN_SHAPE(M_FALSE), TR_DOUT(0)},
    .makes = {TR_DIN(M_TRUE), TR_DIN(M_FALSE)},
};

TR_REGISTER_OP(merge_lod_tensor, .proto = &merge_proto, .infer = infer_merge, .run = run_merge, .grad = &merge_rule);
TR_REGISTER_OP(merge_lod_tensor_grad, .grad_of = &tr_op_record_merge_lod_tensor, .infer = infer_merge_grad, .run = run_merge_grad);
