/* server_program.c - a scope with first values, and a plan of updates. */
#include "pserver/store/server_program.h"

#include "framework/base/memory.h"
#include "framework/base/name.h"
#include "framework/programs/program.h"
#include "framework/threads/threadpool.h"
#include "pserver/store/compensate.h"
#include "pserver/store/double_buffers.h"
#include "pserver/store/frozen.h"
#include "pserver/store/server_memory.h"
#include "pserver/store/table_places.h"
#include "pserver/util/wake.h"
#include "storage/table/pushed_rows.h"
#include "storage/table/table_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tr_server_program *tr_server_program_new(tr_weak *job, tr_times *applied)
{
    tr_server_program *sp = tr__must_alloc(sizeof *sp);

    sp->job = job;
    sp->applied = applied;
    return sp;
}

static void deinit(tr_server_program *sp)
{
    tr_frozen_free(sp->frozen);
    tr_restored_free(sp->restored);
    tr_update_plan_free(sp->plan);
    for (uint32_t i = 0; sp->is_over && i < sp->table_count; i++)
        if (sp->table[i]->name)
            tr_table_remove(sp->table[i]->name);
    tr_scope_free(sp->scope);
    tr_program_free(sp->program);
    tr_state_free(sp->state, sp->is_over);
    tr_state_free(sp->left_state, false);
    tr__server_memory_free(sp);
    free(sp->table);
    free(sp->pushed);
    free(sp->about);
    free(sp->value);
    free(sp->param);
    for (int side = 0; side < 2; side++) {
        free(sp->value_memory[side]);
        free(sp->param_memory[side]);
    }
}

void tr_server_program_free(tr_server_program *sp)
{
    if (sp)
        deinit(sp);
    free(sp);
}

void tr__server_program_forget(tr_server_program *sp)
{
    sp->is_over = true;
    deinit(sp);
    *sp = (tr_server_program){.job = sp->job, .applied = sp->applied, .part = sp->part};
}

static tr_status make_value(tr_server_program *sp, uint32_t index, const Trireme__Pserver__Value *value)
{
    tr_shape   shape;
    tr_tensor *t;

    TR_TRY(tr_name_check(value->name));
    t = tr_var_tensor(tr__scope_var(sp->scope, value->name));
    if (value->n_dims > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "first value of '%s': rank %zu", value->name, value->n_dims);
    uint64_t bytes = value->dtype < TR_DTYPE_COUNT ? (uint64_t)tr_dtype_size((tr_dtype)value->dtype) : 0;
    for (size_t i = 0; i < value->n_dims; i++)
        if (value->dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)value->dims[i], &bytes))
            return tr_fail(TR_ESHAPE, "first value of '%s': dimension %zu is %lld", value->name, i, (long long)value->dims[i]);
    if (bytes != value->bytes)
        return tr_fail(TR_ESHAPE, "first value of '%s': %llu bytes by its shape, %llu announced", value->name,
                       (unsigned long long)bytes, (unsigned long long)value->bytes);
    shape = tr_shape_of((int)value->n_dims, value->dims);
    const tr_status status = tr_double_buffers_put(sp->state, t, (tr_dtype)value->dtype, &shape);
    if (status != TR_OK)
        return tr_context(status, "for '%s', %llu bytes", value->name, (unsigned long long)bytes);
    sp->value[index] = t;
    return TR_OK;
}

static tr_status make_block(tr_server_program *sp, uint32_t index, const Trireme__Pserver__Block *from)
{
    tr_var *var = tr_scope_find_local(sp->scope, from->param);

    if (!var)
        return tr_fail(TR_ENOTFOUND, "block %u: parameter '%s' has no first value", index, from->param);
    const tr_tensor *param = sp->param[index] = tr_var_tensor(var);
    if (tr_tensor_bytes(param) != (int64_t)from->bytes || tr_tensor_dtype(param) != (tr_dtype)from->dtype)
        return tr_fail(TR_ESHAPE, "block %u: parameter '%s' has %lld bytes of %s, its gradient %llu of %s", index,
                       from->param, (long long)tr_tensor_bytes(param), tr_dtype_name(tr_tensor_dtype(param)),
                       (unsigned long long)from->bytes, tr_dtype_name((tr_dtype)from->dtype));
    return TR_OK;
}

