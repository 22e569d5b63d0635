/* twins.c - see twins.h. */
#include "pserver/store/twins.h"

#include "framework/memory.h"
#include "framework/tensor.h"

#include <stdlib.h>

tr_status tr_twins_place(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape)
{
    void *memory;

    TR_TRY(tr_state_take(&memory, state, (uint64_t)(tr_shape_numel(shape) * tr_dtype_size(dtype))));
    tr__tensor_point(tensor, dtype, shape, memory);
    return TR_OK;
}

tr_status tr_twins_add(tr_twins *twins, tr_state *state, tr_tensor *now, tr_tensor *next)
{
    TR_TRY(tr_twins_place(state, next, now->dtype, &now->shape));
    twins->item = tr__must_realloc(twins->item, (twins->count + 1) * sizeof *twins->item);
    twins->item[twins->count++] = (tr_twin){now, next};
    return TR_OK;
}

void tr_twins_deinit(tr_twins *twins)
{
    free(twins->item);
    *twins = (tr_twins){0};
}

void tr_twins_switch(tr_twins *twins)
{
    for (uint32_t i = 0; i < twins->count; i++) {
        tr_tensor *now = twins->item[i].now, *next = twins->item[i].next;
        void      *data = now->data;
        now->data = next->data;
        next->data = data;
    }
}

void *tr_twins_before(const tr_twins *twins, tr_tensor *tensor)
{
    for (uint32_t i = 0; i < twins->count; i++)
        if (twins->item[i].now == tensor)
            return tr_tensor_data(twins->item[i].next);
    return tr_tensor_data(tensor);
}
