/* test_wrong_programs.c - a program from outside that is well-formed and wrong is refused before a kernel runs.
 *
 * Programs are built right and then changed by setters that check nothing, as a file could have been. */
#include "tests/support/net.h"

#include <dirent.h>
#include <stdio.h>

#include "framework/base/memory.h"
#include "framework/base/size.h"
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/program.h"
#include "tests/support/run_case.h"

static const double numbers[64] = {0.5, 0.25, 0.125};

/* x [2, 3] -> `type` -> out, and its gradient out@GRAD -> `type`_grad -> x@GRAD; other [3, 2] and small [1] stand by. */
static void build(net *n, const char *type, const char *attrs)
{
    net_init(n);
    net_var(n, "x", TR_FP64, 2, 2, 3);
    net_var(n, "other", TR_FP64, 2, 4, 2);
    net_var(n, "small", TR_FP64, 1, 1);
    net_op(n, 0, type, "X=x", "Out=out", attrs);
    net_feed(n, "x", numbers, 2, 2, 3);
    net_feed(n, "other", numbers, 2, 4, 2);
    net_feed(n, "small", numbers, 1, 1);
}

static void build_gradient(net *n, const char *type, const char *attrs)
{
    build(n, type, attrs);
    net_op(n, 0, "reduce_sum", "X=out", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n->program, "loss", 0, NULL, 0, NULL));
    net_run(n, "x@GRAD");
}

static tr_op_desc *find_op(net *n, const char *type)
{
    const tr_block *block = n->program->block[0];

    for (int i = 0; i < block->op_count; i++)
        if (strcmp(block->op[i]->type, type) == 0)
            return block->op[i];
    fail_msg("the program has no operator %s", type);
    return NULL;
}

static void set_input(net *n, const char *type, const char *slot, const char *name)
{
    tr_op_desc_set_input(find_op(n, type), slot, 1, &name);
    tr__program_touch(n->program);
}

static void set_output(net *n, const char *type, const char *slot, const char *name)
{
    tr_op_desc_set_output(find_op(n, type), slot, 1, &name);
    tr__program_touch(n->program);
}

/* -- gradient operators ------------------------------------------------------------------------ */

TEST(a_gradient_of_another_shape_is_refused)
{
    static const char *const types[][2] = {{"reduce_sum", "dim=[1]"}, {"softmax", ""}, {"relu", ""}, {"reshape2", "shape=[3,2]"},
                                           {"reduce_max", "dim=[0]"}, {"transpose2", "axis=[1,0]"}, {"mean", ""}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        net  n;
        char grad[64];
        build_gradient(&n, types[i][0], types[i][1]);
        snprintf(grad, sizeof grad, "%s_grad", types[i][0]);
        set_input(&n, grad, "Out@GRAD", "other");
        EXPECT_FAIL(TR_ESHAPE, "Out@GRAD must", net_try_run(&n, "x@GRAD"));
        net_deinit(&n);
    }
}

TEST(a_gradient_that_is_missing_is_refused)
{
    net n;
    build_gradient(&n, "sqrt", "");
    set_input(&n, "sqrt_grad", "Out@GRAD", "@EMPTY@");
    EXPECT_FAIL(TR_EINVAL, "input Out@GRAD is missing", net_try_run(&n, "x@GRAD"));
    net_deinit(&n);
}

static bool is_known_to_gradient(const tr_grad_rule *rule, int slot)
{
    for (int k = 0; k < TR_RULE_MAX && rule->reads[k].what != TR_GRAD_END; k++)
        if (rule->reads[k].what == TR_GRAD_IN && rule->reads[k].slot == slot)
            return true;
    for (int k = 0; k < TR_RULE_MAX && rule->makes[k].what != TR_GRAD_END; k++)
        if (rule->makes[k].slot == slot)
            return true;
    return false;
}

