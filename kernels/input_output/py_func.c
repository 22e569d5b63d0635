/* py_func.c - call a function of the program's owner, in Python a Python function, with tensors (framework/runs/call.h).
 *
 * The function may do anything, so the operator is never left out and never moved. A program from a file may not hold it: no file holds
 * the function. Its gradient is another py_func, which calls the backward function with X, Out and the gradients of Out, and fills those
 * of X. Each of these is like its variable, which slot Like says. */
#include <stdlib.h>
#include <string.h>

#include "framework/gradients/grad_walk.h"
#include "framework/runs/call.h"
#include "kernels/base/grad_ops.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X, LIKE };
enum { OUT };

typedef struct attrs {
    int32_t    forward_callable_id, backward_callable_id;
    tr_strings backward_skip_vars;
} attrs;

static const tr_op_proto proto = {
    .doc = "Calls a function of Python: Out = function(X). layers.py_func adds it to a program.",
    .in = TR_SLOTS({"X", "what the function is called with, of any types and shapes", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE},
                   {"Like", "of each Out the type and shape; absent: the declared ones. Gradients have it",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "what the function returns, in this order",
                     TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE | TR_SLOT_HOLES}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, forward_callable_id, INT, "the function's number in this process", .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, backward_callable_id, INT, "that of the function for the gradient; -1: there is none", .number = -1,
                               .range = TR_AT_LEAST(-1)),
                       TR_ATTR(attrs, backward_skip_vars, STRINGS, "of X and Out: what the function for the gradient is not given")),
};

/* -- shapes ------------------------------------------------------------------------------------- */

/* Without Like an output stays as the program declares it. */
static tr_status infer(const tr_infer *io)
{
    const tr_meta_list *like = &io->ins[LIKE], *out = &io->outs[OUT];

    if (like->count > 0 && like->count != out->count)
        return tr_fail(TR_EINVAL, "%s: Like has %d variables, Out has %d; one for each is needed", io->type, like->count, out->count);
    for (int i = 0; i < out->count; i++) {
        if (out->item[i].kind == TR_KIND_NONE)
            continue;
        if (like->count > 0)
            out->item[i] = like->item[i];
        else if (out->item[i].dtype == TR_DTYPE_NONE || out->item[i].shape.rank == 0)
            return tr_fail(TR_ESHAPE, "%s: output %d has no declared type and shape, which only the function knows; declare them: "
                           "block.create_var(name=..., dtype=..., shape=...)", io->type, i);
        else
            out->item[i].kind = TR_KIND_TENSOR;
    }
    return TR_OK;
}

/* -- kernel ------------------------------------------------------------------------------------- */

static tr_status run(const tr_run *io)
{
    return tr__call_run(io, ((const attrs *)io->attrs)->forward_callable_id, X, LIKE, OUT);
}

/* -- gradient and registration -------------------------------------------------------------------- */

/* The parts of the gradient operator: lists of names. */
typedef struct names {
    const char **item;
    int          count;
} names;

static bool is_skipped(const tr_op_desc *forward, const char *var)
{
    const int count = tr_op_desc_has_attr(forward, "backward_skip_vars") ? tr_op_desc_attr_size(forward, "backward_skip_vars") : 0;

    for (int i = 0; i < count; i++) {
        size_t size;
        if (!strcmp(tr_op_desc_attr_string(forward, "backward_skip_vars", i, &size), var))
            return true;
    }
    return false;
}

static void add_values(names *to, tr_grad_maker *maker, const tr_op_desc *forward, bool output)
{
    const char *slot = output ? "Out" : "X";
    const int   count = output ? tr_op_desc_output_count(forward, slot) : tr_op_desc_input_count(forward, slot);

    for (int i = 0; i < count; i++) {
        const char *var = output ? tr_op_desc_output(forward, slot, i) : tr_op_desc_input(forward, slot, i);
        if (!is_skipped(forward, var))
            to->item[to->count++] = tr_grad_saved(maker, var, output);
    }
}

static tr_status add_gradients(names *to, tr_grad_maker *maker, const tr_op_desc *forward)
{
    for (int i = 0; i < tr_op_desc_output_count(forward, "Out"); i++) {
        const char *zeros;
        TR_TRY(tr_grad_of_output_or_zeros(&zeros, maker, tr_op_desc_output(forward, "Out", i)));
        to->item[to->count++] = zeros;
    }
    return TR_OK;
}

/* The gradients of X, and X itself, which they are like. */
static bool add_wanted(names *to, names *like, tr_grad_maker *maker, const tr_op_desc *forward)
{
    bool any = false;

    for (int i = 0; i < tr_op_desc_input_count(forward, "X"); i++) {
        const char *var = tr_op_desc_input(forward, "X", i), *name = tr_grad_for_input(maker, var);
        any = any || name;
        to->item[to->count++] = name ? name : "@EMPTY@";
        like->item[like->count++] = tr_grad_saved(maker, var, false);
    }
    return any;
}

static tr_status make_parts(tr_op_desc *op, names *in, names *like, names *out, tr_grad_maker *maker, bool *any)
{
    const tr_op_desc *forward = tr_grad_forward(maker);

    add_values(in, maker, forward, false);
    add_values(in, maker, forward, true);
    TR_TRY(add_gradients(in, maker, forward));
    *any = add_wanted(out, like, maker, forward);
    tr_op_desc_set_input(op, "X", in->count, in->item);
    tr_op_desc_set_input(op, "Like", like->count, like->item);
    tr_op_desc_set_output(op, "Out", out->count, out->item);
    tr_op_desc_set_int(op, "forward_callable_id", tr_op_desc_attr_int(forward, "backward_callable_id", 0), TR_ATTR_INT);
    tr_op_desc_set_int(op, "backward_callable_id", -1, TR_ATTR_INT);
    return TR_OK;
}

/* The gradient ends here, unless this is the call of a function for the gradient, which another gradient has arrived at. */
static tr_status without_backward(const tr_op_desc *op)
{
    if (!(tr_op_desc_attr_int(op, "op_role", 0) & TR_ROLE_BACKWARD))
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED, "gradients of gradients: the backward_func of py_func has no gradient, and it computes '%s', on which the target "
                   "depends; set stop_gradient of this variable to take it for a constant", tr_op_desc_output_arg(op, 0));
}

static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *forward = tr_grad_forward(maker);
    const int         ins = tr_op_desc_input_count(forward, "X"), outs = tr_op_desc_output_count(forward, "Out");

    if (!tr_op_desc_has_attr(forward, "backward_callable_id") || tr_op_desc_attr_int(forward, "backward_callable_id", 0) < 0)
        return without_backward(forward);
    const char **room = malloc((size_t)(3 * ins + 2 * outs + 1) * sizeof *room);
    if (!room)
        return tr_fail(TR_ENOMEM, "py_func: no memory for its gradient");
    names       in = {.item = room}, like = {.item = room + ins + 2 * outs}, out = {.item = room + 2 * ins + 2 * outs};
    tr_op_desc *op = tr_op_desc_new("py_func");
    bool        any = false;
    tr_status   status = make_parts(op, &in, &like, &out, maker, &any);
    free(room);
    if (status == TR_OK && any)
        return tr_grad_append(maker, op);
    tr_op_desc_free(op);
    return status;
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(py_func, .proto = &proto, .infer = infer, .run = run, .grad = &grad, .has_effect = true, .io = TR_IO_CODE);
