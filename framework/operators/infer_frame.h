/* infer_frame.h - what is known of an operator's arguments: their metas, slot by slot.
 *
 * op_check.h holds a frame against the operator's record, infer.h fills in the outputs. */
#pragma once

#include "framework/operators/op.h"
#include "framework/programs/program_desc.h"

typedef struct tr_infer_frame {
    tr_infer      io;
    const tr_op_proto *proto;         /* the operator's: of a gradient operator it would have to be looked up */
    tr_meta      *meta;               /* all arguments, inputs then outputs, slot by slot */
    tr_meta_list *list;
    tr_meta      *first;              /* io.in and io.out */
    int           in_slots, out_slots, arg_count;
    struct tr_infer_frame *forward;   /* of a gradient operator, once it was checked: room for its forward operator */
    bool          is_inferred;        /* the inputs in meta were checked, and the outputs there follow from them */
} tr_infer_frame;

/* Room for an operator whose slots hold `counts` arguments (inputs' slots, then outputs'). */
tr_status tr__infer_frame_init(tr_infer_frame *frame, const tr_op *op, const int *counts);
void      tr__infer_frame_deinit(tr_infer_frame *frame);

/* The definition of slot `s`: inputs first, then outputs. */
static inline const tr_slot_def *tr__infer_frame_slot(const tr_infer_frame *frame, int s)
{
    return s < frame->in_slots ? &frame->proto->in[s] : &frame->proto->out[s - frame->in_slots];
}

/* A variable as the program declares it. */
tr_meta tr__meta_of_desc(const tr_var_desc *var);

/* A variable of this kind holds one tensor. */
static inline bool tr__kind_is_tensor(tr_var_kind kind)
{
    return kind == TR_KIND_TENSOR || kind == TR_KIND_SELECTED_ROWS;
}

static inline bool tr__meta_is_there(const tr_meta *meta) { return meta->kind != TR_KIND_NONE; }

static inline bool tr__meta_equal(const tr_meta *a, const tr_meta *b)
{
    bool equal = a->kind == b->kind && a->dtype == b->dtype && a->shape.rank == b->shape.rank && a->height == b->height &&
                 a->lod_level == b->lod_level && a->lod_source == b->lod_source;

    for (int d = 0; equal && d < a->shape.rank; d++)
        equal = a->shape.dim[d] == b->shape.dim[d];
    return equal;
}
