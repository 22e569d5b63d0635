/* lstm.c - long short-term memory over sequences of any length, and lstmp: one with a projection of what is fed back.
 *
 * Sequences are gone through in batch order (kernels/math/sequences/recurrent.h), so that each time step is one product. Backward reads
 * the activated gates and the cells; cell_act(Cell) it makes again, so BatchCellPreAct is for old programs alone. The
 * two operators differ in their slots: `parts` says where things are. */
#ifndef T

#include <string.h>

#include "kernels/base/check.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/lstm.h"
#include "kernels/base/scratch.h"
#include "kernels/base/shapes.h"
#include "kernels/recurrent/batch_order.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, H0, C0, WEIGHT, BIAS };                            /* of lstm */
enum { HIDDEN, CELL, GATE, ACTIVE_CELL };
enum { G_H0, G_C0, G_WEIGHT, G_BIAS, G_HIDDEN, G_CELL, G_GATE, G_DHIDDEN, G_DCELL };
enum { G_DINPUT, G_DH0, G_DC0, G_DWEIGHT, G_DBIAS };

enum { P_INPUT, P_H0, P_C0, P_WEIGHT, P_PROJECTION, P_BIAS };    /* of lstmp */
enum { P_OUT, P_CELL, P_GATE, P_ACTIVE_CELL, P_HIDDEN };
enum { PG_H0, PG_C0, PG_WEIGHT, PG_PROJECTION, PG_BIAS, PG_OUT, PG_CELL, PG_GATE, PG_HIDDEN, PG_DOUT, PG_DCELL };
enum { PG_DINPUT, PG_DH0, PG_DC0, PG_DWEIGHT, PG_DPROJECTION, PG_DBIAS };

typedef struct attrs {
    bool   use_peepholes, is_reverse;
    float  cell_clip, proj_clip;
    tr_act gate_activation, cell_activation, candidate_activation, proj_activation;
} attrs;

#define COMMON_ATTRS                                                                                               \
    TR_ATTR(attrs, use_peepholes, BOOL, "gates see the cell, too; Bias then ends with those weights", .number = 1),  \
        TR_ATTR(attrs, is_reverse, BOOL, "go through each sequence from its last row to its first"),                 \
        TR_ATTR(attrs, gate_activation, STRING, "of input, forget and output gate", .text = "sigmoid",               \
                .range = TR_GATE_ACTIVATIONS),                                                                       \
        TR_ATTR(attrs, cell_activation, STRING, "of the cell on its way out", .text = "tanh",                        \
                .range = TR_GATE_ACTIVATIONS),                                                                       \
        TR_ATTR(attrs, candidate_activation, STRING, "of what may enter the cell", .text = "tanh",                   \
                .range = TR_GATE_ACTIVATIONS)

#define INPUT_DOC  " float, of sequences: the projected input, as candidate, input, forget, output"
#define BIAS_DOC   "[1, 4 width], in the order of Input; with use_peepholes [1, 7 width]: then what input, forget and output gate see of the cell"
#define GATE_DOC   "[rows, 4 width]: the activated gates, in the order of Input"
#define ACTIVE_DOC "[rows, width], step after step of the sequences ranked by length: the activated cell"

