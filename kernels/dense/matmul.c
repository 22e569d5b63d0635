/* matmul.c - products of matrices, of many matrices, of vectors:  Out = alpha * op(X) op(Y).
 *
 * The last two dimensions are a matrix, those before count matrices; a side of rank 2 meets every matrix of the
 * other, and stacks of other counts are spread over each other's dimensions of 1, as NumPy's are. A vector X is one row (transposed: one
 * column), a vector Y one column (transposed: one row); Out then lacks the dimension of 1 that this adds.
 *
 * Backward, with A = op(X) and B = op(Y):  dA = alpha dOut B^T  and  dB = alpha A^T dOut; turned around where X or Y
 * was given transposed, and summed over the matrices that one matrix met. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/products/blas.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };             enum { OUT };          /* slots of matmul: inputs, outputs */
enum { GX, GY, GDOUT };    enum { GDX, GDY };     /* of matmul_grad; GX and GY are X and Y */

typedef struct attrs {
    bool  transpose_X, transpose_Y;
    float alpha;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = alpha X Y, the product of matrices, or of as many matrices as the dimensions before the last two "
           "count.",
    .in = TR_SLOTS({"X", "[..., n, k] float, or [k]"}, {"Y", "[..., k, m], same dtype, or [k]"}),
    .out = TR_SLOTS({"Out", "[..., n, m]; has X's sequences"}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, transpose_X, BOOL, "take X as [..., k, n]"),
        TR_ATTR(attrs, transpose_Y, BOOL, "take Y as [..., m, k]"),
        TR_ATTR(attrs, alpha, FLOAT, "factor of the product", .number = 1)),
};

/* -- shapes ----------------------------------------------------------------------------------- */

/* Matrices as they are stored, rows x cols each, and whether they are used transposed. */
typedef struct view {
    bool    many;                     /* one after the other; else the same one again and again */
    bool    trans;
    int64_t rows, cols;
} view;

static view view_of(const tr_shape *shape, bool is_x, bool trans)
{
    const int rank = shape->rank;

    if (rank == 1)
        return (view){false, trans, is_x ? 1 : shape->dim[0], is_x ? shape->dim[0] : 1};
    return (view){rank > 2, trans, shape->dim[rank - 2], shape->dim[rank - 1]};
}

static int64_t height(view v) { return v.trans ? v.cols : v.rows; }
static int64_t width(view v) { return v.trans ? v.rows : v.cols; }
static bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

/* How many matrices a shape holds. */
static int64_t count_of(const tr_shape *shape)
{
    return shape->rank > 2 ? tr_shape_product(shape, 0, shape->rank - 2) : 1;
}

/* Both are stacks, and not of one count. */
static bool are_spread(const tr_shape *x, const tr_shape *y)
{
    return x->rank > 2 && y->rank > 2 && differ(count_of(x), count_of(y));
}

/* The stack of all products of stacks that are spread over each other, with a matrix of 1 x 1. False: they do not fit. */
static bool spread(tr_shape *out, const tr_shape *x, const tr_shape *y)
{
    *out = (tr_shape){.rank = x->rank > y->rank ? x->rank : y->rank};
    for (int i = 1; i <= out->rank; i++) {
        const int64_t p = i <= x->rank && i > 2 ? x->dim[x->rank - i] : 1, q = i <= y->rank && i > 2 ? y->dim[y->rank - i] : 1;
        if (differ(p, q) && p != 1 && q != 1)
            return false;
        out->dim[out->rank - i] = p == 1 ? q : p;
    }
    return true;
}

/* The number of the matrix of a stack that stands in product `i` of the stack of all. */
static int64_t matrix_at(const tr_shape *stack, const tr_shape *all, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int d = 3; d <= stack->rank; d++) {
        const int64_t extent = stack->dim[stack->rank - d], of_all = all->dim[all->rank - d];
        at += extent == 1 ? 0 : i % of_all * step;
        step *= extent;
        i /= of_all;
    }
    return at;
}

