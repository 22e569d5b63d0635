/* concat.c - concat and split: tensors joined along an axis, and one tensor cut into several.
 *
 * Each is the other's gradient. Along the axis a whole is [pre][n][post], and part i takes the places
 * offset .. offset + extent - 1 of n. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/transpose.h"

/* -- interface: concat ---------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct concat_attrs {
    int32_t axis;
} concat_attrs;

static const tr_op_proto concat_proto = {
    .doc = "Joins tensors along `axis`.",
    .in = TR_SLOTS({"X", "tensors of any type that differ at most along the axis", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "along the axis as long as all X together"}),
    TR_ATTRS_OF(concat_attrs, TR_ATTR_IGNORED("use_mkldnn", BOOL),
                              TR_ATTR(concat_attrs, axis, INT, "where to join; negative counts from the end")),
};

/* -- interface: split ----------------------------------------------------------------------------- */
typedef struct split_attrs {
    tr_ints sections;
    int32_t num, axis;
} split_attrs;

static const tr_op_proto split_proto = {
    .doc = "Cuts X along `axis` into parts of the extents `sections`, or into `num` equal ones.",
    .in = TR_SLOTS({"X", "[...] of any type"}),
    .out = TR_SLOTS({"Out", "the parts, in order", TR_SLOT_REPEATED}),
    TR_ATTRS_OF(split_attrs, TR_ATTR(split_attrs, sections, INTS, "extent of each part; none given: see num"),
                             TR_ATTR(split_attrs, num, INT, "how many equal parts", .range = TR_AT_LEAST(0)),
                             TR_ATTR(split_attrs, axis, INT, "where to cut; negative counts from the end")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
/* Add X[i] to the joined shape. */
static tr_status join_shape(tr_shape *out, const tr_infer *io, int axis, int i)
{
    const tr_shape x = io->ins[X].item[i].shape;
    tr_shape       alike = x;

    TR_TRY(tr__check_dtype(io, "X", &io->ins[X].item[i], io->in[X].dtype));
    if (axis < x.rank)
        alike.dim[axis] = -1;
    if (!tr_shape_fits(out, &alike))
        return tr_fail(TR_ESHAPE, "%s: X[%d] is %s and X[0] %s; they may differ along dimension %d alone", io->type, i,
                       TR_SHAPE_STR(x), TR_SHAPE_STR(io->in[X].shape), axis);
    for (int d = 0; d < x.rank; d++)
        if (d == axis)
            out->dim[d] = out->dim[d] < 0 || x.dim[d] < 0 ? -1 : out->dim[d] + x.dim[d];
        else if (out->dim[d] < 0)
            out->dim[d] = x.dim[d];
    return TR_OK;
}

static tr_status infer_concat(const tr_infer *io)
{
    const concat_attrs *a = io->attrs;
    tr_shape            out = io->in[X].shape;
    int                 axis;

    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, out.rank));
    for (int i = 1; i < io->ins[X].count; i++)
        TR_TRY(join_shape(&out, io, axis, i));
    if (axis == 0 && io->ins[X].count > 1)      /* the sequences of X[0] end where X[1] begins */
        io->out[OUT] = tr_meta_dense(io->in[X].dtype, out);
    else
        io->out[OUT] = io->in[X];
    io->out[OUT].shape = out;
    return TR_OK;
}

/* The extent of part i of n; the attributes have been checked. */
static int64_t split_extent(const split_attrs *a, int64_t n, int i)
{
    if (a->sections.count > 0)
        return a->sections.item[i];
    return n < 0 ? -1 : n / a->num;
}

static tr_status check_parts(const tr_infer *io, int64_t n)
{
    const split_attrs *a = io->attrs;
    const int          parts = a->sections.count > 0 ? a->sections.count : a->num;
    int64_t            sum = 0;

    if (parts != io->outs[OUT].count)
        return tr_fail(TR_EINVAL, "%s: %s names %d parts, but Out has %d variables", io->type,
                       a->sections.count > 0 ? "sections" : "num", parts, io->outs[OUT].count);
    if (n < 0)
        return TR_OK;
    if (a->sections.count == 0 && n % a->num != 0)
        return tr_fail(TR_ESHAPE, "%s: %lld (X is %s) cannot be cut into %d equal parts", io->type, (long long)n,
                       TR_SHAPE_STR(io->in[X].shape), a->num);
    for (int i = 0; i < parts; i++)
        sum += split_extent(a, n, i);
    if (sum != n)
        return tr_fail(TR_ESHAPE, "%s: the sections sum up to %lld, but X %s has %lld along the axis", io->type,
                       (long long)sum, TR_SHAPE_STR(io->in[X].shape), (long long)n);
    return TR_OK;
}

static tr_status infer_split(const tr_infer *io)
{
    const split_attrs *a = io->attrs;
    const tr_shape     x = io->in[X].shape;
    int                axis;

    TR_TRY(tr__check_axis(&axis, io, "axis", a->axis, x.rank));
    TR_TRY(check_parts(io, x.dim[axis]));
    for (int i = 0; i < io->outs[OUT].count; i++) {
        tr_meta *part = &io->outs[OUT].item[i];
        *part = axis == 0 ? tr_meta_dense(io->in[X].dtype, x) : io->in[X];
        part->shape.dim[axis] = split_extent(a, x.dim[axis], i);
    }
    return TR_OK;
}

