/* interp.c - images in another size: bilinear_interp, nearest_interp, and their forms of later versions (_v2), whose scale is one for each axis.
 *
 * Element k of n along an axis of m elements lies at s in the source, whose two nearest elements are mixed (bilinear) or whose
 * nearest one is taken:
 *
 *     align_corners:                 s = k (m - 1) / (n - 1)            the corners meet
 *     else, align_mode 1 or nearest: s = k m / n
 *     else, align_mode 0:            s = (k + 1/2) m / n - 1/2, at least 0
 *
 * The forms of later versions take 1 / scale for m / n where they are given a scale. This differs where m times the scale is no whole number.
 *
 * Nearest rounds s half up with align_corners and down without. Places are computed in whole numbers, so none is off by a rounding.
 * Backward: each element of dOut goes back to where it came from, with the same weights. */
#ifndef T

#include "framework/base/size.h"
#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"

#include <math.h>
#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, OUT_SIZE };
enum { OUT };
enum { G_X, G_OUT_SIZE, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t out_h, out_w, align_mode;
    float   scale;
    bool    align_corners;
    enum { BILINEAR, NEAREST } interp_method;
    tr_floats scales;                 /* of later versions: of the height and of the width; none: as scale says */
} attrs;

static const tr_slot_def in_slots[] = {
    {"X", "[batch, channels, height, width] float or uint8"},
    {"OutSize", "[2] int32; [height, width] of Out, in place of the attributes", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE},
    {.name = NULL},
};
static const tr_slot_def out_slots[] = {{"Out", "[batch, channels, out_h, out_w]"}, {.name = NULL}};

/* The operator's type says what is computed. The default of interp_method is Fluid's for both, whose layers always set it. */
#define INTERP_ATTRS                                                                                               \
    TR_ATTRS(TR_ATTR(attrs, out_h, INT, "the height of Out; 0 or less: scale or OutSize says it", .required = true), \
             TR_ATTR(attrs, out_w, INT, "the width of Out", .required = true),                                     \
             TR_ATTR(attrs, scale, FLOAT, "above 0: Out is so many times as large as X, whatever out_h and out_w are"), \
             TR_ATTR(attrs, interp_method, STRING, "of bilinear_interp only bilinear; nearest_interp takes the nearest element either way", .text = "bilinear", \
                     .range = TR_ONE_OF({"bilinear", BILINEAR}, {"nearest", NEAREST})),                            \
             TR_ATTR(attrs, align_corners, BOOL, "the centres of the corners of X and Out meet", .number = 1),     \
             TR_ATTR(attrs, align_mode, INT, "of bilinear without align_corners: 0 has the centres of elements at halves, 1 at whole numbers", \
                     .number = 1, .range = TR_BETWEEN(0, 1)))

#define INTERP_V2_ATTRS(method)                                                                                    \
    TR_ATTRS(TR_ATTR(attrs, out_h, INT, "the height of Out, where neither scale nor OutSize says it"),                \
             TR_ATTR(attrs, out_w, INT, "the width of Out"), TR_ATTR_IGNORED("out_d", INT),                           \
             {.name = "scale", .type = TR_ATTR_FLOATS, .offset = offsetof(attrs, scales),                             \
              .comment = "Out is so many times as high and as wide as X, whatever out_h and out_w are; none, or two above 0"}, \
             TR_ATTR(attrs, interp_method, STRING, "as the operator's name says", .text = method, .range = TR_ONE_OF({"bilinear", BILINEAR}, {"nearest", NEAREST})), \
             TR_ATTR_ONLY("data_layout", STRING, "transpose X before and Out after", .text = "NCHW", .range = TR_ONE_OF({"NCHW", 0}, {"AnyLayout", 0})), \
             TR_ATTR(attrs, align_corners, BOOL, "the centres of the corners of X and Out meet", .number = 1),     \
             TR_ATTR(attrs, align_mode, INT, "of bilinear without align_corners: 0 has the centres of elements at halves, 1 at whole numbers", \
                     .number = 1, .range = TR_BETWEEN(0, 1)))

