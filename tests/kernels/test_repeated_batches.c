/* test_repeated_batches.c - batches of sequences that take turns: once each of them was seen, runs allocate nothing. */
#include "tests/support/net.h"

#include <math.h>

enum { MOST = 64, WIDTH = 4, BATCHES = 6 };

static double  x[MOST * WIDTH], filter[3 * WIDTH * 4 * WIDTH], w[WIDTH * 4 * WIDTH], bias[7 * WIDTH], table[10 * WIDTH];
static int64_t ids[MOST];

/* The lengths of the sequences of a batch. The first two have as many rows, the second and third as many sequences,
 * one has no rows, one has long sequences, one has many. */
static const int64_t offsets[BATCHES][12] = {{0, 3, 4, 6}, {0, 2, 4, 6}, {0, 5, 5, 9}, {0, 0, 0},
                                             {0, 12, 21}, {0, 2, 3, 3, 5, 9, 9, 11, 14, 15, 16, 19}};
static const int64_t counts[BATCHES] = {4, 4, 4, 3, 3, 12};
/* The level above: groups of those sequences. */
static const int64_t groups[BATCHES][4] = {{0, 1, 3}, {0, 3}, {0, 2, 2, 3}, {0, 1, 2}, {0, 2}, {0, 4, 5, 11}};
static const int64_t group_counts[BATCHES] = {3, 2, 4, 3, 2, 4};

static void fill(double *to, int count, double scale)
{
    for (int i = 0; i < count; i++)
        to[i] = scale * sin(1.7 * i + 0.3);
}

static void begin(net *n)
{
    net_init(n);
    fill(x, MOST * WIDTH, 1.0);
    fill(filter, 3 * WIDTH * 4 * WIDTH, 0.3);
    fill(w, WIDTH * 4 * WIDTH, 0.5);
    fill(bias, 7 * WIDTH, 0.2);
    fill(table, 10 * WIDTH, 1.0);
    for (int i = 0; i < MOST; i++)
        ids[i] = (i * i + 3 * i) % 10;
    net_var(n, "x", TR_FP64, 2, -1, WIDTH);
    net_var(n, "w", TR_FP64, 2, WIDTH, 4 * WIDTH);
    net_var(n, "small", TR_FP64, 2, WIDTH, WIDTH);
    net_var(n, "bias", TR_FP64, 2, 1, 7 * WIDTH);
    net_var(n, "filter", TR_FP64, 2, 3 * WIDTH, 4 * WIDTH);
    net_var(n, "table", TR_FP64, 2, 10, WIDTH);
    net_var(n, "ids", TR_INT64, 2, -1, 1);
    net_feed(n, "w", w, 2, WIDTH, 4 * WIDTH);
    net_feed(n, "small", w, 2, WIDTH, WIDTH);
    net_feed(n, "bias", bias, 2, 1, 7 * WIDTH);
    net_feed(n, "filter", filter, 2, 3 * WIDTH, 4 * WIDTH);
    net_feed(n, "table", table, 2, 10, WIDTH);
}

static void feed_batch(net *n, int batch, int levels)
{
    const int64_t rows = offsets[batch][counts[batch] - 1];

    net_feed(n, "x", x, 2, (int)rows, WIDTH);
    net_feed(n, "ids", ids, 2, (int)rows, 1);
    if (levels == 1) {
        net_feed_lod(n, "x", 1, (int)counts[batch], offsets[batch]);
        net_feed_lod(n, "ids", 1, (int)counts[batch], offsets[batch]);
    } else {
        net_feed_lod(n, "x", 2, (int)group_counts[batch], groups[batch], (int)counts[batch], offsets[batch]);
        net_feed_lod(n, "ids", 2, (int)group_counts[batch], groups[batch], (int)counts[batch], offsets[batch]);
    }
}

/* Three times each batch, in order: what is fetched goes round through three buffers. Then in any order. */
static void expect_no_allocations(net *n, int levels, const char *fetches)
{
    for (int i = 0; i < 3 * BATCHES; i++) {
        feed_batch(n, i / 3, levels);
        net_run(n, fetches);
    }
    for (int i = 0, batch = 0; i < 60; i++, batch = (batch * 5 + i) % BATCHES) {
        feed_batch(n, batch, levels);
        const int64_t before = n->plan ? tr_plan_allocations(n->plan) : 0;
        net_run(n, fetches);
        if (tr_plan_allocations(n->plan) != before)
            fail_msg("run %d (batch %d) allocated %d times", i, batch, (int)(tr_plan_allocations(n->plan) - before));
    }
}

