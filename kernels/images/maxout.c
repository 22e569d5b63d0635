/* maxout.c - the largest of each group of channels:  Out[n,c,i] = max_j X[n, c groups + j, i]. (Goodfellow et al., 2013)
 *
 * Backward: the gradient goes to the first of the largest ones. */
#ifndef T

#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X };
enum { OUT };
enum { G_X, G_OUT, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t groups;
} attrs;

static const tr_op_proto proto = {
    .doc = "Takes the largest of each group of channels.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float")),
    .out = TR_SLOTS({"Out", "[batch, channels / groups, height, width]"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, groups, INT, "channels of a group", .required = true, .range = TR_AT_LEAST(1))),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    if (out.dim[1] >= 0 && out.dim[1] % a->groups != 0)
        return tr_fail(TR_ESHAPE, "%s: the %lld channels of X %s cannot be cut into groups of %d", io->type,
                       (long long)out.dim[1], TR_SHAPE_STR(out), a->groups);
    out.dim[1] = out.dim[1] < 0 ? -1 : out.dim[1] / a->groups;
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */
static int64_t pixels_of(const tr_tensor *x) { return x->shape.dim[2] * x->shape.dim[3]; }
static int64_t planes_of_slice(int64_t items) { return 1 + 16384 / (items > 0 ? items : 1); }

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ---------------------------------------------------------------- */
/* The groups are windows of a volume that has the channels for its depth. */
static tr_status parts(tr_composite *c)
{
    const int32_t groups = ((const attrs *)tr_composite_attrs(c))->groups;

    TR_TRY(tr_composite_add(c, "unsqueeze(X=X) {axes=[1]} -> volume"));
    TR_TRY(tr_composite_add(c, "pool3d(X=volume) {pooling_type=max, ksize=[%d, 1, 1], strides=[%d, 1, 1]} -> largest", groups, groups));
    return tr_composite_add(c, "squeeze(X=largest) {axes=[1]} -> Out");
}

static const tr_grad_rule grad = {
    .op = "maxout_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .parts = parts,
};
TR_REGISTER_OP(maxout, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(maxout), .grad = &grad);
TR_REGISTER_OP(maxout_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_maxout, .kernels = TR_FLOAT_KERNELS(maxout_grad));

#else /* the kernels, for each T */

typedef struct {
    T       *to;
    const T *x, *out, *d;
    int64_t  groups, pixels;
} NAME(job);

/* NaN wins, so that it is seen. */
static void NAME(largest)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t p = begin; p < end; p++) {
        T *to = j->to + p * j->pixels;
        memcpy(to, j->x + p * j->groups * j->pixels, (size_t)j->pixels * sizeof(T));
        for (int64_t g = 1; g < j->groups; g++) {
            const T *x = j->x + (p * j->groups + g) * j->pixels;
            for (int64_t i = 0; i < j->pixels; i++)
                to[i] = x[i] > to[i] || x[i] != x[i] ? x[i] : to[i];
        }
    }
}

static void NAME(to_first)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t i = begin * j->pixels; i < end * j->pixels; i++) {
        const int64_t first = i / j->pixels * j->groups * j->pixels + i % j->pixels;
        T             left = j->d[i];
        for (int64_t g = 0; g < j->groups; g++) {
            const int64_t at = first + g * j->pixels;
            const bool    found = j->x[at] == j->out[i];
            j->to[at] = found ? left : 0;
            left = found ? 0 : left;
        }
    }
}

static tr_status NAME(maxout)(const tr_run *io)
{
    const attrs *a = io->attrs;
    tr_tensor   *out = io->out[OUT];
    NAME(job)    j = {.to = out->data, .x = io->in[X]->data, .groups = a->groups, .pixels = pixels_of(out)};

    tr_parallel_range(out->shape.dim[0] * out->shape.dim[1], planes_of_slice(j.pixels * j.groups), NAME(largest), &j);
    return TR_OK;
}

static tr_status NAME(maxout_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *out = io->in[G_OUT];
    NAME(job)        j = {.to = io->out[G_DX]->data, .x = io->in[G_X]->data, .out = out->data, .d = io->in[G_DOUT]->data,
                          .groups = a->groups, .pixels = pixels_of(out)};

    tr_parallel_range(out->shape.dim[0] * out->shape.dim[1], planes_of_slice(j.pixels * j.groups), NAME(to_first), &j);
    return TR_OK;
}

#endif
