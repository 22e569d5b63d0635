/* expand.c - X repeated along its dimensions: expand and tile say how often, expand_v2 says the extents that dimensions of 1 shall have. expand_as
 * and expand_as_v2 make X as large as another tensor.
 *
 * Dimensions that X lacks stand in front and are 1. Out seen with two dimensions for each of its own, [times][dim], is X with a stride
 * of 0 along the first. The gradient sums over the repetitions, one dimension after the other. How often is what the shapes say. */
#ifndef T

#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, TARGET, TARGET_Y };
enum { OUT };
enum { G_X, G_DOUT };                 /* then the tensors that say how large Out is */
enum { G_DX };

typedef struct attrs {
    tr_ints list;                     /* one for each dimension of Out: times, or extents */
} attrs;

static const tr_slot_def in_slots[] = {TR_SLOT("X", "[n, ...]", " of any type"), {.name = NULL}};

#define PROTO(proto_name, about, what_is_out, list_name, about_list)                                                  \
    static const tr_op_proto proto_name = {                                                                           \
        .doc = about, .in = in_slots, .out = TR_SLOTS({"Out", what_is_out}), .attrs_size = sizeof(attrs),              \
        .attr = TR_ATTRS({.name = list_name, .type = TR_ATTR_INTS, .offset = offsetof(attrs, list), .required = true, .comment = about_list}), \
    }

PROTO(proto, "Repeats X along its dimensions, as tiles.", "dimension i is expand_times[i] times X's", "expand_times", "how often along each dimension");
PROTO(tile_proto, "Repeats X along its dimensions, as tiles. X or the list may be shorter: what is missing in front is 1.",
      "dimension i is repeat_times[i] times X's", "repeat_times", "how often along each dimension");
PROTO(v2_proto, "Repeats X along its dimensions of 1. The list may be longer than X has dimensions: those in front are new.",
      "of the extents `shape`", "shape", "the extent of each dimension; -1 keeps X's");

#define TARGET_SLOT(name, how) {name, how, TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}

static const tr_op_proto as_proto = {
    .doc = "Repeats X along its dimensions, as tiles, until it is as large as another tensor.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " of any type"),
                   {"target_tensor", "as many dimensions as X, each a multiple of X's; its elements do not count", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "of the shape of target_tensor"}), .attrs_size = sizeof(attrs),
};
static const tr_op_proto as_v2_proto = {
    .doc = "Repeats X along its dimensions of 1 until it is as large as another tensor, which may have more dimensions, in front.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " of any type"), TARGET_SLOT("target_tensor", "whose shape counts"),
                   TARGET_SLOT("Y", "the same, in later versions")),
    .out = TR_SLOTS({"Out", "of the shape of target_tensor"}), .attrs_size = sizeof(attrs),
    .attr = TR_ATTRS({.name = "target_shape", .type = TR_ATTR_INTS, .offset = offsetof(attrs, list), .comment = "the shape, where no tensor says it; -1 keeps X's"}),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    for (int i = 0; i < a->list.count; i++)
        if (a->list.item[i] < 1)
            return tr_fail(TR_ERANGE, "expand: expand_times[%d] is %d; it must be 1 or more", i, a->list.item[i]);
    return TR_OK;
}