/* -- shapes ------------------------------------------------------------------------------------- */

/* Of the height (2) or the width (3); 0 or less: it is not given. */
static double scale_of(const attrs *a, int dimension)
{
    return (double)(a->scales.count ? a->scales.item[dimension - 2] : a->scale);
}

static int64_t extent_of(const attrs *a, int64_t in, int dimension)
{
    if (!(scale_of(a, dimension) > 0))
        return dimension == 2 ? a->out_h : a->out_w;
    if (in < 0)
        return -1;
    const double size = floor((double)in * scale_of(a, dimension));
    return size < 0x1p40 ? (int64_t)size : (int64_t)1 << 40;
}

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    tr_shape     out = io->in[X].shape;

    TR_TRY(tr__check_rank(io, "X", &io->in[X], 4));
    const bool is_fed = io->in[OUT_SIZE].kind != TR_KIND_NONE;
    for (int i = 2; i < 4; i++) {
        const int64_t in = out.dim[i], extent = is_fed ? -1 : extent_of(a, in, i);
        if (in == 0)
            return tr_fail(TR_ESHAPE, "%s: nothing to take elements from: X is %s", io->type, TR_SHAPE_STR(io->in[X].shape));
        if (extent < 1 && !is_fed && !(scale_of(a, i) > 0 && in < 0))
            return tr_fail(TR_ERANGE, "%s: X is %s with out_h %d, out_w %d and scale %g, so dimension %d of Out would be %lld; give "
                           "out_h and out_w above 0, a scale, or OutSize", io->type, TR_SHAPE_STR(io->in[X].shape), a->out_h,
                           a->out_w, scale_of(a, i), i, (long long)extent);
        out.dim[i] = extent;
    }
    if (is_fed) {
        TR_TRY(tr__check_dtype(io, "OutSize", &io->in[OUT_SIZE], TR_INT32));
        TR_TRY(tr__check_shape(io, "OutSize", &io->in[OUT_SIZE], &TR_SHAPE(2)));
    }
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

static tr_status check_bilinear(const void *attrs_)
{
    const attrs *a = attrs_;

    return a->interp_method == BILINEAR ? TR_OK : tr_fail(TR_ERANGE, "bilinear_interp: interp_method is nearest; write the operator nearest_interp");
}

static tr_status check_scales(const void *attrs_)
{
    const attrs *a = attrs_;

    if (a->scales.count == 0 || (a->scales.count == 2 && a->scales.item[0] > 0 && a->scales.item[1] > 0))
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s_interp_v2: scale must have two elements above 0, or none; it has %d", a->interp_method == BILINEAR ? "bilinear" : "nearest",
                   a->scales.count);
}

static tr_status resize_output(const tr_run *io, const char *type)
{
    const tr_tensor *x = io->in[X];
    const int32_t   *size = io->in[OUT_SIZE]->data;
    tr_shape         out = x->shape;

    if (size[0] < 1 || size[1] < 1)
        return tr_fail(TR_ERANGE, "%s: OutSize '%s' is [%d, %d]; both must be at least 1", type, tr_run_in_name(io, OUT_SIZE, 0),
                       size[0], size[1]);
    out.dim[2] = size[0];
    out.dim[3] = size[1];
    return tr_run_resize(io, OUT, 0, x->dtype, &out);
}

/* -- places ------------------------------------------------------------------------------------- */

/* Element k of Out is (1 - share) * low + share * high along an axis. */
typedef struct tap {
    int64_t low, high;
    double  share;
} tap;

/* `scale` above 0 stands for out / in. */
static tap scaled_tap_of(const attrs *a, bool is_nearest, int64_t k, int64_t in, double scale)
{
    const double  s = is_nearest || a->align_mode == 1 ? (double)k / scale : fmax(((double)k + 0.5) / scale - 0.5, 0);
    const int64_t low = s < (double)(in - 1) ? (int64_t)s : in - 1;

    return is_nearest ? (tap){low, low, 0} : (tap){low, low + 1 < in ? low + 1 : in - 1, s - (double)low};
}

