/* sum.c - Out = X[0] + X[1] + ...
 *
 * Dense tensors are added up in their order. Selected rows alone are put one after the other. In each X equal numbers are
 * added up first: the first of them has their sum, and the others become zero rows. Beside dense tensors rows are added to
 * the rows they stand for, those with equal numbers as one. So a bit of the result does not tell whether a gradient was
 * dense. The gradient of each X is Out's: an
 * assign, which the plan turns into no work at all. */
#ifndef T

#include "kernels/base/grad_ops.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/rows.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = the sum of all X. Selected rows alone give selected rows, one after the other.",
    .in = TR_SLOTS({"X", "tensors of one shape, or selected rows of such", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "like the first dense X, or selected rows"}),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("use_mkldnn", BOOL)),
};

/* -- shapes ----------------------------------------------------------------------------------- */

/* The whole tensor: of selected rows, the one they are rows of. */
static tr_shape whole(const tr_meta *meta)
{
    tr_shape shape = meta->shape;

    if (meta->kind == TR_KIND_SELECTED_ROWS)
        shape.dim[0] = meta->height;
    return shape;
}

static tr_status check_arguments(const tr_infer *io)
{
    const tr_meta_list *x = &io->ins[X];
    const tr_shape      first = whole(&x->item[0]);

    for (int i = 0; i < x->count; i++) {
        const tr_shape shape = whole(&x->item[i]);
        if (!tr_shape_fits(&first, &shape))
            return tr_fail(TR_ESHAPE, "sum: X[0] is %s, so X[%d] must be, too; got %s", TR_SHAPE_STR(first), i,
                           TR_SHAPE_STR(shape));
    }
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_meta_list *x = &io->ins[X];
    int64_t             rows = 0;

    TR_TRY(check_arguments(io));
    for (int i = 0; i < x->count; i++) {
        if (x->item[i].kind == TR_KIND_TENSOR) {
            io->out[OUT] = x->item[i];
            return TR_OK;
        }
        rows = rows < 0 || x->item[i].shape.dim[0] < 0 ? -1 : rows + x->item[i].shape.dim[0];
    }
    io->out[OUT] = x->item[0];
    io->out[OUT].shape.dim[0] = rows;
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    const int count = tr_op_desc_input_count(tr_grad_forward(maker), "X");

    for (int i = 0; i < count; i++)
        TR_TRY(tr__grad_pass(maker, "X", i));
    return TR_OK;
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(sum, .locality = TR_POINTWISE, .proto = &proto, .infer = infer, .kernels = TR_NUMBER_KERNELS(sum), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(add_rows)(const tr_run *io, T *out, const tr_tensor *x)
{
    const int64_t width = tr__rows_width(x);
    tr_row_groups g;

    TR_TRY(tr__rows_groups(&g, io, x, (size_t)(x->rows->count * width) * sizeof(T)));
    NAME(tr_rows_sum_groups)(g.extra, x->data, g.first, g.order, g.count, width);
    NAME(tr_rows_scatter_add)(out, g.unique, g.extra, g.count, width, -1);
    return TR_OK;
}

/* Copy the rows of x; of equal numbers the first gets the sum, and the others become zero. */
static tr_status NAME(put_rows)(const tr_run *io, T *to, const tr_tensor *x)
{
    const int64_t width = tr__rows_width(x);
    const T      *from = x->data;
    tr_row_groups g;

    TR_TRY(tr__rows_groups(&g, io, x, (size_t)(x->rows->count * width) * sizeof(T)));
    NAME(tr_rows_sum_groups)(g.extra, from, g.first, g.order, g.count, width);
    memset(to, 0, (size_t)(x->rows->count * width) * sizeof *to);
    for (int64_t i = 0; i < g.count; i++)
        memcpy(to + g.order[g.first[i]] * width, (const T *)g.extra + i * width, (size_t)width * sizeof *to);
    return TR_OK;
}

static tr_status NAME(join_rows)(const tr_run *io)
{
    const tr_args *x = &io->ins[X];
    tr_tensor     *out = io->out[OUT];
    T             *data = out->data;
    int64_t       *index;

    TR_TRY(tr__tensor_reserve_rows(out, x->item[0]->rows->height, out->shape.dim[0], &index));
    for (int i = 0; i < x->count; i++) {
        const int64_t count = x->item[i]->rows->count;
        if (count == 0)
            continue;
        TR_TRY(NAME(put_rows)(io, data, x->item[i]));
        memcpy(index, x->item[i]->rows->index, (size_t)count * sizeof *index);
        data += tr_tensor_count(x->item[i]);
        index += count;
    }
    return TR_OK;
}

static tr_status NAME(sum)(const tr_run *io)
{
    const tr_args *x = &io->ins[X];
    tr_tensor     *out = io->out[OUT];
    const T      **dense;
    int            dense_count = 0;

    TR_TRY(tr_run_scratch((void **)&dense, io, (size_t)x->count * sizeof *dense));
    for (int i = 0; i < x->count; i++)
        if (!x->item[i]->rows)
            dense[dense_count++] = x->item[i]->data;
    if (dense_count == 0)
        return NAME(join_rows)(io);

    NAME(tr_sum_arrays)(out->data, dense, dense_count, tr_tensor_count(out));
    for (int i = 0; i < x->count; i++)
        if (x->item[i]->rows)
            TR_TRY(NAME(add_rows)(io, out->data, x->item[i]));
    return TR_OK;
}

#endif
