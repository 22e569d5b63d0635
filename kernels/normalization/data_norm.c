/* data_norm.c - normalise each column by statistics of all data seen so far:  Y = (X - Means) Scales.
 *
 * Means = BatchSum / BatchSize and Scales = sqrt(BatchSize / BatchSquareSum); both are constants to the gradient of X. The gradients of
 * the three statistics are no derivatives: they are what a batch adds to them, rows, sum X and sum (X - Means)^2 + epsilon rows, as in
 * Fluid, whose servers add that up.
 *
 * Without such servers the operator does it itself, as batch_norm does: with the outputs BatchSizeOut, ..., which Fluid does not have,
 * the statistics become summary_decay_rate times what they were, and what the batch adds. A batch without rows leaves them as they are. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"

#include <math.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, SIZE, SUM, SQUARES };
enum { Y, MEANS, SCALES, SIZE_OUT, SUM_OUT, SQUARES_OUT };
enum { G_X, G_SIZE, G_SUM, G_SQUARES, G_MEANS, G_SCALES, G_DY };
enum { G_DX, G_DSIZE, G_DSUM, G_DSQUARES };

typedef struct attrs {
    float epsilon, summary_decay_rate;
    bool  is_test;
} attrs;

static const tr_op_proto proto = {
    .doc = "Y = (X - BatchSum / BatchSize) sqrt(BatchSize / BatchSquareSum) for each column; X as it is where there are no rows so far. "
           "The gradients of the statistics are what the batch adds to them.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, columns]", " float"), TR_SLOT("BatchSize", "[columns]", "; how many rows there were"),
                   TR_SLOT("BatchSum", "[columns]", "; their sum"),
                   TR_SLOT("BatchSquareSum", "[columns]", "; the sum of their squared distances from the mean")),
    .out = TR_SLOTS(TR_SLOT("Y", "like X", ""), TR_SLOT("Means", "[columns]", "", TR_SLOT_INTERMEDIATE),
                    TR_SLOT("Scales", "[columns]", "", TR_SLOT_INTERMEDIATE),
                    TR_SLOT("BatchSizeOut", "[columns]", "; the same variable as BatchSize, which the batch is added to", TR_SLOT_OPTIONAL),
                    TR_SLOT("BatchSumOut", "[columns]", "; the same for BatchSum", TR_SLOT_OPTIONAL),
                    TR_SLOT("BatchSquareSumOut", "[columns]", "; the same for BatchSquareSum", TR_SLOT_OPTIONAL)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "added to each squared distance", .number = 1e-4, .range = TR_BETWEEN(0, 0.001)),
                       TR_ATTR(attrs, summary_decay_rate, FLOAT, "what stays of the statistics when a batch is added", .number = 0.9999999,
                               .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, is_test, BOOL, "leave the statistics as they are"),
                       TR_ATTR_ONLY("data_layout", STRING, "give rows of columns", .text = "NCHW",
                                    .range = TR_ONE_OF({"NCHW", 0}, {"AnyLayout", 0}))),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status slope(tr_composite *c)
{
    tr_composite_stop_gradient(c, "Scales");
    return tr_composite_add(c, "elementwise_mul(X=Y@GRAD, Y=Scales) {axis=1} -> X@GRAD");
}

/* The gradients of the statistics are none: they are what a batch adds. */
static tr_status make_second(tr_grad_maker *maker)
{
    static const char *const slots[] = {"BatchSize@GRAD", "BatchSum@GRAD", "BatchSquareSum@GRAD"};
    const tr_op_desc        *op = tr_grad_forward(maker);

    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        const char *arg = tr_op_desc_output(op, slots[i], 0);
        if (arg && tr_grad_of_output(maker, arg))
            return tr_fail(TR_EUNSUPPORTED, "gradients of gradients: %s has none for %s; set stop_gradient of '%s'", op->type, slots[i], arg);
    }
    return tr__second_body(maker);
}

static const tr_grad_rule grad = {
    .op = "data_norm_grad",
    .reads = {TR_IN(X), TR_IN_SHAPE(SIZE), TR_IN_SHAPE(SUM), TR_IN_SHAPE(SQUARES), TR_OUT(MEANS), TR_OUT(SCALES), TR_DOUT(Y)},
    .makes = {TR_DIN(X), TR_DIN(SIZE), TR_DIN(SUM), TR_DIN(SQUARES)},
    .second = make_second, .body = slope, .rest = tr__grad_ends,
};
TR_REGISTER_OP(data_norm, .proto = &proto, .kernels = TR_FLOAT_KERNELS(data_norm), .grad = &grad,
               .inplace = {{SIZE, SIZE_OUT}, {SUM, SUM_OUT}, {SQUARES, SQUARES_OUT}}, .inplace_count = 3);
