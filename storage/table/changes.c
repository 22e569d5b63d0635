/* changes.c - see changes.h. */
#include "storage/table/changes.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

enum { MOMENTS = sizeof((tr_changes *)0)->moment / sizeof *((tr_changes *)0)->moment };
static const uint64_t MOST_REMOVED = 1 << 22;          /* keys; a table that loses more is written whole */

void tr_changes_deinit(tr_changes *changes)
{
    free(changes->removed);
    *changes = (tr_changes){0};
}

void tr_changes_forget(tr_changes *changes)
{
    changes->moments = 0;
    changes->first += changes->count;
    changes->count = 0;
}

/* Drop the keys that were removed before the oldest moment. */
static void drop_old(tr_changes *c)
{
    const uint64_t old = c->moment[c->moments - 1].at - c->first;

    memmove(c->removed, c->removed + old, (c->count - old) * sizeof *c->removed);
    c->first += old;
    c->count -= old;
}

void tr_changes_note(tr_changes *changes, uint64_t number, uint64_t clock)
{
    changes->moments += changes->moments < MOMENTS;
    memmove(changes->moment + 1, changes->moment, (MOMENTS - 1) * sizeof *changes->moment);
    changes->moment[0] = (struct tr__moment){number, clock, changes->first + changes->count};
    if (changes->count)
        drop_old(changes);
}

void tr_changes_remove(tr_changes *changes, int64_t key, bool is_candidate)
{
    if (!changes->moments)
        return;
    if (changes->count == MOST_REMOVED) {
        tr_changes_forget(changes);
        return;
    }
    if (changes->count == changes->capacity) {
        changes->capacity = changes->capacity ? 2 * changes->capacity : 256;
        changes->removed = tr__must_realloc(changes->removed, changes->capacity * sizeof *changes->removed);
    }
    changes->removed[changes->count++] = (tr_removed_key){key, is_candidate};
}

bool tr_changes_since(uint64_t *clock, const tr_removed_key **removed, uint64_t *count, const tr_changes *changes, uint64_t number)
{
    for (int i = 0; number && i < changes->moments; i++)
        if (changes->moment[i].number == number) {
            *clock = changes->moment[i].clock;
            *removed = changes->removed + (changes->moment[i].at - changes->first);
            *count = changes->first + changes->count - changes->moment[i].at;
            return true;
        }
    return false;
}
