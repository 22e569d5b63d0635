/* grid_sampler.c - the elements of an image at the places of a grid, between its elements mixed of the four around.
 *
 * Grid has x and y from -1, the first column or row, to 1, the last one. Outside of the image there are zeros.
 * Backward: dX gets dOutput by the same weights; dGrid is how the mixture changes with the place. */
#ifndef T

#include "framework/threadpool.h"
#include "kernels/check.h"

#include <math.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, GRID };
enum { OUTPUT };
enum { G_X, G_GRID, G_DOUTPUT };
enum { G_DX, G_DGRID };

static const tr_op_proto proto = {
    .doc = "Samples images at the places of a grid, bilinearly.",
    .in = TR_SLOTS({"X", "[batch, channels, height, width] float"},
                   {"Grid", "[batch, out height, out width, 2], same dtype; x and y in [-1, 1]"}),
    .out = TR_SLOTS({"Output", "[batch, channels, out height, out width]"}),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("use_cudnn", BOOL, .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape, grid = io->in[GRID].shape;

    TR_TRY(tr__check_rank(io, "X", &io->in[X], 4));
    TR_TRY(tr__check_rank(io, "Grid", &io->in[GRID], 4));
    TR_TRY(tr__check_dtype(io, "Grid", &io->in[GRID], io->in[X].dtype));
    TR_TRY(tr__check_shape(io, "Grid", &io->in[GRID], &TR_SHAPE(x.dim[0], -1, -1, 2)));
    io->out[OUTPUT] = tr_meta_dense(io->in[X].dtype, TR_SHAPE(x.dim[0], x.dim[1], grid.dim[1], grid.dim[2]));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/grid_sampler.c"
#include "kernels/math/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "grid_sampler_grad", .reads = {TR_IN(X), TR_IN(GRID), TR_DOUT(OUTPUT)}, .makes = {TR_DIN(X), TR_DIN(GRID)},
};
TR_REGISTER_OP(grid_sampler, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(grid_sampler), .grad = &grad);
TR_REGISTER_OP(grid_sampler_grad, .grad_of = &tr_op_record_grid_sampler, .kernels = TR_FLOAT_KERNELS(grid_sampler_grad));

#else /* the kernels, for each T */

typedef struct {
    const T *x, *grid, *d;
    T       *to, *dx, *dgrid;
    int64_t  channels, height, width, places;      /* places: of one image */
} NAME(job);

/* A place between four elements: (row + down, column + right). */
typedef struct {
    int64_t row, column;
    T       down, right;
} NAME(place);

static int64_t NAME(floor_of)(T *rest, T at)
{
    const T low = (T)floor((double)at);

    *rest = at - low;
    return low > -2 && low < (T)0x1p40 ? (int64_t)low : -2;      /* -2: outside, as NaN is */
}

static NAME(place) NAME(place_of)(const NAME(job) *j, const T *grid)
{
    NAME(place) p;

    p.column = NAME(floor_of)(&p.right, (grid[0] + 1) * (T)(j->width - 1) / 2);
    p.row = NAME(floor_of)(&p.down, (grid[1] + 1) * (T)(j->height - 1) / 2);
    return p;
}

/* The element at corner `k` of a place: down for k >= 2, right for odd k; -1: outside. */
static int64_t NAME(corner)(const NAME(job) *j, const NAME(place) *p, int k)
{
    const int64_t row = p->row + k / 2, column = p->column + k % 2;

    return row < 0 || column < 0 || row >= j->height || column >= j->width ? -1 : row * j->width + column;
}

static T NAME(weight)(const NAME(place) *p, int k)
{
    return (k / 2 ? p->down : 1 - p->down) * (k % 2 ? p->right : 1 - p->right);
}

/* Images [begin, end). */
static void NAME(sample_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    size = j->height * j->width;

    for (int64_t i = begin * j->places; i < end * j->places; i++) {
        const int64_t     n = i / j->places;
        const NAME(place) p = NAME(place_of)(j, j->grid + 2 * i);
        T                *to = j->to + n * j->channels * j->places + i % j->places;
        for (int64_t c = 0; c < j->channels; c++)
            to[c * j->places] = 0;
        for (int k = 0; k < 4; k++) {
            const int64_t at = NAME(corner)(j, &p, k);
            const T       weight = NAME(weight)(&p, k), *x = j->x + n * j->channels * size + at;
            for (int64_t c = 0; c < j->channels && at >= 0; c++)
                to[c * j->places] += weight * x[c * size];
        }
    }
}

/* What corner k of place i adds to dX and to the place's gradient. */
static void NAME(give_corner)(const NAME(job) *j, const NAME(place) *p, int64_t i, int k, T *slope)
{
    const int64_t size = j->height * j->width, n = i / j->places, at = NAME(corner)(j, p, k);
    const T       weight = NAME(weight)(p, k), *d = j->d + n * j->channels * j->places + i % j->places;
    T             sum = 0;

    if (at < 0)
        return;
    for (int64_t c = 0; c < j->channels; c++) {
        if (j->dx)
            j->dx[(n * j->channels + c) * size + at] += weight * d[c * j->places];
        sum += j->x[(n * j->channels + c) * size + at] * d[c * j->places];
    }
    slope[0] += (k % 2 ? sum : -sum) * (k / 2 ? p->down : 1 - p->down);
    slope[1] += (k / 2 ? sum : -sum) * (k % 2 ? p->right : 1 - p->right);
}

static void NAME(give_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    image = j->channels * j->height * j->width;

    if (j->dx)
        memset(j->dx + begin * image, 0, (size_t)((end - begin) * image) * sizeof(T));
    for (int64_t i = begin * j->places; i < end * j->places; i++) {
        const NAME(place) p = NAME(place_of)(j, j->grid + 2 * i);
        T                 slope[2] = {0, 0};
        for (int k = 0; k < 4; k++)
            NAME(give_corner)(j, &p, i, k, slope);
        if (!j->dgrid)
            continue;
        j->dgrid[2 * i] = slope[0] * (T)(j->width - 1) / 2;
        j->dgrid[2 * i + 1] = slope[1] * (T)(j->height - 1) / 2;
    }
}

static NAME(job) NAME(job_of)(const tr_tensor *x, const tr_tensor *grid)
{
    return (NAME(job)){.x = x->data, .grid = grid->data, .channels = x->shape.dim[1], .height = x->shape.dim[2], .width = x->shape.dim[3],
                       .places = grid->shape.dim[1] * grid->shape.dim[2]};
}

static tr_status NAME(grid_sampler)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io->in[X], io->in[GRID]);

    j.to = io->out[OUTPUT]->data;
    tr_parallel_range(io->in[X]->shape.dim[0], 1 + 2048 / (j.places * j.channels + 1), NAME(sample_range), &j);
    return TR_OK;
}

static tr_status NAME(grid_sampler_grad)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io->in[G_X], io->in[G_GRID]);

    j.d = io->in[G_DOUTPUT]->data;
    j.dx = io->out[G_DX] ? io->out[G_DX]->data : NULL;
    j.dgrid = io->out[G_DGRID] ? io->out[G_DGRID]->data : NULL;
    tr_parallel_range(io->in[G_X]->shape.dim[0], 1 + 2048 / (j.places * j.channels + 1), NAME(give_range), &j);
    return TR_OK;
}

#endif
