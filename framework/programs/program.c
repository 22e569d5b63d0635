/* program.c - programs, blocks and variables. */
#include "framework/programs/program.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/name.h"

/* -- programs --------------------------------------------------------------------------------- */

static tr_program *program_alloc(void)
{
    static atomic_ullong last_id;
    tr_program *program = tr__must_alloc(sizeof *program);
    program->id = atomic_fetch_add(&last_id, 1) + 1;
    return program;
}

static tr_block *add_block(tr_program *program, int parent)
{
    tr_block *block = tr__must_alloc(sizeof *block);

    *block = (tr_block){.program = program, .index = program->block_count, .parent = parent, .forward = -1};
    program->block = tr__must_realloc(program->block, (size_t)(program->block_count + 1) * sizeof *program->block);
    program->block[program->block_count++] = block;
    return block;
}

tr_program *tr_program_new(void)
{
    tr_program *program = program_alloc();
    program->has_version = program->has_version_number = true;
    add_block(program, -1);
    return program;
}

static void var_desc_free(tr_var_desc *var)
{
    free(var->name);
    free(var->gradient);
    free(var->other_type);
    free(var);
}

static void block_free(tr_block *block)
{
    for (size_t i = 0; i < block->vars.entry_count; i++)
        if (block->vars.entries[i].key)
            var_desc_free(block->vars.entries[i].value);
    tr_map_deinit(&block->vars);
    for (int i = 0; i < block->op_count; i++)
        tr_op_desc_free(block->op[i]);
    free(block->op);
    free(block);
}

void tr_program_free(tr_program *program)
{
    if (!program)
        return;
    tr__bonds_cut(&program->bonds, TR_BOND_PROGRAM, NULL, TR_BOND_PROGRAM);
    for (int i = 0; i < program->block_count; i++)
        block_free(program->block[i]);
    free(program->block);
    free(program);
}

static void clone_var(tr_block *to, const tr_var_desc *var)
{
    tr_var_desc *copy = tr__block_var(to, var->name);
    char        *name = copy->name;

    *copy = *var;
    copy->name = name;
    copy->block = to;
    if (var->gradient)
        copy->gradient = tr__must_strdup(var->gradient);
    if (var->other_type)
        copy->other_type = tr__must_copy(var->other_type, var->other_type_size);
}

tr_program *tr_program_clone(const tr_program *program)
{
    tr_program *copy = program_alloc();

    copy->has_version = program->has_version;
    copy->has_version_number = program->has_version_number;
    copy->version = program->version;
    copy->random_seed = program->random_seed;
    for (int b = 0; b < program->block_count; b++) {
        const tr_block *from = program->block[b];
        tr_block       *to = add_block(copy, from->parent);
        to->forward = from->forward;
        to->has_forward = from->has_forward;
        for (size_t i = 0; i < from->vars.entry_count; i++)
            if (from->vars.entries[i].key)
                clone_var(to, from->vars.entries[i].value);
        for (int i = 0; i < from->op_count; i++)
            tr__block_place_op(to, -1, tr__op_desc_clone(from->op[i]));
    }
    return copy;
}

static void touch_lists(tr_block *block)
{
    block->revision++;
    tr__program_touch(block->program);
}

static void touch_ops(tr_block *block)
{
    block->op_revision++;
    touch_lists(block);
}

int64_t tr_program_random_seed(const tr_program *program) { return program->random_seed; }
uint64_t tr_program_revision(const tr_program *program) { return program->revision; }
int tr_program_block_count(const tr_program *program) { return program->block_count; }

void tr_program_set_random_seed(tr_program *program, int64_t seed)
{
    program->random_seed = seed;
    tr__program_touch(program);
}

tr_block *tr_program_block(tr_program *program, int index)
{
    return index >= 0 && index < program->block_count ? program->block[index] : NULL;
}

tr_block *tr_program_append_block(tr_program *program, int parent)
{
    if (parent < 0 || parent >= program->block_count)
        return NULL;
    tr__program_touch(program);
    return add_block(program, parent);
}

/* -- blocks ----------------------------------------------------------------------------------- */