static tr_status check_split(const void *attrs_)
{
    const split_attrs *a = attrs_;

    if (a->sections.count == 0 && a->num == 0)
        return tr_fail(TR_EINVAL, "split: either sections or num must be given");
    for (int i = 0; i < a->sections.count; i++)
        if (a->sections.item[i] < 0)
            return tr_fail(TR_ERANGE, "split: section %d is %d", i, a->sections.item[i]);
    return TR_OK;
}

/* -- kernels --------------------------------------------------------------------------------------- */

/* A whole seen in bytes: `pre` rows of `row` bytes, `post` bytes for one place along the axis. */
typedef struct whole {
    char   *data;
    int64_t pre, row, post, offset;       /* offset: of the next part */
} whole;

static whole whole_of(const tr_tensor *x, int axis)
{
    const tr_cut  c = tr__cut_at(&x->shape, axis);
    const int64_t size = tr_dtype_size(x->dtype);
    return (whole){.data = x->data, .pre = c.pre, .row = c.n * c.post * size, .post = c.post * size};
}

/* Copy the next part into the whole, or leave its place as it is for a part that is absent. */
static void put_part(whole *w, const tr_tensor *part, int64_t extent)
{
    const int64_t bytes = extent * w->post;
    if (part)
        tr_copy_blocks(w->data + w->offset, w->row, part->data, bytes, w->pre, bytes);
    w->offset += bytes;
}

static void get_part(whole *w, tr_tensor *part, int64_t extent)
{
    const int64_t bytes = extent * w->post;
    if (part)
        tr_copy_blocks(part->data, bytes, w->data + w->offset, w->row, w->pre, bytes);
    w->offset += bytes;
}

enum {
    BLOCK_BYTES = 1 << 18,            /* of the whole: its parts are written side by side while its pages are at hand */
    MIN_BYTES = 1 << 16               /* of a slice */
};

typedef struct concat_job {
    whole          w;
    const tr_args *parts;
    int            axis;
} concat_job;

/* Rows of the whole, some at a time, part by part. */
static void concat_rows(void *payload, int64_t begin, int64_t end)
{
    const concat_job *j = payload;
    const int64_t     some = 1 + BLOCK_BYTES / j->w.row;

    for (int64_t from = begin, to; from < end; from = to) {
        char *out = j->w.data;
        to = from + some < end ? from + some : end;
        for (int i = 0; i < j->parts->count; i++) {
            const tr_tensor *part = j->parts->item[i];
            const int64_t    bytes = tr__cut_at(&part->shape, j->axis).n * j->w.post;
            tr_copy_blocks(out + from * j->w.row, j->w.row, (const char *)part->data + from * bytes, bytes, to - from, bytes);
            out += bytes;
        }
    }
}

static tr_status run_concat(const tr_run *io)
{
    const concat_attrs *a = io->attrs;
    concat_job          j = {whole_of(io->out[OUT], a->axis), &io->ins[X], a->axis};

    if (j.w.pre > 1 && j.w.row > 0) {
        tr_parallel_range(j.w.pre, 1 + MIN_BYTES / j.w.row, concat_rows, &j);
        return TR_OK;
    }
    for (int i = 0; i < io->ins[X].count; i++)
        put_part(&j.w, io->ins[X].item[i], tr__cut_at(&io->ins[X].item[i]->shape, a->axis).n);
    return TR_OK;
}

static tr_status run_concat_grad(const tr_run *io)
{
    const concat_attrs *a = io->attrs;
    whole               w = whole_of(io->in[G_DOUT], a->axis);

    for (int i = 0; i < io->ins[G_X].count; i++)
        get_part(&w, io->outs[G_DX].item[i], tr__cut_at(&io->ins[G_X].item[i]->shape, a->axis).n);
    return TR_OK;
}

static tr_status run_split(const tr_run *io)
{
    const split_attrs *a = io->attrs;
    const int64_t      n = tr__cut_at(&io->in[X]->shape, a->axis).n;
    whole              w = whole_of(io->in[X], a->axis);

    for (int i = 0; i < io->outs[OUT].count; i++)
        get_part(&w, io->outs[OUT].item[i], split_extent(a, n, i));
    return TR_OK;
}

/* A part whose gradient is absent (nobody used it) counts as zeros. */
static tr_status run_split_grad(const tr_run *io)
{
    const split_attrs *a = io->attrs;
    const tr_args      dout = io->ins[G_DOUT];
    const int64_t      n = tr__cut_at(&io->out[G_DX]->shape, a->axis).n;
    whole              w = whole_of(io->out[G_DX], a->axis);
    bool               all = true;

    for (int i = 0; i < dout.count; i++)
        all = all && dout.item[i];
    if (!all)
        memset(w.data, 0, (size_t)(w.pre * w.row));
    for (int i = 0; i < dout.count; i++)
        put_part(&w, dout.item[i], split_extent(a, n, i));
    return TR_OK;
}

/* -- gradients and registration ------------------------------------------------------------------ */
static const tr_grad_rule concat_rule = {
    .op = "concat_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(concat, .proto = &concat_proto, .infer = infer_concat, .run = run_concat, .grad = &concat_rule);
TR_REGISTER_OP(concat_grad, .grad_of = &tr_op_record_concat, .run = run_concat_grad);

static const tr_grad_rule split_rule = {
    .op = "split_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(split, .proto = &split_proto, .check = check_split, .infer = infer_split, .run = run_split,
               .grad = &split_rule);
TR_REGISTER_OP(split_grad, .grad_of = &tr_op_record_split, .run = run_split_grad);
