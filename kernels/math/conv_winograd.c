/* conv_winograd.c - see conv_winograd.h; the arithmetic is in conv_winograd_level.h.
 *
 * The forward pass and the input's gradient are one function: the latter is a convolution of the output's gradient with the filter
 * turned by 180 degrees. The filter is taken to the points once for a call. Then chunks of tiles go through all steps while they are in the
 * second level cache: places of a block of channels become vectors (gather), these the values at the points, products of
 * tiles x inputs with inputs x outputs at each of the 36 points, and back. Nothing that a tile computes depends on its chunk, so that chunks may
 * follow from the number of threads. The filter's gradient sums over tiles at the points, in runs of images that the shape
 * alone determines. */
#include "kernels/math/conv_winograd.h"

#include "framework/compiler.h"
#include "framework/threadpool.h"
#include "kernels/math/float_lanes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    POINTS = 6,
    ALL_POINTS = POINTS * POINTS,
    MAX_LANES = 16,
    MIN_CHANNELS = 8,
    MIN_WORK = 200000,                /* multiplications at the points of a slice */
    CHUNK_FLOATS = 144000,            /* of what a chunk has at the points */
    MIN_CHUNK = 28, MAX_CHUNK = 128,  /* tiles of a chunk, about; of the filter's gradient, whose sums are read and written for each chunk, the most */
    RUN_TILES = 32,                   /* of the filter's gradient, at least */
    MAX_RUNS = 16,
    MAX_RUN_FLOATS = 5 << 20          /* of all runs together */
};

/* A convolution of one group with strides of 1. */
typedef struct conv {
    int64_t batch, inputs, outputs;
    int64_t in[2], out[2], pad[2];
    int     taps, stride;             /* of a filter in one direction; outputs of a tile in one direction */
    int64_t down, across;             /* tiles of an image */
} conv;

typedef struct level {
    int  lanes;
    void (*gather)(float *places, const float *planes, int64_t channels, int64_t plane, int64_t begin, int64_t end);
    void (*scatter)(float *planes, const float *places, int64_t channels, int64_t plane, int64_t begin, int64_t end);
    void (*input_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2], int stride,
                         const int64_t pad[2], int64_t top, int64_t rows, int64_t across);
    void (*output_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2], int stride,
                          int64_t top, int64_t rows, int64_t across);
    void (*outputs)(float *places, int64_t first, const int64_t extent[2], const float *from, int64_t step, const float *bias,
                    int stride, int64_t top, int64_t rows, int64_t across);
    void (*filter_points)(float *to, int64_t step, const float *from, int64_t apart, int64_t lanes, int taps, bool turned);
    void (*gradient_taps)(float *to, int64_t apart, int64_t lanes, const float *sums, int64_t step, int64_t runs, int64_t run_size,
                          int taps);
    void (*products)(float *out, const float *v, const float *filter, int64_t tiles, int64_t inputs, int64_t blocks, int64_t block);
    void (*gradient_products)(float *sums, const float *v, const float *d, int64_t tiles, int64_t in_blocks, int64_t out_blocks,
                              int64_t block, bool add);
} level;

#if defined(__x86_64__) && defined(__GNUC__)

#define ROOT_HALF 0.70710678118654752440f
#define ROOT_TWO  1.41421356237309504880f
#define SCALE_A   (-2.0f / 3)         /* 1 / (2 a^2 (a^2 - b^2)) with a = sqrt(1/2), b = sqrt(2) */
#define SCALE_B   (1.0f / 6)          /* 1 / (2 b^2 (b^2 - a^2)) */
#define INLINE    TARGET static inline __attribute__((always_inline))

#define LEVEL(x) x##_avx512
#define TARGET   TR_TARGET_AVX512
#define LANES    16
#define MR       14
#define MR_GRAD  8
#include "kernels/math/conv_winograd_level.h"
#undef LEVEL
#undef TARGET
#undef LANES
#undef MR
#undef MR_GRAD