int tr_block_index(const tr_block *block) { return block->index; }
int tr_block_parent(const tr_block *block) { return block->parent; }
int tr_block_forward(const tr_block *block) { return block->forward; }
uint64_t tr_block_revision(const tr_block *block) { return block->revision; }
uint64_t tr_block_op_revision(const tr_block *block) { return block->op_revision; }
int tr_block_var_count(const tr_block *block) { return (int)block->vars.live; }
int tr_block_op_count(const tr_block *block) { return block->op_count; }

void tr_block_set_forward(tr_block *block, int forward)
{
    block->forward = forward;
    block->has_forward = true;
    tr__program_touch(block->program);
}

tr_var_desc *tr_block_var_at(tr_block *block, int index)
{
    tr_map *vars = &block->vars;

    if (index < 0 || (size_t)index >= vars->live)
        return NULL;
    if (vars->live != vars->entry_count && tr_map_compact(vars) != 0)
        tr__must_alloc(SIZE_MAX);                         /* there is no memory */
    return vars->entries[index].value;
}

tr_var_desc *tr_block_find_var(tr_block *block, const char *name)
{
    return tr_map_find(&block->vars, name);
}

tr_var_desc *tr_block_find_var_recursive(tr_block *block, const char *name)
{
    for (; block; block = tr_program_block(block->program, block->parent)) {
        tr_var_desc *var = tr_block_find_var(block, name);
        /* A gradient block sees what its forward block sees, then what is around itself. */
        if (!var && block->forward >= 0 && block->forward < block->index)
            var = tr_block_find_var_recursive(tr_program_block(block->program, block->forward), name);
        if (var)
            return var;
    }
    return NULL;
}

/* Maps say when they are out of memory; a program's names are small things (memory.h). */
static void must_put(tr_map *map, tr_var_desc *var)
{
    if (tr_map_put(map, var->name, var) != 0)
        tr__must_alloc(SIZE_MAX);
}

tr_var_desc *tr_block_create_var(tr_block *block, const char *name)
{
    tr_var_desc *var = tr_block_find_var(block, name);

    if (var)
        return var;
    return tr_name_check(name) == TR_OK ? tr__block_var(block, name) : NULL;
}

tr_var_desc *tr__block_var(tr_block *block, const char *name)
{
    tr_var_desc *var = tr_block_find_var(block, name);

    if (var)
        return var;
    var = tr__must_alloc(sizeof *var);
    *var = (tr_var_desc){.name = tr__must_strdup(name), .kind = TR_KIND_TENSOR, .dtype = TR_DTYPE_NONE,
                         .block = block};
    must_put(&block->vars, var);
    touch_lists(block);
    return var;
}

void tr_block_remove_var(tr_block *block, const char *name)
{
    tr_var_desc *var = tr_map_remove(&block->vars, name);
    if (!var)
        return;
    var_desc_free(var);
    touch_lists(block);
}

tr_op_desc *tr_block_op_at(tr_block *block, int index)
{
    return index >= 0 && index < block->op_count ? block->op[index] : NULL;
}

tr_status tr__block_place_op(tr_block *block, int index, tr_op_desc *op)
{
    const int at = index < 0 ? block->op_count : index;

    assert(at <= block->op_count && !op->block);
    if (block->op_count == block->op_capacity) {
        const int    capacity = block->op_capacity ? block->op_capacity * 2 : 16;
        tr_op_desc **list = realloc(block->op, (size_t)capacity * sizeof *list);
        if (!list)
            return tr_fail(TR_ENOMEM, "no memory for %d operators in block %d", capacity, block->index);
        block->op = list;
        block->op_capacity = capacity;
    }
    memmove(block->op + at + 1, block->op + at, (size_t)(block->op_count - at) * sizeof *block->op);
    block->op[at] = op;
    block->op_count++;
    op->block = block;
    touch_ops(block);
    return TR_OK;
}

void tr_block_remove_op(tr_block *block, int index)
{
    if (index < 0 || index >= block->op_count)
        return;
    tr_op_desc_free(block->op[index]);
    block->op_count--;
    memmove(block->op + index, block->op + index + 1, (size_t)(block->op_count - index) * sizeof *block->op);
    touch_ops(block);
}