/* The sum of the squares of variable `out`, and its gradients. */
static void finish(net *n)
{
    net_op(n, 0, "elementwise_mul", "X=out Y=out", "Out=square", "");
    net_op(n, 0, "reduce_sum", "X=square", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n->program, "loss", 0, NULL, 0, NULL));
}

/* -- operators on sequences ------------------------------------------------------------------------- */

static void build_layers(net *n)
{
    begin(n);
    net_op(n, 0, "sequence_conv", "X=x Filter=filter", "Out=gates", "contextLength=3 contextStart=-1");
    net_op(n, 0, "lstm", "Input=gates Weight=w Bias=bias", "Hidden=hidden Cell=cell BatchGate=gate BatchCellPreAct=pre", "");
    net_op(n, 0, "sequence_pool", "X=hidden", "Out=last MaxIndex=max1", "pooltype=LAST");
    net_op(n, 0, "sequence_expand", "X=last Y=hidden", "Out=copies", "");
    net_op(n, 0, "elementwise_add", "X=hidden Y=copies", "Out=sum", "");
    net_op(n, 0, "sequence_pool", "X=sum", "Out=out MaxIndex=max2", "pooltype=SUM");
}

TEST(layers_over_sequences_allocate_nothing)
{
    net n;
    build_layers(&n);
    finish(&n);
    expect_no_allocations(&n, 1, "loss w@GRAD filter@GRAD x@GRAD");
    net_deinit(&n);
}

TEST(fetched_sequences_allocate_nothing_while_the_result_before_is_held)
{
    net n;
    build_layers(&n);
    expect_no_allocations(&n, 1, "hidden out");
    assert_int_equal(tr_tensor_lod_levels(n.result[0]), 1);
    net_deinit(&n);
}

TEST(sequences_whose_lengths_depend_on_data_allocate_nothing)
{
    net n;
    begin(&n);
    net_op(&n, 0, "sequence_erase", "X=ids", "Out=left", "tokens=[0,4]");
    net_op(&n, 0, "lookup_table", "W=table Ids=left", "Out=words", "");
    net_op(&n, 0, "sequence_pool", "X=words", "Out=out MaxIndex=max3", "pooltype=AVERAGE");
    finish(&n);
    expect_no_allocations(&n, 1, "loss left table@GRAD");
    net_deinit(&n);
}

/* Two look-ups in one table: their gradients are rows, which are joined, and then merged to be applied. */
TEST(rows_of_sparse_gradients_allocate_nothing)
{
    net n;
    begin(&n);
    net_op(&n, 0, "lookup_table", "W=table Ids=ids", "Out=words", "is_sparse=true");
    net_op(&n, 0, "sequence_erase", "X=ids", "Out=left", "tokens=[0,4]");
    net_op(&n, 0, "lookup_table", "W=table Ids=left", "Out=more", "is_sparse=true");
    net_op(&n, 0, "sequence_pool", "X=words", "Out=first MaxIndex=at_first", "pooltype=SUM");
    net_op(&n, 0, "sequence_pool", "X=more", "Out=second MaxIndex=at_second", "pooltype=SUM");
    net_op(&n, 0, "elementwise_add", "X=first Y=second", "Out=out", "");
    finish(&n);
    net_op(&n, 0, "fill_constant", "", "Out=rate", "shape=[1] dtype=6 value=0.01");
    net_op(&n, 0, "scale", "X=table", "Out=trained", "");
    net_op(&n, 0, "sgd", "Param=trained LearningRate=rate Grad=table@GRAD", "ParamOut=trained", "");
    expect_no_allocations(&n, 1, "loss trained table@GRAD");
    net_deinit(&n);
}

/* -- a recurrent net, step by step -------------------------------------------------------------------- */

/* As DynamicRNN builds it: h = tanh(step small + h), of sequences that go on; or, over two levels, of the sums of
 * the sequences of a step. */