/* How many rows the output of an operator on sequences has is known to kernels alone. */
TEST(a_gradient_of_sequences_has_the_rows_that_they_say)
{
    static const char *const types[][4] = {
        {"sequence_pad", "X=x PadValue=small", "Out=out Length=length", "padded_length=3"},
        {"sequence_unpad", "X=padded Length=lengths", "Out=out", ""},
        {"sequence_slice", "X=x Offset=lengths Length=lengths", "Out=out", ""},
        {"sequence_expand", "X=x Y=x", "Out=out", ""},
        {"sequence_pool", "X=x", "Out=out MaxIndex=index", "pooltype=SUM"},
    };
    static const int64_t offsets[] = {0, 2, 5}, ones[] = {1, 1};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        net  n;
        char grad[64];
        net_init(&n);
        net_var(&n, "x", TR_FP64, 2, -1, 2);
        net_var(&n, "padded", TR_FP64, 3, 2, 3, 2);
        net_var(&n, "lengths", TR_INT64, 2, 2, 1);
        net_var(&n, "small", TR_FP64, 1, 1);
        net_var(&n, "rows", TR_FP64, 2, 1, 2);
        net_var(&n, "cube", TR_FP64, 3, 1, 3, 2);
        net_op(&n, 0, types[i][0], types[i][1], types[i][2], types[i][3]);
        net_op(&n, 0, "reduce_sum", "X=out", "Out=loss", "reduce_all=true");
        EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
        net_feed(&n, "x", numbers, 2, 5, 2);
        net_feed_lod(&n, "x", 1, 3, offsets);
        net_feed(&n, "padded", numbers, 3, 2, 3, 2);
        net_feed(&n, "lengths", ones, 2, 2, 1);
        net_feed(&n, "small", numbers, 1, 1);
        net_feed(&n, "rows", numbers, 2, 1, 2);
        net_feed(&n, "cube", numbers, 3, 1, 3, 2);
        net_run(&n, "loss");
        snprintf(grad, sizeof grad, "%s_grad", types[i][0]);
        set_input(&n, grad, "Out@GRAD", i == 0 ? "cube" : "rows");
        EXPECT_FAIL(TR_ESHAPE, "as its sequences say", net_try_run(&n, tr_op_desc_output(find_op(&n, grad), "X@GRAD", 0)));
        net_deinit(&n);
    }
}

/* A gradient operator is checked by inferring its forward operator, so it knows that one's inputs; or it infers for itself. */
TEST(every_gradient_operator_can_be_checked)
{
    for (int i = 0; i < tr_op_count(); i++) {
        const tr_op *op = tr_op_at(i);
        if (!op->grad_of || op->proto || op->infer)
            continue;
        const tr_op_proto *forward = tr__op_proto(op->grad_of);
        for (int s = 0; forward->in[s].name; s++)
            if (!(forward->in[s].flags & TR_SLOT_OPTIONAL) && !is_known_to_gradient(op->grad_of->grad, s))
                fail_msg("%s neither reads input %s of %s, nor has an infer of its own", op->type, forward->in[s].name,
                         op->grad_of->type);
    }
}

TEST(a_row_that_max_pooling_did_not_choose_is_refused)
{
    static const int64_t offsets[] = {0, 2, 5};
    static const int32_t chosen[] = {0, 0, 5, 2};
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, 2);
    net_var(&n, "chosen", TR_INT32, 2, 2, 2);
    net_op(&n, 0, "sequence_pool", "X=x", "Out=out MaxIndex=index", "pooltype=MAX");
    net_op(&n, 0, "reduce_sum", "X=out", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", numbers, 2, 5, 2);
    net_feed_lod(&n, "x", 1, 3, offsets);
    net_feed(&n, "chosen", chosen, 2, 2, 2);
    net_run(&n, "x@GRAD");
    set_input(&n, "sequence_pool_grad", "MaxIndex", "chosen");
    EXPECT_FAIL(TR_ERANGE, "names row 5", net_try_run(&n, "x@GRAD"));
    net_deinit(&n);
}

TEST(a_gradients_attributes_are_those_of_its_forward_operator)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, 2, 3);
    net_var(&n, "y", TR_FP64, 1, 3);
    net_op(&n, 0, "elementwise_add", "X=x Y=y", "Out=out", "axis=1");
    net_op(&n, 0, "reduce_sum", "X=out", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", numbers, 2, 2, 3);
    net_feed(&n, "y", numbers, 1, 3);
    net_run(&n, "y@GRAD");
    tr_op_desc_set_int(find_op(&n, "elementwise_add_grad"), "axis", 1 << 30, TR_ATTR_INT);
    tr__program_touch(n.program);
    EXPECT_FAIL(TR_ESHAPE, "axis is 1073741824", net_try_run(&n, "y@GRAD"));
    net_deinit(&n);
}

TEST(a_gradient_of_a_convolution_fits_its_output)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 4, 1, 1, 4, 4);
    net_var(&n, "w", TR_FP64, 4, 1, 1, 3, 3);
    net_var(&n, "small", TR_FP64, 4, 1, 1, 1, 1);
    net_op(&n, 0, "conv2d", "Input=x Filter=w", "Output=out", "");
    net_op(&n, 0, "reduce_sum", "X=out", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", numbers, 4, 1, 1, 4, 4);
    net_feed(&n, "w", numbers, 4, 1, 1, 3, 3);
    net_feed(&n, "small", numbers, 4, 1, 1, 1, 1);
    net_run(&n, "w@GRAD");
    set_input(&n, "conv2d_grad", "Output@GRAD", "small");
    EXPECT_FAIL(TR_ESHAPE, "Output@GRAD must be [1, 1, 2, 2]", net_try_run(&n, "w@GRAD"));
    net_deinit(&n);
}

