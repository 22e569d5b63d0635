/* rounded_params.c - see rounded_params.h. */
#include "pserver/core/updates/rounded_params.h"

#include "framework/base/memory.h"

#include <stdlib.h>

typedef struct rounded_block {
    uint8_t *buffer[2];               /* for even and odd updates; NULL: not asked for yet */
    uint64_t update[2];               /* the update whose parameters the buffer has */
} rounded_block;

struct tr__rounded_params {
    uint32_t      count;
    rounded_block block[];
};

tr__rounded_params *tr__rounded_params_new(uint32_t count)
{
    tr__rounded_params *p = tr__must_alloc(sizeof *p + count * sizeof *p->block);

    p->count = count;
    return p;
}

void tr__rounded_params_free(tr__rounded_params *p)
{
    for (uint32_t i = 0; p && i < p->count; i++) {
        free(p->block[i].buffer[0]);
        free(p->block[i].buffer[1]);
    }
    free(p);
}

uint8_t *tr__rounded_params_get(tr__rounded_params *p, uint32_t index, uint64_t update, const uint8_t *floats, uint64_t bytes)
{
    rounded_block *b = &p->block[index];
    const unsigned side = update % 2;

    if (b->buffer[side] && b->update[side] == update)
        return b->buffer[side];
    if (!b->buffer[side])
        b->buffer[side] = tr__must_bytes(bytes / 2);
    tr_rounded_make(b->buffer[side], floats, bytes);
    b->update[side] = update;
    return b->buffer[side];
}
