/* test_rank_table.c - sequences by length: the table, reordering, shrinking, splitting by a mask and merging. */
#include "tests/support/op_check.h"

#include "tests/support/net.h"

enum { ROWS = 7, WIDTH = 2 };

static double x[ROWS * WIDTH] = {0.3, -0.7, 0.9, -0.2, 0.5, 0.1, 1.4, -1.1, 0.6, 0.8, -0.4, 0.2, 1.0, 0.7};
static double memory[4 * WIDTH] = {1, 2, 3, 4, 5, 6, 7, 8};
static const int64_t ragged[] = {0, 2, 2, 5, 7};          /* lengths 2, 0, 3, 2: ranked 2, 0, 3, 1 */

static void begin(net *n, const char *table_attrs)
{
    net_init(n);
    net_var(n, "x", TR_FP64, 2, -1, WIDTH);
    net_var(n, "state", TR_FP64, 2, -1, WIDTH);
    net_op(n, 0, "lod_rank_table", "X=x", "Out=table", table_attrs);
    net_feed(n, "x", x, 2, ROWS, WIDTH);
    net_feed(n, "state", memory, 2, 4, WIDTH);
    net_feed_lod(n, "x", 1, 5, ragged);
}

static void expect_rows(tr_tensor *got, const double *from, int count, const int *rows)
{
    assert_int_equal(tr_tensor_dims(got)[0], count);
    for (int r = 0; r < count; r++)
        assert_memory_equal((double *)tr_tensor_data(got) + r * WIDTH, from + rows[r] * WIDTH, WIDTH * sizeof *from);
}

/* -- the table ------------------------------------------------------------------------------------- */

TEST(the_longest_sequence_has_the_length_of_the_table)
{
    net n;
    begin(&n, "");
    net_op(&n, 0, "max_sequence_len", "RankTable=table", "Out=length", "");
    net_run(&n, "length");
    assert_int_equal(net_i64(&n, 0)[0], 3);
    const int64_t two[] = {0, 1, 4}, below[] = {0, 1, 3, 4, 7};
    net_feed_lod(&n, "x", 2, 3, two, 5, below);            /* in sequences of the level below */
    net_run(&n, "length");
    assert_int_equal(net_i64(&n, 0)[0], 3);
    const int64_t none[] = {0};
    net_feed(&n, "x", x, 2, 0, WIDTH);
    net_feed_lod(&n, "x", 1, 1, none);
    net_run(&n, "length");
    assert_int_equal(net_i64(&n, 0)[0], 0);
    net_deinit(&n);
}

/* Longest first, and equally long ones in their order: every length comes several times. */
TEST(many_sequences_are_ranked_by_length_and_then_by_place)
{
    enum { MANY = 200, LONGEST = 7 };
    static int64_t starts[MANY + 1];
    static double  rows[MANY * LONGEST * WIDTH], places[MANY * WIDTH];
    net n;
    begin(&n, "");
    net_op(&n, 0, "reorder_lod_tensor_by_rank", "X=state RankTable=table", "Out=by_rank", "");
    for (int i = 0; i < MANY; i++) {
        starts[i + 1] = starts[i] + (i * i + 3 * i / 2) % (LONGEST + 1);
        places[i * WIDTH] = i;
    }
    net_feed(&n, "x", rows, 2, (int)starts[MANY], WIDTH);
    net_feed_lod(&n, "x", 1, MANY + 1, starts);
    net_feed(&n, "state", places, 2, MANY, WIDTH);
    net_run(&n, "by_rank");
    for (int r = 1; r < MANY; r++) {
        const int     a = (int)net_f64(&n, 0)[(r - 1) * WIDTH], b = (int)net_f64(&n, 0)[r * WIDTH];
        const int64_t long_a = starts[a + 1] - starts[a], long_b = starts[b + 1] - starts[b];
        assert_true(long_a > long_b || (long_a == long_b && a < b));
    }
    net_deinit(&n);
}

TEST(a_level_that_is_not_there_is_explained)
{
    net n;
    begin(&n, "level=1");
    net_op(&n, 0, "max_sequence_len", "RankTable=table", "Out=length", "");
    EXPECT_FAIL(TR_EINVAL, "'x' has 1 LoD levels, so there is no level 1 to rank", net_try_run(&n, "length"));
    net_deinit(&n);
}

