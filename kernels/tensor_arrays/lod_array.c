/* lod_array.c - between a tensor of sequences and the array of its steps: lod_tensor_to_array, array_to_lod_tensor.
 *
 * Element t of the array has step t of every sequence that is longer than t, in the order of a rank table: a row of
 * each, or, where the tensor has more LoD levels than the table's, a sequence of each. So a recurrent net works on
 * the whole batch at every step, without padding. */
#include <inttypes.h>
#include <string.h>

#include "framework/runs/frame.h"
#include "kernels/base/check.h"
#include "kernels/tensor_arrays/lod_pick.h"
#include "kernels/tensor_arrays/rank_table.h"
#include "kernels/tensor_arrays/tensor_array.h"

enum { X, TABLE, DOUT };

/* Step t of the sequence at rank r, as a part of x one level below the table's. */
static int64_t part_of_step(const tr_tensor *x, const tr_rank_table *table, int64_t r, int64_t t)
{
    return tr_tensor_lod_offsets(x, table->level)[table->rank[r].index] + t;
}

static tr_status check_source(const tr_run *io, const tr_rank_table *table)
{
    const tr_tensor *x = io->in[X];
    const int64_t   *offset = tr_tensor_lod_offsets(x, table->level);
    bool             fits = tr_tensor_lod_count(x, table->level) == table->count + 1;

    for (int64_t r = 0; fits && r < table->count; r++)
        fits = offset[table->rank[r].index + 1] - offset[table->rank[r].index] == table->rank[r].length;
    if (!fits)
        return tr_fail(TR_ESHAPE, "the sequences of '%s' are not those that '%s' ranks", tr_run_in_name(io, X, 0),
                       tr_run_in_name(io, TABLE, 0));
    return TR_OK;
}

/* -- lod_tensor_to_array ------------------------------------------------------------------------ */

static const tr_op_proto to_array_proto = {
    .doc = "Out[t] = step t of every sequence of X that is longer than t, the longest sequence first.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " with the LoD that the table was made from"),
                   {"RankTable", "from lod_rank_table", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "a tensor array; if all sequences are empty, it has one element without rows"}),
};

static tr_status infer_to_array(const tr_infer *io)
{
    tr_meta element = io->in[X];

    TR_TRY(tr__check_dense(io, "X", &io->in[X]));
    TR_TRY(tr__check_rank_table(io, "RankTable", &io->in[TABLE]));
    element.shape.dim[0] = -1;
    const int levels = io->in[X].lod_level - io->in[TABLE].lod_level - 1;
    element.lod_level = levels > 0 ? levels : 0;
    return tr__array_meta(&io->out[0], io, "Out", &element);
}

static tr_status write_step(const tr_run *io, const tr_rank_table *table, int64_t t)
{
    const tr_tensor *x = io->in[X];
    const int        level = table->level + 1;
    const int64_t    active = tr__rank_table_active(table, t);
    tr_tensor       *item;
    tr_pick          pick;

    TR_TRY(tr__pick_start(&pick, io, tr_tensor_lod_levels(x) - level, tr__lod_size(x)));
    for (int64_t r = 0; r < active; r++)
        tr__pick_add(&pick, x, level, part_of_step(x, table, r, t));
    TR_TRY(tr__var_array_at(&item, tr_var_of(io->out[0]), t));
    TR_TRY(tr__pick_finish(&pick, item, x, NULL, 0));
    for (int64_t r = 0, row = 0; r < active; r++) {
        const int64_t k = part_of_step(x, table, r, t), from = tr__part_row(x, level, k);
        const int64_t rows = tr__part_row(x, level, k + 1) - from;
        tr__copy_rows(item, row, x, from, rows);
        row += rows;
    }
    return TR_OK;
}

static tr_status run_to_array(const tr_run *io)
{
    const tr_rank_table *table;

    TR_TRY(tr__rank_table_of(&table, io, TABLE));
    TR_TRY(check_source(io, table));
    tr__var_array_clear(tr_var_of(io->out[0]));
    const int64_t steps = tr__rank_table_steps(table);
    for (int64_t t = 0; t < steps || t == 0; t++)
        TR_TRY(write_step(io, table, t));
    return TR_OK;
}

enum { DX, ARRAY };

static const tr_op_proto to_array_grad_proto = {
    .doc = "X@GRAD = the gradients of the elements, put back in place; zeros where there are none.",
    .in = TR_SLOTS({"X", "what was taken apart; only its shape and LoD are read"}, {"RankTable", "the same as forward", TR_SLOT_ANY_KIND},
                   {"Out@GRAD", "the array's gradient", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"X@GRAD", "like X", TR_SLOT_OPTIONAL}, {"Array", "Out@GRAD, whose elements are empty afterwards"}),
};