static tr_status check_tile(const void *attrs_)
{
    const attrs *a = attrs_;

    for (int i = 0; i < a->list.count; i++)
        if (a->list.item[i] < 1)
            return tr_fail(TR_ERANGE, "tile: repeat_times[%d] is %d; it must be 1 or more", i, a->list.item[i]);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* One run of dimensions: repeated as a whole `times` times. Dimensions that are not repeated join the run before
 * them, so that few runs remain. */
typedef struct run_of_dims {
    int64_t times, count;
} run_of_dims;

static int find_runs(run_of_dims *runs, const int64_t *times, const tr_shape *x)
{
    int count = 0;

    for (int d = 0; d < x->rank; d++)
        if (count > 0 && times[d] == 1)
            runs[count - 1].count *= x->dim[d];
        else
            runs[count++] = (run_of_dims){times[d], x->dim[d]};
    return count;
}

/* X's shape with as many dimensions as Out has. */
static tr_shape widened(const tr_shape *x, int rank)
{
    tr_shape wide = {.rank = rank};

    for (int d = 0; d < rank; d++)
        wide.dim[d] = d < rank - x->rank ? 1 : x->dim[d - (rank - x->rank)];
    return wide;
}

static int runs_between(run_of_dims *runs, const tr_shape *x, const tr_shape *out)
{
    const tr_shape wide = widened(x, out->rank);
    int64_t        times[TR_MAX_RANK];

    for (int d = 0; d < out->rank; d++)
        times[d] = wide.dim[d] > 0 ? out->dim[d] / wide.dim[d] : 1;
    return find_runs(runs, times, &wide);
}

/* Out is `wide`, which is X, times `times`. */
static tr_status put(const tr_infer *io, const tr_shape *wide, const int64_t *times)
{
    run_of_dims runs[TR_MAX_RANK];
    tr_shape    out = *wide;

    if (2 * find_runs(runs, times, wide) > TR_MAX_RANK)
        return tr_fail(TR_EUNSUPPORTED, "%s: X %s is repeated along more than %d dimensions", io->type, TR_SHAPE_STR(io->in[X].shape), TR_MAX_RANK / 2);
    for (int d = 0; d < out.rank; d++)
        out.dim[d] = out.dim[d] < 0 ? -1 : out.dim[d] * times[d];
    io->out[OUT] = times[0] == 1 && wide->rank == io->in[X].shape.rank ? io->in[X] : tr_meta_dense(io->in[X].dtype, out);
    io->out[OUT].shape = out;
    return TR_OK;
}

static tr_status infer_tile(const tr_infer *io)
{
    const attrs *a = io->attrs;
    const int    rank = io->in[X].shape.rank > a->list.count ? io->in[X].shape.rank : a->list.count;
    int64_t      times[TR_MAX_RANK];

    if (rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: Out would have %d dimensions; %d are possible", io->type, rank, TR_MAX_RANK);
    const tr_shape wide = widened(&io->in[X].shape, rank);
    for (int d = 0; d < rank; d++)
        times[d] = d < rank - a->list.count ? 1 : a->list.item[d - (rank - a->list.count)];
    return put(io, &wide, times);
}

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    if (a->list.count != io->in[X].shape.rank)
        return tr_fail(TR_ESHAPE, "%s: expand_times has %d elements, but X is %s", io->type, a->list.count, TR_SHAPE_STR(io->in[X].shape));
    return infer_tile(io);
}

static tr_status infer_v2(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    int64_t        times[TR_MAX_RANK];

    if (a->list.count < x.rank || a->list.count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X is %s, so shape must have %d to %d elements; it has %d", io->type, TR_SHAPE_STR(x), x.rank, TR_MAX_RANK,
                       a->list.count);
    tr_shape wide = widened(&x, a->list.count);
    for (int d = 0; d < wide.rank; d++) {
        const int64_t wanted = a->list.item[d], is = wide.dim[d];
        const bool    is_new = d < wide.rank - x.rank;
        if (wanted < -1 || (is_new && wanted == -1) || (wanted != -1 && is != -1 && is != 1 && is != wanted))
            return tr_fail(TR_ESHAPE, "%s: X %s cannot have the extents of `shape`: element %d is %lld; %s", io->type, TR_SHAPE_STR(x), d, (long long)wanted,
                           is_new ? "a new dimension needs an extent" : "only dimensions of 1 are repeated, and -1 keeps one");
        times[d] = wanted == -1 || is == wanted ? 1 : wanted;
        if (is == -1 && wanted != -1)
            wide.dim[d] = 1;                               /* as large as is wanted in either case */
    }
    return put(io, &wide, times);
}

/* `target` has at least as many dimensions as X. */
static tr_status infer_target(const tr_infer *io, const tr_shape *target, bool is_tiled)
{
    const tr_shape x = io->in[X].shape;
    tr_shape       wide = widened(&x, target->rank);
    int64_t        times[TR_MAX_RANK];

    for (int d = 0; d < wide.rank; d++) {
        const int64_t wanted = target->dim[d], is = wide.dim[d];
        const bool    is_known = wanted >= 0 && is >= 0;
        if (is_known && (is == 0 ? wanted != 0 : is_tiled ? wanted % is != 0 : is != 1 && is != wanted))
            return tr_fail(TR_ESHAPE, "%s: X %s cannot become as large as %s along dimension %d; %s", io->type, TR_SHAPE_STR(x), tr_shape_str(target), d,
                           is_tiled ? "it must be a multiple of X's" : "only dimensions of 1 are repeated");
        times[d] = is_known && is > 0 ? wanted / is : 1;
        if (!is_known)
            wide.dim[d] = wanted;
    }
    return put(io, &wide, times);
}

static tr_status infer_as(const tr_infer *io)
{
    TR_TRY(tr__check_rank(io, "target_tensor", &io->in[TARGET], io->in[X].shape.rank));
    return infer_target(io, &io->in[TARGET].shape, true);
}

static tr_status infer_as_v2(const tr_infer *io)
{
    const attrs *a = io->attrs;
    const int    slot = io->in[TARGET].kind != TR_KIND_NONE ? TARGET : TARGET_Y;
    tr_shape     target = widened(&io->in[X].shape, a->list.count <= TR_MAX_RANK ? a->list.count : TR_MAX_RANK);

    for (int d = 0; d < target.rank; d++)
        target.dim[d] = a->list.item[d] < 0 ? target.dim[d] : a->list.item[d];         /* -1 keeps X's */
    if (io->in[slot].kind != TR_KIND_NONE)
        target = io->in[slot].shape;
    if (target.rank < io->in[X].shape.rank)
        return tr_fail(TR_ESHAPE, "%s: X %s has more dimensions than the shape that it shall have, %s; give target_tensor, Y or target_shape", io->type,
                       TR_SHAPE_STR(io->in[X].shape), TR_SHAPE_STR(target));
    return infer_target(io, &target, false);
}

/* -- kernels --------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    run_of_dims      runs[TR_MAX_RANK];
    const int        count = runs_between(runs, &x->shape, &io->out[OUT]->shape);
    int64_t          dims[TR_MAX_RANK], from[TR_MAX_RANK], to[TR_MAX_RANK], from_stride = 1, to_stride = 1;

    for (int i = count - 1; i >= 0; i--) {
        dims[2 * i] = runs[i].times;
        dims[2 * i + 1] = runs[i].count;
        from[2 * i] = 0;
        from[2 * i + 1] = from_stride;
        to[2 * i + 1] = to_stride;
        to[2 * i] = to_stride * runs[i].count;
        from_stride *= runs[i].count;
        to_stride *= runs[i].count * runs[i].times;
    }
    tr_copy_strided(io->out[OUT]->data, to, x->data, from, 2 * count, dims, tr_dtype_size(x->dtype));
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
#define REGISTER(name, proto_, check_, infer_, ...)                                                                   \
    static const tr_grad_rule name##_rule = {                                                                         \
        .op = #name "_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT), ##__VA_ARGS__}, .makes = {TR_DIN(X)},            \
        .second = tr__second_linear,                                                                                  \
    };                                                                                                                \
    TR_REGISTER_OP(name, .proto = &proto_, .check = check_, .infer = infer_, .run = run, .grad = &name##_rule);       \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .kernels = TR_FLOAT_KERNELS(expand_grad))

REGISTER(expand, proto, check, infer);
REGISTER(expand_v2, v2_proto, NULL, infer_v2);
REGISTER(tile, tile_proto, check_tile, infer_tile);
REGISTER(expand_as, as_proto, NULL, infer_as, TR_IN_SHAPE(TARGET));
REGISTER(expand_as_v2, as_v2_proto, NULL, infer_as_v2, TR_IN_SHAPE(TARGET), TR_IN_SHAPE(TARGET_Y));

#else /* the gradient, for each T */

/* From the last run to the first: dOut is [pre][times][count * what the runs behind became], and the sum over times
 * goes to one half of the scratch memory while the other half is read. */
static tr_status NAME(expand_grad)(const tr_run *io)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_tensor       *dx = io->out[G_DX];
    run_of_dims      runs[TR_MAX_RANK];
    const int        count = runs_between(runs, &dx->shape, &dout->shape);
    const int64_t    n = tr_tensor_count(dout);
    const T         *from = dout->data;
    T               *half[2];
    int64_t          post = 1, pre = n;
    int              next = 0;

    if (n == 0) {                                          /* expand_as: as large as a tensor without rows */
        memset(dx->data, 0, (size_t)tr_tensor_count(dx) * sizeof(T));
        return TR_OK;
    }
    TR_TRY(tr_run_scratch((void **)&half[0], io, 2 * (size_t)n * sizeof(T)));
    half[1] = half[0] + n;
    for (int i = count - 1; i >= 0; i--) {
        pre /= runs[i].times * runs[i].count;
        post *= runs[i].count;
        if (runs[i].times == 1)
            continue;
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, half[next], from, pre, runs[i].times, post);
        from = half[next];
        next = !next;
    }
    memcpy(dx->data, from, (size_t)tr_tensor_count(dx) * sizeof(T));
    return TR_OK;
}

#endif
