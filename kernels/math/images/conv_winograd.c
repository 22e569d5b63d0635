/* conv_winograd.c - see conv_winograd.h; the arithmetic is in conv_winograd_level.h, the geometry in conv_winograd_tiles.h.
 *
 * The forward pass and the input's gradient are one function: the latter is a convolution of the output's gradient with the filter
 * turned by 180 degrees. The filter is taken to the points once for a call. Then chunks of tiles go through all steps while they are in the
 * second level cache: places of a block of channels become vectors (gather), these the values at the points, products of
 * tiles x inputs with inputs x outputs at each of the 36 points, and back. Nothing that a tile computes depends on its chunk, so that chunks may
 * follow from the number of threads. The filter's gradient sums over tiles at the points, in runs of images that the shape
 * alone determines. */
#include "kernels/math/images/conv_winograd.h"

#include "framework/base/compiler.h"
#include "framework/threads/precision.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/images/conv_winograd_tiles.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/float_lanes.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_LANES = 16,
    MIN_CHANNELS = 8, MANY_CHANNELS = 64,
    MIN_WORK = 200000,                /* multiplications at the points of a slice */
    CHUNK_FLOATS = 144000,            /* of what a chunk has at the points */
    MIN_CHUNK = 28, MAX_CHUNK = 128,  /* tiles of a chunk, about; of the filter's gradient, whose sums are read and written for each chunk, the most */
    RUN_TILES = 32,                   /* of the filter's gradient, at least */
    MAX_RUNS = 16,
    AHEAD = 8 * 2 * MAX_LANES,        /* floats: sums that are asked for before they are read */
    MAX_RUN_FLOATS = 5 << 20          /* of all runs together */
};

typedef struct level {
    int  lanes;
    void (*gather)(float *places, const float *planes, int64_t channels, int64_t plane, int64_t begin, int64_t end);
    void (*scatter)(float *planes, const float *places, int64_t channels, int64_t plane, int64_t begin, int64_t end);
    void (*input_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2], int apart, int stride,
                         const int64_t pad[2], int64_t top, int64_t rows, int64_t across);
    void (*output_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2], int stride,
                          int64_t top, int64_t rows, int64_t across);
    void (*outputs)(float *places, int64_t first, const int64_t extent[2], const float *from, int64_t step, const float *bias,
                    int apart, int stride, const int64_t pad[2], int64_t top, int64_t rows, int64_t across);
    void (*filter_points)(float *to, int64_t step, const float *from, int64_t apart, int64_t lanes, int taps, int size,
                          const int64_t phase[2], bool turned);
    void (*gradient_taps)(float *to, int64_t apart, int64_t lanes, const float *sums, int64_t step, int64_t runs, int64_t run_size,
                          int taps);
    void (*products)(float *out, const float *v, const float *filter, int64_t pair, int64_t tiles, int64_t inputs, int64_t blocks,
                     int64_t block);
    void (*gradient_products)(float *sums, int64_t pair, const float *v, const float *d, int64_t tiles, int64_t in_blocks,
                              int64_t out_blocks, int64_t block, bool add);
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
#include "kernels/math/images/conv_winograd_level.h"
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
#include "kernels/math/images/conv_winograd_level.h"
#undef LEVEL
#undef TARGET
#undef LANES
#undef MR
#undef MR_GRAD

static const level *levels[] = {[TR_FLOAT_PLAIN] = NULL, [TR_FLOAT_AVX2] = &arithmetic_avx2, [TR_FLOAT_AVX512] = &arithmetic_avx512};

#else

static const level *levels[] = {NULL, NULL, NULL};

#endif

