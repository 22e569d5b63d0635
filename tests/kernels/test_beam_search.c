/* beam_search: one step. What beam_search_decode makes of several steps is tested from Python, where arrays are easy. */
#include "tests/support/op_check.h"

#define ATTRS(beam)       INT_ATTR("level", 0), INT_ATTR("beam_size", beam), INT_ATTR("end_id", 0)
#define WORDS(list, ...)  {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 0), .values = list}
#define SCORED(list, ...) {SIZE(__VA_ARGS__), .values = list, .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 1, 2, 3)}}

/* Two sources, of one prefix and of two. */
static const op_case cases[] = {
    {"beams of two", {WORDS(LIST(1, 2, 3), 3, 1), VALUES(LIST(0.125, 0.25, 0.5), 3, 1), WORDS(LIST(4, 2, 5, 2, 1, 3, 3, 5, 2), 3, 3),
                      SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.25, 0.625, 0.5, 0.125), 3, 3)}, {ATTRS(2)},
     .out = {{SIZE(4, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 2, 3, 4)}}, DIMS(4, 1),
             {SIZE(4), TYPED(TR_INT32, 0, 0)}}},
    {"candidates are columns", {WORDS(LIST(1, 2, 3), 3, 1), VALUES(LIST(0.125, 0.25, 0.5), 3, 1), ABSENT,
                                SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.25, 0.625, 0.5, 0.125), 3, 3)}, {ATTRS(2)}},
    {"one has ended", {WORDS(LIST(1, 0, 3), 3, 1), VALUES(LIST(0.125, 0.625, 0.5), 3, 1), ABSENT,
                       SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.25, 0.625, 0.5, 0.75), 3, 3)}, {ATTRS(2)},
     .out = {{SIZE(4, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 2, 3, 4)}}}},
    {"a source has ended", {WORDS(LIST(1, 0, 0), 3, 1), VALUES(LIST(0.125, 0.625, 0.5), 3, 1), ABSENT,
                            SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.25, 0.625, 0.5, 0.75), 3, 3)}, {ATTRS(2)},
     .out = {{SIZE(2, 1), TYPED(TR_INT64, 0, 0), .lod = {OFFSETS(0, 1, 3), OFFSETS(0, 2, 2, 2)}}}},
    {"wider than all candidates", {WORDS(LIST(1, 2, 3), 3, 1), VALUES(LIST(0.125, 0.25, 0.5), 3, 1), ABSENT,
                                   SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.25, 0.625, 0.5, 0.375), 3, 3)}, {ATTRS(7)}},
    {"probabilities of one word", {WORDS(LIST(1, 2, 3), 3, 1), VALUES(LIST(-0.125, -0.25, -1.5), 3, 1), ABSENT,
                                   SCORED(LIST(0.5, 0.25, 0.125, 0.75, 0.5, 0.375, 0.625, 0.53125, 0.125), 3, 3)},
     {ATTRS(2), BOOL_ATTR("is_accumulated", 0)}},
};

typedef struct {
    int    row, id;
    double score;
} candidate;

static int by_score(const void *a, const void *b)
{
    const double x = ((const candidate *)a)->score, y = ((const candidate *)b)->score;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int candidates_of(candidate *all, const op_values *v, int row)
{
    const int  width = (int)v->in[3].dims[1];
    const bool adds = op_case_number(v->c, "is_accumulated", 1) == 0;

    if (v->in[0].data[row] == 0) {
        all[0] = (candidate){row, 0, v->in[1].data[row]};
        return 1;
    }
    for (int k = 0; k < width; k++) {
        const double score = v->in[3].data[row * width + k];
        all[k] = (candidate){row, v->in[2].rank ? (int)v->in[2].data[row * width + k] : k,
                             adds ? v->in[1].data[row] + log(score) : score};
    }
    return width;
}

static void reference(op_values *v)
{
    const int first[] = {0, 1, 3}, beam = (int)op_case_number(v->c, "beam_size", 0);
    int       at = 0;

    for (int source = 0; source < 2; source++) {
        candidate all[16];
        bool      is_over = true;
        int       count = 0;
        for (int row = first[source]; row < first[source + 1]; row++) {
            is_over = is_over && v->in[0].data[row] == 0;
            count += candidates_of(all + count, v, row);
        }
        qsort(all, (size_t)count, sizeof *all, by_score);
        for (int row = first[source]; row < first[source + 1] && !is_over; row++)
            for (int i = 0; i < count && i < beam; i++)
                if (all[i].row == row) {
                    v->out[0].data[at] = all[i].id;
                    v->out[1].data[at] = all[i].score;
                    v->out[2].data[at++] = row;
                }
    }
}

TEST(the_best_candidates_are_selected) { EACH(c) check_forward("beam_search", c, reference, 1e-6); }

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "pre_ids must be [3, 1], got [2, 1]",
                infer_shapes("beam_search", {INT64S(0, 5, 2, 1), DIMS(3, 1), ABSENT, DIMS(3, 4)}, {ATTRS(2)}));
    EXPECT_FAIL(TR_ESHAPE, "ids must be [3, 4], got [3, 3]",
                infer_shapes("beam_search", {INT64S(0, 5, 3, 1), DIMS(3, 1), INT64S(0, 5, 3, 3), DIMS(3, 4)}, {ATTRS(2)}));
    EXPECT_FAIL(TR_EINVAL, "scores 'x3' has no sequences",
                run_status("beam_search", {INT64S(0, 5, 3, 1), DIMS(3, 1), ABSENT, DIMS(3, 4)}, {ATTRS(2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_candidates_are_selected),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
