/* kept_board.c - see kept_board.h. */
#include "pserver/core/kept_board.h"

#include <stdatomic.h>
#include <string.h>

/* In front of the two halves. A record is its size and its bytes, padded to 8. */
typedef struct head {
    uint64_t         half;
    _Atomic uint64_t side;            /* that counts */
    _Atomic uint64_t used[2];
} head;

enum { HEAD = 64, RECORD = 8 };
static const uint64_t STEP = 1 << 16;

static head *head_of(const tr_kept_board *kept)
{
    return (head *)(void *)kept->memory;
}

static uint64_t record_size(uint64_t size)
{
    return RECORD + ((size + 7) & ~(uint64_t)7);
}

static uint64_t place(const tr_kept_board *kept, uint64_t side)
{
    return HEAD + side * head_of(kept)->half;
}

static bool is_sound(const tr_kept_board *kept)
{
    const head *h = head_of(kept);

    if (kept->bytes < HEAD || h->half > UINT32_MAX || atomic_load(&h->side) > 1)
        return false;
    const uint64_t side = atomic_load(&h->side), used = atomic_load(&h->used[side]);
    return used <= h->half && place(kept, side) + used <= kept->bytes;
}

bool tr_kept_board_attach(tr_kept_board *kept, const tr_store *store)
{
    *kept = (tr_kept_board){.store = store};
    kept->memory = store->board ? store->board(store->self, &kept->bytes, false) : NULL;
    if (!kept->memory || !is_sound(kept)) {
        kept->memory = NULL;
        return false;
    }
    kept->side = atomic_load(&head_of(kept)->side);
    return true;
}

void tr_kept_board_create(tr_kept_board *kept, const tr_store *store, uint64_t half)
{
    *kept = (tr_kept_board){.store = store, .bytes = STEP};
    kept->memory = store->board ? store->board(store->self, &kept->bytes, true) : NULL;
    if (kept->memory)
        head_of(kept)->half = half;
}

const uint8_t *tr_kept_board_next(const tr_kept_board *kept, uint64_t *at, size_t *size)
{
    const uint64_t used = kept->memory ? atomic_load(&head_of(kept)->used[kept->side]) : 0;
    uint64_t       bytes;

    if (used < RECORD || *at > used - RECORD)
        return NULL;
    const uint8_t *record = kept->memory + place(kept, kept->side) + *at;
    memcpy(&bytes, record, sizeof bytes);
    if (bytes > used - *at - RECORD)
        return NULL;
    *at += record_size(bytes);
    *size = bytes;
    return record + RECORD;
}

/* Have memory up to here. */
static bool reach(tr_kept_board *kept, uint64_t end)
{
    uint64_t bytes = (end + STEP - 1) / STEP * STEP;

    if (end <= kept->bytes)
        return true;
    uint8_t *memory = kept->store->board(kept->store->self, &bytes, false);
    if (!memory)
        return false;
    kept->memory = memory;
    kept->bytes = bytes;
    return true;
}

bool tr_kept_board_add(tr_kept_board *kept, const uint8_t *packed, size_t size)
{
    const uint64_t bytes = size, all = record_size(size);

    if (!kept->memory)
        return true;
    const uint64_t used = atomic_load(&head_of(kept)->used[kept->side]);
    if (used + all > head_of(kept)->half)
        return false;
    if (!reach(kept, place(kept, kept->side) + used + all)) {
        kept->memory = NULL;
        return true;
    }
    uint8_t *record = kept->memory + place(kept, kept->side) + used;
    memcpy(record, &bytes, sizeof bytes);
    memcpy(record + RECORD, packed, size);
    atomic_store(&head_of(kept)->used[kept->side], used + all);
    return true;
}

void tr_kept_board_begin(tr_kept_board *kept)
{
    if (!kept->memory)
        return;
    kept->side = 1 - kept->side;
    atomic_store(&head_of(kept)->used[kept->side], 0);
}

void tr_kept_board_switch(tr_kept_board *kept)
{
    if (kept->memory)
        atomic_store(&head_of(kept)->side, kept->side);
}
