/* durable_board.c - see durable_board.h. */
#include "pserver/core/board/durable_board.h"

#include <stdatomic.h>
#include <string.h>

/* The header of the memory; the two halves follow. A record is its size and its bytes, padded to 8 bytes. */
typedef struct head {
    uint64_t         half;
    _Atomic uint64_t side;            /* the valid half */
    _Atomic uint64_t used[2];
} head;

enum { HEAD = 64, RECORD = 8 };
static const uint64_t STEP = 1 << 16;

static head *head_of(const tr_durable_board *durable)
{
    return (head *)(void *)durable->memory;
}

static uint64_t record_size(uint64_t size)
{
    return RECORD + ((size + 7) & ~(uint64_t)7);
}

static uint64_t place(const tr_durable_board *durable, uint64_t side)
{
    return HEAD + side * head_of(durable)->half;
}

static bool is_sound(const tr_durable_board *durable)
{
    const head *h = head_of(durable);

    if (durable->bytes < HEAD || h->half > UINT32_MAX || atomic_load(&h->side) > 1)
        return false;
    const uint64_t side = atomic_load(&h->side), used = atomic_load(&h->used[side]);
    return used <= h->half && place(durable, side) + used <= durable->bytes;
}

bool tr_durable_board_attach(tr_durable_board *durable, const tr_store *store)
{
    *durable = (tr_durable_board){.store = store};
    durable->memory = store->board ? store->board(store->self, &durable->bytes, false) : NULL;
    if (!durable->memory || !is_sound(durable)) {
        durable->memory = NULL;
        return false;
    }
    durable->side = atomic_load(&head_of(durable)->side);
    return true;
}

void tr_durable_board_create(tr_durable_board *durable, const tr_store *store, uint64_t half)
{
    *durable = (tr_durable_board){.store = store, .bytes = STEP};
    durable->memory = store->board ? store->board(store->self, &durable->bytes, true) : NULL;
    if (durable->memory)
        head_of(durable)->half = half;
}

const uint8_t *tr_durable_board_next(const tr_durable_board *durable, uint64_t *at, size_t *size)
{
    const uint64_t used = durable->memory ? atomic_load(&head_of(durable)->used[durable->side]) : 0;
    uint64_t       bytes;

    if (used < RECORD || *at > used - RECORD)
        return NULL;
    const uint8_t *record = durable->memory + place(durable, durable->side) + *at;
    memcpy(&bytes, record, sizeof bytes);
    if (bytes > used - *at - RECORD)
        return NULL;
    *at += record_size(bytes);
    *size = bytes;
    return record + RECORD;
}

/* Grow the memory up to the offset `end`. False: the store has no more memory. */
static bool reach(tr_durable_board *durable, uint64_t end)
{
    uint64_t bytes = (end + STEP - 1) / STEP * STEP;

    if (end <= durable->bytes)
        return true;
    uint8_t *memory = durable->store->board(durable->store->self, &bytes, false);
    if (!memory)
        return false;
    durable->memory = memory;
    durable->bytes = bytes;
    return true;
}

bool tr_durable_board_add(tr_durable_board *durable, const uint8_t *packed, size_t size)
{
    const uint64_t bytes = size, all = record_size(size);

    if (!durable->memory)
        return true;
    const uint64_t used = atomic_load(&head_of(durable)->used[durable->side]);
    if (used + all > head_of(durable)->half)
        return false;
    if (!reach(durable, place(durable, durable->side) + used + all)) {
        durable->memory = NULL;
        return true;
    }
    uint8_t *record = durable->memory + place(durable, durable->side) + used;
    memcpy(record, &bytes, sizeof bytes);
    memcpy(record + RECORD, packed, size);
    atomic_store(&head_of(durable)->used[durable->side], used + all);
    return true;
}

void tr_durable_board_begin(tr_durable_board *durable)
{
    if (!durable->memory)
        return;
    durable->side = 1 - durable->side;
    atomic_store(&head_of(durable)->used[durable->side], 0);
}

void tr_durable_board_switch(tr_durable_board *durable)
{
    if (durable->memory)
        atomic_store(&head_of(durable)->side, durable->side);
}
