/* scratch.c - see scratch.h. */
#include "kernels/base/scratch.h"

#include <string.h>

static size_t padded(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

tr_status tr__scratch_pieces(const tr_run *io, const tr_piece *pieces)
{
    size_t total = 0;
    char  *at;

    for (const tr_piece *p = pieces; p->pointer; p++)
        total += padded(p->bytes);
    TR_TRY(tr_run_scratch((void **)&at, io, total));
    for (const tr_piece *p = pieces; p->pointer; p++) {
        if (p->bytes > 0)
            memcpy(p->pointer, &at, sizeof at);
        at += padded(p->bytes);
    }
    return TR_OK;
}
