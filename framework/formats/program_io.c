/* program_io.c - from the bytes of a ProgramDesc to a program.
 *
 * protobuf-c checks that the bytes are such a message; this file checks that the message is a program: that
 * indices lie in the program, names are unique, shapes possible, blocks neither hang in the air nor run each
 * other in circles. What passes here needs no such check later. Memory stays in proportion to the bytes. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/message.h"
#include "framework/base/name.h"
#include "framework/base/number.h"
#include "framework/base/path.h"
#include "framework/formats/program_damage.h"
#include "framework/programs/attr.h"
#include "framework/programs/program.h"
#include "framework/tensors/dtype.h"
#include "proto/framework.pb-c.h"

typedef Paddle__Framework__Proto__ProgramDesc          pb_program;
typedef Paddle__Framework__Proto__BlockDesc            pb_block;
typedef Paddle__Framework__Proto__VarDesc              pb_var;
typedef Paddle__Framework__Proto__VarType              pb_type;
typedef Paddle__Framework__Proto__VarType__TensorDesc  pb_tensor;
typedef Paddle__Framework__Proto__OpDesc               pb_op;
typedef Paddle__Framework__Proto__OpDesc__Attr         pb_attr;
typedef Paddle__Framework__Proto__OpDesc__Var          pb_slot;

/* Far beyond any program; they keep a hostile one from costing more than its size. */
enum { MAX_DEPTH = 64, MAX_PER_OP = 1024, MAX_LOD_LEVEL = 64 };

/* -- operators -------------------------------------------------------------------------------- */

typedef struct op_place {
    int         block, index, block_count;
    const char *type;
} op_place;

