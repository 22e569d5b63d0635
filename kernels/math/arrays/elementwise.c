/* elementwise.c - a vector loop for each operation and pattern of broadcasting.
 *
 * Two patterns cover pre / n / post: rows of n elements against the same row b (post = 1), and rows of post elements
 * against one element of b. Equal shapes are the first with one long row, a scalar the second. */
#ifndef T
#include "kernels/math/arrays/elementwise.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/wrap.h"

#include <string.h>
#include <tgmath.h>

enum { MIN_ITEMS = 16384 };                                  /* elements of a slice */

static int64_t rows_of_slice(int64_t length)
{
    return 1 + MIN_ITEMS / (length > 0 ? length : 1);
}

/* -- bytes ------------------------------------------------------------------------------------------------------- */

typedef struct bytes_job {
    tr_logical     op;
    uint8_t       *out;
    const uint8_t *a, *b;
    int64_t        item_size;
} bytes_job;

TR_CLONES static void logical_range(void *payload, int64_t begin, int64_t end)
{
    const bytes_job *j = payload;
    uint8_t         *out = j->out;
    const uint8_t   *a = j->a, *b = j->b;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++) {
        const uint8_t x = a[i] != 0, y = b[i] != 0;
        out[i] = j->op == TR_LOGICAL_AND ? (x & y) : j->op == TR_LOGICAL_OR ? (x | y) : (x ^ y);
    }
}

void tr_logical_apply(tr_logical op, uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n)
{
    bytes_job j = {op, out, a, b, 1};
    tr_parallel_range(n, MIN_ITEMS, logical_range, &j);
}

TR_CLONES static void not_range(void *payload, int64_t begin, int64_t end)
{
    const bytes_job *j = payload;
    uint8_t         *out = j->out;
    const uint8_t   *a = j->a;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++)
        out[i] = a[i] == 0;
}

void tr_logical_not(uint8_t *out, const uint8_t *a, int64_t n)
{
    bytes_job j = {.out = out, .a = a};
    tr_parallel_range(n, MIN_ITEMS, not_range, &j);
}

static void fill_range(void *payload, int64_t begin, int64_t end)
{
    const bytes_job *j = payload;
    uint16_t         v2;
    uint32_t         v4;
    uint64_t         v8;
    switch (j->item_size) {
    case 1:
        memset(j->out + begin, j->a[0], (size_t)(end - begin));
        break;
    case 2:
        memcpy(&v2, j->a, sizeof v2);
        for (int64_t i = begin; i < end; i++)
            ((uint16_t *)j->out)[i] = v2;
        break;
    case 4:
        memcpy(&v4, j->a, sizeof v4);
        for (int64_t i = begin; i < end; i++)
            ((uint32_t *)j->out)[i] = v4;
        break;
    default:
        memcpy(&v8, j->a, sizeof v8);
        for (int64_t i = begin; i < end; i++)
            ((uint64_t *)j->out)[i] = v8;
    }
}

void tr_fill(void *out, const void *value, int64_t item_size, int64_t n)
{
    bytes_job j = {.out = out, .a = value, .item_size = item_size};
    tr_parallel_range(n, 2 * MIN_ITEMS, fill_range, &j);
}

#include "kernels/math/tools/each_number.h"
#else

/* -- the operations on one element ---------------------------------------------------------------------------------- */

TR_INLINE T NAME(op_add)(T a, T b) { return NAME(tr_plus)(a, b); }
TR_INLINE T NAME(op_sub)(T a, T b) { return NAME(tr_minus)(a, b); }
TR_INLINE T NAME(op_mul)(T a, T b) { return NAME(tr_times)(a, b); }
TR_INLINE T NAME(op_max)(T a, T b) { return a > b ? a : b; }
TR_INLINE T NAME(op_min)(T a, T b) { return a < b ? a : b; }