/* Make the variable of a table's gradient. */
static tr_pushed_rows *make_pushed(tr_server_program *sp, const char *table)
{
    char           *name = tr__must_format("%s" TR_PUSHED, table);
    tr_pushed_rows *pushed = tr_pushed_rows_new(tr__scope_var(sp->scope, name));
    tr_var_desc    *var = tr__block_var(tr_program_block(sp->program, 0), name);

    tr_var_desc_set_kind(var, TR_KIND_RAW);
    tr_var_desc_set_persistable(var, true);
    free(name);
    return pushed;
}

/* Let operators name the gradient of their table where they do not, as in jobs that were saved before there was such a variable. */
static void name_pushed(tr_server_program *sp)
{
    tr_block *block = tr_program_block(sp->program, 0);

    for (int i = 0; i < block->op_count; i++) {
        tr_op_desc *op = block->op[i];
        const char *table = tr_op_desc_input(op, "W", 0);
        const bool  updates = !strcmp(op->type, "lookup_sparse_table_update") && !tr_op_desc_input_count(op, "Grad");
        if (!table || (!updates && strcmp(op->type, "pushed_rows") != 0))
            continue;
        char *name = tr__must_format("%s" TR_PUSHED, table);
        if (!updates)
            tr_op_desc_set_input(op, "W", 0, NULL);
        tr_op_desc_set_input(op, updates ? "Grad" : "X", 1, (const char *const *)&name);
        free(name);
    }
}

static uint64_t stride_of(const Trireme__Pserver__Table *from)
{
    const tr_table_config config = {.dtype = (tr_dtype)from->dtype, .width = from->width, .states = (int)from->n_state_values};

    return tr_table_stride(&config);
}

/* Bytes of one row of each table together. */
static uint64_t strides_of(const Trireme__Pserver__Setup *setup)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < setup->n_tables; i++)
        bytes += stride_of(setup->tables[i]);
    return bytes;
}

/* `strides`: bytes of one row of each table together. */
static tr_status make_table(tr_server_program *sp, uint32_t index, uint64_t strides, const char *name, bool resume)
{
    const Trireme__Pserver__Table *from = sp->setup->tables[index];
    char                 own[TR_SEGMENT_NAME];
    tr_table_segment     place = {.name = tr_server_table_name(own, name, from->name), .first_shard = from->first_shard,
                                  .shard_count = from->shard_count, .spill = from->spill, .memory = from->memory};
    tr_table_config      config = {
        .dtype = (tr_dtype)from->dtype, .width = from->width, .states = (int)from->n_state_values, .init = (tr_table_init)from->init,
        .a = from->a, .b = from->b, .random_key = from->random_key, .entry_count = from->entry_count,
        .entry_probability = from->entry_probability, .max_age = from->max_age, .keep_count = from->keep_count,
        .max_rows = from->max_rows};
    tr_var  *var;
    tr_table *made;

    TR_TRY(tr_name_check(from->name));
    var = tr__scope_var(sp->scope, from->name);
    if (from->n_state_values > TR_TABLE_STATES)
        return tr_fail(TR_EFORMAT, "table '%s': %zu states", from->name, from->n_state_values);
    for (int i = 0; i < config.states; i++)
        config.state_value[i] = from->state_values[i];
    TR_TRY(tr_table_complete_place(&place, stride_of(from), strides));
    TR_TRY(tr_table_var_set(var, &config, &place));
    TR_TRY(tr_table_var_of(&sp->table[index], var, "setup", from->name));
    sp->pushed[index] = make_pushed(sp, from->name);
    sp->table[index]->before = sp->table[index]->updates = from->updates;
    if (resume)
        return tr_table_var_attach(sp->table[index], from->updates + tr_state_committed(sp->state).updates);
    if (sp->restored) {
        TR_TRY(tr_restored_take(&sp->table[index]->table, sp->restored, from->name, &config, &place));
        tr_table_go_back(sp->table[index]->table, from->updates);      /* its clock begins there */
        return TR_OK;
    }
    if (name)
        tr_table_remove(own);                      /* usually there is no old one */
    const tr_status status = tr_table_var_table(&made, sp->table[index]);
    return status == TR_OK ? TR_OK
                           : tr_context(status, "while sparse table '%s', number %d of this server, was made", from->name, (int)index + 1);
}

static void note_memory(tr_server_program *sp)
{
    for (uint32_t i = 0; i < sp->value_count; i++)
        sp->value_memory[sp->side][i] = tr_tensor_data(sp->value[i]);
    for (uint32_t i = 0; i < sp->block_count; i++)
        sp->param_memory[sp->side][i] = tr_tensor_data(sp->param[i]);
}

void tr__server_program_switch(tr_server_program *sp)
{
    tr_update_plan_switch(sp->plan);
    sp->side = !sp->side;
}

