/* server_program.c - a scope with first values, one plan, the gradients as its feeds. */
#include "pserver/server_program.h"

#include "framework/trireme.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
    tr_tensor *param;                 /* borrowed from the scope */
    void      *grad;
    char      *grad_name;
} block;

struct tr_server_program {
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    uint32_t     value_count, block_count;
    tr_tensor  **value;               /* borrowed from the scope */
    block       *block;
    tr_feed     *feed;
};

tr_server_program *tr_server_program_new(void)
{
    return calloc(1, sizeof(tr_server_program));
}

void tr_server_program_free(tr_server_program *sp)
{
    if (!sp)
        return;
    tr_executor_free(sp->executor);
    tr_scope_free(sp->scope);
    tr_program_free(sp->program);
    for (uint32_t i = 0; i < sp->block_count; i++) {
        free(sp->block[i].grad);
        free(sp->block[i].grad_name);
    }
    free(sp->value);
    free(sp->block);
    free(sp->feed);
    free(sp);
}

static tr_status make_value(tr_server_program *sp, uint32_t index, const Trireme__Pserver__Value *value)
{
    tr_tensor *t = tr_var_tensor(tr_scope_var(sp->scope, value->name));

    if (value->n_dims > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "first value of '%s': rank %zu", value->name, value->n_dims);
    TR_TRY(tr_tensor_resize(t, (tr_dtype)value->dtype, (int)value->n_dims, value->dims));
    if (tr_tensor_bytes(t) != (int64_t)value->bytes)
        return tr_fail(TR_ESHAPE, "first value of '%s': %lld bytes by its shape, %llu announced", value->name,
                       (long long)tr_tensor_bytes(t), (unsigned long long)value->bytes);
    sp->value[index] = t;
    return TR_OK;
}

static tr_status make_block(tr_server_program *sp, uint32_t index, const Trireme__Pserver__Block *from)
{
    block  *b = &sp->block[index];
    tr_var *var = tr_scope_find_local(sp->scope, from->param);

    if (!var)
        return tr_fail(TR_ENOTFOUND, "block %u: parameter '%s' has no first value", index, from->param);
    b->param = tr_var_tensor(var);
    if (tr_tensor_bytes(b->param) != (int64_t)from->bytes || tr_tensor_dtype(b->param) != (tr_dtype)from->dtype)
        return tr_fail(TR_ESHAPE, "block %u: parameter '%s' has %lld bytes of %s, its gradient %llu of %s", index,
                       from->param, (long long)tr_tensor_bytes(b->param), tr_dtype_name(tr_tensor_dtype(b->param)),
                       (unsigned long long)from->bytes, tr_dtype_name((tr_dtype)from->dtype));
    b->grad = aligned_alloc(64, (from->bytes + 63) & ~(uint64_t)63);
    b->grad_name = strdup(from->grad);
    if (!b->grad || !b->grad_name)
        return tr_fail(TR_ENOMEM, "no memory for gradient '%s' of %llu bytes", from->grad, (unsigned long long)from->bytes);
    return TR_OK;
}

tr_status tr_server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup)
{
    TR_TRY(tr_program_parse(&sp->program, setup->program.data, setup->program.len));
    sp->scope = tr_scope_new(NULL);
    sp->executor = tr_executor_new();
    sp->value = calloc(setup->n_values + 1, sizeof *sp->value);
    sp->block = calloc(setup->n_blocks + 1, sizeof *sp->block);
    sp->feed = calloc(setup->n_blocks + 1, sizeof *sp->feed);
    sp->value_count = (uint32_t)setup->n_values;
    sp->block_count = (uint32_t)setup->n_blocks;
    for (uint32_t i = 0; i < sp->value_count; i++)
        TR_TRY(make_value(sp, i, setup->values[i]));
    for (uint32_t i = 0; i < sp->block_count; i++)
        TR_TRY(make_block(sp, i, setup->blocks[i]));
    return TR_OK;
}

void *tr_server_program_value(tr_server_program *sp, uint32_t index)
{
    return tr_tensor_data(sp->value[index]);
}

/* What the optimizers keep must have come from trainer 0. */
static tr_status check_persistables(const tr_server_program *sp)
{
    tr_block *global = tr_program_block(sp->program, 0);

    for (int i = 0; i < tr_block_var_count(global); i++) {
        const tr_var_desc *var = tr_block_var_at(global, i);
        if (tr_var_desc_persistable(var) && tr_var_desc_kind(var) == TR_KIND_TENSOR &&
            !tr_scope_find_local(sp->scope, tr_var_desc_name(var)))
            return tr_fail(TR_ENOTFOUND, "the server's program keeps '%s', which has no first value", tr_var_desc_name(var));
    }
    return TR_OK;
}

tr_status tr_server_program_ready(tr_server_program *sp)
{
    const char **names = calloc(sp->block_count + 1, sizeof *names);
    tr_status    status = TR_OK;

    TR_TRY_GOTO(done, check_persistables(sp));
    for (uint32_t i = 0; i < sp->block_count; i++) {
        const block *b = &sp->block[i];
        names[i] = b->grad_name;
        sp->feed[i] = (tr_feed){.name = b->grad_name, .dtype = tr_tensor_dtype(b->param), .rank = tr_tensor_rank(b->param),
                                .dims = tr_tensor_dims(b->param), .data = b->grad};
    }
    TR_TRY_GOTO(done, tr_executor_prepare(&sp->plan, sp->executor, sp->program, sp->scope, (int)sp->block_count, names, 0,
                                          NULL));
done:
    free(names);
    return status;
}

void *tr_server_program_grad(tr_server_program *sp, uint32_t index)
{
    return sp->block[index].grad;
}

void *tr_server_program_param(tr_server_program *sp, uint32_t index)
{
    return tr_tensor_data(sp->block[index].param);
}

tr_status tr_server_program_run(tr_server_program *sp)
{
    return tr_plan_run(sp->plan, sp->feed, NULL);
}
