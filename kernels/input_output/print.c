/* print.c - show a tensor on standard output whenever the program comes by.
 *
 * In Fluid the operator has no output. With the optional Out = In it stands in the stream of the data, and its
 * gradient, a print too, shows the gradient on the way back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "framework/base/text.h"
#include "kernels/base/grad_ops.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/tools/cast.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { IN };
enum { OUT };

typedef struct attrs {
    int32_t     first_n, summarize;
    const char *message;
    enum { FORWARD = 1, BACKWARD = 2, BOTH = 3 } print_phase;
    bool        print_tensor_name, print_tensor_type, print_tensor_shape, print_tensor_lod, is_forward;
    int32_t     times;                    /* no attribute: how often this step has printed, from 0 in each plan */
} attrs;

static const tr_op_proto proto = {
    .doc = "Shows In on standard output: message, name, shape, type, sequences and values.",
    .in = TR_SLOTS({"In", "any shape and type; selected rows too", TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "In, unchanged", TR_SLOT_OPTIONAL}),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, first_n, INT, "print this many times and then no more; 0 or less: always", .number = -1),
        TR_ATTR(attrs, message, STRING, "stands in front"),
        TR_ATTR(attrs, summarize, INT, "print this many values; -1: all", .number = -1, .range = TR_AT_LEAST(-1)),
        TR_ATTR(attrs, print_tensor_name, BOOL, "the variable's name", .number = true),
        TR_ATTR(attrs, print_tensor_type, BOOL, "the data type", .number = true),
        TR_ATTR(attrs, print_tensor_shape, BOOL, "the shape", .number = true),
        TR_ATTR(attrs, print_tensor_lod, BOOL, "the sequence offsets, if there are any", .number = true),
        TR_ATTR(attrs, print_phase, STRING, "print values, gradients or both", .text = "BOTH",
                .range = TR_ONE_OF({"FORWARD", FORWARD}, {"BACKWARD", BACKWARD}, {"BOTH", BOTH}, {"forward", FORWARD},
                                     {"backward", BACKWARD}, {"both", BOTH}, {"kForward", FORWARD}, {"kBackward", BACKWARD},
                                     {"kBoth", BOTH})),
        TR_ATTR(attrs, is_forward, BOOL, "false: this is the print of a gradient", .number = true)),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    io->out[OUT] = io->in[IN];
    return TR_OK;
}

/* -- kernel ----------------------------------------------------------------------------------- */

static void show_value(tr_text *text, const tr_tensor *x, int64_t i)
{
    switch (x->dtype) {
    case TR_BOOL:   tr_text_add(text, ((const uint8_t *)x->data)[i] ? "true" : "false"); break;
    case TR_UINT8:  tr_text_add(text, "%u", (unsigned)((const uint8_t *)x->data)[i]); break;
    case TR_INT8:   tr_text_add(text, "%d", (int)((const int8_t *)x->data)[i]); break;
    case TR_INT16:  tr_text_add(text, "%d", (int)((const int16_t *)x->data)[i]); break;
    case TR_INT32:  tr_text_add(text, "%" PRId32, ((const int32_t *)x->data)[i]); break;
    case TR_INT64:  tr_text_add(text, "%" PRId64, ((const int64_t *)x->data)[i]); break;
    case TR_SIZE_T: tr_text_add(text, "%" PRIu64, ((const uint64_t *)x->data)[i]); break;
    case TR_FP16:   tr_text_add(text, "%g", (double)tr_f32_of_fp16(((const uint16_t *)x->data)[i])); break;
    case TR_BF16:   tr_text_add(text, "%g", (double)tr_f32_of_bf16(((const uint16_t *)x->data)[i])); break;
    case TR_FP32:   tr_text_add(text, "%g", (double)((const float *)x->data)[i]); break;
    default:        tr_text_add(text, "%g", ((const double *)x->data)[i]); break;
    }
}

static void show_numbers(tr_text *text, const int64_t *numbers, int64_t count)
{
    tr_text_add(text, "[");
    for (int64_t i = 0; i < count; i++)
        tr_text_add(text, "%s%" PRId64, i > 0 ? ", " : "", numbers[i]);
    tr_text_add(text, "]");
}

