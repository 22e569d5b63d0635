/* labels.h - what the losses that compare rows of class scores with labels have in common.
 *
 * Scores are [..., classes]. A hard label is an int64 class number for each row, shape [..., 1] or [...]; a soft label is
 * a distribution for each row, shaped and typed as the scores. */
#pragma once

#include "framework/operators/op.h"

/* Check Label, input 1, against the scores, input 0. *loss = one number for each row: [..., 1]. */
tr_status tr__labels_infer(tr_meta *loss, const tr_infer *io, const char *scores_slot, bool soft);
/* The failure of a kernel that found label[row] outside the classes; TR_OK where row is -1. */
tr_status tr__labels_bad_row(const tr_run *io, const char *type, int slot, const tr_tensor *label, int64_t row,
                             int64_t classes, int64_t ignore);

/* Scores as a matrix: rows and classes. */
static inline int64_t tr__labels_classes(const tr_tensor *scores) { return scores->shape.dim[scores->shape.rank - 1]; }
static inline int64_t tr__labels_rows(const tr_tensor *scores)
{
    return tr_shape_product(&scores->shape, 0, scores->shape.rank - 1);
}
