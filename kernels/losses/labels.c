/* labels.c - see labels.h. */
#include "kernels/losses/labels.h"

#include <inttypes.h>

#include "kernels/base/check.h"

tr_status tr__labels_infer(tr_meta *loss, const tr_infer *io, const char *scores_slot, bool soft)
{
    const tr_meta *scores = &io->in[0], *label = &io->in[1];
    tr_shape       column = scores->shape;

    column.dim[column.rank - 1] = 1;
    *loss = *scores;
    loss->shape = column;
    if (soft) {
        TR_TRY(tr__check_dtype(io, "Label", label, scores->dtype));
        return tr__check_same_shape(io, "Label", label, scores_slot, scores);
    }
    tr_shape flat = column;
    flat.rank--;
    TR_TRY(tr__check_ids(io, "Label", label, false));
    if (!tr_shape_fits(&label->shape, &column) && !(flat.rank > 0 && tr_shape_fits(&label->shape, &flat)))
        return tr_fail(TR_ESHAPE, "%s: %s is %s, so Label must be %s, one class number for each row; got %s", io->type, scores_slot,
                       TR_SHAPE_STR(scores->shape), TR_SHAPE_STR(column), TR_SHAPE_STR(label->shape));
    return TR_OK;
}

tr_status tr__labels_bad_row(const tr_run *io, const char *type, int slot, const tr_tensor *label, int64_t row,
                             int64_t classes, int64_t ignore)
{
    if (row < 0)
        return TR_OK;
    const int64_t value = ((const int64_t *)label->data)[row];
    return tr_fail(TR_ERANGE, "%s: the label of row %" PRId64 " in '%s' is %" PRId64 "; it must be in [0, %" PRId64
                   ") or the ignored %" PRId64, type, row, tr_run_in_name(io, slot, 0), value, classes, ignore);
}
