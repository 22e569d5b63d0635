#include "storage/table/table_tile.h"

#include "framework/programs/program.h"

#include <stdlib.h>
#include <string.h>

struct tr_table_tile {
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    int64_t      rows, width;
    int          states;
    tr_tensor   *param, *grad, *state[TR_TABLE_STATES];      /* borrowed from the scope */
    uint32_t    *slots;                                      /* of `rows` */
};

void tr_table_tile_free(tr_table_tile *tile)
{
    if (!tile)
        return;
    tr_executor_free(tile->executor);
    tr_scope_free(tile->scope);
    tr_program_free(tile->program);
    free(tile->slots);
    free(tile);
}

/* == the program =================================================================================== */

/* Does this variable outlive a run of the operators? Rows do, and numbers from outside. */
static bool is_kept(const tr_table_tile_names *names, const tr_block *from, const tr_var_desc *var)
{
    bool is_state = false;

    for (int i = 0; i < names->states.count; i++)
        is_state |= !strcmp(names->states.item[i], var->name);
    return is_state || var->block != from || !strcmp(var->name, names->param) || !strcmp(var->name, names->grad);
}

/* Declare the operator's variables as they are declared in the block or in a block around it. */
static tr_status declare(tr_table_tile *tile, tr_block *from, const tr_table_tile_names *names, const tr_slot *slots, int count)
{
    tr_block *to = tr_program_block(tile->program, 0);

    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            const char        *name = slots[s].arg[i];
            const tr_var_desc *known = tr_block_find_var_recursive(from, name);
            if (!known)
                return tr_fail(TR_ENOTFOUND, "lookup_sparse_table_update: its block names '%s', which is declared nowhere", name);
            tr_var_desc *var = tr__block_var(to, name);
            tr_var_desc_set_kind(var, TR_KIND_TENSOR);
            tr_var_desc_set_dtype(var, known->dtype);
            TR_TRY(tr_var_desc_set_shape(var, known->shape.rank, known->shape.dim));
            tr_var_desc_set_persistable(var, is_kept(names, from, known));
        }
    return TR_OK;
}

static tr_status copy_ops(tr_table_tile *tile, tr_block *from, const tr_table_tile_names *names)
{
    for (int i = 0; i < from->op_count; i++) {
        const tr_op_desc *op = from->op[i];
        TR_TRY(declare(tile, from, names, op->in, op->in_count));
        TR_TRY(declare(tile, from, names, op->out, op->out_count));
        tr_op_desc *copy = tr__op_desc_clone(op);
        const tr_status status = tr_block_insert_op(tr_program_block(tile->program, 0), -1, copy);
        if (status != TR_OK) {
            tr_op_desc_free(copy);
            return status;
        }
    }
    return TR_OK;
}

/* Variables that outlive a run of the tile have memory in the scope. */
static tr_status make_scope(tr_table_tile *tile)
{
    tr_block *block = tr_program_block(tile->program, 0);

    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *var = tr_block_var_at(block, i);
        if (!var->persistable)
            continue;
        tr_tensor *t = tr_var_tensor(tr__scope_var(tile->scope, var->name));
        if (!tr_shape_is_known(&var->shape))
            return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' of its block has no fixed shape", var->name);
        TR_TRY(tr_tensor_resize(t, var->dtype, var->shape.rank, var->shape.dim));
        memset(t->data, 0, (size_t)tr_tensor_bytes(t));
    }
    return TR_OK;
}

static tr_status find_tile(tr_tensor **out, const tr_table_tile *tile, const char *name)
{
    tr_var *var = tr_scope_find_local(tile->scope, name);

    if (!var)
        return tr_fail(TR_ENOTFOUND, "lookup_sparse_table_update: no operator of its block uses '%s'", name);
    tr_tensor *t = *out = tr_var_tensor(var);
    if (t->dtype != TR_FP32 || t->shape.rank != 2 || t->shape.dim[1] != tile->width || (tile->rows && t->shape.dim[0] != tile->rows))
        return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' is %s %s; float32 [rows, %lld], with equal rows for all, is expected",
                       name, tr_dtype_name(t->dtype), TR_SHAPE_STR(t->shape), (long long)tile->width);
    return TR_OK;
}

