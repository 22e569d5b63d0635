/* update_plan.c - see update_plan.h. */
#include "pserver/store/update_plan.h"

#include "framework/base/memory.h"
#include "framework/operators/infer.h"
#include "framework/programs/op_desc.h"
#include "framework/programs/program.h"
#include "framework/runs/plan_life.h"
#include "framework/tensors/tensor.h"
#include "pserver/store/double_buffers.h"

#include <stdlib.h>
#include <string.h>

/* The second buffer of "w" is named "w@NEXT". */
#define NEXT "@NEXT"
/* The smallest size in bytes of a block that is computed in pieces. A smaller block fits into few messages, so pieces would save no
 * time. */
enum { LEAST = 32768 };

typedef struct view {
    tr_tensor *view, *whole;          /* borrowed from the scopes */
} view;

/* The operators of a block that is computed piece by piece. */
typedef struct unit {
    const char *grad;                 /* borrowed */
    tr_program *program;
    tr_scope   *scope;
    tr_plan    *plan;
    tr_dtype    dtype;
    int         view_count;
    view       *view;
} unit;

struct tr_update_plan {
    tr_executor *executor;
    tr_double_buffers buffers;
    uint32_t     count;
    unit       **unit;                /* of each block, or NULL */
    tr_scope    *scope;               /* results of `first`; its parent is the program's scope */
    tr_program  *first_program;
    tr_plan     *first;               /* operators that run before the first piece; NULL: there are none */
    bool         has_begun;           /* `first` has run in this update */
    tr_plan     *rest;
    tr_feed     *feed;                /* the gradient of each block, a feed of `rest` */
    bool         is_quick;
};

typedef struct rewriting {
    tr_update_plan        *plan;
    tr_block              *block;
    tr_scope              *scope;
    tr_state              *state;
    const tr_update_block *blocks;
    int                   *owner;     /* of each operator: the block on whose pieces it runs; -1: none */
    int                   *first_op, *next_op;    /* the operators of each block as lists in program order: the head of each, and the
                                                     successors; -1 ends a list */
} rewriting;

/* == two buffers =================================================================================== */

static bool is_kept(const rewriting *r, const char *name)
{
    return tr_scope_find_local(r->scope, name) != NULL;
}

static tr_status make_next(const rewriting *r, const char *name, const char *next_name)
{
    tr_tensor *now = tr_var_tensor(tr_scope_find_local(r->scope, name));

    if (tr_block_find_var(r->block, next_name))
        return TR_OK;
    tr_var_desc *desc = tr__block_var(r->block, next_name);
    tr_var_desc_set_kind(desc, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(desc, tr_tensor_dtype(now));
    TR_TRY(tr_var_desc_set_shape(desc, tr_tensor_rank(now), tr_tensor_dims(now)));
    tr_var_desc_set_persistable(desc, true);
    const tr_status status = tr_double_buffers_add(&r->plan->buffers, r->state, now, tr_var_tensor(tr__scope_var(r->scope, next_name)));
    return status == TR_OK ? TR_OK : tr_context(status, "for the second buffer of '%s', %lld bytes", name, (long long)tr_tensor_bytes(now));
}

/* An output is written to its second buffer. An input is read there when an operator before this one wrote it. */
static tr_status use_next(const rewriting *r, char **name, bool is_output)
{
    if (!is_kept(r, *name))
        return TR_OK;
    char           *next = tr__must_format("%s" NEXT, *name);
    const tr_status status = is_output ? make_next(r, *name, next) : TR_OK;
    if (status == TR_OK && tr_block_find_var(r->block, next)) {
        free(*name);
        *name = next;
    } else {
        free(next);
    }
    return status;
}

static tr_status use_next_of_slots(const rewriting *r, const tr_slot *slots, int count, bool are_outputs)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++)
            TR_TRY(use_next(r, &slots[s].arg[i], are_outputs));
    return TR_OK;
}

static tr_status use_next_of_all(const rewriting *r)
{
    for (int i = 0; i < tr_block_var_count(r->block); i++) {
        const char  *name = tr_var_desc_name(tr_block_var_at(r->block, i));
        const size_t length = strlen(name), suffix = strlen(NEXT);
        if (length >= suffix && !strcmp(name + length - suffix, NEXT))
            return tr_fail(TR_EFORMAT, "the server's program has a variable '%s': names that end with " NEXT " are the server's own", name);
    }
    for (int i = 0; i < r->block->op_count; i++) {
        const tr_op_desc *op = r->block->op[i];
        TR_TRY(use_next_of_slots(r, op->in, op->in_count, false));
        TR_TRY(use_next_of_slots(r, op->out, op->out_count, true));
    }
    return TR_OK;
}

/* == which operators run on pieces ================================================================= */

