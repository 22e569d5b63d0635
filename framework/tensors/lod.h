/* lod.h - sequence offsets (LoD): a reference-counted block of levels, never changed while shared. Tensors have them (tensor.h).
 *
 * The offsets of a caller are copied, and the copy is checked: another thread may change what was found to be right. So whatever a tensor has is valid. */
#pragma once

#include "framework/base/status.h"

/* Outermost level first: level l holds offset[start[l] .. start[l + 1]). */
typedef struct tr_lod {
    int      refs;                    /* atomic */
    int      levels;
    int64_t  capacity;                /* numbers that the block after the struct has room for */
    int64_t *start;                   /* levels + 1 of them */
    int64_t *offset;
} tr_lod;

/* No levels yet. NULL: no memory. */
tr_lod *tr__lod_new(int64_t capacity);
tr_lod *tr__lod_ref(tr_lod *lod);            /* NULL is fine for both */
void    tr__lod_unref(tr_lod *lod);

/* The numbers that a block must have room for. */
int64_t tr__lod_numbers(int levels, const int64_t *counts);
/* Whether it has exactly these levels and offsets. */
bool    tr__lod_is(const tr_lod *lod, int levels, const int64_t *counts, const int64_t *const *offsets);
/* The offsets may lie in the block itself. */
void    tr__lod_write(tr_lod *lod, int levels, const int64_t *counts, const int64_t *const *offsets);
void    tr__lod_copy(tr_lod *lod, const tr_lod *from);

int64_t        tr__lod_count(const tr_lod *lod, int level);           /* offsets of a level */
const int64_t *tr__lod_offsets(const tr_lod *lod, int level);

/* Each level starts at 0, does not fall, and ends at the sequences one level down; the last one at `rows` (-1: anywhere). */
tr_status tr__lod_check(int levels, const int64_t *counts, const int64_t *const *offsets, int64_t rows);
tr_status tr__lod_check_own(const tr_lod *lod, int64_t rows);
