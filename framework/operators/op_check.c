/* op_check.c - see op_check.h. */
#include "framework/operators/op_check.h"

#include <inttypes.h>

#include "framework/base/size.h"
#include "framework/operators/op_registry.h"
#include "framework/operators/slot_form.h"
#include "framework/tensors/half.h"

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
    case TR_KIND_RAW:           return "a sparse table";
    default:                    return "another kind of variable";
    }
}

/* -- what is there ---------------------------------------------------------------------------- */

static tr_status check_count(const tr_infer_frame *frame, const tr_op *op, int s)
{
    const tr_slot_def  *slot = tr__infer_frame_slot(frame, s);
    const tr_meta_list *list = &frame->list[s];
    const bool          optional = slot->flags & (TR_SLOT_OPTIONAL | TR_SLOT_INTERMEDIATE);
    bool                missing = list->count == 0 && !optional;

    if (list->count > 1 && !(slot->flags & TR_SLOT_REPEATED))
        return tr_fail(TR_EINVAL, "%s: %s %s takes one variable, got %d", op->type, side_of(frame, s), slot->name, list->count);
    for (int i = 0; i < list->count && !(slot->flags & TR_SLOT_HOLES); i++)
        missing = missing || (!tr__meta_is_there(&list->item[i]) && !(optional && !(slot->flags & TR_SLOT_REPEATED)));
    if (missing)
        return tr_fail(TR_EINVAL, "%s: %s %s is missing (%s)", op->type, side_of(frame, s), slot->name, slot->comment);
    return TR_OK;
}

/* The gradient of an input that is not there would have no shape. */
static tr_status check_makes(const tr_infer_frame *frame, const tr_op *op, const tr_grad_rule *rule)
{
    for (int k = 0; k < frame->out_slots; k++) {
        const int read = tr__grad_item_find(rule->reads, TR_GRAD_IN, rule->makes[k].slot);
        for (int i = 0; read >= 0 && i < frame->list[frame->in_slots + k].count; i++) {
            const bool given = i < frame->list[read].count && tr__meta_is_there(&frame->list[read].item[i]);
            if (tr__meta_is_there(&frame->list[frame->in_slots + k].item[i]) && !given)
                return tr_fail(TR_EINVAL, "%s: output %s is the gradient of input %s, which is missing", op->type,
                               tr__infer_frame_slot(frame, frame->in_slots + k)->name, tr__infer_frame_slot(frame, read)->name);
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
                           tr__infer_frame_slot(frame, s)->name, meta->shape.dim[d]);
    if (!is_countable(meta))
        return tr_fail(TR_ENOMEM, "%s: %s %s is %s: no machine has the memory for it", op->type, side_of(frame, s),
                       tr__infer_frame_slot(frame, s)->name, TR_SHAPE_STR(meta->shape));
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
            if (tr__meta_is_there(&frame->list[s].item[i]))
                return frame->list[s].item[i].dtype;
    return TR_DTYPE_NONE;
}

static tr_status check_type(const tr_infer_frame *frame, const tr_op *op, int s, int i, tr_dtype type)
{
    const tr_slot_def *slot = tr__infer_frame_slot(frame, s);
    const tr_meta     *meta = &frame->list[s].item[i];

    if (!tr__kind_is_tensor(meta->kind) || meta->dtype == TR_DTYPE_NONE || meta->dtype == type)
        return TR_OK;
    if ((slot->flags & TR_SLOT_WIDE) && tr_dtype_is_half(type) && meta->dtype == TR_FP32)
        return TR_OK;
    if (i > 0 && frame->list[s].item[0].dtype == type)
        return tr_fail(TR_EDTYPE, "%s: %s[0] is %s, so %s[%d] must be, too; got %s", op->type, slot->name, tr_dtype_name(type), slot->name, i,
                       tr_dtype_name(meta->dtype));
    return tr_fail(TR_EDTYPE, "%s: it computes with %s, so %s %s must be %s, got %s", op->type, tr_dtype_name(type), side_of(frame, s),
                   slot->name, tr_dtype_name(type), tr_dtype_name(meta->dtype));
}

static tr_status check_types(const tr_infer_frame *frame, const tr_op *op, int from, int to)
{
    const tr_dtype type = op->run ? TR_DTYPE_NONE : kernel_type(frame, op);

    for (int s = from; s < to && type != TR_DTYPE_NONE; s++)
        for (int i = 0; i < frame->list[s].count && !(tr__infer_frame_slot(frame, s)->flags & TR_SLOT_ANY_TYPE); i++)
            if (tr__meta_is_there(&frame->list[s].item[i]))
                TR_TRY(check_type(frame, op, s, i, type));
    return TR_OK;
}

/* -- all ------------------------------------------------------------------------------------------- */

tr_status tr__op_check_given(const tr_infer_frame *frame, const tr_op *op)
{
    for (int s = 0; s < frame->in_slots; s++) {
        const tr_slot_def *slot = tr__infer_frame_slot(frame, s);
        for (int i = 0; i < frame->list[s].count; i++) {
            const tr_meta *meta = &frame->list[s].item[i];
            if (!tr__meta_is_there(meta))
                continue;
            if (!takes_kind(slot, meta->kind))
                return tr_fail(TR_EUNSUPPORTED, "%s: input %s must be a dense tensor%s, got %s", op->type, slot->name,
                               slot->flags & TR_SLOT_ROWS ? " or selected rows" : "", kind_text(meta->kind));
            TR_TRY(check_size(frame, op, s, meta));
        }
    }
    if (op->key != TR_KEY_OUT)
        TR_TRY(check_types(frame, op, 0, frame->in_slots));
    return tr__forms_apply(frame, kernel_type(frame, op));
}

int tr__op_wrong_kind(const tr_infer_frame *frame)
{
    int argument = 0;

    for (int s = 0; s < frame->in_slots; s++)
        for (int i = 0; i < frame->list[s].count; i++, argument++) {
            const tr_meta *meta = &frame->list[s].item[i];
            if (tr__meta_is_there(meta) && !takes_kind(tr__infer_frame_slot(frame, s), meta->kind))
                return argument;
        }
    return -1;
}

tr_status tr__op_check_made(const tr_infer_frame *frame, const tr_op *op)
{
    const int slots = frame->in_slots + frame->out_slots;

    for (int s = frame->in_slots; s < slots; s++)
        for (int i = 0; i < frame->list[s].count; i++)
            if (tr__meta_is_there(&frame->list[s].item[i]))
                TR_TRY(check_size(frame, op, s, &frame->list[s].item[i]));
    return check_types(frame, op, op->key == TR_KEY_OUT ? 0 : frame->in_slots, slots);
}