static const tr_tensor *param_of(const rewriting *r, int block)
{
    return tr_var_tensor(tr_scope_find(r->scope, r->blocks[block].param));
}

/* Read the block that the transpiler named for this operator into *owner. -1: it named none, or the block is too small. */
static tr_status read_mark(int *owner, const rewriting *r, const tr_map *numbers, const tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);

    *owner = -1;
    if (!tr_op_desc_has_attr(op, "op_pointwise_on"))
        return TR_OK;
    const char    *name = tr_op_desc_attr_string(op, "op_pointwise_on", 0, NULL);
    const intptr_t found = (intptr_t)tr_map_find(numbers, name);
    if (!found || !record || record->locality != TR_POINTWISE)
        return tr_fail(TR_EFORMAT, "%s is marked to work point by point on '%s': %s", op->type, name,
                       found ? "by its record it does not" : "the server has no such block");
    if (tr_tensor_bytes(param_of(r, (int)found - 1)) >= LEAST)
        *owner = (int)found - 1;
    return TR_OK;
}

static tr_status read_marks(const rewriting *r)
{
    tr_map    numbers = {0};
    tr_status status = TR_OK;

    for (uint32_t i = 0; i < r->plan->count; i++) {
        tr_map_put(&numbers, r->blocks[i].param, (void *)((intptr_t)i + 1));
        r->first_op[i] = -1;
    }
    for (int i = r->block->op_count - 1; status == TR_OK && i >= 0; i--) {
        status = read_mark(&r->owner[i], r, &numbers, r->block->op[i]);
        if (r->owner[i] < 0)
            continue;
        r->next_op[i] = r->first_op[r->owner[i]];
        r->first_op[r->owner[i]] = i;
    }
    tr_map_deinit(&numbers);
    return status;
}

/* == programs ====================================================================================== */

/* The number of elements of a variable. -1: its shape is not known. */
static int64_t elements_of(const rewriting *r, const char *name)
{
    tr_var            *var = tr_scope_find(r->scope, name);
    const tr_var_desc *desc = tr_block_find_var(r->block, name);

    if (var && var->kind == TR_KIND_TENSOR && var->tensor.data)
        return tr_tensor_count(&var->tensor);
    return desc && desc->kind == TR_KIND_TENSOR && tr_shape_is_known(&desc->shape) ? tr_shape_numel(&desc->shape) : -1;
}

/* Declare the variables of an operator. Variables with `elements` elements become vectors of any length; with 0 none does. */
static tr_status declare(tr_block *to, const rewriting *r, const tr_slot *slots, int count, int64_t elements)
{
    static const int64_t any = -1;

    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            const char        *name = slots[s].arg[i];
            const tr_var_desc *known = tr_block_find_var(r->block, name);
            if (tr_block_find_var(to, name))
                continue;
            tr_var_desc *var = tr__block_var(to, name);
            tr_var_desc_set_kind(var, TR_KIND_TENSOR);
            tr_var_desc_set_dtype(var, known->dtype);
            tr_var_desc_set_persistable(var, is_kept(r, name));
            if (elements && elements_of(r, name) == elements)
                TR_TRY(tr_var_desc_set_shape(var, 1, &any));
            else
                TR_TRY(tr_var_desc_set_shape(var, known->shape.rank, known->shape.dim));
        }
    return TR_OK;
}

static tr_status copy_op(tr_program *program, const rewriting *r, const tr_op_desc *op, int64_t elements)
{
    tr_block *to = tr_program_block(program, 0);

    TR_TRY(declare(to, r, op->in, op->in_count, elements));
    TR_TRY(declare(to, r, op->out, op->out_count, elements));
    tr_op_desc     *copy = tr__op_desc_clone(op);
    const tr_status status = tr_block_insert_op(to, -1, copy);
    if (status != TR_OK)
        tr_op_desc_free(copy);
    return status;
}

/* -- a block ------------------------------------------------------------------------------------- */

static void unit_free(unit *u)
{
    if (!u)
        return;
    tr_scope_free(u->scope);
    tr_program_free(u->program);
    free(u->view);
    free(u);
}

static void make_views(unit *u, const rewriting *r, int64_t elements)
{
    const tr_map *vars = &tr_program_block(u->program, 0)->vars;

    u->view = tr__must_array(vars->entry_count + 1, sizeof *u->view);
    for (size_t i = 0; i < vars->entry_count; i++) {
        const char *name = vars->entries[i].key;
        if (is_kept(r, name) && elements_of(r, name) == elements)
            u->view[u->view_count++] = (view){tr_var_tensor(tr__scope_var(u->scope, name)),
                                              tr_var_tensor(tr_scope_find(r->scope, name))};
    }
}

