/* run_mutate.c - see run_mutate.h. */
#include "tests/support/run_mutate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/attr.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/random.h"

/* Makes the choices: at random, or those of a path. */
typedef struct rng {
    uint64_t  state;
    run_path *path;                    /* NULL: at random */
} rng;

/* -- choices ---------------------------------------------------------------------------------- */

/* A path begins with the first choice each time, and goes on there where it was changed (run_path_next). */
static int follow(run_path *path, int n)
{
    if (path->at == RUN_PATH_MAX)
        abort();
    if (path->at == path->length)
        path->choice[path->length++] = 0;
    path->of[path->at] = n;
    return path->choice[path->at++];
}

/* A number of [0, n); n > 0. */
static int below(rng *r, int n)
{
    return r->path ? follow(r->path, n) : (int)(tr_hash_u64(r->state++) % (uint64_t)n);
}

/* The same where one number is much like the next: on a path the two ends. */
static int64_t about(rng *r, int64_t n)
{
    if (r->path)
        return n == 1 || follow(r->path, 2) == 0 ? 0 : n - 1;
    return (int64_t)(tr_hash_u64(r->state++) % (uint64_t)n);
}

/* An index of `weights`; on a path each counts once. */
static int weighed(rng *r, int count, const int *weights)
{
    int sum = 0, which = 0;

    if (r->path)
        return below(r, count);
    for (int i = 0; i < count; i++)
        sum += weights[i];
    for (int left = below(r, sum); left >= weights[which]; which++)
        left -= weights[which];
    return which;
}

#define WEIGHED(r, ...) weighed(r, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__})

static bool once_in(rng *r, int n)
{
    return WEIGHED(r, 1, n - 1) == 0;
}

/* -- values ----------------------------------------------------------------------------------- */

static int64_t some_int(rng *r, int64_t old)
{
    static const int64_t special[] = {0, 1, 2, 3, 4, 5, 7, 9, 16, 100, 255, 1000, 65536, 1 << 30, INT32_MAX, INT32_MIN,
                                      -1, -2, -3, -100, 1ll << 32, 1ll << 47, 1ll << 62, INT64_MAX, INT64_MIN};
    const int count = sizeof special / sizeof *special;

    switch (WEIGHED(r, 1, 1, 1, 5)) {
    case 0:  return (int64_t)((uint64_t)old + 1);
    case 1:  return (int64_t)((uint64_t)old - 1);
    case 2:  return (int64_t)((uint64_t)old * 2);
    default: return special[below(r, count)];
    }
}

static double some_float(rng *r, double old)
{
    static const double special[] = {0, 1, -1, 0.5, 2, 1e-30, 1e30, -1e30, 1e9, INFINITY, -INFINITY, NAN};

    return once_in(r, 4) ? -old : special[below(r, sizeof special / sizeof *special)];
}

static tr_dtype some_dtype(rng *r)
{
    static const tr_dtype types[] = {TR_INT64, TR_FP32, TR_FP64, TR_INT32, TR_BOOL, TR_INT16, TR_FP16, TR_UINT8, TR_INT8,
                                     TR_SIZE_T, TR_BF16};

    return types[WEIGHED(r, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1)];
}

static int64_t some_dim(rng *r, int64_t old)
{
    static const int64_t special[] = {0, 1, 2, 3, 4, 5, 6, 8, 10, 17, 64, 1000, 1 << 20, 1ll << 40, 1ll << 58};

    return old > 0 && once_in(r, 3) ? old + 1 - 2 * below(r, 2) : special[below(r, sizeof special / sizeof *special)];
}

/* -- what there is ------------------------------------------------------------------------------ */

static tr_block *some_block(rng *r, const run_case *c)
{
    return c->program->block[below(r, c->program->block_count)];
}

static tr_op_desc *some_op(rng *r, const run_case *c)
{
    tr_block *block = some_block(r, c);

    return block->op_count > 0 ? block->op[below(r, block->op_count)] : NULL;
}

static tr_var_desc *some_var(rng *r, const run_case *c)
{
    tr_block *block = some_block(r, c);
    const int count = tr_block_var_count(block);

    return count > 0 ? tr_block_var_at(block, below(r, count)) : NULL;
}

