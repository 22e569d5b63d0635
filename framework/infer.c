/* infer.c - see infer.h; and tr_block_insert_op, where every operator of every program passes. */
#include "framework/infer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "framework/kernel.h"
#include "framework/name.h"
#include "framework/op_attrs.h"
#include "framework/op_check.h"
#include "framework/op_registry.h"

tr_meta tr_meta_dense(tr_dtype dtype, tr_shape shape)
{
    return (tr_meta){.kind = TR_KIND_TENSOR, .dtype = dtype, .shape = shape, .height = -1, .lod_source = -1};
}

tr_meta tr__meta_of_desc(const tr_var_desc *var)
{
    tr_meta meta = tr_meta_dense(var->dtype, var->shape);
    meta.kind = var->kind;
    meta.lod_level = var->lod_level;
    if (var->kind == TR_KIND_SELECTED_ROWS && var->shape.rank > 0) {
        meta.height = var->shape.dim[0];
        meta.shape.dim[0] = -1;
    }
    return meta;
}

/* -- running ---------------------------------------------------------------------------------- */

tr_status tr__infer_frame_init(tr_infer_frame *frame, const tr_op *op, const int *counts)
{
    const tr_op_proto *proto = tr__op_proto(op);
    const int in_slots = tr__slot_count(proto->in), slots = in_slots + tr__slot_count(proto->out);
    int       args = 0;

    for (int s = 0; s < slots; s++)
        args += counts[s];
    *frame = (tr_infer_frame){.proto = proto, .in_slots = in_slots, .out_slots = slots - in_slots, .arg_count = args};
    frame->meta = calloc((size_t)(args + slots) + 1, sizeof *frame->meta);
    frame->list = calloc((size_t)slots + 1, sizeof *frame->list);
    if (!frame->meta || !frame->list) {
        tr__infer_frame_deinit(frame);
        return tr_fail(TR_ENOMEM, "%s: no memory to infer shapes", op->type);
    }
    frame->first = frame->meta + args;
    tr_meta *next = frame->meta;
    for (int s = 0; s < slots; s++) {
        frame->list[s] = (tr_meta_list){counts[s], next};
        next += counts[s];
    }
    frame->io = (tr_infer){.type = op->type, .in = frame->first, .out = frame->first + in_slots,
                           .ins = frame->list, .outs = frame->list + in_slots};
    return TR_OK;
}

void tr__infer_frame_deinit(tr_infer_frame *frame)
{
    if (frame->forward)
        tr__infer_frame_deinit(frame->forward);
    free(frame->forward);
    free(frame->meta);
    free(frame->list);
    frame->meta = NULL;
    frame->list = NULL;
    frame->forward = NULL;
}

/* The rule for gradient operators that have none of their own: X@GRAD is like X. */
static void infer_like_forward(const tr_infer *io, const tr_grad_rule *rule)
{
    for (int k = 0; rule->makes[k].what != TR_GRAD_END; k++)
        for (int r = 0; rule->reads[r].what != TR_GRAD_END; r++) {
            if (rule->reads[r].what != TR_GRAD_IN || rule->reads[r].slot != rule->makes[k].slot)
                continue;
            for (int i = 0; i < io->outs[k].count && i < io->ins[r].count; i++)
                io->outs[k].item[i] = io->ins[r].item[i];
            if (io->outs[k].count > 0)
                io->out[k] = io->outs[k].item[0];
        }
}

/* A gradient operator whose slots and attributes come from its forward operator. */
static bool is_derived(const tr_op *op)
{
    return op->grad_of && !op->proto;
}

tr_status tr__infer_frame_run(tr_infer_frame *frame, const tr_op *op, const void *attrs)
{
    static const tr_meta absent = {.kind = TR_KIND_NONE, .dtype = TR_DTYPE_NONE, .height = -1, .lod_source = -1};
    const int slots = frame->in_slots + frame->out_slots;

    for (int s = 0; s < slots; s++)
        frame->first[s] = frame->list[s].count > 0 ? frame->list[s].item[0] : absent;
    frame->io.attrs = attrs;
    TR_TRY(tr__op_check_given(frame, op));
    if (op->infer)
        TR_TRY(op->infer(&frame->io));
    else if (op->grad_of)
        infer_like_forward(&frame->io, op->grad_of->grad);
    /* Slots of one argument are written through `out`, repeated ones through `outs`. */
    for (int s = 0; s < frame->out_slots; s++)
        if (frame->io.outs[s].count > 0 && !(frame->proto->out[s].flags & TR_SLOT_REPEATED))
            frame->io.outs[s].item[0] = frame->io.out[s];
    TR_TRY(tr__op_check_made(frame, op));
    return is_derived(op) ? tr__op_check_gradient(frame, op, attrs) : TR_OK;
}

