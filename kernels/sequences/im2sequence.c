/* im2sequence.c - an image's patches, from left to right and from top to bottom, as the rows of a sequence.
 *
 * Padding is up, left, down, right. A window that begins inside the padded image belongs to it, so the last ones may reach
 * beyond its edge, where there are zeros. Fluid's formula says how many there are (kernels/math/tools/window.h). Y, where it is given, holds each image's true height and width before it was
 * scaled down by out_stride: then images give sequences of different lengths. */
#ifndef T

#include <string.h>

#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/math/tools/cast.h"
#include "kernels/math/tools/window.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };
enum { G_X, G_Y, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_ints kernels, strides, paddings, out_stride;
} attrs;

static const tr_op_proto proto = {
    .doc = "Makes a sequence of each image: one row for each window.",
    .in = TR_SLOTS(TR_SLOT("X", "[images, channels, height, width]", " float"),
                   TR_SLOT("Y", "[2 images] or [images, 2]", ", numbers: true height and width of each image before out_stride", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE)),
    .out = TR_SLOTS({"Out", "[windows, channels * kernel height * kernel width], a sequence for each image"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, kernels, INTS, "height and width of a window", .required = true),
                       TR_ATTR(attrs, strides, INTS, "steps down and to the right", .text = "1,1"),
                       TR_ATTR(attrs, paddings, INTS, "zeros above, on the left, below, on the right", .text = "0,0,0,0"),
                       TR_ATTR(attrs, out_stride, INTS, "what true sizes are divided by, rounded up", .text = "1,1")),
};

