/* interp.c - lines, images and volumes in another size: linear_interp, bilinear_interp, nearest_interp, bicubic_interp, trilinear_interp, and their
 * forms of later versions (_v2), whose scale is one for each axis.
 *
 * kernels/math/images/interp.h says where each element comes from. Out's size comes from the first of these that is there: SizeTensor, OutSize, Scale, the
 * attribute scale, out_d, out_h and out_w. Backward: each element of dOut goes back to where it came from, with the same weights. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/images/interp.h"

#include <math.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, OUT_SIZE, SIZE_TENSOR, SCALE };
enum { OUT };
enum { G_X, G_OUT_SIZE, G_SIZE_TENSOR, G_SCALE, G_DOUT };
enum { G_DX };

typedef enum method { LINEAR, BILINEAR, NEAREST, BICUBIC, TRILINEAR } method;

typedef struct attrs {
    int32_t   out_d, out_h, out_w, align_mode;
    float     scale;
    bool      align_corners;
    method    interp_method;
    tr_floats scales;                 /* of later versions: of each axis; none: as scale says */
} attrs;

static const struct {
    const char      *name;            /* of the operator, without _v2 */
    int              axes;
    tr_interp_method how;
} methods[] = {
    [LINEAR] = {"linear_interp", 1, TR_INTERP_LINEAR},   [BILINEAR] = {"bilinear_interp", 2, TR_INTERP_LINEAR},
    [NEAREST] = {"nearest_interp", 2, TR_INTERP_NEAREST}, [BICUBIC] = {"bicubic_interp", 2, TR_INTERP_CUBIC},
    [TRILINEAR] = {"trilinear_interp", 3, TR_INTERP_LINEAR},
};

#define IN_SLOTS(what)                                                                                                     \
    TR_SLOTS(TR_SLOT("X", what, " float or uint8"),                                                                               \
             {"OutSize", "[axes] int32; the extents of Out, in place of the attributes", TR_SLOT_OPTIONAL | TR_SLOT_INT32}, \
             {"SizeTensor", "each [1] int32; one extent of Out each, in place of OutSize", TR_SLOT_OPTIONAL | TR_SLOT_REPEATED | TR_SLOT_INT32}, \
             {"Scale", "[1], or [axes], float32; in place of the attribute", TR_SLOT_OPTIONAL | TR_SLOT_FP32})

#define METHOD_ATTR(about, default_method)                                                                          \
    TR_ATTR(attrs, interp_method, STRING, about, .text = default_method,                                                  \
            .range = TR_ONE_OF({"linear", LINEAR}, {"bilinear", BILINEAR}, {"nearest", NEAREST}, {"bicubic", BICUBIC}, {"trilinear", TRILINEAR}))
#define WHERE_ATTRS                                                                                                \
    TR_ATTR_ONLY("data_layout", STRING, "transpose X before and Out after", .text = "NCHW",                        \
                 .range = TR_ONE_OF({"NCHW", 0}, {"NCW", 0}, {"NCDHW", 0}, {"AnyLayout", 0})),                     \
    TR_ATTR(attrs, align_corners, BOOL, "the centres of the corners of X and Out meet", .number = 1),              \
    TR_ATTR(attrs, align_mode, INT, "of linear ones without align_corners: 0 has the centres of elements at halves, 1 at whole numbers", \
            .number = 1, .range = TR_BETWEEN(0, 1))

/* The operator's type says what is computed. The default of interp_method is Fluid's for all, whose layers always set it. */
#define INTERP_ATTRS(is_wanted)                                                                              \
    TR_ATTRS(TR_ATTR(attrs, out_d, INT, "the depth of a volume; 0 or less: scale or an input says it"),            \
             TR_ATTR(attrs, out_h, INT, "the height of Out", .required = is_wanted),                               \
             TR_ATTR(attrs, out_w, INT, "the width of Out", .required = is_wanted),                                \
             TR_ATTR(attrs, scale, FLOAT, "above 0: Out is so many times as large as X, whatever out_h and out_w are"), \
             METHOD_ATTR("as the operator's name says; the default counts as that", "bilinear"), WHERE_ATTRS)
