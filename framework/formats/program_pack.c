/* program_pack.c - from a program to the bytes of a ProgramDesc, and from an operator's record to an OpProto.
 *
 * The messages are built in an arena and borrow all strings and lists from the descs; they live for one call. */
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/attr.h"
#include "proto/framework.pb-c.h"

typedef Paddle__Framework__Proto__ProgramDesc          pb_program;
typedef Paddle__Framework__Proto__Version              pb_version;
typedef Paddle__Framework__Proto__BlockDesc            pb_block;
typedef Paddle__Framework__Proto__VarDesc              pb_var;
typedef Paddle__Framework__Proto__VarType              pb_type;
typedef Paddle__Framework__Proto__VarType__TensorDesc  pb_tensor;
typedef Paddle__Framework__Proto__VarType__LoDTensorDesc      pb_lod_tensor;
typedef Paddle__Framework__Proto__VarType__LoDTensorArrayDesc pb_array;
typedef Paddle__Framework__Proto__OpDesc               pb_op;
typedef Paddle__Framework__Proto__OpDesc__Attr         pb_attr;
typedef Paddle__Framework__Proto__OpDesc__Var          pb_slot;
typedef Paddle__Framework__Proto__OpProto              pb_proto;
typedef Paddle__Framework__Proto__OpProto__Var         pb_proto_var;
typedef Paddle__Framework__Proto__OpProto__Attr        pb_proto_attr;
typedef Paddle__Framework__Proto__OpProto__Attr__Range pb_range;

/* -- the arena -------------------------------------------------------------------------------- */

typedef struct chunk {
    struct chunk *next;
    size_t        used, size;
    max_align_t   data[];
} chunk;

typedef struct arena {
    chunk *last;
} arena;

static void *take(arena *memory, size_t size)
{
    chunk *last = memory->last;

    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!last || last->size - last->used < size) {
        const size_t room = size > (1 << 14) ? size : 1 << 14;
        last = tr__must_alloc(sizeof *last + room);
        last->next = memory->last;
        last->size = room;
        memory->last = last;
    }
    void *piece = (char *)last->data + last->used;
    last->used += size;
    return piece;
}

static void arena_deinit(arena *memory)
{
    while (memory->last) {
        chunk *next = memory->last->next;
        free(memory->last);
        memory->last = next;
    }
}

/* A message of this type, in the arena, with the defaults of its fields. */
#define NEW(memory, type, init) (type *)new_message(memory, sizeof(type), &(const type)init)

static void *new_message(arena *memory, size_t size, const void *init)
{
    return memcpy(take(memory, size), init, size);
}

#define NEW_LIST(memory, type, count) (type **)take(memory, (size_t)(count) * sizeof(type *))

/* -- operators -------------------------------------------------------------------------------- */

static protobuf_c_boolean *bools_of(arena *memory, const tr_attr *attr)
{
    protobuf_c_boolean *bools = take(memory, (size_t)attr->count * sizeof *bools);
    for (int i = 0; i < attr->count; i++)
        bools[i] = attr->ints[i] != 0;
    return bools;
}

static pb_attr *attr_message(arena *memory, const tr_attr *attr)
{
    pb_attr     *to = NEW(memory, pb_attr, PADDLE__FRAMEWORK__PROTO__OP_DESC__ATTR__INIT);
    const size_t count = (size_t)attr->count;

    to->name = attr->name;
    to->type = (Paddle__Framework__Proto__AttrType)attr->type;
    switch (attr->type) {
    case TR_ATTR_INT:     to->has_i = 1; to->i = (int32_t)attr->i; break;
    case TR_ATTR_LONG:    to->has_l = 1; to->l = attr->i; break;
    case TR_ATTR_BOOL:    to->has_b = 1; to->b = attr->i != 0; break;
    case TR_ATTR_BLOCK:   to->has_block_idx = 1; to->block_idx = (int32_t)attr->i; break;
    case TR_ATTR_FLOAT:   to->has_f = 1; to->f = attr->f; break;
    case TR_ATTR_STRING:  to->has_s = 1; to->s = (ProtobufCBinaryData){count, (uint8_t *)attr->s}; break;
    case TR_ATTR_INTS:    to->n_ints = count; to->ints = attr->ints; break;
    case TR_ATTR_BLOCKS:  to->n_blocks_idx = count; to->blocks_idx = attr->ints; break;
    case TR_ATTR_LONGS:   to->n_longs = count; to->longs = attr->longs; break;
    case TR_ATTR_FLOATS:  to->n_floats = count; to->floats = attr->floats; break;
    case TR_ATTR_STRINGS: to->n_strings = count; to->strings = attr->strings; break;
    case TR_ATTR_BOOLS:   to->n_bools = count; to->bools = bools_of(memory, attr); break;
    default:              break;
    }
    return to;
}

static pb_slot **slot_messages(arena *memory, const tr_slot *slots, int count)
{
    pb_slot **list = NEW_LIST(memory, pb_slot, count);
    for (int i = 0; i < count; i++) {
        list[i] = NEW(memory, pb_slot, PADDLE__FRAMEWORK__PROTO__OP_DESC__VAR__INIT);
        list[i]->parameter = slots[i].name;
        list[i]->n_arguments = (size_t)slots[i].count;
        list[i]->arguments = slots[i].arg;
    }
    return list;
}

