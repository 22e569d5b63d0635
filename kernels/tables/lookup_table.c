/* lookup_table.c - rows of an embedding table:  Out[i] = W[Ids[i]], zeros where Ids[i] is padding_idx.
 *
 * W may be selected rows: the rows of a larger table that a program holds, found by their numbers.
 *
 * The gradient of W is selected rows (is_sparse: one row for each id, repeated ids included, in the order of Ids) or
 * a dense table with the rows added up. It reads W's shape alone: a table may be updated before its gradient exists. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { W, IDS };
enum { OUT };
enum { G_W, G_IDS, G_DOUT };
enum { G_DW };

typedef struct attrs {
    bool    is_sparse;
    int64_t padding_idx;
} attrs;

static const tr_op_proto proto = {
    .doc = "Looks rows up in an embedding table: Out[i] = W[Ids[i]].",
    .in = TR_SLOTS(TR_SLOT("W", "[height, width]", " float; the table, or selected rows of it", TR_SLOT_ROWS),
                   TR_SLOT("Ids", "[..., n]", " int64, the last dimension 1; row numbers", TR_SLOT_INT64)),
    .out = TR_SLOTS({"Out", "[..., width]"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, is_sparse, BOOL, "the gradient of W is selected rows"),
                       TR_ATTR_IGNORED("is_distributed", BOOL),
                       TR_ATTR(attrs, padding_idx, LONG, "this id gives zeros and trains nothing; -1 is none",
                               .number = -1),
                       TR_ATTR_IGNORED("grad_inplace", BOOL),
                       TR_ATTR_ONLY("remote_prefetch", BOOL, "rows of a table on servers need trireme.distributed"),
                       TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("height_sections", LONGS),
                       TR_ATTR_IGNORED("epmap", STRINGS), TR_ATTR_IGNORED("table_names", STRINGS)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *w = &io->in[W], *ids = &io->in[IDS];

    const int last = ids->shape.rank - 1;
    if (ids->shape.dim[last] != 1 && ids->shape.dim[last] != -1)
        return tr_fail(TR_ESHAPE, "%s: the last dimension of Ids must be 1, got %s", io->type,
                       TR_SHAPE_STR(ids->shape));
    io->out[OUT] = *ids;
    io->out[OUT].dtype = w->dtype;
    io->out[OUT].shape.dim[last] = w->shape.dim[1];
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *w = &io->in[G_W];

    if (w->kind == TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EUNSUPPORTED, "%s: W is selected rows, which no gradient flows to; a table of servers trains by "
                       "layers.embedding(is_distributed=True)", io->type);
    io->out[G_DW] = tr__rows_grad_meta(w, a->is_sparse, tr_shape_numel(&io->in[G_IDS].shape));
    return TR_OK;
}

static tr_status check_ids(const tr_run *io, const char *type, int w_slot, int ids_slot)
{
    const attrs     *a = io->attrs;
    const tr_tensor *w = io->in[w_slot], *ids = io->in[ids_slot];
    const int64_t    height = w->shape.dim[0];
    const int64_t    bad = tr_rows_check(ids->data, tr_tensor_count(ids), height, a->padding_idx);

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: id %" PRId64 " at position %" PRId64 " of '%s' is no row of '%s', which has %" PRId64,
                   type, ((const int64_t *)ids->data)[bad], bad, tr_run_in_name(io, ids_slot, 0),
                   tr_run_in_name(io, w_slot, 0), height);
}

/* -- kernels -------------------------------------------------------------------------------------- */
/* Rows are copied, whatever they are made of. */
static tr_status lookup_table(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *w = io->in[W], *ids = io->in[IDS];

    if (w->rows)
        return tr__rows_lookup(io, "lookup_table", W, IDS, a->padding_idx, true);
    TR_TRY(check_ids(io, "lookup_table", W, IDS));
    tr_rows_gather(io->out[OUT]->data, w->data, ids->data, tr_tensor_count(ids), w->shape.dim[1] * tr_dtype_size(w->dtype),
                   a->padding_idx);
    return TR_OK;
}

#define LOOKUPS {[TR_FP32] = lookup_table, [TR_FP64] = lookup_table, [TR_BF16] = lookup_table, [TR_FP16] = lookup_table}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status make_second(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);

    if (tr_op_desc_attr_int(op, "is_sparse", 0))
        return tr_fail(TR_EUNSUPPORTED, "gradients of gradients: %s with is_sparse makes selected rows, which have no gradient; leave is_sparse out, "
                       "or set stop_gradient of '%s'", op->type, tr_op_desc_output_arg(op, 0));
    return tr__second_linear(maker);
}

static const tr_grad_rule grad = {
    .op = "lookup_table_grad",
    .reads = {TR_IN_SHAPE(W), TR_IN(IDS), TR_DOUT(OUT)},
    .makes = {TR_DIN(W)},
    .second = make_second,
};

TR_REGISTER_OP(lookup_table, .proto = &proto, .infer = infer, .kernels = {LOOKUPS}, .grad = &grad);
TR_REGISTER_OP(lookup_table_grad, .grad_of = &tr_op_record_lookup_table, .infer = infer_grad,
               .kernels = TR_FLOAT_KERNELS(lookup_table_grad), .key = TR_KEY_IN_SLOT, .key_slot = G_DOUT,
               .inplace = {{G_DOUT, G_DW}}, .inplace_count = 1);

#else /* the kernels, for each T */

/* One row for each id; those of the padding are zeros. */
static tr_status NAME(sparse_grad)(tr_tensor *dw, const int64_t *ids, const T *dout, int64_t count, int64_t height,
                                   int64_t width, int64_t padding)
{
    int64_t *rows;
    T       *values = dw->data;

    TR_TRY(tr__tensor_reserve_rows(dw, height, count, &rows));
    memcpy(rows, ids, (size_t)count * sizeof *rows);
    if (values != dout)
        memcpy(values, dout, (size_t)(count * width) * sizeof(T));
    for (int64_t i = 0; i < count && padding >= 0; i++)
        if (ids[i] == padding)
            memset(values + i * width, 0, (size_t)width * sizeof(T));
    return TR_OK;
}

static tr_status NAME(lookup_table_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *ids = io->in[G_IDS];
    const T         *dout = io->in[G_DOUT]->data;
    tr_tensor       *dw = io->out[G_DW];
    const int64_t    count = tr_tensor_count(ids);
    const int64_t    height = io->in[G_W]->shape.dim[0], width = io->in[G_W]->shape.dim[1];

    TR_TRY(check_ids(io, "lookup_table_grad", G_W, G_IDS));
    if (a->is_sparse)
        return NAME(sparse_grad)(dw, ids->data, dout, count, height, width, a->padding_idx);
    if (dw->data == dout) {                            /* as many rows as ids, so that the plan took them for in place */
        void *copy;
        TR_TRY(tr_run_scratch(&copy, io, (size_t)(count * width) * sizeof(T)));
        dout = memcpy(copy, dout, (size_t)(count * width) * sizeof(T));
    }
    memset(dw->data, 0, (size_t)(height * width) * sizeof(T));
    NAME(tr_rows_scatter_add)(dw->data, ids->data, dout, count, width, a->padding_idx);
    return TR_OK;
}

#endif