#define INTERP_V2_ATTRS(default_method)                                                                            \
    TR_ATTRS(TR_ATTR(attrs, out_d, INT, "the depth of a volume, where neither scale nor an input says it"),        \
             TR_ATTR(attrs, out_h, INT, "the height of Out"), TR_ATTR(attrs, out_w, INT, "the width of Out"),      \
             {.name = "scale", .type = TR_ATTR_FLOATS, .offset = offsetof(attrs, scales),                          \
              .comment = "Out is so many times as large as X along each axis, whatever out_h and out_w are; none, or one above 0 for each axis"}, \
             METHOD_ATTR("as the operator's name says", default_method), WHERE_ATTRS)

static tr_status check(const void *attrs_, const char *type, method own)
{
    const attrs *a = attrs_;
    const int    axes = methods[own].axes;
    bool         is_good = a->scales.count == 0 || a->scales.count == axes;

    if (a->interp_method != own && a->interp_method != BILINEAR)
        return tr_fail(TR_ERANGE, "%s: interp_method is that of another operator; write the operator %s", type, methods[a->interp_method].name);
    for (int i = 0; i < a->scales.count && is_good; i++)
        is_good = a->scales.item[i] > 0;
    return is_good ? TR_OK : tr_fail(TR_ERANGE, "%s: scale must have %d elements above 0, or none; it has %d", type, axes, a->scales.count);
}

/* -- shapes ------------------------------------------------------------------------------------- */

/* As Fluid multiplies. */
static int64_t scaled(int64_t in, float scale)
{
    const float size = floorf((float)in * scale);
    return size < 0x1p40F ? (int64_t)size : (int64_t)1 << 40;
}

/* Of axis i of an operator's; 0 or less: it is not given. */
static float scale_of(const attrs *a, int i)
{
    return a->scales.count ? a->scales.item[i] : a->scale;
}

static int64_t wanted(const attrs *a, int axes, int i)
{
    const int32_t extent[3] = {a->out_d, a->out_h, a->out_w};
    return extent[3 - axes + i];
}

static tr_status check_inputs(const tr_infer *io, int axes)
{
    const tr_meta_list *sizes = &io->ins[SIZE_TENSOR];

    if (io->in[OUT_SIZE].kind != TR_KIND_NONE)
        TR_TRY(tr__check_shape(io, "OutSize", &io->in[OUT_SIZE], &TR_SHAPE(axes)));
    if (sizes->count > 0 && sizes->count != axes)
        return tr_fail(TR_EINVAL, "%s: SizeTensor has %d variables; Out has %d extents", io->type, sizes->count, axes);
    for (int i = 0; i < sizes->count; i++)
        TR_TRY(tr__check_shape(io, "SizeTensor", &sizes->item[i], &TR_SHAPE(1)));
    if (io->in[SCALE].kind != TR_KIND_NONE) {
        TR_TRY(tr__check_rank(io, "Scale", &io->in[SCALE], 1));
        if (io->in[SCALE].shape.dim[0] != 1)
            TR_TRY(tr__check_shape(io, "Scale", &io->in[SCALE], &TR_SHAPE(axes)));
    }
    return TR_OK;
}

static tr_status infer(const tr_infer *io, method own)
{
    const attrs *a = io->attrs;
    const int    axes = methods[own].axes;
    const bool   is_fed = io->in[OUT_SIZE].kind != TR_KIND_NONE || io->ins[SIZE_TENSOR].count > 0 || io->in[SCALE].kind != TR_KIND_NONE;
    tr_shape     out = io->in[X].shape;

    TR_TRY(check_inputs(io, axes));
    for (int i = 0; i < axes; i++) {
        const int64_t in = out.dim[i + 2];
        const float   scale = scale_of(a, i);
        if (in == 0)
            return tr_fail(TR_ESHAPE, "%s: nothing to take elements from: X is %s", io->type, TR_SHAPE_STR(io->in[X].shape));
        const bool is_known = !is_fed && !(scale > 0 && in < 0);
        out.dim[i + 2] = !is_known ? -1 : scale > 0 ? scaled(in, scale) : wanted(a, axes, i);
        if (is_known && out.dim[i + 2] < 1)
            return tr_fail(TR_ERANGE, "%s: X is %s with out_d %d, out_h %d, out_w %d and scale %g, so dimension %d of Out would be %lld; give "
                           "extents above 0, a scale, or OutSize", io->type, TR_SHAPE_STR(io->in[X].shape), a->out_d, a->out_h,
                           a->out_w, (double)scale, i + 2, (long long)out.dim[i + 2]);
    }
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    return TR_OK;
}

