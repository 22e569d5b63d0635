/* lstm_unit.c - one step of long short-term memory, element by element: what is left of it when X is projected already. */
#ifndef T

#include "framework/base/compiler.h"
#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/activation_scalar.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, C_PREV };
enum { C, H };
enum { G_X, G_C_PREV, G_C, G_DC, G_DH };
enum { G_DX, G_DC_PREV };
enum { MIN_CELLS = 2048 };                                   /* of a slice */

typedef struct attrs {
    float forget_bias;
} attrs;

static const tr_op_proto proto = {
    .doc = "With X as i, f, o, j: C = C_prev sigmoid(f + forget_bias) + sigmoid(i) tanh(j); H = tanh(C) sigmoid(o).",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, 4 width]", " float: input, forget, output gate, candidate"),
                   TR_SLOT("C_prev", "[batch, width]", ": the cell before")),
    .out = TR_SLOTS({"C", "like C_prev: the cell"}, {"H", "like C_prev: the hidden state"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, forget_bias, FLOAT, "added to the forget gate")),
};

static tr_status infer(const tr_infer *io)
{
    const tr_meta *c = &io->in[C_PREV];

    io->out[C] = *c;
    if (c->shape.dim[0] < 0)
        io->out[C].shape.dim[0] = io->in[X].shape.dim[0];
    io->out[H] = io->out[C];
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status parts(tr_composite *c)
{
    const double bias = ((const attrs *)tr_composite_attrs(c))->forget_bias;

    TR_TRY(tr_composite_add(c, "split(X=X) {num=4, axis=1} -> Out=[i, f, o, j]"));
    TR_TRY(tr_composite_add(c, "scale(X=f) {bias=%.9g} -> f_biased", bias));
    TR_TRY(tr_composite_add(c, "sigmoid(X=f_biased) -> forget"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=C_prev, Y=forget) -> kept"));
    TR_TRY(tr_composite_add(c, "sigmoid(X=i) -> input"));
    TR_TRY(tr_composite_add(c, "tanh(X=j) -> candidate"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=input, Y=candidate) -> added"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=kept, Y=added) -> cell"));
    TR_TRY(tr_composite_add(c, "assign(X=cell) -> C"));
    TR_TRY(tr_composite_add(c, "tanh(X=cell) -> active"));
    TR_TRY(tr_composite_add(c, "sigmoid(X=o) -> output"));
    return tr_composite_add(c, "elementwise_mul(X=active, Y=output) -> H");
}

static const tr_grad_rule grad = {
    .op = "lstm_unit_grad",
    .reads = {TR_IN(X), TR_IN(C_PREV), TR_OUT(C), TR_DOUT(C), TR_DOUT(H)},
    .makes = {TR_DIN(X), TR_DIN(C_PREV)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(lstm_unit, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(lstm_unit), .grad = &grad,
               .inplace = {{C_PREV, C}}, .inplace_count = 1);
TR_REGISTER_OP(lstm_unit_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_lstm_unit, .kernels = TR_FLOAT_KERNELS(lstm_unit_grad));

#else /* the kernels, for each T */

typedef struct {
    const T *x, *c_prev, *cell, *dcell, *dhidden;
    T       *c, *h, *dx, *dc_prev;
    T        forget_bias;
    int64_t  width;
} NAME(job);

TR_CLONES static void NAME(forward)(const NAME(job) *k, int64_t begin, int64_t end)
{
    const int64_t n = k->width;

    for (int64_t r = begin; r < end; r++) {
        const T *x = k->x + r * 4 * n, *before = k->c_prev + r * n;
        T       *c = k->c + r * n, *h = k->h + r * n;
        TR_IVDEP
        for (int64_t j = 0; j < n; j++) {
            const T in = NAME(tr_sigmoid)(x[j]), forget = NAME(tr_sigmoid)(x[n + j] + k->forget_bias);
            c[j] = before[j] * forget + in * NAME(tr_tanh)(x[3 * n + j]);
            h[j] = NAME(tr_tanh)(c[j]) * NAME(tr_sigmoid)(x[2 * n + j]);
        }
    }
}

TR_CLONES static void NAME(backward)(const NAME(job) *k, int64_t begin, int64_t end)
{
    const int64_t n = k->width;

    for (int64_t r = begin; r < end; r++) {
        const T *x = k->x + r * 4 * n, *before = k->c_prev + r * n, *c = k->cell + r * n;
        const T *dcell = k->dcell + r * n, *dhidden = k->dhidden + r * n;
        T       *dx = k->dx ? k->dx + r * 4 * n : NULL, *dc_prev = k->dc_prev ? k->dc_prev + r * n : NULL;
        TR_IVDEP
        for (int64_t j = 0; j < n; j++) {
            const T in = NAME(tr_sigmoid)(x[j]), forget = NAME(tr_sigmoid)(x[n + j] + k->forget_bias);
            const T out = NAME(tr_sigmoid)(x[2 * n + j]), candidate = NAME(tr_tanh)(x[3 * n + j]);
            const T active = NAME(tr_tanh)(c[j]), dc = dcell[j] + dhidden[j] * out * (1 - active * active);
            if (dx) {
                dx[j] = dc * candidate * in * (1 - in);
                dx[n + j] = dc * before[j] * forget * (1 - forget);
                dx[2 * n + j] = dhidden[j] * active * out * (1 - out);
                dx[3 * n + j] = dc * in * (1 - candidate * candidate);
            }
            if (dc_prev)
                dc_prev[j] = dc * forget;
        }
    }
}

static void NAME(forward_range)(void *payload, int64_t begin, int64_t end) { NAME(forward)(payload, begin, end); }
static void NAME(backward_range)(void *payload, int64_t begin, int64_t end) { NAME(backward)(payload, begin, end); }

static tr_status NAME(lstm_unit)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *c = &io->out[C]->shape;
    NAME(job)       k = {.x = io->in[X]->data, .c_prev = io->in[C_PREV]->data, .c = io->out[C]->data, .h = io->out[H]->data,
                         .forget_bias = a->forget_bias, .width = c->dim[1]};

    tr_parallel_range(c->dim[0], 1 + MIN_CELLS / (1 + k.width), NAME(forward_range), &k);
    return TR_OK;
}

static tr_status NAME(lstm_unit_grad)(const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *c = &io->in[G_C]->shape;
    tr_tensor      *dx = io->out[G_DX], *dc_prev = io->out[G_DC_PREV];
    NAME(job)       k = {.x = io->in[G_X]->data, .c_prev = io->in[G_C_PREV]->data, .cell = io->in[G_C]->data,
                         .dcell = io->in[G_DC]->data, .dhidden = io->in[G_DH]->data, .dx = dx ? dx->data : NULL,
                         .dc_prev = dc_prev ? dc_prev->data : NULL, .forget_bias = a->forget_bias, .width = c->dim[1]};

    tr_parallel_range(c->dim[0], 1 + MIN_CELLS / (1 + k.width), NAME(backward_range), &k);
    return TR_OK;
}

#endif