static tr_status infer_to_array_grad(const tr_infer *io)
{
    if (io->out[DX].kind != TR_KIND_NONE)
        io->out[DX] = io->in[X];
    return TR_OK;
}

static tr_status take_step_grad(const tr_run *io, const tr_rank_table *table, int64_t t, const tr_tensor *item)
{
    const tr_tensor *x = io->in[X];
    const int        level = table->level + 1;
    const int64_t    active = tr__rank_table_active(table, t);
    int64_t          row = 0;

    for (int64_t r = 0; r < active; r++) {
        const int64_t k = part_of_step(x, table, r, t), to = tr__part_row(x, level, k);
        const int64_t rows = tr__part_row(x, level, k + 1) - to;
        if (!tr__rows_agree(io->out[DX], item) || row + rows > item->shape.dim[0])
            return tr_fail(TR_ESHAPE, "lod_tensor_to_array_grad: the gradient of element %" PRId64 " is %s", t,
                           TR_SHAPE_STR(item->shape));
        tr__copy_rows(io->out[DX], to, item, row, rows);
        row += rows;
    }
    return TR_OK;
}

static tr_status run_to_array_grad(const tr_run *io)
{
    const tr_rank_table *table;
    tr_tensor           *dx = io->out[DX];

    TR_TRY(tr__rank_table_of(&table, io, TABLE));
    if (dx) {
        TR_TRY(check_source(io, table));
        memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    }
    const int64_t steps = tr__rank_table_steps(table);
    for (int64_t t = 0; t < steps; t++) {
        tr_tensor *item = tr__array_find(io->out[ARRAY], t);
        if (item && dx)
            TR_TRY(take_step_grad(io, table, t, item));
        if (item)
            tr__tensor_forget(item);
    }
    return TR_OK;
}

static tr_status make_to_array_grad(tr_grad_maker *maker)
{
    return tr__make_taking_grad(maker, "lod_tensor_to_array_grad");
}

static const tr_grad_rule to_array_rule = {.make = make_to_array_grad};

TR_REGISTER_OP(lod_tensor_to_array, .proto = &to_array_proto, .infer = infer_to_array, .run = run_to_array,
               .grad = &to_array_rule);
TR_REGISTER_OP(lod_tensor_to_array_grad, .proto = &to_array_grad_proto, .infer = infer_to_array_grad,
               .run = run_to_array_grad);

/* -- array_to_lod_tensor ------------------------------------------------------------------------ */

static const tr_op_proto to_tensor_proto = {
    .doc = "Puts together again what lod_tensor_to_array takes apart: sequence i of Out has, step by step, what the "
           "elements of X have of it.",
    .in = TR_SLOTS({"X", "a tensor array, an element for each step", TR_SLOT_ANY_KIND}, {"RankTable", "from lod_rank_table", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "with the LoD that the table was made from, and below it the elements'"}),
};

static tr_status infer_to_tensor(const tr_infer *io)
{
    TR_TRY(tr__check_array(io, "X", &io->in[X]));
    TR_TRY(tr__check_rank_table(io, "RankTable", &io->in[TABLE]));
    io->out[0] = tr_meta_dense(io->in[X].dtype, io->in[X].shape);
    if (io->out[0].shape.rank > 0)
        io->out[0].shape.dim[0] = -1;
    io->out[0].lod_level = io->in[TABLE].lod_level + 1 + io->in[X].lod_level;
    return TR_OK;
}

/* Element t has a part for each sequence that is longer than t, and is like element 0. */
static tr_status check_elements(int64_t *most, const tr_run *io, const tr_rank_table *table)
{
    const int64_t steps = tr__rank_table_steps(table);
    tr_tensor    *first = NULL, *item;

    *most = 0;
    for (int64_t t = 0; t < steps; t++) {
        TR_TRY(tr__array_get(&item, io, X, t));
        first = first ? first : item;
        if (tr__parts_of(item, 0) != tr__rank_table_active(table, t))
            return tr_fail(TR_ESHAPE, "element %" PRId64 " of '%s' has %" PRId64 " %s, but %" PRId64
                           " sequences are longer than that", t, tr_run_in_name(io, X, 0), tr__parts_of(item, 0),
                           item->lod ? "sequences" : "rows", tr__rank_table_active(table, t));
        if (!tr__rows_agree(item, first) || tr_tensor_lod_levels(item) != tr_tensor_lod_levels(first))
            return tr_fail(TR_ESHAPE, "element %" PRId64 " of '%s' is %s, but element 0 is %s", t,
                           tr_run_in_name(io, X, 0), TR_SHAPE_STR(item->shape), TR_SHAPE_STR(first->shape));
        *most += tr__lod_size(item);
    }
    return TR_OK;
}

