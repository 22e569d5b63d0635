/* rank_table.c - lod_rank_table, and what is read from a table alone: max_sequence_len, shrink_rnn_memory,
 * reorder_lod_tensor_by_rank. */
#include "framework/gradients/grad_second.h"
#include "kernels/tensor_arrays/rank_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tensor_arrays/lod_pick.h"
#include "kernels/tensor_arrays/tensor_array.h"

/* -- the table -------------------------------------------------------------------------------- */

tr_status tr__check_rank_table(const tr_infer *io, const char *slot, const tr_meta *meta)
{
    if (meta->kind != TR_KIND_RANK_TABLE)
        return tr_fail(TR_EINVAL, "%s: %s must come from lod_rank_table", io->type, slot);
    return TR_OK;
}

tr_status tr__rank_table_of(const tr_rank_table **out, const tr_run *io, int slot)
{
    const tr_var *var = tr_var_of(io->in[slot]);

    *out = var->kind == TR_KIND_RANK_TABLE ? var->object : NULL;
    return *out ? TR_OK : tr_fail(TR_ENOTFOUND, "rank table '%s' has no value yet", tr_run_in_name(io, slot, 0));
}

int64_t tr__rank_table_active(const tr_rank_table *table, int64_t step)
{
    int64_t low = 0, high = table->count;      /* ranks below `low` are longer, those from `high` on are not */

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (table->rank[middle].length > step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t tr__rank_table_steps(const tr_rank_table *table)
{
    return table->count > 0 ? table->rank[0].length : 0;
}

static void table_free(void *object)
{
    tr_rank_table *table = object;

    tr_tensor_deinit(&table->source);
    free(table->rank);
    free(table->place);
    free(table);
}

/* The table of a variable; NULL: no memory. */
static tr_rank_table *table_of(tr_var *var)
{
    if (var->kind != TR_KIND_RANK_TABLE) {
        tr_rank_table *fresh = calloc(1, sizeof *fresh);
        if (!fresh)
            return NULL;
        tr_tensor_init(&fresh->source);
        tr__var_set_object(var, TR_KIND_RANK_TABLE, fresh, table_free);
    }
    return var->object;
}

static tr_status table_reserve(tr_rank_table *table, int64_t count)
{
    if (!table)
        return tr_fail(TR_ENOMEM, "no memory for a rank table");
    if (count <= table->capacity)
        return TR_OK;
    tr__tensor_count_allocation();
    free(table->rank);
    free(table->place);
    table->count = table->capacity = 0;
    table->rank = malloc((size_t)count * sizeof *table->rank);
    table->place = malloc((size_t)count * sizeof *table->place);
    if (!table->rank || !table->place)
        return tr_fail(TR_ENOMEM, "no memory for a rank table of %" PRId64 " sequences", count);
    table->capacity = count;
    return TR_OK;
}

static bool comes_later(const tr_rank *x, const tr_rank *y)
{
    return x->length != y->length ? x->length < y->length : x->index > y->index;
}

/* Let rank[i] sink below those that come later, in the heap of the first `count`. */
static void sink(tr_rank *rank, int64_t i, int64_t count)
{
    const tr_rank moving = rank[i];

    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && comes_later(&rank[child + 1], &rank[child]))
            child++;
        if (!comes_later(&rank[child], &moving))
            break;
        rank[i] = rank[child];
    }
    rank[i] = moving;
}

/* Longest first, equally long ones in their order. Heapsort (Williams, 1964), as qsort may allocate. */
static void sort_ranks(tr_rank *rank, int64_t count)
{
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sink(rank, i, count);
    for (int64_t last = count - 1; last > 0; last--) {
        const tr_rank top = rank[0];
        rank[0] = rank[last];
        rank[last] = top;
        sink(rank, 0, last);
    }
}

/* -- lod_rank_table --------------------------------------------------------------------------- */

typedef struct table_attrs {
    int32_t level;
} table_attrs;

static const tr_op_proto table_proto = {
    .doc = "The sequences of X from the longest to the shortest.",
    .in = TR_SLOTS({"X", "a tensor with LoD; only that is read"}),
    .out = TR_SLOTS({"Out", "the table"}),
    TR_ATTRS_OF(table_attrs, TR_ATTR(table_attrs, level, INT, "the LoD level whose sequences are ranked",
                                     .range = TR_AT_LEAST(0))),
};

/* The table's own lod_level says how many levels lie above the sequences that it ranks. */
static tr_status infer_table(const tr_infer *io)
{
    const table_attrs *attrs = io->attrs;

    io->out[0].kind = TR_KIND_RANK_TABLE;
    io->out[0].lod_level = attrs->level;
    return TR_OK;
}

