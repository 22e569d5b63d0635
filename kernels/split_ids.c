/* split_ids.c - row numbers and selected rows shared out, and the rows put together again: split_ids, merge_ids,
 * split_selected_rows.
 *
 * Fluid's transpiler puts these around a table that is spread over servers. In Trireme the client of the servers does that itself
 * (pserver/), so here they run within one process. */
#include "kernels/check.h"
#include "kernels/math/rows.h"
#include "kernels/pieces.h"
#include "kernels/selected_rows.h"

#include <inttypes.h>
#include <string.h>

/* -- split_ids --------------------------------------------------------------------------------- */
enum { IDS };
enum { OUT };

static const tr_op_proto split_proto = {
    .doc = "Shares numbers out: Out[k] has those whose remainder by the number of outputs is k. Of ids each once, in ascending order; of "
           "selected rows all, with their values.",
    .in = TR_SLOTS({"Ids", "int64 [n, 1] or [n], one or more; or selected rows", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "int64 [n, 1]; of selected rows selected rows", TR_SLOT_REPEATED}),
};

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

/* Output k gets the rows of x whose number has the remainder k, or, with `sections`, lies in section k, counted from its beginning. */
static tr_status take_rows(const tr_run *io, const tr_tensor *x, int k, int64_t first, int64_t last, int64_t modulus)
{
    const int64_t bytes = tr__rows_width(x) * tr_dtype_size(x->dtype);
    tr_shape      shape = x->shape;
    int64_t       count = 0, *index;

    for (int64_t i = 0; i < x->rows->count; i++) {
        const int64_t row = x->rows->index[i];
        count += modulus > 0 ? row % modulus == k : row >= first && row < last;
    }
    shape.dim[0] = count;
    TR_TRY(tr_run_resize(io, OUT, k, x->dtype, &shape));
    tr_tensor *out = io->outs[OUT].item[k];
    TR_TRY(tr__tensor_reserve_rows(out, modulus > 0 ? x->rows->height : last - first, count, &index));
    for (int64_t i = 0, to = 0; i < x->rows->count; i++) {
        const int64_t row = x->rows->index[i];
        if (modulus > 0 ? row % modulus != k : row < first || row >= last)
            continue;
        index[to] = modulus > 0 ? row : row - first;
        memcpy((char *)out->data + to++ * bytes, (const char *)x->data + i * bytes, (size_t)bytes);
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
    for (int k = 0; k < io->outs[OUT].count; k++)
        TR_TRY(take_rows(io, x, k, 0, 0, io->outs[OUT].count));
    return TR_OK;
}

TR_REGISTER_OP(split_ids, .proto = &split_proto, .infer = infer_split, .run = run_split);

/* -- split_selected_rows ------------------------------------------------------------------------------ */
typedef struct section_attrs {
    tr_longs height_sections;
} section_attrs;

static const tr_op_proto section_proto = {
    .doc = "Cuts selected rows into sections of their height: Out[k] has the rows of section k, counted from where it begins.",
    .in = TR_SLOTS({"X", "selected rows", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "selected rows, height_sections[k] high", TR_SLOT_REPEATED}),
    .attr = TR_ATTRS(TR_ATTR(section_attrs, height_sections, LONGS, "how many rows each section has, held or not")),
    .attrs_size = sizeof(section_attrs),
};

static tr_status infer_sections(const tr_infer *io)
{
    const section_attrs *a = io->attrs;

    if (io->in[0].kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EINVAL, "%s: X must be selected rows, got a dense tensor %s", io->type, TR_SHAPE_STR(io->in[0].shape));
    if (a->height_sections.count != io->outs[OUT].count)
        return tr_fail(TR_ERANGE, "%s: there are %d height_sections, but %d outputs", io->type, a->height_sections.count, io->outs[OUT].count);
    for (int k = 0; k < io->outs[OUT].count; k++) {
        if (a->height_sections.item[k] < 1)
            return tr_fail(TR_ERANGE, "%s: height_sections[%d] is %lld; a section has one row at least", io->type, k,
                           (long long)a->height_sections.item[k]);
        io->outs[OUT].item[k] = io->in[0];
        io->outs[OUT].item[k].shape.dim[0] = -1;
        io->outs[OUT].item[k].height = a->height_sections.item[k];
    }
    return TR_OK;
}

static tr_status run_sections(const tr_run *io)
{
    const section_attrs *a = io->attrs;
    const tr_tensor     *x = io->in[0];
    int64_t              first = 0, last;

    for (int k = 0; k < io->outs[OUT].count; k++, first = last) {
        if (__builtin_add_overflow(first, a->height_sections.item[k], &last))
            return tr_fail(TR_ERANGE, "split_selected_rows: the height_sections add up to more than 2^63 rows");
        TR_TRY(take_rows(io, x, k, first, last, 0));
    }
    for (int64_t i = 0; i < x->rows->count; i++)
        if (x->rows->index[i] >= first)
            return tr_fail(TR_ERANGE, "split_selected_rows: row %" PRId64 " of '%s' lies after the %" PRId64 " rows of height_sections",
                           x->rows->index[i], tr_run_in_name(io, 0, 0), first);
    return TR_OK;
}

TR_REGISTER_OP(split_selected_rows, .proto = &section_proto, .infer = infer_sections, .run = run_sections);

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
    int64_t low = 0, high = d->count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (d->unique[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < d->count && d->unique[low] == id ? d->row[d->order[d->first[low]]] : NULL;
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
