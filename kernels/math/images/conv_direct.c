/* conv_direct.c - see conv_direct.h.
 *
 * An image is copied into zeros, so that no tap falls outside and a vector may read past the last row. Tables of
 * offsets are made once for a call, by the calling thread; slices read them. */
#ifndef T
#include "kernels/math/images/conv_direct.h"

#include "framework/base/compiler.h"
#include "framework/base/size.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/window.h"

#include <limits.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define WIDE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma")))
static bool has_wide_vectors(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}
#else
#define WIDE
static bool has_wide_vectors(void)
{
    return false;
}
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

enum {
    MAX_ROWS = 8,                     /* of a tile; tables and results have that much room at their end */
    MAX_VECTORS = 4,                  /* of a tile */
    CHUNK = 512,                     /* positions whose tile rows stay in the first cache together */
    MIN_WORK = 200000,                /* multiplications of a slice */
    MAX_RUNS = 16                     /* of images, for the filter's gradient */
};

static bool allowed = true;

void tr__conv_direct_allow(bool allow)
{
    allowed = allow;
}

/* The geometry: padded extents, sizes, tables. */
typedef struct geometry {
    const tr_conv_shape *s;
    int64_t channels, filters;        /* of a group */
    int64_t padded[3], plane;         /* of one channel, padding included */
    int64_t taps, pixels;             /* K and P of conv.c */
    int64_t images;                   /* of a slice, at least */
    int32_t *tap;                     /* offset of each tap within the padded image */
    int32_t *pixel;                   /* offset of the first tap of each output */
    int32_t *row, *col, *step;        /* multiples of something: see fill_steps */
} geometry;

static int64_t at_least_one(int64_t x)
{
    return x > 0 ? x : 1;
}

/* False where columns are the better way. */
static bool geometry_init(geometry *g, const tr_conv_shape *s)
{
    *g = (geometry){.s = s, .channels = s->in_channels / s->groups, .filters = s->out_channels / s->groups};
    for (int a = 0; a < 3; a++)
        g->padded[a] = tr_window_reach(s->in[a], s->dilation[a] * (s->kernel[a] - 1) + 1, s->stride[a], 2 * s->pad[a], s->out[a]);
    g->plane = tr_size_volume(g->padded);
    g->taps = g->channels * tr_size_volume(s->kernel);
    g->pixels = tr_size_volume(s->out);
    g->images = 1 + MIN_WORK / at_least_one(g->taps * g->pixels * s->out_channels);
    const int64_t largest = g->channels * g->plane + g->filters * (g->taps + g->pixels) + 64 * g->pixels;
    return allowed && has_wide_vectors() && tr_size_volume(s->kernel) > 1 && s->batch > 0 && g->pixels > 0 && g->channels > 0 &&
           g->filters > 0 && largest < INT_MAX;
}

static void fill_taps(const geometry *g)
{
    const tr_conv_shape *s = g->s;
    int32_t             *tap = g->tap;

    for (int64_t c = 0; c < g->channels; c++)
        for (int64_t z = 0; z < s->kernel[0]; z++)
            for (int64_t y = 0; y < s->kernel[1]; y++)
                for (int64_t x = 0; x < s->kernel[2]; x++)
                    *tap++ = (int32_t)(c * g->plane + (z * s->dilation[0] * g->padded[1] + y * s->dilation[1]) * g->padded[2] +
                                       x * s->dilation[2]);
    for (int i = 0; i < MAX_ROWS; i++)
        tap[i] = tap[-1];
}

static void fill_pixels(const geometry *g)
{
    const tr_conv_shape *s = g->s;
    int32_t             *pixel = g->pixel;

    for (int64_t z = 0; z < s->out[0]; z++)
        for (int64_t y = 0; y < s->out[1]; y++)
            for (int64_t x = 0; x < s->out[2]; x++)
                *pixel++ = (int32_t)((z * s->stride[0] * g->padded[1] + y * s->stride[1]) * g->padded[2] + x * s->stride[2]);
}

/* count multiples of step, and some of the last one. */
static void fill_steps(int32_t *table, int64_t count, int64_t step)
{
    for (int64_t i = 0; i < count + MAX_ROWS; i++)
        table[i] = (int32_t)((i < count ? i : count - 1) * step);
}

