/* split_ids.c - row numbers or selected rows shared out, and the rows put together again: split_ids, merge_ids.
 *
 * Fluid's transpiler puts these around a table that is spread over servers. In Trireme the client of the servers does that itself
 * (pserver/), so here they run within one process. Numbers have no gradient. That of selected rows is the sum of their parts' gradients. */
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/tables/row_slices.h"

#include <inttypes.h>
#include <string.h>

/* -- split_ids --------------------------------------------------------------------------------- */
enum { IDS };
enum { OUT };

static const tr_op_proto split_proto = {
    .doc = "Shares numbers out: Out[k] has those whose remainder by the number of outputs is k. Of ids each once, in ascending order; of "
           "selected rows all, with their values.",
    .in = TR_SLOTS({"Ids", "int64 [n, 1] or [n], one or more; or selected rows", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "int64 [n, 1]; of selected rows selected rows", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
};

static tr_row_slice slice_of(const void *attrs, int count, int k)
{
    (void)attrs;
    return (tr_row_slice){.modulus = count, .remainder = k};
}

static tr_status infer_split(const tr_infer *io)
{
    const tr_meta_list *ids = &io->ins[IDS];
    const bool          is_rows = ids->count > 0 && ids->item[0].kind == TR_KIND_SELECTED_ROWS;

    if (ids->count == 0 || io->outs[OUT].count == 0)
        return tr_fail(TR_ERANGE, "%s: there must be an input and an output at least", io->type);
    for (int i = 0; i < ids->count && !is_rows; i++) {
        TR_TRY(tr__check_ids(io, "Ids", &ids->item[i], false));
        TR_TRY(tr__check_column(io, "Ids", &ids->item[i], -1));
    }
    if (is_rows && ids->count != 1)
        return tr_fail(TR_ERANGE, "%s: of selected rows one tensor can be shared out, got %d", io->type, ids->count);
    for (int k = 0; k < io->outs[OUT].count; k++) {
        io->outs[OUT].item[k] = is_rows ? ids->item[0] : tr_meta_dense(TR_INT64, TR_SHAPE(-1, 1));
        io->outs[OUT].item[k].shape.dim[0] = -1;
    }
    return TR_OK;
}

static tr_status split_numbers(const tr_run *io)
{
    const tr_args *ids = &io->ins[IDS], *outs = &io->outs[OUT];
    int64_t        count = 0, at = 0, *all = NULL, *unique = NULL, *first = NULL, *order = NULL, *work = NULL;

    for (int i = 0; i < ids->count; i++)
        count += tr_tensor_count(ids->item[i]);
    const size_t bytes = (size_t)(count + 1) * sizeof *all;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&all, bytes}, {&unique, bytes}, {&first, bytes}, {&order, bytes}, {&work, 2 * bytes}, {NULL, 0}}));
    for (int i = 0; i < ids->count; at += tr_tensor_count(ids->item[i++]))
        memcpy(all + at, ids->item[i]->data, (size_t)tr_tensor_count(ids->item[i]) * sizeof *all);
    const int64_t groups = tr_rows_group(unique, first, order, work, all, count);
    for (int64_t g = 0; g < groups; g++)
        if (unique[g] < 0)
            return tr_fail(TR_ERANGE, "split_ids: id %" PRId64 " is negative, so it is no row number", unique[g]);
    for (int k = 0; k < outs->count; k++) {
        int64_t found = 0;
        for (int64_t g = 0; g < groups; g++)
            if (unique[g] % outs->count == k)
                work[found++] = unique[g];
        TR_TRY(tr_run_resize(io, OUT, k, TR_INT64, &TR_SHAPE(found, 1)));
        memcpy(outs->item[k]->data, work, (size_t)found * sizeof *work);
    }
    return TR_OK;
}

static tr_status run_split(const tr_run *io)
{
    const tr_tensor *x = io->ins[IDS].item[0];

    if (!x->rows)
        return split_numbers(io);
    for (int k = 0; k < io->outs[OUT].count; k++) {
        const tr_row_slice part = slice_of(NULL, io->outs[OUT].count, k);
        TR_TRY(tr__row_slice_take(io, OUT, k, x, &part));
    }
    return TR_OK;
}

static tr_status make_grad(tr_grad_maker *maker)      { return tr__row_slices_make_grad(maker, "split_ids_grad", "Ids"); }
static tr_status infer_split_grad(const tr_infer *io) { return tr__row_slices_infer_grad(io, slice_of, -1); }
static tr_status run_split_grad(const tr_run *io)     { return tr__row_slices_run_grad(io, slice_of); }