/* From here on this process is a server, whatever it was started as. */
static tr_status take_threads(void)
{
    int threads;

    TR_TRY(tr__num_threads_of(&threads, TR_SERVER_THREADS));
    if (threads)
        tr_set_num_threads(threads);
    return TR_OK;
}

tr_status tr__server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, tr_state *state,
                                   bool resume)
{
    char        text[TR_SEGMENT_NAME];
    const char *name = tr__server_program_name(text, sp);

    sp->state = state;
    sp->setup = setup;
    TR_TRY(take_threads());
    sp->by_pieces = !policy->gathers_per_trainer;
    TR_TRY(tr_program_parse(&sp->program, setup->program.data, setup->program.len));
    sp->scope = tr_scope_new(NULL);
    sp->value = tr__must_array(setup->n_values + 1, sizeof *sp->value);
    sp->param = tr__must_array(setup->n_blocks + 1, sizeof *sp->param);
    for (int side = 0; side < 2; side++) {
        sp->value_memory[side] = tr__must_array(setup->n_values + 1, sizeof **sp->value_memory);
        sp->param_memory[side] = tr__must_array(setup->n_blocks + 1, sizeof **sp->param_memory);
    }
    sp->value_count = (uint32_t)setup->n_values;
    sp->block_count = (uint32_t)setup->n_blocks;
    sp->table = tr__must_array(setup->n_tables + 1, sizeof *sp->table);
    sp->pushed = tr__must_array(setup->n_tables + 1, sizeof *sp->pushed);
    if (!resume)
        tr__server_memory_remove(sp);              /* the segments of an earlier job that is not resumed */
    sp->about = tr__must_array(setup->n_tables + 1, sizeof *sp->about);
    sp->table_count = (uint32_t)setup->n_tables;
    const uint64_t strides = strides_of(setup);
    for (uint32_t i = 0; i < sp->table_count; i++)
        TR_TRY(make_table(sp, i, strides, name, resume));
    name_pushed(sp);
    for (uint32_t i = 0; i < sp->value_count; i++)
        TR_TRY(make_value(sp, i, setup->values[i]));
    for (uint32_t i = 0; i < sp->block_count; i++)
        TR_TRY(make_block(sp, i, setup->blocks[i]));
    note_memory(sp);
    return TR_OK;
}

/* The first values of all variables that the optimizers keep must have come from trainer 0. */
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

tr_status tr_server_program_read(tr_restored **out, const char *path, uint64_t number, const tr_server_part *part)
{
    char name[TR_SEGMENT_NAME];

    return tr_restored_read(out, path, number, part, tr__server_name(name, part->server));
}

void tr_server_program_restore(tr_server_program *sp, tr_restored *restored)
{
    tr_restored_free(sp->restored);
    sp->restored = restored;
}

tr_status tr_server_program_fill(tr_server_program *sp)
{
    for (uint32_t i = 0; i < sp->value_count; i++)
        if (sp->setup->values[i]->is_restored)
            TR_TRY(tr_restored_value(sp->restored, sp->setup->values[i], tr__server_program_value(sp, i)));
    tr_server_program_restore(sp, NULL);
    return TR_OK;
}

const tr_table_config *tr_server_program_table_config(const tr_server_program *sp, uint32_t index, uint32_t *first_shard,
                                                      uint32_t *shard_count)
{
    *first_shard = sp->setup->tables[index]->first_shard;
    *shard_count = sp->setup->tables[index]->shard_count;
    return &sp->table[index]->config;
}

bool tr_server_program_table(const tr_server_program *sp, uint32_t index, tr_table_part *out, tr_table_disk *disk, const char **name)
{
    if (index >= sp->table_count)
        return false;
    tr_table_describe(out, sp->table[index]->table);
    tr_table_describe_disk(disk, sp->table[index]->table);
    *name = sp->setup->tables[index]->name;
    return true;
}

tr_status tr_server_program_freeze(tr_server_program *sp)
{
    return tr_frozen_take(&sp->frozen, sp);
}

void tr_server_program_thaw(tr_server_program *sp)
{
    tr_frozen_free(sp->frozen);
    sp->frozen = NULL;
}

void tr_server_program_over(tr_server_program *sp)
{
    sp->is_over = true;
}

/* == life ====================================================================================== */

static tr_status make_plan(tr_server_program *sp)
{
    tr_update_block *blocks = tr__must_array(sp->block_count + 1, sizeof *blocks);

    for (uint32_t i = 0; i < sp->block_count; i++)
        blocks[i] = (tr_update_block){sp->setup->blocks[i]->param, sp->setup->blocks[i]->grad};
    const tr_status status = tr_update_plan_new(&sp->plan, sp->job, sp->program, sp->scope, sp->state, sp->by_pieces, sp->block_count,
                                                blocks);
    free(blocks);
    return status;
}