static const level *own_level(void)
{
    return levels[tr__float_level()];
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

/* Whether c, which takes as many multiplications as size^2 for each of `places`, is worth its way to the points and back. With phases the other way goes
 * through columns, which takes longer. */
static bool pays(const conv *c, const int64_t places[2])
{
    const int64_t tiles = c->down * c->across, direct = places[0] * places[1] * c->size * c->size;
    return has_phases(c) ? 10 * PHASED_PRODUCTS * tiles <= 9 * direct : 3 * ALL_POINTS * tiles <= 2 * direct;
}

/* With a stride of 2 columns and products in bfloat16 are as fast, where there are not few channels. */
static bool has_channels(const tr_conv_shape *s)
{
    if (s->stride[1] == 1)
        return s->in_channels >= MIN_CHANNELS && s->out_channels >= MIN_CHANNELS;
    return s->in_channels >= MAX_LANES && s->out_channels >= MAX_LANES &&
           (s->in_channels < MANY_CHANNELS || tr__precision_now() == TR_PRECISION_FLOAT32);
}

static bool wants(const tr_conv_shape *s)
{
    const int64_t size = s->kernel[1];
    const bool    has_size = s->stride[1] == 1 ? size >= 2 && size <= 5 : s->stride[1] == 2 && (size == 3 || size == 5);
    bool          fits = has_size && s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1;

    for (int a = 1; a < 3; a++)
        fits = fits && s->kernel[a] == size && s->stride[a] == s->stride[1] && s->dilation[a] == 1 && s->pad[a] < size && s->out[a] >= 4;
    return fits && s->groups == 1 && s->batch > 0 && has_channels(s) && own_level() != NULL && tr_winograd();
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

/* Blocks of channels, those of all phases. */
static int64_t in_blocks(const conv *c, const level *own)
{
    return phases_of(c->apart) * blocks_of(c->inputs, own->lanes);
}

static int64_t out_blocks(const conv *c, const level *own)
{
    return phases_of(c->out_apart) * blocks_of(c->outputs, own->lanes);
}

static chunk chunk_init(const conv *c, const level *own, int64_t rows)
{
    const int64_t most = rows < c->down ? rows : c->down;
    const int64_t read = between(1, (most * c->stride + POINTS) * c->apart, c->in[0]) * c->in[1];
    const int64_t written = between(1, most * c->stride * c->out_apart, c->out[0]) * c->out[1];
    const int64_t places = (read > written ? read : written) + own->lanes;
    chunk         k = {.c = c, .tiles = rows * c->across, .block = rows * c->across * own->lanes};

    k.step_in = step_of(in_blocks(c, own), k.block, own->lanes);
    k.step_out = step_of(out_blocks(c, own), k.block, own->lanes);
    k.v = tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)(ALL_POINTS * (k.step_in + k.step_out) + places * own->lanes) * sizeof(float));
    k.m = k.v + ALL_POINTS * k.step_in;
    k.places = k.m + ALL_POINTS * k.step_out;
    return k;
}

/* -- steps of a chunk ------------------------------------------------------------------------------------------------------------ */

