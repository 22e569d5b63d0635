/* crop.c - crop and random_crop: a box of a tensor, at a given place or at one that is drawn.
 *
 * crop's box has the shape of Y or of the attribute; it begins at Offsets or at the attribute. Backward puts the gradient back
 * among zeros. random_crop draws a place for each item of the dimensions that its shape does not have; it has no gradient. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "framework/tensors/random.h"
#include "kernels/base/check.h"
#include "kernels/shapes/part.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { X, Y, OFFSETS };               /* of crop */
enum { OUT };
enum { G_X, G_Y, G_OFFSETS, G_DOUT };
enum { G_DX };
enum { SEED = 1 };                    /* of random_crop */
enum { SEED_OUT = 1 };

typedef struct attrs {
    tr_ints offsets, shape;
    int32_t startup_seed;
} attrs;

static const tr_op_proto crop_proto = {
    .doc = "A box of X.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " of any type"),
                   {"Y", "Out is of its shape; only that is read", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE},
                   {"Offsets", "[rank of X] int32; where the box begins, instead of the attribute", TR_SLOT_OPTIONAL | TR_SLOT_INT32}),
    .out = TR_SLOTS({"Out", "of the shape of Y or of attribute shape"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, offsets, INTS, "where the box begins in each dimension; none given: at the front",
                               .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, shape, INTS, "the box, where there is no Y; -1 is the rest of the dimension",
                               .range = TR_AT_LEAST(-1))),
};

static const tr_op_proto random_proto = {
    .doc = "Boxes of X at places that are drawn, another one for each item of the dimensions in front.",
    .in = TR_SLOTS({"X", "[items..., dimensions of the box...] of any type"},
                   TR_SLOT("Seed", "[1]", " int64; the places depend on it alone, if it is there", TR_SLOT_OPTIONAL | TR_SLOT_INT64)),
    .out = TR_SLOTS({"Out", "[items..., shape...]"},
                    TR_SLOT("SeedOut", "[1]", " int64, the seed of the next run; may be Seed", TR_SLOT_INTERMEDIATE | TR_SLOT_INT64)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, shape, INTS, "the box: the last dimensions of Out", .required = true, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, startup_seed, INT, "where there is no Seed: another number, other places")),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status check_box(const tr_infer *io, tr_shape *box)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    const bool     placed = io->in[OFFSETS].kind == TR_KIND_NONE;

    if (box->rank != x.rank)
        return tr_fail(TR_ESHAPE, "%s: the box must have the rank of X %s, got %s; give Y or attribute shape", io->type,
                       TR_SHAPE_STR(x), TR_SHAPE_STR(*box));
    if (placed && a->offsets.count != 0 && a->offsets.count != x.rank)
        return tr_fail(TR_EINVAL, "%s: offsets must be %d numbers for X %s, got %d", io->type, x.rank, TR_SHAPE_STR(x),
                       a->offsets.count);
    for (int d = 0; d < x.rank; d++) {
        const int64_t begin = placed && a->offsets.count > 0 ? a->offsets.item[d] : 0;
        if (box->dim[d] < 0 && placed && io->in[Y].kind == TR_KIND_NONE)
            box->dim[d] = x.dim[d] < begin ? -1 : x.dim[d] - begin;
        if (x.dim[d] >= 0 && (begin > x.dim[d] || (box->dim[d] >= 0 && box->dim[d] > x.dim[d] - begin)))
            return tr_fail(TR_ESHAPE, "%s: a box of %s at %lld of dimension %d does not lie within X %s", io->type,
                           TR_SHAPE_STR(*box), (long long)begin, d, TR_SHAPE_STR(x));
    }
    return TR_OK;
}

static tr_status infer_crop(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     box = {.rank = a->shape.count};

    if (a->shape.count > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: shape has %d dimensions, at most %d are possible", io->type, a->shape.count, TR_MAX_RANK);
    for (int d = 0; d < box.rank; d++)
        box.dim[d] = a->shape.item[d];
    if (io->in[Y].kind != TR_KIND_NONE)
        box = io->in[Y].shape;
    if (io->in[OFFSETS].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "Offsets", &io->in[OFFSETS], &TR_SHAPE(io->in[X].shape.rank)));
    TR_TRY(check_box(io, &box));
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, box);
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* The begin of the box, which must lie within X. */
static tr_status place_box(int64_t *begin, const attrs *a, const tr_tensor *offsets, const tr_shape *x, const tr_shape *box)
{
    const int32_t *given = offsets ? offsets->data : a->offsets.item;

    for (int d = 0; d < x->rank; d++) {
        begin[d] = offsets || a->offsets.count > 0 ? given[d] : 0;
        if (begin[d] < 0 || box->dim[d] > x->dim[d] - begin[d])
            return tr_fail(TR_ERANGE, "crop: a box of %s that begins at %lld of dimension %d does not lie within X %s",
                           tr_shape_str(box), (long long)begin[d], d, tr_shape_str(x));
    }
    return TR_OK;
}