/* Move the operators at `places` from `list` to `to`; what is left in `list` was not named. */
static tr_status take_places(tr_op_desc **to, tr_op_desc **list, int list_count, int count, const int *places)
{
    for (int i = 0; i < count; i++) {
        if (places[i] < 0 || places[i] >= list_count)
            return tr_fail(TR_ERANGE, "operator %d of a block of %d cannot be arranged", places[i], list_count);
        if (!list[places[i]])
            return tr_fail(TR_EEXIST, "operator %d stands twice in an arrangement", places[i]);
        to[i] = list[places[i]];
        list[places[i]] = NULL;
    }
    return TR_OK;
}

tr_status tr_block_arrange_ops(tr_block *block, int count, const int *places)
{
    const size_t    capacity = (size_t)block->op_count + 1;
    tr_op_desc    **arranged = tr__must_alloc((capacity + (size_t)count) * sizeof *arranged);
    tr_op_desc    **left = tr__must_alloc(capacity * sizeof *left);
    tr_status       status;

    for (int i = 0; i < block->op_count; i++)
        left[i] = block->op[i];
    TR_TRY_GOTO(done, take_places(arranged, left, block->op_count, count, places));
    for (int i = 0; i < block->op_count; i++)
        tr_op_desc_free(left[i]);
    memcpy(block->op, arranged, (size_t)count * sizeof *arranged);
    block->op_count = count;
    touch_ops(block);
done:
    free(left);
    free(arranged);
    return status;
}

/* -- renaming --------------------------------------------------------------------------------- */

/* Does `name`, used in `inner`, mean the variable that `outer` declares? */
static bool sees(tr_block *inner, const tr_block *outer, const char *name)
{
    for (; inner && inner != outer; inner = tr_program_block(inner->program, inner->parent))
        if (tr_block_find_var(inner, name))
            return false;
    return inner == outer;
}

static void rename_string(char **string, const tr_map *names, tr_block *inner, const tr_block *outer)
{
    const char *to = tr_map_find(names, *string);

    if (to && sees(inner, outer, *string)) {
        free(*string);
        *string = tr__must_strdup(to);
    }
}

static void rename_in_op(tr_op_desc *op, const tr_map *names, tr_block *inner, const tr_block *outer)
{
    tr_attr *role_var = tr__op_desc_attr(op, "op_role_var");

    for (int s = 0; s < op->in_count; s++)
        for (int i = 0; i < op->in[s].count; i++)
            rename_string(&op->in[s].arg[i], names, inner, outer);
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            rename_string(&op->out[s].arg[i], names, inner, outer);
    if (role_var && role_var->type == TR_ATTR_STRINGS)
        for (int i = 0; i < role_var->count; i++)
            rename_string(&role_var->strings[i], names, inner, outer);
}

/* The map again with other keys: the variables keep their places in the order. */
static void rename_keys(tr_map *vars, const tr_map *names)
{
    tr_map renamed = {0};

    for (size_t i = 0; i < vars->entry_count; i++) {
        tr_var_desc *var = vars->entries[i].key ? vars->entries[i].value : NULL;
        const char  *to = var ? tr_map_find(names, var->name) : NULL;
        char        *old = to ? var->name : NULL;
        if (to)
            var->name = tr__must_strdup(to);
        if (var)
            must_put(&renamed, var);
        free(old);
    }
    tr_map_deinit(vars);
    *vars = renamed;
}

/* Gather the new names by the old ones, as copies: they may be the desc's own. `taken`: by the new ones. */
static tr_status gather_names(tr_map *names, tr_map *taken, tr_block *block, int count, const char *const *from, const char *const *to)
{
    for (int i = 0; i < count; i++) {
        if (!tr_block_find_var(block, from[i]))
            return tr_fail(TR_ENOTFOUND, "block %d has no variable '%s' to rename", block->index, from[i]);
        if (strcmp(from[i], to[i]) == 0)
            continue;
        TR_TRY(tr_name_check(to[i]));
        if (tr_block_find_var(block, to[i]) || tr_map_find(taken, to[i]) || tr_map_find(names, from[i]))
            return tr_fail(TR_EEXIST, "cannot rename '%s' to '%s': block %d has one of that name", from[i], to[i], block->index);
        char *old = tr__must_strdup(from[i]), *new = tr__must_strdup(to[i]);
        if (tr_map_put(names, old, new) != 0 || tr_map_put(taken, new, new) != 0)
            tr__must_alloc(SIZE_MAX);
    }
    return TR_OK;
}