tr_status tr__server_program_ready(tr_server_program *sp)
{
    TR_TRY(check_persistables(sp));
    TR_TRY(make_plan(sp));
    tr__server_program_switch(sp);
    note_memory(sp);
    if (!tr_state_side(sp->state))
        tr__server_program_switch(sp);
    return TR_OK;
}

bool tr_server_program_is_quick(const tr_server_program *sp)
{
    return tr_update_plan_is_quick(sp->plan) && sp->table_count == 0;
}

/* Let the update read what trainers have set. The present buffers stay as they are: the update may never count, and others read them. What
 * has one buffer, which no update changes, is assigned. No piece of this update was computed before. */
static tr_status set_values(tr_server_program *sp, const tr_update *update)
{
    for (uint32_t i = 0; i < update->set_count; i++) {
        const tr_set_value set = update->set[i];
        if (sp->value_memory[0][set.value] != sp->value_memory[1][set.value])
            sp->value[set.value]->data = (void *)(uintptr_t)set.data;
        else
            tr_parallel_copy(sp->value_memory[sp->side][set.value], set.data, tr__server_program_value_bytes(sp, set.value));
    }
    for (uint32_t i = 0; update->set_count && i < sp->block_count; i++)
        if (tr_update_plan_has_pieces(sp->plan, i))
            TR_TRY(tr_update_plan_piece(sp->plan, i, 0, (uint64_t)tr_tensor_bytes(sp->param[i]), update->grad[i]));
    return TR_OK;
}

tr_status tr_server_program_piece(tr_server_program *sp, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    if (!tr_update_plan_has_pieces(sp->plan, index))
        return TR_OK;
    const int64_t   from = tr__clock();
    const tr_status status = tr_update_plan_piece(sp->plan, index, offset, bytes, grad);

    sp->in_pieces += tr__clock() - from;
    return status;
}

static tr_status run(tr_server_program *sp, const tr_update *update)
{
    TR_TRY(set_values(sp, update));
    for (uint32_t i = 0; update->compensation > 0 && i < sp->block_count; i++)
        tr_compensate(sp->param[i]->dtype, update->grad[i], sp->param[i]->data, update->pulled[i], tr_tensor_count(sp->param[i]),
                      update->compensation);
    for (uint32_t i = 0; i < sp->table_count; i++) {
        sp->pushed[i]->update = &update->rows[i];
        sp->table[i]->updates = sp->table[i]->before + update->number - 1;
    }
    return tr_update_plan_run(sp->plan, update->grad);
}

tr_status tr_server_program_run(tr_server_program *sp, const tr_update *update)
{
    const int64_t   from = tr__clock();
    const tr_status status = run(sp, update);

    for (uint32_t i = 0; i < update->set_count; i++)           /* the tensors have their own memory again */
        sp->value[update->set[i].value]->data = tr__server_program_value(sp, update->set[i].value);
    tr_times_add(sp->applied, tr__clock() - from + sp->in_pieces);
    sp->in_pieces = 0;
    return status;
}

/* == checkpoints =============================================================================== */

uint32_t tr_server_program_state_capacity(const tr_server_program *sp)
{
    return sp->value_count + sp->table_count;
}

int tr_server_program_states(tr_server_program *sp, tr_checkpoint_item *out)
{
    int count = 0;

    for (uint32_t i = 0; i < sp->value_count; i++) {
        const Trireme__Pserver__Value *value = sp->setup->values[i];
        tr_tensor                     *t = sp->value[i];
        if (!value->source)
            continue;
        out[count++] = (tr_checkpoint_item){
            .name = value->source, .param = value->owner, .kind = (tr_state_kind)value->state, .dtype = tr_tensor_dtype(t),
            .rank = tr_tensor_rank(t), .dims = tr_tensor_dims(t), .row = value->has_rows ? (int64_t)value->row : 0,
            .rows = value->has_rows ? (int64_t)value->rows : 0, .data = tr__server_program_value(sp, i)};
    }
    for (uint32_t i = 0; i < sp->table_count; i++) {
        const char *name = sp->setup->tables[i]->name;
        tr_table_var_describe(&sp->about[i], sp->table[i], name);
        out[count++] = (tr_checkpoint_item){.name = name, .kind = TR_STATE_TABLE, .data = &sp->about[i]};
    }
    return count;
}