/* The tables, in the calling thread's memory. */
static void tables_init(geometry *g)
{
    int64_t n = g->taps > g->filters ? g->taps : g->filters;

    n = (n > g->pixels ? n : g->pixels) + MAX_ROWS;
    g->tap = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(5 * n) * sizeof(int32_t));
    g->pixel = g->tap + n;
    g->row = g->pixel + n;
    g->col = g->row + n;
    g->step = g->col + n;
    fill_taps(g);
    fill_pixels(g);
}

#include "kernels/math/tools/each_float.h"
#else

#define LANES ((int64_t)(64 / sizeof(T)))

typedef T NAME(vec) __attribute__((vector_size(64), aligned(sizeof(T)), may_alias));
typedef T NAME(half) __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));

static int64_t NAME(vectors)(int64_t n)
{
    return (n + LANES - 1) / LANES;
}

/* -- the tile -------------------------------------------------------------------------------------------------------- */

typedef struct {
    const T       *a, *b;
    const int32_t *row, *col, *brow;
    int64_t        depth, ldc;
    bool           add;
} NAME(product);

TR_INLINE void NAME(tile)(const int rows, const int vectors, T *c, const NAME(product) *p, const int32_t *row, const T *b)
{
    NAME(vec) sum[MAX_ROWS][MAX_VECTORS];
    const T  *a[MAX_ROWS];

    UNROLL
    for (int i = 0; i < rows; i++) {
        a[i] = p->a + row[i];
        UNROLL
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->add ? *(NAME(vec) *)(c + i * p->ldc + j * LANES) : (NAME(vec)){0};
    }
    for (int64_t t = 0; t < p->depth; t++) {
        const T      *bt = b + p->brow[t];
        const int64_t at = p->col[t];
        NAME(vec)     v[MAX_VECTORS];
        UNROLL
        for (int j = 0; j < vectors; j++)
            v[j] = *(const NAME(vec) *)(bt + j * LANES);
        UNROLL
        for (int i = 0; i < rows; i++)
            UNROLL
            for (int j = 0; j < vectors; j++)
                sum[i][j] += a[i][at] * v[j];
    }
    UNROLL
    for (int i = 0; i < rows; i++)
        UNROLL
        for (int j = 0; j < vectors; j++)
            *(NAME(vec) *)(c + i * p->ldc + j * LANES) = sum[i][j];
}

