/* scope.c - see scope.h. */
#include "framework/tensors/scope.h"

#include "framework/base/name.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

/* One allocation a variable: the name lies after it. */
typedef struct tr_scope_entry {
    tr_var var;
    char   name[];
} tr_scope_entry;

/* -- variables -------------------------------------------------------------------------------- */

void tr__var_init(tr_var *var)
{
    *var = (tr_var){.kind = TR_KIND_TENSOR};
    tr_tensor_init(&var->tensor);
}

void tr__var_deinit(tr_var *var)
{
    tr_tensor_deinit(&var->tensor);
    for (int64_t i = 0; i < var->item_capacity; i++)
        tr_tensor_free(var->item[i]);
    free(var->item);
    if (var->object_free)
        var->object_free(var->object);
    tr__var_init(var);
}

/* Empty a variable of an erased name. The variable and its tensors keep their addresses, which handles of Python may have. */
static void empty(tr_var *var)
{
    tr_tensor_deinit(&var->tensor);
    for (int64_t i = 0; i < var->item_capacity; i++)
        if (var->item[i]) {
            tr_tensor_deinit(var->item[i]);
            tr_tensor_init(var->item[i]);
        }
    if (var->object_free)
        var->object_free(var->object);
    tr_tensor_init(&var->tensor);
    var->kind = TR_KIND_TENSOR;
    var->item_count = 0;
    var->object = NULL;
    var->object_free = NULL;
}

tr_status tr__var_array_at(tr_tensor **out, tr_var *var, int64_t index)
{
    var->kind = TR_KIND_ARRAY;
    if (index >= var->item_capacity) {
        if (index >= (int64_t)(tr__array_limit() / (sizeof(tr_tensor) + 2 * sizeof *var->item)))
            return tr_fail(TR_ENOMEM, "no memory for a tensor array with an element %lld", (long long)index);
        const int64_t capacity = index < 8 ? 8 : index * 2;
        tr_tensor   **item = realloc(var->item, (size_t)capacity * sizeof *item);
        tr__tensor_count_allocation();
        if (!item)
            return tr_fail(TR_ENOMEM, "no memory for a tensor array of %lld", (long long)capacity);
        memset(item + var->item_capacity, 0, (size_t)(capacity - var->item_capacity) * sizeof *item);
        var->item = item;
        var->item_capacity = capacity;
    }
    for (int64_t i = var->item_count; i <= index; i++) {
        if (!var->item[i] && !(var->item[i] = tr_tensor_new()))
            return tr_fail(TR_ENOMEM, "no memory for element %lld of a tensor array", (long long)i);
        tr__tensor_forget(var->item[i]);
    }
    if (index >= var->item_count)
        var->item_count = index + 1;
    *out = var->item[index];
    return TR_OK;
}

void tr__var_array_clear(tr_var *var)
{
    var->item_count = 0;
}

void tr__var_set_object(tr_var *var, tr_var_kind kind, void *object, void (*object_free)(void *))
{
    if (var->object_free && var->object != object)
        var->object_free(var->object);
    var->kind = kind;
    var->object = object;
    var->object_free = object_free;
}

tr_var_kind tr_var_kind_of(const tr_var *var)
{
    return var->tensor.rows && var->kind == TR_KIND_TENSOR ? TR_KIND_SELECTED_ROWS : var->kind;
}

tr_tensor *tr_var_tensor(tr_var *var) { return &var->tensor; }
int64_t tr_var_array_count(const tr_var *var) { return var->kind == TR_KIND_ARRAY ? var->item_count : 0; }

tr_tensor *tr_var_array_item(tr_var *var, int64_t index)
{
    return index >= 0 && index < tr_var_array_count(var) ? var->item[index] : NULL;
}

