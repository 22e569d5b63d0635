/* undo.h - keeps the old contents of rows, so that an update that a kill interrupts leaves no trace.
 *
 * Call begin(step); then log rows before they change, and change them. The log of a step is kept until the next step begins. After a
 * kill the owner of several stores (rows here, dense parameters elsewhere) decides which steps count, and later steps are rolled back.
 *
 * What must stay true: a row is logged before its first store of the step. A row that is logged twice in a step gets its first content
 * back. */
#pragma once

#include "storage/memory/segment.h"

typedef struct tr_undo tr_undo;

/* Make a log for rows of `stride` bytes. Only named segments have one: with `name` NULL the log keeps nothing. */
tr_status tr_undo_create(tr_undo **out, const char *name, uint64_t stride);
/* Attach to a log. `rows`: the number of rows. TR_EFORMAT: it is no log of such rows. */
tr_status tr_undo_attach(tr_undo **out, const char *name, uint64_t stride, uint64_t rows);
void      tr_undo_free(tr_undo *undo);

tr_status tr_undo_begin(tr_undo *undo, uint64_t step);
/* Keep rows of the array at `rows`: the `n` slots of `slots`, except TR_SLOT_NONE. */
tr_status tr_undo_log(tr_undo *undo, const char *rows, const uint32_t *slots, int64_t n);
/* The step of the log; 0: no step was begun. */
uint64_t  tr_undo_step(const tr_undo *undo);
/* Call `each` for every logged row, the last first. */
void      tr_undo_each(const tr_undo *undo, void (*each)(void *payload, uint64_t slot, const char *row), void *payload);
/* Put all logged rows back, the last first, and empty the log. */
void      tr_undo_roll_back(tr_undo *undo, char *rows);
uint64_t  tr_undo_bytes(const tr_undo *undo);