static tr_status run_table(const tr_run *io)
{
    const table_attrs *attrs = io->attrs;
    const tr_tensor   *x = io->in[0];
    tr_rank_table     *table = table_of(tr_var_of(io->out[0]));

    if (attrs->level >= tr_tensor_lod_levels(x))
        return tr_fail(TR_EINVAL, "'%s' has %d LoD levels, so there is no level %d to rank", tr_run_in_name(io, 0, 0),
                       tr_tensor_lod_levels(x), (int)attrs->level);
    const int64_t *offset = tr_tensor_lod_offsets(x, attrs->level);
    const int64_t  count = tr_tensor_lod_count(x, attrs->level) - 1;
    TR_TRY(table_reserve(table, count));
    for (int64_t i = 0; i < count; i++)
        table->rank[i] = (tr_rank){i, offset[i + 1] - offset[i]};
    sort_ranks(table->rank, count);
    for (int64_t r = 0; r < count; r++)
        table->place[table->rank[r].index] = r;
    table->count = count;
    table->level = attrs->level;
    return tr__tensor_copy_lod(&table->source, x);
}

TR_REGISTER_OP(lod_rank_table, .proto = &table_proto, .infer = infer_table, .run = run_table);

/* -- max_sequence_len ------------------------------------------------------------------------- */

static const tr_op_proto max_proto = {
    .doc = "Out = the length of the longest sequence",
    .in = TR_SLOTS({"RankTable", "from lod_rank_table", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "[1] int64"}),
};

static tr_status infer_max(const tr_infer *io)
{
    TR_TRY(tr__check_rank_table(io, "RankTable", &io->in[0]));
    io->out[0] = tr_meta_dense(TR_INT64, TR_SHAPE(1));
    return TR_OK;
}

static tr_status run_max(const tr_run *io)
{
    const tr_rank_table *table;

    TR_TRY(tr__rank_table_of(&table, io, 0));
    *(int64_t *)io->out[0]->data = tr__rank_table_steps(table);
    return TR_OK;
}

TR_REGISTER_OP(max_sequence_len, .proto = &max_proto, .infer = infer_max, .run = run_max);

/* -- shrink_rnn_memory ------------------------------------------------------------------------ */

enum { S_X, S_TABLE, S_I };

static const tr_op_proto shrink_proto = {
    .doc = "Out = what X has of the sequences that are longer than I: its first rows, or sequences.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", "; a row, or a sequence, for each sequence, longest first"),
                   {"RankTable", "from lod_rank_table", TR_SLOT_ANY_KIND},
                   {"I", "[1] int64; the step"}),
    .out = TR_SLOTS({"Out", "like X, but shorter"}),
};

/* Out is like X, with any number of rows. */
static tr_status infer_fewer_rows(const tr_infer *io)
{
    TR_TRY(tr__check_rank_table(io, "RankTable", &io->in[S_TABLE]));
    io->out[0] = tr_meta_dense(io->in[S_X].dtype, io->in[S_X].shape);
    io->out[0].shape.dim[0] = -1;
    io->out[0].lod_level = io->in[S_X].lod_level;
    return TR_OK;
}

static tr_status active_parts(int64_t *out, const tr_run *io)
{
    const tr_rank_table *table;
    int64_t              step;

    TR_TRY(tr__rank_table_of(&table, io, S_TABLE));
    TR_TRY(tr__read_index(&step, io, S_I));
    *out = tr__rank_table_active(table, step);
    if (*out > tr__parts_of(io->in[S_X], 0))
        return tr_fail(TR_ESHAPE, "'%s' is for %" PRId64 " sequences, but %" PRId64 " are longer than step %" PRId64,
                       tr_run_in_name(io, S_X, 0), tr__parts_of(io->in[S_X], 0), *out, step);
    return TR_OK;
}

static tr_status run_shrink(const tr_run *io)
{
    const tr_tensor *x = io->in[S_X];
    tr_tensor       *out = io->out[0];
    int64_t          active;
    tr_pick          pick;

    TR_TRY(active_parts(&active, io));
    TR_TRY(tr__pick_start(&pick, io, tr_tensor_lod_levels(x), tr__lod_size(x)));
    for (int64_t k = 0; k < active; k++)
        tr__pick_add(&pick, x, 0, k);
    TR_TRY(tr__pick_finish(&pick, out, x, NULL, 0));
    tr__copy_rows(out, 0, x, 0, pick.rows);
    return TR_OK;
}

