/* double_buffers.c - see double_buffers.h. */
#include "pserver/store/double_buffers.h"

#include "framework/base/memory.h"
#include "framework/tensors/tensor.h"

#include <stdlib.h>

tr_status tr_double_buffers_put(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape)
{
    void *memory;

    TR_TRY(tr_state_take(&memory, state, (uint64_t)(tr_shape_numel(shape) * tr_dtype_size(dtype))));
    tr__tensor_point(tensor, dtype, shape, memory);
    return TR_OK;
}

tr_status tr_double_buffers_add(tr_double_buffers *buffers, tr_state *state, tr_tensor *now, tr_tensor *next)
{
    TR_TRY(tr_double_buffers_put(state, next, now->dtype, &now->shape));
    buffers->item = tr__must_realloc(buffers->item, (buffers->count + 1) * sizeof *buffers->item);
    buffers->item[buffers->count++] = (tr_double_buffer){now, next};
    return TR_OK;
}

void tr_double_buffers_deinit(tr_double_buffers *buffers)
{
    free(buffers->item);
    *buffers = (tr_double_buffers){0};
}

void tr_double_buffers_switch(tr_double_buffers *buffers)
{
    for (uint32_t i = 0; i < buffers->count; i++) {
        tr_tensor *now = buffers->item[i].now, *next = buffers->item[i].next;
        void      *data = now->data;
        now->data = next->data;
        next->data = data;
    }
}