#define LEVEL(x) x##_avx2
#define TARGET   TR_TARGET_AVX2
#define LANES    8
#define MR       6
#define MR_GRAD  4
#include "kernels/math/conv_winograd_level.h"
#undef LEVEL
#undef TARGET
#undef LANES
#undef MR
#undef MR_GRAD

static const level *levels[] = {[TR_FLOAT_PLAIN] = NULL, [TR_FLOAT_AVX2] = &arithmetic_avx2, [TR_FLOAT_AVX512] = &arithmetic_avx512};

#else

static const level *levels[] = {NULL, NULL, NULL};

#endif

static int limit = TR_FLOAT_AVX512;

void tr__winograd_limit(int at_most)
{
    limit = at_most;
}

static const level *own_level(void)
{
    const int own = (int)tr__float_level();
    return levels[own < limit ? own : limit];
}

/* -- the switch --------------------------------------------------------------------------------------------------------------- */

static atomic_int chosen = -1;        /* 0, 1; -1: nobody has */

void tr_set_winograd(bool allow)
{
    atomic_store(&chosen, allow);
}

bool tr_winograd(void)
{
    const char *text;

    if (atomic_load_explicit(&chosen, memory_order_relaxed) >= 0)
        return atomic_load_explicit(&chosen, memory_order_relaxed) != 0;
    text = getenv("TRIREME_WINOGRAD");
    atomic_store(&chosen, !(text && strcmp(text, "0") == 0));
    return atomic_load(&chosen) != 0;
}

/* Whether c, which takes as many multiplications as taps^2 for each of `places`, is worth its way to the points and back. */
static bool pays(const conv *c, const int64_t places[2])
{
    return 3 * ALL_POINTS * c->down * c->across <= 2 * places[0] * places[1] * c->taps * c->taps;
}

static bool wants(const tr_conv_shape *s)
{
    const int64_t taps = s->kernel[1];
    bool          fits = s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1 && (taps == 3 || taps == 5) && s->kernel[2] == taps;

    for (int a = 1; a < 3; a++)
        fits = fits && s->stride[a] == 1 && s->dilation[a] == 1 && s->pad[a] < taps && s->out[a] >= 4;
    return fits && s->groups == 1 && s->batch > 0 && s->in_channels >= MIN_CHANNELS && s->out_channels >= MIN_CHANNELS &&
           own_level() != NULL && tr_winograd();
}

/* -- geometry ------------------------------------------------------------------------------------------------------------------- */

static conv conv_of(const tr_conv_shape *s)
{
    /* other shapes are not wanted; for them the numbers mean nothing */
    conv c = {s->batch, s->in_channels, s->out_channels, {s->in[1], s->in[2]}, {s->out[1], s->out[2]}, {s->pad[1], s->pad[2]},
              (int)s->kernel[1], s->kernel[1] == 5 ? 2 : 4, 0, 0};
    c.down = (c.out[0] + c.stride - 1) / c.stride;
    c.across = (c.out[1] + c.stride - 1) / c.stride;
    return c;
}

/* The convolution that gives the input's gradient. */
static conv turned_conv_of(const tr_conv_shape *s)
{
    conv c = conv_of(s);
    conv t = c;
    t.inputs = c.outputs;
    t.outputs = c.inputs;
    for (int a = 0; a < 2; a++) {
        t.in[a] = c.out[a];
        t.out[a] = c.in[a];
        t.pad[a] = c.taps - 1 - c.pad[a];
    }
    t.down = (t.out[0] + t.stride - 1) / t.stride;
    t.across = (t.out[1] + t.stride - 1) / t.stride;
    return t;
}

static int64_t blocks_of(int64_t channels, int lanes)
{
    return (channels + lanes - 1) / lanes;
}