/* The elements' type and shape, when there is no step: an element without rows, or as the program declares it. */
static void describe_elements(tr_tensor *out, const tr_run *io)
{
    const tr_tensor *item = tr__array_find(io->in[X], 0);

    *out = (tr_tensor){.dtype = TR_FP32, .shape = TR_SHAPE(0)};
    if (item) {
        out->dtype = item->dtype;
        out->shape = item->shape;
        return;
    }
    const tr_meta meta = tr__meta_of_desc(io->frame->plan->var[io->step->arg[X]].desc);
    if (meta.dtype != TR_DTYPE_NONE && meta.shape.rank > 0)
        *out = (tr_tensor){.dtype = meta.dtype, .shape = meta.shape};
    for (int d = 0; d < out->shape.rank; d++)
        out->shape.dim[d] = out->shape.dim[d] < 0 ? 0 : out->shape.dim[d];
}

/* For every sequence in its order, for each of its steps. */
#define EACH_STEP(table, i, r, t)                                                     \
    for (int64_t i = 0, r; i < (table)->count && (r = (table)->place[i], true); i++)  \
        for (int64_t t = 0; t < (table)->rank[r].length; t++)

static tr_status run_to_tensor(const tr_run *io)
{
    const tr_rank_table *table;
    tr_tensor           *out = io->out[0], like;
    int64_t              most, row = 0;
    tr_pick              pick;

    TR_TRY(tr__rank_table_of(&table, io, TABLE));
    TR_TRY(check_elements(&most, io, table));
    tr_tensor *const array = io->in[X];
    const tr_tensor *first = tr__array_find(array, 0);
    TR_TRY(tr__pick_start(&pick, io, first ? tr_tensor_lod_levels(first) : 0, most + 1));
    EACH_STEP(table, i, r, t)
        tr__pick_add(&pick, tr__array_find(array, t), 0, r);
    describe_elements(&like, io);
    TR_TRY(tr__pick_finish(&pick, out, &like, &table->source, table->level + 1));
    EACH_STEP(table, i, r, t) {
        const tr_tensor *item = tr__array_find(array, t);
        const int64_t    from = tr__part_row(item, 0, r), rows = tr__part_row(item, 0, r + 1) - from;
        tr__copy_rows(out, row, item, from, rows);
        row += rows;
    }
    return TR_OK;
}

static tr_status run_to_tensor_grad(const tr_run *io)
{
    const tr_rank_table *table;
    tr_var              *grads = tr_var_of(io->out[0]);
    const tr_tensor     *dout = io->in[DOUT];
    int64_t              most, row = 0;

    TR_TRY(tr__rank_table_of(&table, io, TABLE));
    TR_TRY(check_elements(&most, io, table));
    const int64_t steps = tr__rank_table_steps(table);
    for (int64_t t = 0; t < steps; t++) {
        tr_tensor *item;
        TR_TRY(tr__var_array_at(&item, grads, t));
        if (item->dtype == TR_DTYPE_NONE)
            TR_TRY(tr__zeros_like(item, tr__array_find(io->in[X], t)));
    }
    EACH_STEP(table, i, r, t) {
        const tr_tensor *element = tr__array_find(io->in[X], t);
        const int64_t    to = tr__part_row(element, 0, r), rows = tr__part_row(element, 0, r + 1) - to;
        if (row + rows > dout->shape.dim[0] || !tr__rows_agree(element, dout))
            return tr_fail(TR_ESHAPE, "array_to_lod_tensor_grad: Out@GRAD is %s", TR_SHAPE_STR(dout->shape));
        TR_TRY(tr__add_rows(grads->item[t], to, dout, row, rows));
        row += rows;
    }
    return TR_OK;
}

static const tr_grad_rule to_tensor_rule = {
    .op = "array_to_lod_tensor_grad", .reads = {TR_IN(X), TR_IN(TABLE), TR_DOUT(0)}, .makes = {TR_DIN(X)},
};

TR_REGISTER_OP(array_to_lod_tensor, .proto = &to_tensor_proto, .infer = infer_to_tensor, .run = run_to_tensor,
               .grad = &to_tensor_rule);
TR_REGISTER_OP(array_to_lod_tensor_grad, .grad_of = &tr_op_record_array_to_lod_tensor, .run = run_to_tensor_grad);
