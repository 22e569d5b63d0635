/* fused_sequences.c - fused operators of saved programs on sequences: fused_embedding_seq_pool, fusion_seqpool_concat,
 * fusion_seqexpand_concat_fc, fusion_seqconv_eltadd_relu. Each is made of the operators that Fluid had fused. */
#include "framework/base/size.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/check.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/activation.h"
#include "kernels/sequences/sequence.h"

/* -- fused_embedding_seq_pool -------------------------------------------------------------------------- */
enum { W, IDS };
enum { OUT };
enum { G_W, G_IDS, G_OUT, G_DOUT };
enum { G_DW };

typedef struct embedding_attrs {
    bool is_sparse;
    enum { SUM } combiner;
} embedding_attrs;

static const tr_op_proto embedding_proto = {
    .doc = "The sums of the rows that sequences of ids look up in a table.",
    .in = TR_SLOTS(TR_SLOT("W", "[height, width]", " float; the table"),
                   TR_SLOT("Ids", "[rows, k, ...]", " int64, of sequences, k row numbers in each row", TR_SLOT_INT64)),
    .out = TR_SLOTS({"Out", "[sequences, k width]"}),
    TR_ATTRS_OF(embedding_attrs, TR_ATTR(embedding_attrs, combiner, STRING, "what a sequence becomes", .text = "sum", .range = TR_ONE_OF({"sum", SUM})),
                                 TR_ATTR_IGNORED("grad_inplace", BOOL),
                                 TR_ATTR(embedding_attrs, is_sparse, BOOL, "the gradient of W is selected rows"),
                                 TR_ATTR_IGNORED("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", BOOL, .number = 1)),
};

static tr_status infer_embedding(const tr_infer *io)
{
    const tr_meta *w = &io->in[W], *ids = &io->in[IDS];

    const int64_t k = tr_shape_product(&ids->shape, 1, ids->shape.rank), width = w->shape.dim[1] < 0 || k < 0 ? -1 : tr_size_mul(w->shape.dim[1], k);
    io->out[OUT] = tr__meta_with_sequences(w->dtype, TR_SHAPE(-1, width), ids->lod_level > 0 ? ids->lod_level - 1 : 0);
    return TR_OK;
}

static tr_status expand_embedding(tr_composite *c)
{
    const embedding_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "flatten2(X=Ids) {axis=1} -> flat"));
    TR_TRY(tr_composite_add(c, "unsqueeze2(X=flat) {axes=[2]} -> ids"));
    TR_TRY(tr_composite_add(c, "lookup_table(W=W, Ids=ids) {is_sparse=%s} -> rows", a->is_sparse ? "true" : "false"));
    TR_TRY(tr_composite_add(c, "sequence_pool(X=rows) {pooltype=SUM} -> Out=sums, MaxIndex=places"));
    return tr_composite_add(c, "flatten2(X=sums) {axis=1} -> Out");
}

static tr_status infer_embedding_grad(const tr_infer *io)
{
    const bool is_sparse = ((const embedding_attrs *)io->attrs)->is_sparse;

    io->out[G_DW] = tr__rows_grad_meta(&io->in[G_W], is_sparse, tr_shape_numel(&io->in[G_IDS].shape));
    return TR_OK;
}

static const tr_grad_rule embedding_rule = {
    .op = "fused_embedding_seq_pool_grad", .reads = {TR_IN(W), TR_IN(IDS), TR_OUT(OUT), TR_DOUT(OUT)}, .makes = {TR_DIN(W)},
    .second = tr__second_body,
};
TR_REGISTER_OP(fused_embedding_seq_pool, .proto = &embedding_proto, .infer = infer_embedding, .expand = expand_embedding,
               .types = TR_FLOAT_TYPES, .grad = &embedding_rule);
TR_REGISTER_OP(fused_embedding_seq_pool_grad, .grad_of = &tr_op_record_fused_embedding_seq_pool, .infer = infer_embedding_grad);

/* -- fusion_seqpool_concat --------------------------------------------------------------------------------- */
enum { X };

