/* row_slices.c - see row_slices.h. */
#include "kernels/tables/row_slices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"

enum { DOUT };                                    /* of a gradient operator: its input, */
enum { DX };                                      /* its output */

/* The number that a row of the whole has in a slice; -1: it is not there. */
static int64_t number_in_slice(const tr_row_slice *slice, int64_t row)
{
    if (slice->modulus > 0)
        return row % slice->modulus == slice->remainder ? row : -1;
    return row >= slice->first && row < slice->last ? row - slice->first : -1;
}

/* The number that a row of a slice has in the whole; -1: the slice does not have such a row. */
static int64_t number_in_whole(const tr_row_slice *slice, int64_t row)
{
    if (slice->modulus > 0)
        return number_in_slice(slice, row);
    return row < slice->last - slice->first ? slice->first + row : -1;
}

tr_status tr__row_slice_take(const tr_run *io, int slot, int k, const tr_tensor *x, const tr_row_slice *slice)
{
    const int64_t bytes = tr__rows_width(x) * tr_dtype_size(x->dtype);
    tr_shape      shape = x->shape;
    int64_t       count = 0, *index;

    for (int64_t i = 0; i < x->rows->count; i++)
        count += number_in_slice(slice, x->rows->index[i]) >= 0;
    shape.dim[0] = count;
    TR_TRY(tr_run_resize(io, slot, k, x->dtype, &shape));
    tr_tensor *out = io->outs[slot].item[k];
    TR_TRY(tr__tensor_reserve_rows(out, slice->modulus > 0 ? x->rows->height : slice->last - slice->first, count, &index));
    for (int64_t i = 0, to = 0; i < x->rows->count; i++) {
        const int64_t number = number_in_slice(slice, x->rows->index[i]);
        if (number < 0)
            continue;
        index[to] = number;
        memcpy((char *)out->data + to++ * bytes, (const char *)x->data + i * bytes, (size_t)bytes);
    }
    return TR_OK;
}

/* -- the gradient operator ---------------------------------------------------------------------------- */

tr_status tr__row_slices_make_grad(tr_grad_maker *maker, const char *type, const char *slot)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    const int         count = tr_op_desc_output_count(forward, "Out");
    const char       *dx = tr_grad_for_input(maker, tr_op_desc_input(forward, slot, 0)), **douts = malloc((size_t)count * sizeof *douts);

    if (!dx || !douts) {
        free(douts);
        return dx ? tr_fail(TR_ENOMEM, "%s: no memory for its gradient", forward->type) : TR_OK;
    }
    tr_op_desc *op = tr_op_desc_new(type);
    for (int a = 0; a < forward->attr_count; a++)
        tr__attr_copy(op, &forward->attr[a]);
    for (int k = 0; k < count; k++) {
        douts[k] = tr_grad_of_output(maker, tr_op_desc_output(forward, "Out", k));
        douts[k] = douts[k] ? douts[k] : "@EMPTY@";
    }
    tr_op_desc_set_input(op, "Out@GRAD", count, douts);
    tr_op_desc_set_output(op, strcmp(slot, "X") == 0 ? "X@GRAD" : "Ids@GRAD", 1, &dx);
    free(douts);
    return tr_grad_append(maker, op);
}

static bool is_rows(const tr_meta *meta) { return meta->kind == TR_KIND_SELECTED_ROWS; }

static tr_status check_slice(const tr_infer *io, int k, const tr_meta *first, int64_t height)
{
    const tr_meta *dout = &io->ins[DOUT].item[k];
    tr_shape       alike = first->shape;

    TR_TRY(tr__check_min_rank(io, "Out@GRAD", dout, 2));
    TR_TRY(tr__check_dtype(io, "Out@GRAD", dout, first->dtype));
    alike.dim[0] = is_rows(dout) ? dout->shape.dim[0] : height;
    if (!tr_shape_fits(&alike, &dout->shape))
        return tr_fail(TR_ESHAPE, "%s: Out@GRAD[%d] must be %s, got %s", io->type, k, TR_SHAPE_STR(alike), TR_SHAPE_STR(dout->shape));
    return TR_OK;
}

/* The height of the whole, where slices are as high: a dense gradient has it. -1: not known. */
static int64_t common_height(const tr_meta_list *douts)
{
    int64_t height = -1;

    for (int k = 0; k < douts->count; k++) {
        const tr_meta *dout = &douts->item[k];
        if (dout->kind == TR_KIND_TENSOR && dout->shape.rank > 0)
            return dout->shape.dim[0];
        height = is_rows(dout) ? dout->height : height;
    }
    return height;
}

tr_status tr__row_slices_infer_grad(const tr_infer *io, tr_row_slice_fn slice_of, int64_t height)
{
    const tr_meta_list *douts = &io->ins[DOUT];
    const tr_meta      *first = NULL;
    bool                all_rows = true;

    height = height >= 0 ? height : common_height(douts);
    for (int k = 0; k < douts->count; k++) {
        const tr_meta *dout = &douts->item[k];
        if (dout->kind == TR_KIND_NONE)
            continue;
        first = first ? first : dout;
        all_rows = all_rows && is_rows(dout);
        const tr_row_slice slice = slice_of(io->attrs, douts->count, k);
        TR_TRY(check_slice(io, k, first, slice.modulus > 0 ? height : slice.last - slice.first));
    }
    if (!first)
        return tr_fail(TR_EINVAL, "%s: input Out@GRAD has no gradient of any part", io->type);
    io->out[DX] = tr_meta_dense(first->dtype, first->shape);
    io->out[DX].shape.dim[0] = all_rows ? -1 : height;
    if (all_rows) {
        io->out[DX].kind = TR_KIND_SELECTED_ROWS;
        io->out[DX].height = height;
    }
    return TR_OK;
}

