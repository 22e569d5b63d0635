/* op_check.c - see op_check.h. */
#include "framework/op_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "framework/op_registry.h"
#include "framework/size.h"

static bool is_there(const tr_meta *meta) { return meta->kind != TR_KIND_NONE; }

static const tr_slot_def *slot_of(const tr_infer_frame *frame, int s)
{
    return s < frame->in_slots ? &frame->proto->in[s] : &frame->proto->out[s - frame->in_slots];
}

static const char *side_of(const tr_infer_frame *frame, int s)
{
    return s < frame->in_slots ? "input" : "output";
}

static const char *kind_text(tr_var_kind kind)
{
    switch (kind) {
    case TR_KIND_TENSOR:        return "a dense tensor";
    case TR_KIND_SELECTED_ROWS: return "selected rows";
    case TR_KIND_ARRAY:         return "a tensor array";
    case TR_KIND_STEP_SCOPES:   return "step scopes";
    case TR_KIND_RANK_TABLE:    return "a rank table";
    default:                    return "another kind of variable";
    }
}

/* -- what is there ---------------------------------------------------------------------------- */

static tr_status check_count(const tr_infer_frame *frame, const tr_op *op, int s)
{
    const tr_slot_def  *slot = slot_of(frame, s);
    const tr_meta_list *list = &frame->list[s];
    const bool          optional = slot->flags & (TR_SLOT_OPTIONAL | TR_SLOT_INTERMEDIATE);
    bool                missing = list->count == 0 && !optional;

    if (list->count > 1 && !(slot->flags & TR_SLOT_REPEATED))
        return tr_fail(TR_EINVAL, "%s: %s %s takes one variable, got %d", op->type, side_of(frame, s), slot->name, list->count);
    for (int i = 0; i < list->count && !(slot->flags & TR_SLOT_HOLES); i++)
        missing = missing || (!is_there(&list->item[i]) && !(optional && !(slot->flags & TR_SLOT_REPEATED)));
    if (missing)
        return tr_fail(TR_EINVAL, "%s: %s %s is missing (%s)", op->type, side_of(frame, s), slot->name, slot->comment);
    return TR_OK;
}

/* Where the gradient operator has forward slot `slot` as `what`: among what it reads, or makes. */
static int find_item(const tr_grad_item *items, tr_grad_what what, int slot)
{
    for (int k = 0; k < TR_RULE_MAX && items[k].what != TR_GRAD_END; k++)
        if (items[k].what == what && items[k].slot == slot)
            return k;
    return -1;
}

/* The gradient of an input that is not there would have no shape. */
static tr_status check_makes(const tr_infer_frame *frame, const tr_op *op, const tr_grad_rule *rule)
{
    for (int k = 0; k < frame->out_slots; k++) {
        const int read = find_item(rule->reads, TR_GRAD_IN, rule->makes[k].slot);
        for (int i = 0; read >= 0 && i < frame->list[frame->in_slots + k].count; i++) {
            const bool given = i < frame->list[read].count && is_there(&frame->list[read].item[i]);
            if (is_there(&frame->list[frame->in_slots + k].item[i]) && !given)
                return tr_fail(TR_EINVAL, "%s: output %s is the gradient of input %s, which is missing", op->type,
                               slot_of(frame, frame->in_slots + k)->name, slot_of(frame, read)->name);
        }
    }
    return TR_OK;
}

tr_status tr__op_check_slots(const tr_infer_frame *frame, const tr_op *op)
{
    for (int s = 0; s < frame->in_slots + frame->out_slots; s++)
        TR_TRY(check_count(frame, op, s));
    return op->grad_of && !op->proto ? check_makes(frame, op, op->grad_of->grad) : TR_OK;
}

static bool takes_kind(const tr_slot_def *slot, tr_var_kind kind)
{
    return kind == TR_KIND_TENSOR || (slot->flags & TR_SLOT_ANY_KIND) ||
           (kind == TR_KIND_SELECTED_ROWS && (slot->flags & TR_SLOT_ROWS));
}

/* -- sizes ------------------------------------------------------------------------------------- */

/* Every product of some of the dimensions can be computed, with a size of an element. Dimensions of 0 do not
 * make the others harmless. */
static bool is_countable(const tr_meta *meta)
{
    int64_t bytes = 8;

    for (int d = 0; d < meta->shape.rank; d++)
        if (meta->shape.dim[d] > 0)
            bytes = tr_size_mul(bytes, meta->shape.dim[d]);
    return bytes <= TR_MAX_BYTES;
}

