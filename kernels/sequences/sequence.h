/* sequence.h - the sequences of an operator's arguments: finding them, and giving them to outputs.
 *
 * A tensor's last LoD level says which rows are a sequence; the levels above it group sequences. Operators on
 * sequences work on the last level and keep those above it. What sequences there are is known to kernels alone: a
 * layout holds for shapes, whatever the offsets, so `infer` says no more than how many levels there are. */
#pragma once

#include "framework/operators/op.h"

/* Sequence i is the rows offset[i] .. offset[i + 1] - 1. */
typedef struct tr_sequences {
    int64_t        count;
    const int64_t *offset;
} tr_sequences;

/* The last level of argument `index` of an input slot; fails, naming the variable, where there is none. */
tr_status tr__sequences_of(tr_sequences *out, const tr_run *io, int slot, int index);
/* Any level of the first argument: -1 is the last. */
tr_status tr__sequences_at(tr_sequences *out, const tr_run *io, int slot, int level);
/* Fails, naming both variables, where two arguments differ in how many sequences they have. */
tr_status tr__sequences_check_count(const tr_run *io, int slot, const tr_sequences *s, int other_slot, const tr_sequences *other);
/* Fails, naming the variable, where an input has not as many rows as its operator's sequences say: what a gradient operator
 * reads of its forward operator's outputs, whose rows inference does not know. */
tr_status tr__check_rows(const tr_run *io, int slot, int64_t rows);
/* Rows of the longest one. */
int64_t   tr__sequences_longest(const tr_sequences *s);

/* Give `out` the first `keep` levels of `like` and then the level `last` (NULL: none). Its shape is set before. */
tr_status tr__sequences_put(tr_tensor *out, const tr_tensor *like, int keep, const tr_sequences *last);
/* The levels of `like` with the last one replaced (NULL: dropped). */
tr_status tr__sequences_replace_last(tr_tensor *out, const tr_tensor *like, const tr_sequences *last);

/* Dense, of this type and shape, with that many levels, which the kernel sets. */
tr_meta tr__meta_with_sequences(tr_dtype dtype, tr_shape shape, int levels);
/* Bytes of one row. */
int64_t tr__row_bytes(const tr_tensor *x);