static void rename_all(tr_block *block, const tr_map *names)
{
    tr_program *program = block->program;

    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->block[b]->op_count; i++)
            rename_in_op(program->block[b]->op[i], names, program->block[b], block);
        program->block[b]->op_revision++;
    }
    rename_keys(&block->vars, names);
    touch_lists(block);
}

tr_status tr_block_rename_vars(tr_block *block, int count, const char *const *from, const char *const *to)
{
    tr_map          names = {0}, taken = {0};
    const tr_status status = gather_names(&names, &taken, block, count, from, to);

    if (status == TR_OK && names.live)
        rename_all(block, &names);
    for (size_t i = 0; i < names.entry_count; i++) {
        free(names.entries[i].value);
        free((char *)names.entries[i].key);
    }
    tr_map_deinit(&names);
    tr_map_deinit(&taken);
    return status;
}

tr_status tr_block_rename_var(tr_block *block, const char *from, const char *to)
{
    return tr_block_rename_vars(block, 1, &from, &to);
}

/* -- variables -------------------------------------------------------------------------------- */

static void touch(tr_var_desc *var)
{
    tr__program_touch(var->block->program);
}

const char *tr_var_desc_name(const tr_var_desc *var) { return var->name; }
tr_var_kind tr_var_desc_kind(const tr_var_desc *var) { return var->kind; }
tr_dtype tr_var_desc_dtype(const tr_var_desc *var) { return var->dtype; }
int tr_var_desc_rank(const tr_var_desc *var) { return var->shape.rank; }
const int64_t *tr_var_desc_dims(const tr_var_desc *var) { return var->shape.dim; }
int tr_var_desc_lod_level(const tr_var_desc *var) { return var->lod_level; }
bool tr_var_desc_persistable(const tr_var_desc *var) { return var->persistable; }
const char *tr_var_desc_gradient(const tr_var_desc *var) { return var->gradient; }

void tr_var_desc_set_kind(tr_var_desc *var, tr_var_kind kind)
{
    var->kind = kind;
    touch(var);
}

void tr_var_desc_set_dtype(tr_var_desc *var, tr_dtype dtype)
{
    var->dtype = dtype;
    touch(var);
}

static tr_status check_shape(const char *name, int rank, const int64_t *dims)
{
    int64_t numel = 1;

    if (rank < 0 || rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "variable '%s': the rank must be 0..%d, got %d", name, TR_MAX_RANK, rank);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < -1)
            return tr_fail(TR_ESHAPE, "variable '%s': dimension %d is %lld; it must be -1 (not known) or a size",
                           name, i, (long long)dims[i]);
        if (dims[i] > 0 && __builtin_mul_overflow(numel, dims[i], &numel))
            numel = INT64_MAX;
    }
    if (numel > INT64_MAX / 16)                           /* bytes must be countable, too */
        return tr_fail(TR_ESHAPE, "variable '%s': its dimensions are too large", name);
    return TR_OK;
}

tr_status tr_var_desc_set_shape(tr_var_desc *var, int rank, const int64_t *dims)
{
    TR_TRY(check_shape(var->name, rank, dims));
    var->shape = tr_shape_of(rank, dims);
    touch(var);
    return TR_OK;
}

tr_status tr_block_declare_var(tr_block *block, const char *name, tr_var_kind kind, tr_dtype dtype, int rank,
                               const int64_t *dims, bool persistable)
{
    tr_var_desc *var;

    if (tr_block_find_var(block, name))
        return tr_fail(TR_EEXIST, "block %d has a variable '%s' already", block->index, name);
    TR_TRY(tr_name_check(name));
    TR_TRY(check_shape(name, rank, dims));
    var = tr__block_var(block, name);
    var->kind = kind;
    var->dtype = dtype;
    var->shape = tr_shape_of(rank, dims);
    var->persistable = var->has_persistable = persistable;
    return TR_OK;
}

void tr_var_desc_set_lod_level(tr_var_desc *var, int level)
{
    var->lod_level = level;
    var->has_lod_level = var->has_lod_level || level != 0;
    touch(var);
}

void tr_var_desc_set_persistable(tr_var_desc *var, bool persistable)
{
    var->persistable = persistable;
    var->has_persistable = var->has_persistable || persistable;
    touch(var);
}