static void set_views(const unit *u, int64_t first, int64_t count)
{
    const tr_shape shape = tr_shape_of(1, &count);

    for (int i = 0; i < u->view_count; i++) {
        const tr_tensor *whole = u->view[i].whole;
        tr__tensor_point(u->view[i].view, whole->dtype, &shape, (char *)whole->data + first * tr_dtype_size(whole->dtype));
    }
}

static tr_status fill_unit(unit *u, const rewriting *r, int block)
{
    const int64_t elements = tr_tensor_count(param_of(r, block));

    u->grad = r->blocks[block].grad;
    u->dtype = param_of(r, block)->dtype;
    u->program = tr_program_new();
    u->scope = tr_scope_new(r->plan->scope);
    for (int i = r->first_op[block]; i >= 0; i = r->next_op[i])
        TR_TRY(copy_op(u->program, r, r->block->op[i], elements));
    make_views(u, r, elements);
    set_views(u, 0, elements);
    return tr_executor_prepare(&u->plan, r->plan->executor, u->program, u->scope, 1, &u->grad, 0, NULL);
}

/* A block stays in the server's program when its operators refuse vectors, such as by an attribute that names an axis. */
static void make_unit(const rewriting *r, int block)
{
    unit *u = tr__must_alloc(sizeof *u);

    if (fill_unit(u, r, block) == TR_OK)
        r->plan->unit[block] = u;
    else
        unit_free(u);
}

/* -- operators for all blocks ---------------------------------------------------------------------- */

static bool is_among(const tr_map *names, const tr_slot *slots, int count)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++)
            if (tr_map_find(names, slots[s].arg[i]))
                return true;
    return false;
}

static void add_names(tr_map *names, const tr_slot *slots, int count)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++)
            tr_map_put(names, slots[s].arg[i], names);
}

static bool is_pure(const char *type)
{
    const tr_op *op = tr_op_find(type);
    return op && !op->has_effect && !op->has_block && !op->is_random;
}

/* Mark the operators that belong to no block and whose results the blocks' operators read, directly or not. They also stay in the program.
 * False: one of them must not run before the rest of the program. */
static bool find_first(bool *is_first, const rewriting *r)
{
    tr_map names = {0};
    bool   is_good = true;

    for (int i = r->block->op_count - 1; i >= 0; i--) {
        const tr_op_desc *op = r->block->op[i];
        is_first[i] = r->owner[i] < 0 && is_among(&names, op->out, op->out_count);
        is_good &= !is_first[i] || is_pure(op->type);
        if (is_first[i] || r->owner[i] >= 0)
            add_names(&names, op->in, op->in_count);
    }
    tr_map_deinit(&names);
    return is_good;
}

/* Results that are not kept between updates get memory in the scope of the plan. */
static tr_status keep_results(const rewriting *r, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const char  *name = op->out[s].arg[i];
            tr_var_desc *var = tr_block_find_var(tr_program_block(r->plan->first_program, 0), name);
            if (is_kept(r, name))
                continue;
            tr_var_desc_set_persistable(var, true);
            TR_TRY(tr_tensor_resize(tr_var_tensor(tr__scope_var(r->plan->scope, name)), var->dtype, var->shape.rank, var->shape.dim));
        }
    return TR_OK;
}

static tr_status make_first(const rewriting *r, const bool *is_first)
{
    tr_update_plan *plan = r->plan;
    bool            is_needed = false;

    plan->first_program = tr_program_new();
    for (int i = 0; i < r->block->op_count; i++)
        if (is_first[i]) {
            TR_TRY(copy_op(plan->first_program, r, r->block->op[i], 0));
            TR_TRY(keep_results(r, r->block->op[i]));
            is_needed = true;
        }
    return is_needed ? tr_executor_prepare(&plan->first, plan->executor, plan->first_program, plan->scope, 0, NULL, 0, NULL) : TR_OK;
}

/* == the rewriting ================================================================================= */

/* Leave in the program the operators that no block's small program has. */
static tr_status remove_moved(const rewriting *r)
{
    int *left = tr__must_array((size_t)r->block->op_count + 1, sizeof *left), count = 0;

    for (int i = 0; i < r->block->op_count; i++)
        if (r->owner[i] < 0 || !r->plan->unit[r->owner[i]])
            left[count++] = i;
    const tr_status status = tr_block_arrange_ops(r->block, count, left);
    free(left);
    return status;
}

static tr_status make_pieces(const rewriting *r)
{
    bool     *is_first = tr__must_array((size_t)r->block->op_count + 1, sizeof *is_first);
    tr_status status = read_marks(r);

    if (status == TR_OK && find_first(is_first, r)) {
        status = make_first(r, is_first);
        for (uint32_t i = 0; status == TR_OK && i < r->plan->count; i++)
            if (r->first_op[i] >= 0)
                make_unit(r, (int)i);
    }
    free(is_first);
    return status == TR_OK ? remove_moved(r) : status;
}

