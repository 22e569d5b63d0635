/* fusions.c - the chains of operators that one operator does at once (framework/operators/fusion.h).
 *
 * fc: a product, a bias and an activation make two passes over Out less. In training it is the same: the
 * gradients of the three read Out, the inputs and shapes, never what lies between.
 *
 * mul_grad_sgd: the gradient of a matrix is added to it as the product makes it. That saves writing and reading as much memory as
 * the matrix has, and the memory itself. */
#include "framework/operators/fusion.h"
#include "kernels/fusions.h"

#include <string.h>

static tr_shape shape_of(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var ? tr_shape_of(tr_var_desc_rank(var), tr_var_desc_dims(var)) : (tr_shape){.rank = 0};
}

/* Is `add` the addition of a vector to every row of its X? */
static bool adds_a_row(const tr_op_desc *add, tr_block *block)
{
    const tr_shape x = shape_of(block, tr_op_desc_input(add, "X", 0));
    const tr_shape y = shape_of(block, tr_op_desc_input(add, "Y", 0));
    const int64_t  axis = tr_op_desc_attr_int(add, "axis", 0);

    return y.rank == 1 && x.rank > 1 && y.dim[0] == x.dim[x.rank - 1] && (axis == -1 || axis == x.rank - 1);
}

static void copy_slot(tr_op_desc *to, const char *to_slot, const tr_op_desc *from, const char *from_slot, bool output)
{
    const char *name = output ? tr_op_desc_output(from, from_slot, 0) : tr_op_desc_input(from, from_slot, 0);
    if (output)
        tr_op_desc_set_output(to, to_slot, 1, &name);
    else
        tr_op_desc_set_input(to, to_slot, 1, &name);
}

static bool build_fc(tr_op_desc *fc, const tr_op_desc *const *matched, tr_block *block)
{
    const tr_op_desc *mul = matched[0], *add = matched[1], *act = matched[2];

    if (tr_op_desc_attr_int(mul, "y_num_col_dims", 0) != 1 || !adds_a_row(add, block) ||
        shape_of(block, tr_op_desc_input(mul, "Y", 0)).rank != 2)
        return false;
    copy_slot(fc, "Input", mul, "X", false);
    copy_slot(fc, "W", mul, "Y", false);
    copy_slot(fc, "Bias", add, "Y", false);
    copy_slot(fc, "Out", act ? act : add, "Out", true);
    tr_op_desc_set_int(fc, "in_num_col_dims", tr_op_desc_attr_int(mul, "x_num_col_dims", 0), TR_ATTR_INT);
    if (act)
        tr_op_desc_set_string(fc, "activation_type", tr_op_desc_type(act), strlen(tr_op_desc_type(act)));
    return true;
}

static const tr_fusion fusions[] = {
    {{"mul", "elementwise_add", "relu"}, "fc", build_fc},
    {{"mul", "elementwise_add", "sigmoid"}, "fc", build_fc},
    {{"mul", "elementwise_add", "tanh"}, "fc", build_fc},
    {{"mul", "elementwise_add"}, "fc", build_fc},
};

static const tr_update_fusion updates[] = {
    {.gradient = "mul_grad", .update = "sgd", .into = "mul_grad_sgd", .of = "Y", .made = "Y@GRAD", .taken = "Grad",
     .param = "Param", .param_out = "ParamOut"},
};

void tr__fusions_register(void)
{
    tr_fusions_add(fusions, (int)(sizeof fusions / sizeof fusions[0]));
    tr_update_fusions_add(updates, (int)(sizeof updates / sizeof updates[0]));
}