static tr_status run_shrink_grad(const tr_run *io)
{
    enum { DOUT = S_I + 1 };
    tr_tensor *dx = io->out[0];
    int64_t    active;

    TR_TRY(active_parts(&active, io));
    const int64_t rows = tr__part_row(io->in[S_X], 0, active);
    if (!tr__rows_agree(dx, io->in[DOUT]) || io->in[DOUT]->shape.dim[0] != rows)
        return tr_fail(TR_ESHAPE, "shrink_rnn_memory_grad: Out@GRAD is %s, but Out had %" PRId64 " rows",
                       TR_SHAPE_STR(io->in[DOUT]->shape), rows);
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    tr__copy_rows(dx, 0, io->in[DOUT], 0, rows);
    return TR_OK;
}

static const tr_grad_rule shrink_rule = {
    .op = "shrink_rnn_memory_grad", .reads = {TR_IN_SHAPE(S_X), TR_IN(S_TABLE), TR_IN(S_I), TR_DOUT(0)},
    .makes = {TR_DIN(S_X)},
};

TR_REGISTER_OP(shrink_rnn_memory, .proto = &shrink_proto, .infer = infer_fewer_rows, .run = run_shrink,
               .grad = &shrink_rule);
TR_REGISTER_OP(shrink_rnn_memory_grad, .grad_of = &tr_op_record_shrink_rnn_memory, .run = run_shrink_grad);

/* -- reorder_lod_tensor_by_rank --------------------------------------------------------------- */

enum { O_X, O_TABLE };

static const tr_op_proto reorder_proto = {
    .doc = "Out = the sequences of X (or its rows, if it has none) in the order of the table.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", "; a row, or a sequence, for each sequence"),
                   {"RankTable", "from lod_rank_table", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "like X"}),
};

static tr_status table_for(const tr_rank_table **out, const tr_run *io)
{
    const tr_tensor *x = io->in[O_X];

    TR_TRY(tr__rank_table_of(out, io, O_TABLE));
    if (tr__parts_of(x, 0) != (*out)->count)
        return tr_fail(TR_ESHAPE, "the table ranks %" PRId64 " sequences, but '%s' has %" PRId64 " %s", (*out)->count,
                       tr_run_in_name(io, O_X, 0), tr__parts_of(x, 0), x->lod ? "sequences" : "rows");
    return TR_OK;
}

static tr_status run_reorder(const tr_run *io)
{
    const tr_tensor     *x = io->in[O_X];
    tr_tensor           *out = io->out[0];
    const tr_rank_table *table;
    tr_pick              pick;

    TR_TRY(table_for(&table, io));
    TR_TRY(tr__pick_start(&pick, io, tr_tensor_lod_levels(x), tr__lod_size(x)));
    for (int64_t r = 0; r < table->count; r++)
        tr__pick_add(&pick, x, 0, table->rank[r].index);
    TR_TRY(tr__pick_finish(&pick, out, x, NULL, 0));
    for (int64_t r = 0, row = 0; r < table->count; r++) {
        const int64_t from = tr__part_row(x, 0, table->rank[r].index);
        const int64_t rows = tr__part_row(x, 0, table->rank[r].index + 1) - from;
        tr__copy_rows(out, row, x, from, rows);
        row += rows;
    }
    return TR_OK;
}

static tr_status run_reorder_grad(const tr_run *io)
{
    enum { DOUT = O_TABLE + 1 };
    const tr_tensor     *x = io->in[O_X], *dout = io->in[DOUT];
    tr_tensor           *dx = io->out[0];
    const tr_rank_table *table;

    TR_TRY(table_for(&table, io));
    if (!tr__rows_agree(dx, dout) || dout->shape.dim[0] != x->shape.dim[0])
        return tr_fail(TR_ESHAPE, "reorder_lod_tensor_by_rank_grad: X is %s, but Out@GRAD is %s", TR_SHAPE_STR(x->shape),
                       TR_SHAPE_STR(dout->shape));
    for (int64_t r = 0, row = 0; r < table->count; r++) {
        const int64_t to = tr__part_row(x, 0, table->rank[r].index);
        const int64_t rows = tr__part_row(x, 0, table->rank[r].index + 1) - to;
        tr__copy_rows(dx, to, dout, row, rows);
        row += rows;
    }
    return TR_OK;
}

static const tr_grad_rule reorder_rule = {
    .op = "reorder_lod_tensor_by_rank_grad", .reads = {TR_IN_SHAPE(O_X), TR_IN(O_TABLE), TR_DOUT(0)},
    .makes = {TR_DIN(O_X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(reorder_lod_tensor_by_rank, .proto = &reorder_proto, .infer = infer_fewer_rows, .run = run_reorder,
               .grad = &reorder_rule);
TR_REGISTER_OP(reorder_lod_tensor_by_rank_grad, .grad_of = &tr_op_record_reorder_lod_tensor_by_rank,
               .run = run_reorder_grad);