/* -- reordering ------------------------------------------------------------------------------------ */

TEST(rows_go_by_length_and_so_do_their_gradients)
{
    net n;
    begin(&n, "");
    net_op(&n, 0, "reorder_lod_tensor_by_rank", "X=state RankTable=table", "Out=by_rank", "");
    net_op(&n, 0, "elementwise_mul", "X=by_rank Y=by_rank", "Out=square", "");
    net_op(&n, 0, "elementwise_mul", "X=square Y=state", "Out=product", "");
    net_op(&n, 0, "reduce_sum", "X=product", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "by_rank");
    expect_rows(n.result[0], memory, 4, (const int[]){2, 0, 3, 1});
    net_check_gradient(&n, "state", memory, 4 * WIDTH, 1e-6);
    net_deinit(&n);
}

TEST(sequences_go_by_length_with_what_is_below_them)
{
    net n;
    begin(&n, "");
    net_op(&n, 0, "reorder_lod_tensor_by_rank", "X=x RankTable=table", "Out=by_rank", "");
    net_op(&n, 0, "elementwise_mul", "X=by_rank Y=x", "Out=product", "");
    net_op(&n, 0, "reduce_sum", "X=product", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "by_rank");
    expect_rows(n.result[0], x, ROWS, (const int[]){2, 3, 4, 0, 1, 5, 6});
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), ((const int64_t[]){0, 3, 5, 7, 7}), 5 * sizeof(int64_t));
    net_check_gradient(&n, "x", x, ROWS * WIDTH, 1e-6);
    const int64_t two[] = {0, 1, 4}, below[] = {0, 1, 3, 4, 7};
    net_feed_lod(&n, "x", 2, 3, two, 5, below);
    net_run(&n, "by_rank");
    expect_rows(n.result[0], x, ROWS, (const int[]){1, 2, 3, 4, 5, 6, 0});
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), ((const int64_t[]){0, 3, 4}), 3 * sizeof(int64_t));
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 1), ((const int64_t[]){0, 2, 3, 6, 7}), 5 * sizeof(int64_t));
    net_check_gradient(&n, "x", x, ROWS * WIDTH, 1e-6);
    net_deinit(&n);
}

TEST(rows_that_the_rank_table_lacks_are_explained)
{
    net n;
    begin(&n, "");
    net_op(&n, 0, "reorder_lod_tensor_by_rank", "X=state RankTable=table", "Out=by_rank", "");
    net_feed(&n, "state", memory, 2, 3, WIDTH);
    EXPECT_FAIL(TR_ESHAPE, "the table ranks 4 sequences, but 'state' has 3 rows", net_try_run(&n, "by_rank"));
    net_deinit(&n);
}

/* -- shrinking ------------------------------------------------------------------------------------- */

TEST(a_memory_shrinks_to_the_sequences_that_go_on)
{
    static const int active[] = {3, 3, 1, 0, 0};
    net n;
    int64_t step;
    begin(&n, "");
    net_var(&n, "step", TR_INT64, 1, 1);
    net_op(&n, 0, "shrink_rnn_memory", "X=state RankTable=table I=step", "Out=going", "");
    net_op(&n, 0, "elementwise_mul", "X=going Y=going", "Out=square", "");
    net_op(&n, 0, "reduce_sum", "X=square", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "step", &step, 1, 1);
    for (step = 0; step < 5; step++) {
        net_run(&n, "going state@GRAD");
        expect_rows(n.result[0], memory, active[step], (const int[]){0, 1, 2, 3});
        for (int i = 0; i < 4 * WIDTH; i++)
            assert_float_equal(net_f64(&n, 1)[i], i < active[step] * WIDTH ? 2 * memory[i] : 0, 0);
    }
    step = 0;
    net_feed(&n, "state", memory, 2, 2, WIDTH);
    EXPECT_FAIL(TR_ESHAPE, "'state' is for 2 sequences, but 3 are longer than step 0", net_try_run(&n, "going"));
    net_deinit(&n);
}

