/* grid_sampler.c - the elements of an image at the places of a grid, between its elements mixed of the four around.
 *
 * Grid has x and y from -1, the first column or row, to 1, the last one. Outside of the image there are zeros.
 * Backward: dX gets dOutput by the same weights; dGrid is how the mixture changes with the place. */
#ifndef T

#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/body_lines.h"

#include <math.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, GRID };
enum { OUTPUT };
enum { G_X, G_GRID, G_DOUTPUT };
enum { G_DX, G_DGRID };

static const tr_op_proto proto = {
    .doc = "Samples images at the places of a grid, bilinearly.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float"),
                   TR_SLOT("Grid", "[batch, out height, out width, 2]", ", same dtype; x and y in [-1, 1]")),
    .out = TR_SLOTS(TR_SLOT("Output", "[batch, channels, out height, out width]", "")),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("use_cudnn", BOOL, .number = 1)),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- parts, for second gradients: which elements are mixed is constant almost everywhere ----------- */

/* Of axis `name`, which is number `axis` in Grid and dimension `dim` of X: the places low = floor(p) and low + 1. Side s of them has the weight
 * share.<name><s>, which is 0 outside of the image, and lies at index.<name><s>. */
static tr_status add_axis(tr_composite *c, const char *name, int axis, int dim)
{
    const int type = (int)tr_composite_dtype(c, "x");

    TR_TRY(tr_composite_add(c, "slice(Input=extents) {axes=[0], starts=[%d], ends=[%d]} -> extent.%s", dim, dim + 1, name));
    TR_TRY(tr_composite_add(c, "cast(X=extent.%s) {in_dtype=%d, out_dtype=%d} -> count.%s", name, TR_INT32, type, name));
    TR_TRY(tr_composite_add(c, "scale(X=count.%s) {bias=-1.0} -> last.%s", name, name));
    TR_TRY(tr_composite_add(c, "slice(Input=grid) {axes=[3], starts=[%d], ends=[%d]} -> at.%s", axis, axis + 1, name));
    TR_TRY(tr_composite_add(c, "scale(X=at.%s) {scale=0.5, bias=0.5} -> part.%s", name, name));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=part.%s, Y=last.%s) -> place.%s", name, name, name));
    TR_TRY(tr_composite_add(c, "floor(X=place.%s) -> low.%s0", name, name));
    tr_composite_stop_gradient(c, tr_composite_text(c, "low.%s0", name));
    TR_TRY(tr_composite_add(c, "scale(X=low.%s0) {bias=1.0} -> low.%s1", name, name));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=place.%s, Y=low.%s0) -> rest.%s1", name, name, name));
    TR_TRY(tr_composite_add(c, "scale(X=rest.%s1) {scale=-1.0, bias=1.0} -> rest.%s0", name, name));
    TR_TRY(tr_composite_add(c, "fill_zeros_like(X=last.%s) -> first.%s", name, name));
    for (int side = 0; side < 2; side++) {
        const char *it = tr_composite_text(c, "%s%d", name, side);
        TR_TRY(tr_composite_add(c, "elementwise_max(X=low.%s, Y=first.%s) -> above.%s", it, name, it));
        TR_TRY(tr_composite_add(c, "elementwise_min(X=above.%s, Y=last.%s) -> within.%s", it, name, it));
        TR_TRY(tr_composite_add(c, "equal(X=low.%s, Y=within.%s) -> is_inside.%s", it, it, it));
        TR_TRY(tr_composite_add(c, "cast(X=is_inside.%s) {in_dtype=%d, out_dtype=%d} -> inside.%s", it, TR_BOOL, type, it));
        TR_TRY(tr_composite_add(c, "elementwise_mul(X=rest.%s, Y=inside.%s) -> share.%s", it, it, it));
        TR_TRY(tr_composite_add(c, "cast(X=within.%s) {in_dtype=%d, out_dtype=%d} -> index.%s", it, type, TR_INT64, it));
        tr_composite_stop_gradient(c, tr_composite_text(c, "inside.%s", it));
    }
    return TR_OK;
}

