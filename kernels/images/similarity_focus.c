/* similarity_focus.c - a mask of the strongest pairs. (He and Lin, Pairwise word interaction modeling, 2016)
 *
 * Each index picks a matrix from a sample, across one of its dimensions. Of this matrix the largest element is taken, its row and
 * column are struck out, then the largest one of the rest, and so on. The elements taken are 1 in Out, all along the picked dimension;
 * all others are 0. Of equal elements the first is taken. */
#ifndef T

#include "kernels/base/scratch.h"

#include <stdlib.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    int32_t axis;
    tr_ints indexes;
} attrs;

static const tr_op_proto proto = {
    .doc = "A mask with 1 at the largest elements of the matrices X[n, indexes], no two of which share a row or a column.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, a, b, c]", " float")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; 0 or 1")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, axis, INT, "the dimension that is indexed", .required = true, .range = TR_BETWEEN(1, 3)),
                       TR_ATTR(attrs, indexes, INTS, "which matrices; their masks are joined", .required = true)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;

    if (a->indexes.count == 0)
        return tr_fail(TR_ERANGE, "%s: attribute 'indexes' is empty; it must name a matrix at least", io->type);
    for (int i = 0; i < a->indexes.count; i++)
        if (a->indexes.item[i] < 0 || (x.dim[a->axis] >= 0 && a->indexes.item[i] >= x.dim[a->axis]))
            return tr_fail(TR_ERANGE, "%s: indexes[%d] is %d; dimension %d of X %s has no such place", io->type, i,
                           a->indexes.item[i], a->axis, TR_SHAPE_STR(x));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */

/* The other two dimensions, and how far their elements and those of the picked one are apart. */
typedef struct plane {
    int64_t picked, rows, columns, picked_step, row_step, column_step;
} plane;

static plane plane_of(const tr_shape *x, int axis)
{
    const int     row = axis == 1 ? 2 : 1, column = axis == 3 ? 2 : 3;
    const int64_t step[4] = {0, x->dim[2] * x->dim[3], x->dim[3], 1};

    return (plane){x->dim[axis], x->dim[row], x->dim[column], step[axis], step[row], step[column]};
}

#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(similarity_focus, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(similarity_focus));

#else /* the kernel, for each T */

typedef struct {
    T       value;
    int64_t row, column;
} NAME(element);

/* The largest first; NaN last; of equal ones the first. */
static int NAME(larger_first)(const void *a, const void *b)
{
    const NAME(element) *p = a, *q = b;
    const bool p_is_nan = p->value != p->value, q_is_nan = q->value != q->value;

    if (p_is_nan != q_is_nan)
        return p_is_nan ? 1 : -1;
    if (p->value != q->value && !p_is_nan)
        return p->value > q->value ? -1 : 1;
    if (p->row != q->row)
        return p->row < q->row ? -1 : 1;
    return (p->column > q->column) - (p->column < q->column);
}

/* `used` has a byte for each row, then for each column. */
static void NAME(focus)(T *out, const T *x, const plane *p, NAME(element) *sorted, uint8_t *used)
{
    const int64_t count = p->rows * p->columns;

    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / p->columns, column = i % p->columns;
        sorted[i] = (NAME(element)){x[row * p->row_step + column * p->column_step], row, column};
    }
    qsort(sorted, (size_t)count, sizeof *sorted, NAME(larger_first));
    memset(used, 0, (size_t)(p->rows + p->columns));
    for (int64_t i = 0; i < count; i++) {
        const NAME(element) *e = &sorted[i];
        if (used[e->row] || used[p->rows + e->column])
            continue;
        used[e->row] = used[p->rows + e->column] = 1;
        for (int64_t k = 0; k < p->picked; k++)
            out[k * p->picked_step + e->row * p->row_step + e->column * p->column_step] = 1;
    }
}

static tr_status NAME(similarity_focus)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const plane      p = plane_of(&x->shape, a->axis);
    const int64_t    sample = tr_shape_product(&x->shape, 1, 4);
    T               *out = io->out[OUT]->data;
    NAME(element)   *sorted = NULL;
    uint8_t         *used = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&sorted, (size_t)(p.rows * p.columns) * sizeof *sorted},
                                                     {&used, (size_t)(p.rows + p.columns)}, {NULL, 0}}));
    memset(out, 0, (size_t)tr_tensor_count(x) * sizeof(T));
    for (int64_t n = 0; n < x->shape.dim[0] && sample > 0; n++)
        for (int i = 0; i < a->indexes.count; i++)
            NAME(focus)(out + n * sample, (const T *)x->data + n * sample + a->indexes.item[i] * p.picked_step, &p, sorted, used);
    return TR_OK;
}

#endif