/* -- sizes ---------------------------------------------------------------------------------------- */

/* The inputs' numbers of the axes, each read once. */
typedef struct fed {
    float   scale[3];                 /* 0: none */
    int64_t size[3];                  /* 0: none */
} fed;

static fed fed_of(const tr_run *io, int axes)
{
    const attrs     *a = io->attrs;
    const tr_args   *sizes = &io->ins[SIZE_TENSOR];
    const tr_tensor *size = io->in[OUT_SIZE], *scale = io->in[SCALE];
    fed              f = {.scale = {0}};

    for (int i = 0; i < axes; i++) {
        if (sizes->count > 0)
            f.size[i] = *(const int32_t *)sizes->item[i]->data;
        else if (size)
            f.size[i] = ((const int32_t *)size->data)[i];
        else if (scale)
            f.scale[i] = ((const float *)scale->data)[scale->shape.dim[0] == 1 ? 0 : i];
        else
            f.scale[i] = a->scales.count ? a->scales.item[i] : 0;
    }
    return f;
}

static tr_status resize_output(const tr_run *io, const char *type, int axes, const fed *f)
{
    const bool   has_list = io->ins[SIZE_TENSOR].count > 0, has_size = has_list || io->in[OUT_SIZE];
    const int    slot = has_list ? SIZE_TENSOR : has_size ? OUT_SIZE : SCALE;
    const char  *names[] = {[OUT_SIZE] = "OutSize", [SIZE_TENSOR] = "SizeTensor", [SCALE] = "Scale"};
    tr_shape     out = io->in[X]->shape;

    if (!has_size && !io->in[SCALE])
        return TR_OK;
    for (int i = 0; i < axes; i++) {
        const int64_t in = out.dim[i + 2];
        out.dim[i + 2] = has_size ? f->size[i] : f->scale[i] > 0 ? scaled(in, f->scale[i]) : 0;
        if (out.dim[i + 2] < 1)
            return tr_fail(TR_ERANGE, "%s: %s '%s' is %g for dimension %d, where X has %lld; Out must have at least 1", type, names[slot],
                           tr_run_in_name(io, slot, has_list ? i : 0), has_size ? (double)f->size[i] : (double)f->scale[i], i + 2, (long long)in);
    }
    return tr_run_resize(io, OUT, 0, io->in[X]->dtype, &out);
}

/* Only the later versions let a scale say where elements come from. */
static tr_interp job_of(const attrs *a, method own, bool is_later, const fed *f, const tr_shape *x, const tr_shape *out)
{
    const int axes = methods[own].axes;
    tr_interp s = {.method = methods[own].how, .align_corners = a->align_corners, .align_mode = a->align_mode,
                   .planes = x->dim[0] * x->dim[1], .in = {1, 1, 1}, .out = {1, 1, 1}};

    for (int i = 0; i < axes; i++) {
        s.in[3 - axes + i] = x->dim[i + 2];
        s.out[3 - axes + i] = out->dim[i + 2];
        s.scale[3 - axes + i] = is_later && scaled(x->dim[i + 2], f->scale[i]) == out->dim[i + 2] ? (double)f->scale[i] : 0;
    }
    return s;
}

/* -- kernels: the end of this file, once for each type --------------------------------------------- */
#include "kernels/math/tools/each_float.h"

#define T uint8_t
#define NAME(x) x##_u8
#define FORWARD_ALONE
#include "kernels/images/interp.c"
#undef FORWARD_ALONE
#undef NAME
#undef T