#if T_IS_FLOATING
TR_INLINE T NAME(op_div)(T a, T b) { return a / b; }
TR_INLINE T NAME(op_pow)(T a, T b) { return pow(a, b); }
TR_INLINE T NAME(op_floordiv)(T a, T b) { return floor(a / b); }
TR_INLINE T NAME(op_mod)(T a, T b)
{
    const T r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#else
/* The smallest value divided by -1 does not fit: it stays, as two's complement has it. */
TR_INLINE T NAME(op_div)(T a, T b) { return b == 0 ? 0 : b == -1 ? NAME(tr_minus)(0, a) : a / b; }
TR_INLINE T NAME(op_mod)(T a, T b)
{
    if (b == 0 || b == -1)
        return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TR_INLINE T NAME(op_floordiv)(T a, T b)
{
    const T q = NAME(op_div)(a, b);
    return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
TR_INLINE T NAME(op_pow)(T a, T b)
{
    T power = 1;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    for (; b > 0; b >>= 1, a = NAME(tr_times)(a, a))
        power = NAME(tr_times)(power, b & 1 ? a : 1);
    return power;
}
#endif

TR_INLINE uint8_t NAME(op_eq)(T a, T b) { return a == b; }
TR_INLINE uint8_t NAME(op_ne)(T a, T b) { return a != b; }
TR_INLINE uint8_t NAME(op_lt)(T a, T b) { return a < b; }
TR_INLINE uint8_t NAME(op_le)(T a, T b) { return a <= b; }
TR_INLINE uint8_t NAME(op_gt)(T a, T b) { return a > b; }
TR_INLINE uint8_t NAME(op_ge)(T a, T b) { return a >= b; }

#define BINARY_LIST(X)                                                                                          \
    X(ADD, add) X(SUB, sub) X(MUL, mul) X(DIV, div) X(MAX, max) X(MIN, min) X(POW, pow) X(MOD, mod)             \
    X(FLOORDIV, floordiv)
#define COMPARE_LIST(X) X(EQ, eq) X(NE, ne) X(LT, lt) X(LE, le) X(GT, gt) X(GE, ge)

/* -- loops: rows against a row, rows against one element each -------------------------------------------------------- */

#define LOOPS(OUT, op)                                                                                          \
    TR_CLONES static void NAME(op##_row)(OUT *out, const T *a, const T *b, int64_t rows, int64_t cols)          \
    {                                                                                                           \
        for (int64_t r = 0; r < rows; r++, out += cols, a += cols) {                                            \
            TR_IVDEP                                                                                            \
            for (int64_t k = 0; k < cols; k++)                                                                  \
                out[k] = NAME(op_##op)(a[k], b[k]);                                                             \
        }                                                                                                       \
    }                                                                                                           \
    TR_CLONES static void NAME(op##_one)(OUT *out, const T *a, T b, int64_t cols)                               \
    {                                                                                                           \
        TR_IVDEP                                                                                                \
        for (int64_t k = 0; k < cols; k++)                                                                      \
            out[k] = NAME(op_##op)(a[k], b);                                                                    \
    }
#define BINARY_LOOPS(OP, op)  LOOPS(T, op)
#define COMPARE_LOOPS(OP, op) LOOPS(uint8_t, op)
BINARY_LIST(BINARY_LOOPS)
COMPARE_LIST(COMPARE_LOOPS)

static void NAME(binary_row)(int op, void *out, const T *a, const T *b, int64_t rows, int64_t cols)
{
    switch ((tr_binary)op) {
#define CASE(OP, op) case TR_BINARY_##OP: NAME(op##_row)(out, a, b, rows, cols); break;
        BINARY_LIST(CASE)
#undef CASE
    case TR_BINARY_COUNT: break;
    }
}

static void NAME(binary_one)(int op, void *out, const T *a, T b, int64_t cols)
{
    switch ((tr_binary)op) {
#define CASE(OP, op) case TR_BINARY_##OP: NAME(op##_one)(out, a, b, cols); break;
        BINARY_LIST(CASE)
#undef CASE
    case TR_BINARY_COUNT: break;
    }
}

static void NAME(compare_row)(int op, void *out, const T *a, const T *b, int64_t rows, int64_t cols)
{
    switch ((tr_compare)op) {
#define CASE(OP, op) case TR_COMPARE_##OP: NAME(op##_row)(out, a, b, rows, cols); break;
        COMPARE_LIST(CASE)
#undef CASE
    case TR_COMPARE_COUNT: break;
    }
}

static void NAME(compare_one)(int op, void *out, const T *a, T b, int64_t cols)
{
    switch ((tr_compare)op) {
#define CASE(OP, op) case TR_COMPARE_##OP: NAME(op##_one)(out, a, b, cols); break;
        COMPARE_LIST(CASE)
#undef CASE
    case TR_COMPARE_COUNT: break;
    }
}
#undef LOOPS
#undef BINARY_LOOPS
#undef COMPARE_LOOPS
#undef BINARY_LIST
#undef COMPARE_LIST

/* -- broadcasting ----------------------------------------------------------------------------------------------------- */

typedef struct {
    void    (*row)(int op, void *out, const T *a, const T *b, int64_t rows, int64_t cols);
    void    (*one)(int op, void *out, const T *a, T b, int64_t cols);
    int       op;
    char     *out;
    int64_t   out_size;                                      /* bytes of an element of out */
    const T  *a, *b;
    int64_t   n, post;
} NAME(job);

static void NAME(same_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    j->row(j->op, j->out + begin * j->out_size, j->a + begin, j->b + begin, 1, end - begin);
}

static void NAME(scalar_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    j->one(j->op, j->out + begin * j->out_size, j->a + begin, j->b[0], end - begin);
}

static void NAME(rows_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    at = begin * j->n;
    j->row(j->op, j->out + at * j->out_size, j->a + at, j->b, end - begin, j->n);
}

static void NAME(blocks_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++)
        j->one(j->op, j->out + r * j->post * j->out_size, j->a + r * j->post, j->b[r % j->n], j->post);
}

static void NAME(broadcast)(NAME(job) *j, int64_t pre)
{
    if (pre == 1 && j->post == 1)
        tr_parallel_range(j->n, MIN_ITEMS, NAME(same_range), j);
    else if (j->n == 1)
        tr_parallel_range(pre * j->post, MIN_ITEMS, NAME(scalar_range), j);
    else if (j->post == 1)
        tr_parallel_range(pre, rows_of_slice(j->n), NAME(rows_range), j);
    else
        tr_parallel_range(pre * j->n, rows_of_slice(j->post), NAME(blocks_range), j);
}

void NAME(tr_binary_apply)(tr_binary op, T *out, const T *a, const T *b, int64_t pre, int64_t n, int64_t post)
{
    NAME(job) j = {NAME(binary_row), NAME(binary_one), (int)op, (char *)out, sizeof(T), a, b, n, post};
    NAME(broadcast)(&j, pre);
}

void NAME(tr_compare_apply)(tr_compare op, uint8_t *out, const T *a, const T *b, int64_t pre, int64_t n, int64_t post)
{
    NAME(job) j = {NAME(compare_row), NAME(compare_one), (int)op, (char *)out, 1, a, b, n, post};
    NAME(broadcast)(&j, pre);
}

/* -- one or two arrays and numbers -------------------------------------------------------------------------------------- */

typedef struct {
    T              *out;
    const T        *x, *y;
    const T *const *many;
    int64_t         count;
    T               a, b;
} NAME(vector_job);

TR_CLONES static void NAME(scale_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(vector_job) j = *(const NAME(vector_job) *)payload;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++)
        j.out[i] = NAME(tr_plus)(NAME(tr_times)(j.x[i], j.a), j.b);
}

void NAME(tr_scale)(T *out, const T *x, T scale, T bias, int64_t n)
{
    NAME(vector_job) j = {.out = out, .x = x, .a = scale, .b = bias};
    tr_parallel_range(n, MIN_ITEMS, NAME(scale_range), &j);
}

TR_CLONES static void NAME(axpy_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(vector_job) j = *(const NAME(vector_job) *)payload;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++)
        j.out[i] = NAME(tr_plus)(j.out[i], NAME(tr_times)(j.a, j.x[i]));
}

void NAME(tr_axpy)(T *y, T alpha, const T *x, int64_t n)
{
    NAME(vector_job) j = {.out = y, .x = x, .a = alpha};
    tr_parallel_range(n, MIN_ITEMS, NAME(axpy_range), &j);
}

/* Block by block, so that out stays in cache while the arrays pass. */
enum { NAME(SUM_BLOCK) = 2048 };

TR_CLONES static void NAME(sum_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(vector_job) *j = payload;
    for (int64_t at = begin; at < end; at += NAME(SUM_BLOCK)) {
        const int64_t size = end - at < NAME(SUM_BLOCK) ? end - at : NAME(SUM_BLOCK);
        T            *out = j->out + at;
        if (j->many[0] != j->out)
            memmove(out, j->many[0] + at, (size_t)size * sizeof(T));
        for (int64_t c = 1; c < j->count; c++) {
            const T *x = j->many[c] + at;
            TR_IVDEP
            for (int64_t i = 0; i < size; i++)
                out[i] = NAME(tr_plus)(out[i], x[i]);
        }
    }
}

void NAME(tr_sum_arrays)(T *out, const T *const *x, int64_t count, int64_t n)
{
    NAME(vector_job) j = {.out = out, .many = x, .count = count};
    if (count == 0)
        memset(out, 0, (size_t)n * sizeof(T));
    else
        tr_parallel_range(n, MIN_ITEMS / 2, NAME(sum_range), &j);
}

TR_CLONES static void NAME(clip_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(vector_job) j = *(const NAME(vector_job) *)payload;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++) {
        const T x = j.x[i] < j.a ? j.a : j.x[i];
        j.out[i] = x > j.b ? j.b : x;
    }
}

void NAME(tr_clip)(T *out, const T *x, T low, T high, int64_t n)
{
    NAME(vector_job) j = {.out = out, .x = x, .a = low, .b = high};
    tr_parallel_range(n, MIN_ITEMS, NAME(clip_range), &j);
}

TR_CLONES static void NAME(clip_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(vector_job) j = *(const NAME(vector_job) *)payload;
    TR_IVDEP
    for (int64_t i = begin; i < end; i++)
        j.out[i] = ((j.x[i] > j.a) & (j.x[i] < j.b)) ? j.y[i] : 0;
}

void NAME(tr_clip_grad)(T *dx, const T *dout, const T *x, T low, T high, int64_t n)
{
    NAME(vector_job) j = {.out = dx, .x = x, .y = dout, .a = low, .b = high};
    tr_parallel_range(n, MIN_ITEMS, NAME(clip_grad_range), &j);
}

#endif