static pb_op *op_message(arena *memory, const tr_op_desc *op)
{
    pb_op *to = NEW(memory, pb_op, PADDLE__FRAMEWORK__PROTO__OP_DESC__INIT);

    to->type = op->type;
    to->n_inputs = (size_t)op->in_count;
    to->inputs = slot_messages(memory, op->in, op->in_count);
    to->n_outputs = (size_t)op->out_count;
    to->outputs = slot_messages(memory, op->out, op->out_count);
    to->n_attrs = (size_t)op->attr_count;
    to->attrs = NEW_LIST(memory, pb_attr, op->attr_count);
    for (int i = 0; i < op->attr_count; i++)
        to->attrs[i] = attr_message(memory, &op->attr[i]);
    to->has_is_target = op->has_is_target;
    to->is_target = op->is_target;
    return to;
}

/* -- variables -------------------------------------------------------------------------------- */

static pb_tensor *tensor_message(arena *memory, const tr_var_desc *var)
{
    pb_tensor *to = NEW(memory, pb_tensor, PADDLE__FRAMEWORK__PROTO__VAR_TYPE__TENSOR_DESC__INIT);

    to->data_type = (Paddle__Framework__Proto__VarType__Type)var->dtype;
    to->n_dims = (size_t)var->shape.rank;
    to->dims = (int64_t *)var->shape.dim;
    return to;
}

static void *take_for_protobuf(void *memory, size_t size) { return take(memory, size); }
static void leave_for_arena(void *memory, void *piece) { (void)memory; (void)piece; }

/* The type as it came, when the structs do not hold all of it. */
static pb_type *base_type(arena *memory, const tr_var_desc *var)
{
    ProtobufCAllocator allocator = {take_for_protobuf, leave_for_arena, memory};

    if (var->other_type)
        return paddle__framework__proto__var_type__unpack(&allocator, var->other_type_size, var->other_type);
    return NEW(memory, pb_type, PADDLE__FRAMEWORK__PROTO__VAR_TYPE__INIT);
}

static pb_type *type_message(arena *memory, const tr_var_desc *var)
{
    pb_type *to = base_type(memory, var);

    to->type = (Paddle__Framework__Proto__VarType__Type)var->kind;
    if (var->dtype == TR_DTYPE_NONE)                      /* a TensorDesc cannot be without one */
        return to;
    if (var->kind == TR_KIND_SELECTED_ROWS) {
        to->selected_rows = tensor_message(memory, var);
    } else if (var->kind == TR_KIND_TENSOR) {
        to->lod_tensor = NEW(memory, pb_lod_tensor, PADDLE__FRAMEWORK__PROTO__VAR_TYPE__LO_DTENSOR_DESC__INIT);
        to->lod_tensor->tensor = tensor_message(memory, var);
        to->lod_tensor->has_lod_level = var->has_lod_level;
        to->lod_tensor->lod_level = var->lod_level;
    } else if (var->kind == TR_KIND_ARRAY) {
        to->tensor_array = NEW(memory, pb_array, PADDLE__FRAMEWORK__PROTO__VAR_TYPE__LO_DTENSOR_ARRAY_DESC__INIT);
        to->tensor_array->tensor = tensor_message(memory, var);
        to->tensor_array->has_lod_level = var->has_lod_level;
        to->tensor_array->lod_level = var->lod_level;
    }
    return to;
}

static pb_var *var_message(arena *memory, const tr_var_desc *var)
{
    pb_var *to = NEW(memory, pb_var, PADDLE__FRAMEWORK__PROTO__VAR_DESC__INIT);

    to->name = var->name;
    to->type = type_message(memory, var);
    to->has_persistable = var->has_persistable;
    to->persistable = var->persistable;
    return to;
}

/* -- programs --------------------------------------------------------------------------------- */

static pb_block *block_message(arena *memory, const tr_block *block)
{
    pb_block *to = NEW(memory, pb_block, PADDLE__FRAMEWORK__PROTO__BLOCK_DESC__INIT);

    to->idx = block->index;
    to->parent_idx = block->parent;
    to->has_forward_block_idx = block->has_forward;
    to->forward_block_idx = block->forward;
    to->vars = NEW_LIST(memory, pb_var, block->vars.live);
    for (size_t i = 0; i < block->vars.entry_count; i++)
        if (block->vars.entries[i].key)
            to->vars[to->n_vars++] = var_message(memory, block->vars.entries[i].value);
    to->n_ops = (size_t)block->op_count;
    to->ops = NEW_LIST(memory, pb_op, block->op_count);
    for (int i = 0; i < block->op_count; i++)
        to->ops[i] = op_message(memory, block->op[i]);
    return to;
}

