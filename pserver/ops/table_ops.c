/* table_ops.c - the operators of sparse tables: lookup_sparse_table and its gradient, expect_rows, lookup_sparse_table_update,
 * pushed_rows.
 *
 * Their variable W holds an object (table_var.h), which lookup_sparse_table_init makes (table_init_op.c). Rows are looked up and updated
 * where it says: in its own table, in files, or in a job, whose servers have them. So a program that is run beside a training finds the
 * trained rows. */
#include "framework/runs/frame.h"
#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/tools/cast.h"
#include "pserver/ops/looked_up.h"
#include "storage/table/pushed_rows.h"
#include "storage/table/table_tile.h"
#include "storage/table/table_var.h"

#include <stdlib.h>
#include <string.h>

enum { W, IDS };
enum { OUT };

static tr_status table_of(tr_table_var **out, const tr_run *io, int slot, const char *op)
{
    return tr_table_var_of(out, tr_var_of(io->in[slot]), op, tr_run_in_name(io, slot, 0));
}

/* == lookup_sparse_table =============================================================================== */

typedef struct lookup_attrs {
    int64_t padding_idx, width;
    bool    is_test;
} lookup_attrs;

static const tr_op_proto lookup_proto = {
    .doc =
        "Looks rows up in a sparse table: Out[i] = the row of key Ids[i]. Rows that no update made have their first values. A table whose "
        "rows the servers of a job have is looked up there. W may also be selected rows; a key that they do not hold is a mistake, or "
        "gives zeros in a test.",
    .in = TR_SLOTS({"W", "the table, or float32 selected rows", TR_SLOT_ANY_KIND}, {"Ids", "[..., 1] int64; any keys"}),
    .out = TR_SLOTS({"Out", "[..., width] float32"}),
    .attr = TR_ATTRS(TR_ATTR(lookup_attrs, padding_idx, LONG, "this key gives zeros and trains nothing; -1 is none", .number = -1),
                     TR_ATTR(lookup_attrs, width, LONG, "values of a row; 0: as selected rows say", .range = TR_AT_LEAST(0)),
                     TR_ATTR_ONLY("auto_grown_table", BOOL, "a key without a row has its first value", .number = 1),
                     TR_ATTR(lookup_attrs, is_test, BOOL, "of selected rows: a key that they do not hold gives zeros")),
    .attrs_size = sizeof(lookup_attrs),
};

static int64_t last_dim(const tr_shape *shape) { return shape->dim[shape->rank - 1]; }

/* The values of a row: as the attribute says, or the shape of selected rows. A table has no shape when the program runs. */
static tr_status width_of(int64_t *out, const tr_infer *io)
{
    const lookup_attrs *a = io->attrs;
    const tr_meta      *w = &io->in[W];

    *out = a->width;
    if (w->kind != TR_KIND_SELECTED_ROWS)
        return *out > 0 ? TR_OK : tr_fail(TR_EINVAL, "%s: of a table the attribute width must say how many values a row has", io->type);
    TR_TRY(tr__check_rank(io, "W", w, 2));
    if (w->dtype != TR_FP32)
        return tr_fail(TR_EDTYPE, "%s: selected rows must be float32, W is %s; lookup_table takes others", io->type,
                       tr_dtype_name(w->dtype));
    if (*out == 0)
        *out = w->shape.dim[1];
    return w->shape.dim[1] == *out ? TR_OK : tr_fail(TR_ESHAPE, "%s: W has rows of %lld values, width is %lld", io->type,
                                                     (long long)w->shape.dim[1], (long long)*out);
}

static tr_status infer_lookup(const tr_infer *io)
{
    int64_t width;

    TR_TRY(width_of(&width, io));
    return tr__looked_up_infer(io, IDS, width);
}

/* Rows of half precision pass through scratch memory on their way out. */
static tr_status look_up_here(const tr_run *io, tr_table_var *tv, const int64_t *keys, int64_t n, float *out)
{
    const int64_t width = tv->config.width;
    tr_table     *table = NULL;
    void         *raw = out;

    if (!tv->mapped)
        TR_TRY(tr_table_var_table(&table, tv));
    if (tv->config.dtype != TR_FP32)
        TR_TRY(tr_run_scratch(&raw, io, (size_t)(n * tr_table_row_bytes(&tv->config)) + 1));
    if (table)
        TR_TRY(tr_table_pull(table, raw, keys, n));
    else
        TR_TRY(tr_mapped_table_pull(tv->mapped, raw, keys, n));
    if (raw != out)
        tr_cast(out, TR_FP32, raw, tv->config.dtype, n * width);
    return TR_OK;
}