static const tr_op_proto split_grad_proto = {
    .doc = "The gradient of the selected rows that split_ids has shared out: of each part the rows that belong to it.",
    .in = TR_SLOTS({"Out@GRAD", TR_ROW_SLICES_DOC, TR_SLOT_REPEATED | TR_SLOT_HOLES | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Ids@GRAD", TR_WHOLE_ROWS_DOC}),
};
static const tr_grad_rule split_grad = {.make = make_grad};

TR_REGISTER_OP(split_ids, .proto = &split_proto, .infer = infer_split, .run = run_split, .grad = &split_grad);
TR_REGISTER_OP(split_ids_grad, .grad_of = &tr_op_record_split_ids, .proto = &split_grad_proto, .infer = infer_split_grad,
               .kernels = {{[TR_FP32] = run_split_grad, [TR_FP64] = run_split_grad}});

/* -- merge_ids --------------------------------------------------------------------------------------------- */
enum { M_IDS, M_ROWS, M_X };

static const tr_op_proto merge_proto = {
    .doc = "Puts together what parts of a table gave: Out[i] has, for each id of Ids[i], its row of X, which Rows say the numbers of.",
    .in = TR_SLOTS({"Ids", "int64 [n, 1] or [n]; the ids that were asked for", TR_SLOT_REPEATED | TR_SLOT_ANY_TYPE},
                   {"Rows", "int64 [m, 1] or [m]; the row numbers of each X, as split_ids shared them out", TR_SLOT_REPEATED | TR_SLOT_ANY_TYPE},
                   {"X", "[m, width] float; the rows", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "[n, width]", TR_SLOT_REPEATED}),
};

static tr_status infer_merge(const tr_infer *io)
{
    const tr_meta_list *ids = &io->ins[M_IDS], *rows = &io->ins[M_ROWS], *x = &io->ins[M_X];

    if (ids->count != io->outs[OUT].count || rows->count != x->count || x->count == 0)
        return tr_fail(TR_ERANGE, "%s: there are %d Ids for %d outputs, and %d Rows for %d X; they must be as many", io->type, ids->count,
                       io->outs[OUT].count, rows->count, x->count);
    TR_TRY(tr__check_dense_list(io, "X", x));
    for (int i = 0; i < x->count; i++) {
        TR_TRY(tr__check_rank(io, "X", &x->item[i], 2));
        TR_TRY(tr__check_shape(io, "X", &x->item[i], &TR_SHAPE(-1, x->item[0].shape.dim[1])));
        TR_TRY(tr__check_ids(io, "Rows", &rows->item[i], false));
        TR_TRY(tr__check_column(io, "Rows", &rows->item[i], x->item[i].shape.dim[0]));
    }
    for (int i = 0; i < ids->count; i++) {
        TR_TRY(tr__check_ids(io, "Ids", &ids->item[i], false));
        TR_TRY(tr__check_column(io, "Ids", &ids->item[i], -1));
        io->outs[OUT].item[i] = tr_meta_dense(x->item[0].dtype, TR_SHAPE(ids->item[i].shape.dim[0], x->item[0].shape.dim[1]));
    }
    return TR_OK;
}

/* All row numbers in ascending order, and where each one's row lies. */
typedef struct directory {
    int64_t      count, *unique, *first, *order, *work, *all;
    const char **row;
} directory;

static tr_status directory_init(directory *d, const tr_run *io, int64_t bytes)
{
    const tr_args *rows = &io->ins[M_ROWS], *x = &io->ins[M_X];
    int64_t        count = 0, at = 0;

    for (int i = 0; i < rows->count; i++)
        count += tr_tensor_count(rows->item[i]);
    const size_t size = (size_t)(count + 1) * sizeof *d->unique;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&d->unique, size}, {&d->first, size}, {&d->order, size}, {&d->work, 2 * size},
                                                     {&d->all, size}, {&d->row, size}, {NULL, 0}}));
    for (int i = 0; i < rows->count; i++)
        for (int64_t k = 0; k < tr_tensor_count(rows->item[i]); k++, at++) {
            d->all[at] = ((const int64_t *)rows->item[i]->data)[k];
            d->row[at] = (const char *)x->item[i]->data + k * bytes;
        }
    d->count = tr_rows_group(d->unique, d->first, d->order, d->work, d->all, count);
    return TR_OK;
}

/* The first row with this number; NULL: there is none. */
static const char *find_row(const directory *d, int64_t id)
{
    const int64_t at = tr_rows_place(d->unique, d->count, id);
    return at < d->count && d->unique[at] == id ? d->row[d->order[d->first[at]]] : NULL;
}

static tr_status run_merge(const tr_run *io)
{
    const tr_args *ids = &io->ins[M_IDS];
    const int64_t  bytes = io->ins[M_X].item[0]->shape.dim[1] * tr_dtype_size(io->ins[M_X].item[0]->dtype);
    directory      d;

    TR_TRY(directory_init(&d, io, bytes));
    for (int i = 0; i < ids->count; i++)
        for (int64_t k = 0; k < tr_tensor_count(ids->item[i]); k++) {
            const int64_t id = ((const int64_t *)ids->item[i]->data)[k];
            const char   *row = find_row(&d, id);
            if (!row)
                return tr_fail(TR_ENOTFOUND, "merge_ids: id %" PRId64 " at position %" PRId64 " of '%s' is in none of Rows", id, k,
                               tr_run_in_name(io, M_IDS, i));
            memcpy((char *)io->outs[OUT].item[i]->data + k * bytes, row, (size_t)bytes);
        }
    return TR_OK;
}

TR_REGISTER_OP(merge_ids, .proto = &merge_proto, .infer = infer_merge, .run = run_merge);