typedef struct pool_attrs {
    enum { POOL_SUM, POOL_AVERAGE, POOL_SQRT } pooltype;
} pool_attrs;

static const tr_op_proto pool_proto = {
    .doc = "Pools each of several tensors of sequences and lays the results side by side.",
    .in = TR_SLOTS({"X", "[rows, width] float, of sequences; as many sequences each", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "[sequences, sum of the widths]"}),
    TR_ATTRS_OF(pool_attrs, TR_ATTR(pool_attrs, pooltype, STRING, "what a sequence becomes", .text = "SUM",
                                    .range = TR_ONE_OF({"SUM", POOL_SUM}, {"AVERAGE", POOL_AVERAGE}, {"SQRT", POOL_SQRT})),
                            TR_ATTR_ONLY("axis", INT, "use sequence_pool and concat", .number = 1)),
};

/* The sum of the widths of X[first], ...; -1: one is not known. */
static tr_status sum_widths(int64_t *out, const tr_infer *io, int first)
{
    const tr_meta_list *x = &io->ins[X];

    *out = 0;
    TR_TRY(tr__check_dense_list(io, "X", x));
    for (int i = first; i < x->count; i++) {
        TR_TRY(tr__check_rank(io, "X", &x->item[i], 2));
        *out = *out < 0 || x->item[i].shape.dim[1] < 0 ? -1 : tr_size_add(*out, x->item[i].shape.dim[1]);
    }
    return TR_OK;
}

static tr_status infer_pool(const tr_infer *io)
{
    int64_t width;

    if (io->ins[X].count == 0)
        return tr_fail(TR_ERANGE, "%s: X must be one tensor at least", io->type);
    TR_TRY(sum_widths(&width, io, 0));
    const int levels = io->ins[X].item[0].lod_level;
    io->out[OUT] = tr__meta_with_sequences(io->ins[X].item[0].dtype, TR_SHAPE(-1, width), levels > 0 ? levels - 1 : 0);
    return TR_OK;
}

static tr_status expand_pool(tr_composite *c)
{
    static const char *const names[] = {"SUM", "AVERAGE", "SQRT"};
    const pool_attrs        *a = tr_composite_attrs(c);
    const int                count = tr_composite_count(c, "X");

    for (int i = 0; i < count; i++)
        TR_TRY(tr_composite_add(c, "sequence_pool(X=X.%d) {pooltype=%s} -> pooled%d", i, names[a->pooltype], i));
    return tr_composite_add(c, "concat(X=[%s]) {axis=1} -> Out", tr_composite_names(c, "pooled", count));
}

TR_REGISTER_OP(fusion_seqpool_concat, .proto = &pool_proto, .infer = infer_pool, .expand = expand_pool, .types = TR_FLOAT_TYPES);

/* -- fusion_seqexpand_concat_fc -------------------------------------------------------------------------------- */
enum { E_X, E_WEIGHT, E_BIAS };
enum { E_OUT, E_FC_OUT };

typedef struct expand_attrs {
    tr_act fc_activation;
} expand_attrs;

