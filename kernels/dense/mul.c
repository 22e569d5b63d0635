/* mul.c - the product of two matrices:  Out = X Y.
 *
 * Tensors of higher rank are taken as matrices: the first x_num_col_dims dimensions of X are its rows, the rest its
 * columns; y_num_col_dims does the same for Y.
 *
 * Backward: dX = dOut Y^T and dY = X^T dOut. mul_grad_sgd is that and the update of Y by SGD; plans make it of the two (fusions.c). Where the
 * product is summed in one go, Y - LearningRate dY comes out of it, with the bits that sgd would give; else dY is scratch memory. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/products/blas.h"
#include "kernels/optimizers/optimizer.h"

#include <float.h>
#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };             enum { OUT };          /* slots of mul: inputs, outputs */
enum { GX, GY, GDOUT };    enum { GDX, GDY };     /* of mul_grad; GX and GY are X and Y */

enum { SX, SY, SDOUT, SRATE };    enum { SDX, SPARAM };      /* of mul_grad_sgd */

typedef struct attrs {
    int32_t x_num_col_dims, y_num_col_dims;
} attrs;

static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, x_num_col_dims, INT, "how many of X's dimensions are rows", .number = 1, .range = TR_AT_LEAST(1)),
    TR_ATTR(attrs, y_num_col_dims, INT, "how many of Y's dimensions are rows", .number = 1, .range = TR_AT_LEAST(1)),
    {.name = NULL},
};