static const tr_op_proto proto = {
    .doc = "Long short-term memory: c = candidate * input + c' * forget; Hidden = output * cell_activation(c).",
    .in = TR_SLOTS(TR_SLOT("Input", "[rows, 4 width]", INPUT_DOC),
                   {"H0", "[sequences, width]: the hidden state before the first row", TR_SLOT_OPTIONAL},
                   {"C0", "like H0: the cell before the first row; with H0 or not at all", TR_SLOT_OPTIONAL},
                   {"Weight", "[width, 4 width], in the order of Input", TR_SLOT_WIDE}, {"Bias", BIAS_DOC, TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Hidden", "[rows, width], with Input's sequences"}, {"Cell", "like Hidden", TR_SLOT_WIDE},
                    {"BatchGate", GATE_DOC, TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"BatchCellPreAct", ACTIVE_DOC, TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE}),
    TR_ATTRS_OF(attrs, COMMON_ATTRS),
};

static const tr_op_proto projected_proto = {
    .doc = "Long short-term memory that feeds back, and puts out, a projection of its hidden state.",
    .in = TR_SLOTS(TR_SLOT("Input", "[rows, 4 width]", INPUT_DOC),
                   {"H0", "[sequences, narrow]: the projection before the first row", TR_SLOT_OPTIONAL},
                   {"C0", "[sequences, width]: the cell before the first row; with H0 or not at all", TR_SLOT_OPTIONAL},
                   {"Weight", "[narrow, 4 width], in the order of Input", TR_SLOT_WIDE}, {"ProjWeight", "[width, narrow]", TR_SLOT_WIDE},
                   {"Bias", BIAS_DOC, TR_SLOT_WIDE}),
    .out = TR_SLOTS({"Projection", "[rows, narrow], with Input's sequences"},
                    {"Cell", "[rows, width], with Input's sequences", TR_SLOT_WIDE},
                    {"BatchGate", GATE_DOC, TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"BatchCellPreAct", ACTIVE_DOC, TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE},
                    {"BatchHidden", "[rows, width], in the order of BatchCellPreAct: the hidden state",
                     TR_SLOT_INTERMEDIATE | TR_SLOT_WIDE}),
    TR_ATTRS_OF(attrs, COMMON_ATTRS,
                       TR_ATTR(attrs, cell_clip, FLOAT, "the cell is kept within +- this; 0 is no limit"),
                       TR_ATTR(attrs, proj_clip, FLOAT, "the projection is kept within +- this; 0 is no limit"),
                       TR_ATTR(attrs, proj_activation, STRING, "of the projection", .text = "tanh",
                               .range = TR_GATE_ACTIVATIONS)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_matrix(const tr_infer *io, const char *name, const tr_meta *meta, int64_t rows, int64_t cols)
{
    return tr__check_shape(io, name, meta, &TR_SHAPE(rows, cols));
}

static tr_status check_first(const tr_infer *io, const tr_meta *h0, const tr_meta *c0, int64_t narrow, int64_t width)
{
    if ((h0->kind == TR_KIND_NONE) != (c0->kind == TR_KIND_NONE))
        return tr_fail(TR_EINVAL, "%s: H0 and C0 go together; %s is missing", io->type,
                       h0->kind == TR_KIND_NONE ? "H0" : "C0");
    if (h0->kind == TR_KIND_NONE)
        return TR_OK;
    TR_TRY(check_matrix(io, "H0", h0, -1, narrow));
    return check_matrix(io, "C0", c0, -1, width);
}

static tr_status cell_width(int64_t *width, const tr_infer *io)
{
    const tr_shape *input = &io->in[INPUT].shape;

    if (input->dim[1] >= 0 && (input->dim[1] == 0 || input->dim[1] % 4 != 0))
        return tr_fail(TR_ESHAPE, "%s: Input is %s; its width must be 4 times that of the hidden state", io->type,
                       TR_SHAPE_STR(*input));
    *width = input->dim[1] < 0 ? -1 : input->dim[1] / 4;
    return TR_OK;
}

static int64_t times(int64_t factor, int64_t width)
{
    return width < 0 ? -1 : factor * width;
}

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;
    int64_t      width;

    TR_TRY(cell_width(&width, io));
    TR_TRY(check_matrix(io, "Weight", &io->in[WEIGHT], width, times(4, width)));
    TR_TRY(check_matrix(io, "Bias", &io->in[BIAS], 1, times(a->use_peepholes ? 7 : 4, width)));
    TR_TRY(check_first(io, &io->in[H0], &io->in[C0], width, width));
    io->out[HIDDEN] = io->in[INPUT];
    io->out[HIDDEN].shape.dim[1] = width < 0 ? io->in[WEIGHT].shape.dim[0] : width;
    io->out[CELL] = io->out[HIDDEN];
    io->out[CELL].dtype = tr__kept_type(io->in[INPUT].dtype);
    io->out[GATE] = tr_meta_dense(io->out[CELL].dtype, io->in[INPUT].shape);
    io->out[ACTIVE_CELL] = tr_meta_dense(io->out[CELL].dtype, io->out[CELL].shape);
    return TR_OK;
}

static tr_status infer_projected(const tr_infer *io)
{
    const attrs  *a = io->attrs;
    const int64_t narrow = io->in[P_PROJECTION].shape.rank == 2 ? io->in[P_PROJECTION].shape.dim[1] : -1;
    int64_t       width;

    TR_TRY(cell_width(&width, io));
    TR_TRY(check_matrix(io, "ProjWeight", &io->in[P_PROJECTION], width, -1));
    TR_TRY(check_matrix(io, "Weight", &io->in[P_WEIGHT], narrow, times(4, width)));
    TR_TRY(check_matrix(io, "Bias", &io->in[P_BIAS], 1, times(a->use_peepholes ? 7 : 4, width)));
    TR_TRY(check_first(io, &io->in[P_H0], &io->in[P_C0], narrow, width));
    io->out[P_OUT] = io->out[P_CELL] = io->in[P_INPUT];
    io->out[P_OUT].shape.dim[1] = narrow;
    io->out[P_CELL].shape.dim[1] = width < 0 ? io->in[P_PROJECTION].shape.dim[0] : width;
    io->out[P_CELL].dtype = tr__kept_type(io->in[P_INPUT].dtype);
    io->out[P_GATE] = tr_meta_dense(io->out[P_CELL].dtype, io->in[P_INPUT].shape);
    io->out[P_ACTIVE_CELL] = tr_meta_dense(io->out[P_CELL].dtype, io->out[P_CELL].shape);
    io->out[P_HIDDEN] = io->out[P_ACTIVE_CELL];
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    io->out[G_DINPUT] = io->in[G_HIDDEN];
    io->out[G_DINPUT].shape = io->in[G_GATE].shape;
    return TR_OK;
}

static tr_status infer_projected_grad(const tr_infer *io)
{
    io->out[PG_DINPUT] = io->in[PG_OUT];
    io->out[PG_DINPUT].shape = io->in[PG_GATE].shape;
    return TR_OK;
}

/* -- where things are ----------------------------------------------------------------------------- */
/* `out` is what is fed back: Hidden, or Projection. h0, c0 and with_lod (backward) are slots. */
typedef struct parts {
    const tr_tensor *input, *weight, *projection, *bias;
    tr_tensor       *out, *cell, *gate, *active_cell, *hidden;
    int              h0, c0, with_lod;
} parts;

static size_t bytes_of(const tr_tensor *x)
{
    return x ? (size_t)tr_tensor_bytes(x) : 0;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "lstm_grad",
    .reads = {TR_IN(H0), TR_IN(C0), TR_IN(WEIGHT), TR_IN(BIAS), TR_OUT(HIDDEN), TR_OUT(CELL), TR_OUT(GATE),
              TR_DOUT(HIDDEN), TR_DOUT(CELL)},
    .makes = {TR_DIN(INPUT), TR_DIN(H0), TR_DIN(C0), TR_DIN(WEIGHT), TR_DIN(BIAS)},
};

static const tr_grad_rule projected_grad = {
    .op = "lstmp_grad",
    .reads = {TR_IN(P_H0), TR_IN(P_C0), TR_IN(P_WEIGHT), TR_IN(P_PROJECTION), TR_IN(P_BIAS), TR_OUT(P_OUT), TR_OUT(P_CELL),
              TR_OUT(P_GATE), TR_OUT(P_HIDDEN), TR_DOUT(P_OUT), TR_DOUT(P_CELL)},
    .makes = {TR_DIN(P_INPUT), TR_DIN(P_H0), TR_DIN(P_C0), TR_DIN(P_WEIGHT), TR_DIN(P_PROJECTION), TR_DIN(P_BIAS)},
};

TR_REGISTER_OP(lstm, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(lstm), .grad = &grad,
               .inplace = {{INPUT, GATE}}, .inplace_count = 1);
TR_REGISTER_OP(lstm_grad, .grad_of = &tr_op_record_lstm, .infer = infer_grad, .kernels = TR_FLOAT_KERNELS(lstm_grad),
               .key = TR_KEY_IN_SLOT, .key_slot = G_HIDDEN, .inplace = {{G_GATE, G_DINPUT}}, .inplace_count = 1);
TR_REGISTER_OP(lstmp, .proto = &projected_proto, .infer = infer_projected, .kernels = TR_FLOAT_KERNELS(lstmp),
               .grad = &projected_grad, .inplace = {{P_INPUT, P_GATE}}, .inplace_count = 1);
TR_REGISTER_OP(lstmp_grad, .grad_of = &tr_op_record_lstmp, .infer = infer_projected_grad,
               .kernels = TR_FLOAT_KERNELS(lstmp_grad), .key = TR_KEY_IN_SLOT, .key_slot = PG_OUT,
               .inplace = {{PG_GATE, PG_DINPUT}}, .inplace_count = 1);

#else /* the kernels, for each T */

/* All of it but the batches and the arrays in their order. */
static NAME(tr_lstm) NAME(lstm_of)(const attrs *a, const parts *p)
{
    const int64_t width = p->cell->shape.dim[1];

    return (NAME(tr_lstm)){
        .width = width, .out_width = p->weight->shape.dim[0],
        .gate_act = a->gate_activation, .cell_act = a->cell_activation, .candidate_act = a->candidate_activation,
        .projection_act = p->projection ? a->proj_activation : TR_ACT_identity,
        .cell_clip = p->projection ? a->cell_clip : 0, .projection_clip = p->projection ? a->proj_clip : 0,
        .weight = p->weight->data, .peephole = a->use_peepholes ? (const T *)p->bias->data + 4 * width : NULL,
        .projection = p->projection ? p->projection->data : NULL,
    };
}

static tr_status NAME(forward)(const tr_run *io, const parts *p)
{
    const attrs     *a = io->attrs;
    const tr_tensor *h0 = io->in[p->h0], *c0 = io->in[p->c0];
    tr_sequences     s;
    tr_batches       b;
    NAME(tr_lstm)    l = NAME(lstm_of)(a, p);
    int64_t         *order;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, INPUT, 0));
    TR_TRY(tr__check_first_state(io, p->h0, s.count));
    TR_TRY(tr__check_first_state(io, p->c0, s.count));
    l.batches = &b;
    l.h0 = h0 ? h0->data : NULL;
    l.c0 = c0 ? c0->data : NULL;
    l.input = p->input->data;
    l.bias = p->bias->data;
    l.out = p->out->data;
    l.cell = p->cell->data;
    l.gate = p->gate ? p->gate->data : NULL;
    l.hidden = p->hidden ? p->hidden->data : NULL;
    l.active_cell = p->active_cell ? p->active_cell->data : NULL;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order},
        {&l.hidden, p->projection && !p->hidden ? bytes_of(p->cell) : 0},
        {&l.room, (size_t)NAME(tr_lstm_room)(&l, s.count, p->cell->shape.dim[0]) * sizeof(T)}, {NULL, 0}}));
    tr_batches_make(&b, order, s.offset, s.count, a->is_reverse);
    NAME(tr_lstm_forward)(&l);
    return TR_OK;
}