/* Is the rest of the program little work, and does it wait for no other rank? */
static bool find_quick(const rewriting *r)
{
    enum { LITTLE = 1 << 18 };
    int64_t left = 0;

    for (uint32_t i = 0; i < r->plan->count; i++)
        left += r->plan->unit[i] ? 0 : tr_tensor_bytes(param_of(r, (int)i));
    for (int i = 0; i < r->block->op_count; i++) {
        const tr_op *op = tr_op_find(r->block->op[i]->type);
        if (!op || op->has_effect || op->has_block)
            return false;
    }
    return left <= LITTLE;
}

static tr_status prepare_rest(const rewriting *r)
{
    tr_update_plan *plan = r->plan;
    const char    **names = tr__must_array(plan->count + 1, sizeof *names);

    for (uint32_t i = 0; i < plan->count; i++) {
        const tr_tensor *param = param_of(r, (int)i);
        names[i] = r->blocks[i].grad;
        plan->feed[i] = (tr_feed){.name = names[i], .dtype = param->dtype, .rank = param->shape.rank, .dims = param->shape.dim};
    }
    const tr_status status = tr_executor_prepare(&plan->rest, plan->executor, r->block->program, r->scope, (int)plan->count, names, 0,
                                                 NULL);
    free(names);
    return status;
}

static tr_status rewrite(const rewriting *r, bool by_pieces)
{
    TR_TRY(use_next_of_all(r));
    if (by_pieces)
        TR_TRY(make_pieces(r));
    r->plan->is_quick = find_quick(r);
    return prepare_rest(r);
}

tr_status tr_update_plan_new(tr_update_plan **out, tr_weak *job, tr_program *program, tr_scope *scope, tr_state *state, bool by_pieces,
                             uint32_t count, const tr_update_block *blocks)
{
    tr_update_plan *plan = tr__must_alloc(sizeof *plan);
    rewriting       r = {.plan = plan, .block = tr_program_block(program, 0), .scope = scope, .state = state, .blocks = blocks};
    const size_t    ops = (size_t)r.block->op_count;

    plan->executor = tr_executor_new();
    tr__executor_set_job(plan->executor, job);
    plan->scope = tr_scope_new(scope);
    plan->count = count;
    plan->unit = tr__must_array(count + 1, sizeof *plan->unit);
    plan->feed = tr__must_array(count + 1, sizeof *plan->feed);
    r.owner = tr__must_array(ops + 1, sizeof *r.owner);
    r.next_op = tr__must_array(ops + 1, sizeof *r.next_op);
    r.first_op = tr__must_array(count + 1, sizeof *r.first_op);
    const tr_status status = rewrite(&r, by_pieces);
    free(r.owner);
    free(r.next_op);
    free(r.first_op);
    if (status == TR_OK)
        *out = plan;
    else
        tr_update_plan_free(plan);
    return status;
}

void tr_update_plan_free(tr_update_plan *plan)
{
    if (!plan)
        return;
    tr_executor_free(plan->executor);
    for (uint32_t i = 0; i < plan->count; i++)
        unit_free(plan->unit[i]);
    free(plan->unit);
    free(plan->feed);
    tr_scope_free(plan->scope);
    tr_program_free(plan->first_program);
    tr_double_buffers_deinit(&plan->buffers);
    free(plan);
}

/* == running ======================================================================================= */

bool tr_update_plan_has_pieces(const tr_update_plan *plan, uint32_t block)
{
    return plan->unit[block] != NULL;
}

tr_status tr_update_plan_piece(tr_update_plan *plan, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad)
{
    const unit   *u = plan->unit[block];
    const int64_t size = tr_dtype_size(u->dtype), count = (int64_t)bytes / size;
    const tr_feed feed = {.name = u->grad, .dtype = u->dtype, .rank = 1, .dims = &count, .data = grad};

    if (plan->first && !plan->has_begun)
        TR_TRY(tr_plan_run(plan->first, NULL, NULL));
    plan->has_begun = true;
    set_views(u, (int64_t)offset / size, count);
    return tr_plan_run(u->plan, &feed, NULL);
}

tr_status tr_update_plan_run(tr_update_plan *plan, uint8_t *const *grads)
{
    for (uint32_t i = 0; i < plan->count; i++)
        plan->feed[i].data = grads[i];
    return tr_plan_run(plan->rest, plan->feed, NULL);
}

bool tr_update_plan_is_quick(const tr_update_plan *plan)
{
    return plan->is_quick;
}

void tr_update_plan_switch(tr_update_plan *plan)
{
    tr_double_buffers_switch(&plan->buffers);
    plan->has_begun = false;
}