static tr_status bad_op(const op_place *at, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

static tr_status bad_op(const op_place *at, const char *format, ...)
{
    char    what[512];
    va_list args;

    va_start(args, format);
    tr__vformat(what, sizeof what, format, args);
    va_end(args);
    return tr_fail(TR_EFORMAT, "program: block %d, operator %d (%s): %s", at->block, at->index, at->type, what);
}

/* A slot's, an attribute's or a variable's name. */
static tr_status check_name(const op_place *at, const char *name)
{
    return tr_name_check(name) == TR_OK ? TR_OK : bad_op(at, "%s", tr_error());
}

static tr_status read_slots(tr_op_desc *op, bool output, pb_slot *const *slots, size_t count, const op_place *at)
{
    const char *side = output ? "output" : "input";

    if (count > MAX_PER_OP)
        return bad_op(at, "%zu %s slots are more than %d", count, side, MAX_PER_OP);
    for (size_t i = 0; i < count; i++) {
        const pb_slot *slot = slots[i];
        if (tr__op_desc_slot(op, output, slot->parameter))
            return bad_op(at, "%s slot '%s' is there twice", side, slot->parameter);
        if (slot->n_arguments > INT_MAX)
            return bad_op(at, "%s slot '%s' has %zu arguments", side, slot->parameter, slot->n_arguments);
        TR_TRY(check_name(at, slot->parameter));
        for (size_t a = 0; a < slot->n_arguments; a++)
            TR_TRY(check_name(at, slot->arguments[a]));
        const char *const *names = (const char *const *)slot->arguments;
        if (output)
            tr_op_desc_set_output(op, slot->parameter, (int)slot->n_arguments, names);
        else
            tr_op_desc_set_input(op, slot->parameter, (int)slot->n_arguments, names);
    }
    return TR_OK;
}

static tr_status check_block_index(const op_place *at, const char *attr, int32_t index)
{
    if (index < 0 || index >= at->block_count)
        return bad_op(at, "attribute '%s' names block %d of a program of %d blocks", attr, (int)index,
                      at->block_count);
    return TR_OK;
}

static bool has_value(const pb_attr *attr)
{
    switch (attr->type) {
    case TR_ATTR_INT:    return attr->has_i;
    case TR_ATTR_FLOAT:  return attr->has_f;
    case TR_ATTR_STRING: return attr->has_s;
    case TR_ATTR_BOOL:   return attr->has_b;
    case TR_ATTR_BLOCK:  return attr->has_block_idx;
    case TR_ATTR_LONG:   return attr->has_l;
    default:             return true;
    }
}

/* The message's value as an attribute that borrows everything. Bools are bytes there: `*bools` is made for them. */
static tr_attr borrow_value(const pb_attr *from, int32_t **bools)
{
    tr_attr attr = {.name = from->name, .type = (tr_attr_type)from->type, .count = 1};

    switch (attr.type) {
    case TR_ATTR_INT:     attr.i = from->i; break;
    case TR_ATTR_LONG:    attr.i = from->l; break;
    case TR_ATTR_BOOL:    attr.i = from->b != 0; break;
    case TR_ATTR_BLOCK:   attr.i = from->block_idx; break;
    case TR_ATTR_FLOAT:   attr.f = from->f; break;
    case TR_ATTR_STRING:  attr.s = (char *)from->s.data; attr.count = (int)from->s.len; break;
    case TR_ATTR_INTS:    attr.ints = from->ints; attr.count = (int)from->n_ints; break;
    case TR_ATTR_BLOCKS:  attr.ints = from->blocks_idx; attr.count = (int)from->n_blocks_idx; break;
    case TR_ATTR_LONGS:   attr.longs = from->longs; attr.count = (int)from->n_longs; break;
    case TR_ATTR_FLOATS:  attr.floats = from->floats; attr.count = (int)from->n_floats; break;
    case TR_ATTR_STRINGS: attr.strings = from->strings; attr.count = (int)from->n_strings; break;
    case TR_ATTR_BOOLS:
        attr.ints = *bools = tr__must_alloc(from->n_bools * sizeof **bools);
        attr.count = (int)from->n_bools;
        for (size_t i = 0; i < from->n_bools; i++)
            attr.ints[i] = from->bools[i] != 0;
        break;
    default:
        break;
    }
    return attr;
}

static tr_status read_attr(tr_op_desc *op, const pb_attr *from, const op_place *at)
{
    const tr_attr_type type = (tr_attr_type)from->type;
    int32_t *bools = NULL;

    TR_TRY(check_name(at, from->name));
    if (!tr_attr_type_is_valid((int)type))
        return bad_op(at, "attribute '%s' has the unknown type %d", from->name, (int)type);
    if (tr__op_desc_attr(op, from->name))
        return bad_op(at, "attribute '%s' is there twice", from->name);
    if (!has_value(from))
        return bad_op(at, "attribute '%s' is %s, but has no such value", from->name, tr_attr_type_text(type));
    if (type == TR_ATTR_BLOCK)
        TR_TRY(check_block_index(at, from->name, from->block_idx));
    for (size_t i = 0; type == TR_ATTR_BLOCKS && i < from->n_blocks_idx; i++)
        TR_TRY(check_block_index(at, from->name, from->blocks_idx[i]));
    const tr_attr attr = borrow_value(from, &bools);
    tr__attr_copy(op, &attr);
    free(bools);
    return TR_OK;
}

static tr_status fill_op(tr_op_desc *op, const pb_op *from, const op_place *at)
{
    if (!*from->type)
        return bad_op(at, "it has no type");
    TR_TRY(check_name(at, from->type));
    if (from->n_attrs > MAX_PER_OP)
        return bad_op(at, "%zu attributes are more than %d", from->n_attrs, MAX_PER_OP);
    TR_TRY(read_slots(op, false, from->inputs, from->n_inputs, at));
    TR_TRY(read_slots(op, true, from->outputs, from->n_outputs, at));
    for (size_t i = 0; i < from->n_attrs; i++)
        TR_TRY(read_attr(op, from->attrs[i], at));
    op->has_is_target = from->has_is_target;
    op->is_target = from->is_target;
    return TR_OK;
}

static tr_status read_op(tr_block *block, const pb_op *from, int block_count)
{
    tr_status      status;
    tr_op_desc    *op = tr_op_desc_new(from->type);
    const op_place at = {block->index, block->op_count, block_count, from->type};

    TR_TRY_GOTO(failed, fill_op(op, from, &at));
    TR_TRY_GOTO(failed, tr__block_place_op(block, -1, op));
    return TR_OK;
failed:
    tr_op_desc_free(op);
    return status;
}

/* -- variables -------------------------------------------------------------------------------- */

static bool is_kind(int kind)
{
    return (kind >= TR_KIND_TENSOR && kind <= TR_KIND_READER) || kind == TR_KIND_RAW || kind == TR_KIND_TUPLE;
}

static tr_status bad_var(const tr_var_desc *var, const char *what, long long value)
{
    return tr_fail(TR_EFORMAT, "program: block %d, variable '%s': %s %lld", var->block->index, var->name, what, value);
}

static tr_status read_tensor(tr_var_desc *var, const pb_tensor *from)
{
    if (!tr_dtype_is_valid((tr_dtype)from->data_type))
        return bad_var(var, "its data type is the unknown", from->data_type);
    if (from->n_dims > TR_MAX_RANK)
        return bad_var(var, "its rank is more than the possible 9:", (long long)from->n_dims);
    var->dtype = (tr_dtype)from->data_type;
    if (tr_var_desc_set_shape(var, (int)from->n_dims, from->dims) != TR_OK)
        return tr_fail(TR_EFORMAT, "program: block %d, %s", var->block->index, tr_error());
    return TR_OK;
}

static tr_status read_lod_level(tr_var_desc *var, bool is_there, int level)
{
    if (level < 0 || level > MAX_LOD_LEVEL)
        return bad_var(var, "its LoD level is", level);
    var->lod_level = level;
    var->has_lod_level = is_there;
    return TR_OK;
}

/* Whatever the structs have no place for is kept as it came: other kinds' types, and what a change of kind left. */
static void keep_other_type(tr_var_desc *var, const pb_type *type)
{
    const int parts = (type->lod_tensor != NULL) + (type->selected_rows != NULL) + (type->tensor_array != NULL) +
                      (type->reader != NULL) + (type->tuple != NULL);
    const bool fits = (var->kind == TR_KIND_TENSOR && type->lod_tensor) ||
                      (var->kind == TR_KIND_SELECTED_ROWS && type->selected_rows) ||
                      (var->kind == TR_KIND_ARRAY && type->tensor_array);
    if (parts == (fits ? 1 : 0))
        return;
    var->other_type_size = paddle__framework__proto__var_type__get_packed_size(type);
    var->other_type = tr__must_alloc(var->other_type_size);
    paddle__framework__proto__var_type__pack(type, var->other_type);
}

static tr_status read_var(tr_block *block, const pb_var *from)
{
    const pb_type *type = from->type;

    if (!*from->name)
        return tr_fail(TR_EFORMAT, "program: block %d: variable %d has no name", block->index,
                       tr_block_var_count(block));
    if (tr_block_find_var(block, from->name))
        return tr_fail(TR_EFORMAT, "program: block %d: variable '%s' is there twice", block->index, from->name);
    if (tr_name_check(from->name) != TR_OK)
        return tr_fail(TR_EFORMAT, "program: block %d: variable %d: %s", block->index, tr_block_var_count(block), tr_error());
    tr_var_desc *var = tr__block_var(block, from->name);
    if (!is_kind(type->type))
        return bad_var(var, "its type is the unknown", type->type);
    var->kind = (tr_var_kind)type->type;
    var->persistable = from->persistable;
    var->has_persistable = from->has_persistable;
    if (var->kind == TR_KIND_TENSOR && type->lod_tensor) {
        TR_TRY(read_tensor(var, type->lod_tensor->tensor));
        TR_TRY(read_lod_level(var, type->lod_tensor->has_lod_level, type->lod_tensor->lod_level));
    } else if (var->kind == TR_KIND_ARRAY && type->tensor_array) {
        TR_TRY(read_tensor(var, type->tensor_array->tensor));
        TR_TRY(read_lod_level(var, type->tensor_array->has_lod_level, type->tensor_array->lod_level));
    } else if (var->kind == TR_KIND_SELECTED_ROWS && type->selected_rows) {
        TR_TRY(read_tensor(var, type->selected_rows));
    }
    keep_other_type(var, type);
    return TR_OK;
}

/* -- blocks ----------------------------------------------------------------------------------- */

static tr_status check_block(const pb_block *from, int index, int block_count, int *depth)
{
    const int parent = from->parent_idx;

    if (from->idx != index)
        return tr_fail(TR_EFORMAT, "program: block %d calls itself number %d", index, (int)from->idx);
    if (index == 0 && parent != -1)
        return tr_fail(TR_EFORMAT, "program: block 0 is the global one, but has the parent %d", parent);
    if (index > 0 && (parent < 0 || parent >= index))
        return tr_fail(TR_EFORMAT, "program: block %d has the parent %d, which is no earlier block", index, parent);
    if (from->has_forward_block_idx && (from->forward_block_idx < -1 || from->forward_block_idx >= block_count))
        return tr_fail(TR_EFORMAT, "program: block %d has the forward block %d of %d", index,
                       (int)from->forward_block_idx, block_count);
    depth[index] = index == 0 ? 0 : depth[parent] + 1;
    if (depth[index] > MAX_DEPTH)
        return tr_fail(TR_EFORMAT, "program: block %d lies in more than %d others", index, MAX_DEPTH);
    return TR_OK;
}

static tr_status read_block(tr_block *block, const pb_block *from, int block_count)
{
    if (from->n_vars > INT_MAX / 8 || from->n_ops > INT_MAX / 8)
        return tr_fail(TR_EFORMAT, "program: block %d has %zu variables and %zu operators", block->index,
                       from->n_vars, from->n_ops);
    block->forward = from->forward_block_idx;
    block->has_forward = from->has_forward_block_idx;
    for (size_t i = 0; i < from->n_vars; i++)
        TR_TRY(read_var(block, from->vars[i]));
    for (size_t i = 0; i < from->n_ops; i++)
        TR_TRY(read_op(block, from->ops[i], block_count));
    return TR_OK;
}

static tr_status read_blocks(tr_program *program, const pb_program *from, int *depth)
{
    const int count = (int)from->n_blocks;

    for (int b = 0; b < count; b++) {
        TR_TRY(check_block(from->blocks[b], b, count, depth));
        if (b > 0)
            tr_program_append_block(program, from->blocks[b]->parent_idx);
    }
    for (int b = 0; b < count; b++)
        TR_TRY(read_block(program->block[b], from->blocks[b], count));
    return TR_OK;
}

/* -- blocks that run blocks --------------------------------------------------------------------- */

typedef void (*block_ref_fn)(int to, void *payload);

/* Call `fn` for every block that an operator of `block` runs. */
static void each_block_ref(const tr_block *block, block_ref_fn fn, void *payload)
{
    for (int o = 0; o < block->op_count; o++)
        for (int a = 0; a < block->op[o]->attr_count; a++) {
            const tr_attr *attr = &block->op[o]->attr[a];
            if (attr->type != TR_ATTR_BLOCK && attr->type != TR_ATTR_BLOCKS)
                continue;
            for (int i = 0; i < attr->count; i++)
                fn((int)tr__attr_int(attr, i), payload);
        }
}

static void count_ref(int to, void *payload)
{
    ((int *)payload)[to]++;
}

typedef struct ready_list {
    int *refs, *item, count;
} ready_list;

static void drop_ref(int to, void *payload)
{
    ready_list *ready = payload;
    if (--ready->refs[to] == 0)
        ready->item[ready->count++] = to;
}

/* Take away blocks that no other one runs until none is left; what stays is a circle. */
static tr_status check_no_circle(const tr_program *program, int *refs, int *item)
{
    const int  count = program->block_count;
    ready_list ready = {refs, item, 0};

    memset(refs, 0, (size_t)count * sizeof *refs);
    for (int b = 0; b < count; b++)
        each_block_ref(program->block[b], count_ref, refs);
    for (int b = 0; b < count; b++)
        if (refs[b] == 0)
            item[ready.count++] = b;
    for (int done = 0; done < ready.count; done++)
        each_block_ref(program->block[item[done]], drop_ref, &ready);
    if (ready.count == count)
        return TR_OK;
    for (int b = 0; b < count; b++)
        if (refs[b] > 0)
            return tr_fail(TR_EFORMAT, "program: blocks run each other in a circle, which reaches block %d", b);
    return TR_OK;
}

/* -- programs --------------------------------------------------------------------------------- */

static tr_status read_program(tr_program *program, const pb_program *from)
{
    tr_status status;
    int      *room = NULL;

    if (from->n_blocks < 1 || from->n_blocks > INT_MAX / 64)
        return tr_fail(TR_EFORMAT, "program: it has %zu blocks; there must be a global one", from->n_blocks);
    program->has_version = from->version != NULL;
    program->has_version_number = from->version && from->version->has_version;
    program->version = from->version ? from->version->version : 0;
    program->random_seed = from->random_seed;
    room = tr__must_alloc(2 * from->n_blocks * sizeof *room);
    TR_TRY_GOTO(done, read_blocks(program, from, room));
    TR_TRY_GOTO(done, check_no_circle(program, room, room + from->n_blocks));
done:
    free(room);
    return status;
}

tr_status tr_program_parse(tr_program **out, const void *bytes, size_t size)
{
    pb_program *message;
    tr_program *program;

    if (size > INT_MAX)                   /* the format's own limit; so counts fit into an int */
        return tr_fail(TR_EFORMAT, "program: %zu bytes are more than 2 GiB", size);
    message = paddle__framework__proto__program_desc__unpack(NULL, size, bytes);
    if (!message)
        return tr__program_explain_damage(bytes, size);
    program = tr_program_new();
    tr_status status = tr__message_check_strings(&paddle__framework__proto__program_desc__descriptor, bytes, size);
    if (status == TR_OK)
        status = read_program(program, message);
    paddle__framework__proto__program_desc__free_unpacked(message, NULL);
    if (status != TR_OK) {
        tr_program_free(program);
        return status;
    }
    *out = program;
    return TR_OK;
}

/* -- files ------------------------------------------------------------------------------------ */

tr_status tr_program_load(tr_program **out, const char *path, unsigned allowed)
{
    uint8_t *bytes = NULL;
    size_t   size = 0;

    TR_TRY(tr_path_read(&bytes, &size, path, INT_MAX));
    tr_status status = tr_program_parse(out, bytes, size);
    free(bytes);
    if (status == TR_OK && (status = tr_program_check_io(*out, allowed)) != TR_OK) {
        tr_program_free(*out);
        *out = NULL;
    }
    return status == TR_OK ? TR_OK : tr_context(status, "while loading '%s'", path);
}