TR_REGISTER_OP(data_norm_grad, .grad_of = &tr_op_record_data_norm, .kernels = TR_FLOAT_KERNELS(data_norm_grad));

#else /* the kernels, for each T */

static T *NAME(data_of)(const tr_tensor *tensor) { return tensor ? tensor->data : NULL; }

/* The contributions of rows of x to the statistics; any of the three may be NULL. `work` is as large as x. */
static void NAME(add_up)(T *size, T *sum, T *squares, T *work, const T *x, const T *means, T epsilon, int64_t rows, int64_t columns)
{
    const int64_t count = rows * columns;

    for (int64_t j = 0; size && j < columns; j++)
        size[j] = (T)rows;
    if (sum)
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, sum, x, 1, rows, columns);
    if (!squares)
        return;
    NAME(tr_binary_apply)(TR_BINARY_SUB, work, x, means, rows, columns, 1);
    NAME(tr_binary_apply)(TR_BINARY_MUL, work, work, work, 1, count, 1);
    NAME(tr_scale)(work, work, 1, epsilon, count);
    NAME(tr_reduce_apply)(TR_REDUCE_SUM, squares, work, 1, rows, columns);
}

/* The three outputs that are statistics: those of before, with the batch unless it is a test or has no rows. `added` has three rows. */
static void NAME(move_statistics)(const tr_run *io, T *added, T *work, const T *means, int64_t rows, int64_t columns)
{
    const attrs *a = io->attrs;
    const bool   moves = !a->is_test && rows > 0;

    if (moves)
        NAME(add_up)(added, added + columns, added + 2 * columns, work, io->in[X]->data, means, a->epsilon, rows, columns);
    for (int k = 0; k < 3; k++) {
        T *out = NAME(data_of)(io->out[SIZE_OUT + k]);
        if (!out)
            continue;
        NAME(tr_scale)(out, io->in[SIZE + k]->data, moves ? (T)a->summary_decay_rate : 1, 0, columns);
        if (moves)
            NAME(tr_axpy)(out, 1, added + k * columns, columns);
    }
}

static tr_status NAME(data_norm)(const tr_run *io)
{
    const int64_t rows = io->in[X]->shape.dim[0], columns = io->in[X]->shape.dim[1];
    const size_t  bytes = (size_t)columns * sizeof(T);
    const T      *size = io->in[SIZE]->data, *sum = io->in[SUM]->data, *squares = io->in[SQUARES]->data;
    T            *y = io->out[Y]->data, *means = NAME(data_of)(io->out[MEANS]), *scales = NAME(data_of)(io->out[SCALES]);
    T            *added = NULL, *work = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&means, means ? 0 : bytes}, {&scales, scales ? 0 : bytes}, {&added, 3 * bytes},
                                                     {&work, (size_t)rows * bytes}, {NULL, 0}}));
    for (int64_t j = 0; j < columns; j++) {
        const bool is_known = size[j] != 0 && squares[j] != 0;     /* no rows so far: X as it is */
        means[j] = size[j] != 0 ? sum[j] / size[j] : 0;
        scales[j] = is_known ? (T)sqrt((double)size[j] / (double)squares[j]) : 1;
    }
    NAME(tr_binary_apply)(TR_BINARY_SUB, y, io->in[X]->data, means, rows, columns, 1);
    NAME(tr_binary_apply)(TR_BINARY_MUL, y, y, scales, rows, columns, 1);
    if (columns > 0)
        NAME(move_statistics)(io, added, work, means, rows, columns);
    return TR_OK;
}

static tr_status NAME(data_norm_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t rows = io->in[G_X]->shape.dim[0], columns = io->in[G_X]->shape.dim[1];
    T            *work = NULL;

    if (io->out[G_DX])
        NAME(tr_binary_apply)(TR_BINARY_MUL, io->out[G_DX]->data, io->in[G_DY]->data, io->in[G_SCALES]->data, rows, columns, 1);
    if (io->out[G_DSQUARES])
        TR_TRY(tr_run_scratch((void **)&work, io, (size_t)(rows * columns) * sizeof(T)));
    NAME(add_up)(NAME(data_of)(io->out[G_DSIZE]), NAME(data_of)(io->out[G_DSUM]), NAME(data_of)(io->out[G_DSQUARES]), work,
                 io->in[G_X]->data, io->in[G_MEANS]->data, a->epsilon, rows, columns);
    return TR_OK;
}

#endif