static const tr_op_proto expand_proto = {
    .doc = "Repeats the rows of X[1], ... over the sequences of X[0], lays all side by side, and puts a fully connected layer behind.",
    .in = TR_SLOTS({"X", "X[0] [rows, width] float, of sequences; the others [sequences, width]", TR_SLOT_REPEATED},
                   {"FCWeight", "[sum of the widths, size]"}, {"FCBias", "[size] or [1, size]", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "[rows, size], with X[0]'s sequences"}, {"FCOut", "is not filled", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(expand_attrs, TR_ATTR(expand_attrs, fc_activation, STRING, "of the layer", .text = "identity",
                                      .range = TR_ONE_OF({"identity", TR_ACT_identity}, {"relu", TR_ACT_relu}, {"sigmoid", TR_ACT_sigmoid}, {"tanh", TR_ACT_tanh}))),
};

static tr_status infer_expand(const tr_infer *io)
{
    const tr_meta *weight = &io->in[E_WEIGHT], *bias = &io->in[E_BIAS];
    int64_t        width;

    if (io->ins[E_X].count < 2)
        return tr_fail(TR_ERANGE, "%s: X must be two tensors or more, got %d", io->type, io->ins[E_X].count);
    TR_TRY(sum_widths(&width, io, 0));
    TR_TRY(tr__check_rank(io, "FCWeight", weight, 2));
    TR_TRY(tr__check_shape(io, "FCWeight", weight, &TR_SHAPE(width, -1)));
    const int64_t size = weight->shape.dim[1];
    if (bias->kind != TR_KIND_NONE && !tr_shape_fits(&bias->shape, &TR_SHAPE(size)))
        TR_TRY(tr__check_shape(io, "FCBias", bias, &TR_SHAPE(1, size)));
    io->out[E_OUT] = io->ins[E_X].item[0];
    io->out[E_OUT].shape.dim[1] = size;
    return TR_OK;
}

static tr_status expand_expand(tr_composite *c)
{
    const expand_attrs *a = tr_composite_attrs(c);
    const int           count = tr_composite_count(c, "X");

    for (int i = 1; i < count; i++)
        TR_TRY(tr_composite_add(c, "sequence_expand_as(X=X.%d, Y=X.0) -> repeated%d", i, i - 1));
    TR_TRY(tr_composite_add(c, "concat(X=[X.0, %s]) {axis=1} -> joined", tr_composite_names(c, "repeated", count - 1)));
    return tr_composite_add(c, "fc(Input=joined, W=FCWeight, Bias=FCBias) {activation_type=%s} -> Out",
                            a->fc_activation == TR_ACT_identity ? "" : tr_act_name(a->fc_activation));
}

TR_REGISTER_OP(fusion_seqexpand_concat_fc, .proto = &expand_proto, .infer = infer_expand, .expand = expand_expand, .types = TR_FLOAT_TYPES);

/* -- fusion_seqconv_eltadd_relu ----------------------------------------------------------------------------------- */
enum { C_X, C_FILTER, C_BIAS };
enum { C_OUT, C_COLUMNS };

typedef struct conv_attrs {
    int32_t contextLength, contextStart;
} conv_attrs;

static const tr_op_proto conv_proto = {
    .doc = "Out = relu(sequence_conv(X, Filter) + Bias).",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width]", " float, of sequences"),
                   TR_SLOT("Filter", "[window, size]", ", window being contextLength width"), TR_SLOT("Bias", "[size] or [1, size]", "")),
    .out = TR_SLOTS({"Out", "[rows, size], with X's sequences"}, {"ColMat", "is not filled", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(conv_attrs, TR_ATTR(conv_attrs, contextLength, INT, "rows of a window", .required = true, .range = TR_GREATER(0)),
                            TR_ATTR(conv_attrs, contextStart, INT, "where the window begins, from its row; negative is before it"),
                            TR_ATTR_ONLY("contextStride", INT, "windows begin at every row", .number = 1)),
};

static tr_status infer_conv(const tr_infer *io)
{
    const conv_attrs *a = io->attrs;
    const tr_meta    *x = &io->in[C_X], *filter = &io->in[C_FILTER];

    const int64_t depth = x->shape.dim[1] < 0 ? -1 : tr_size_mul(x->shape.dim[1], a->contextLength), size = filter->shape.dim[1];
    TR_TRY(tr__check_shape(io, "Filter", filter, &TR_SHAPE(depth, -1)));
    io->out[C_OUT] = *x;
    io->out[C_OUT].shape.dim[1] = size;
    return TR_OK;
}

static tr_status expand_conv(tr_composite *c)
{
    const conv_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "sequence_conv(X=X, Filter=Filter) {contextLength=%d, contextStart=%d} -> convolved", a->contextLength,
                            a->contextStart));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=convolved, Y=Bias) -> sum"));
    return tr_composite_add(c, "relu(X=sum) -> Out");
}

TR_REGISTER_OP(fusion_seqconv_eltadd_relu, .proto = &conv_proto, .infer = infer_conv, .expand = expand_conv, .types = TR_FLOAT_TYPES);
