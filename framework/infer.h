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
    tr_meta      *meta;               /* all arguments, inputs then outputs, slot by slot */
    tr_meta_list *list;
    tr_meta      *first;              /* io.in and io.out */
    int           in_slots, out_slots, arg_count;
    struct tr_infer_frame *forward;   /* of a gradient operator, once it was checked: room for its forward operator */
} tr_infer_frame;

/* Room for an operator whose slots hold `counts` arguments (inputs' slots, then outputs'). */
tr_status tr__infer_frame_init(tr_infer_frame *frame, const tr_op *op, const int *counts);
void      tr__infer_frame_deinit(tr_infer_frame *frame);
/* frame->meta holds the inputs and what is known of the outputs; on success it holds the outputs. */
tr_status tr__infer_frame_run(tr_infer_frame *frame, const tr_op *op, const void *attrs);

/* What the program says of a variable. */
tr_meta tr__meta_of_desc(const tr_var_desc *var);

#endif