static void take_inputs(const chunk *k, const level *own, const float *x, int64_t begin, int64_t end)
{
    const conv   *c = k->c;
    const int64_t plane = c->in[0] * c->in[1], blocks = blocks_of(c->inputs, own->lanes);

    for (int64_t b = 0, i = 0; b < blocks; b++, i += own->lanes)
        for (part p = {0}; next_part(&p, c, begin, end);) {
            int64_t first, last;
            rows_read(&first, &last, c, p.top, p.rows);
            own->gather(k->places, x + (p.image * c->inputs + i) * plane, c->inputs - i, plane, first * c->in[1], last * c->in[1]);
            for (int f = 0; f < phases_of(c->apart); f++) {
                const int64_t *at = phases[c->apart == 1 ? NO_PHASE : f], pad[2] = {c->pad[0] - at[0], c->pad[1] - at[1]};
                own->input_points(k->v + (f * blocks + b) * k->block + p.at * own->lanes, k->step_in, k->places, first, c->in, c->apart,
                                  c->stride, pad, p.top, p.rows, c->across);
            }
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
    const int64_t plane = c->out[0] * c->out[1], blocks = blocks_of(c->outputs, own->lanes);

    for (int64_t b = 0, o = 0; b < blocks; b++, o += own->lanes) {
        float more[MAX_LANES] = {0};
        for (int64_t i = 0; bias && i < own->lanes && o + i < c->outputs; i++)
            more[i] = bias[o + i];
        for (part p = {0}; next_part(&p, c, begin, end);) {
            int64_t first, last;
            rows_written(&first, &last, c, p.top, p.rows);
            for (int f = 0; f < phases_of(c->out_apart); f++) {
                const int64_t *at = phases[c->out_apart == 1 ? NO_PHASE : f], pad[2] = {c->out_pad[0] - at[0], c->out_pad[1] - at[1]};
                own->outputs(k->places, first, c->out, k->m + (f * blocks + b) * k->block + p.at * own->lanes, k->step_out, more,
                             c->out_apart, c->stride, pad, p.top, p.rows, c->across);
            }
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

/* Inputs as the products count them: with phases those of each fill whole blocks. */
static int64_t all_inputs(const conv *c, const level *own)
{
    return c->apart == 1 ? c->inputs : in_blocks(c, own) * own->lanes;
}

/* Taps of a phase to their filters: sub[lane][taps][taps] and to[lane][size][size], which lie `step` floats from one another. */
static void put_phase(float *to, const float *sub, int64_t step, int64_t lanes, const conv *c, const int64_t phase[2])
{
    for (int64_t l = 0; l < lanes; l++, to += step)
        for (int y = 0; y < c->taps; y++)
            for (int x = 0; x < c->taps; x++, sub++) {
                const int64_t down = 2 * y + phase[0], across = 2 * x + phase[1];
                if (down < c->size && across < c->size)
                    to[down * c->size + across] = *sub;
            }
}

/* From a point of a filter, or of its gradient's sums, to the next. An odd number of pairs of vectors: otherwise the points of one input would share one set
 * of the cache. */
static int64_t filter_step(int64_t pairs, int64_t inputs, int64_t lanes)
{
    return (pairs * inputs | 1) * 2 * lanes;
}

/* Item i: one block of outputs and one input. */
static void filter_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t taps = c->size * c->size, lanes = j->own->lanes, inputs = all_inputs(c, j->own), step = filter_step(j->pairs, inputs, lanes);
    const int64_t of_output = j->turned ? taps : c->inputs * taps, of_input = j->turned ? c->outputs * taps : taps;
    const int64_t in_phase = inputs / phases_of(c->apart), out_phase = blocks_of(c->outputs, (int)lanes);

    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item / inputs, input = item % inputs, o = block % out_phase * lanes, i = input % in_phase;
        const int64_t count = i < c->inputs ? between(0, c->outputs - o, lanes) : 0;
        const int64_t phase = c->apart > 1 ? input / in_phase : c->out_apart > 1 ? block / out_phase : NO_PHASE;
        j->own->filter_points(j->points + (block / 2 * inputs + input) * 2 * lanes + block % 2 * lanes, step,
                              j->filter + o * of_output + i * of_input, of_output, count, c->taps, c->size, phases[phase], j->turned);
    }
}

/* All outputs of `tiles` tiles at point p. Products that are 0 are left out. Those of outputs would have to begin with a pair of blocks. */
static void multiply(const job *j, const chunk *k, int64_t p, int64_t tiles)
{
    const conv       *c = j->c;
    const int64_t     lanes = j->own->lanes, pair = all_inputs(c, j->own) * 2 * lanes, blocks = out_blocks(c, j->own);
    const int64_t     in_phase = blocks_of(c->inputs, (int)lanes), out_phase = blocks_of(c->outputs, (int)lanes);
    const phase_range in = phases_at(p, POINTS - 1, c->apart), out = phases_at(p, 0, c->out_apart);
    const float      *filter = j->points + p * filter_step(j->pairs, all_inputs(c, j->own), lanes);
    float            *v = k->v + p * k->step_in, *m = k->m + p * k->step_out;

    if (c->out_apart > 1 && out_phase % 2 == 0) {
        const int64_t first = out.first * out_phase, count = out.count * out_phase;
        memset(m, 0, (size_t)(first * k->block) * sizeof *m);
        memset(m + (first + count) * k->block, 0, (size_t)((blocks - first - count) * k->block) * sizeof *m);
        j->own->products(m + first * k->block, v, filter + first / 2 * pair, pair, tiles, c->inputs, count, k->block);
    } else {
        const int64_t inputs = c->apart > 1 ? in.count * in_phase * lanes : c->inputs;
        j->own->products(m, v + in.first * in_phase * k->block, filter + in.first * in_phase * lanes * 2 * lanes, pair, tiles, inputs, blocks,
                         k->block);
    }
}

static void chunks_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t rows = c->batch * c->down;
    const chunk   k = chunk_init(c, j->own, j->rows);

    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * j->rows, last = between(first, first + j->rows, rows);
        take_inputs(&k, j->own, j->x, first, last);
        for (int64_t p = 0; p < ALL_POINTS; p++)
            multiply(j, &k, p, (last - first) * c->across);
        give_outputs(&k, j->own, j->out, j->bias, first, last);
    }
}

static void convolve(float *out, const float *x, const float *filter, const float *bias, const conv *c, bool turned)
{
    const level  *own = own_level();
    const int64_t blocks = out_blocks(c, own), inputs = all_inputs(c, own), pairs = (blocks + 1) / 2, rows = c->batch * c->down;
    const int64_t channels = inputs + phases_of(c->out_apart) * c->outputs;
    job           j = {.c = c, .own = own, .out = out, .x = x, .filter = filter, .bias = bias, .turned = turned, .pairs = pairs};

    j.rows = chunk_rows(c, rows, between(MIN_CHUNK, CHUNK_FLOATS / (ALL_POINTS * channels), MAX_CHUNK));
    j.points = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(ALL_POINTS * filter_step(pairs, inputs, own->lanes)) * sizeof(float));
    tr_parallel_range(blocks * inputs, 64, filter_range, &j);
    const int64_t work = ALL_POINTS * c->inputs * c->outputs * c->across * j.rows;
    tr_parallel_range((rows + j.rows - 1) / j.rows, 1 + MIN_WORK / work, chunks_range, &j);
}

