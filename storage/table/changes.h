/* changes.h - what has changed in a table since one of its last snapshots: rows that were touched after a moment, and keys that have lost
 * their rows.
 *
 * A row knows the step of its last update, so only the moments of snapshots are noted, and keys that are removed. What cannot be told by
 * steps, such as rows that a script sets, makes the table forget all moments: then the next snapshot is read whole.
 *
 * What must stay true: the thread that updates the table makes all calls. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_removed_key {
    int64_t key;
    bool    is_candidate; /* it was counted and had no row; else it had a row */
} tr_removed_key;

/* A zeroed one knows no moment. */
typedef struct tr_changes {
    struct tr__moment {
        uint64_t number, clock, at; /* of the snapshot; the table's clock; how many keys had been removed until then */
    } moment[4]; /* the newest first */
    int             moments;
    tr_removed_key *removed; /* since the oldest of these moments */
    uint64_t        first, count, capacity; /* the number of the first of these keys, and how many they are */
} tr_changes;

void tr_changes_deinit(tr_changes *changes);
/* Note the moment of snapshot `number`, which is not 0. */
void tr_changes_note(tr_changes *changes, uint64_t number, uint64_t clock);
/* A key has lost its row, or is not counted any more. */
void tr_changes_remove(tr_changes *changes, int64_t key, bool is_candidate);
/* No moment can be told from the present any more. */
void tr_changes_forget(tr_changes *changes);
/* Find the moment of a snapshot: its clock, and the keys that were removed since then. False: it is not known. */
bool tr_changes_since(uint64_t *clock, const tr_removed_key **removed, uint64_t *count, const tr_changes *changes, uint64_t number);
