/* server_pieces.c - which block owns which operator, and a small program for each block. */
#include "pserver/store/server_pieces.h"

#include "framework/infer.h"
#include "framework/memory.h"
#include "framework/program.h"
#include "framework/tensor.h"

#include <stdlib.h>
#include <string.h>

/* A smaller block has come as a whole before anything could be done with a piece of it. */
enum { LEAST = 32768 };

typedef struct view {
    tr_tensor *view, *whole;          /* borrowed from the scopes */
} view;

/* The operators of one block. */
typedef struct unit {
    const char *grad;                 /* borrowed */
    tr_program *program;
    tr_scope   *scope;
    tr_plan    *plan;
    tr_dtype    dtype;
    int         view_count;
    view       *view;
} unit;

struct tr_server_pieces {
    tr_executor *executor;
    tr_scope    *scope;               /* results of `first`; its parent is the program's scope */
    tr_program  *first_program;
    tr_plan     *first;               /* NULL: there is nothing */
    bool         has_begun;
    uint32_t     count;
    unit       **unit;                /* of each block, or NULL */
};

/* == who owns what ================================================================================= */

/* An owner is a block's number, or: */
enum { NOBODY = -1, ALL = -2, SEVERAL = -3 };

typedef struct owners {
    tr_block *block;
    tr_scope *scope;
    tr_map    of_var;                 /* owner + 4 */
    int      *of_op;
    int      *first_op, *next_op;     /* the operators of each block as lists in program order: the head of each, and the successors; -1
                                         ends a list */
    bool     *is_out;                 /* blocks that are left to the program */
} owners;

static int owner_of(const owners *o, const char *name)
{
    const intptr_t found = (intptr_t)tr_map_find(&o->of_var, name);
    return found ? (int)found - 4 : NOBODY;
}

static void set_owner(owners *o, const char *name, int owner)
{
    tr_map_put(&o->of_var, name, (void *)((intptr_t)owner + 4));
}

/* The owner of an operator, given that of one more thing that it touches. */
static int join(owners *o, int owner, int other)
{
    if (other == NOBODY || other == ALL || owner == other)
        return owner;
    if (owner == NOBODY)
        return other;
    if (owner >= 0)
        o->is_out[owner] = true;
    if (other >= 0)
        o->is_out[other] = true;
    return SEVERAL;
}

static int join_slots(owners *o, int owner, const tr_slot *slots, int count)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++)
            owner = join(o, owner, owner_of(o, slots[s].arg[i]));
    return owner;
}

/* An operator without an owner is computed once for all blocks. A variable of a block must not be written by other operators, and a block's
 * operator must not write a variable that is for all. */
static void own_op(owners *o, int index)
{
    const tr_op_desc *op = o->block->op[index];
    int               owner = join_slots(o, NOBODY, op->in, op->in_count);

    owner = join_slots(o, owner, op->out, op->out_count);
    o->of_op[index] = owner == NOBODY ? ALL : owner;
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            if (owner >= 0 && owner_of(o, op->out[s].arg[i]) == ALL)
                o->is_out[owner] = true;
            set_owner(o, op->out[s].arg[i], o->of_op[index]);
        }
}

static void find_owners(owners *o, uint32_t count, const tr_piece_block *blocks)
{
    for (uint32_t i = 0; i < count; i++) {
        set_owner(o, blocks[i].param, (int)i);
        set_owner(o, blocks[i].grad, (int)i);
    }
    for (int i = 0; i < o->block->op_count; i++)
        own_op(o, i);
    for (uint32_t i = 0; i < count; i++)
        o->first_op[i] = -1;
    for (int i = o->block->op_count - 1; i >= 0; i--) {
        const int owner = o->of_op[i];
        if (owner < 0)
            continue;
        o->next_op[i] = o->first_op[owner];
        o->first_op[owner] = i;
    }
}

/* == what can be cut =============================================================================== */

static bool is_pointwise(const char *type)
{
    const tr_op *op = tr_op_find(type);
    return op && op->locality == TR_POINTWISE;
}

/* The number of elements; -1: not known. */
static int64_t elements_of(const owners *o, const char *name)
{
    tr_var            *var = tr_scope_find(o->scope, name);
    const tr_var_desc *desc = tr_block_find_var(o->block, name);

    if (var && var->kind == TR_KIND_TENSOR && var->tensor.data)
        return tr_tensor_count(&var->tensor);
    return desc && desc->kind == TR_KIND_TENSOR && tr_shape_is_known(&desc->shape) ? tr_shape_numel(&desc->shape) : -1;
}

static bool have_fitting_sizes(const owners *o, const tr_slot *slots, int count, int64_t elements)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            const int64_t n = elements_of(o, slots[s].arg[i]);
            if (n != elements && (n != 1 || owner_of(o, slots[s].arg[i]) >= 0))
                return false;
        }
    return true;
}

