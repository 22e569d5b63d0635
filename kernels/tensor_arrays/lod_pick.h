/* lod_pick.h - a tensor made of parts of others: rows, or whole sequences with the LoD below them.
 *
 * A *part* of x at `level` is one of its sequences of that level, or, at the level after the last (level 0 of a
 * tensor without LoD), one row. Sizes come first: add all parts, finish (which gives the output its shape and
 * LoD), then copy their rows.
 *
 * The offsets are collected in the executor's scratch memory, so one pick is under way at a time. */
#pragma once

#include "framework/operators/op.h"

enum { TR_PICK_LEVELS = 8 };

typedef struct tr_pick {
    int      levels;                  /* of the output */
    int64_t  rows;                    /* so far */
    int64_t *offset[TR_PICK_LEVELS];
    int64_t  count[TR_PICK_LEVELS];   /* offsets so far */
} tr_pick;

/* How many parts x has at `level`; -1: it has no such level. */
int64_t tr__parts_of(const tr_tensor *x, int level);
/* The first row of part `k` (which may be the number of parts: the row after the last). */
int64_t tr__part_row(const tr_tensor *x, int level, int64_t k);

/* An output of `levels` levels, of parts of tensors that have together no more than `most` offsets. */
tr_status tr__pick_start(tr_pick *pick, const tr_run *io, int levels, int64_t most);
/* All offsets of a tensor, for `most`. */
int64_t   tr__lod_size(const tr_tensor *x);
/* Append part k of x at `level`; the levels below it must be as many as the output's. */
void      tr__pick_add(tr_pick *pick, const tr_tensor *x, int level, int64_t k);
/* The output gets memory for the rows, of the type and width of `like`, and its LoD: the first `keep` levels of
 * `upper`, which may be NULL for none, then what was picked. */
tr_status tr__pick_finish(tr_pick *pick, tr_tensor *out, const tr_tensor *like, const tr_tensor *upper, int keep);

/* Copy or add `rows` rows; both tensors have the same type and width. */
void      tr__copy_rows(tr_tensor *to, int64_t to_row, const tr_tensor *from, int64_t from_row, int64_t rows);
tr_status tr__add_rows(tr_tensor *to, int64_t to_row, const tr_tensor *from, int64_t from_row, int64_t rows);
/* Is each row of the two as long, and of the same type? */
bool      tr__rows_agree(const tr_tensor *a, const tr_tensor *b);
