/* accumulators.c - see accumulators.h. */
#include "trainer/job/accumulators.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/scope.h"

static const char *const SLOT[] = {"U_out", "V_out"};
enum { SLOTS = sizeof SLOT / sizeof *SLOT };

static tr_status describe(tr_checkpoint_item *out, tr_scope *scope, const tr_op_desc *op, const char *slot)
{
    const char   *name = tr_op_desc_output(op, slot, 0);
    const tr_var *var = tr_scope_find(scope, name);

    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value: the job's startup program does not make it", name);
    *out = (tr_checkpoint_item){.name = name, .kind = TR_STATE_STATISTIC, .dtype = var->tensor.dtype,
                                .rank = var->tensor.shape.rank, .dims = var->tensor.shape.dim, .data = var->tensor.data};
    return TR_OK;
}

tr_status tr_accumulators_list(tr_checkpoint_item **out, int *count, tr_program *program, tr_scope *scope)
{
    tr_block *block = tr_program_block(program, 0);
    const int ops = tr_block_op_count(block);
    tr_status status = TR_OK;

    *out = tr__must_array((size_t)ops * SLOTS + 1, sizeof **out);
    *count = 0;
    for (int i = 0; i < ops; i++) {
        const tr_op_desc *op = tr_block_op_at(block, i);
        for (int s = 0; s < SLOTS && status == TR_OK && !strcmp(tr_op_desc_type(op), "dgc"); s++)
            if (tr_op_desc_output_count(op, SLOT[s]))
                status = describe(&(*out)[(*count)++], scope, op, SLOT[s]);
    }
    if (status != TR_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}