TEST(soft_labels_of_integers_are_refused_by_the_gradient_too)
{
    static const int64_t labels[6] = {1};
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, 2, 3);
    net_var(&n, "label", TR_FP64, 2, 2, 3);
    net_var(&n, "ints", TR_INT64, 2, 2, 3);
    net_op(&n, 0, "cross_entropy", "X=x Label=label", "Y=y", "soft_label=true");
    net_op(&n, 0, "reduce_sum", "X=y", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_feed(&n, "x", numbers, 2, 2, 3);
    net_feed(&n, "label", numbers, 2, 2, 3);
    net_feed(&n, "ints", labels, 2, 2, 3);
    net_run(&n, "x@GRAD");
    set_input(&n, "cross_entropy_grad", "Label", "ints");
    EXPECT_FAIL(TR_EDTYPE, "Label must be float64, got int64", net_try_run(&n, "x@GRAD"));
    net_deinit(&n);
}

/* -- slots, kinds, types ------------------------------------------------------------------------- */

TEST(a_missing_argument_is_refused)
{
    net n;
    build(&n, "mean", "");
    set_input(&n, "mean", "X", "@EMPTY@");
    EXPECT_FAIL(TR_EINVAL, "mean: input X is missing", net_try_run(&n, "out"));
    net_deinit(&n);

    build(&n, "relu", "");
    net_op(&n, 0, "less_than", "X=x Y=out", "Out=less", "");
    set_input(&n, "less_than", "Y", "@EMPTY@");
    EXPECT_FAIL(TR_EINVAL, "less_than: input Y is missing", net_try_run(&n, "less"));
    net_deinit(&n);

    build(&n, "relu", "");
    net_op(&n, 0, "top_k", "X=x", "Out=best Indices=places", "k=2");
    set_output(&n, "top_k", "Indices", "@EMPTY@");
    EXPECT_FAIL(TR_EINVAL, "top_k: output Indices is missing", net_try_run(&n, "best"));
    net_deinit(&n);
}

TEST(a_declared_type_that_is_not_so_is_refused)
{
    net n;
    build(&n, "relu", "");
    net_op(&n, 0, "scale", "X=out", "Out=twice", "scale=2.0");
    net_run(&n, "twice");
    tr_var_desc_set_dtype(tr_block_find_var(n.program->block[0], "out"), TR_FP32);
    EXPECT_FAIL(TR_EDTYPE, "declares variable 'out' as float32, but it holds float64", net_try_run(&n, "twice"));
    net_deinit(&n);
}