static tr_status make(tr_table_tile *tile, tr_block *block, const tr_table_tile_names *names, const tr_table_config *config)
{
    tile->program = tr_program_new();
    tile->scope = tr_scope_new(NULL);
    tile->executor = tr_executor_new();
    tile->width = config->width;
    tile->states = config->states;
    if (names->states.count != config->states)
        return tr_fail(TR_EINVAL, "lookup_sparse_table_update: the optimizer of '%s' keeps %d states for each element, the table has room for "
                       "%d: run the startup program after minimize", names->param, names->states.count, config->states);
    TR_TRY(copy_ops(tile, block, names));
    TR_TRY(make_scope(tile));
    TR_TRY(find_tile(&tile->param, tile, names->param));
    tile->rows = tile->param->shape.dim[0];
    tile->slots = malloc((size_t)tile->rows * sizeof *tile->slots);
    if (!tile->slots)
        return tr_fail(TR_ENOMEM, "lookup_sparse_table_update: no memory for %lld rows", (long long)tile->rows);
    TR_TRY(find_tile(&tile->grad, tile, names->grad));
    for (int i = 0; i < tile->states; i++)
        TR_TRY(find_tile(&tile->state[i], tile, names->states.item[i]));
    return tr_executor_prepare(&tile->plan, tile->executor, tile->program, tile->scope, 0, NULL, 0, NULL);
}

tr_status tr_table_tile_new(tr_table_tile **out, tr_program *program, int block, const tr_table_tile_names *names,
                            const tr_table_config *config)
{
    tr_block *from = tr_program_block(program, block);

    if (!from)
        return tr_fail(TR_EFORMAT, "lookup_sparse_table_update: attribute sub_block names no block");
    tr_table_tile *tile = calloc(1, sizeof *tile);
    if (!tile)
        return tr_fail(TR_ENOMEM, "lookup_sparse_table_update: no memory");
    const tr_status status = make(tile, from, names, config);
    if (status == TR_OK)
        *out = tile;
    else
        tr_table_tile_free(tile);
    return status;
}

tr_status tr_table_tile_set(tr_table_tile *tile, const char *name, const tr_tensor *value)
{
    tr_var *var = tr_scope_find_local(tile->scope, name);

    if (!var)
        return TR_OK;                                  /* no operator that is needed reads this number */
    tr_tensor *t = tr_var_tensor(var);
    if (tr_tensor_bytes(t) != tr_tensor_bytes(value) || t->dtype != value->dtype)
        return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' is %s %s, its block has %s %s", name, tr_dtype_name(value->dtype),
                       TR_SHAPE_STR(value->shape), tr_dtype_name(t->dtype), TR_SHAPE_STR(t->shape));
    memcpy(t->data, value->data, (size_t)tr_tensor_bytes(t));
    return TR_OK;
}

/* == an update ===================================================================================== */

static tr_status run_tile(tr_table_tile *tile, tr_table *table, const uint32_t *slots, const float *grads, int64_t n)
{
    const size_t row = (size_t)tile->width * sizeof(float);
    float       *state[TR_TABLE_STATES];
    float       *grad = tile->grad->data;

    for (int i = 0; i < tile->states; i++)
        state[i] = tile->state[i]->data;
    tr_table_gather(table, slots, n, tile->param->data, state);
    memcpy(grad, grads, (size_t)n * row);
    memset(grad + n * tile->width, 0, (size_t)(tile->rows - n) * row);
    TR_TRY(tr_plan_run(tile->plan, NULL, NULL));
    for (int i = 0; i < tile->states; i++)
        state[i] = tile->state[i]->data;
    return tr_table_scatter(table, slots, n, tile->param->data, (const float *const *)state);
}

tr_status tr_table_tile_begin(tr_table *table, uint64_t step)
{
    TR_TRY(tr_table_evict(table, step - 1, NULL));
    return tr_table_begin(table, step);
}

/* One tile at a time, first find the places, then read the values: the second access finds the rows in the cache. */
tr_status tr_table_tile_run(tr_table_tile *tile, tr_table *table, const int64_t *keys, const uint32_t *hints, const float *grads,
                            int64_t n)
{
    for (int64_t at = 0; at < n; at += tile->rows) {
        const int64_t count = n - at < tile->rows ? n - at : tile->rows;
        TR_TRY(hints ? tr_table_take_hinted(table, tile->slots, hints + at, keys + at, count)
                     : tr_table_take(table, tile->slots, keys + at, count));
        TR_TRY(run_tile(tile, table, tile->slots, grads + at * tile->width, count));
    }
    return TR_OK;
}