static tr_status look_up_in_job(const tr_table_var *tv, const int64_t *keys, int64_t n, float *out)
{
    struct tr_job *job;

    TR_TRY(tr_table_var_job(&job, tv));
    return tv->source->look_up(job, tv->number, n, keys, out);
}

static tr_status run_lookup(const tr_run *io)
{
    const lookup_attrs *a = io->attrs;
    const int64_t      *keys = io->in[IDS]->data;
    const int64_t       n = tr_tensor_count(io->in[IDS]), width = last_dim(&io->out[OUT]->shape);
    float              *out = io->out[OUT]->data;
    tr_table_var       *tv;

    if (io->in[W]->rows)
        return tr__rows_lookup(io, "lookup_sparse_table", W, IDS, a->padding_idx, !a->is_test);
    TR_TRY(table_of(&tv, io, W, "lookup_sparse_table"));
    if (tv->config.width != width)
        return tr_fail(TR_ESHAPE, "lookup_sparse_table: '%s' has rows of %lld values, %lld are wanted", tr_run_in_name(io, W, 0),
                       (long long)tv->config.width, (long long)width);
    TR_TRY(tv->source ? look_up_in_job(tv, keys, n, out) : look_up_here(io, tv, keys, n, out));
    tr__looked_up_clear(out, keys, n, width, a->padding_idx);
    return TR_OK;
}

/* -- its gradient: rows in the order of the keys, without those of the padding --------------------------------- */

enum { G_IDS, G_DOUT };
enum { G_DW };
enum { HEIGHT = INT32_MAX };          /* the height of the gradient, because selected rows have one; it limits nothing */

/* -1: the number of rows is not known before the step. */
static tr_meta rows_of(int64_t count, int64_t width)
{
    const int64_t dims[2] = {count, width};
    tr_meta       meta = tr_meta_dense(TR_FP32, tr_shape_of(2, dims));

    meta.kind = TR_KIND_SELECTED_ROWS;
    meta.height = HEIGHT;
    return meta;
}

/* Make room for `count` rows in the operator's output; *rows is the memory for their keys. */
static tr_status make_rows(int64_t **rows, const tr_run *io, int64_t count, int64_t width)
{
    const tr_shape shape = {.rank = 2, .dim = {count, width}};

    TR_TRY(tr_run_resize(io, 0, 0, TR_FP32, &shape));
    return tr__tensor_reserve_rows(io->out[0], HEIGHT, count, rows);
}

static tr_status infer_lookup_grad(const tr_infer *io)
{
    const lookup_attrs *a = io->attrs;
    const bool          has_padding = a->padding_idx != -1;

    io->out[G_DW] = rows_of(has_padding ? -1 : tr_shape_numel(&io->in[G_IDS].shape), last_dim(&io->in[G_DOUT].shape));
    return TR_OK;
}

static tr_status run_lookup_grad(const tr_run *io)
{
    const lookup_attrs *a = io->attrs;
    const int64_t      *keys = io->in[G_IDS]->data;
    const float        *dout = io->in[G_DOUT]->data;
    const int64_t       n = tr_tensor_count(io->in[G_IDS]), width = last_dim(&io->in[G_DOUT]->shape);
    int64_t             count = 0, *rows;

    if (a->padding_idx == -1) {
        TR_TRY(tr__tensor_reserve_rows(io->out[G_DW], HEIGHT, n, &rows));
        memcpy(rows, keys, (size_t)n * sizeof *rows);
        if (io->out[G_DW]->data != dout)
            memcpy(io->out[G_DW]->data, dout, (size_t)(n * width) * sizeof *dout);
        return TR_OK;
    }
    for (int64_t i = 0; i < n; i++)
        count += keys[i] != a->padding_idx;
    TR_TRY(make_rows(&rows, io, count, width));
    float *to = io->out[G_DW]->data;
    for (int64_t i = 0; i < n; i++) {
        if (keys[i] == a->padding_idx)
            continue;
        *rows++ = keys[i];
        memcpy(to, dout + i * width, (size_t)width * sizeof *to);
        to += width;
    }
    return TR_OK;
}

static const tr_grad_rule lookup_rule = {
    .op = "lookup_sparse_table_grad", .reads = {TR_IN(IDS), TR_DOUT(OUT)}, .makes = {TR_DIN(W)},
};