/* X as a table with a row of channels for each element of an image, and where the rows of each image begin. */
static tr_status add_table(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "transpose(X=x) {axis=[0, 2, 3, 1]} -> by_place"));
    TR_TRY(tr_composite_add(c, "reshape(X=by_place) {shape=[1, 1, -1, 0]} -> rows"));
    TR_TRY(tr_composite_add(c, "squeeze(X=rows) {axes=[0, 1]} -> table"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=x) {dim=[1, 2, 3]} -> images"));
    TR_TRY(tr_composite_add(c, "fill_zeros_like2(X=images) {dtype=%d} -> none", TR_INT32));
    TR_TRY(tr_composite_add(c, "scale(X=none) {bias=1.0} -> ones"));
    TR_TRY(tr_composite_add(c, "cumsum(X=ones) {exclusive=true} -> numbers"));
    TR_TRY(tr_composite_add(c, "cast(X=numbers) {in_dtype=%d, out_dtype=%d} -> number", TR_INT32, TR_INT64));
    TR_TRY(tr_composite_add(c, "cast(X=extent.x) {in_dtype=%d, out_dtype=%d} -> width", TR_INT32, TR_INT64));
    TR_TRY(tr_composite_add(c, "cast(X=extent.y) {in_dtype=%d, out_dtype=%d} -> height", TR_INT32, TR_INT64));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=width, Y=height) -> size"));
    return tr_composite_add(c, "elementwise_mul(X=number, Y=size) -> begin");
}

/* The contribution of corner (y, x) to each position. */
static tr_status add_corner(tr_composite *c, int y, int x)
{
    const char *it = tr_composite_text(c, "%d%d", y, x);

    TR_TRY(tr_composite_add(c, "elementwise_mul(X=share.y%d, Y=share.x%d) -> weight.%s", y, x, it));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=index.y%d, Y=width) -> row.%s", y, it));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=row.%s, Y=index.x%d) -> in_image.%s", it, x, it));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=in_image.%s, Y=begin) {axis=0} -> id.%s", it, it));
    TR_TRY(tr_composite_add(c, "lookup_table(W=table, Ids=id.%s) -> taken.%s", it, it));
    TR_TRY(tr_composite_add(c, "squeeze(X=weight.%s) {axes=[3]} -> factor.%s", it, it));
    return tr_composite_add(c, "elementwise_mul(X=taken.%s, Y=factor.%s) {axis=0} -> corner.%s", it, it, it);
}

static tr_status parts(tr_composite *c)
{
    TR_TRY(tr__add_wide(c, "X", "x"));
    TR_TRY(tr__add_wide(c, "Grid", "grid"));
    TR_TRY(tr_composite_add(c, "shape(Input=X) -> extents"));
    TR_TRY(add_axis(c, "x", 0, 3));
    TR_TRY(add_axis(c, "y", 1, 2));
    TR_TRY(add_table(c));
    for (int corner = 0; corner < 4; corner++)
        TR_TRY(add_corner(c, corner / 2, corner % 2));
    TR_TRY(tr_composite_add(c, "sum(X=[corner.00, corner.01, corner.10, corner.11]) -> mixed"));
    TR_TRY(tr_composite_add(c, "transpose(X=mixed) {axis=[0, 3, 1, 2]} -> planes"));
    return tr__add_narrow(c, "planes", "X", "Output");
}

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "grid_sampler_grad", .reads = {TR_IN(X), TR_IN(GRID), TR_DOUT(OUTPUT)}, .makes = {TR_DIN(X), TR_DIN(GRID)},
    .second = tr__second_body, .parts = parts,
};
TR_REGISTER_OP(grid_sampler, .proto = &proto, .kernels = TR_FLOAT_KERNELS(grid_sampler), .grad = &grad);
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

/* The contribution of corner k of position i to dX and to the position's gradient. */
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
