/* infer.c - see infer.h; and tr_block_insert_op, where every operator of every program passes. */
#include "framework/operators/infer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/name.h"
#include "framework/operators/kernel.h"
#include "framework/operators/op_attrs.h"
#include "framework/operators/op_check.h"
#include "framework/operators/op_registry.h"
#include "framework/operators/slot_form.h"

/* -- a gradient against its forward operator ----------------------------------------------------- */

/* The arguments of a forward slot as the gradient operator knows them. An input that it does not read has the
 * type and shape that inference gave its gradient, wanted or not. */
static tr_meta_list known_list(const tr_infer_frame *frame, const tr_grad_rule *rule, bool output, int slot)
{
    int k = tr__grad_item_find(rule->reads, output ? TR_GRAD_OUT : TR_GRAD_IN, slot);

    if (k < 0 && output)
        k = tr__grad_item_find(rule->reads, TR_GRAD_DOUT, slot);
    if (k >= 0)
        return frame->list[k];
    k = output ? -1 : tr__grad_item_find(rule->makes, TR_GRAD_DIN, slot);
    if (k < 0)
        return (tr_meta_list){0, NULL};
    const tr_meta_list *made = &frame->list[frame->in_slots + k];
    return made->count > 0 ? *made : (tr_meta_list){1, &frame->first[frame->in_slots + k]};
}

static tr_status new_forward(tr_infer_frame *frame, const tr_op *forward, const tr_grad_rule *rule)
{
    const tr_op_info *info = tr__op_info(forward);
    int               counts[2 * TR_RULE_MAX + 32] = {0};

    if (info->in_count + info->out_count > (int)(sizeof counts / sizeof *counts))
        return tr_fail(TR_EINTERNAL, "%s: more slots than a gradient can be checked with", forward->type);
    for (int s = 0; s < info->in_count + info->out_count; s++) {
        const bool output = s >= info->in_count;
        counts[s] = known_list(frame, rule, output, output ? s - info->in_count : s).count;
    }
    frame->forward = calloc(1, sizeof *frame->forward);
    if (!frame->forward)
        return tr_fail(TR_ENOMEM, "%s: no memory to infer shapes", forward->type);
    TR_TRY(tr__infer_frame_init(frame->forward, forward, counts));
    frame->forward->io.for_gradient = true;
    return TR_OK;
}

/* The forward operator's inputs; false: one that it needs is not known. */
static bool fill_forward(const tr_infer_frame *frame, const tr_grad_rule *rule)
{
    tr_infer_frame *to = frame->forward;

    for (int s = 0; s < to->in_slots; s++) {
        const tr_meta_list list = known_list(frame, rule, false, s);
        const bool         optional = to->proto->in[s].flags & TR_SLOT_OPTIONAL;
        if (!optional && list.count == 0)
            return false;
        for (int i = 0; i < list.count; i++) {
            to->list[s].item[i] = list.item[i];
            if (!optional && !tr__meta_is_there(&list.item[i]))
                return false;
        }
    }
    for (int s = to->in_slots; s < to->in_slots + to->out_slots; s++)
        for (int i = 0; i < to->list[s].count; i++) {
            to->list[s].item[i] = tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
            to->list[s].item[i].lod_source = -1;
        }
    return true;
}

static tr_status check_fits(const tr_infer_frame *frame, const tr_op *op, int k, const tr_meta *got, const tr_meta *expected)
{
    const char *name = tr__infer_frame_slot(frame, k)->name;

    if (!tr__meta_is_there(got) || !tr__kind_is_tensor(expected->kind) || !tr__kind_is_tensor(got->kind))
        return TR_OK;
    if (got->dtype != expected->dtype && got->dtype != TR_DTYPE_NONE && expected->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: input %s must be %s, as its forward operator makes it, got %s", op->type, name,
                       tr_dtype_name(expected->dtype), tr_dtype_name(got->dtype));
    if (got->shape.rank > 0 && expected->shape.rank > 0 && !tr_shape_fits(&got->shape, &expected->shape))
        return tr_fail(TR_ESHAPE, "%s: input %s must be %s, as its forward operator makes it, got %s", op->type, name,
                       TR_SHAPE_STR(expected->shape), TR_SHAPE_STR(got->shape));
    return TR_OK;
}

