/* where.c - where a tensor is true:  row i of Out holds the indices of the i-th element of Condition that is true (where, where_index). Of three inputs,
 * as in later versions of Fluid, `where` chooses:  Out = X where Condition is true, and Y elsewhere.
 *
 * How many indices there are is known to the kernel alone. Indices have no gradient; those of X and Y are dOut where it was theirs, and 0. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { CONDITION, X, Y };
enum { OUT };
enum { G_CONDITION, G_X, G_Y, G_DOUT };
enum { G_DX, G_DY };

static const tr_op_proto index_proto = {
    .doc = "Row i of Out holds the indices of the i-th element of Condition that is true, in the order of the elements.",
    .in = TR_SLOTS(TR_SLOT("Condition", "[n, ...]", " bool", TR_SLOT_BOOL)),
    .out = TR_SLOTS({"Out", "[number of true elements, rank of Condition] int64"}),
};
static const tr_op_proto proto = {
    .doc = "With X and Y, Out is X where Condition is true, and Y elsewhere. Without them, row i of Out holds the indices of the i-th element of "
           "Condition that is true, in the order of the elements.",
    .in = TR_SLOTS(TR_SLOT("Condition", "[n, ...]", " bool", TR_SLOT_BOOL),
                   {"X", "like Condition, of any type", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}, {"Y", "like X", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "like X; or [number of true elements, rank of Condition] int64", TR_SLOT_ANY_TYPE}),
};

static tr_status infer_index(const tr_infer *io)
{
    io->out[OUT] = tr_meta_dense(TR_INT64, TR_SHAPE(-1, io->in[CONDITION].shape.rank));
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_meta *x = &io->in[X], *y = &io->in[Y];

    TR_TRY(infer_index(io));
    if (x->kind == TR_KIND_NONE && y->kind == TR_KIND_NONE)
        return TR_OK;
    if (x->kind == TR_KIND_NONE || y->kind == TR_KIND_NONE)
        return tr_fail(TR_EINVAL, "%s: X and Y belong together; %s is missing", io->type, x->kind == TR_KIND_NONE ? "X" : "Y");
    TR_TRY(tr__check_like(io, "Y", y, x));
    TR_TRY(tr__check_shape(io, "Condition", &io->in[CONDITION], &x->shape));
    io->out[OUT] = *x;
    return TR_OK;
}

/* -- kernels ---------------------------------------------------------------------------------- */

/* The next index in the order of the elements. */
static void advance(int64_t *index, const tr_shape *shape)
{
    for (int d = shape->rank - 1; d >= 0 && ++index[d] == shape->dim[d]; d--)
        index[d] = 0;
}

/* Another thread may change what is fed meanwhile: no more rows are written than there is room for. */
static tr_status run_index(const tr_run *io)
{
    const tr_tensor *condition = io->in[CONDITION];
    const tr_shape  *shape = &condition->shape;
    const uint8_t   *is_true = condition->data;
    const int64_t    size = tr_tensor_count(condition);
    int64_t          count = 0, index[TR_MAX_RANK] = {0};

    for (int64_t i = 0; i < size; i++)
        count += is_true[i] != 0;
    TR_TRY(tr_run_resize(io, OUT, 0, TR_INT64, &TR_SHAPE(count, shape->rank)));
    int64_t *row = io->out[OUT]->data, *end = row + count * shape->rank;
    for (int64_t i = 0; i < size && row < end; i++, advance(index, shape))
        if (is_true[i]) {
            memcpy(row, index, (size_t)shape->rank * sizeof *row);
            row += shape->rank;
        }
    memset(row, 0, (size_t)((char *)end - (char *)row));
    return TR_OK;
}

/* Elements of `yes` where it is true and of `no` elsewhere; NULL is zeros. */
static void choose(tr_tensor *out, const tr_tensor *condition, const tr_tensor *yes, const tr_tensor *no)
{
    static const char zero[16];
    const uint8_t    *is_true = condition->data;
    const size_t      size = tr_dtype_size(out->dtype);
    const char       *from[] = {no ? no->data : zero, yes ? yes->data : zero};
    const size_t      step[] = {no ? size : 0, yes ? size : 0};
    char             *to = out->data;

    for (int64_t i = 0; i < tr_tensor_count(out); i++, to += size) {
        const int side = is_true[i] != 0;
        if (size == sizeof(float))
            memcpy(to, from[side] + (size_t)i * step[side], sizeof(float));
        else
            memcpy(to, from[side] + (size_t)i * step[side], size);
    }
}

static tr_status run(const tr_run *io)
{
    if (!io->in[X])
        return run_index(io);
    choose(io->out[OUT], io->in[CONDITION], io->in[X], io->in[Y]);
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    if (io->out[G_DX])
        choose(io->out[G_DX], io->in[G_CONDITION], io->in[G_DOUT], NULL);
    if (io->out[G_DY])
        choose(io->out[G_DY], io->in[G_CONDITION], NULL, io->in[G_DOUT]);
    return TR_OK;
}

/* -- gradient and registration: of later versions of Fluid the second name ------------------------------ */
static const tr_grad_rule rule = {
    .op = "where_grad", .reads = {TR_IN(CONDITION), TR_IN_SHAPE(X), TR_IN_SHAPE(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(where, .proto = &proto, .infer = infer, .run = run, .grad = &rule);
TR_REGISTER_OP(where_grad, .grad_of = &tr_op_record_where, .run = run_grad);
TR_REGISTER_OP(where_index, .proto = &index_proto, .infer = infer_index, .run = run_index);
