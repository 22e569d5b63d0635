/* affine_grid.c - where the elements of an image come from when it is turned, stretched and moved: a grid for grid_sampler.
 * (Jaderberg et al., Spatial transformer networks, 2015)
 *
 * Output[n,y,x] = Theta[n] (u, v, 1), with u and v from -1 to 1 along the width and the height, corners included; the only element of
 * an extent of 1 is at -1. Backward: dTheta[n] = sum over y, x of dOutput[n,y,x] (u, v, 1)^T. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "framework/operators/op.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { THETA, OUTPUT_SHAPE };
enum { OUTPUT };
enum { G_THETA, G_OUTPUT_SHAPE, G_DOUTPUT };
enum { G_DTHETA };

typedef struct attrs {
    tr_ints output_shape;
} attrs;

static const tr_op_proto proto = {
    .doc = "A grid of places in an image, each the place in the new image times a matrix.",
    .in = TR_SLOTS(TR_SLOT("Theta", "[batch, 2, 3]", " float; a matrix for each image"),
                   TR_SLOT("OutputShape", "[4]", " int32; in place of the attribute", TR_SLOT_OPTIONAL | TR_SLOT_INT32)),
    .out = TR_SLOTS({"Output", "[batch, height, width, 2]; x and y, -1 and 1 being the first and the last column or row"}),
    TR_ATTRS_OF(attrs, TR_ATTR_IGNORED("use_cudnn", BOOL, .number = 1),
                       TR_ATTR(attrs, output_shape, INTS, "the new images: [batch, channels, height, width]")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_size(const char *type, const char *what, const int32_t *size, int64_t batch)
{
    if (size[2] < 1 || size[3] < 1 || (batch >= 0 && size[0] >= 0 && size[0] != batch))
        return tr_fail(TR_ESHAPE, "%s: %s is [%d, %d, %d, %d]; it must be [batch, channels, height, width] with height and width "
                       "above 0, for the %lld matrices of Theta", type, what, size[0], size[1], size[2], size[3], (long long)batch);
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = TR_SHAPE(io->in[THETA].shape.dim[0], -1, -1, 2);

    if (io->in[OUTPUT_SHAPE].kind == TR_KIND_NONE) {
        if (a->output_shape.count != 4)
            return tr_fail(TR_ERANGE, "%s: attribute 'output_shape' must have 4 numbers, [batch, channels, height, width], got %d; or "
                           "give OutputShape", io->type, a->output_shape.count);
        TR_TRY(check_size(io->type, "attribute 'output_shape'", a->output_shape.item, out.dim[0]));
        out.dim[1] = a->output_shape.item[2];
        out.dim[2] = a->output_shape.item[3];
    }
    io->out[OUTPUT] = tr_meta_dense(io->in[THETA].dtype, out);
    return TR_OK;
}

static tr_status resize_output(const tr_run *io)
{
    const int32_t *size = io->in[OUTPUT_SHAPE]->data;
    const int64_t  batch = io->in[THETA]->shape.dim[0];

    TR_TRY(check_size("affine_grid", tr_run_in_name(io, OUTPUT_SHAPE, 0), size, batch));
    return tr_run_resize(io, OUTPUT, 0, io->in[THETA]->dtype, &TR_SHAPE(batch, size[2], size[3], 2));
}

/* -- kernels -------------------------------------------------------------------------------------- */
static double place(int64_t i, int64_t n) { return n > 1 ? 2 * (double)i / (double)(n - 1) - 1 : -1; }

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "affine_grid_grad", .reads = {TR_IN_SHAPE(THETA), TR_IN(OUTPUT_SHAPE), TR_DOUT(OUTPUT)}, .makes = {TR_DIN(THETA)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(affine_grid, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(affine_grid), .grad = &grad);
TR_REGISTER_OP(affine_grid_grad, .grad_of = &tr_op_record_affine_grid, .kernels = TR_FLOAT_KERNELS(affine_grid_grad));

#else /* the kernels, for each T */

static tr_status NAME(affine_grid)(const tr_run *io)
{
    const T *theta = io->in[THETA]->data;

    if (io->in[OUTPUT_SHAPE])
        TR_TRY(resize_output(io));
    const tr_shape *out = &io->out[OUTPUT]->shape;
    T              *to = io->out[OUTPUT]->data;
    for (int64_t n = 0; n < out->dim[0]; n++, theta += 6)
        for (int64_t y = 0; y < out->dim[1]; y++)
            for (int64_t x = 0; x < out->dim[2]; x++, to += 2) {
                const T u = (T)place(x, out->dim[2]), v = (T)place(y, out->dim[1]);
                to[0] = theta[0] * u + theta[1] * v + theta[2];
                to[1] = theta[3] * u + theta[4] * v + theta[5];
            }
    return TR_OK;
}

static tr_status NAME(affine_grid_grad)(const tr_run *io)
{
    const tr_shape *out = &io->in[G_DOUTPUT]->shape;
    const T        *d = io->in[G_DOUTPUT]->data;
    T              *dtheta = io->out[G_DTHETA]->data;

    for (int64_t n = 0; n < out->dim[0]; n++, dtheta += 6) {
        double sum[6] = {0};
        for (int64_t y = 0; y < out->dim[1]; y++)
            for (int64_t x = 0; x < out->dim[2]; x++, d += 2) {
                const double at[3] = {place(x, out->dim[2]), place(y, out->dim[1]), 1};
                for (int k = 0; k < 6; k++)
                    sum[k] += (double)d[k / 3] * at[k % 3];
            }
        for (int k = 0; k < 6; k++)
            dtheta[k] = (T)sum[k];
    }
    return TR_OK;
}

#endif