static tr_status NAME(lstm)(const tr_run *io)
{
    const parts p = {.input = io->in[INPUT], .weight = io->in[WEIGHT], .bias = io->in[BIAS], .out = io->out[HIDDEN],
                     .cell = io->out[CELL], .gate = io->out[GATE], .active_cell = io->out[ACTIVE_CELL], .h0 = H0, .c0 = C0};
    return NAME(forward)(io, &p);
}

static tr_status NAME(lstmp)(const tr_run *io)
{
    const parts p = {.input = io->in[P_INPUT], .weight = io->in[P_WEIGHT], .projection = io->in[P_PROJECTION],
                     .bias = io->in[P_BIAS], .out = io->out[P_OUT], .cell = io->out[P_CELL], .gate = io->out[P_GATE],
                     .active_cell = io->out[P_ACTIVE_CELL], .hidden = io->out[P_HIDDEN], .h0 = P_H0, .c0 = P_C0};
    return NAME(forward)(io, &p);
}

/* The gradients that are wanted; each may be NULL. */
typedef struct {
    const tr_tensor *of_out, *of_cell;
    tr_tensor       *input, *h0, *c0, *weight, *projection, *bias;
} NAME(wanted);

/* Parameters' gradients, from those of all rows. `previous` is room for rows as wide as out or cell. */
static void NAME(parameter_grads)(const NAME(wanted) *w, const tr_sequences *s, bool is_reverse, const NAME(tr_lstm) *l,
                                  const NAME(tr_lstm_grads) *g, T *previous)
{
    const int64_t gates = 4 * l->width, rows = l->batches->rows, size = (int64_t)sizeof(T);

    if (w->weight) {
        tr_sequences_previous(previous, l->out, l->h0, s->offset, s->count, is_reverse, l->out_width * size);
        NAME(tr_gemm)(true, false, l->out_width, gates, rows, 1, previous, l->out_width, g->dinput, gates, 0,
                      w->weight->data, gates);
    }
    if (w->projection)
        NAME(tr_gemm)(true, false, l->width, l->out_width, rows, 1, l->hidden, l->width, g->dprojected, l->out_width, 0,
                      w->projection->data, l->out_width);
    if (w->bias && l->peephole) {
        tr_sequences_previous(previous, l->cell, l->c0, s->offset, s->count, is_reverse, l->width * size);
        NAME(tr_lstm_peephole_grad)((T *)w->bias->data + gates, g->dinput, l->cell, previous, rows, l->width);
    }
}