/* -- checking an operator against its proto ------------------------------------------------------ */

static tr_status check_slot_names(const tr_op_desc *op, const tr_slot_def *defs, bool output)
{
    const tr_slot *slots = output ? op->out : op->in;
    const int      count = output ? op->out_count : op->in_count;

    for (int g = 0; g < count; g++) {
        int s = 0;
        while (defs && defs[s].name && strcmp(defs[s].name, slots[g].name) != 0)
            s++;
        if ((!defs || !defs[s].name) && slots[g].count > 0)
            return tr_fail(TR_EINVAL, "%s: there is no %s named %s", op->type, output ? "output" : "input", slots[g].name);
    }
    return TR_OK;
}

static bool is_empty_name(const char *name)
{
    return strcmp(name, "@EMPTY@") == 0;
}

static tr_status check_inputs_exist(tr_block *block, const tr_op_desc *op)
{
    for (int s = 0; s < op->in_count; s++)
        for (int i = 0; i < op->in[s].count; i++)
            if (!is_empty_name(op->in[s].arg[i]) && !tr_block_find_var_recursive(block, op->in[s].arg[i]))
                return tr_fail(TR_ENOTFOUND, "%s: input %s names '%s', which is no variable of block %d or of those "
                               "around it", op->type, op->in[s].name, op->in[s].arg[i], block->index);
    return TR_OK;
}

/* -- inferring into the program ------------------------------------------------------------------- */

static void count_args(int *counts, const tr_op_desc *op, const tr_op_proto *proto)
{
    for (int s = 0; proto->in && proto->in[s].name; s++) {
        const tr_slot *slot = tr__op_desc_slot(op, false, proto->in[s].name);
        *counts++ = slot ? slot->count : 0;
    }
    for (int s = 0; proto->out && proto->out[s].name; s++) {
        const tr_slot *slot = tr__op_desc_slot(op, true, proto->out[s].name);
        *counts++ = slot ? slot->count : 0;
    }
}

/* The variable of flat argument `a`; NULL for @EMPTY@. */
static tr_var_desc *arg_var(tr_block *block, const tr_op_desc *op, const tr_op_proto *proto, int a)
{
    for (int output = 0; output < 2; output++) {
        const tr_slot_def *defs = output ? proto->out : proto->in;
        for (int s = 0; defs && defs[s].name; s++) {
            const tr_slot *slot = tr__op_desc_slot(op, output, defs[s].name);
            const int      count = slot ? slot->count : 0;
            if (a < count)
                return is_empty_name(slot->arg[a]) ? NULL : tr_block_find_var_recursive(block, slot->arg[a]);
            a -= count;
        }
    }
    return NULL;
}

static tr_status store_meta(tr_var_desc *var, const tr_meta *meta)
{
    tr_shape shape = meta->shape;

    if (meta->kind == TR_KIND_SELECTED_ROWS && shape.rank > 0)
        shape.dim[0] = meta->height;
    if (meta->kind != TR_KIND_NONE)
        tr_var_desc_set_kind(var, meta->kind);
    if (meta->dtype != TR_DTYPE_NONE)
        tr_var_desc_set_dtype(var, meta->dtype);
    tr_var_desc_set_lod_level(var, meta->lod_level);
    /* A parameter's declared shape says at least as much as what was inferred. */
    if (var->persistable && var->shape.rank > 0 && tr_shape_fits(&var->shape, &shape))
        return TR_OK;
    if (shape.rank > 0)
        TR_TRY(tr_var_desc_set_shape(var, shape.rank, shape.dim));
    return TR_OK;
}

/* Is there a kernel? Only a plan knows for sure, where the type is not yet known. */
static tr_status check_kernel(tr_block *block, const tr_op_desc *op, const tr_op *record, const tr_infer_frame *frame,
                              const int *counts)
{
    tr_kernel_fn kernel;
    int          from, to;

    if (record->run)
        return TR_OK;
    tr__kernel_key_args(&from, &to, record, counts);
    while (from < to && frame->meta[from].kind == TR_KIND_NONE)
        from++;
    if (from == to || frame->meta[from].dtype == TR_DTYPE_NONE)
        return TR_OK;
    const tr_var_desc *var = arg_var(block, op, tr__op_proto(record), from);
    return tr__kernel_choose(&kernel, record, counts, from, var ? var->name : "", frame->meta[from].dtype);
}