static tr_status check(const void *attrs_)
{
    const attrs *a = attrs_;

    TR_TRY(tr__check_pair("im2sequence", "kernels", &a->kernels, 1));
    TR_TRY(tr__check_pair("im2sequence", "strides", &a->strides, 1));
    TR_TRY(tr__check_pair("im2sequence", "out_stride", &a->out_stride, 1));
    if (a->paddings.count != 4)
        return tr_fail(TR_EINVAL, "im2sequence: paddings must be 4 numbers, got %d", a->paddings.count);
    for (int i = 0; i < 4; i++)
        if (a->paddings.item[i] < 0)
            return tr_fail(TR_ERANGE, "im2sequence: paddings must be 0 or more, got %d", a->paddings.item[i]);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* Windows along axis 0 (down) or 1 (to the right) of an image that is `size` there. */
static int64_t windows(const attrs *a, int axis, int64_t size)
{
    const int64_t padding = (int64_t)a->paddings.item[axis] + a->paddings.item[axis + 2];
    const int64_t places = tr_window_places(size, a->kernels.item[axis], a->strides.item[axis], padding, true);

    return places > 0 ? places : 0;
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    const bool     has_sizes = io->in[Y].kind != TR_KIND_NONE;

    const int64_t window = tr_size_mul(a->kernels.item[0], a->kernels.item[1]);
    tr_shape      out = TR_SHAPE(-1, x.dim[1] < 0 ? -1 : tr_size_mul(x.dim[1], window));
    for (int axis = 0; axis < 2; axis++)
        if (x.dim[2 + axis] >= 0 && windows(a, axis, x.dim[2 + axis]) == 0)
            return tr_fail(TR_ESHAPE, "%s: X is %s, too small for a window of %d x %d: with padding %d and %d, dimension %d lacks two strides (of %d) less one, or more",
                           io->type, TR_SHAPE_STR(x), a->kernels.item[0], a->kernels.item[1], a->paddings.item[axis], a->paddings.item[axis + 2],
                           2 + axis, a->strides.item[axis]);
    if (!has_sizes && x.dim[0] >= 0 && x.dim[2] >= 0 && x.dim[3] >= 0)
        out.dim[0] = tr_size_mul(x.dim[0], tr_size_mul(windows(a, 0, x.dim[2]), windows(a, 1, x.dim[3])));
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, 1);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* How many windows an image has. */
typedef struct grid {
    int64_t down, right;
} grid;

enum {
    MAX_EXTENT = 1 << 30,             /* of a true size */
    MIN_ELEMENTS = 8192               /* of a slice */
};

/* Of image i. Sizes of images that Y does not tell are those of X; that of a single image is, as in Fluid. */
static grid grid_of(const tr_run *io, int64_t i)
{
    const attrs     *a = io->attrs;
    const tr_tensor *y = io->in[Y];
    int64_t          size[2] = {io->in[X]->shape.dim[2], io->in[X]->shape.dim[3]};

    if (y && io->in[X]->shape.dim[0] > 1) {
        tr_cast(size, TR_INT64, (const char *)y->data + i * 2 * tr_dtype_size(y->dtype), y->dtype, 2);
        for (int axis = 0; axis < 2; axis++) {
            const int64_t least = size[axis] > -MAX_EXTENT ? size[axis] : -MAX_EXTENT, extent = least < MAX_EXTENT ? least : MAX_EXTENT;
            size[axis] = (extent + a->out_stride.item[axis] - 1) / a->out_stride.item[axis];
        }
    }
    return (grid){windows(a, 0, size[0]), windows(a, 1, size[1])};
}

static int64_t window_size(const tr_run *io)
{
    const attrs *a = io->attrs;
    return io->in[X]->shape.dim[1] * a->kernels.item[0] * a->kernels.item[1];
}

/* The windows of each image and the sequences of Out, in scratch memory. Y is read here alone. */
static tr_status find_sequences(tr_sequences *s, grid **grids, const tr_run *io)
{
    const int64_t images = io->in[X]->shape.dim[0];

    TR_TRY(tr_run_scratch((void **)grids, io, (size_t)images * sizeof **grids + (size_t)(images + 1) * sizeof(int64_t)));
    int64_t *offset = (int64_t *)(*grids + images);
    offset[0] = 0;
    for (int64_t i = 0; i < images; i++) {
        const grid g = (*grids)[i] = grid_of(io, i);
        offset[i + 1] = tr_size_add(offset[i], tr_size_mul(g.down, g.right));
    }
    *s = (tr_sequences){images, offset};
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "im2sequence_grad", .reads = {TR_IN_SHAPE(X), TR_IN(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(im2sequence, .proto = &proto, .check = check, .infer = infer, .kernels = TR_FLOAT_KERNELS(im2sequence),
               .grad = &grad);
TR_REGISTER_OP(im2sequence_grad, .grad_of = &tr_op_record_im2sequence, .kernels = TR_FLOAT_KERNELS(im2sequence_grad));

#else /* the kernels, for each T */

typedef struct {
    const attrs *a;
    const grid  *grids;
    tr_sequences s;
    int64_t      channels, height, width, size;       /* of an image; elements of a window */
    T           *image, *rows;
} NAME(job);

/* The window's row r (through the channels): elements [begin, end) of it lie in the image, from *at on; false: none. */
static bool NAME(row_of)(int64_t *at, int64_t *begin, int64_t *end, const NAME(job) *j, int64_t top, int64_t left, int64_t r)
{
    const int64_t height = j->a->kernels.item[0], width = j->a->kernels.item[1], y = top + r % height;

    *begin = left < 0 ? -left : 0;
    *end = j->width - left < width ? j->width - left : width;
    *at = (r / height * j->height + y) * j->width + left + *begin;
    return y >= 0 && y < j->height && *begin < *end;
}

static void NAME(take_window)(T *row, const T *image, const NAME(job) *j, int64_t top, int64_t left)
{
    memset(row, 0, (size_t)j->size * sizeof(T));
    for (int64_t r = 0, at, begin, end; r < j->channels * j->a->kernels.item[0]; r++, row += j->a->kernels.item[1])
        if (NAME(row_of)(&at, &begin, &end, j, top, left, r))
            memcpy(row + begin, image + at, (size_t)(end - begin) * sizeof(T));
}

static void NAME(give_window)(T *image, const T *row, const NAME(job) *j, int64_t top, int64_t left)
{
    for (int64_t r = 0, at, begin, end; r < j->channels * j->a->kernels.item[0]; r++, row += j->a->kernels.item[1])
        if (NAME(row_of)(&at, &begin, &end, j, top, left, r))
            for (int64_t k = begin; k < end; k++)
                image[at + k - begin] += row[k];
}

/* The windows of image i, to or from its rows. */
static void NAME(walk)(const NAME(job) *j, int64_t i, bool gives)
{
    const int64_t right = j->grids[i].right;
    T            *image = j->image + i * j->channels * j->height * j->width, *rows = j->rows + j->s.offset[i] * j->size;

    for (int64_t o = 0; o < j->grids[i].down * right; o++, rows += j->size) {
        const int64_t top = o / right * j->a->strides.item[0] - j->a->paddings.item[0];
        const int64_t left = o % right * j->a->strides.item[1] - j->a->paddings.item[1];
        if (gives)
            NAME(give_window)(image, rows, j, top, left);
        else
            NAME(take_window)(rows, image, j, top, left);
    }
}

static void NAME(take_range)(void *payload, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        NAME(walk)(payload, i, false);
}

static void NAME(give_range)(void *payload, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        NAME(walk)(payload, i, true);
}

static tr_status NAME(prepare)(NAME(job) *j, const tr_run *io)
{
    const tr_shape *x = &io->in[X]->shape;
    grid           *grids;

    *j = (NAME(job)){.a = io->attrs, .channels = x->dim[1], .height = x->dim[2], .width = x->dim[3], .size = window_size(io)};
    TR_TRY(find_sequences(&j->s, &grids, io));
    j->grids = grids;
    return TR_OK;
}

/* Images of a slice, at least. */
static int64_t NAME(least_images)(const NAME(job) *j)
{
    const int64_t each = j->s.count ? j->s.offset[j->s.count] * j->size / j->s.count : 0;
    return 1 + MIN_ELEMENTS / (each + 1);
}

static tr_status NAME(im2sequence)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    NAME(job)        j;

    TR_TRY(NAME(prepare)(&j, io));
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &TR_SHAPE(j.s.offset[j.s.count], j.size)));
    TR_TRY(tr__sequences_put(io->out[OUT], NULL, 0, &j.s));
    j.image = x->data;
    j.rows = io->out[OUT]->data;
    tr_parallel_range(j.s.count, NAME(least_images)(&j), NAME(take_range), &j);
    return TR_OK;
}

static tr_status NAME(im2sequence_grad)(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    NAME(job)  j;

    TR_TRY(NAME(prepare)(&j, io));
    TR_TRY(tr__check_rows(io, G_DOUT, j.s.offset[j.s.count]));
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    j.image = dx->data;
    j.rows = io->in[G_DOUT]->data;
    tr_parallel_range(j.s.count, NAME(least_images)(&j), NAME(give_range), &j);
    return TR_OK;
}

#endif