static int64_t between(int64_t least, int64_t x, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* Rows of tiles of a chunk of about so many tiles: whole images where some fit. `rows` of them are cut by the number of threads. */
static int64_t chunk_rows(const conv *c, int64_t rows, int64_t tiles)
{
    const int64_t threads = tr_num_threads();
    int64_t       chunk = between(1, tiles / c->across, rows);
    if (chunk > c->down)
        chunk = chunk / c->down * c->down;
    const int64_t chunks = (rows + chunk - 1) / chunk, even = (chunks + threads - 1) / threads * threads;
    return chunks < 4 * threads ? (rows + even - 1) / even : chunk;
}

/* A chunk that is being computed, in one thread's memory. Both sides have room for `step` floats at each point. */
typedef struct chunk {
    const conv *c;
    int64_t     tiles;                /* at most */
    int64_t     block, step_in, step_out;
    float      *v, *m, *places;
} chunk;

static int64_t step_of(int64_t blocks, int64_t block, int lanes)
{
    return blocks * block + lanes;    /* an odd number of vectors, so that points do not share sets of the cache */
}

/* Rows of the extent that rows [top, top + rows) of tiles read or write: [first, last). */
static void rows_read(int64_t *first, int64_t *last, const conv *c, int64_t top, int64_t rows)
{
    *first = between(0, top * c->stride - c->pad[0], c->in[0]);
    *last = between(*first, (top + rows - 1) * c->stride - c->pad[0] + POINTS, c->in[0]);
}

static void rows_written(int64_t *first, int64_t *last, const conv *c, int64_t top, int64_t rows)
{
    *first = top * c->stride;
    *last = between(*first, (top + rows) * c->stride, c->out[0]);
}

static chunk chunk_init(const conv *c, const level *own, int64_t rows)
{
    const int64_t most = rows < c->down ? rows : c->down, read = between(1, most * c->stride + POINTS, c->in[0]) * c->in[1];
    const int64_t written = most * c->stride * c->out[1], places = (read > written ? read : written) + own->lanes;
    chunk         k = {.c = c, .tiles = rows * c->across, .block = rows * c->across * own->lanes};

    k.step_in = step_of(blocks_of(c->inputs, own->lanes), k.block, own->lanes);
    k.step_out = step_of(blocks_of(c->outputs, own->lanes), k.block, own->lanes);
    k.v = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(ALL_POINTS * (k.step_in + k.step_out) + places * own->lanes) * sizeof(float));
    k.m = k.v + ALL_POINTS * k.step_in;
    k.places = k.m + ALL_POINTS * k.step_out;
    return k;
}

/* Calls `visit` for the part of each image in rows [begin, end) of tiles, counted through the batch; `at`: tiles before it. */
typedef struct part {
    int64_t image, top, rows, at;
} part;

static bool next_part(part *p, const conv *c, int64_t begin, int64_t end)
{
    const int64_t row = p->rows == 0 ? begin : p->image * c->down + p->top + p->rows;
    if (row >= end)
        return false;
    p->at = (row - begin) * c->across;
    p->image = row / c->down;
    p->top = row % c->down;
    p->rows = c->down - p->top < end - row ? c->down - p->top : end - row;
    return true;
}

/* -- steps of a chunk ------------------------------------------------------------------------------------------------------------ */

static void take_inputs(const chunk *k, const level *own, const float *x, int64_t begin, int64_t end)
{
    const conv   *c = k->c;
    const int64_t plane = c->in[0] * c->in[1];

    for (int64_t i = 0; i < c->inputs; i += own->lanes)
        for (part p = {0}; next_part(&p, c, begin, end);) {
            int64_t first, last;
            rows_read(&first, &last, c, p.top, p.rows);
            own->gather(k->places, x + (p.image * c->inputs + i) * plane, c->inputs - i, plane, first * c->in[1], last * c->in[1]);
            own->input_points(k->v + i / own->lanes * k->block + p.at * own->lanes, k->step_in, k->places, first, c->in, c->stride, c->pad,
                              p.top, p.rows, c->across);
        }
}

