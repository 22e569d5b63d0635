/* row_code.h - rows of a table in 8 bits a number, for checkpoints (docs/formats.md has the bytes).
 *
 * A row has a header of bits: key, updates, age. Then come its values, and each of its states: a scale of 16 bits, and 8 bits for each
 * number. Numbers of which one is negative are multiples of the scale. Numbers of which none is negative, such as sums of squares, are
 * powers: their relative error is bounded, so a small one never becomes 0. Values of rows are always multiples. The row itself tells
 * which, so nothing depends on what is known of the optimizer.
 *
 * What must stay true: decoding gives the same bits on every machine. A row with a number that is not finite is not coded. */
#pragma once

#include "framework/base/status.h"
#include "storage/table/table_config.h"

/* How the rows of one shard are coded. */
typedef struct tr_row_code {
    int64_t  first_key;               /* keys count from here, */
    uint32_t last;                    /* ages are steps before this one */
    uint32_t key_bits, touch_bits, age_bits;
} tr_row_code;

/* Can rows of a table be coded so? */
tr_status tr_row_code_check(const tr_row_code *code);
/* Bytes of a coded row. It is less than a packed row has. */
uint64_t  tr_row_code_stride(const tr_row_code *code, const tr_table_config *config);
/* Code packed rows. Those that cannot be coded move to the front of `rows`: *kept bytes. *coded (malloc'ed) has the others. */
void      tr_row_code_encode(tr_row_code *code, void **coded, uint64_t *coded_bytes, uint64_t *kept, void *rows, uint64_t bytes,
                             const tr_table_config *config);
/* Decode `count` rows into packed ones. */
void      tr_row_code_decode(void *rows, const void *coded, uint64_t count, const tr_row_code *code, const tr_table_config *config);
