/* fused_recurrent.c - fused recurrent operators of saved programs: fusion_lstm, fusion_gru, fused_embedding_fc_lstm.
 *
 * Each is a product or a look-up, and lstm or gru after it. Their outputs in batch order, which only Fluid's own kernels read, are
 * not filled. */
#include "framework/composites/composite.h"
#include "kernels/base/check.h"
#include "kernels/recurrent/batch_order.h"

/* -- fusion_lstm --------------------------------------------------------------------------------------- */
enum { X, WEIGHT_X, WEIGHT_H, BIAS, H0, C0 };
enum { HIDDEN, CELL, XX };

typedef struct lstm_attrs {
    bool   use_peepholes, is_reverse;
    tr_act gate_activation, cell_activation, candidate_activation;
} lstm_attrs;

#define STATE_SLOTS                                                                                                 \
    {"H0", "[sequences, width]: the hidden state before the first row", TR_SLOT_OPTIONAL},                          \
        {"C0", "like H0: the cell before the first row; with H0 or not at all", TR_SLOT_OPTIONAL}
#define NOT_FILLED(name) {name, "is not filled", TR_SLOT_INTERMEDIATE}
#define LSTM_ATTRS                                                                                                    \
    TR_ATTR(lstm_attrs, use_peepholes, BOOL, "gates see the cell, too", .number = 1),                                 \
        TR_ATTR(lstm_attrs, is_reverse, BOOL, "go through each sequence from its last row to its first"),             \
        TR_ATTR_IGNORED("use_seq", BOOL, .number = 1),                                                                \
        TR_ATTR(lstm_attrs, gate_activation, STRING, "of input, forget and output gate", .text = "sigmoid", .range = TR_GATE_ACTIVATIONS), \
        TR_ATTR(lstm_attrs, cell_activation, STRING, "of the cell on its way out", .text = "tanh", .range = TR_GATE_ACTIVATIONS), \
        TR_ATTR(lstm_attrs, candidate_activation, STRING, "of what may enter the cell", .text = "tanh", .range = TR_GATE_ACTIVATIONS)

static const tr_op_proto lstm_proto = {
    .doc = "lstm with its input's projection: lstm(X WeightX).",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, in width]", " float, of sequences"),
                   {"WeightX", "[in width, 4 width]: candidate, input, forget, output"},
                   {"WeightH", "[width, 4 width], in the order of WeightX"},
                   {"Bias", "[1, 4 width]; with use_peepholes [1, 7 width]: then what input, forget and output gate see of the cell"}, STATE_SLOTS),
    .out = TR_SLOTS({"Hidden", "[rows, width], with X's sequences"}, {"Cell", "like Hidden"}, {"XX", "[rows, 4 width]: X WeightX", TR_SLOT_INTERMEDIATE},
                    NOT_FILLED("BatchedInput"), NOT_FILLED("BatchedHidden"), NOT_FILLED("BatchedCell"), NOT_FILLED("ReorderedH0"),
                    NOT_FILLED("ReorderedC0"), NOT_FILLED("CheckedCell")),
    TR_ATTRS_OF(lstm_attrs, LSTM_ATTRS),
};

static int64_t times(int64_t n, int64_t width) { return width < 0 ? -1 : n * width; }

static tr_status check_matrix(const tr_infer *io, const char *name, int slot, tr_dtype dtype, int64_t rows, int64_t columns)
{
    if (io->in[slot].kind == TR_KIND_NONE)
        return TR_OK;
    TR_TRY(tr__check_rank(io, name, &io->in[slot], 2));
    TR_TRY(tr__check_dtype(io, name, &io->in[slot], dtype));
    return tr__check_shape(io, name, &io->in[slot], &TR_SHAPE(rows, columns));
}

/* Hidden and Cell for rows of `x`, whose type is `dtype`. */
static void put_states(const tr_infer *io, const tr_meta *x, tr_dtype dtype, int64_t width)
{
    io->out[HIDDEN] = *x;
    io->out[HIDDEN].dtype = dtype;
    io->out[HIDDEN].shape.dim[1] = width;
    io->out[CELL] = io->out[HIDDEN];
}