/* Out and Out@GRAD are what forward inference says of Out. */
static tr_status check_reads(const tr_infer_frame *frame, const tr_op *op, const tr_grad_rule *rule)
{
    const tr_infer_frame *forward = frame->forward;

    for (int k = 0; k < TR_RULE_MAX && rule->reads[k].what != TR_GRAD_END; k++) {
        if (rule->reads[k].what == TR_GRAD_IN)
            continue;
        const tr_meta_list *expected = &forward->list[forward->in_slots + rule->reads[k].slot];
        if (frame->list[k].count > 0 && frame->list[k].count != expected->count)
            return tr_fail(TR_EINVAL, "%s: input %s must have %d variables, got %d", op->type, tr__infer_frame_slot(frame, k)->name,
                           expected->count, frame->list[k].count);
        for (int i = 0; i < frame->list[k].count; i++)
            TR_TRY(check_fits(frame, op, k, &frame->list[k].item[i], &expected->item[i]));
    }
    return TR_OK;
}

static tr_status check_gradient(tr_infer_frame *frame, const tr_op *op, const void *attrs)
{
    const tr_op        *forward = op->grad_of;
    const tr_grad_rule *rule = forward->grad;
    tr_status           status;

    if (!frame->forward)
        TR_TRY(new_forward(frame, forward, rule));
    if (!fill_forward(frame, rule))
        return TR_OK;
    status = tr__infer_frame_run(frame->forward, forward, attrs);
    if (status != TR_OK)
        return tr_context(status, "while %s was checked against its forward operator", op->type);
    return check_reads(frame, op, rule);
}

/* -- running ---------------------------------------------------------------------------------- */

/* The input that a slot of the forward operator is like, however many steps away. */
static int root_of(const tr_op_proto *proto, const tr_slot_def *def, int self)
{
    const int like = tr__form_like(proto, def);

    return like < 0 ? self : root_of(proto, &proto->in[like], like);
}

/* Is what the rule reads there like forward input `slot`, in type and shape? */
static bool is_like_input(const tr_op_proto *proto, const tr_grad_item *read, int slot)
{
    if (read->what == TR_GRAD_IN)
        return read->slot == slot;
    const tr_slot_def *out = &proto->out[read->slot];
    return !(out->flags & TR_SLOT_ANY_TYPE) && root_of(proto, out, -1) == root_of(proto, &proto->in[slot], slot);
}

/* The rule for gradient operators, which their own `infer` may change: X@GRAD is like X, or like the first value read that is like X. */
static void infer_like_forward(const tr_infer *io, const tr_op *forward)
{
    const tr_grad_rule *rule = forward->grad;
    const tr_op_proto  *proto = tr__op_proto(forward);

    for (int k = 0; rule->makes[k].what != TR_GRAD_END; k++) {
        int r = tr__grad_item_find(rule->reads, TR_GRAD_IN, rule->makes[k].slot);
        for (int i = 0; r < 0 && rule->reads[i].what != TR_GRAD_END; i++)
            if (is_like_input(proto, &rule->reads[i], rule->makes[k].slot))
                r = i;
        for (int i = 0; r >= 0 && i < io->outs[k].count && i < io->ins[r].count; i++)
            io->outs[k].item[i] = io->ins[r].item[i];
        if (r >= 0 && io->outs[k].count > 0)
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
    if (is_derived(op))
        infer_like_forward(&frame->io, op->grad_of);
    if (op->infer)
        TR_TRY(op->infer(&frame->io));
    /* Slots of one argument are written through `out`, repeated ones through `outs`. */
    for (int s = 0; s < frame->out_slots; s++)
        if (frame->io.outs[s].count > 0 && !(frame->proto->out[s].flags & TR_SLOT_REPEATED))
            frame->io.outs[s].item[0] = frame->io.out[s];
    TR_TRY(tr__op_check_made(frame, op));
    return is_derived(op) ? check_gradient(frame, op, attrs) : TR_OK;
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