static bool can_be_cut(const owners *o, int block, const tr_piece_block *from)
{
    const int64_t elements = tr_tensor_count(tr_var_tensor(tr_scope_find(o->scope, from->param)));

    if (o->is_out[block] || from->bytes < LEAST)
        return false;
    for (int i = o->first_op[block]; i >= 0; i = o->next_op[i]) {
        const tr_op_desc *op = o->block->op[i];
        if (!(is_pointwise(op->type) && have_fitting_sizes(o, op->in, op->in_count, elements) &&
              have_fitting_sizes(o, op->out, op->out_count, elements)))
            return false;
    }
    return true;
}

/* == programs ====================================================================================== */

static bool is_kept(const owners *o, const char *name)
{
    return tr_scope_find(o->scope, name) != NULL;
}

/* Declare the variables of an operator. Variables with `elements` elements become vectors of any length; with 0 none does. */
static tr_status declare(tr_block *to, const owners *o, const tr_slot *slots, int count, int64_t elements)
{
    static const int64_t any = -1;

    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            const char        *name = slots[s].arg[i];
            const tr_var_desc *known = tr_block_find_var(o->block, name);
            if (tr_block_find_var(to, name))
                continue;
            tr_var_desc *var = tr__block_var(to, name);
            tr_var_desc_set_kind(var, TR_KIND_TENSOR);
            tr_var_desc_set_dtype(var, known->dtype);
            tr_var_desc_set_persistable(var, is_kept(o, name));
            if (elements && elements_of(o, name) == elements)
                TR_TRY(tr_var_desc_set_shape(var, 1, &any));
            else
                TR_TRY(tr_var_desc_set_shape(var, known->shape.rank, known->shape.dim));
        }
    return TR_OK;
}

static tr_status copy_op(tr_program *program, const owners *o, const tr_op_desc *op, int64_t elements)
{
    tr_block *to = tr_program_block(program, 0);

    TR_TRY(declare(to, o, op->in, op->in_count, elements));
    TR_TRY(declare(to, o, op->out, op->out_count, elements));
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

static tr_status make_views(unit *u, const owners *o, int64_t elements)
{
    const tr_map *vars = &tr_program_block(u->program, 0)->vars;

    u->view = calloc(vars->entry_count + 1, sizeof *u->view);
    if (!u->view)
        return tr_fail(TR_ENOMEM, "no memory for the views of a block");
    for (size_t i = 0; i < vars->entry_count; i++) {
        const char *name = vars->entries[i].key;
        if (is_kept(o, name) && elements_of(o, name) == elements)
            u->view[u->view_count++] = (view){tr_var_tensor(tr__scope_var(u->scope, name)),
                                              tr_var_tensor(tr_scope_find(o->scope, name))};
    }
    return TR_OK;
}

static void set_views(const unit *u, int64_t first, int64_t count)
{
    const tr_shape shape = tr_shape_of(1, &count);

    for (int i = 0; i < u->view_count; i++) {
        const tr_tensor *whole = u->view[i].whole;
        tr__tensor_point(u->view[i].view, whole->dtype, &shape, (char *)whole->data + first * tr_dtype_size(whole->dtype));
    }
}

static tr_status fill_unit(unit *u, tr_server_pieces *pieces, const owners *o, int block, int64_t elements)
{
    u->program = tr_program_new();
    u->scope = tr_scope_new(pieces->scope);
    for (int i = o->first_op[block]; i >= 0; i = o->next_op[i])
        TR_TRY(copy_op(u->program, o, o->block->op[i], elements));
    TR_TRY(make_views(u, o, elements));
    set_views(u, 0, elements);
    return tr_executor_prepare(&u->plan, pieces->executor, u->program, u->scope, 1, &u->grad, 0, NULL);
}

/* A block whose small program cannot be made stays in the server's program. */
static void make_unit(tr_server_pieces *pieces, const owners *o, int block, const tr_piece_block *from)
{
    const tr_tensor *param = tr_var_tensor(tr_scope_find(o->scope, from->param));

    if (o->is_out[block])
        return;
    unit *u = tr__must_alloc(sizeof *u);
    u->grad = from->grad;
    u->dtype = param->dtype;
    if (fill_unit(u, pieces, o, block, tr_tensor_count(param)) == TR_OK)
        pieces->unit[block] = u;
    else
        unit_free(u);
}

/* -- what is for all ------------------------------------------------------------------------------ */

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

/* Mark the operators for all blocks whose results the blocks' operators read, directly or not. False: one of them must not run before the
 * rest of the program. */
static bool find_first(bool *is_first, const owners *o)
{
    tr_map names = {0};
    bool   is_good = true;

    for (int i = o->block->op_count - 1; i >= 0; i--) {
        const tr_op_desc *op = o->block->op[i];
        const int         owner = o->of_op[i];
        is_first[i] = owner == ALL && is_among(&names, op->out, op->out_count);
        is_good &= !is_first[i] || is_pure(op->type);
        if (is_first[i] || (owner >= 0 && !o->is_out[owner]))
            add_names(&names, op->in, op->in_count);
    }
    tr_map_deinit(&names);
    return is_good;
}

/* Results that are not kept between updates get memory in the scope of `pieces`. */
static tr_status keep_results(tr_server_pieces *pieces, const owners *o, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const char  *name = op->out[s].arg[i];
            tr_var_desc *var = tr_block_find_var(tr_program_block(pieces->first_program, 0), name);
            if (is_kept(o, name))
                continue;
            tr_var_desc_set_persistable(var, true);
            TR_TRY(tr_tensor_resize(tr_var_tensor(tr__scope_var(pieces->scope, name)), var->dtype, var->shape.rank, var->shape.dim));
        }
    return TR_OK;
}

