/* tree_path.h - classes as leaves of a binary tree: the probability of a class is that of the turns on the way to it.
 *
 * The turn at a node is 1 with probability sigmoid(score). In the complete tree of n classes class c has the code c + n:
 * its bit b is the turn at the inner node (code >> (b + 1)) - 1, of which there are n - 1 (Morin and Bengio, 2005).
 * Paths are written from the leaf up; one that is shorter than the longest ends with the node -1. */
#ifndef TR_MATH_TREE_PATH_H
#define TR_MATH_TREE_PATH_H

#include "framework/trireme.h"

/* Nodes on the longest path of the complete tree of n >= 2 classes. */
int64_t tr_tree_depth(int64_t classes);
/* The paths of n labels, all in 0 .. classes - 1: node and turn are [n][depth]. */
void tr_tree_paths(int64_t *node, uint8_t *turn, const int64_t *label, int64_t n, int64_t classes, int64_t depth);

#define TR_TEMPLATE "kernels/math/training/tree_path.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* cost[i] = -log of the probability of the turns of row i. */
void NAME(tr_tree_cost)(T *cost, const T *score, const int64_t *node, const uint8_t *turn, int64_t n, int64_t depth);
/* dscore = (sigmoid(score) - turn) dcost[i]; 0 beyond the end of a path. */
void NAME(tr_tree_grad)(T *dscore, const T *dcost, const T *score, const int64_t *node, const uint8_t *turn, int64_t n,
                        int64_t depth);

#endif