static tr_status check_size(const tr_infer_frame *frame, const tr_op *op, int s, const tr_meta *meta)
{
    for (int d = 0; d < meta->shape.rank; d++)
        if (meta->shape.dim[d] < -1)
            return tr_fail(TR_ESHAPE, "%s: dimension %d of %s %s is %" PRId64, op->type, d, side_of(frame, s),
                           slot_of(frame, s)->name, meta->shape.dim[d]);
    if (!is_countable(meta))
        return tr_fail(TR_ENOMEM, "%s: %s %s is %s: no machine has the memory for it", op->type, side_of(frame, s),
                       slot_of(frame, s)->name, TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

tr_status tr__op_check_given(const tr_infer_frame *frame, const tr_op *op)
{
    for (int s = 0; s < frame->in_slots; s++) {
        const tr_slot_def *slot = slot_of(frame, s);
        for (int i = 0; i < frame->list[s].count; i++) {
            const tr_meta *meta = &frame->list[s].item[i];
            if (!is_there(meta))
                continue;
            if (!takes_kind(slot, meta->kind))
                return tr_fail(TR_EUNSUPPORTED, "%s: input %s must be a dense tensor%s, got %s", op->type, slot->name,
                               slot->flags & TR_SLOT_ROWS ? " or selected rows" : "", kind_text(meta->kind));
            TR_TRY(check_size(frame, op, s, meta));
        }
    }
    return TR_OK;
}

/* -- types ------------------------------------------------------------------------------------- */

/* The type of the kernel: that of the first key argument that is there. */
static tr_dtype kernel_type(const tr_infer_frame *frame, const tr_op *op)
{
    const int from = op->key == TR_KEY_OUT ? frame->in_slots : op->key == TR_KEY_IN_SLOT ? op->key_slot : 0;
    const int to = op->key == TR_KEY_OUT ? frame->in_slots + frame->out_slots
                 : op->key == TR_KEY_IN_SLOT ? op->key_slot + 1 : frame->in_slots;

    for (int s = from; s < to; s++)
        for (int i = 0; i < frame->list[s].count; i++)
            if (is_there(&frame->list[s].item[i]))
                return frame->list[s].item[i].dtype;
    return TR_DTYPE_NONE;
}

static tr_status check_type(const tr_infer_frame *frame, const tr_op *op, int s, const tr_meta *meta, tr_dtype type)
{
    if (!tr__kind_is_tensor(meta->kind) || meta->dtype == TR_DTYPE_NONE || meta->dtype == type)
        return TR_OK;
    return tr_fail(TR_EDTYPE, "%s: it computes with %s, so %s %s must be %s, too; got %s", op->type, tr_dtype_name(type),
                   side_of(frame, s), slot_of(frame, s)->name, tr_dtype_name(type), tr_dtype_name(meta->dtype));
}

tr_status tr__op_check_made(const tr_infer_frame *frame, const tr_op *op)
{
    const tr_dtype type = op->run ? TR_DTYPE_NONE : kernel_type(frame, op);

    for (int s = 0; s < frame->in_slots + frame->out_slots; s++)
        for (int i = 0; i < frame->list[s].count; i++) {
            const tr_meta *meta = &frame->list[s].item[i];
            if (!is_there(meta))
                continue;
            if (type != TR_DTYPE_NONE && !(slot_of(frame, s)->flags & TR_SLOT_ANY_TYPE))
                TR_TRY(check_type(frame, op, s, meta, type));
            if (s >= frame->in_slots)
                TR_TRY(check_size(frame, op, s, meta));
        }
    return TR_OK;
}

/* -- gradients --------------------------------------------------------------------------------- */

/* The arguments of a forward slot as the gradient operator knows them. An input that it does not read has the
 * type and shape that inference gave its gradient, wanted or not. */
static tr_meta_list known_list(const tr_infer_frame *frame, const tr_grad_rule *rule, bool output, int slot)
{
    int k = find_item(rule->reads, output ? TR_GRAD_OUT : TR_GRAD_IN, slot);

    if (k < 0 && output)
        k = find_item(rule->reads, TR_GRAD_DOUT, slot);
    if (k >= 0)
        return frame->list[k];
    k = output ? -1 : find_item(rule->makes, TR_GRAD_DIN, slot);
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
            if (!optional && !is_there(&list.item[i]))
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
    const char *name = slot_of(frame, k)->name;

    if (!is_there(got) || !tr__kind_is_tensor(expected->kind) || !tr__kind_is_tensor(got->kind))
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
            return tr_fail(TR_EINVAL, "%s: input %s must have %d variables, got %d", op->type, slot_of(frame, k)->name,
                           expected->count, frame->list[k].count);
        for (int i = 0; i < frame->list[k].count; i++)
            TR_TRY(check_fits(frame, op, k, &frame->list[k].item[i], &expected->item[i]));
    }
    return TR_OK;
}

tr_status tr__op_check_gradient(tr_infer_frame *frame, const tr_op *op, const void *attrs)
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