static const char *some_name(rng *r, const run_case *c)
{
    const tr_var_desc *var = some_var(r, c);

    return var && !once_in(r, 12) ? var->name : "@EMPTY@";
}

/* -- operators ---------------------------------------------------------------------------------- */

static void set_numbers(rng *r, tr_op_desc *op, const tr_attr *old, int count)
{
    int64_t values[64] = {0};
    double  floats[64] = {0};

    for (int i = 0; i < count && i < old->count; i++) {
        values[i] = tr__attr_int(old, i);
        floats[i] = tr__attr_float(old, i);
    }
    if (count > 0) {
        const int at = below(r, count);
        values[at] = some_int(r, values[at]);
        floats[at] = some_float(r, floats[at]);
    }
    if (tr_attr_type_element(old->type) == TR_ATTR_FLOAT)
        tr_op_desc_set_floats(op, old->name, count, floats);
    else
        tr_op_desc_set_ints(op, old->name, count, values, old->type);
}

static void set_string(rng *r, tr_op_desc *op, const tr_attr *old, const tr_attr_def *def)
{
    static const char *const texts[] = {"", "x", "NHWC", "max", "relu", "@EMPTY@", "a/b"};
    const tr_choice         *all = def->range.one_of;
    int                      count = 0;

    while (all && all[count].name)
        count++;
    const char *text = count > 0 && !once_in(r, 3) ? all[below(r, count)].name : texts[below(r, sizeof texts / sizeof *texts)];
    if (old->type == TR_ATTR_STRING)
        tr_op_desc_set_string(op, old->name, text, strlen(text));
    else
        tr_op_desc_set_strings(op, old->name, below(r, 3), (const char *const[]){text, text});
}

static void change_attr(rng *r, const run_case *c)
{
    tr_op_desc  *op = some_op(r, c);
    const tr_op *record = op ? tr_op_find(op->type) : NULL;
    const int    count = record ? tr_op_attr_count(record) : 0;

    if (count == 0)
        return;
    const int          which = below(r, count);
    const tr_attr_def *def = &tr__op_proto(record)->attr[which];
    const tr_attr     *given = tr__op_desc_attr(op, def->name), *standard = tr__op_default(record, which);
    if ((!given && !standard) || strcmp(def->name, "file_path") == 0)      /* programs name files of this machine */
        return;
    tr_attr old = tr__attr_dup(given ? given : standard);
    if (old.type == TR_ATTR_STRING || old.type == TR_ATTR_STRINGS)
        set_string(r, op, &old, def);
    else if (tr_attr_type_is_list(old.type))
        set_numbers(r, op, &old, old.count > 60 ? 60 : once_in(r, 3) ? below(r, old.count + 3) : old.count);
    else if (old.type == TR_ATTR_FLOAT)
        tr_op_desc_set_float(op, old.name, some_float(r, tr__attr_float(&old, 0)));
    else if (old.type == TR_ATTR_BOOL)
        tr_op_desc_set_int(op, old.name, !old.i, TR_ATTR_BOOL);
    else
        tr_op_desc_set_int(op, old.name, some_int(r, old.i), old.type);
    tr__attr_deinit(&old);
}

static void change_type(rng *r, const run_case *c)
{
    tr_op_desc *op = some_op(r, c);

    if (!op)
        return;
    free(op->type);
    op->type = tr__must_strdup(tr_op_type(tr_op_at(below(r, tr_op_count()))));
}

/* One argument is another variable; the slot loses one, has one twice, or is gone. */
static void change_slot(rng *r, const run_case *c)
{
    tr_op_desc  *op = some_op(r, c);
    const tr_op *record = op ? tr_op_find(op->type) : NULL;
    const bool   output = once_in(r, 3);
    const int    slots = !record ? 0 : output ? tr_op_output_count(record) : tr_op_input_count(record);

    if (slots == 0)
        return;
    const int      which = below(r, slots);
    const char    *name = output ? tr_op_output_name(record, which) : tr_op_input_name(record, which);
    const tr_slot *slot = tr__op_desc_slot(op, output, name);
    const char    *args[66];
    int            count = 0;

    for (; slot && count < slot->count && count < 64; count++)
        args[count] = slot->arg[count];
    const int how = WEIGHED(r, 1, 1, 4);
    if (how == 0)
        count -= count > 0;
    else if (how == 1 || count == 0)
        args[count++] = some_name(r, c);
    else
        args[below(r, count)] = some_name(r, c);
    for (int i = 0; i < count; i++)                    /* the setter frees what it replaces */
        args[i] = tr__must_strdup(args[i]);
    (output ? tr_op_desc_set_output : tr_op_desc_set_input)(op, name, count, args);
    for (int i = 0; i < count; i++)
        free((char *)(uintptr_t)args[i]);
}