#define TILE(rows, vectors) \
    WIDE static void NAME(tile_##rows##_##vectors)(T *c, const NAME(product) *p, const int32_t *row, const T *b) \
    { NAME(tile)(rows, vectors, c, p, row, b); }
TILE(1, 1) TILE(1, 2) TILE(1, 3) TILE(1, 4) TILE(8, 1) TILE(8, 2) TILE(8, 3) TILE(6, 4)
#undef TILE

/* C, of `rows` rows and `vectors` vectors, in tiles; up to MAX_ROWS - 1 rows more are written. */
static void NAME(multiply)(T *c, const NAME(product) *p, int64_t rows, int64_t vectors)
{
    typedef void (*tile_fn)(T *, const NAME(product) *, const int32_t *, const T *);
    static const tile_fn one[] = {NAME(tile_1_1), NAME(tile_1_2), NAME(tile_1_3), NAME(tile_1_4)};
    static const tile_fn many[] = {NAME(tile_8_1), NAME(tile_8_2), NAME(tile_8_3), NAME(tile_6_4)};
    const int64_t        blocks = (vectors + MAX_VECTORS - 1) / MAX_VECTORS;

    for (int64_t k = 0, from = 0; k < blocks; k++) {
        const int64_t to = (k + 1) * vectors / blocks, n = to - from, step = n == 4 ? 6 : 8;
        const int64_t pairs = rows % step <= 2 ? rows - rows % step : rows;
        for (int64_t i = 0; i < pairs; i += step)
            many[n - 1](c + i * p->ldc + from * LANES, p, p->row + i, p->b + from * LANES);
        for (int64_t i = pairs; i < rows; i++)
            one[n - 1](c + i * p->ldc + from * LANES, p, p->row + i, p->b + from * LANES);
        from = to;
    }
}

/* -- images ------------------------------------------------------------------------------------------------------------ */

/* Elements of a padded image, and room for a tile's vectors after it. */
static int64_t NAME(padded_size)(const geometry *g)
{
    return g->channels * g->plane + MAX_VECTORS * LANES;
}

/* Row r of the image's rows, in the padded image. */
static T *NAME(padded_row)(T *padded, const geometry *g, int64_t r)
{
    const tr_conv_shape *s = g->s;
    const int64_t        y = r % s->in[1], z = r / s->in[1] % s->in[0], c = r / (s->in[1] * s->in[0]);
    return padded + c * g->plane + ((z + s->pad[0]) * g->padded[1] + y + s->pad[1]) * g->padded[2] + s->pad[2];
}

static void NAME(clear)(T *padded, const geometry *g)
{
    memset(padded, 0, (size_t)NAME(padded_size)(g) * sizeof(T));
}

/* Into a padded image whose border is clear. */
static void NAME(pad)(T *padded, const T *image, const geometry *g)
{
    const int64_t rows = g->channels * g->s->in[0] * g->s->in[1], width = g->s->in[2];

    for (int64_t r = 0; r < rows; r++)
        memcpy(NAME(padded_row)(padded, g, r), image + r * width, (size_t)width * sizeof(T));
}

static void NAME(unpad)(T *image, T *padded, const geometry *g)
{
    const int64_t rows = g->channels * g->s->in[0] * g->s->in[1], width = g->s->in[2];

    for (int64_t r = 0; r < rows; r++)
        memcpy(image + r * width, NAME(padded_row)(padded, g, r), (size_t)width * sizeof(T));
}

typedef struct {
    const geometry *g;
    T              *out;
    const T        *x, *filter, *bias, *d;
    int64_t         runs, run_size, pitch;    /* of the filter's gradient */
} NAME(job);

/* -- forward -------------------------------------------------------------------------------------------------------------- */

TR_INLINE void NAME(copy_row)(T *to, const T *from, T bias, int64_t n)
{
    enum { HALF = 32 / sizeof(T) };
    int64_t x = 0;

    for (; x + HALF <= n; x += HALF)
        *(NAME(half) *)(to + x) = *(const NAME(half) *)(from + x) + bias;
    for (; x < n; x++)
        to[x] = from[x] + bias;
}

/* `rows` filters' results for output rows [y, y + count) of depth z, out of the tile rows. */
WIDE static void NAME(keep_outputs)(T *out, const T *c, int64_t ldc, const T *bias, const geometry *g, int64_t rows,
                                    int64_t z, int64_t y, int64_t count)
{
    const int64_t width = g->s->out[2], pitch = g->padded[2];

    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < count; k++)
            NAME(copy_row)(out + i * g->pixels + (z * g->s->out[1] + y + k) * width, c + i * ldc + k * pitch,
                           bias ? bias[i] : 0, width);
}

static void NAME(forward_group)(T *out, const T *padded, T *c, const T *filter, const T *bias, const geometry *g)
{
    const int64_t pitch = g->padded[2], chunk = at_least_one(CHUNK / pitch), height = g->s->out[1];
    const int64_t ldc = NAME(vectors)(chunk * pitch) * LANES;

    for (int64_t z = 0; z < g->s->out[0]; z++)
        for (int64_t y = 0; y < height; y += chunk) {
            const int64_t count = y + chunk < height ? chunk : height - y;
            const int64_t vectors = NAME(vectors)((count - 1) * pitch + g->s->out[2]);
            for (int64_t m = 0; m < g->filters; m += MAX_ROWS * 3) {
                const int64_t       rows = m + MAX_ROWS * 3 < g->filters ? MAX_ROWS * 3 : g->filters - m;
                const NAME(product) p = {.a = filter, .b = padded + (z * g->padded[1] + y) * pitch, .row = g->row + m,
                                         .col = g->col, .brow = g->tap, .depth = g->taps, .ldc = ldc};
                NAME(multiply)(c, &p, rows, vectors);
                NAME(keep_outputs)(out + m * g->pixels, c, ldc, bias ? bias + m : NULL, g, rows, z, y, count);
            }
        }
}

