/* server_program.c - a scope with first values, one plan, the gradients as its feeds. */
#include "pserver/store/server_program.h"

#include "framework/memory.h"
#include "framework/tensor.h"
#include "framework/name.h"
#include "framework/program.h"
#include "pserver/store/compensate.h"
#include "pserver/store/server_pieces.h"
#include "pserver/table/table_report.h"
#include "pserver/table/table_var.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a variable's next value is made. */
#define NEXT "@NEXT"
enum { TWIN_NAME_MAX = 512 };

typedef struct block {
    tr_tensor *param;                 /* borrowed from the scope */
    char      *grad_name;
} block;

/* A variable that updates change. */
typedef struct twin {
    tr_tensor *now, *next;            /* borrowed from the scope */
} twin;

struct tr_server_program {
    const Trireme__Pserver__Setup *setup;          /* borrowed */
    bool          gathers_per_trainer;                   /* tr_policy.gathers_per_trainer: no update is made piece by piece */
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    uint32_t     value_count, block_count;
    tr_tensor  **value;               /* borrowed from the scope */
    block       *block;
    tr_feed     *feed;
    uint32_t     twin_count;
    twin        *twin;
    bool         is_over;             /* the job is, well: nobody will need it any more */
    tr_state    *state;               /* memory of all that is kept */
    tr_server_pieces *pieces;         /* NULL: everything is computed when all is there */
    bool         is_quick;
    uint32_t     table_count;
    tr_table_var **table;             /* borrowed from the scope */
    tr_job_table *about;              /* of each table */
    tr_segment  *tasks;               /* their state; NULL: none, or none that outlives the process */
    tr_segment  *board;               /* the same of the board */
};

tr_server_program *tr_server_program_new(void)
{
    return tr__must_alloc(sizeof(tr_server_program));
}

static void let_go(tr_segment *segment, bool is_over)
{
    if (segment && is_over)
        tr_segment_remove(tr_segment_name(segment));
    tr_segment_free(segment);
}

void tr_server_program_free(tr_server_program *sp)
{
    if (!sp)
        return;
    tr_server_pieces_free(sp->pieces);
    tr_executor_free(sp->executor);
    for (uint32_t i = 0; sp->is_over && i < sp->table_count; i++)
        if (sp->table[i]->name)
            tr_table_remove(sp->table[i]->name);
    tr_scope_free(sp->scope);
    tr_program_free(sp->program);
    for (uint32_t i = 0; i < sp->block_count; i++)
        free(sp->block[i].grad_name);
    tr_state_free(sp->state, sp->is_over);
    let_go(sp->tasks, sp->is_over);
    let_go(sp->board, sp->is_over);
    free(sp->table);
    free(sp->about);
    free(sp->twin);
    free(sp->value);
    free(sp->block);
    free(sp->feed);
    free(sp);
}

/* Let a tensor lie in what is kept. */
static tr_status take_memory(tr_server_program *sp, tr_tensor *t, tr_dtype dtype, const tr_shape *shape)
{
    void *memory;

    TR_TRY(tr_state_take(&memory, sp->state, (uint64_t)(tr_shape_numel(shape) * tr_dtype_size(dtype))));
    tr__tensor_point(t, dtype, shape, memory);
    return TR_OK;
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
    TR_TRY(take_memory(sp, t, (tr_dtype)value->dtype, &shape));
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
    b->grad_name = strdup(from->grad);
    return b->grad_name ? TR_OK : tr_fail(TR_ENOMEM, "no memory for the name '%s'", from->grad);
}

static tr_status make_table(tr_server_program *sp, uint32_t index, const Trireme__Pserver__Table *from, const char *name,
                            bool resume)
{
    char                 own[TR_SEGMENT_NAME + 16];
    const tr_table_place place = {name ? own : NULL, from->first_shard, from->shard_count, 0};
    tr_table_config      config = {
        .dtype = (tr_dtype)from->dtype, .width = from->width, .states = (int)from->n_state_values, .init = (tr_table_init)from->init,
        .a = from->a, .b = from->b, .random_key = from->random_key, .entry_count = from->entry_count,
        .entry_probability = from->entry_probability, .max_age = from->max_age, .keep_count = from->keep_count,
        .max_rows = from->max_rows};
    tr_var  *var;
    tr_table *made;

    snprintf(own, sizeof own, "%s.t%u", name ? name : "", index);
    TR_TRY(tr_name_check(from->name));
    var = tr__scope_var(sp->scope, from->name);
    if (from->n_state_values > TR_TABLE_STATES)
        return tr_fail(TR_EFORMAT, "table '%s': %zu states", from->name, from->n_state_values);
    for (int i = 0; i < config.states; i++)
        config.state_value[i] = from->state_values[i];
    TR_TRY(tr_table_var_set(var, &config, &place));
    TR_TRY(tr_table_var_of(&sp->table[index], var, "setup", from->name));
    sp->table[index]->before = sp->table[index]->updates = from->updates;
    if (resume)
        return tr_table_var_attach(sp->table[index], from->updates + tr_state_committed(sp->state).updates);
    if (name)
        tr_table_remove(own);                      /* there is none, mostly */
    return tr_table_var_table(&made, sp->table[index]);
}