static void change_order(rng *r, const run_case *c)
{
    tr_block *block = some_block(r, c);

    if (block->op_count == 0)
        return;
    const int from = below(r, block->op_count), to = below(r, block->op_count);
    if (once_in(r, 3)) {
        tr_block_remove_op(block, from);
        return;
    }
    tr_op_desc *copy = tr__op_desc_clone(block->op[from]);
    if (below(r, 2) == 0)
        tr_block_remove_op(block, from);
    if (tr__block_place_op(block, to, copy) != TR_OK)
        abort();
}

/* -- declarations -------------------------------------------------------------------------------- */

static void change_shape(rng *r, tr_shape *shape)
{
    const int how = WEIGHED(r, 1, 1, 6);

    if (how == 0 && shape->rank < TR_MAX_RANK)
        shape->dim[shape->rank++] = below(r, 3);
    else if (how == 1 && shape->rank > 0)
        shape->rank--;
    else if (shape->rank > 0) {
        const int d = below(r, shape->rank);
        shape->dim[d] = some_dim(r, shape->dim[d]);
    }
}

static void change_var(rng *r, const run_case *c)
{
    static const tr_var_kind kinds[] = {TR_KIND_TENSOR, TR_KIND_SELECTED_ROWS, TR_KIND_ARRAY, TR_KIND_STEP_SCOPES,
                                        TR_KIND_RANK_TABLE, TR_KIND_RAW, TR_KIND_READER};
    tr_var_desc *var = some_var(r, c);
    if (!var)
        return;
    tr_shape shape = var->shape;

    switch (WEIGHED(r, 2, 2, 1, 1, 1, 1)) {
    case 0:
        tr_var_desc_set_dtype(var, once_in(r, 10) ? TR_DTYPE_NONE : some_dtype(r));
        break;
    case 1:
        change_shape(r, &shape);
        if (shape.rank > 0 && once_in(r, 4))
            shape.dim[below(r, shape.rank)] = -1;
        (void)tr_var_desc_set_shape(var, shape.rank, shape.dim);
        break;
    case 2:
        tr_var_desc_set_kind(var, kinds[below(r, sizeof kinds / sizeof *kinds)]);
        break;
    case 3:
        tr_var_desc_set_persistable(var, !var->persistable);
        break;
    case 4:
        tr_var_desc_set_lod_level(var, below(r, 4));
        break;
    default:
        tr_block_remove_var(var->block, var->name);
    }
}

static void change_block(rng *r, const run_case *c)
{
    tr_block *block = some_block(r, c);
    const int other = below(r, c->program->block_count + 1) - 1;

    if (block->index == 0)
        return;
    if (below(r, 2) == 0)
        block->parent = other >= 0 && other < block->index ? other : 0;
    else
        tr_block_set_forward(block, other);
}

/* -- values ----------------------------------------------------------------------------------------- */

enum { MAX_VALUE_BYTES = 1 << 16 };

static int64_t bytes_of(tr_dtype dtype, const tr_shape *shape)
{
    int64_t bytes = tr_dtype_size(dtype);

    for (int d = 0; d < shape->rank; d++)
        if (__builtin_mul_overflow(bytes, shape->dim[d], &bytes))
            return INT64_MAX;
    return bytes;
}

/* Of another type or shape; its numbers are the bytes that it had. */
static void reshape(run_value *value, tr_dtype dtype, const tr_shape *shape)
{
    const int64_t had = tr_tensor_bytes(&value->tensor), bytes = bytes_of(dtype, shape);

    if (bytes > MAX_VALUE_BYTES || value->tensor.rows)
        return;
    char *old = tr__must_copy(value->tensor.data, (size_t)had);
    if (tr_tensor_resize(&value->tensor, dtype, shape->rank, shape->dim) != TR_OK) {
        free(old);
        return;
    }
    for (int64_t i = 0; i < bytes; i++)
        ((char *)value->tensor.data)[i] = had > 0 ? old[i % had] : 0;
    if (dtype == TR_BOOL)
        for (int64_t i = 0; i < bytes; i++)
            ((char *)value->tensor.data)[i] &= 1;
    free(old);
}