static void show_lod(tr_text *text, const tr_tensor *x)
{
    tr_text_add(text, "lod [");
    for (int l = 0; l < tr_tensor_lod_levels(x); l++) {
        tr_text_add(text, "%s", l > 0 ? ", " : "");
        show_numbers(text, tr_tensor_lod_offsets(x, l), tr_tensor_lod_count(x, l));
    }
    tr_text_add(text, "]");
}

static void show_values(tr_text *text, const tr_tensor *x, int32_t summarize)
{
    const int64_t count = tr_tensor_count(x), shown = summarize < 0 || summarize > count ? count : summarize;

    tr_text_add(text, "[");
    for (int64_t i = 0; i < shown; i++) {
        tr_text_add(text, "%s", i > 0 ? ", " : "");
        show_value(text, x, i);
    }
    tr_text_add(text, "%s]", shown < count ? shown > 0 ? ", ..." : "..." : "");
}

/* Parts of the line are apart by one space. */
static void show_gap(tr_text *text)
{
    if (text->size > 0)
        tr_text_add(text, " ");
}

/* The message may be a stranger's: what a terminal would obey is shown as \xNN, ends of lines and tabs excepted. */
static void show_message(tr_text *text, const char *message)
{
    for (const unsigned char *c = (const unsigned char *)message; *c; c++) {
        const bool is_c1 = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (is_c1 || (*c < ' ' && *c != '\n' && *c != '\t') || *c == 0x7f)
            tr_text_add(text, "\\x%02x", is_c1 ? *++c : *c);
        else
            tr_text_add_bytes(text, (const char *)c, 1);
    }
}

static void show(tr_text *text, const attrs *a, const char *name, const tr_tensor *x)
{
    show_message(text, a->message);
    if (a->print_tensor_name) {
        show_gap(text);
        tr_text_add(text, "%s%s", name, a->is_forward ? "" : " (gradient)");
    }
    if (a->print_tensor_type || a->print_tensor_shape) {
        show_gap(text);
        tr_text_add(text, "%s%s", a->print_tensor_type ? tr_dtype_name(x->dtype) : "",
                    a->print_tensor_shape ? TR_SHAPE_STR(x->shape) : "");
    }
    if (a->print_tensor_lod && tr_tensor_lod_levels(x) > 0) {
        show_gap(text);
        show_lod(text, x);
    }
    if (tr_tensor_has_rows(x)) {
        show_gap(text);
        tr_text_add(text, "rows ");
        show_numbers(text, tr_tensor_rows(x), x->rows->count);
    }
    show_gap(text);
    tr_text_add(text, "= ");
    show_values(text, x, a->summarize);
    tr_text_add(text, "\n");
}

static bool wants_phase(const attrs *a)
{
    return a->print_phase & (a->is_forward ? FORWARD : BACKWARD);
}

static tr_status show_once(const tr_run *io)
{
    attrs  *a = (attrs *)io->attrs;       /* the step's own memory; only `times` changes */
    tr_text text = {0};
    char   *line;

    if (!wants_phase(a) || (a->first_n > 0 && a->times >= a->first_n))
        return TR_OK;
    a->times += a->first_n > 0;
    show(&text, a, tr_run_in_name(io, IN, 0), io->in[IN]);
    TR_TRY(tr_text_take(&line, &text));
    fputs(line, stdout);                  /* one call: lines of several threads do not mix */
    fflush(stdout);
    tr_free(line);
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const tr_tensor *in = io->in[IN];
    tr_tensor       *out = io->out[OUT];

    TR_TRY(show_once(io));
    if (!out || out->data == in->data)
        return TR_OK;
    memcpy(out->data, in->data, (size_t)tr_tensor_bytes(in));
    return tr__rows_copy(out, in);
}

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    const char       *out = tr_op_desc_output(forward, "Out", 0);
    const char       *dout = out ? tr_grad_of_output(maker, out) : NULL;
    const char       *din = dout ? tr_grad_for_input(maker, tr_op_desc_input(forward, "In", 0)) : NULL;

    if (!din)
        return TR_OK;
    tr_op_desc *op = tr__op_desc_clone(forward);
    tr_op_desc_set_input(op, "In", 1, &dout);
    tr_op_desc_set_output(op, "Out", 1, &din);
    tr_op_desc_set_int(op, "is_forward", false, TR_ATTR_BOOL);
    return tr_grad_append(maker, op);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(print, .proto = &proto, .infer = infer, .run = run, .grad = &grad, .has_effect = true,
               .inplace = {{IN, OUT}}, .inplace_count = 1);