static tr_status infer_lstm(const tr_infer *io)
{
    const lstm_attrs *a = io->attrs;
    const tr_meta    *x = &io->in[X];
    const int64_t     width = io->in[WEIGHT_H].shape.rank > 0 ? io->in[WEIGHT_H].shape.dim[0] : -1;

    TR_TRY(check_matrix(io, "WeightX", WEIGHT_X, x->dtype, x->shape.dim[1], times(4, width)));
    TR_TRY(check_matrix(io, "WeightH", WEIGHT_H, x->dtype, width, times(4, width)));
    TR_TRY(check_matrix(io, "Bias", BIAS, x->dtype, 1, times(a->use_peepholes ? 7 : 4, width)));
    TR_TRY(check_matrix(io, "H0", H0, x->dtype, -1, width));
    TR_TRY(check_matrix(io, "C0", C0, x->dtype, -1, width));
    put_states(io, x, x->dtype, width);
    io->out[XX] = io->out[HIDDEN];
    io->out[XX].shape.dim[1] = times(4, width);
    return TR_OK;
}

static tr_status add_lstm(tr_composite *c, const lstm_attrs *a, const char *input, const char *bias)
{
    return tr_composite_add(c, "lstm(Input=%s, Weight=WeightH, Bias=%s, H0=H0, C0=C0) {use_peepholes=%s, is_reverse=%s, gate_activation=%s, "
                            "cell_activation=%s, candidate_activation=%s} -> Hidden=Hidden, Cell=Cell", input, bias,
                            a->use_peepholes ? "true" : "false", a->is_reverse ? "true" : "false", tr_act_name(a->gate_activation),
                            tr_act_name(a->cell_activation), tr_act_name(a->candidate_activation));
}

static tr_status expand_lstm(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "mul(X=X, Y=WeightX) -> XX"));
    return add_lstm(c, tr_composite_attrs(c), "XX", "Bias");
}

TR_REGISTER_OP(fusion_lstm, .proto = &lstm_proto, .infer = infer_lstm, .expand = expand_lstm, .types = TR_FLOAT_TYPES);

/* -- fused_embedding_fc_lstm ------------------------------------------------------------------------------ */
enum { E_IDS, E_TABLE, E_WEIGHT_H, E_BIAS, E_H0, E_C0 };

static const tr_op_proto embedding_proto = {
    .doc = "lstm whose projected input, biases included, is looked up in a table. Of Bias only the peepholes' part is read.",
    .in = TR_SLOTS(TR_SLOT("Ids", "[rows, 1]", " int64, of sequences; row numbers", TR_SLOT_INT64),
                   {"Embeddings", "[height, 4 width] float: embedding times weight, plus bias: candidate, input, forget, output"},
                   {"WeightH", "[width, 4 width], in the order of Embeddings"}, {"Bias", "[1, 4 width]; with use_peepholes [1, 7 width]"}, STATE_SLOTS),
    .out = TR_SLOTS({"Hidden", "[rows, width], with the sequences of Ids"}, {"Cell", "like Hidden"}, {"XX", "[rows, 4 width]: rows of Embeddings", TR_SLOT_INTERMEDIATE},
                    NOT_FILLED("BatchedInput"), NOT_FILLED("BatchedHidden"), NOT_FILLED("BatchedCell"), NOT_FILLED("ReorderedH0"),
                    NOT_FILLED("ReorderedC0")),
    TR_ATTRS_OF(lstm_attrs, LSTM_ATTRS),
};

static tr_status infer_embedding(const tr_infer *io)
{
    const lstm_attrs *a = io->attrs;
    const tr_dtype    dtype = io->in[E_TABLE].dtype;
    const int64_t     width = io->in[E_WEIGHT_H].shape.rank > 0 ? io->in[E_WEIGHT_H].shape.dim[0] : -1;

    TR_TRY(check_matrix(io, "Embeddings", E_TABLE, dtype, -1, times(4, width)));
    TR_TRY(check_matrix(io, "WeightH", E_WEIGHT_H, dtype, width, times(4, width)));
    TR_TRY(check_matrix(io, "Bias", E_BIAS, dtype, 1, times(a->use_peepholes ? 7 : 4, width)));
    TR_TRY(check_matrix(io, "H0", E_H0, dtype, -1, width));
    TR_TRY(check_matrix(io, "C0", E_C0, dtype, -1, width));
    put_states(io, &io->in[E_IDS], dtype, width);
    io->out[XX] = io->out[HIDDEN];
    io->out[XX].shape.dim[1] = times(4, width);
    return TR_OK;
}

