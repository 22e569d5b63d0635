/* random_fill.c - tensors of random numbers: uniform_random, gaussian_random, truncated_gaussian_random, and those
 * whose batch size is that of another tensor.
 *
 * Element i is a pure function of (key, i). The key is the executor's (from the program's seed and the name of the
 * output) or, when attribute `seed` is not 0, made of that seed alone. */
#ifndef T

#include "framework/tensors/random.h"
#include "kernels/base/shapes.h"
#include "kernels/creation/batch_size_like.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { OUT };

/* a and b are the distribution's: min and max, or mean and std. */
typedef struct attrs {
    tr_longs shape;
    float    a, b;
    int32_t  seed, dtype;
} attrs;

typedef struct truncated_attrs {        /* its shape is a list of INTs */
    tr_ints shape;
    float   a, b;
    int32_t seed, dtype;
} truncated_attrs;

typedef struct batch_attrs {
    tr_batch_attrs batch;
    float          a, b;
    int32_t        seed;
} batch_attrs;

#define PARAM(struct_type, field, attr_name, default_value, about, ...)                             \
    {.name = attr_name, .type = TR_ATTR_FLOAT, .offset = offsetof(struct_type, field), .number = default_value, \
     .comment = about, ##__VA_ARGS__}
#define UNIFORM_ATTRS(struct_type)                                                                  \
    PARAM(struct_type, a, "min", -1, "the least value"), PARAM(struct_type, b, "max", 1, "all values are below this")
#define NORMAL_ATTRS(struct_type)                                                                   \
    PARAM(struct_type, a, "mean", 0, "the mean"), PARAM(struct_type, b, "std", 1, "the standard deviation", .range = TR_AT_LEAST(0))
#define SEED_ATTR(struct_type) \
    TR_ATTR(struct_type, seed, INT, "0: numbers of the program's seed and the output's name; else of this alone")
#define DTYPE_ATTR(struct_type) TR_ATTR(struct_type, dtype, INT, "Out's type", .number = TR_FP32)
#define SHAPE_ATTR(struct_type, type) TR_ATTR(struct_type, shape, type, "Out's shape", .required = true)

static const tr_slot_def in_slots[] = {{"Input", "any shape; only that is read", TR_SLOT_ANY_TYPE}, {NULL}};
static const tr_slot_def out_slots[] = {{"Out", "of the shape and type that the attributes give"}, {NULL}};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    const attrs *at = io->attrs;

    return tr__meta_from_longs(&io->out[OUT], io, &at->shape, at->dtype);
}

static tr_status infer_truncated(const tr_infer *io)
{
    const truncated_attrs *at = io->attrs;

    return tr__meta_from_ints(&io->out[OUT], io, &at->shape, at->dtype);
}

static tr_status check_bounds(const char *op, float min, float max)
{
    if (!(min <= max))
        return tr_fail(TR_ERANGE, "%s: attribute 'min' is %g, so 'max' must be at least that; got %g", op, (double)min,
                       (double)max);
    return TR_OK;
}

static tr_status check_uniform(const void *attributes)
{
    const attrs *at = attributes;
    return check_bounds("uniform_random", at->a, at->b);
}

static tr_status check_uniform_batch(const void *attributes)
{
    const batch_attrs *at = attributes;
    return check_bounds("uniform_random_batch_size_like", at->a, at->b);
}

static uint64_t key_of(const tr_run *io, int32_t seed)
{
    return seed == 0 ? io->random_key : tr_random_key(0, (uint64_t)(uint32_t)seed, 0);
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- registration ------------------------------------------------------------------------------- */

#define RANDOM(name, formula, slots, attributes, struct_type, ...)                                  \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = slots, .out = out_slots, .attr = attributes, .attrs_size = sizeof(struct_type), \
    };                                                                                              \
    TR_REGISTER_OP(name, .proto = &name##_proto, .kernels = TR_FLOAT_KERNELS(name), .key = TR_KEY_OUT, \
                   .is_random = true, ##__VA_ARGS__);

RANDOM(uniform_random, "Out = numbers spread evenly over [min, max)", NULL,
       TR_ATTRS(SHAPE_ATTR(attrs, LONGS), UNIFORM_ATTRS(attrs), SEED_ATTR(attrs), DTYPE_ATTR(attrs)), attrs,
       .infer = infer, .check = check_uniform)
RANDOM(gaussian_random, "Out = normally distributed numbers", NULL,
       TR_ATTRS(SHAPE_ATTR(attrs, LONGS), NORMAL_ATTRS(attrs), SEED_ATTR(attrs), DTYPE_ATTR(attrs),
                TR_ATTR_IGNORED("use_mkldnn", BOOL)), attrs,
       .infer = infer)
RANDOM(truncated_gaussian_random, "Out = normally distributed numbers, none more than 2 std from the mean", NULL,
       TR_ATTRS(SHAPE_ATTR(truncated_attrs, INTS), NORMAL_ATTRS(truncated_attrs), SEED_ATTR(truncated_attrs),
                DTYPE_ATTR(truncated_attrs)), truncated_attrs,
       .infer = infer_truncated)
RANDOM(uniform_random_batch_size_like,
       "Out = numbers spread evenly over [min, max), with one dimension of Input's", in_slots,
       TR_ATTRS(TR_BATCH_ATTRS, UNIFORM_ATTRS(batch_attrs), SEED_ATTR(batch_attrs)), batch_attrs,
       .infer = tr__infer_batch_size_like, .check = check_uniform_batch)
RANDOM(gaussian_random_batch_size_like,
       "Out = normally distributed numbers, with one dimension of Input's", in_slots,
       TR_ATTRS(TR_BATCH_ATTRS, NORMAL_ATTRS(batch_attrs), SEED_ATTR(batch_attrs)), batch_attrs,
       .infer = tr__infer_batch_size_like)

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(uniform_random)(const tr_run *io)
{
    const attrs *at = io->attrs;
    tr_tensor   *out = io->out[OUT];

    NAME(tr_random_uniform)(out->data, tr_tensor_count(out), key_of(io, at->seed), 0, at->a, at->b);
    return TR_OK;
}

static tr_status NAME(gaussian_random)(const tr_run *io)
{
    const attrs *at = io->attrs;
    tr_tensor   *out = io->out[OUT];

    NAME(tr_random_normal)(out->data, tr_tensor_count(out), key_of(io, at->seed), 0, at->a, at->b);
    return TR_OK;
}

static tr_status NAME(truncated_gaussian_random)(const tr_run *io)
{
    const truncated_attrs *at = io->attrs;
    tr_tensor             *out = io->out[OUT];

    NAME(tr_random_truncated_normal)(out->data, tr_tensor_count(out), key_of(io, at->seed), 0, at->a, at->b);
    return TR_OK;
}

static tr_status NAME(uniform_random_batch_size_like)(const tr_run *io)
{
    const batch_attrs *at = io->attrs;
    tr_tensor         *out = io->out[OUT];

    TR_TRY(tr__resize_batch_size_like(io));
    NAME(tr_random_uniform)(out->data, tr_tensor_count(out), key_of(io, at->seed), 0, at->a, at->b);
    return TR_OK;
}

static tr_status NAME(gaussian_random_batch_size_like)(const tr_run *io)
{
    const batch_attrs *at = io->attrs;
    tr_tensor         *out = io->out[OUT];

    TR_TRY(tr__resize_batch_size_like(io));
    NAME(tr_random_normal)(out->data, tr_tensor_count(out), key_of(io, at->seed), 0, at->a, at->b);
    return TR_OK;
}

#endif