/* Rows of the gradients of all slices, one slice after the other. */
typedef struct joined {
    const tr_run  *io;
    tr_row_slice_fn slice_of;
    tr_dtype       dtype;
    tr_shape       shape;                         /* of a slice's gradient */
    int64_t        height, count, bytes;          /* count: rows so far */
} joined;

static int64_t rows_of(const tr_tensor *x) { return x->rows ? x->rows->count : x->shape.dim[0]; }
static int64_t row_of(const tr_tensor *x, int64_t i) { return x->rows ? x->rows->index[i] : i; }

/* Hand each row of a slice's gradient to `take`, with its number in the whole. A row whose remainder is another slice's does not count. */
static tr_status each_row(joined *j, void (*take)(joined *j, int64_t row, const void *values, void *payload), void *payload)
{
    const tr_args *douts = &j->io->ins[DOUT];

    j->count = 0;
    for (int k = 0; k < douts->count; k++) {
        const tr_tensor   *dout = douts->item[k];
        const tr_row_slice slice = j->slice_of(j->io->attrs, douts->count, k);
        for (int64_t i = 0; dout && i < rows_of(dout); i++) {
            const int64_t row = number_in_whole(&slice, row_of(dout, i));
            if (row < 0 && slice.modulus > 0)
                continue;
            if (row < 0 || row >= j->height)
                return tr_fail(TR_ERANGE, "'%s' has row %" PRId64 ", but the part whose gradient it is has %" PRId64 " rows",
                               tr_run_in_name(j->io, DOUT, k), row_of(dout, i), slice.modulus > 0 ? j->height : slice.last - slice.first);
            take(j, row, (const char *)dout->data + i * j->bytes, payload);
            j->count++;
        }
    }
    return TR_OK;
}

static void count_row(joined *j, int64_t row, const void *values, void *payload)
{
    (void)j, (void)row, (void)values, (void)payload;
}

static void append_row(joined *j, int64_t row, const void *values, void *payload)
{
    tr_tensor *dx = payload;

    dx->rows->index[j->count] = row;
    memcpy((char *)dx->data + j->count * j->bytes, values, (size_t)j->bytes);
}

static void add_f32(joined *j, int64_t row, const void *values, void *payload)
{
    const int64_t width = j->bytes / (int64_t)sizeof(float);
    float        *to = (float *)((tr_tensor *)payload)->data + row * width;

    for (int64_t i = 0; i < width; i++)
        to[i] += ((const float *)values)[i];
}

static void add_f64(joined *j, int64_t row, const void *values, void *payload)
{
    const int64_t width = j->bytes / (int64_t)sizeof(double);
    double       *to = (double *)((tr_tensor *)payload)->data + row * width;

    for (int64_t i = 0; i < width; i++)
        to[i] += ((const double *)values)[i];
}

static tr_status join_rows(joined *j, tr_tensor *dx, int64_t height)
{
    int64_t *index;

    j->height = height;
    TR_TRY(each_row(j, count_row, NULL));
    j->shape.dim[0] = j->count;
    TR_TRY(tr_run_resize(j->io, DX, 0, j->dtype, &j->shape));
    TR_TRY(tr__tensor_reserve_rows(dx, height, j->count, &index));
    return each_row(j, append_row, dx);
}

/* The height of the whole, where all gradients are selected rows. */
static int64_t whole_height(const tr_run *io, tr_row_slice_fn slice_of)
{
    const tr_args    *douts = &io->ins[DOUT];
    const tr_row_slice last = slice_of(io->attrs, douts->count, douts->count - 1);

    for (int k = 0; k < douts->count && last.modulus > 0; k++)
        if (douts->item[k])
            return douts->item[k]->rows->height;
    return last.last;
}

tr_status tr__row_slices_run_grad(const tr_run *io, tr_row_slice_fn slice_of)
{
    const tr_args *douts = &io->ins[DOUT];
    tr_tensor     *dx = io->out[DX];
    joined         j = {.io = io, .slice_of = slice_of};
    bool           all_rows = true;

    for (int k = 0; k < douts->count; k++) {
        const tr_tensor *dout = douts->item[k];
        if (!dout)
            continue;
        all_rows = all_rows && dout->rows;
        j.dtype = dout->dtype;
        j.shape = dout->shape;
        j.bytes = tr__rows_width(dout) * tr_dtype_size(dout->dtype);
    }
    if (all_rows)
        return join_rows(&j, dx, whole_height(io, slice_of));
    j.height = dx->shape.dim[0];
    if (tr_tensor_count(dx) > 0)
        memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    return each_row(&j, j.dtype == TR_FP64 ? add_f64 : add_f32, dx);
}