/* == expect_rows ========================================================================================= */

enum { E_W, E_IDS };

static const tr_op_proto expect_proto = {
    .doc = "Says which rows of a table lookups will want soon. Rows that lie on disk are read meanwhile. It does nothing for other tables.",
    .in = TR_SLOTS({"W", "the table", TR_SLOT_ANY_KIND}, {"Ids", "[...] int64; keys of the lookups"}),
};

static tr_status run_expect(const tr_run *io)
{
    const tr_tensor *ids = io->in[E_IDS];
    tr_table_var    *tv;

    TR_TRY(table_of(&tv, io, E_W, "expect_rows"));
    if (ids->dtype != TR_INT64)
        return tr_fail(TR_EDTYPE, "expect_rows: '%s' is %s; keys are int64", tr_run_in_name(io, E_IDS, 0), tr_dtype_name(ids->dtype));
    return tv->table ? tr_table_expect(tv->table, ids->data, tr_tensor_count(ids)) : TR_OK;
}

/* == lookup_sparse_table_update ========================================================================== */

enum { U_W, U_GRAD, U_NUMBERS };

typedef struct update_attrs {
    int32_t     sub_block;
    const char *param, *grad;
    tr_strings  states;
    bool        is_merged;
} update_attrs;

static const tr_op_proto update_proto = {
    .doc = "Updates the rows of a sparse table that Grad names, by the operators of sub_block, some rows at a time. Repeated keys "
           "add up first. On a server Grad may be what the trainers have pushed, as it came.",
    .in = TR_SLOTS({"W", "the table", TR_SLOT_ANY_KIND}, {"Grad", "[n, width] float32, selected rows; or pushed rows", TR_SLOT_ANY_KIND},
                   {"Numbers", "[1]; what the operators read beside rows: learning rate, powers of beta",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(update_attrs, sub_block, BLOCK, "the optimizer's operators, on a tile of rows", .required = true),
                     TR_ATTR(update_attrs, param, STRING, "the tile's values in sub_block", .required = true),
                     TR_ATTR(update_attrs, grad, STRING, "its gradients", .required = true),
                     TR_ATTR(update_attrs, states, STRINGS, "its states, in the table's order"),
                     TR_ATTR(update_attrs, is_merged, BOOL, "no key comes twice in Grad")),
    .attrs_size = sizeof(update_attrs),
};

static tr_status tile_of(tr_table_tile **out, const tr_run *io, tr_table_var *tv)
{
    const update_attrs       *a = io->attrs;
    tr_plan                  *plan = io->frame->plan;
    const tr_table_tile_names names = {a->param, a->grad, a->states};

    if (!tv->tile || tv->tile_program != plan->program->id || tv->tile_revision != plan->revision) {
        tr_table_tile_free(tv->tile);
        tv->tile = NULL;
        TR_TRY(tr_table_tile_new(&tv->tile, plan->program, a->sub_block, &names, &tv->config));
        tv->tile_program = plan->program->id;
        tv->tile_revision = plan->revision;
    }
    *out = tv->tile;
    return TR_OK;
}

/* Find the table to update. In mode geo a trainer updates its own copy, which the job has; otherwise the variable's table. */
static tr_status begin_update(tr_table **out, tr_table_var *tv, const tr_rows *rows)
{
    struct tr_job *job = NULL;

    *out = NULL;
    if (tv->source)
        TR_TRY(tr_table_var_job(&job, tv));
    if (job && rows)
        TR_TRY(tv->source->own_table(out, job, tv->number, rows->count, rows->index));
    if (*out)
        return TR_OK;                              /* one update lasts from one exchange to the next */
    TR_TRY(tr_table_var_table(out, tv));
    return tr_table_tile_begin(*out, ++tv->updates);
}

static tr_status update_rows(tr_table_var *tv, tr_table_tile *tile, tr_table *table, const tr_rows_update *update)
{
    if (!tr_rows_are_merged(update)) {
        TR_TRY(tr_rows_merge_run(&tv->merge, update, tv->config.width));
        return tr_table_tile_run(tile, table, tv->merge.set.keys, tv->merge.hints, tv->merge.values, tv->merge.set.count);
    }
    for (int i = 0; i < update->count; i++) {
        const tr_rows_part *part = &update->part[i];
        TR_TRY(tr_table_tile_run(tile, table, part->keys, part->hints, part->values, part->count));
    }
    return TR_OK;
}

static tr_status run_update(const tr_run *io)
{
    const update_attrs *a = io->attrs;
    const tr_tensor    *grad = io->in[U_GRAD];
    const tr_pushed_rows *pushed = tr_pushed_rows_of(tr_var_of(io->in[U_GRAD]));
    tr_table_var       *tv;
    tr_table           *table;
    tr_table_tile      *tile = NULL;

    TR_TRY(table_of(&tv, io, U_W, "lookup_sparse_table_update"));
    if (!pushed && !grad->rows)
        return tr_fail(TR_EINVAL, "lookup_sparse_table_update: gradient '%s' has no rows", tr_run_in_name(io, U_GRAD, 0));
    TR_TRY(tile_of(&tile, io, tv));
    const tr_rows       *rows = pushed ? NULL : grad->rows;
    const tr_rows_part   mine = {.weight = 1, .count = rows ? rows->count : 0, .keys = rows ? rows->index : NULL, .values = grad->data,
                                 .is_merged = a->is_merged};
    const tr_rows_update here = {1, &mine};
    for (int i = 0; i < io->ins[U_NUMBERS].count; i++)
        TR_TRY(tr_table_tile_set(tile, tr_run_in_name(io, U_NUMBERS, i), io->ins[U_NUMBERS].item[i]));
    TR_TRY(begin_update(&table, tv, rows));
    const tr_status status = update_rows(tv, tile, table, pushed ? pushed->update : &here);
    return status == TR_OK ? TR_OK : tr_context(status, "in an update of the sparse table '%s'", tr_run_in_name(io, U_W, 0));
}

/* == pushed_rows =========================================================================================== */

typedef struct pushed_attrs {
    int64_t width;
} pushed_attrs;

static const tr_op_proto pushed_proto = {
    .doc = "On a server: the gradient of this update for a sparse table's rows that are here, as the trainers have pushed it, each row "
           "once. Stands where something is done to the gradient before lookup_sparse_table_update.",
    .in = TR_SLOTS({"X", "pushed rows", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "[n, width] float32, selected rows"}),
    .attr = TR_ATTRS(TR_ATTR(pushed_attrs, width, LONG, "values of a row", .required = true, .range = TR_AT_LEAST(1))),
    .attrs_size = sizeof(pushed_attrs),
};

static tr_status infer_pushed(const tr_infer *io)
{
    const pushed_attrs *a = io->attrs;

    io->out[OUT] = rows_of(-1, a->width);
    return TR_OK;
}

static tr_status run_pushed(const tr_run *io)
{
    tr_pushed_rows *pushed = tr_pushed_rows_of(tr_var_of(io->in[0]));
    const int64_t   width = ((const pushed_attrs *)io->attrs)->width;
    int64_t        *keys;

    if (!pushed)
        return tr_fail(TR_EINVAL, "pushed_rows: nobody pushes rows to '%s': this is no server", tr_run_in_name(io, 0, 0));
    TR_TRY(tr_rows_merge_run(&pushed->merge, pushed->update, width));
    const int64_t count = pushed->merge.set.count;
    TR_TRY(make_rows(&keys, io, count, width));
    if (count) {
        memcpy(keys, pushed->merge.set.keys, (size_t)count * sizeof *keys);
        memcpy(io->out[OUT]->data, pushed->merge.values, (size_t)(count * width) * sizeof(float));
    }
    return TR_OK;
}

/* == registration ============================================================================================ */

TR_REGISTER_OP(lookup_sparse_table, .proto = &lookup_proto, .infer = infer_lookup, .run = run_lookup, .grad = &lookup_rule,
               .key = TR_KEY_IN_SLOT, .key_slot = IDS);
TR_REGISTER_OP(lookup_sparse_table_grad, .grad_of = &tr_op_record_lookup_sparse_table, .infer = infer_lookup_grad,
               .run = run_lookup_grad, .key = TR_KEY_IN_SLOT, .key_slot = G_DOUT, .inplace = {{G_DOUT, G_DW}}, .inplace_count = 1);
TR_REGISTER_OP(expect_rows, .proto = &expect_proto, .run = run_expect, .has_effect = true);
TR_REGISTER_OP(lookup_sparse_table_update, .proto = &update_proto, .run = run_update, .has_effect = true);
TR_REGISTER_OP(pushed_rows, .proto = &pushed_proto, .infer = infer_pushed, .run = run_pushed, .has_effect = true, .io = TR_IO_PEERS);