TEST(another_kind_of_variable_is_refused)
{
    net n;
    build(&n, "relu", "");
    net_op(&n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3");
    net_op(&n, 0, "write_to_array", "X=x I=i", "Out=array", "");
    net_op(&n, 0, "tanh", "X=x", "Out=y", "");
    set_input(&n, "tanh", "X", "array");
    EXPECT_FAIL(TR_EUNSUPPORTED, "tanh: input X must be a dense tensor, got a tensor array", net_try_run(&n, "y"));
    net_deinit(&n);
}

TEST(a_variable_of_the_scope_may_be_written_with_two_shapes)
{
    net n;
    net_init(&n);
    net_parameter(&n, "w", TR_FP32, 1, 2);
    net_op(&n, 0, "fill_constant", "", "Out=w", "shape=[2] value=1.0");
    net_op(&n, 0, "scale", "X=w", "Out=first", "");
    net_op(&n, 0, "fill_constant", "", "Out=w", "shape=[2] value=2.0");
    net_op(&n, 0, "scale", "X=w", "Out=second", "");
    net_run(&n, "first second");
    tr_op_desc_set_ints(n.program->block[0]->op[0], "shape", 1, (const int64_t[]){1000}, TR_ATTR_LONGS);
    tr__program_touch(n.program);
    net_run(&n, "first second");
    assert_int_equal(tr_tensor_numel(n.result[0]), 1000);
    assert_int_equal(tr_tensor_numel(n.result[1]), 2);
    assert_float_equal(net_f32(&n, 0)[999], 1, 0);
    assert_float_equal(net_f32(&n, 1)[1], 2, 0);
    net_deinit(&n);
}

/* -- blocks ----------------------------------------------------------------------------------------- */

TEST(a_block_that_contains_itself_is_refused)
{
    net n;
    build(&n, "relu", "");
    net_op(&n, 0, "fill_constant", "", "Out=go", "shape=[1] dtype=0");
    const int body = net_block(&n, 0);
    net_op(&n, body, "scale", "X=x", "Out=go_on", "");
    net_op(&n, 0, "while", "X=x Condition=go", "Out=go", "sub_block=block:1");
    tr_op_desc_set_int(find_op(&n, "while"), "sub_block", 0, TR_ATTR_BLOCK);
    tr__program_touch(n.program);
    EXPECT_FAIL(TR_EFORMAT, "sub_block 0 is the block that it stands in", net_try_run(&n, "go"));
    net_deinit(&n);
}

TEST(a_declared_output_of_a_loop_need_not_be_written)
{
    net n;
    net_init(&n);
    net_op(&n, 0, "fill_constant", "", "Out=i", "shape=[1] dtype=3 value=7.0");
    net_op(&n, 0, "fill_constant", "", "Out=go", "shape=[1] dtype=0");
    const int body = net_block(&n, 0);
    net_op(&n, body, "logical_not", "X=go", "Out=go", "");
    net_op(&n, 0, "while", "X=i Condition=go", "Out=i,go", "sub_block=block:1");
    net_op(&n, 0, "scale", "X=i", "Out=out", "");
    net_run(&n, "out");
    assert_int_equal(net_i64(&n, 0)[0], 7);
    net_deinit(&n);
}

/* -- sizes ------------------------------------------------------------------------------------------- */

TEST(sizes_end_instead_of_wrapping_round)
{
    assert_true(tr_size_mul(1ll << 40, 1ll << 40) == TR_SIZE_MAX);
    assert_true(tr_size_mul(tr_size_mul(1ll << 40, 1ll << 40), 3) == TR_SIZE_MAX);
    assert_true(tr_size_mul(tr_size_mul(1ll << 40, 1ll << 40), 0) == 0);
    assert_true(tr_size_add(TR_SIZE_MAX, 1) == TR_SIZE_MAX);
    assert_true(tr_size_mul(6, 7) == 42 && tr_size_add(40, 2) == 42);
}

TEST(a_tensor_that_no_machine_has_memory_for_is_refused)
{
    net n;
    net_init(&n);
    net_op(&n, 0, "fill_constant", "", "Out=out", "shape=[2]");
    for (int i = 0; i < 2; i++) {
        tr_op_desc_set_ints(n.program->block[0]->op[0], "shape", 3, (const int64_t[]){1ll << (i ? 40 : 20), 1ll << 20, i ? 0 : 8},
                            TR_ATTR_LONGS);
        tr__program_touch(n.program);
        EXPECT_FAIL(TR_ENOMEM, "memory", net_try_run(&n, "out"));
    }
    net_deinit(&n);
}

TEST(padding_beyond_all_memory_is_refused)
{
    net n;
    net_init(&n);
    net_var(&n, "x", TR_FP64, 4, 1, 1, 4, 4);
    net_var(&n, "w", TR_FP64, 4, 1, 1, 3, 3);
    net_op(&n, 0, "conv2d", "Input=x Filter=w", "Output=out", "");
    net_feed(&n, "x", numbers, 4, 1, 1, 4, 4);
    net_feed(&n, "w", numbers, 4, 1, 1, 3, 3);
    tr_op_desc_set_ints(find_op(&n, "conv2d"), "paddings", 2, (const int64_t[]){INT32_MAX, INT32_MAX}, TR_ATTR_INTS);
    tr_op_desc_set_ints(find_op(&n, "conv2d"), "strides", 2, (const int64_t[]){INT32_MAX, INT32_MAX}, TR_ATTR_INTS);
    tr__program_touch(n.program);
    EXPECT_FAIL(TR_ENOMEM, "more memory than this machine has", net_try_run(&n, "out"));
    net_deinit(&n);
}

TEST(a_window_of_padding_beyond_all_memory_is_refused)
{
    static const char *const types[] = {"pool2d", "max_pool2d_with_index"};

    for (int i = 0; i < 2; i++) {
        net n;
        net_init(&n);
        net_var(&n, "x", TR_FP32, 4, 1, 1, 4, 4);
        net_op(&n, 0, types[i], "X=x", i ? "Out=out Mask=mask" : "Out=out", i ? "ksize=[3,3]" : "ksize=[3,3] pooling_type=max");
        net_feed(&n, "x", numbers, 4, 1, 1, 4, 4);
        tr_op_desc_set_ints(find_op(&n, types[i]), "ksize", 2, (const int64_t[]){1 << 20, 1 << 20}, TR_ATTR_INTS);
        tr_op_desc_set_ints(find_op(&n, types[i]), "paddings", 2, (const int64_t[]){(1 << 20) - 1, (1 << 20) - 1}, TR_ATTR_INTS);
        tr_op_desc_set_ints(find_op(&n, types[i]), "strides", 2, (const int64_t[]){1 << 22, 1 << 22}, TR_ATTR_INTS);
        tr__program_touch(n.program);
        EXPECT_FAIL(TR_ENOMEM, "more memory than this machine has", net_try_run(&n, "out"));
        tr_op_desc_set_ints(find_op(&n, types[i]), "ksize", 2, (const int64_t[]){3, 3}, TR_ATTR_INTS);
        tr_op_desc_set_ints(find_op(&n, types[i]), "paddings", 2, (const int64_t[]){1, 1}, TR_ATTR_INTS);
        tr__program_touch(n.program);
        EXPECT_OK(net_try_run(&n, "out"));             /* one window: no step is made, however long it is */
        net_deinit(&n);
    }
}

TEST(an_array_beyond_the_limit_is_refused)
{
    const int64_t index = 1 << 30;
    net n;
    build(&n, "relu", "");
    net_var(&n, "i", TR_INT64, 1, 1);
    net_op(&n, 0, "write_to_array", "X=x I=i", "Out=array", "");
    net_op(&n, 0, "lod_array_length", "X=array", "Out=length", "");
    net_feed(&n, "i", &index, 1, 1);
    tr__array_set_limit(1 << 20);
    EXPECT_FAIL(TR_ENOMEM, "no memory for a tensor array", net_try_run(&n, "length"));
    tr__array_set_limit(0);
    net_deinit(&n);
}

/* -- the corpus of tests/fuzz/fuzz_run.c ---------------------------------------------------------------- */

static bool seen[1024];                /* by tr_op_at's index */

static void note_operators(const tr_program *program)
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->block[b]->op_count; i++)
            for (int k = 0; k < tr_op_count(); k++)
                seen[k] = seen[k] || strcmp(tr_op_type(tr_op_at(k)), program->block[b]->op[i]->type) == 0;
}

