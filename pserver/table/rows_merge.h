/* rows_merge.h - the rows of gradients of several trainers, merged into one row for each key.
 *
 * A row that a trainer does not send is a row of zeros, so the rule is that of dense gradients (mean.h): the mean weighted by
 * the trainers' samples, summed in the order of the trainers; one trainer's mean is its gradient, bit by bit. Each row
 * is a function of the ordered parts alone, not of arrival, nor of the number of servers. */
#ifndef TR_PSERVER_ROWS_MERGE_H
#define TR_PSERVER_ROWS_MERGE_H

#include "pserver/util/keyset.h"

/* Some rows of one trainer's gradient; the parts of one trainer are neighbours and have its weight. */
typedef struct tr_rows_part {
    int            trainer;
    double         weight;
    int64_t        count;
    const int64_t *keys;              /* repeated ones add up */
    const float   *values;            /* [count, width] */
    bool           is_merged;         /* no key comes twice in the trainer's parts */
    const uint32_t *hints;            /* slots in the table that the keys may have; NULL: not known */
} tr_rows_part;

/* The contributions to one update of one table, in the order of the trainers. */
typedef struct tr_rows_update {
    int                 count;
    const tr_rows_part *part;
} tr_rows_update;

typedef struct tr_rows_merge {
    tr_keyset set;                    /* the keys of the merged rows */
    float    *values;                 /* [set.count, width] */
    const uint32_t *hints;            /* of the keys, if all parts have some; else NULL */
    uint32_t *hint;                   /* memory of them */
    uint32_t *number;
    bool     *is_begun;
    uint64_t  capacity, hint_capacity, number_capacity, begun_capacity;
} tr_rows_merge;                      /* a zeroed one is empty */

/* Is there nothing to merge? That is so for rows of one trainer, which has merged them itself. */
bool      tr_rows_are_merged(const tr_rows_update *update);
void      tr_rows_merge_deinit(tr_rows_merge *merge);
tr_status tr_rows_merge_run(tr_rows_merge *merge, const tr_rows_update *update, int64_t width);

#endif