static tr_status infer_with(tr_block *block, tr_op_desc *op, const tr_op *record, tr_infer_frame *frame, void *attrs,
                            const int *counts)
{
    const tr_op_proto *proto = tr__op_proto(record);
    int in_args = 0;

    for (int s = 0; s < frame->in_slots; s++)
        in_args += counts[s];
    for (int a = 0; a < frame->arg_count; a++) {
        const tr_var_desc *var = arg_var(block, op, proto, a);
        if (var)
            frame->meta[a] = tr__meta_of_desc(var);
        else
            frame->meta[a] = (tr_meta){.kind = TR_KIND_NONE, .dtype = TR_DTYPE_NONE, .height = -1, .lod_source = -1};
    }
    TR_TRY(tr__op_check_slots(frame, record));
    TR_TRY(tr__infer_frame_run(frame, record, attrs));
    TR_TRY(check_kernel(block, op, record, frame, counts));
    for (int a = in_args; a < frame->arg_count; a++) {
        tr_var_desc *var = arg_var(block, op, proto, a);
        if (var)
            TR_TRY(store_meta(var, &frame->meta[a]));
    }
    return TR_OK;
}

static tr_status infer_into_program(tr_block *block, tr_op_desc *op, const tr_op *record)
{
    tr_status          status = TR_OK;
    const tr_op_proto *proto = tr__op_proto(record);
    const int          slots = tr__slot_count(proto->in) + tr__slot_count(proto->out);
    int               *counts = calloc((size_t)slots + 1, sizeof *counts);
    void              *attrs = calloc(1, proto->attrs_size + 1);
    tr_infer_frame     frame = {0};

    if (!counts || !attrs) {
        status = tr_fail(TR_ENOMEM, "%s: no memory to infer shapes", op->type);
        goto done;
    }
    count_args(counts, op, proto);
    TR_TRY_GOTO(done, tr__infer_frame_init(&frame, record, counts));
    TR_TRY_GOTO(done, tr__attrs_decode(attrs, record, op));
    TR_TRY_GOTO(done, tr__op_check_attrs(record, attrs));
    TR_TRY_GOTO(done, infer_with(block, op, record, &frame, attrs, counts));
done:
    tr__infer_frame_deinit(&frame);
    free(counts);
    free(attrs);
    return status;
}

/* -- inserting ------------------------------------------------------------------------------------ */

/* Create the outputs that do not exist; `made` remembers them, to be undone. */
static tr_status create_outputs(tr_block *block, const tr_op_desc *op, const char **made, int *made_count)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const char *name = op->out[s].arg[i];
            if (is_empty_name(name) || tr_block_find_var_recursive(block, name))
                continue;
            TR_TRY(tr_name_check(name));
            tr__block_var(block, name);
            made[(*made_count)++] = name;
        }
    return TR_OK;
}

static tr_status insert_checked(tr_block *block, int index, tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);

    if (!record)
        return tr_fail(TR_ENOTFOUND, "there is no operator '%s'; did you mean '%s'?", op->type,
                       tr__op_nearest(op->type));
    const tr_op_proto *proto = tr__op_proto(record);
    TR_TRY(check_slot_names(op, proto->in, false));
    TR_TRY(check_slot_names(op, proto->out, true));
    TR_TRY(tr__attrs_check(record, op, false));
    TR_TRY(check_inputs_exist(block, op));
    TR_TRY(infer_into_program(block, op, record));
    return tr__block_place_op(block, index, op);
}

tr_status tr_block_insert_op(tr_block *block, int index, tr_op_desc *op)
{
    int outputs = 0, made_count = 0;

    assert(!op->block);
    if (index > block->op_count || index < -1)
        return tr_fail(TR_ERANGE, "%s: position %d in a block of %d operators", op->type, index, block->op_count);
    for (int s = 0; s < op->out_count; s++)
        outputs += op->out[s].count;
    const char **made = malloc((size_t)(outputs + 1) * sizeof *made);
    if (!made)
        return tr_fail(TR_ENOMEM, "%s: no memory to insert it", op->type);
    tr_status status = create_outputs(block, op, made, &made_count);
    if (status == TR_OK)
        status = insert_checked(block, index, op);
    if (status != TR_OK) {
        for (int i = 0; i < made_count; i++)
            tr_block_remove_var(block, made[i]);
        const char *origin = tr__op_desc_origin(op);
        tr_context(status, "while operator '%s' was added to block %d%s%s", op->type, block->index,
                   *origin ? ", at " : "", origin);
    }
    free(made);
    return status;
}
