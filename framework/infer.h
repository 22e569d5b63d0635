/* infer.h - running an operator's shape inference, and checking an operator against its proto.
 *
 * The same inference serves three times: when an operator is appended to a program (-1 is allowed), when a
 * plan lays out its memory, and before a step whose shapes depend on data. */
#ifndef TR_FRAMEWORK_INFER_H
#define TR_FRAMEWORK_INFER_H

#include "framework/program.h"

/* The most arguments an operator's slots hold together before memory is taken from the heap. */
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
/* frame->meta holds the inputs and what is known of the outputs; on success it holds the outputs. */
tr_status tr__infer_frame_run(tr_infer_frame *frame, const tr_op *op, const void *attrs);

/* What the program says of a variable. */
tr_meta tr__meta_of_desc(const tr_var_desc *var);

/* A variable of this kind holds one tensor. */
static inline bool tr__kind_is_tensor(tr_var_kind kind)
{
    return kind == TR_KIND_TENSOR || kind == TR_KIND_SELECTED_ROWS;
}

static inline bool tr__meta_equal(const tr_meta *a, const tr_meta *b)
{
    bool equal = a->kind == b->kind && a->dtype == b->dtype && a->shape.rank == b->shape.rank && a->height == b->height &&
                 a->lod_level == b->lod_level && a->lod_source == b->lod_source;

    for (int d = 0; equal && d < a->shape.rank; d++)
        equal = a->shape.dim[d] == b->shape.dim[d];
    return equal;
}

#endif