static const tr_op_proto proto = {
    .doc = "Out = X Y, the product of matrices. Tensors of higher rank are flattened to matrices first.",
    .in = TR_SLOTS({"X", "[n..., k...] float"}, {"Y", "[k..., m...], as many k as X has, same dtype", TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Out", "[n..., m...]; has X's sequences"}),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

static const tr_op_proto sgd_proto = {
    .doc = "mul's gradient, and the update of Y by it: X@GRAD = Out@GRAD Y^T, then ParamOut = Y - LearningRate X^T Out@GRAD.",
    .in = TR_SLOTS({"X", "as of mul"}, {"Y", "as of mul", TR_SLOT_WIDE}, {"Out@GRAD", "like mul's Out"},
                   TR_SLOT("LearningRate", "[1]", " float", TR_SLOT_ANY_TYPE)),
    .out = TR_SLOTS(TR_SLOT("X@GRAD", "like X", "", TR_SLOT_OPTIONAL), {"ParamOut", "the same variable as Y", TR_SLOT_WIDE}),
    .attr = attr_defs,
    .attrs_size = sizeof(attrs),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status check_split(const tr_infer *io, const char *name, int slot, int rows)
{
    const tr_shape *shape = &io->in[slot].shape;

    if (rows >= shape->rank)
        return tr_fail(TR_ESHAPE, "mul: %s is %s; %d of its %d dimensions are to be rows, which leaves none for "
                       "columns", name, tr_shape_str(shape), rows, shape->rank);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape, y = io->in[Y].shape;
    const int      x_rows = a->x_num_col_dims, y_rows = a->y_num_col_dims;
    tr_shape       out = {0};

    TR_TRY(check_split(io, "X", X, x_rows));
    TR_TRY(check_split(io, "Y", Y, y_rows));
    const int64_t x_width = tr_shape_product(&x, x_rows, x.rank), y_height = tr_shape_product(&y, 0, y_rows);
    if (x_width >= 0 && y_height >= 0 && x_width != y_height)
        return tr_fail(TR_ESHAPE, "mul: X is %s with rows of %lld, so Y must have %lld rows; got %s, which has %lld",
                       TR_SHAPE_STR(x), (long long)x_width, (long long)x_width, TR_SHAPE_STR(y),
                       (long long)y_height);
    out.rank = x_rows + y.rank - y_rows;
    if (out.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "mul: X is %s and Y is %s, so Out would have %d dimensions; %d are possible",
                       TR_SHAPE_STR(x), TR_SHAPE_STR(y), out.rank, TR_MAX_RANK);
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = i < x_rows ? x.dim[i] : y.dim[y_rows + i - x_rows];
    io->out[OUT] = io->in[X];
    io->out[OUT].shape = out;
    return TR_OK;
}

static tr_status infer_sgd(const tr_infer *io)
{
    tr_meta  out = {0};
    tr_infer forward = *io;

    forward.out = &out;
    TR_TRY(infer(&forward));
    TR_TRY(tr__check_like(io, "Out@GRAD", &io->in[SDOUT], &out));
    io->out[SPARAM] = io->in[SY];
    return TR_OK;
}

/* X is m x k, Y k x n. */
typedef struct sizes {
    int64_t m, n, k;
} sizes;

static sizes sizes_of(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *x = &io->in[X]->shape, *y = &io->in[Y]->shape;

    return (sizes){
        .m = tr_shape_product(x, 0, a->x_num_col_dims),
        .n = tr_shape_product(y, a->y_num_col_dims, y->rank),
        .k = tr_shape_product(y, 0, a->y_num_col_dims),
    };
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static const tr_grad_rule grad = {
    .op = "mul_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_bilinear,
};

TR_REGISTER_OP(mul, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(mul), .grad = &grad);
TR_REGISTER_OP(mul_grad, .grad_of = &tr_op_record_mul, .kernels = TR_FLOAT_KERNELS(mul_grad));
TR_REGISTER_OP(mul_grad_sgd, .proto = &sgd_proto, .infer = infer_sgd, .kernels = TR_FLOAT_KERNELS(mul_grad_sgd), .updates = true);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(mul)(const tr_run *io)
{
    const sizes s = sizes_of(io);

    TR_TRY(tr_blas_init());
    NAME(tr_gemm)(false, false, s.m, s.n, s.k, 1, io->in[X]->data, s.k, io->in[Y]->data, s.n, 0,
                  io->out[OUT]->data, s.n);
    return TR_OK;
}

static tr_status NAME(mul_grad)(const tr_run *io)
{
    const sizes s = sizes_of(io);
    const T    *x = io->in[GX]->data, *y = io->in[GY]->data, *dout = io->in[GDOUT]->data;

    TR_TRY(tr_blas_init());
    if (io->out[GDX])
        NAME(tr_gemm)(false, true, s.m, s.k, s.n, 1, dout, s.n, y, s.n, 0, io->out[GDX]->data, s.k);
    if (io->out[GDY])
        NAME(tr_gemm)(true, false, s.k, s.n, s.m, 1, x, s.k, dout, s.n, 0, io->out[GDY]->data, s.n);
    return TR_OK;
}

/* Whether p - lr g is rounded once, as products round what they add up. It is, unless the compiler had no fused multiply-add for tr_sgd:
 * some builds have no code for newer CPUs (TR_CLONES), but packed products, which have their own. */
static bool NAME(sgd_rounds_once)(void)
{
    const T near_one = sizeof(T) == sizeof(float) ? (T)1 + (T)FLT_EPSILON : (T)1 + (T)DBL_EPSILON;
    T       p = 1;

    NAME(tr_sgd)(&p, NULL, &near_one, near_one, 1);
    return p != -2 * (near_one - 1);
}

/* y -= lr x^T dout */
static tr_status NAME(descend)(const tr_run *io, T *y, const T *x, const T *dout, T lr, sizes s)
{
    T *dy;

    if (NAME(tr_gemm_sums_once)(true, false, s.k, s.n, s.m) && NAME(sgd_rounds_once)()) {
        NAME(tr_gemm)(true, false, s.k, s.n, s.m, -lr, x, s.k, dout, s.n, 1, y, s.n);
        return TR_OK;
    }
    TR_TRY(tr_run_scratch((void **)&dy, io, (size_t)(s.k * s.n) * sizeof *dy));
    NAME(tr_gemm)(true, false, s.k, s.n, s.m, 1, x, s.k, dout, s.n, 0, dy, s.n);
    NAME(tr_sgd)(y, NULL, dy, lr, s.k * s.n);
    return TR_OK;
}

static tr_status NAME(mul_grad_sgd)(const tr_run *io)
{
    const sizes s = sizes_of(io);
    const T    *x = io->in[SX]->data, *y = io->in[SY]->data, *dout = io->in[SDOUT]->data;
    T          *out = io->out[SPARAM]->data;
    double      rate;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__optimizer_rate(&rate, io, SRATE));
    if (io->out[SDX])
        NAME(tr_gemm)(false, true, s.m, s.k, s.n, 1, dout, s.n, y, s.n, 0, io->out[SDX]->data, s.k);
    if (out != y)
        memcpy(out, y, (size_t)(s.k * s.n) * sizeof *out);
    return NAME(descend)(io, out, x, dout, (T)rate, s);
}

#endif
