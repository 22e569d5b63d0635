/* expanded.h - a program whose composite operators are replaced by their parts (composite.h), for a plan. Gradient operators get what they lack.
 *
 * The parts of a gradient operator read what the parts of its forward operator have computed, where that stands before it
 * in the same block with the same arguments and attributes. Otherwise the body is computed once more. */
#pragma once

#include "framework/programs/program.h"

/* The origin of an operator of the expanded program. */
typedef struct tr_origin {
    int         op_index;             /* in the same block of the program that was expanded */
    const char *composite;            /* the type of the operator whose part it is; NULL: it is that operator itself */
} tr_origin;

typedef struct tr_expanded {
    tr_program *program;
    int         block_count;
    tr_origin **origin;               /* per block, per operator */
} tr_expanded;

/* *out is NULL where the program has no composite operators, and all inputs of gradient operators (foreign_inputs.h). */
tr_status tr__expand(tr_expanded **out, const tr_program *program);
void      tr__expanded_free(tr_expanded *expanded);
