/* tree_path.c - see tree_path.h. */
#ifndef T
#include "kernels/math/training/tree_path.h"

#include "framework/base/compiler.h"
#include "kernels/math/arrays/activation_scalar.h"

int64_t tr_tree_depth(int64_t classes)
{
    int64_t depth = 0;

    for (uint64_t rest = (uint64_t)classes - 1; rest > 0; rest >>= 1)
        depth++;
    return depth;
}

void tr_tree_paths(int64_t *node, uint8_t *turn, const int64_t *label, int64_t n, int64_t classes, int64_t depth)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t code = (uint64_t)(label[i] + classes);
        for (int64_t b = 0; b < depth; b++) {
            node[i * depth + b] = (int64_t)(code >> (b + 1)) - 1;     /* -1 when the root, 1, is behind */
            turn[i * depth + b] = code >> b & 1;
        }
    }
}

#include "kernels/math/tools/each_float.h"
#else

TR_CLONES void NAME(tr_tree_cost)(T *cost, const T *score, const int64_t *node, const uint8_t *turn, int64_t n, int64_t depth)
{
    for (int64_t i = 0; i < n; i++) {
        T sum = 0;
        for (int64_t k = i * depth; k < (i + 1) * depth && node[k] >= 0; k++)
            sum += NAME(tr_log_one_plus_exp)(turn[k] ? -score[k] : score[k]);
        cost[i] = sum;
    }
}

TR_CLONES void NAME(tr_tree_grad)(T *dscore, const T *dcost, const T *score, const int64_t *node, const uint8_t *turn, int64_t n,
                                  int64_t depth)
{
    for (int64_t i = 0; i < n; i++) {
        bool is_over = false;
        for (int64_t k = i * depth; k < (i + 1) * depth; k++) {
            is_over = is_over || node[k] < 0;
            dscore[k] = is_over ? 0 : (NAME(tr_sigmoid)(score[k]) - (T)turn[k]) * dcost[i];
        }
    }
}

#endif
