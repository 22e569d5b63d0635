/* rows.h - rows of a table by number: gather, scatter, group.
 *
 * Sums over equal row numbers are made in the order of the list, so results do not depend on the number of
 * threads. Check numbers that come from a user with tr_rows_check first; the others assume them right. */
#ifndef TR_MATH_ROWS_H
#define TR_MATH_ROWS_H

#include "framework/trireme.h"

/* The first position whose id is not in 0 .. height-1 and not `padding` (give -1 for none), or -1. */
int64_t tr_rows_check(const int64_t *ids, int64_t count, int64_t height, int64_t padding);
/* out[i] = table[ids[i]]; zeros where ids[i] == padding (-1: no padding). */
void tr_rows_gather(void *out, const void *table, const int64_t *ids, int64_t count, int64_t row_bytes,
                    int64_t padding);
/* table[ids[i]] = values[i]; the last one wins. */
void tr_rows_scatter(void *table, const int64_t *ids, const void *values, int64_t count, int64_t row_bytes);

/* Sort and group equal ids: unique[g] ascends, and order[first[g] .. first[g+1]-1] are, ascending, the positions
 * in ids that hold unique[g]. Returns the number of groups. Sizes: unique and order `count`, first `count + 1`,
 * work 2 * `count`. */
int64_t tr_rows_group(int64_t *unique, int64_t *first, int64_t *order, int64_t *work, const int64_t *ids,
                      int64_t count);
/* The first place in a list of ascending numbers that holds `number` or more; `count`: there is none. */
int64_t tr_rows_place(const int64_t *numbers, int64_t count, int64_t number);

#define TR_TEMPLATE "kernels/math/arrays/rows.h"
#include "kernels/math/tools/each_number.h"

#elif defined(T)

bool NAME(tr_row_is_zero)(const T *row, int64_t width);
/* table[ids[i]] += values[i], in the order of i, skipping ids[i] == padding (-1: no padding). */
void NAME(tr_rows_scatter_add)(T *table, const int64_t *ids, const T *values, int64_t count, int64_t width,
                               int64_t padding);
/* out[g] = the sum of values[order[first[g] .. first[g+1]-1]]: merges the rows of a sparse gradient. */
void NAME(tr_rows_sum_groups)(T *out, const T *values, const int64_t *first, const int64_t *order, int64_t groups,
                              int64_t width);

#endif