static const char *tasks_name(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s.tasks", name);
    return out;
}

static const char *board_name(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s.board", name);
    return out;
}

tr_status tr_server_program_setup(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, tr_state *state,
                                  const char *name, bool resume)
{
    sp->state = state;
    sp->setup = setup;
    sp->gathers_per_trainer = policy->gathers_per_trainer;
    TR_TRY(tr_program_parse(&sp->program, setup->program.data, setup->program.len));
    sp->scope = tr_scope_new(NULL);
    sp->executor = tr_executor_new();
    sp->value = tr__must_array(setup->n_values + 1, sizeof *sp->value);
    sp->block = tr__must_array(setup->n_blocks + 1, sizeof *sp->block);
    sp->feed = tr__must_array(setup->n_blocks + 1, sizeof *sp->feed);
    sp->value_count = (uint32_t)setup->n_values;
    sp->block_count = (uint32_t)setup->n_blocks;
    sp->table = tr__must_array(setup->n_tables + 1, sizeof *sp->table);
    if (name && !resume) {                         /* of a job that was not gone on with */
        char own[TR_SEGMENT_NAME + 16];
        tr_segment_remove(tasks_name(own, sizeof own, name));
        if (!sp->board)                            /* trainers may meet before the setup */
            tr_segment_remove(board_name(own, sizeof own, name));
    }
    sp->about = tr__must_array(setup->n_tables + 1, sizeof *sp->about);
    sp->table_count = (uint32_t)setup->n_tables;
    for (uint32_t i = 0; i < sp->table_count; i++)
        TR_TRY(make_table(sp, i, setup->tables[i], name, resume));
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

uint32_t tr_server_program_values(const tr_server_program *sp)
{
    return sp->value_count;
}

uint64_t tr_server_program_value_bytes(const tr_server_program *sp, uint32_t index)
{
    return (uint64_t)tr_tensor_bytes(sp->value[index]);
}

tr_table *tr_server_program_rows_of(const tr_server_program *sp, uint32_t table)
{
    return table < sp->table_count ? sp->table[table]->table : NULL;
}

uint32_t tr_server_program_age(const tr_server_program *sp)
{
    return sp->state ? tr_state_age(sp->state) : 0;
}

void tr_server_program_set_age(tr_server_program *sp, uint32_t age)
{
    if (sp->state)
        tr_state_set_age(sp->state, age);
}

void tr_server_program_set_replica_rank(tr_server_program *sp, int rank)
{
    if (sp->state)
        tr_state_set_replica_rank(sp->state, rank);
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

/* == two buffers =============================================================================== */

static bool is_twin_name(const char *name)
{
    const size_t length = strlen(name), suffix = strlen(NEXT);
    return length > suffix && !strcmp(name + length - suffix, NEXT);
}

/* The twin of a variable; made when it is new. */
static tr_status twin_name(char *out, size_t size, tr_server_program *sp, const char *name)
{
    tr_block  *global = tr_program_block(sp->program, 0);
    tr_tensor *now = tr_var_tensor(tr_scope_find_local(sp->scope, name));

    if ((size_t)snprintf(out, size, "%s%s", name, NEXT) >= size)
        return tr_fail(TR_ERANGE, "the name '%.60s...' is too long", name);
    if (tr_block_find_var(global, out))
        return TR_OK;
    tr_var_desc *desc = tr__block_var(global, out);
    tr_var_desc_set_kind(desc, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(desc, tr_tensor_dtype(now));
    TR_TRY(tr_var_desc_set_shape(desc, tr_tensor_rank(now), tr_tensor_dims(now)));
    tr_var_desc_set_persistable(desc, true);
    tr_tensor *next = tr_var_tensor(tr__scope_var(sp->scope, out));
    TR_TRY(take_memory(sp, next, now->dtype, &now->shape));
    sp->twin = tr__must_realloc(sp->twin, (sp->twin_count + 1) * sizeof *sp->twin);
    sp->twin[sp->twin_count++] = (twin){now, next};
    return TR_OK;
}

typedef const char *(*get_name)(const tr_op_desc *op, const char *slot, int index);
typedef void (*set_names)(tr_op_desc *op, const char *slot, int count, const char *const *names);

/* Let a slot name twins where `is_output`, or where they were written before. */
static tr_status rename_slot(tr_server_program *sp, tr_op_desc *op, const char *slot, int count, bool is_output)
{
    const get_name  get = is_output ? tr_op_desc_output : tr_op_desc_input;
    const set_names set = is_output ? tr_op_desc_set_output : tr_op_desc_set_input;
    tr_block       *global = tr_program_block(sp->program, 0);
    char          (*text)[TWIN_NAME_MAX] = tr__must_bytes(sizeof *text * (size_t)(count + 1));
    const char    **names = tr__must_bytes(sizeof *names * (size_t)(count + 1));
    tr_status       status = TR_OK;

    for (int i = 0; i < count; i++) {
        const char *name = get(op, slot, i);
        const bool  is_kept = tr_scope_find_local(sp->scope, name) && !is_twin_name(name);
        names[i] = text[i];
        if ((size_t)snprintf(text[i], sizeof *text, "%s%s", name, is_kept ? NEXT : "") >= sizeof *text)
            TR_TRY_GOTO(done, tr_fail(TR_ERANGE, "the name '%.60s...' is too long", name));
        if (is_kept && is_output)
            TR_TRY_GOTO(done, twin_name(text[i], sizeof *text, sp, name));
        else if (is_kept && !tr_block_find_var(global, text[i]))
            snprintf(text[i], sizeof *text, "%s", name);
    }
    set(op, slot, count, names);
done:
    free(names);
    free(text);
    return status;
}

/* What an operator writes of the scope's variables goes to their twins, and what comes after it reads those. */
static tr_status make_twins(tr_server_program *sp)
{
    tr_block *global = tr_program_block(sp->program, 0);

    for (int i = 0; i < tr_block_op_count(global); i++) {
        tr_op_desc *op = tr_block_op_at(global, i);
        for (int s = 0; s < tr_op_desc_input_slots(op); s++) {
            const char *slot = tr_op_desc_input_slot(op, s);
            TR_TRY(rename_slot(sp, op, slot, tr_op_desc_input_count(op, slot), false));
        }
        for (int s = 0; s < tr_op_desc_output_slots(op); s++) {
            const char *slot = tr_op_desc_output_slot(op, s);
            TR_TRY(rename_slot(sp, op, slot, tr_op_desc_output_count(op, slot), true));
        }
    }
    return TR_OK;
}

static void switch_sides(tr_server_program *sp)
{
    for (uint32_t i = 0; i < sp->twin_count; i++) {
        tr_tensor *now = sp->twin[i].now, *next = sp->twin[i].next;
        void      *data = now->data;
        now->data = next->data;
        next->data = data;
    }
}

void tr_server_program_commit(tr_server_program *sp, const tr_commit *commit, bool is_update)
{
    tr_state_commit(sp->state, commit, is_update);
    tr_state_ready(sp->state);                     /* the first one: all trainers have agreed */
    if (is_update)
        switch_sides(sp);
    if (is_update && sp->pieces)
        tr_server_pieces_next(sp->pieces);
}

void tr_server_program_go_back(tr_server_program *sp, const tr_commit *commit)
{
    tr_state_go_back(sp->state, commit);
    for (uint32_t i = 0; i < sp->table_count; i++)
        tr_table_go_back(sp->table[i]->table, sp->table[i]->before + tr_state_committed(sp->state).updates);
    switch_sides(sp);
}

bool tr_server_program_table(const tr_server_program *sp, uint32_t index, tr_table_part *out, const char **name)
{
    if (index >= sp->table_count)
        return false;
    tr_table_describe(out, sp->table[index]->table);
    *name = sp->setup->tables[index]->name;
    return true;
}

/* == tasks ================================================================================= */

enum { TASKS_VERSION = 2 };
static const uint64_t TASKS_LIMIT = (uint64_t)1 << 38;

void *tr_server_program_tasks(tr_server_program *sp, const char *name, uint64_t *bytes)
{
    char own[TR_SEGMENT_NAME + 16];

    if (!name)
        return NULL;
    tr_segment_free(sp->tasks);                    /* what was attached had nothing in it, or is of other tasks */
    sp->tasks = NULL;
    tasks_name(own, sizeof own, name);
    if (*bytes == 0) {
        if (tr_segment_attach(&sp->tasks, own, "tasks", TASKS_VERSION, TASKS_LIMIT) != TR_OK)
            return NULL;
        *bytes = tr_segment_bytes(sp->tasks);
        return tr_segment_base(sp->tasks);
    }
    tr_segment_remove(own);                        /* there is none, mostly */
    if (tr_segment_create(&sp->tasks, own, "tasks", TASKS_VERSION, TASKS_LIMIT) != TR_OK)
        return NULL;                               /* without it tasks begin anew after a death */
    if (tr_segment_grow(sp->tasks, *bytes) == TR_OK)
        return tr_segment_base(sp->tasks);
    tr_segment_free(sp->tasks);
    sp->tasks = NULL;
    tr_segment_remove(own);
    return NULL;
}

/* == board ================================================================================= */

enum { BOARD_VERSION = 1 };
static const uint64_t BOARD_LIMIT = (uint64_t)1 << 34;

static void *grow_board(tr_server_program *sp, uint64_t *bytes)
{
    if (tr_segment_grow(sp->board, *bytes) != TR_OK)
        return NULL;
    *bytes = tr_segment_bytes(sp->board);
    return tr_segment_base(sp->board);
}

void *tr_server_program_board(tr_server_program *sp, const char *name, uint64_t *bytes, bool anew)
{
    char own[TR_SEGMENT_NAME + 16];

    if (!name)
        return NULL;
    board_name(own, sizeof own, name);
    if (!anew && !sp->board && tr_segment_attach(&sp->board, own, "board", BOARD_VERSION, BOARD_LIMIT) != TR_OK)
        return NULL;
    if (!anew)
        return grow_board(sp, bytes);
    let_go(sp->board, true);
    sp->board = NULL;
    tr_segment_remove(own);                        /* there is none, mostly */
    if (tr_segment_create(&sp->board, own, "board", BOARD_VERSION, BOARD_LIMIT) != TR_OK)
        return NULL;                               /* without it trainers that run again meet again */
    void *memory = grow_board(sp, bytes);
    if (!memory) {
        let_go(sp->board, true);
        sp->board = NULL;
    }
    return memory;
}

void tr_server_program_over(tr_server_program *sp)
{
    sp->is_over = true;
}

/* == life ====================================================================================== */

static tr_status make_pieces(tr_server_program *sp)
{
    tr_piece_block *blocks = tr__must_array(sp->block_count + 1, sizeof *blocks);

    for (uint32_t i = 0; i < sp->block_count; i++)
        blocks[i] = (tr_piece_block){sp->setup->blocks[i]->param, sp->block[i].grad_name, sp->setup->blocks[i]->bytes};
    tr_status status = TR_OK;
    if (!sp->gathers_per_trainer)
        status = tr_server_pieces_new(&sp->pieces, sp->program, sp->scope, sp->block_count, blocks);
    free(blocks);
    return status;
}

/* What is left to the program is little, and waits for nobody. */
static bool is_quick(const tr_server_program *sp)
{
    enum { LITTLE = 1 << 18 };
    const tr_block *global = tr_program_block(sp->program, 0);
    uint64_t        left = 0;

    for (uint32_t i = 0; i < sp->block_count; i++)
        left += !sp->pieces || !tr_server_pieces_has(sp->pieces, i) ? sp->setup->blocks[i]->bytes : 0;
    for (int i = 0; i < global->op_count; i++) {
        const tr_op *op = tr_op_find(global->op[i]->type);
        if (!op || op->has_effect || op->has_block)
            return false;
    }
    return left <= LITTLE && sp->table_count == 0;
}

tr_status tr_server_program_ready(tr_server_program *sp)
{
    const char **names = tr__must_array(sp->block_count + 1, sizeof *names);
    tr_status    status = TR_OK;

    TR_TRY_GOTO(done, check_persistables(sp));
    TR_TRY_GOTO(done, make_twins(sp));
    TR_TRY_GOTO(done, make_pieces(sp));
    sp->is_quick = is_quick(sp);
    if (tr_state_side(sp->state))
        switch_sides(sp);
    for (uint32_t i = 0; i < sp->block_count; i++) {
        const block *b = &sp->block[i];
        names[i] = b->grad_name;
        sp->feed[i] = (tr_feed){.name = b->grad_name, .dtype = tr_tensor_dtype(b->param), .rank = tr_tensor_rank(b->param),
                                .dims = tr_tensor_dims(b->param)};
    }
    TR_TRY_GOTO(done, tr_executor_prepare(&sp->plan, sp->executor, sp->program, sp->scope, (int)sp->block_count, names, 0,
                                          NULL));
done:
    free(names);
    return status;
}

void *tr_server_program_param(tr_server_program *sp, uint32_t index)
{
    return tr_tensor_data(sp->block[index].param);
}

void *tr_server_program_param_before(tr_server_program *sp, uint32_t index)
{
    tr_tensor *param = sp->block[index].param;

    for (uint32_t i = 0; i < sp->twin_count; i++)
        if (sp->twin[i].now == param)
            return tr_tensor_data(sp->twin[i].next);
    return tr_tensor_data(param);                  /* no update changes it */
}

tr_status tr_server_program_rows_before(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out)
{
    return tr_table_pull_before(sp->table[table]->table, out, keys, n);
}

void tr_server_program_rows(tr_server_program *sp, uint32_t table, const int64_t *keys, int64_t n, void *out,
                            uint32_t *hints)
{
    tr_table_pull_places(sp->table[table]->table, out, hints, keys, n);
}

tr_status tr_server_program_read_rows(tr_server_program *sp, uint32_t table, uint32_t shard, bool are_candidates, void **out,
                                      uint64_t *bytes)
{
    if (are_candidates)
        return tr_table_pack_candidates(sp->table[table]->table, shard, out, bytes);
    return shard == TR_SHARDS ? tr_table_part_pack(sp->table[table]->table, out, bytes)
                              : tr_table_pack(sp->table[table]->table, shard, out, bytes);
}

tr_status tr_server_program_write_rows(tr_server_program *sp, uint32_t table, const void *rows, uint64_t bytes,
                                       bool are_candidates)
{
    return (are_candidates ? tr_table_unpack_candidates : tr_table_unpack)(sp->table[table]->table, rows, bytes);
}

bool tr_server_program_has_pieces(const tr_server_program *sp, uint32_t index)
{
    return sp->pieces && tr_server_pieces_has(sp->pieces, index);
}

tr_status tr_server_program_piece(tr_server_program *sp, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    return tr_server_pieces_run(sp->pieces, index, offset, bytes, grad);
}

bool tr_server_program_is_quick(const tr_server_program *sp)
{
    return sp->is_quick;
}

tr_status tr_server_program_run(tr_server_program *sp, const tr_update *update)
{
    for (uint32_t i = 0; i < sp->block_count; i++) {
        const tr_tensor *param = sp->block[i].param;
        sp->feed[i].data = update->grad[i];
        if (update->compensation > 0)
            tr_compensate(param->dtype, update->grad[i], param->data, update->pulled[i], tr_tensor_count(param),
                          update->compensation);
    }
    for (uint32_t i = 0; i < sp->table_count; i++) {
        sp->table[i]->inbox = &update->rows[i];
        sp->table[i]->updates = sp->table[i]->before + update->number - 1;
    }
    return tr_plan_run(sp->plan, sp->feed, NULL);
}

/* == checkpoints =============================================================================== */

uint32_t tr_server_program_state_room(const tr_server_program *sp)
{
    return sp->value_count + sp->table_count;
}

int tr_server_program_states(tr_server_program *sp, tr_state *out)
{
    int count = 0;

    for (uint32_t i = 0; i < sp->value_count; i++) {
        const Trireme__Pserver__Value *value = sp->setup->values[i];
        tr_tensor                     *t = sp->value[i];
        if (!value->source)
            continue;
        out[count++] = (tr_state){
            .name = value->source, .param = value->owner, .kind = (tr_state_kind)value->state, .dtype = tr_tensor_dtype(t),
            .rank = tr_tensor_rank(t), .dims = tr_tensor_dims(t), .row = value->has_rows ? (int64_t)value->row : 0,
            .rows = value->has_rows ? (int64_t)value->rows : 0, .data = tr_tensor_data(t)};
    }
    for (uint32_t i = 0; i < sp->table_count; i++) {
        const char *name = sp->setup->tables[i]->name;
        tr_table_var_describe(&sp->about[i], sp->table[i], name);
        out[count++] = (tr_state){.name = name, .kind = TR_STATE_TABLE, .data = &sp->about[i]};
    }
    return count;
}