TEST(a_memory_of_sequences_shrinks_by_sequences)
{
    net n;
    int64_t step = 2;
    const int64_t of_state[] = {0, 3, 3, 4, 4};
    begin(&n, "");
    net_var(&n, "step", TR_INT64, 1, 1);
    net_op(&n, 0, "shrink_rnn_memory", "X=state RankTable=table I=step", "Out=going", "");
    net_op(&n, 0, "reduce_sum", "X=going", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "step", &step, 1, 1);
    net_feed_lod(&n, "state", 1, 5, of_state);
    net_run(&n, "going");
    expect_rows(n.result[0], memory, 3, (const int[]){0, 1, 2});
    assert_memory_equal(tr_tensor_lod_offsets(n.result[0], 0), of_state, 2 * sizeof(int64_t));
    net_check_gradient(&n, "state", memory, 4 * WIDTH, 1e-6);
    net_deinit(&n);
}

/* -- split and merge ------------------------------------------------------------------------------- */

#define MASK(list, ...) {SIZE(__VA_ARGS__), .is_typed = true, .dtype = TR_BOOL, .values = list}

static const op_case split_cases[] = {
    {"rows", {DIMS(5, 3), MASK(LIST(1, 0, 0, 1, 1), 5, 1)}, .out = {DIMS(3, 3), DIMS(2, 3)}},
    {"a mask of rank 1", {DIMS(3, 2, 2), MASK(LIST(0, 1, 0), 3)}, .out = {DIMS(1, 2, 2), DIMS(2, 2, 2)}},
    {"all true", {DIMS(3, 2), MASK(LIST(1, 1, 1), 3, 1)}, .out = {DIMS(3, 2), DIMS(0, 2)}},
    {"no rows", {DIMS(0, 2), MASK(LIST(0), 0, 1)}, .out = {DIMS(0, 2), DIMS(0, 2)}},
    {"sequences", {SEQUENCES(OFFSETS(0, 2, 2, 5, 6), 6, 2), MASK(LIST(0, 1, 1, 0), 4, 1)},
     .out = {SEQUENCES(OFFSETS(0, 0, 3), 3, 2), SEQUENCES(OFFSETS(0, 2, 3), 3, 2)}},
    {"two levels", {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 1, 3, 6), 6, 2), MASK(LIST(0, 1), 2, 1)},
     .out = {NESTED(OFFSETS(0, 1), OFFSETS(0, 3), 3, 2), NESTED(OFFSETS(0, 2), OFFSETS(0, 1, 3), 3, 2)}},
    {"the lower level", {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 1, 3, 6), 6, 2), MASK(LIST(0, 1, 1), 3, 1)},
     {INT_ATTR("level", 1)}, {SEQUENCES(OFFSETS(0, 2, 5), 5, 2), SEQUENCES(OFFSETS(0, 1), 1, 2)}},
};

/* Rows of part k of input `arg`, from the case's offsets. */
static int64_t first_row(const op_values *v, int arg, int level, int64_t k)
{
    for (; level < OP_MAX_LODS && v->c->in[arg].lod[level].count > 0; level++)
        k = v->c->in[arg].lod[level].item[k];
    return k;
}

static void copy(op_array *to, int64_t to_row, const op_array *from, int64_t from_row, int64_t rows)
{
    const int64_t width = from->dims[0] > 0 ? from->count / from->dims[0] : 0;
    for (int64_t i = 0; i < rows * width; i++)
        to->data[to_row * width + i] = from->data[from_row * width + i];
}

static void split_reference(op_values *v)
{
    const int level = (int)op_case_number(v->c, "level", 0);
    int64_t   next[2] = {0, 0};

    for (int64_t k = 0; k < v->in[1].count; k++) {
        const int     side = v->in[1].data[k] == 0;
        const int64_t from = first_row(v, 0, level, k), rows = first_row(v, 0, level, k + 1) - from;
        copy(&v->out[side], next[side], &v->in[0], from, rows);
        next[side] += rows;
    }
}

TEST(split_matches_reference)   { EACH_OF(c, split_cases) check_forward("split_lod_tensor", c, split_reference, 0); }
TEST(split_has_numeric_gradient) { EACH_OF(c, split_cases) check_gradient("split_lod_tensor", c, 1e-5, 1e-7); }