static tr_status make_first(tr_server_pieces *pieces, const owners *o, const bool *is_first)
{
    bool is_needed = false;

    pieces->first_program = tr_program_new();
    for (int i = 0; i < o->block->op_count; i++)
        if (is_first[i]) {
            TR_TRY(copy_op(pieces->first_program, o, o->block->op[i], 0));
            TR_TRY(keep_results(pieces, o, o->block->op[i]));
            is_needed = true;
        }
    return is_needed ? tr_executor_prepare(&pieces->first, pieces->executor, pieces->first_program, pieces->scope, 0, NULL, 0, NULL)
                     : TR_OK;
}

/* == life ========================================================================================== */

/* Leave in the program the operators that no block's small program has. */
static tr_status remove_owned(const tr_server_pieces *pieces, const owners *o, tr_program *program)
{
    int *left = malloc(((size_t)o->block->op_count + 1) * sizeof *left), count = 0;

    if (!left)
        return tr_fail(TR_ENOMEM, "no memory for a list of %d operators", o->block->op_count);
    for (int i = 0; i < o->block->op_count; i++)
        if (o->of_op[i] < 0 || !pieces->unit[o->of_op[i]])
            left[count++] = i;
    const tr_status status = tr_block_arrange_ops(tr_program_block(program, 0), count, left);
    free(left);
    return status;
}

static tr_status make(tr_server_pieces *pieces, owners *o, tr_program *program, uint32_t count, const tr_piece_block *blocks)
{
    bool     *is_first = tr__must_array((size_t)o->block->op_count + 1, sizeof *is_first);
    tr_status status = TR_OK;

    find_owners(o, count, blocks);
    for (uint32_t i = 0; i < count; i++)
        o->is_out[i] = !can_be_cut(o, (int)i, &blocks[i]);
    if (find_first(is_first, o)) {
        status = make_first(pieces, o, is_first);
        for (uint32_t i = 0; status == TR_OK && i < count; i++)
            make_unit(pieces, o, (int)i, &blocks[i]);
    }
    free(is_first);
    return status == TR_OK ? remove_owned(pieces, o, program) : status;
}

tr_status tr_server_pieces_new(tr_server_pieces **out, tr_program *program, tr_scope *scope, uint32_t count,
                               const tr_piece_block *blocks)
{
    tr_server_pieces *pieces = tr__must_alloc(sizeof *pieces);
    owners            o = {.block = tr_program_block(program, 0), .scope = scope};

    pieces->executor = tr_executor_new();
    pieces->scope = tr_scope_new(scope);
    pieces->count = count;
    pieces->unit = tr__must_array(count + 1, sizeof *pieces->unit);
    o.of_op = tr__must_array((size_t)o.block->op_count + 1, sizeof *o.of_op);
    o.next_op = tr__must_array((size_t)o.block->op_count + 1, sizeof *o.next_op);
    o.first_op = tr__must_array(count + 1, sizeof *o.first_op);
    o.is_out = tr__must_array(count + 1, sizeof *o.is_out);
    const tr_status status = make(pieces, &o, program, count, blocks);
    tr_map_deinit(&o.of_var);
    free(o.of_op);
    free(o.next_op);
    free(o.first_op);
    free(o.is_out);
    if (status == TR_OK)
        *out = pieces;
    else
        tr_server_pieces_free(pieces);
    return status;
}

void tr_server_pieces_free(tr_server_pieces *pieces)
{
    if (!pieces)
        return;
    tr_executor_free(pieces->executor);
    for (uint32_t i = 0; i < pieces->count; i++)
        unit_free(pieces->unit[i]);
    free(pieces->unit);
    tr_scope_free(pieces->scope);
    tr_program_free(pieces->first_program);
    free(pieces);
}

/* == running ======================================================================================= */

bool tr_server_pieces_has(const tr_server_pieces *pieces, uint32_t block)
{
    return pieces->unit[block] != NULL;
}

tr_status tr_server_pieces_run(tr_server_pieces *pieces, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad)
{
    const unit   *u = pieces->unit[block];
    const int64_t size = tr_dtype_size(u->dtype), count = (int64_t)bytes / size;
    const tr_feed feed = {.name = u->grad, .dtype = u->dtype, .rank = 1, .dims = &count, .data = grad};

    if (pieces->first && !pieces->has_begun)
        TR_TRY(tr_plan_run(pieces->first, NULL, NULL));
    pieces->has_begun = true;
    set_views(u, (int64_t)offset / size, count);
    return tr_plan_run(u->plan, &feed, NULL);
}

void tr_server_pieces_next(tr_server_pieces *pieces)
{
    pieces->has_begun = false;
}