TEST(every_operator_has_a_program_to_be_mutated)
{
    static const char folder[] = "tests/fuzz/corpus/run";
    DIR           *entries = opendir(folder);
    struct dirent *entry;

    EXPECT_OK(tr_init());
    assert_non_null(entries);
    while ((entry = readdir(entries))) {
        char     path[512];
        size_t   size;
        run_case c;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        uint8_t *bytes = test_read_file(&size, path);
        if (!run_case_read(&c, bytes, size))
            fail_msg("%s cannot be read: %s", path, tr_error());
        note_operators(c.program);
        run_case_deinit(&c);
        free(bytes);
    }
    closedir(entries);
    for (int k = 0; k < tr_op_count(); k++)
        if (!seen[k])
            fail_msg("no file of %s has operator %s", folder, tr_op_type(tr_op_at(k)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_of_another_shape_is_refused),
        cmocka_unit_test(a_gradient_that_is_missing_is_refused),
        cmocka_unit_test(a_gradient_of_sequences_has_the_rows_that_they_say),
        cmocka_unit_test(every_gradient_operator_can_be_checked),
        cmocka_unit_test(a_row_that_max_pooling_did_not_choose_is_refused),
        cmocka_unit_test(a_gradients_attributes_are_those_of_its_forward_operator),
        cmocka_unit_test(a_gradient_of_a_convolution_fits_its_output),
        cmocka_unit_test(soft_labels_of_integers_are_refused_by_the_gradient_too),
        cmocka_unit_test(a_missing_argument_is_refused),
        cmocka_unit_test(a_declared_type_that_is_not_so_is_refused),
        cmocka_unit_test(another_kind_of_variable_is_refused),
        cmocka_unit_test(a_variable_of_the_scope_may_be_written_with_two_shapes),
        cmocka_unit_test(a_block_that_contains_itself_is_refused),
        cmocka_unit_test(a_declared_output_of_a_loop_need_not_be_written),
        cmocka_unit_test(sizes_end_instead_of_wrapping_round),
        cmocka_unit_test(a_tensor_that_no_machine_has_memory_for_is_refused),
        cmocka_unit_test(padding_beyond_all_memory_is_refused),
        cmocka_unit_test(a_window_of_padding_beyond_all_memory_is_refused),
        cmocka_unit_test(an_array_beyond_the_limit_is_refused),
        cmocka_unit_test(every_operator_has_a_program_to_be_mutated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