/* [batch..., n, m] without the dimensions that only stood for a vector; at least [1]. */
static tr_shape out_shape(const tr_shape *x, const tr_shape *y, view a, view b)
{
    tr_shape        all;
    const tr_shape *batch = are_spread(x, y) && spread(&all, x, y) ? &all : x->rank > 2 ? x : y;
    tr_shape        out = {.rank = batch->rank > 2 ? batch->rank - 2 : 0};

    memcpy(out.dim, batch->dim, (size_t)out.rank * sizeof *out.dim);
    if (x->rank > 1 || height(a) != 1)
        out.dim[out.rank++] = height(a);
    if (y->rank > 1 || width(b) != 1)
        out.dim[out.rank++] = width(b);
    if (out.rank == 0)
        out.dim[out.rank++] = 1;
    return out;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *at = io->attrs;
    const tr_shape x = io->in[X].shape, y = io->in[Y].shape;

    TR_TRY(tr__check_min_rank(io, "X", &io->in[X], 1));
    TR_TRY(tr__check_min_rank(io, "Y", &io->in[Y], 1));
    const view a = view_of(&x, true, at->transpose_X), b = view_of(&y, false, at->transpose_Y);
    if (differ(width(a), height(b)))
        return tr_fail(TR_ESHAPE, "matmul: X is %s%s with rows of %lld, so Y must have %lld rows; got %s%s with %lld",
                       TR_SHAPE_STR(x), a.trans ? ", transposed," : "", (long long)width(a), (long long)width(a),
                       TR_SHAPE_STR(y), b.trans ? ", transposed," : "", (long long)height(b));
    tr_shape all;
    if (are_spread(&x, &y) && !spread(&all, &x, &y))
        return tr_fail(TR_ESHAPE,
                       "matmul: X is %s, %lld matrices, so Y must hold as many, be one, or fit as NumPy's arrays do; got %s, %lld",
                       TR_SHAPE_STR(x), (long long)count_of(&x), TR_SHAPE_STR(y), (long long)count_of(&y));
    io->out[OUT] = io->in[X];
    io->out[OUT].shape = out_shape(&x, &y, a, b);
    return TR_OK;
}

typedef struct operands {
    view    a, b, out;
    int64_t count;                    /* products */
} operands;

static view stacked(view v, int64_t count) { return (view){false, v.trans, count * v.rows, v.cols}; }
static view flipped(view v) { return (view){v.many, !v.trans, v.rows, v.cols}; }