static void take_gradients(const chunk *k, const level *own, const float *d, int64_t begin, int64_t end)
{
    const conv   *c = k->c;
    const int64_t plane = c->out[0] * c->out[1];

    for (int64_t o = 0; o < c->outputs; o += own->lanes)
        for (part p = {0}; next_part(&p, c, begin, end);) {
            int64_t first, last;
            rows_written(&first, &last, c, p.top, p.rows);
            own->gather(k->places, d + (p.image * c->outputs + o) * plane, c->outputs - o, plane, first * c->out[1], last * c->out[1]);
            own->output_points(k->m + o / own->lanes * k->block + p.at * own->lanes, k->step_out, k->places, first, c->out, c->stride,
                               p.top, p.rows, c->across);
        }
}

static void give_outputs(const chunk *k, const level *own, float *out, const float *bias, int64_t begin, int64_t end)
{
    const conv   *c = k->c;
    const int64_t plane = c->out[0] * c->out[1];

    for (int64_t o = 0; o < c->outputs; o += own->lanes) {
        float more[MAX_LANES] = {0};
        for (int64_t i = 0; bias && i < own->lanes && o + i < c->outputs; i++)
            more[i] = bias[o + i];
        for (part p = {0}; next_part(&p, c, begin, end);) {
            int64_t first, last;
            rows_written(&first, &last, c, p.top, p.rows);
            own->outputs(k->places, first, c->out, k->m + o / own->lanes * k->block + p.at * own->lanes, k->step_out, more, c->stride,
                         p.top, p.rows, c->across);
            own->scatter(out + (p.image * c->outputs + o) * plane, k->places, c->outputs - o, plane, first * c->out[1], last * c->out[1]);
        }
    }
}

/* -- forward and the input's gradient ------------------------------------------------------------------------------------------------ */

typedef struct {
    const conv  *c;
    const level *own;
    float       *out, *points;        /* points: of the filter */
    const float *x, *filter, *bias, *d;
    bool         turned;
    int64_t      rows, pairs;         /* of a chunk; of blocks of outputs */
    int64_t      runs, run_size;
} job;

/* Item i: one block of outputs and one input. */
static void filter_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t taps = c->taps * c->taps, lanes = j->own->lanes, step = j->pairs * c->inputs * 2 * lanes;
    const int64_t of_output = j->turned ? taps : c->inputs * taps, of_input = j->turned ? c->outputs * taps : taps;

    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item / c->inputs, input = item % c->inputs, o = block * lanes;
        j->own->filter_points(j->points + (block / 2 * c->inputs + input) * 2 * lanes + block % 2 * lanes, step,
                              j->filter + o * of_output + input * of_input, of_output, between(0, c->outputs - o, lanes), c->taps, j->turned);
    }
}

static void chunks_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t rows = c->batch * c->down, blocks = blocks_of(c->outputs, j->own->lanes);
    const chunk   k = chunk_init(c, j->own, j->rows);

    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * j->rows, last = between(first, first + j->rows, rows), tiles = (last - first) * c->across;
        take_inputs(&k, j->own, j->x, first, last);
        for (int64_t p = 0; p < ALL_POINTS; p++)
            j->own->products(k.m + p * k.step_out, k.v + p * k.step_in, j->points + p * j->pairs * c->inputs * 2 * j->own->lanes, tiles,
                             c->inputs, blocks, k.block);
        give_outputs(&k, j->own, j->out, j->bias, first, last);
    }
}

static void convolve(float *out, const float *x, const float *filter, const float *bias, const conv *c, bool turned)
{
    const level  *own = own_level();
    const int64_t blocks = blocks_of(c->outputs, own->lanes), pairs = (blocks + 1) / 2, rows = c->batch * c->down;
    job           j = {.c = c, .own = own, .out = out, .x = x, .filter = filter, .bias = bias, .turned = turned, .pairs = pairs};

    j.rows = chunk_rows(c, rows, between(MIN_CHUNK, CHUNK_FLOATS / (ALL_POINTS * (c->inputs + c->outputs)), MAX_CHUNK));
    j.points = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(ALL_POINTS * pairs * c->inputs * 2 * own->lanes) * sizeof(float));
    tr_parallel_range(blocks * c->inputs, 64, filter_range, &j);
    const int64_t work = ALL_POINTS * c->inputs * c->outputs * c->across * j.rows;
    tr_parallel_range((rows + j.rows - 1) / j.rows, 1 + MIN_WORK / work, chunks_range, &j);
}

