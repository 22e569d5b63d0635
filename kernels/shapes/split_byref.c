/* split_byref.c - a tensor cut into pieces of whole rows, as Fluid's transpiler cuts parameters: split along dimension 0. */
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    tr_ints sections;
    int32_t num;
} attrs;

static const tr_op_proto proto = {
    .doc = "Cuts X along its first dimension.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " float")),
    .out = TR_SLOTS({"Out", "the pieces", TR_SLOT_REPEATED}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, sections, INTS, "how many rows each piece has; none given: all as many"),
                       TR_ATTR(attrs, num, INT, "how many pieces, where there are no sections; 0: as many as outputs", .range = TR_AT_LEAST(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const int      count = io->outs[OUT].count;
    const tr_shape x = io->in[X].shape;
    int64_t        sum = 0;

    if (a->sections.count > 0 ? a->sections.count != count : (a->num > 0 && a->num != count))
        return tr_fail(TR_ERANGE, "%s: there are %d outputs, but %d pieces", io->type, count, a->sections.count > 0 ? a->sections.count : a->num);
    if (a->sections.count == 0 && x.dim[0] >= 0 && x.dim[0] % count != 0)
        return tr_fail(TR_ESHAPE, "%s: X %s cannot be cut into %d pieces of as many rows", io->type, TR_SHAPE_STR(x), count);
    for (int i = 0; i < count; i++) {
        tr_shape piece = x;
        piece.dim[0] = a->sections.count > 0 ? a->sections.item[i] : x.dim[0] < 0 ? -1 : x.dim[0] / count;
        sum += piece.dim[0];
        if (a->sections.count > 0 && piece.dim[0] < 0)
            return tr_fail(TR_ERANGE, "%s: sections[%d] is %d", io->type, i, a->sections.item[i]);
        io->outs[OUT].item[i] = tr_meta_dense(io->in[X].dtype, piece);
    }
    if (a->sections.count > 0 && x.dim[0] >= 0 && sum != x.dim[0])
        return tr_fail(TR_ESHAPE, "%s: the sections add up to %lld rows, but X is %s", io->type, (long long)sum, TR_SHAPE_STR(x));
    return TR_OK;
}

/* -- parts -------------------------------------------------------------------------------------- */
static tr_status expand(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    if (a->sections.count > 0)
        return tr_composite_add(c, "split(X=X) {axis=0, sections=[%s]} -> Out", tr_composite_ints(c, &a->sections));
    return tr_composite_add(c, "split(X=X) {axis=0, num=%d} -> Out", tr_composite_count(c, "Out"));
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "split_byref_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body,
};
TR_REGISTER_OP(split_byref, .proto = &proto, .infer = infer, .expand = expand, .types = TR_FLOAT_TYPES, .grad = &grad);
TR_REGISTER_OP(split_byref_grad, .grad_of = &tr_op_record_split_byref);
