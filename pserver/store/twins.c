/* twins.c - see twins.h. */
#include "pserver/store/twins.h"

#include "framework/memory.h"
#include "framework/program.h"
#include "framework/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The twin of "w" is "w@NEXT". */
#define NEXT "@NEXT"
enum { NAME_MAX_BYTES = 512 };

typedef struct rewriting {
    tr_twins *twins;
    tr_block *block;
} rewriting;

tr_status tr_twins_place(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape)
{
    void *memory;

    TR_TRY(tr_state_take(&memory, state, (uint64_t)(tr_shape_numel(shape) * tr_dtype_size(dtype))));
    tr__tensor_point(tensor, dtype, shape, memory);
    return TR_OK;
}

static bool is_twin_name(const char *name)
{
    const size_t length = strlen(name), suffix = strlen(NEXT);
    return length > suffix && !strcmp(name + length - suffix, NEXT);
}

/* Is this a variable that is kept between updates? */
static bool is_kept(const rewriting *r, const char *name)
{
    return tr_scope_find_local(r->twins->scope, name) && !is_twin_name(name);
}

static tr_status make_twin(const rewriting *r, const char *name, const char *next_name)
{
    tr_twins  *t = r->twins;
    tr_tensor *now = tr_var_tensor(tr_scope_find_local(t->scope, name));

    if (tr_block_find_var(r->block, next_name))
        return TR_OK;
    tr_var_desc *desc = tr__block_var(r->block, next_name);
    tr_var_desc_set_kind(desc, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(desc, tr_tensor_dtype(now));
    TR_TRY(tr_var_desc_set_shape(desc, tr_tensor_rank(now), tr_tensor_dims(now)));
    tr_var_desc_set_persistable(desc, true);
    tr_tensor *next = tr_var_tensor(tr__scope_var(t->scope, next_name));
    TR_TRY(tr_twins_place(t->state, next, now->dtype, &now->shape));
    t->item = tr__must_realloc(t->item, (t->count + 1) * sizeof *t->item);
    t->item[t->count++] = (tr_twin){now, next};
    return TR_OK;
}

/* An output is written to its twin. An input is read there when an operator before this one wrote it. */
static tr_status rename_slot(const rewriting *r, const tr_slot *slot, bool is_output, char (*text)[NAME_MAX_BYTES], const char **names)
{
    for (int i = 0; i < slot->count; i++) {
        const char *name = slot->arg[i];
        names[i] = name;
        if (!is_kept(r, name))
            continue;
        if ((size_t)snprintf(text[i], sizeof *text, "%s" NEXT, name) >= sizeof *text)
            return tr_fail(TR_ERANGE, "the name '%.60s...' is too long", name);
        if (is_output)
            TR_TRY(make_twin(r, name, text[i]));
        if (is_output || tr_block_find_var(r->block, text[i]))
            names[i] = text[i];
    }
    return TR_OK;
}

static tr_status rewrite_slot(const rewriting *r, tr_op_desc *op, const tr_slot *slot, bool is_output)
{
    char         (*text)[NAME_MAX_BYTES] = tr__must_array((size_t)slot->count, sizeof *text);
    const char   **names = tr__must_array((size_t)slot->count, sizeof *names);
    const tr_status status = rename_slot(r, slot, is_output, text, names);

    if (status == TR_OK && is_output)
        tr_op_desc_set_output(op, slot->name, slot->count, names);
    else if (status == TR_OK)
        tr_op_desc_set_input(op, slot->name, slot->count, names);
    free(names);
    free(text);
    return status;
}

static tr_status rewrite_op(const rewriting *r, tr_op_desc *op)
{
    for (int s = 0; s < op->in_count; s++)
        TR_TRY(rewrite_slot(r, op, &op->in[s], false));
    for (int s = 0; s < op->out_count; s++)
        TR_TRY(rewrite_slot(r, op, &op->out[s], true));
    return TR_OK;
}

tr_status tr_twins_init(tr_twins *twins, tr_program *program, tr_scope *scope, tr_state *state)
{
    const rewriting r = {twins, tr_program_block(program, 0)};

    *twins = (tr_twins){.scope = scope, .state = state};
    for (int i = 0; i < r.block->op_count; i++)
        TR_TRY(rewrite_op(&r, r.block->op[i]));
    return TR_OK;
}

void tr_twins_deinit(tr_twins *twins)
{
    free(twins->item);
    *twins = (tr_twins){0};
}

void tr_twins_switch(tr_twins *twins)
{
    for (uint32_t i = 0; i < twins->count; i++) {
        tr_tensor *now = twins->item[i].now, *next = twins->item[i].next;
        void      *data = now->data;
        now->data = next->data;
        next->data = data;
    }
}

void *tr_twins_before(const tr_twins *twins, tr_tensor *tensor)
{
    for (uint32_t i = 0; i < twins->count; i++)
        if (twins->item[i].now == tensor)
            return tr_tensor_data(twins->item[i].next);
    return tr_tensor_data(tensor);
}