static const op_case merge_cases[] = {
    {"rows", {CONSTANT(5, 1), MASK(LIST(1, 0, 0, 1, 1), 5, 1), DIMS(3, 3), DIMS(2, 3)}, .out = {DIMS(5, 3)}},
    {"all false", {CONSTANT(3, 1), MASK(LIST(0, 0, 0), 3, 1), DIMS(0, 2), DIMS(3, 2)}, .out = {DIMS(3, 2)}},
    {"sequences", {CONSTANT(4, 1), MASK(LIST(0, 1, 1, 0), 4, 1), SEQUENCES(OFFSETS(0, 0, 3), 3, 2),
                   SEQUENCES(OFFSETS(0, 2, 3), 3, 2)}, .out = {SEQUENCES(OFFSETS(0, 2, 2, 5, 6), 6, 2)}},
    {"under a level", {{SIZE(6, 2), .lod = {OFFSETS(0, 2, 3), OFFSETS(0, 1, 3, 6)}, .is_constant = true},
                       MASK(LIST(0, 1, 1), 3, 1), SEQUENCES(OFFSETS(0, 2, 5), 5, 2), SEQUENCES(OFFSETS(0, 1), 1, 2)},
     {INT_ATTR("level", 1)}, {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 1, 3, 6), 6, 2)}},
};

static void merge_reference(op_values *v)
{
    int64_t next[2] = {0, 0}, row = 0;

    for (int64_t k = 0; k < v->in[1].count; k++) {
        const int     arg = v->in[1].data[k] == 0 ? 3 : 2;
        const int64_t part = next[arg - 2]++;
        const int64_t from = first_row(v, arg, 0, part), rows = first_row(v, arg, 0, part + 1) - from;
        copy(&v->out[0], row, &v->in[arg], from, rows);
        row += rows;
    }
}

TEST(merge_matches_reference)    { EACH_OF(c, merge_cases) check_forward("merge_lod_tensor", c, merge_reference, 0); }
TEST(merge_has_numeric_gradient) { EACH_OF(c, merge_cases) check_gradient("merge_lod_tensor", c, 1e-5, 1e-7); }

TEST(masks_that_do_not_fit_are_explained)
{
    EXPECT_FAIL(TR_EDTYPE, "split_lod_tensor: Mask must be bool, got float32",
                infer_shapes("split_lod_tensor", {DIMS(2, 2), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Mask must be [n] or [n, 1], got [2, 2]",
                infer_shapes("split_lod_tensor", {DIMS(2, 2), BOOLS(2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "has 3 rows, but the mask", run_status("split_lod_tensor", {DIMS(3, 2), BOOLS(2, 1)}));
    EXPECT_FAIL(TR_EINVAL, "has 0 LoD levels, so there is no level 1",
                run_status("split_lod_tensor", {DIMS(3, 2), BOOLS(3, 1)}, {INT_ATTR("level", 1)}));
    EXPECT_FAIL(TR_ESHAPE, "is true 1 times, but",
                run_status("merge_lod_tensor", {DIMS(2, 1), MASK(LIST(1, 0), 2, 1), DIMS(2, 2), DIMS(1, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "rows of InTrue are [?, 2]",
                infer_shapes("merge_lod_tensor", {DIMS(2, 1), BOOLS(2, 1), DIMS(1, 2), DIMS(1, 3)}));
}

/* -- is_empty -------------------------------------------------------------------------------------- */

static const op_case empty_cases[] = {{"some", {DIMS(2, 3)}}, {"none", {DIMS(0, 3)}}, {"no columns", {DIMS(2, 0)}}};

static void empty_reference(op_values *v) { v->out[0].data[0] = v->in[0].count == 0; }

TEST(is_empty_matches_reference) { EACH_OF(c, empty_cases) check_forward("is_empty", c, empty_reference, 0); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_sequence_has_the_length_of_the_table),
        cmocka_unit_test(many_sequences_are_ranked_by_length_and_then_by_place),
        cmocka_unit_test(a_level_that_is_not_there_is_explained),
        cmocka_unit_test(rows_go_by_length_and_so_do_their_gradients),
        cmocka_unit_test(sequences_go_by_length_with_what_is_below_them),
        cmocka_unit_test(rows_that_the_rank_table_lacks_are_explained),
        cmocka_unit_test(a_memory_shrinks_to_the_sequences_that_go_on),
        cmocka_unit_test(a_memory_of_sequences_shrinks_by_sequences),
        cmocka_unit_test(split_matches_reference),
        cmocka_unit_test(split_has_numeric_gradient),
        cmocka_unit_test(merge_matches_reference),
        cmocka_unit_test(merge_has_numeric_gradient),
        cmocka_unit_test(masks_that_do_not_fit_are_explained),
        cmocka_unit_test(is_empty_matches_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