bool tr__winograd(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s)
{
    const conv c = conv_of(s);
    if (!wants(s) || !pays(&c, c.out))
        return false;
    convolve(out, x, filter, bias, &c, false);
    return true;
}

bool tr__winograd_grad_input(float *dx, const float *dout, const float *filter, const tr_conv_shape *s)
{
    const conv c = turned_conv_of(s);
    if (!wants(s) || !pays(&c, c.in))
        return false;
    convolve(dx, dout, filter, NULL, &c, true);
    return true;
}

/* -- the filter's gradient ------------------------------------------------------------------------------------------------------------- */

static void gradient_run(void *payload, int64_t run)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const chunk   k = chunk_init(c, j->own, j->rows);
    const int64_t in_blocks = blocks_of(c->inputs, j->own->lanes), out_blocks = blocks_of(c->outputs, j->own->lanes);
    const int64_t step = j->run_size / ALL_POINTS;
    int64_t       begin, end;

    tr_slice_range(&begin, &end, c->batch * c->down, 1, j->runs, run);
    for (int64_t first = begin; first < end; first += j->rows) {
        const int64_t last = first + j->rows < end ? first + j->rows : end;
        take_inputs(&k, j->own, j->x, first, last);
        take_gradients(&k, j->own, j->d, first, last);
        for (int64_t p = 0; p < ALL_POINTS; p++)
            j->own->gradient_products(j->points + run * j->run_size + p * step, k.v + p * k.step_in, k.m + p * k.step_out,
                                      (last - first) * c->across, in_blocks, out_blocks, k.block, first > begin);
    }
}

/* Item i: one block of outputs and one input. */
static void taps_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t taps = c->taps * c->taps, lanes = j->own->lanes, in_blocks = blocks_of(c->inputs, (int)lanes);

    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item / c->inputs, input = item % c->inputs, o = block * lanes;
        const float  *sums = j->points + (block / 2 * in_blocks * lanes + input) * 2 * lanes + block % 2 * lanes;
        j->own->gradient_taps(j->out + (o * c->inputs + input) * taps, c->inputs * taps, between(0, c->outputs - o, lanes), sums,
                              j->run_size / ALL_POINTS, j->runs, j->run_size, c->taps);
    }
}

bool tr__winograd_grad_filter(float *dfilter, const float *dout, const float *x, const tr_conv_shape *s)
{
    const conv c = conv_of(s);
    if (!wants(s) || !pays(&c, c.out))
        return false;
    const level  *own = own_level();
    const int64_t in_blocks = blocks_of(c.inputs, own->lanes), out_blocks = blocks_of(c.outputs, own->lanes), rows = c.batch * c.down;
    job           j = {.c = &c, .own = own, .out = dfilter, .x = x, .d = dout, .pairs = (out_blocks + 1) / 2};

    j.run_size = ALL_POINTS * j.pairs * in_blocks * own->lanes * 2 * own->lanes;
    j.runs = between(1, between(1, rows * c.across / RUN_TILES, MAX_RUNS), between(1, MAX_RUN_FLOATS / j.run_size, rows));
    j.rows = chunk_rows(&c, (rows + j.runs - 1) / j.runs, MAX_CHUNK);
    j.points = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(j.runs * j.run_size) * sizeof(float));
    tr_parallel(j.runs, gradient_run, &j);
    tr_parallel_range(out_blocks * c.inputs, 32, taps_range, &j);
    return true;
}