static void build_steps(net *n, bool pools)
{
    begin(n);
    net_op(n, 0, "lod_rank_table", "X=x", "Out=ranks", "");
    net_op(n, 0, "lod_tensor_to_array", "X=x RankTable=ranks", "Out=steps", "");
    net_op(n, 0, "max_sequence_len", "RankTable=ranks", "Out=n", "");
    net_op(n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(n, 0, "fill_constant", "", "Out=zero", "shape=[1] dtype=3");
    net_op(n, 0, "read_from_array", "X=steps I=zero", "Out=first", "");
    if (pools)
        net_op(n, 0, "sequence_pool", "X=first", "Out=like MaxIndex=max4", "pooltype=SUM");
    net_op(n, 0, "scale", pools ? "X=like" : "X=first", "Out=h0", "scale=0.0");
    net_op(n, 0, "write_to_array", "X=h0 I=zero", "Out=states", "");
    net_op(n, 0, "less_than", "X=i Y=n", "Out=c", "");
    tr_var_desc *outputs = tr_block_create_var(tr_program_block(n->program, 0), "outputs");
    tr_var_desc_set_kind(outputs, TR_KIND_ARRAY);
    const int body = net_block(n, 0);
    net_op(n, body, "read_from_array", "X=steps I=i", "Out=step", "");
    net_op(n, body, "read_from_array", "X=states I=i", "Out=all", "");
    net_op(n, body, "shrink_rnn_memory", "X=all RankTable=ranks I=i", "Out=h", "");
    if (pools)
        net_op(n, body, "sequence_pool", "X=step", "Out=pooled MaxIndex=max5", "pooltype=SUM");
    net_op(n, body, "mul", pools ? "X=pooled Y=small" : "X=step Y=small", "Out=xw", "");
    net_op(n, body, "elementwise_add", "X=xw Y=h", "Out=sum", "");
    net_op(n, body, "tanh", "X=sum", "Out=next", "");
    net_op(n, body, "write_to_array", "X=next I=i", "Out=outputs", "");
    net_op(n, body, "increment", "X=i", "Out=i", "");
    net_op(n, body, "write_to_array", "X=next I=i", "Out=states", "");
    net_op(n, body, "less_than", "X=i Y=n", "Out=c", "");
    net_op(n, 0, "while", "X=steps,states,ranks,small,i,n Condition=c", "Out=outputs,states,i,c StepScopes=scopes",
           "sub_block=block:1");
    net_op(n, 0, "array_to_lod_tensor", "X=outputs RankTable=ranks", "Out=together", "");
    net_op(n, 0, "sequence_pool", "X=together", "Out=out MaxIndex=max6", "pooltype=SUM");
}

TEST(a_loop_over_sequences_allocates_nothing)
{
    net n;
    build_steps(&n, false);
    expect_no_allocations(&n, 1, "out together");
    net_deinit(&n);
}

TEST(a_trained_loop_over_sequences_allocates_nothing)
{
    net n;
    build_steps(&n, false);
    finish(&n);
    expect_no_allocations(&n, 1, "loss small@GRAD x@GRAD");
    net_deinit(&n);
}

TEST(a_trained_loop_over_groups_of_sequences_allocates_nothing)
{
    net n;
    build_steps(&n, true);
    finish(&n);
    expect_no_allocations(&n, 2, "loss small@GRAD x@GRAD");
    net_deinit(&n);
}

TEST(a_loop_over_groups_of_sequences_allocates_nothing)
{
    net n;
    build_steps(&n, true);
    expect_no_allocations(&n, 2, "out");
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_over_sequences_allocate_nothing),
        cmocka_unit_test(fetched_sequences_allocate_nothing_while_the_result_before_is_held),
        cmocka_unit_test(sequences_whose_lengths_depend_on_data_allocate_nothing),
        cmocka_unit_test(rows_of_sparse_gradients_allocate_nothing),
        cmocka_unit_test(a_loop_over_sequences_allocates_nothing),
        cmocka_unit_test(a_trained_loop_over_sequences_allocates_nothing),
        cmocka_unit_test(a_trained_loop_over_groups_of_sequences_allocates_nothing),
        cmocka_unit_test(a_loop_over_groups_of_sequences_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