/* Bias with zeros where the gates' own biases are: these are in the table already. */
static tr_status add_peepholes(tr_composite *c, bool use_peepholes)
{
    if (!use_peepholes)
        return tr_composite_add(c, "fill_zeros_like(X=Bias) -> bias");
    TR_TRY(tr_composite_add(c, "split(X=Bias) {num=7, axis=1} -> Out=[b0, b1, b2, b3, b4, b5, b6]"));
    TR_TRY(tr_composite_add(c, "fill_zeros_like(X=b0) -> zeros"));
    return tr_composite_add(c, "concat(X=[zeros, zeros, zeros, zeros, b4, b5, b6]) {axis=1} -> bias");
}

static tr_status expand_embedding(tr_composite *c)
{
    const lstm_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "lookup_table(W=Embeddings, Ids=Ids) -> XX"));
    TR_TRY(add_peepholes(c, a->use_peepholes));
    return add_lstm(c, a, "XX", "bias");
}

TR_REGISTER_OP(fused_embedding_fc_lstm, .proto = &embedding_proto, .infer = infer_embedding, .expand = expand_embedding,
               .types = TR_FLOAT_TYPES, .key = TR_KEY_IN_SLOT, .key_slot = E_TABLE);

/* -- fusion_gru ----------------------------------------------------------------------------------------------- */
enum { G_X, G_H0, G_WEIGHT_X, G_WEIGHT_H, G_BIAS };
enum { G_REORDERED, G_XX, G_INPUT, G_OUT, G_HIDDEN };

typedef struct gru_attrs {
    bool   is_reverse;
    tr_act activation, gate_activation;
} gru_attrs;

static const tr_op_proto gru_proto = {
    .doc = "gru with its input's projection: gru(X WeightX).",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, in width]", " float, of sequences"),
                   {"H0", "[sequences, width]: the state before the first row", TR_SLOT_OPTIONAL},
                   {"WeightX", "[in width, 3 width]: update, reset, candidate"}, {"WeightH", "[width, 3 width], as gru has it"},
                   {"Bias", "[1, 3 width]", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS(NOT_FILLED("ReorderedH0"), {"XX", "[rows, 3 width]: X WeightX", TR_SLOT_INTERMEDIATE}, NOT_FILLED("BatchedInput"),
                    NOT_FILLED("BatchedOut"), {"Hidden", "[rows, width], with X's sequences"}),
    TR_ATTRS_OF(gru_attrs, TR_ATTR(gru_attrs, activation, STRING, "of the candidate", .text = "tanh", .range = TR_GATE_ACTIVATIONS),
                           TR_ATTR(gru_attrs, gate_activation, STRING, "of update and reset gate", .text = "sigmoid", .range = TR_GATE_ACTIVATIONS),
                           TR_ATTR(gru_attrs, is_reverse, BOOL, "go through each sequence from its last row to its first"),
                           TR_ATTR_IGNORED("use_seq", BOOL, .number = 1)),
};

static tr_status infer_gru(const tr_infer *io)
{
    const tr_meta *x = &io->in[G_X];
    const int64_t  width = io->in[G_WEIGHT_H].shape.rank > 0 ? io->in[G_WEIGHT_H].shape.dim[0] : -1;

    TR_TRY(check_matrix(io, "WeightX", G_WEIGHT_X, x->dtype, x->shape.dim[1], times(3, width)));
    TR_TRY(check_matrix(io, "WeightH", G_WEIGHT_H, x->dtype, width, times(3, width)));
    TR_TRY(check_matrix(io, "Bias", G_BIAS, x->dtype, 1, times(3, width)));
    TR_TRY(check_matrix(io, "H0", G_H0, x->dtype, -1, width));
    io->out[G_HIDDEN] = io->out[G_XX] = *x;
    io->out[G_HIDDEN].shape.dim[1] = width;
    io->out[G_XX].shape.dim[1] = times(3, width);
    return TR_OK;
}

static tr_status expand_gru(tr_composite *c)
{
    const gru_attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "mul(X=X, Y=WeightX) -> XX"));
    return tr_composite_add(c, "gru(Input=XX, H0=H0, Weight=WeightH, Bias=Bias) {activation=%s, gate_activation=%s, is_reverse=%s} -> Hidden=Hidden",
                            tr_act_name(a->activation), tr_act_name(a->gate_activation), a->is_reverse ? "true" : "false");
}

TR_REGISTER_OP(fusion_gru, .proto = &gru_proto, .infer = infer_gru, .expand = expand_gru, .types = TR_FLOAT_TYPES);