static tr_status run_crop(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    int64_t          begin[TR_MAX_RANK];
    tr_shape         box = out->shape;

    if (!io->in[Y] && io->in[OFFSETS])
        box.rank = a->shape.count;                      /* out may have no shape yet */
    for (int d = 0; d < a->shape.count && !io->in[Y] && io->in[OFFSETS]; d++) {       /* -1 ends where X does */
        const int32_t *given = io->in[OFFSETS]->data;
        box.dim[d] = a->shape.item[d] >= 0 ? a->shape.item[d] : given[d] >= 0 && given[d] <= x->shape.dim[d] ? x->shape.dim[d] - given[d] : 0;
    }
    TR_TRY(place_box(begin, a, io->in[OFFSETS], &x->shape, &box));
    if (!tr_shape_equal(&box, &out->shape))
        TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &box));
    tr__part_take(io->out[OUT], x, begin);
    return TR_OK;
}

static tr_status run_crop_grad(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    int64_t    begin[TR_MAX_RANK];

    TR_TRY(place_box(begin, io->attrs, io->in[G_OFFSETS], &dx->shape, &io->in[G_DOUT]->shape));
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    tr__part_put(dx, io->in[G_DOUT], begin);
    return TR_OK;
}

static const tr_grad_rule grad = {
    .op = "crop_grad", .reads = {TR_IN_SHAPE(X), TR_IN_SHAPE(Y), TR_IN(OFFSETS), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(crop, .proto = &crop_proto, .infer = infer_crop, .run = run_crop, .grad = &grad);
TR_REGISTER_OP(crop_grad, .grad_of = &tr_op_record_crop, .run = run_crop_grad);

/* -- random_crop -------------------------------------------------------------------------------- */
static tr_status infer_random(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;
    const int    first = out.rank - a->shape.count;

    if (first < 0)
        return tr_fail(TR_ESHAPE, "%s: X %s must have the %d dimensions of shape, and may have others in front", io->type,
                       TR_SHAPE_STR(out), a->shape.count);
    for (int d = first; d < out.rank; d++) {
        if (out.dim[d] >= 0 && a->shape.item[d - first] > out.dim[d])
            return tr_fail(TR_ESHAPE, "%s: shape[%d] is %d, more than dimension %d of X %s", io->type, d - first,
                           a->shape.item[d - first], d, TR_SHAPE_STR(io->in[X].shape));
        out.dim[d] = a->shape.item[d - first];
    }
    io->out[OUT] = first > 0 ? io->in[X] : tr_meta_dense(io->in[X].dtype, out);
    io->out[OUT].shape = out;
    return TR_OK;
}

static uint64_t key_of(const tr_run *io)
{
    const attrs *a = io->attrs;

    if (io->in[SEED])
        return tr_hash_u64((uint64_t)*(const int64_t *)io->in[SEED]->data);
    return io->random_key + (uint64_t)a->startup_seed;
}

static tr_status run_random(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int        rank = a->shape.count, first = x->shape.rank - rank;
    const int64_t    items = tr_shape_product(&x->shape, 0, first), size = tr_dtype_size(x->dtype);
    const int64_t    x_bytes = tr_shape_product(&x->shape, first, x->shape.rank) * size;
    const int64_t    out_bytes = tr_shape_product(&io->out[OUT]->shape, first, x->shape.rank) * size;
    const uint64_t   key = key_of(io);
    tr_tensor        whole = *x, part = *io->out[OUT];     /* of one item: never freed */

    whole.shape = tr_shape_of(rank, x->shape.dim + first);
    part.shape = tr_shape_of(rank, io->out[OUT]->shape.dim + first);
    for (int64_t i = 0; i < items; i++) {
        int64_t begin[TR_MAX_RANK] = {0};
        for (int d = 0; d < rank; d++)
            begin[d] = (int64_t)tr_random_below(key, (uint64_t)(i * rank + d),
                                                (uint64_t)(whole.shape.dim[d] - part.shape.dim[d]) + 1);
        whole.data = (char *)x->data + i * x_bytes;
        part.data = (char *)io->out[OUT]->data + i * out_bytes;
        tr__part_take(&part, &whole, begin);
    }
    if (io->out[SEED_OUT])
        *(int64_t *)io->out[SEED_OUT]->data = (int64_t)(tr_hash_u64(key + 1) >> 1);
    return TR_OK;
}

TR_REGISTER_OP(random_crop, .proto = &random_proto, .infer = infer_random, .run = run_random, .is_random = true,
               .is_varying = true, .inplace = {{SEED, SEED_OUT}}, .inplace_count = 1);