static pb_program *program_message(arena *memory, const tr_program *program)
{
    pb_program *to = NEW(memory, pb_program, PADDLE__FRAMEWORK__PROTO__PROGRAM_DESC__INIT);

    to->n_blocks = (size_t)program->block_count;
    to->blocks = NEW_LIST(memory, pb_block, program->block_count);
    for (int b = 0; b < program->block_count; b++)
        to->blocks[b] = block_message(memory, program->block[b]);
    if (program->has_version) {
        to->version = NEW(memory, pb_version, PADDLE__FRAMEWORK__PROTO__VERSION__INIT);
        to->version->has_version = program->has_version_number;
        to->version->version = program->version;
    }
    to->has_random_seed = program->random_seed != 0;
    to->random_seed = program->random_seed;
    return to;
}

static tr_status pack(void **out, size_t *size, const ProtobufCMessage *message, const char *what)
{
    const size_t packed = protobuf_c_message_get_packed_size(message);
    uint8_t     *bytes = malloc(packed ? packed : 1);

    if (!bytes)
        return tr_fail(TR_ENOMEM, "no memory for %s of %zu bytes", what, packed);
    *size = protobuf_c_message_pack(message, bytes);
    *out = bytes;
    return TR_OK;
}

tr_status tr_program_serialize(void **out, size_t *size, const tr_program *program)
{
    arena           memory = {0};
    const tr_status status = pack(out, size, &program_message(&memory, program)->base, "a program");

    arena_deinit(&memory);
    return status;
}

/* -- operators' protos ------------------------------------------------------------------------ */

static pb_proto_var **slot_def_messages(arena *memory, const tr_slot_def *defs, size_t count)
{
    pb_proto_var **list = NEW_LIST(memory, pb_proto_var, count);
    for (size_t i = 0; i < count; i++) {
        pb_proto_var *to = NEW(memory, pb_proto_var, PADDLE__FRAMEWORK__PROTO__OP_PROTO__VAR__INIT);
        to->name = (char *)defs[i].name;
        to->comment = (char *)(defs[i].comment ? defs[i].comment : "");
        to->has_duplicable = to->duplicable = (defs[i].flags & TR_SLOT_REPEATED) != 0;
        to->has_intermediate = to->intermediate = (defs[i].flags & TR_SLOT_INTERMEDIATE) != 0;
        to->has_dispensable = to->dispensable = (defs[i].flags & TR_SLOT_OPTIONAL) != 0;
        list[i] = to;
    }
    return list;
}

static pb_range *range_message(arena *memory, const tr_attr_range *range)
{
    pb_range *to;

    if (!range->has_min && !range->has_max && !range->one_of)
        return NULL;
    to = NEW(memory, pb_range, PADDLE__FRAMEWORK__PROTO__OP_PROTO__ATTR__RANGE__INIT);
    to->has_min = range->has_min;
    to->min = range->min;
    to->has_max = range->has_max;
    to->max = range->max;
    to->has_open_min = to->open_min = range->open_min;
    to->has_open_max = to->open_max = range->open_max;
    while (range->one_of && range->one_of[to->n_one_of].name)
        to->n_one_of++;
    to->one_of = NEW_LIST(memory, char, to->n_one_of);
    for (size_t i = 0; i < to->n_one_of; i++)
        to->one_of[i] = (char *)(uintptr_t)range->one_of[i].name;
    return to;
}

static pb_proto_attr *attr_def_message(arena *memory, const tr_attr_def *def, const tr_attr *value, bool generated)
{
    pb_proto_attr *to = NEW(memory, pb_proto_attr, PADDLE__FRAMEWORK__PROTO__OP_PROTO__ATTR__INIT);

    to->name = (char *)def->name;
    to->type = (Paddle__Framework__Proto__AttrType)def->type;
    to->comment = (char *)(def->comment ? def->comment : "");
    to->has_generated = to->generated = generated;
    to->default_value = value ? attr_message(memory, value) : NULL;
    to->range = range_message(memory, &def->range);
    to->has_required = to->required = def->required;
    return to;
}

tr_status tr_op_serialize_proto(void **out, size_t *size, const tr_op *op)
{
    arena              memory = {0};
    const tr_op_info  *info = tr__op_info(op);
    const tr_op_proto *proto = info->proto;
    pb_proto          *to = NEW(&memory, pb_proto, PADDLE__FRAMEWORK__PROTO__OP_PROTO__INIT);

    to->type = (char *)op->type;
    to->comment = (char *)tr_op_doc(op);
    to->n_inputs = (size_t)info->in_count;
    to->inputs = slot_def_messages(&memory, proto->in, to->n_inputs);
    to->n_outputs = (size_t)info->out_count;
    to->outputs = slot_def_messages(&memory, proto->out, to->n_outputs);
    to->attrs = NEW_LIST(&memory, pb_proto_attr, info->attr_count + TR_COMMON_ATTRS);
    for (int i = 0; i < info->attr_count; i++)
        to->attrs[to->n_attrs++] = attr_def_message(&memory, &proto->attr[i], tr__op_default(op, i), false);
    for (int i = 0; i < TR_COMMON_ATTRS; i++)
        to->attrs[to->n_attrs++] = attr_def_message(&memory, &tr__common_attrs[i], NULL, true);
    const tr_status status = pack(out, size, &to->base, "an operator's proto");
    arena_deinit(&memory);
    return status;
}
