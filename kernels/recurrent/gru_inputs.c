/* gru_inputs.c - see gru_inputs.h. */
#include "kernels/recurrent/gru_inputs.h"

enum { INPUT, STATE, WEIGHT, BIAS };

static tr_status check_matrix(const tr_infer *io, const char *name, int slot, int64_t rows, int64_t cols)
{
    const tr_meta *meta = &io->in[slot];

    if (meta->kind == TR_KIND_NONE)
        return TR_OK;
    return tr__check_shape(io, name, meta, &TR_SHAPE(rows, cols));
}

tr_status tr__check_gru_inputs(int64_t *width, const tr_infer *io, const char *state, int64_t state_rows)
{
    const tr_shape *input = &io->in[INPUT].shape;

    TR_TRY(tr__check_rank(io, "Input", &io->in[INPUT], 2));
    if (input->dim[1] >= 0 && (input->dim[1] == 0 || input->dim[1] % 3 != 0))
        return tr_fail(TR_ESHAPE, "%s: Input is %s; its width must be 3 times that of the hidden state", io->type,
                       TR_SHAPE_STR(*input));
    const int64_t n = input->dim[1] < 0 ? -1 : input->dim[1] / 3, all = input->dim[1];
    TR_TRY(check_matrix(io, "Weight", WEIGHT, n, all));
    TR_TRY(check_matrix(io, "Bias", BIAS, 1, all));
    TR_TRY(check_matrix(io, state, STATE, state_rows, n));
    *width = n < 0 ? io->in[WEIGHT].shape.dim[0] : n;
    return TR_OK;
}