static operands operands_of(const tr_run *io)
{
    const attrs    *at = io->attrs;
    const tr_shape *x = &io->in[X]->shape, *y = &io->in[Y]->shape;
    operands        o = {.a = view_of(x, true, at->transpose_X), .b = view_of(y, false, at->transpose_Y)};

    o.count = o.a.many ? count_of(x) : count_of(y);
    o.out = (view){o.a.many || o.b.many, false, height(o.a), width(o.b)};
    if (o.a.many && !o.b.many && !o.a.trans) {     /* many times one: one tall matrix times it */
        o.a = stacked(o.a, o.count);
        o.out = stacked(o.out, o.count);
        o.count = 1;
    }
    return o;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static const tr_grad_rule grad = {
    .op = "matmul_grad",
    .reads = {TR_IN(X), TR_IN(Y), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_bilinear,
};

TR_REGISTER_OP(matmul, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(matmul), .grad = &grad);
TR_REGISTER_OP(matmul_grad, .grad_of = &tr_op_record_matmul, .kernels = TR_FLOAT_KERNELS(matmul_grad));

#else /* -- kernels ---------------------------------------------------------------------------- */

/* out = alpha op(a) op(b): `count` products, or, where out is one matrix, their sum in order. */
static void NAME(product)(T *out, bool many_out, T alpha, const T *x, view a, const T *y, view b, int64_t count)
{
    const int64_t m = height(a), n = width(b), k = width(a);
    const int64_t x_step = a.many ? a.rows * a.cols : 0, y_step = b.many ? b.rows * b.cols : 0;

    if (many_out || count == 1) {
        NAME(tr_gemm_batched)(a.trans, b.trans, count, m, n, k, alpha, x, a.cols, x_step, y, b.cols, y_step, 0, out,
                              n, m * n);
        return;
    }
    memset(out, 0, (size_t)(m * n) * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        NAME(tr_gemm)(a.trans, b.trans, m, n, k, alpha, x + i * x_step, a.cols, y + i * y_step, b.cols, 1, out, n);
}

/* A stack of products, with what each stack has. */
typedef struct NAME(stack) {
    const T        *data;
    const tr_shape *shape;
    view            v;
} NAME(stack);

/* The same of stacks that are spread over each other: a matrix of `out` is the sum of the products that stand there, in order. */
static void NAME(spread_product)(T *out, const tr_shape *of_out, const tr_shape *all, T alpha, NAME(stack) x, NAME(stack) y)
{
    const int64_t m = height(x.v), n = width(y.v), k = width(x.v), count = tr_shape_product(all, 0, all->rank - 2);

    memset(out, 0, (size_t)(count_of(of_out) * m * n) * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        NAME(tr_gemm)(x.v.trans, y.v.trans, m, n, k, alpha, x.data + matrix_at(x.shape, all, i) * m * k, x.v.cols,
                      y.data + matrix_at(y.shape, all, i) * k * n, y.v.cols, 1, out + matrix_at(of_out, all, i) * m * n, n);
}

static tr_status NAME(matmul)(const tr_run *io)
{
    const attrs    *at = io->attrs;
    const operands  o = operands_of(io);
    const tr_shape *x = &io->in[X]->shape, *y = &io->in[Y]->shape;
    tr_shape        all;

    TR_TRY(tr_blas_init());
    if (are_spread(x, y) && spread(&all, x, y)) {
        NAME(spread_product)(io->out[OUT]->data, &all, &all, at->alpha, (NAME(stack)){io->in[X]->data, x, o.a},
                             (NAME(stack)){io->in[Y]->data, y, o.b});
        return TR_OK;
    }
    NAME(product)(io->out[OUT]->data, o.out.many, at->alpha, io->in[X]->data, o.a, io->in[Y]->data, o.b, o.count);
    return TR_OK;
}

static void NAME(spread_grad)(const tr_run *io, const operands *o, const tr_shape *all)
{
    const attrs      *at = io->attrs;
    const NAME(stack) x = {io->in[GX]->data, &io->in[GX]->shape, o->a}, y = {io->in[GY]->data, &io->in[GY]->shape, o->b};
    const NAME(stack) d = {io->in[GDOUT]->data, all, o->out};
    const NAME(stack) tx = {x.data, x.shape, flipped(x.v)}, ty = {y.data, y.shape, flipped(y.v)}, td = {d.data, d.shape, flipped(d.v)};

    if (io->out[GDX])
        NAME(spread_product)(io->out[GDX]->data, x.shape, all, at->alpha, x.v.trans ? y : d, x.v.trans ? td : ty);
    if (io->out[GDY])
        NAME(spread_product)(io->out[GDY]->data, y.shape, all, at->alpha, y.v.trans ? td : tx, y.v.trans ? x : d);
}

static tr_status NAME(matmul_grad)(const tr_run *io)
{
    const attrs   *at = io->attrs;
    const operands o = operands_of(io);
    const view     a = o.a, b = o.b, d = o.out;
    const T       *x = io->in[GX]->data, *y = io->in[GY]->data, *dout = io->in[GDOUT]->data;
    tr_shape       all;

    TR_TRY(tr_blas_init());
    if (are_spread(&io->in[GX]->shape, &io->in[GY]->shape) && spread(&all, &io->in[GX]->shape, &io->in[GY]->shape)) {
        NAME(spread_grad)(io, &o, &all);
        return TR_OK;
    }
    if (io->out[GDX] && a.trans)
        NAME(product)(io->out[GDX]->data, a.many, at->alpha, y, b, dout, flipped(d), o.count);
    else if (io->out[GDX])
        NAME(product)(io->out[GDX]->data, a.many, at->alpha, dout, d, y, flipped(b), o.count);
    if (io->out[GDY] && b.trans)
        NAME(product)(io->out[GDY]->data, b.many, at->alpha, dout, flipped(d), x, a, o.count);
    else if (io->out[GDY])
        NAME(product)(io->out[GDY]->data, b.many, at->alpha, x, flipped(a), dout, d, o.count);
    return TR_OK;
}

#endif