static tr_status NAME(backward)(const tr_run *io, const parts *p, const NAME(wanted) *w)
{
    const attrs        *a = io->attrs;
    const tr_tensor    *h0 = io->in[p->h0], *c0 = io->in[p->c0];
    tr_sequences        s;
    const size_t        out_bytes = bytes_of(p->out), cell_bytes = bytes_of(p->cell);
    tr_batches          b;
    NAME(tr_lstm)       l = NAME(lstm_of)(a, p);
    NAME(tr_lstm_grads) g = {0};
    T                  *previous = NULL;
    int64_t            *order;

    TR_TRY(tr_blas_init());
    TR_TRY(tr__sequences_of(&s, io, p->with_lod, 0));
    l.batches = &b;
    l.h0 = h0 ? h0->data : NULL;
    l.c0 = c0 ? c0->data : NULL;
    l.out = p->out->data;
    l.cell = p->cell->data;
    l.gate = p->gate->data;
    l.hidden = p->hidden ? p->hidden->data : NULL;
    g.dout = w->of_out ? w->of_out->data : NULL;
    g.dcell = w->of_cell ? w->of_cell->data : NULL;
    g.dinput = w->input ? w->input->data : NULL;
    g.dh0 = w->h0 ? w->h0->data : NULL;
    g.dc0 = w->c0 ? w->c0->data : NULL;
    g.dbias = w->bias ? w->bias->data : NULL;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&order, (size_t)tr_batches_size(s.offset, s.count) * sizeof *order},
        {&g.dinput, w->input ? 0 : bytes_of(p->gate)}, {&g.dprojected, p->projection ? out_bytes : 0},
        {&previous, out_bytes > cell_bytes ? out_bytes : cell_bytes},
        {&g.room, (size_t)NAME(tr_lstm_backward_room)(&l, s.count, p->cell->shape.dim[0]) * sizeof(T)}, {NULL, 0}}));
    tr_batches_make(&b, order, s.offset, s.count, a->is_reverse);
    NAME(tr_lstm_backward)(&l, &g);
    NAME(parameter_grads)(w, &s, a->is_reverse, &l, &g, previous);
    return TR_OK;
}

