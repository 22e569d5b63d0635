/* rows_merge.h - merges the rows of gradients of several trainers into one row for each key.
 *
 * A trainer that sends no row of a key counts as sending zeros. So the rule is that of dense gradients (weighted_mean.h): the mean
 * weighted by the trainers' samples, summed in the order of the trainers: each group of trainers first, then the groups' sums. One
 * trainer's mean is its gradient, bit by bit. Each row depends only on the ordered parts, not on their order of arrival, on the number of
 * servers, or on whether a group was summed here or before. */
#pragma once

#include "storage/util/keyset.h"

/* Some rows of one trainer's gradient. The parts of one trainer are neighbours, and all have its weight. */
typedef struct tr_rows_part {
    int            trainer;
    double         weight;
    int64_t        count;
    const int64_t *keys;              /* keys; rows of equal keys add up */
    const float   *values;            /* the rows, [count, width] */
    bool           is_merged;         /* no key comes twice in all parts of this trainer */
    const uint32_t *hints;            /* slots in the table that the keys probably have; NULL: unknown */
    int            group;             /* parts of one group of trainers are neighbours */
    bool           is_sum;            /* it is the sum of its whole group (tr_rows_merge_sum). All other parts of the group have no rows */
} tr_rows_part;

/* Merges the contributions to one update of one table, in the order of the trainers. */
typedef struct tr_rows_update {
    int                 count;
    const tr_rows_part *part;
} tr_rows_update;

typedef struct tr_rows_merge {
    tr_keyset set;                    /* the keys of the merged rows */
    float    *values;                 /* the merged rows, [set.count, width] */
    const uint32_t *hints;            /* hints of the merged keys if all parts have hints; else NULL */
    uint32_t *hint;                   /* memory of the hints */
    uint32_t *number;
    bool     *is_begun;
    float    *group;                  /* the sums of one group, [set.count, width] */
    bool     *is_in_group;            /* all false between two groups */
    uint64_t  capacity, hint_capacity, number_capacity, begun_capacity, group_capacity, in_group_capacity;
} tr_rows_merge;                      /* a zeroed struct is empty */

/* Can the rows be used without a merge? That is so for the rows of one trainer, which has merged them itself. */
bool      tr_rows_are_merged(const tr_rows_update *update);
void      tr_rows_merge_deinit(tr_rows_merge *merge);
tr_status tr_rows_merge_run(tr_rows_merge *merge, const tr_rows_update *update, int64_t width);
/* The same for the parts of one group, but the sum and not the mean: a part for tr_rows_merge_run with `is_sum`. */
tr_status tr_rows_merge_sum(tr_rows_merge *merge, const tr_rows_update *update, int64_t width);
