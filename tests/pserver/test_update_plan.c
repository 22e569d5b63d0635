/* test_update_plan.c - an update ends with the bits of the program as it was sent, by pieces or not; marks that cannot be followed. */
#include "pserver/store/update_plan.h"

#include "pserver/store/double_buffers.h"
#include "tests/support/net.h"

#include <stdlib.h>
#include <string.h>

enum { A, B, C, D, E, F, BLOCKS };
enum { N_A = 20000, N_B = 16421, N_C = 9000, N_D = 64, N_E = 10000 };

static const char *const kept[] = {"a", "v", "b", "m1", "m2", "p1", "p2", "c", "d", "e", "f", "step"};
static const int         sizes[] = {N_A, N_A, N_B, N_B, N_B, 1, 1, N_C, N_D, N_E, N_E, 1};
static const char *const grads[BLOCKS] = {"a@GRAD", "b@GRAD", "c@GRAD", "d@GRAD", "e@GRAD", "f@GRAD"};
static const int         grad_sizes[BLOCKS] = {N_A, N_B, N_C, N_D, N_E, N_E};
static float             gradient[BLOCKS][N_A];

static void fill(float *out, int count, int seed)
{
    for (int i = 0; i < count; i++)
        out[i] = (float)((i * 7919 + seed * 104729) % 1009) / 1009.0f + 0.001f;
}

/* The program of a server, as it is sent: operators write their variables in place. With `state` what is kept lies there. */
static void make(net *n, tr_state *state)
{
    net_init(n);
    for (int i = 0; i < (int)(sizeof kept / sizeof *kept); i++) {
        net_parameter(n, kept[i], TR_FP32, 1, sizes[i]);
        tr_tensor *t = tr_var_tensor(tr_scope_var(n->scope, kept[i]));
        if (state)
            EXPECT_OK(tr_double_buffers_put(state, t, TR_FP32, &TR_SHAPE(sizes[i])));
        else
            EXPECT_OK(tr_tensor_resize(t, TR_FP32, 1, &(int64_t){sizes[i]}));
        fill(tr_tensor_data(t), sizes[i], i);
    }
    for (int i = 0; i < BLOCKS; i++) {
        net_var(n, grads[i], TR_FP32, 1, grad_sizes[i]);
        fill(gradient[i], grad_sizes[i], 40 + i);
    }
    net_var(n, "rate", TR_FP32, 1, 1);
    net_var(n, "decay", TR_FP32, 1, N_A);
    net_var(n, "decayed", TR_FP32, 1, N_A);
    net_var(n, "clipped", TR_FP32, 1, N_C);
    net_var(n, "both", TR_FP32, 1, N_E);
    net_op(n, 0, "scale", "X=step", "Out=step", "bias=1");
    net_op(n, 0, "scale", "X=step", "Out=rate", "scale=0.01");
    net_op(n, 0, "scale", "X=a", "Out=decay", "scale=0.1 op_pointwise_on=a");
    net_op(n, 0, "sum", "X=a@GRAD,decay", "Out=decayed", "op_pointwise_on=a");
    net_op(n, 0, "momentum", "Param=a Grad=decayed Velocity=v LearningRate=rate", "ParamOut=a VelocityOut=v", "mu=0.9 op_pointwise_on=a");
    net_op(n, 0, "adam", "Param=b Grad=b@GRAD LearningRate=rate Moment1=m1 Moment2=m2 Beta1Pow=p1 Beta2Pow=p2",
           "ParamOut=b Moment1Out=m1 Moment2Out=m2", "op_pointwise_on=b");
    net_op(n, 0, "scale", "X=p1", "Out=p1", "scale=0.9");
    net_op(n, 0, "scale", "X=p2", "Out=p2", "scale=0.999");
    net_op(n, 0, "clip_by_norm", "X=c@GRAD", "Out=clipped", "max_norm=0.5");
    net_op(n, 0, "sgd", "Param=c Grad=clipped LearningRate=rate", "ParamOut=c", "");
    net_op(n, 0, "sgd", "Param=d Grad=d@GRAD LearningRate=rate", "ParamOut=d", "op_pointwise_on=d");
    net_op(n, 0, "sum", "X=e@GRAD,f@GRAD", "Out=both", "");
    net_op(n, 0, "sgd", "Param=e Grad=both LearningRate=rate", "ParamOut=e", "");
    net_op(n, 0, "sgd", "Param=f Grad=f@GRAD LearningRate=rate", "ParamOut=f", "");
    for (int i = 0; i < BLOCKS; i++)
        net_feed(n, grads[i], gradient[i], 1, grad_sizes[i]);
}