static void NAME(forward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    const int64_t    groups = g->s->groups, ldc = CHUNK + g->padded[2] + LANES;
    T               *padded = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(NAME(padded_size)(g) + 4 * MAX_ROWS * ldc) * sizeof(T));
    T               *c = padded + NAME(padded_size)(g);

    NAME(clear)(padded, g);
    for (int64_t i = begin * groups; i < end * groups; i++) {
        const int64_t group = i % groups;
        NAME(pad)(padded, j->x + i * g->channels * tr_size_volume(g->s->in), g);
        NAME(forward_group)(j->out + i * g->filters * g->pixels, padded, c, j->filter + group * g->filters * g->taps,
                            j->bias ? j->bias + group * g->filters : NULL, g);
    }
}

bool NAME(tr__conv_direct)(T *out, const T *x, const T *filter, const T *bias, const tr_conv_shape *s)
{
    geometry g;

    if (!geometry_init(&g, s) || s->stride[0] != 1 || s->stride[1] != 1 || s->stride[2] != 1)
        return false;
    tables_init(&g);
    fill_steps(g.row, g.filters, g.taps);
    fill_steps(g.col, g.taps, 1);
    NAME(job) j = {.g = &g, .out = out, .x = x, .filter = filter, .bias = bias};
    tr_parallel_range(s->batch, g.images, NAME(forward_range), &j);
    return true;
}

/* -- gradient of the input --------------------------------------------------------------------------------------------------- */

/* Add a row of outputs' shares to the places that the tap read. */
TR_INLINE void NAME(add_row)(T *to, const T *from, int64_t n, int64_t stride)
{
    enum { HALF = 32 / sizeof(T) };

    if (stride == 1 && n % HALF == 0)
        for (int64_t x = 0; x < n; x += HALF)
            *(NAME(half) *)(to + x) += *(const NAME(half) *)(from + x);
    else
        for (int64_t x = 0; x < n; x++)
            to[x * stride] += from[x];
}

/* One tap's shares of output rows [first, first + count), rows counted through the depth. */
WIDE static void NAME(add_tap)(T *padded, const T *c, const geometry *g, int64_t first, int64_t count)
{
    const int64_t width = g->s->out[2];

    for (int64_t r = 0; r < count; r++)
        NAME(add_row)(padded + g->pixel[(first + r) * width], c + r * width, width, g->s->stride[2]);
}

static void NAME(input_group)(T *padded, T *c, const T *d, const T *filter, const geometry *g)
{
    const int64_t width = g->s->out[2], height = g->s->out[0] * g->s->out[1], chunk = at_least_one(CHUNK / width);
    const int64_t ldc = NAME(vectors)(chunk * width) * LANES;

    for (int64_t y = 0; y < height; y += chunk) {
        const int64_t count = y + chunk < height ? chunk : height - y;
        for (int64_t k = 0; k < g->taps; k += MAX_ROWS * 3) {
            const int64_t       rows = k + MAX_ROWS * 3 < g->taps ? MAX_ROWS * 3 : g->taps - k;
            const NAME(product) p = {.a = filter, .b = d + y * width, .row = g->row + k, .col = g->col,
                                     .brow = g->step, .depth = g->filters, .ldc = ldc};
            NAME(multiply)(c, &p, rows, NAME(vectors)(count * width));
            for (int64_t i = 0; i < rows; i++)
                NAME(add_tap)(padded + g->tap[k + i], c + i * ldc, g, y, count);
        }
    }
}

/* dout of a group is copied, so that vectors may read past its end. */
static void NAME(input_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    const int64_t    groups = g->s->groups, d_size = g->filters * g->pixels, ldc = CHUNK + g->s->out[2] + LANES;
    T               *padded = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(NAME(padded_size)(g) + d_size + 4 * MAX_ROWS * ldc +
                                                                             2 * MAX_VECTORS * LANES) * sizeof(T));
    T               *d = padded + NAME(padded_size)(g), *c = d + d_size + MAX_VECTORS * LANES;

    memset(d + d_size, 0, (size_t)(MAX_VECTORS * LANES) * sizeof(T));
    for (int64_t i = begin * groups; i < end * groups; i++) {
        NAME(clear)(padded, g);
        memcpy(d, j->d + i * d_size, (size_t)d_size * sizeof(T));
        NAME(input_group)(padded, c, d, j->filter + i % groups * g->filters * g->taps, g);
        NAME(unpad)(j->out + i * g->channels * tr_size_volume(g->s->in), padded, g);
    }
}

