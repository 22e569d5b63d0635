/* raw_slots.h - a model's slots, as it was saved with them: what a row of raw values has for each feed.
 *
 * They lie beside the program, in a file with a line for each feed, in the order of the feeds:
 *
 *     trireme-slots 1
 *     slot int64 0 -1x1 hash fnv1a64 1099511627776 : user
 *     slot int64 1 -1x1 : genres
 *     slot float32 0 -1x13 missing 0.5 : rooms
 *
 * A line has the type, the level of sequences and the dimensions of the feed, then rules, a colon, and the name. python/trireme/saving/
 * slot_file.py writes it. The file counts only if the model's checksums name it: one that an older model has left is not this model's. */
#pragma once

#include "serving/export.h"
#include "serving/trireme_serving.h"

typedef struct tr_raw_slots {
    int          count;
    tr_raw_slot *slot;                /* names are owned */
} tr_raw_slots;

/* The feeds of a model: `count` variables of the program's first block. */
typedef struct tr_raw_feeds {
    tr_block    *block;
    int          count;
    char *const *name;
} tr_raw_feeds;

/* Read the text of a file, which ends with a zero byte after `size` others, and is written to. TR_EFORMAT: it does not fit the feeds. */
tr_status tr_raw_slots_parse(tr_raw_slots **out, char *text, size_t size, tr_raw_feeds feeds);
/* Read the slots of a model whose program lies in `model_file`. *out is NULL if it has none. */
tr_status tr_raw_slots_load(tr_raw_slots **out, const tr_export *from, const char *model_file, tr_raw_feeds feeds);
void      tr_raw_slots_free(tr_raw_slots *slots);
/* Do they turn the same rows into the same feeds? NULL stands for no slots. */
bool      tr_raw_slots_equal(const tr_raw_slots *a, const tr_raw_slots *b);