static tap tap_of(const attrs *a, bool is_nearest, int64_t k, int64_t in, int64_t out)
{
    int64_t over = 1, under = 1;               /* s = over / under */

    if (a->align_corners) {
        over = out > 1 ? k * (in - 1) : 0;
        under = out > 1 ? out - 1 : 1;
    } else if (is_nearest || a->align_mode == 1) {
        over = k * in;
        under = out;
    } else {
        over = (2 * k + 1) * in - out;
        under = 2 * out;
    }
    if (is_nearest) {
        const int64_t at = a->align_corners ? (2 * over + under) / (2 * under) : over / under;
        return (tap){at, at, 0};
    }
    over = over > 0 ? over : 0;
    const int64_t low = over / under;
    return (tap){low, low + 1 < in ? low + 1 : in - 1, (double)(over % under) / (double)under};
}

/* Along the height (2) or the width (3). */
static void fill_taps(tap *taps, const attrs *a, bool is_nearest, int dimension, bool is_fed, int64_t in, int64_t out)
{
    const double scale = a->scales.count && !is_fed && !a->align_corners ? scale_of(a, dimension) : 0;
    const bool   is_cut = scale > 0 && (double)in * scale != (double)out;

    for (int64_t k = 0; k < out; k++)
        taps[k] = is_cut ? scaled_tap_of(a, is_nearest, k, in, scale) : tap_of(a, is_nearest, k, in, out);
}

/* -- kernels: the end of this file, once for each type --------------------------------------------- */
#define TR_TEMPLATE "kernels/images/interp.c"
#include "kernels/math/tools/each_float.h"

#define T uint8_t                    /* images as they are read; no gradient flows through them */
#define NAME(x) x##_u8
#define FORWARD_ALONE
#include "kernels/images/interp.c"
#undef FORWARD_ALONE
#undef NAME
#undef T

