/* infer_frame.c - see infer_frame.h. */
#include "framework/operators/infer_frame.h"

#include <stdlib.h>

#include "framework/operators/op_registry.h"

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