static tr_status try_plan(tr_update_plan **out, net *n, tr_state *state, bool by_pieces)
{
    static const tr_update_block blocks[BLOCKS] = {{"a", "a@GRAD"}, {"b", "b@GRAD"}, {"c", "c@GRAD"},
                                                   {"d", "d@GRAD"}, {"e", "e@GRAD"}, {"f", "f@GRAD"}};

    return tr_update_plan_new(out, NULL, n->program, n->scope, state, by_pieces, BLOCKS, blocks);
}

/* Pieces of 4096 elements, the last ones first. */
static void run_pieces(tr_update_plan *plan, int block)
{
    for (int at = (grad_sizes[block] - 1) / 4096 * 4096; at >= 0; at -= 4096) {
        const int count = grad_sizes[block] - at < 4096 ? grad_sizes[block] - at : 4096;
        EXPECT_OK(tr_update_plan_piece(plan, (uint32_t)block, (uint64_t)at * 4, (uint64_t)count * 4, gradient[block] + at));
    }
}

static void run_rest(tr_update_plan *plan)
{
    uint8_t *all[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        all[i] = (uint8_t *)gradient[i];
    EXPECT_OK(tr_update_plan_run(plan, all));
}

static void expect_same(const net *got, const net *want)
{
    for (int i = 0; i < (int)(sizeof kept / sizeof *kept); i++)
        assert_memory_equal(tr_tensor_data(tr_var_tensor(tr_scope_find(got->scope, kept[i]))),
                            tr_tensor_data(tr_var_tensor(tr_scope_find(want->scope, kept[i]))), (size_t)sizes[i] * 4);
}

/* Three updates of a server; each is followed by the same update of the program in one process. */
static void follow(bool by_pieces)
{
    net             alone, server;
    tr_state       *state;
    tr_update_plan *plan = NULL;

    EXPECT_OK(tr_state_create(&state, NULL, "", 1, 1));
    make(&alone, NULL);
    make(&server, state);
    EXPECT_OK(try_plan(&plan, &server, state, by_pieces));
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_int_equal(tr_update_plan_has_pieces(plan, i), by_pieces && i <= B);     /* norms, small blocks and blocks that meet stay
                                                                                        * whole */
    for (int update = 0; update < 3; update++) {
        if (by_pieces) {
            run_pieces(plan, B);
            run_pieces(plan, A);
            run_pieces(plan, B);                   /* once more: of an update that had begun before */
        }
        run_rest(plan);
        expect_same(&server, &alone);              /* nothing counts yet */
        tr_update_plan_switch(plan);
        net_run(&alone, "");
        expect_same(&server, &alone);
    }
    tr_update_plan_free(plan);
    net_deinit(&alone);
    net_deinit(&server);
    tr_state_free(state, true);
}

static void an_update_by_pieces_has_the_bits_of_the_program(void **state)
{
    (void)state;
    follow(true);
}

static void an_update_of_whole_blocks_has_the_bits_of_the_program(void **state)
{
    (void)state;
    follow(false);
}

static void expect_refused(const char *text, const char *type, const char *inputs, const char *outputs, const char *attrs)
{
    net             n;
    tr_state       *state;
    tr_update_plan *plan = NULL;

    EXPECT_OK(tr_state_create(&state, NULL, "", 1, 1));
    make(&n, state);
    net_op(&n, 0, type, inputs, outputs, attrs);
    EXPECT_FAIL(TR_EFORMAT, text, try_plan(&plan, &n, state, true));
    net_deinit(&n);
    tr_state_free(state, true);
}

static void marks_that_cannot_be_followed_are_refused(void **state)
{
    (void)state;
    expect_refused("clip_by_norm is marked to work point by point on 'c': by its record it does not", "clip_by_norm", "X=c@GRAD",
                   "Out=clipped", "max_norm=0.5 op_pointwise_on=c");
    expect_refused("scale is marked to work point by point on 'decay': the server has no such block", "scale", "X=decay", "Out=decay",
                   "op_pointwise_on=decay");
}

static void the_names_of_second_buffers_are_the_servers_own(void **state)
{
    net             n;
    tr_state       *memory;
    tr_update_plan *plan = NULL;

    (void)state;
    EXPECT_OK(tr_state_create(&memory, NULL, "", 1, 1));
    make(&n, memory);
    net_var(&n, "a@NEXT", TR_FP32, 1, N_A);
    EXPECT_FAIL(TR_EFORMAT, "a variable 'a@NEXT'", try_plan(&plan, &n, memory, true));
    net_deinit(&n);
    tr_state_free(memory, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_by_pieces_has_the_bits_of_the_program),
        cmocka_unit_test(an_update_of_whole_blocks_has_the_bits_of_the_program),
        cmocka_unit_test(marks_that_cannot_be_followed_are_refused),
        cmocka_unit_test(the_names_of_second_buffers_are_the_servers_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