static void change_lod(rng *r, tr_tensor *tensor)
{
    int64_t        outer[4] = {0}, inner[4] = {0};
    const int64_t  rows = tensor->shape.rank > 0 ? tensor->shape.dim[0] : 0;
    const int      levels = below(r, 3), parts = 1 + below(r, 3);
    const int64_t  counts[2] = {levels == 1 ? parts + 1 : 2, parts + 1};
    const int64_t *offsets[2] = {levels == 1 ? inner : outer, inner};

    for (int i = 1; i <= parts; i++)
        inner[i] = i == parts ? rows : inner[i - 1] + about(r, rows - inner[i - 1] < 100 ? rows - inner[i - 1] + 1 : 100);
    outer[1] = parts;
    (void)tr_tensor_set_lod(tensor, levels, counts, offsets);
}

static void change_number(rng *r, tr_tensor *tensor)
{
    const int64_t count = tr_tensor_count(tensor);
    if (count == 0)
        return;
    const int64_t at = about(r, count);

    switch (tensor->dtype) {
    case TR_INT64: ((int64_t *)tensor->data)[at] = some_int(r, ((int64_t *)tensor->data)[at]); break;
    case TR_INT32: ((int32_t *)tensor->data)[at] = (int32_t)some_int(r, ((int32_t *)tensor->data)[at]); break;
    case TR_FP32:  ((float *)tensor->data)[at] = (float)some_float(r, ((float *)tensor->data)[at]); break;
    case TR_FP64:  ((double *)tensor->data)[at] = some_float(r, ((double *)tensor->data)[at]); break;
    case TR_BOOL:  ((bool *)tensor->data)[at] ^= true; break;
    default:       break;
    }
}

/* What is fed must mostly be what the program declares, or no operator sees it. */
static void declare(const run_case *c, const run_value *value)
{
    tr_var_desc *var = tr_block_find_var(c->program->block[0], value->name);

    if (!var)
        return;
    tr_var_desc_set_dtype(var, value->tensor.dtype);
    (void)tr_var_desc_set_shape(var, value->tensor.shape.rank, value->tensor.shape.dim);
}

static void change_value(rng *r, run_case *c)
{
    if (c->value_count == 0)
        return;
    run_value *value = &c->value[below(r, c->value_count)];
    tr_shape   shape = value->tensor.shape;

    switch (WEIGHED(r, 1, 2, 1, 1)) {
    case 0:
        reshape(value, some_dtype(r), &shape);
        break;
    case 1:
        change_shape(r, &shape);
        reshape(value, value->tensor.dtype, &shape);
        break;
    case 2:
        change_lod(r, &value->tensor);
        break;
    default:
        change_number(r, &value->tensor);
    }
    if (!once_in(r, 4))
        declare(c, value);
}

/* -- the whole ---------------------------------------------------------------------------------------- */

static void change(rng *r, run_case *c)
{
    switch (WEIGHED(r, 1, 1, 1, 3, 3, 3, 4)) {
    case 0:  change_type(r, c); break;
    case 1:  change_order(r, c); break;
    case 2:  change_block(r, c); break;
    case 3:  change_slot(r, c); break;
    case 4:  change_var(r, c); break;
    case 5:  change_value(r, c); break;
    default: change_attr(r, c); break;
    }
}

void run_mutate(run_case *c, uint64_t seed)
{
    rng r = {.state = tr_hash_u64(seed)};

    for (int n = 1 + below(&r, 3); n > 0; n--)
        change(&r, c);
    tr__program_touch(c->program);
}

void run_mutate_along(run_case *c, run_path *path)
{
    rng r = {.path = path};

    path->at = 0;
    change(&r, c);
    tr__program_touch(c->program);
}

bool run_path_next(run_path *path)
{
    path->length = path->at;
    while (path->length > 0 && path->choice[path->length - 1] + 1 == path->of[path->length - 1])
        path->length--;
    if (path->length > 0)
        path->choice[path->length - 1]++;
    return path->length > 0;
}
