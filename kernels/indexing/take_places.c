/* take_places.c - elements of each plane by their places:  Out[n,c,i] = X[n,c,Places[n,c,i]].
 *
 * A pool with an index writes such places. This operator takes from another tensor what the pool has taken from its own: it is
 * the gradient of the pool's gradient. Its own gradient adds elements up where several outputs have taken the same one. */
#ifndef T

#include <string.h>

#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, PLACES };
enum { OUT };
enum { G_X, G_PLACES, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Takes elements of each plane of X by their places: Out[n, c, i] = X[n, c, Places[n, c, i]].",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, n, ...]", " float"),
                   TR_SLOT("Places", "[?, ?, m, ...]", " int32; for each plane of X places in it, row by row, as Mask of max_pool2d_with_index", TR_SLOT_INT32)),
    .out = TR_SLOTS({"Out", "like Places, of X's type"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape, places = io->in[PLACES].shape;

    const tr_shape planes = TR_SHAPE(x.dim[0], x.dim[1]), given = TR_SHAPE(places.dim[0], places.dim[1]);
    if (!tr_shape_fits(&planes, &given))
        return tr_fail(TR_ESHAPE, "%s: X is %s, so Places must be [%lld, %lld, ...]; got %s", io->type, TR_SHAPE_STR(x), (long long)x.dim[0],
                       (long long)x.dim[1], TR_SHAPE_STR(places));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, places);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */
static int64_t plane_size(const tr_shape *shape) { return tr_shape_product(shape, 2, shape->rank); }

/* A program may have written anything into Places. */
static tr_status check_places(const tr_run *io, const char *type, const tr_shape *x, int slot)
{
    const tr_tensor *places = io->in[slot];
    const int32_t   *place = places->data;
    const int64_t    size = plane_size(x);

    for (int64_t i = 0; i < tr_tensor_count(places); i++)
        if (place[i] < 0 || place[i] >= size)
            return tr_fail(TR_ERANGE, "%s: place %d at position %lld of '%s' is none of a plane of X %s, which has %lld", type, place[i],
                           (long long)i, tr_run_in_name(io, slot, 0), TR_SHAPE_STR(*x), (long long)size);
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ---------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "take_places_grad", .reads = {TR_IN_SHAPE(X), TR_IN(PLACES), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(take_places, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(take_places), .grad = &grad);
TR_REGISTER_OP(take_places_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_take_places, .kernels = TR_FLOAT_KERNELS(take_places_grad));

#else /* the kernels, for each T */

typedef struct {
    T             *to;
    const T       *from;
    const int32_t *place;
    int64_t        size, count;       /* of a plane of X, of Places */
} NAME(job);

static void NAME(take_planes)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t p = begin; p < end; p++)
        for (int64_t i = p * j->count; i < (p + 1) * j->count; i++)
            j->to[i] = j->from[p * j->size + j->place[i]];
}

static void NAME(add_planes)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    memset(j->to + begin * j->size, 0, (size_t)((end - begin) * j->size) * sizeof(T));
    for (int64_t p = begin; p < end; p++)
        for (int64_t i = p * j->count; i < (p + 1) * j->count; i++)
            j->to[p * j->size + j->place[i]] += j->from[i];
}

static NAME(job) NAME(job_of)(const tr_tensor *to, const tr_tensor *from, const tr_tensor *places, const tr_tensor *x)
{
    return (NAME(job)){.to = to->data, .from = from->data, .place = places->data, .size = plane_size(&x->shape), .count = plane_size(&places->shape)};
}

static void NAME(run_planes)(tr_range_fn range, NAME(job) *j, const tr_shape *x)
{
    tr_parallel_range(x->dim[0] * x->dim[1], 1 + 16384 / (j->count + j->size + 1), range, j);
}

static tr_status NAME(take_places)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    NAME(job)        j = NAME(job_of)(io->out[OUT], x, io->in[PLACES], x);

    TR_TRY(check_places(io, "take_places", &x->shape, PLACES));
    NAME(run_planes)(NAME(take_planes), &j, &x->shape);
    return TR_OK;
}

static tr_status NAME(take_places_grad)(const tr_run *io)
{
    const tr_tensor *dx = io->out[G_DX];
    NAME(job)        j = NAME(job_of)(dx, io->in[G_DOUT], io->in[G_PLACES], dx);

    TR_TRY(check_places(io, "take_places_grad", &dx->shape, G_PLACES));
    NAME(run_planes)(NAME(add_planes), &j, &dx->shape);
    return TR_OK;
}

#endif