/* -- gradient and registration ------------------------------------------------------------------- */
#define INTERP(name, is_nearest, attrs_, check_, about)                                                                        \
    static tr_status name##_f32(const tr_run *io) { return interp_f32(io, #name, is_nearest); }                        \
    static tr_status name##_f64(const tr_run *io) { return interp_f64(io, #name, is_nearest); }                        \
    static tr_status name##_u8(const tr_run *io) { return interp_u8(io, #name, is_nearest); }                          \
    static tr_status name##_grad_f32(const tr_run *io) { return interp_grad_f32(io, is_nearest); }                     \
    static tr_status name##_grad_f64(const tr_run *io) { return interp_grad_f64(io, is_nearest); }                     \
    static const tr_op_proto name##_proto = {                                                                          \
        .doc = about, .in = in_slots, .out = out_slots, .attr = attrs_, .attrs_size = sizeof(attrs),                   \
    };                                                                                                                 \
    static const tr_grad_rule name##_rule = {                                                                          \
        .op = #name "_grad", .reads = {TR_IN_SHAPE(X), TR_IN(OUT_SIZE), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},     \
        .second = tr__second_linear,                                                                                   \
    };                                                                                                                 \
    TR_REGISTER_OP(name, .proto = &name##_proto, .check = check_, .infer = infer, .grad = &name##_rule,                \
                   .kernels = {{TR_FLOAT_TABLE(name), [TR_UINT8] = name##_u8}});                                       \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .kernels = TR_FLOAT_KERNELS(name##_grad))

INTERP(bilinear_interp, false, INTERP_ATTRS, check_bilinear, "Images in another size: each element is mixed of the four nearest ones of X.");
INTERP(nearest_interp, true, INTERP_ATTRS, NULL, "Images in another size: each element is the nearest one of X.");
INTERP(bilinear_interp_v2, false, INTERP_V2_ATTRS("bilinear"), check_scales, "Images in another size: each element is mixed of the four nearest ones of X.");
INTERP(nearest_interp_v2, true, INTERP_V2_ATTRS("nearest"), check_scales, "Images in another size: each element is the nearest one of X.");

#else /* the kernels, for each T */

#ifdef FORWARD_ALONE
typedef float NAME(real);
#else
typedef T NAME(real);
#endif

typedef struct {
    T         *to;
    const T   *from;
    const tap *rows, *columns;
    int64_t    height, width, out_height, out_width;
    bool       is_nearest;
} NAME(job);

static void NAME(take_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    for (int64_t r = begin; r < end; r++) {
        const tap *y = &j->rows[r % j->out_height];
        const T   *plane = j->from + r / j->out_height * j->height * j->width;
        const T   *top = plane + y->low * j->width, *bottom = plane + y->high * j->width;
        const NAME(real) down = (NAME(real))y->share;
        T         *to = j->to + r * j->out_width;
        for (int64_t k = 0; k < j->out_width; k++) {
            const tap       *x = &j->columns[k];
            const NAME(real) right = (NAME(real))x->share;
            if (j->is_nearest)
                to[k] = top[x->low];
            else
                to[k] = (T)((1 - down) * ((1 - right) * top[x->low] + right * top[x->high]) +
                            down * ((1 - right) * bottom[x->low] + right * bottom[x->high]));
        }
    }
}

#ifndef FORWARD_ALONE
/* Of whole planes: rows of Out share rows of X. */
static void NAME(give_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;

    memset(j->to + begin * j->height * j->width, 0, (size_t)((end - begin) * j->height * j->width) * sizeof(T));
    for (int64_t r = begin * j->out_height; r < end * j->out_height; r++) {
        const tap *y = &j->rows[r % j->out_height];
        T         *plane = j->to + r / j->out_height * j->height * j->width;
        T         *top = plane + y->low * j->width, *bottom = plane + y->high * j->width;
        const T    down = (T)y->share, *d = j->from + r * j->out_width;
        for (int64_t k = 0; k < j->out_width; k++) {
            const tap *x = &j->columns[k];
            const T    right = (T)x->share;
            top[x->low] += j->is_nearest ? d[k] : (1 - down) * (1 - right) * d[k];
            if (j->is_nearest)
                continue;
            top[x->high] += (1 - down) * right * d[k];
            bottom[x->low] += down * (1 - right) * d[k];
            bottom[x->high] += down * right * d[k];
        }
    }
}

#endif

static tr_status NAME(prepare)(NAME(job) *j, const tr_run *io, const tr_shape *x, const tr_shape *out, bool is_nearest)
{
    tap *taps;

    TR_TRY(tr_run_scratch((void **)&taps, io, (size_t)(out->dim[2] + out->dim[3]) * sizeof *taps));
    fill_taps(taps, io->attrs, is_nearest, 2, io->in[OUT_SIZE], x->dim[2], out->dim[2]);
    fill_taps(taps + out->dim[2], io->attrs, is_nearest, 3, io->in[OUT_SIZE], x->dim[3], out->dim[3]);
    *j = (NAME(job)){.rows = taps, .columns = taps + out->dim[2], .height = x->dim[2], .width = x->dim[3],
                     .out_height = out->dim[2], .out_width = out->dim[3], .is_nearest = is_nearest};
    return TR_OK;
}

static tr_status NAME(interp)(const tr_run *io, const char *type, bool is_nearest)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    NAME(job)        j;

    if (io->in[OUT_SIZE])
        TR_TRY(resize_output(io, type));
    TR_TRY(NAME(prepare)(&j, io, &x->shape, &out->shape, is_nearest));
    j.to = out->data;
    j.from = x->data;
    tr_parallel_range(tr_shape_product(&out->shape, 0, 3), 1 + 8192 / j.out_width, NAME(take_range), &j);
    return TR_OK;
}

#ifndef FORWARD_ALONE
static tr_status NAME(interp_grad)(const tr_run *io, bool is_nearest)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_tensor       *dx = io->out[G_DX];
    NAME(job)        j;

    TR_TRY(NAME(prepare)(&j, io, &dx->shape, &dout->shape, is_nearest));
    j.to = dx->data;
    j.from = dout->data;
    tr_parallel_range(dx->shape.dim[0] * dx->shape.dim[1], 1 + 8192 / (j.out_width * j.out_height), NAME(give_range), &j);
    return TR_OK;
}
#endif

#endif
