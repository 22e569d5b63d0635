/* shares.c - see shares.h. */
#include "pserver/core/base/shares.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct tr_share {
    uint8_t *data;
    uint64_t bytes;
} tr_share;

void tr_shares_drop(tr_shares *s)
{
    while (s->count)
        free(s->item[--s->count].data);
    s->taken = s->skip = 0;
}

void tr_shares_deinit(tr_shares *s)
{
    tr_shares_drop(s);
    free(s->item);
}

static void give(tr_shares *s)
{
    if (!s->to || s->taken == s->count)
        return;
    const tr_share *next = &s->item[s->taken++];
    memcpy(s->to, next->data, next->bytes);
    s->to = NULL;
    s->done++;
}

void tr_shares_put(tr_shares *s, const void *data, uint64_t bytes)
{
    if (s->skip) {
        s->skip--;
        return;
    }
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 4;
        s->item = tr__must_realloc(s->item, s->capacity * sizeof *s->item);
    }
    s->item[s->count++] = (tr_share){memcpy(tr__must_bytes(bytes + 1), data, bytes), bytes};
    give(s);
}

void tr_shares_ask(tr_shares *s, void *to)
{
    s->to = to;
    give(s);
}

void tr_shares_restart(tr_shares *s)
{
    while (s->count > s->taken)
        free(s->item[--s->count].data);
    s->skip = s->taken;
}

void tr_shares_give_up(tr_shares *s, uint64_t bytes)
{
    memset(s->to, 0, bytes);
    s->to = NULL;
    s->done++;
}
