/* kernel.c - see kernel.h. */
#include "framework/operators/kernel.h"

#include <stdio.h>

#include "framework/operators/op_registry.h"

static int count_args(const int *counts, int slots)
{
    int args = 0;
    for (int s = 0; s < slots; s++)
        args += counts[s];
    return args;
}

void tr__kernel_key_args(int *from, int *to, const tr_op *op, const int *counts)
{
    const tr_op_info *info = tr__op_info(op);
    const int         in_args = count_args(counts, info->in_count);

    if (op->key == TR_KEY_OUT) {
        *from = in_args;
        *to = in_args + count_args(counts + info->in_count, info->out_count);
    } else if (op->key == TR_KEY_IN_SLOT) {
        *from = count_args(counts, op->key_slot);
        *to = *from + counts[op->key_slot];
    } else {
        *from = 0;
        *to = in_args;
    }
}

/* "input X" */
static void name_slot(char *text, size_t size, const tr_op *op, const int *counts, int arg)
{
    const tr_op_proto *proto = tr__op_proto(op);
    const int          inputs = tr__op_info(op)->in_count;
    int                s = 0;

    while (arg >= counts[s])
        arg -= counts[s++];
    snprintf(text, size, "%s %s", s < inputs ? "input" : "output",
             s < inputs ? proto->in[s].name : proto->out[s - inputs].name);
}

/* A composite operator has the types of its parts. */
static bool takes(const tr_op *op, tr_dtype dtype)
{
    const tr_op *body = op->expand ? op : op->grad_of;

    return tr_op_is_composite(op) ? body->types & TR_TYPE(dtype) : op->kernels.of[dtype] != NULL;
}

/* "float32, float64" */
static void list_types(char *text, size_t size, const tr_op *op)
{
    size_t used = 0;

    text[0] = '\0';
    for (int t = 0; t < TR_DTYPE_COUNT && used < size; t++)
        if (takes(op, (tr_dtype)t))
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", tr_dtype_name((tr_dtype)t));
}

static tr_status no_kernel(const tr_op *op, const int *counts, int arg, const char *var, tr_dtype dtype)
{
    char slot[128], types[256];

    list_types(types, sizeof types, op);
    if (arg < 0)
        return tr_fail(TR_EDTYPE, "%s: the variable whose type chooses the kernel is missing; there are kernels for %s",
                       op->type, types);
    name_slot(slot, sizeof slot, op, counts, arg);
    return tr_fail(TR_EDTYPE, "%s: %s '%s' is %s, but there are kernels for %s only", op->type, slot, var,
                   dtype == TR_DTYPE_NONE ? "of unknown type" : tr_dtype_name(dtype), types);
}

tr_status tr__kernel_choose(tr_kernel_fn *out, const tr_op *op, const int *counts, int arg, const char *var,
                            tr_dtype dtype)
{
    *out = op->run;
    if (*out)
        return TR_OK;
    if (arg < 0 || dtype < 0 || dtype >= TR_DTYPE_COUNT || !takes(op, dtype))
        return no_kernel(op, counts, arg, var, dtype);
    *out = op->kernels.of[dtype];
    return TR_OK;
}
