/* metric.c - see metric.h. */
#ifndef T

#include "kernels/math/training/metric.h"

int64_t tr_count_hits(const int64_t *guesses, const int64_t *labels, int64_t rows, int64_t k)
{
    int64_t hits = 0;

    for (int64_t i = 0; i < rows; i++) {
        bool hit = false;
        for (int64_t j = 0; j < k; j++)
            hit = hit || guesses[i * k + j] == labels[i];
        hits += hit;
    }
    return hits;
}

double tr_roc_area(const int64_t *positive, const int64_t *negative, int64_t buckets)
{
    double positives = 0, negatives = 0, area = 0;

    for (int64_t b = buckets - 1; b >= 0; b--) {
        area += (double)negative[b] * (positives + (positives + (double)positive[b])) / 2;
        positives += (double)positive[b];
        negatives += (double)negative[b];
    }
    return positives > 0 && negatives > 0 ? area / positives / negatives : 0;
}

double tr_pr_area(const int64_t *positive, const int64_t *negative, int64_t buckets)
{
    double hits = 0, guesses = 0, area = 0, precision = -1;

    for (int64_t b = buckets - 1; b >= 0; b--) {
        const double more = (double)positive[b];
        hits += more;
        guesses += more + (double)negative[b];
        if (guesses == 0)
            continue;
        const double now = hits / guesses;
        area += more * (now + (precision < 0 ? now : precision)) / 2;
        precision = now;
    }
    return hits > 0 ? area / hits : 0;
}

#include "kernels/math/tools/each_float.h"

#else

int64_t NAME(tr_count_buckets)(int64_t *positive, int64_t *negative, const T *p, int64_t stride,
                               const int64_t *labels, int64_t n, int64_t buckets)
{
    for (int64_t i = 0; i < n; i++) {
        const T prediction = p[i * stride];
        if (!(prediction >= 0 && prediction <= 1) || (labels[i] | 1) != 1)
            return i;
        const int64_t b = (int64_t)(prediction * (T)(buckets - 1));
        *(labels[i] ? &positive[b] : &negative[b]) += 1;
    }
    return -1;
}

#endif