/* -- gradient and registration ------------------------------------------------------------------- */
#define INTERP(name, own, is_later, attrs_, what, about)                                                                         \
    static tr_status name##_check(const void *a) { return check(a, #name, own); }                                        \
    static tr_status name##_infer(const tr_infer *io) { return infer(io, own); }                                         \
    static tr_status name##_f32(const tr_run *io) { return interp_f32(io, #name, own, is_later); }                                 \
    static tr_status name##_f64(const tr_run *io) { return interp_f64(io, #name, own, is_later); }                                 \
    static tr_status name##_u8(const tr_run *io) { return interp_u8(io, #name, own, is_later); }                                   \
    static tr_status name##_grad_f32(const tr_run *io) { return interp_grad_f32(io, own, is_later); }                              \
    static tr_status name##_grad_f64(const tr_run *io) { return interp_grad_f64(io, own, is_later); }                              \
    static const tr_op_proto name##_proto = {                                                                            \
        .doc = about, .in = IN_SLOTS(what), .out = TR_SLOTS({"Out", "like X, with other extents"}), .attr = attrs_,      \
        .attrs_size = sizeof(attrs),                                                                                     \
    };                                                                                                                   \
    static const tr_grad_rule name##_rule = {                                                                            \
        .op = #name "_grad", .reads = {TR_IN_SHAPE(X), TR_IN(OUT_SIZE), TR_IN(SIZE_TENSOR), TR_IN(SCALE), TR_DOUT(OUT)}, \
        .makes = {TR_DIN(X)}, .second = tr__second_linear,                                                               \
    };                                                                                                                   \
    TR_REGISTER_OP(name, .proto = &name##_proto, .check = name##_check, .infer = name##_infer, .grad = &name##_rule,     \
                   .kernels = {{TR_FLOAT_TABLE(name), [TR_UINT8] = name##_u8}});                                         \
    TR_REGISTER_OP(name##_grad, .grad_of = &tr_op_record_##name, .kernels = TR_FLOAT_KERNELS(name##_grad))

#define BOTH(name, own, default_method, is_wanted, what, about)                                                          \
    INTERP(name, own, false, INTERP_ATTRS(is_wanted), what, about);                                             \
    INTERP(name##_v2, own, true, INTERP_V2_ATTRS(default_method), what, about)

#define IMAGES "[batch, channels, height, width]"

BOTH(linear_interp, LINEAR, "linear", false, "[batch, channels, width]", "Lines in another length: each element is mixed of the two nearest ones of X.");
BOTH(bilinear_interp, BILINEAR, "bilinear", true, IMAGES, "Images in another size: each element is mixed of the four nearest ones of X.");
BOTH(nearest_interp, NEAREST, "nearest", true, IMAGES, "Images in another size: each element is the nearest one of X.");
BOTH(bicubic_interp, BICUBIC, "bicubic", false, IMAGES, "Images in another size: each element is mixed of the sixteen nearest ones of X. (Keys, 1981)");
BOTH(trilinear_interp, TRILINEAR, "trilinear", false, "[batch, channels, depth, height, width]",
     "Volumes in another size: each element is mixed of the eight nearest ones of X.");

#else /* the kernels, for each T */

static tr_status NAME(interp)(const tr_run *io, const char *type, method own, bool is_later)
{
    const tr_tensor *x = io->in[X];
    const fed        f = fed_of(io, methods[own].axes);

    TR_TRY(resize_output(io, type, methods[own].axes, &f));
    const tr_interp s = job_of(io->attrs, own, is_later, &f, &x->shape, &io->out[OUT]->shape);
    NAME(tr_interp)(io->out[OUT]->data, x->data, &s);
    return TR_OK;
}

#ifndef FORWARD_ALONE
static tr_status NAME(interp_grad)(const tr_run *io, method own, bool is_later)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_tensor       *dx = io->out[G_DX];
    const fed        f = fed_of(io, methods[own].axes);
    const tr_interp  s = job_of(io->attrs, own, is_later, &f, &dx->shape, &dout->shape);

    NAME(tr_interp_grad)(dx->data, dout->data, &s);
    return TR_OK;
}
#endif

#endif
