/* nce.h - noise-contrastive estimation (Gutmann and Hyvärinen, 2010): telling the true classes of a row from drawn ones.
 *
 * A row has `picks` classes: first the true ones, then those that were drawn. With o = sigmoid(score) and b = the number of
 * draws of a class that are to be expected in a row, a true class costs -log(o / (o + b)) and a drawn one -log(b / (o + b)),
 * both worked out from logarithms, so that no score is too large. */
#ifndef TR_MATH_NCE_H
#define TR_MATH_NCE_H

#include "framework/trireme.h"

/* How classes 0 .. classes - 1 are drawn. */
typedef enum tr_sampler_kind {
    TR_SAMPLER_UNIFORM = 0,
    TR_SAMPLER_LOG_UNIFORM,           /* of class c: log((c + 2) / (c + 1)) / log(classes + 1); for words by their frequency */
    TR_SAMPLER_CUSTOM                 /* of class c: prob[c]; by the alias method (Walker, 1977) */
} tr_sampler_kind;

typedef struct tr_sampler {
    tr_sampler_kind kind;
    int64_t         classes;
    const float    *prob;             /* these of CUSTOM alone. A place of the tables is chosen evenly; it stands for */
    const int32_t  *alias;            /* itself with probability alias_prob, else for the class `alias` */
    const float    *alias_prob;
} tr_sampler;

/* out[i] = the class that the number u[i] of [0, 1) chooses; one that the tables name may lie outside the classes. */
void tr_sampler_draw(int64_t *out, const double *u, int64_t n, const tr_sampler *sampler);

#define TR_TEMPLATE "kernels/math/training/nce.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* out[i] = `draws` times the probability of class id[i] */
void NAME(tr_sampler_expected)(T *out, const int64_t *id, int64_t n, int64_t draws, const tr_sampler *sampler);
/* cost[i] = weight[i] (NULL: 1) times the cost of row i. `score` [rows][picks] becomes o, `expected` the cost of each pick. */
void NAME(tr_nce_cost)(T *cost, T *score, T *expected, const T *weight, int64_t rows, int64_t picks, int64_t truths);
/* The gradient of the scores, from o. */
void NAME(tr_nce_grad)(T *dscore, const T *dcost, const T *o, const T *expected, const T *weight, int64_t rows, int64_t picks,
                       int64_t truths);

#endif