static tr_status NAME(lstm_grad)(const tr_run *io)
{
    const parts p = {.weight = io->in[G_WEIGHT], .bias = io->in[G_BIAS], .out = io->in[G_HIDDEN], .cell = io->in[G_CELL],
                     .gate = io->in[G_GATE], .h0 = G_H0, .c0 = G_C0, .with_lod = G_CELL};
    const NAME(wanted) w = {.of_out = io->in[G_DHIDDEN], .of_cell = io->in[G_DCELL], .input = io->out[G_DINPUT],
                            .h0 = io->out[G_DH0], .c0 = io->out[G_DC0], .weight = io->out[G_DWEIGHT],
                            .bias = io->out[G_DBIAS]};
    return NAME(backward)(io, &p, &w);
}

static tr_status NAME(lstmp_grad)(const tr_run *io)
{
    const parts p = {.weight = io->in[PG_WEIGHT], .projection = io->in[PG_PROJECTION], .bias = io->in[PG_BIAS],
                     .out = io->in[PG_OUT], .cell = io->in[PG_CELL], .gate = io->in[PG_GATE], .hidden = io->in[PG_HIDDEN],
                     .h0 = PG_H0, .c0 = PG_C0, .with_lod = PG_CELL};
    const NAME(wanted) w = {.of_out = io->in[PG_DOUT], .of_cell = io->in[PG_DCELL], .input = io->out[PG_DINPUT],
                            .h0 = io->out[PG_DH0], .c0 = io->out[PG_DC0], .weight = io->out[PG_DWEIGHT],
                            .projection = io->out[PG_DPROJECTION], .bias = io->out[PG_DBIAS]};
    return NAME(backward)(io, &p, &w);
}

#endif