tr_status tr_var_array_append(tr_var *var, const tr_tensor *tensor)
{
    tr_tensor *item;

    if (var->kind != TR_KIND_ARRAY && (var->kind != TR_KIND_NONE && tr_tensor_dtype(&var->tensor) != TR_DTYPE_NONE))
        return tr_fail(TR_EINVAL, "the variable holds a value that is no array of tensors; take another one");
    if (var->kind != TR_KIND_ARRAY)
        tr__var_array_clear(var);
    TR_TRY(tr__var_array_at(&item, var, var->item_count));
    return tr_tensor_copy(item, tensor);
}

/* -- scopes ----------------------------------------------------------------------------------- */

tr_scope *tr_scope_new(tr_scope *parent)
{
    static atomic_ullong last_id;
    tr_scope *scope = malloc(sizeof *scope);
    if (scope)
        *scope = (tr_scope){.parent = parent, .id = atomic_fetch_add(&last_id, 1) + 1};
    return scope;
}

static void free_entries(tr_map *entries)
{
    for (size_t i = 0; i < entries->entry_count; i++)
        if (entries->entries[i].key) {
            tr_scope_entry *entry = entries->entries[i].value;
            tr__var_deinit(&entry->var);
            free(entry);
        }
    tr_map_deinit(entries);
}

uint64_t tr__scope_generation(const tr_scope *scope)
{
    uint64_t sum = 0;
    for (; scope; scope = scope->parent)
        sum += scope->generation;
    return sum;
}

void tr_scope_free(tr_scope *scope)
{
    if (!scope)
        return;
    tr__bonds_cut(&scope->bonds, TR_BOND_SCOPE, NULL, TR_BOND_SCOPE);
    free_entries(&scope->vars);
    free_entries(&scope->erased);
    free(scope);
}

tr_var *tr_scope_find_local(const tr_scope *scope, const char *name)
{
    tr_scope_entry *entry = tr_map_find(&scope->vars, name);
    return entry ? &entry->var : NULL;
}

tr_var *tr_scope_find(const tr_scope *scope, const char *name)
{
    for (; scope; scope = scope->parent) {
        tr_var *var = tr_scope_find_local(scope, name);
        if (var)
            return var;
    }
    return NULL;
}

tr_var *tr_scope_var(tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find_local(scope, name);

    if (var)
        return var;
    return tr_name_check(name) == TR_OK ? tr__scope_var(scope, name) : NULL;
}

static tr_scope_entry *new_entry(const char *name)
{
    const size_t    size = strlen(name) + 1;
    tr_scope_entry *entry = malloc(sizeof *entry + size);

    if (!entry)
        return NULL;
    tr__var_init(&entry->var);
    memcpy(entry->name, name, size);
    return entry;
}

tr_var *tr__scope_var(tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find_local(scope, name);
    if (var)
        return var;
    tr_scope_entry *entry = tr_map_remove(&scope->erased, name);
    if (!entry)
        entry = new_entry(name);
    if (!entry) {
        tr_fail(TR_ENOMEM, "no memory for the variable '%s'", name);
        return NULL;
    }
    if (tr_map_put(&scope->vars, entry->name, entry) != 0) {
        tr_fail(TR_ENOMEM, "no memory for the variable '%s'", name);
        (void)tr_map_put(&scope->erased, entry->name, entry);
        return NULL;
    }
    scope->generation++;              /* it may hide one of a parent */
    return &entry->var;
}

void tr_scope_erase(tr_scope *scope, const char *name)
{
    tr_scope_entry *entry = tr_map_remove(&scope->vars, name);
    if (!entry)
        return;
    scope->generation++;
    empty(&entry->var);
    (void)tr_map_put(&scope->erased, entry->name, entry);  /* without memory the few bytes of the entry are lost */
}

int64_t tr_scope_count(const tr_scope *scope)
{
    return (int64_t)scope->vars.live;
}

const char *tr_scope_name(const tr_scope *scope, int64_t index)
{
    for (size_t i = 0; i < scope->vars.entry_count; i++)
        if (scope->vars.entries[i].key && index-- == 0)
            return scope->vars.entries[i].key;
    return NULL;
}