bool tr__winograd_takes(const tr_conv_shape *s)
{
    if (!wants(s))
        return false;
    const conv c = conv_of(s);
    return pays(&c, c.out);
}

bool tr__winograd(float *out, const float *x, const float *filter, const float *bias, const tr_conv_shape *s)
{
    if (!tr__winograd_takes(s))
        return false;
    const conv c = conv_of(s);
    convolve(out, x, filter, bias, &c, false);
    return true;
}

bool tr__winograd_grad_input(float *dx, const float *dout, const float *filter, const tr_conv_shape *s)
{
    if (!wants(s))
        return false;
    const conv c = turned_conv_of(s);
    if (!pays(&c, c.in))
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
    const int64_t lanes = j->own->lanes, blocks = in_blocks(c, j->own), phase = blocks_of(c->inputs, (int)lanes);
    const int64_t step = j->run_size / ALL_POINTS, square = 2 * lanes * lanes;
    int64_t       begin, end;

    tr_slice_range(&begin, &end, c->batch * c->down, 1, j->runs, run);
    for (int64_t first = begin; first < end; first += j->rows) {
        const int64_t last = first + j->rows < end ? first + j->rows : end;
        take_inputs(&k, j->own, j->x, first, last);
        take_gradients(&k, j->own, j->d, first, last);
        for (int64_t p = 0; p < ALL_POINTS; p++) {
            const phase_range in = phases_at(p, POINTS - 1, c->apart);
            j->own->gradient_products(j->points + run * j->run_size + p * step + in.first * phase * square, blocks * square,
                                      k.v + p * k.step_in + in.first * phase * k.block, k.m + p * k.step_out, (last - first) * c->across,
                                      in.count * phase, blocks_of(c->outputs, (int)lanes), k.block, first > begin);
        }
    }
}

/* Item i: one block of outputs and one input of a phase. */
static void taps_range(void *payload, int64_t begin, int64_t end)
{
    const job    *j = payload;
    const conv   *c = j->c;
    const int64_t taps = c->size * c->size, lanes = j->own->lanes, phase = blocks_of(c->inputs, (int)lanes), step = j->run_size / ALL_POINTS;
    const int64_t inputs = phases_of(c->apart) * c->inputs, blocks = in_blocks(c, j->own);

    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item / inputs, f = item % inputs / c->inputs, i = item % c->inputs, o = block * lanes;
        const int64_t count = between(0, c->outputs - o, lanes);
        const float  *sums = j->points + ((block / 2 * blocks + f * phase) * lanes + i) * 2 * lanes + block % 2 * lanes;
        float        *to = j->out + (o * c->inputs + i) * taps, sub[MAX_LANES * 9];
        if (has_phases(c)) {
            j->own->gradient_taps(sub, c->taps * c->taps, count, sums, step, j->runs, j->run_size, c->taps);
            put_phase(to, sub, c->inputs * taps, count, c, phases[f]);
        } else {
            j->own->gradient_taps(to, c->inputs * taps, count, sums, step, j->runs, j->run_size, c->taps);
        }
    }
}

bool tr__winograd_grad_filter(float *dfilter, const float *dout, const float *x, const tr_conv_shape *s)
{
    if (!wants(s))
        return false;
    const conv c = conv_of(s);
    if (!pays(&c, c.out))
        return false;
    const level  *own = own_level();
    const int64_t blocks = blocks_of(c.outputs, own->lanes), rows = c.batch * c.down;
    job           j = {.c = &c, .own = own, .out = dfilter, .x = x, .d = dout, .pairs = (blocks + 1) / 2};

    j.run_size = ALL_POINTS * filter_step(j.pairs, in_blocks(&c, own) * own->lanes, own->lanes);
    j.runs = between(1, between(1, rows * c.across / RUN_TILES, MAX_RUNS), between(1, MAX_RUN_FLOATS / j.run_size, rows));
    j.rows = chunk_rows(&c, (rows + j.runs - 1) / j.runs, MAX_CHUNK);
    j.points = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(j.runs * j.run_size) * sizeof(float));
    tr_parallel(j.runs, gradient_run, &j);
    tr_parallel_range(blocks * phases_of(c.apart) * c.inputs, 32, taps_range, &j);
    return true;
}
