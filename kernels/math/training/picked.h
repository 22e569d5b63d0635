/* picked.h - products of each row of x with a few rows of a large matrix w, and their gradients.
 *
 * Row i goes with the rows id[i * picks], id[i * picks + 1], ... of w: at most `picks` of them; a negative id ends the list.
 * nce picks a class and some that are drawn, hierarchical_sigmoid the nodes on the way to a class. Sums over equal ids are
 * made in the order of the list, so results do not depend on the number of threads. Ids are assumed right. */
#ifndef TR_MATH_PICKED_H
#define TR_MATH_PICKED_H

#include "framework/trireme.h"

/* The picks sorted by id: id[g] ascends, and at[first[g] .. first[g+1]-1] are, ascending, the places i * picks + j of the
 * list that hold it. */
typedef struct tr_picked_groups {
    const int64_t *id, *first, *at;
    int64_t        count;
} tr_picked_groups;

/* How much memory (int64s) grouping a list of `count` takes, which `groups` then points into. */
int64_t tr_picked_memory(int64_t count);
void    tr_picked_group(tr_picked_groups *groups, int64_t *memory, const int64_t *id, int64_t rows, int64_t picks);

#define TR_TEMPLATE "kernels/math/training/picked.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

typedef struct NAME(tr_picked) {
    const T       *x;                 /* [rows][width] */
    const T       *w;                 /* [...][width] */
    const T       *bias;              /* one for each row of w; NULL: none */
    const int64_t *id;                /* [rows][picks] */
    int64_t        rows, picks, width;
} NAME(tr_picked);

/* score[i][j] = x[i] . w[id] + bias[id]; 0 beyond the end of the list. */
void NAME(tr_picked_scores)(T *score, const NAME(tr_picked) *p);
/* dx[i] = sum_j dscore[i][j] w[id] */
void NAME(tr_picked_dx)(T *dx, const T *dscore, const NAME(tr_picked) *p);
/* The sum of dscore[i][j] x[i] over each group, as row g of `to` (is_packed) or as row id[g], others being left alone. */
void NAME(tr_picked_dw)(T *to, bool is_packed, const T *dscore, const NAME(tr_picked) *p, const tr_picked_groups *groups);
/* The same for the bias: sums of dscore alone. */
void NAME(tr_picked_dbias)(T *to, bool is_packed, const T *dscore, const tr_picked_groups *groups);

#endif