bool NAME(tr__conv_direct_grad_input)(T *dx, const T *dout, const T *filter, const tr_conv_shape *s)
{
    geometry g;

    if (!geometry_init(&g, s))
        return false;
    tables_init(&g);
    fill_steps(g.row, g.taps, 1);
    fill_steps(g.col, g.filters, g.taps);
    fill_steps(g.step, g.filters, g.pixels);
    NAME(job) j = {.g = &g, .out = dx, .d = dout, .filter = filter};
    tr_parallel_range(s->batch, g.images, NAME(input_range), &j);
    return true;
}

/* -- gradient of the filter ---------------------------------------------------------------------------------------------------- */

/* to[n][pitch] = from[m][n], the rest of a row 0. */
static void NAME(turn)(T *to, int64_t pitch, const T *from, int64_t m, int64_t n)
{
    enum { BLOCK = 16 };

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = m; i < pitch; i++)
            to[j * pitch + i] = 0;
    for (int64_t i = 0; i < m; i += BLOCK)
        for (int64_t j = 0; j < n; j++)
            for (int64_t k = i; k < i + BLOCK && k < m; k++)
                to[j * pitch + k] = from[k * n + j];
}

static void NAME(filter_run)(void *payload, int64_t run)
{
    const NAME(job) *j = payload;
    const geometry  *g = j->g;
    const int64_t    groups = g->s->groups, turned_size = g->pixels * j->pitch;
    T               *padded = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(NAME(padded_size)(g) + turned_size) * sizeof(T));
    T               *turned = padded + NAME(padded_size)(g);
    int64_t          begin, end;

    NAME(clear)(padded, g);
    tr_slice_range(&begin, &end, g->s->batch, 1, j->runs, run);
    for (int64_t i = begin * groups; i < end * groups; i++) {
        const NAME(product) p = {.a = padded, .b = turned, .row = g->tap, .col = g->pixel, .brow = g->step, .depth = g->pixels,
                                 .ldc = j->pitch, .add = i >= (begin + 1) * groups};
        NAME(pad)(padded, j->x + i * g->channels * tr_size_volume(g->s->in), g);
        NAME(turn)(turned, j->pitch, j->d + i * g->filters * g->pixels, g->filters, g->pixels);
        NAME(multiply)(j->out + run * j->run_size + i % groups * (g->taps + MAX_ROWS) * j->pitch, &p, g->taps,
                       j->pitch / LANES);
    }
}

TR_CLONES static void NAME(add_run)(T *sum, const T *x, int64_t n)
{
    TR_IVDEP
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
}

bool NAME(tr__conv_direct_grad_filter)(T *dfilter, const T *dout, const T *x, const tr_conv_shape *s)
{
    geometry g;

    if (!geometry_init(&g, s) || g.filters < 4 || g.taps < 4 * MAX_ROWS)
        return false;
    const int64_t runs = tr_slice_count(s->batch, g.images);
    NAME(job)     j = {.g = &g, .x = x, .d = dout, .runs = runs < MAX_RUNS ? runs : MAX_RUNS};
    j.pitch = NAME(vectors)(g.filters) * LANES;
    j.run_size = s->groups * (g.taps + MAX_ROWS) * j.pitch;
    j.out = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(j.runs * j.run_size) * sizeof(T));
    tables_init(&g);
    fill_steps(g.step, g.pixels, j.pitch);
    tr_parallel(j.runs, NAME(filter_run), &j);
    for (int64_t run = 1; run < j.runs; run++)
        NAME(add_run)(j.out, j.out + run * j.run_size, j.run_size);
    for (int64_t group = 0; group < s->groups; group++)
        for (int64_t m = 0; m < g.filters; m++)
            for (int64_t k = 0; k < g.taps; k++)
                dfilter[(group * g.filters + m) * g.taps + k] = j.out[(group * (g.taps + MAX_ROWS) + k) * j.pitch + m];
    return true;
}

#undef LANES
#endif
