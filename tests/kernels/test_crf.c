/* linear_chain_crf and crf_decoding, against all paths counted one by one. */
#include "tests/support/op_check.h"

#define RAGGED OFFSETS(0, 3, 3, 4, 8)
#define LABELS(count, tags) INT64S(0, tags, count, 1)

/* -- the reference -------------------------------------------------------------------------------------------- */

static double score_of(const op_values *v, const int *tag, int64_t begin, int64_t end)
{
    const int64_t n = v->in[0].dims[1];
    const double *x = v->in[0].data, *w = v->in[1].data;
    double        score = w[tag[0]] + w[n + tag[end - begin - 1]];

    for (int64_t t = begin; t < end; t++)
        score += x[t * n + tag[t - begin]] + (t > begin ? w[(2 + tag[t - begin - 1]) * n + tag[t - begin]] : 0);
    return score;
}

/* Go through all paths: the log of the sum of their exponentials, and the best one. */
static double all_paths(const op_values *v, int64_t begin, int64_t end, int *best)
{
    const int n = (int)v->in[0].dims[1], length = (int)(end - begin);
    int       tag[8] = {0};
    double    sum = 0, top = -INFINITY;

    for (int at = 0; at >= 0;) {
        const double score = score_of(v, tag, begin, end);
        sum += exp(score);
        if (score > top)
            memcpy(best, tag, sizeof tag);
        top = fmax(top, score);
        for (at = length - 1; at >= 0 && ++tag[at] == n; at--)
            tag[at] = 0;
    }
    return log(sum);
}

static void labels_of(const op_values *v, int *tag, int64_t begin, int64_t end)
{
    for (int64_t t = begin; t < end; t++)
        tag[t - begin] = (int)v->in[2].data[t];
}

/* -- linear_chain_crf ------------------------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 8, 3), DIMS(5, 3), LABELS(8, 3)}, .out = {[3] = DIMS(4, 1)}},
    {"far apart", {{SIZE(8, 3), .low = -30, .high = 30, .lod = {RAGGED}}, FLOATS(-5, 5, 5, 3), LABELS(8, 3)}},
    {"one tag", {SEQUENCES(RAGGED, 8, 1), DIMS(3, 1), LABELS(8, 1)}},
    {"many sequences", {SEQUENCES(OFFSETS(0, 1, 3, 4, 5, 6, 7, 9, 10, 12, 14), 14, 2), DIMS(4, 2), LABELS(14, 2)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0, 0), 0, 3), DIMS(5, 3), LABELS(0, 3)}, .out = {[3] = DIMS(2, 1)}},
};

/* Alpha: of all ways to the row, the share of each tag; from sums over all paths of the rows so far. */
static void alpha_reference(op_values *v, int64_t begin, int64_t t)
{
    const int64_t n = v->in[0].dims[1];
    double       *alpha = v->out[0].data + t * n, sum = 0;

    for (int64_t j = 0; j < n; j++) {
        double ways = t == begin ? exp(v->in[1].data[j]) : 0;
        for (int64_t i = 0; i < n && t > begin; i++)
            ways += alpha[i - n] * exp(v->in[1].data[(2 + i) * n + j]);
        alpha[j] = ways * exp(v->in[0].data[t * n + j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += alpha[j];
    for (int64_t j = 0; j < n; j++)
        alpha[j] /= sum;
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int64_t     n = v->in[0].dims[1];
    int               best[8], labels[8];

    for (int64_t i = 0; i < v->out[1].count; i++) {
        double top = -INFINITY;
        for (int64_t j = 0; j < n; j++)
            top = fmax(top, v->in[0].data[i / n * n + j]);
        v->out[1].data[i] = exp(v->in[0].data[i] - top);
    }
    for (int64_t i = 0; i < v->out[2].count; i++)
        v->out[2].data[i] = exp(v->in[1].data[i]);
    for (int64_t i = 0; i + 1 < s->count; i++) {
        const int64_t begin = s->item[i], end = s->item[i + 1];
        v->out[3].data[i] = 0;
        for (int64_t t = begin; t < end; t++)
            alpha_reference(v, begin, t);
        labels_of(v, labels, begin, end);
        if (begin < end)
            v->out[3].data[i] = all_paths(v, begin, end, best) - score_of(v, labels, begin, end);
    }
}

TEST(cost_matches_reference)   { EACH(c) check_forward("linear_chain_crf", c, reference, 5e-6); }
TEST(cost_gradient_is_numeric) { EACH(c) check_gradient("linear_chain_crf", c, 1e-5, 1e-7); }

TEST(cost_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Transition must be [5, 3], got [3, 3]",
                infer_shapes("linear_chain_crf", {DIMS(8, 3), DIMS(3, 3), LABELS(8, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "Label must be [8, 1], got [7, 1]",
                infer_shapes("linear_chain_crf", {DIMS(8, 3), DIMS(5, 3), LABELS(7, 3)}));
    EXPECT_FAIL(TR_EINVAL, "Emission 'x0' has no sequences",
                run_status("linear_chain_crf", {DIMS(8, 3), DIMS(5, 3), LABELS(8, 3)}));
    EXPECT_FAIL(TR_ERANGE, "label 3 in row 1 of 'x2' is none of the 3 tags",
                run_status("linear_chain_crf", {SEQUENCES(OFFSETS(0, 2), 2, 3), DIMS(5, 3),
                                                {SIZE(2, 1), TYPED(TR_INT64, 0, 0), .values = LIST(0, 3)}}));
}

/* -- crf_decoding ---------------------------------------------------------------------------------------------------- */

static const op_case decoding_cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 8, 3), DIMS(5, 3)}, .out = {{SIZE(8, 1), TYPED(TR_INT64, 0, 0), .lod = {RAGGED}}}},
    {"beside labels", {SEQUENCES(RAGGED, 8, 3), DIMS(5, 3), LABELS(8, 3)}},
    {"transitions decide", {SEQUENCES(RAGGED, 8, 4), FLOATS(-9, 9, 6, 4)}},
    {"one tag", {SEQUENCES(RAGGED, 8, 1), DIMS(3, 1)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0), 0, 3), DIMS(5, 3)}},
};

static void decoding_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    int               best[8];

    for (int64_t i = 0; i + 1 < s->count; i++) {
        if (s->item[i] == s->item[i + 1])
            continue;
        all_paths(v, s->item[i], s->item[i + 1], best);
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++) {
            const int tag = best[t - s->item[i]];
            v->out[0].data[t] = v->in_count > 2 ? tag == (int)v->in[2].data[t] : tag;
        }
    }
}

TEST(decoding_finds_the_best_path) { EACH_OF(c, decoding_cases) check_forward("crf_decoding", c, decoding_reference, 0); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_matches_reference),
        cmocka_unit_test(cost_gradient_is_numeric),
        cmocka_unit_test(cost_mistakes_are_explained),
        cmocka_unit_test(decoding_finds_the_best_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
