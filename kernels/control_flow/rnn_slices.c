/* rnn_slices.c - see rnn_slices.h. */
#include "kernels/control_flow/rnn_slices.h"

static tr_shape slice_shape(const tr_tensor *x)
{
    tr_shape shape = {.rank = x->shape.rank - 1};

    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = x->shape.dim[d + 1];
    if (shape.rank == 0)
        shape = TR_SHAPE(1);          /* a step of [steps] is one number */
    return shape;
}

char *tr__slice_data(const tr_tensor *x, int64_t step)
{
    return (char *)x->data + (x->shape.dim[0] > 0 ? step * (tr_tensor_bytes(x) / x->shape.dim[0]) : 0);
}

void tr__slice_point(tr_tensor *slice, const tr_tensor *x, int64_t step)
{
    const tr_shape shape = slice_shape(x);
    tr__tensor_point(slice, x->dtype, &shape, tr__slice_data(x, step));
}

tr_tensor *tr__frame_tensor(const tr_frame *frame, int v)
{
    return v >= 0 ? &frame->var[v]->tensor : NULL;
}

void tr__slice_inputs(tr_frame *frame, const tr_args *inputs, const int *numbers, int64_t step)
{
    for (int i = 0; i < inputs->count; i++)
        if (numbers[i] >= 0)
            tr__slice_point(tr__frame_tensor(frame, numbers[i]), inputs->item[i], step);
}
