/* test_pieces.c - an update by pieces ends with the bits of an update of whole blocks; what is no matter of elements stays whole. */
#include "pserver/store/server_pieces.h"

#include "tests/support/net.h"

#include <stdio.h>
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

/* The program of a server that reads one side and writes the other. */
static void make(net *n)
{
    net_init(n);
    for (int i = 0; i < (int)(sizeof kept / sizeof *kept); i++) {
        char next[16];
        snprintf(next, sizeof next, "%s@NEXT", kept[i]);
        net_parameter(n, kept[i], TR_FP32, 1, sizes[i]);
        net_parameter(n, next, TR_FP32, 1, sizes[i]);
        for (int side = 0; side < 2; side++) {
            tr_tensor *t = tr_var_tensor(tr_scope_var(n->scope, side ? next : kept[i]));
            EXPECT_OK(tr_tensor_resize(t, TR_FP32, 1, &(int64_t){sizes[i]}));
            fill(tr_tensor_data(t), sizes[i], side ? 99 : i);
        }
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
    net_op(n, 0, "scale", "X=step", "Out=step@NEXT", "bias=1");
    net_op(n, 0, "scale", "X=step@NEXT", "Out=rate", "scale=0.01");
    net_op(n, 0, "scale", "X=a", "Out=decay", "scale=0.1");
    net_op(n, 0, "sum", "X=a@GRAD,decay", "Out=decayed", "");
    net_op(n, 0, "momentum", "Param=a Grad=decayed Velocity=v LearningRate=rate", "ParamOut=a@NEXT VelocityOut=v@NEXT", "mu=0.9");
    net_op(n, 0, "adam", "Param=b Grad=b@GRAD LearningRate=rate Moment1=m1 Moment2=m2 Beta1Pow=p1 Beta2Pow=p2",
           "ParamOut=b@NEXT Moment1Out=m1@NEXT Moment2Out=m2@NEXT", "");
    net_op(n, 0, "scale", "X=p1", "Out=p1@NEXT", "scale=0.9");
    net_op(n, 0, "scale", "X=p2", "Out=p2@NEXT", "scale=0.999");
    net_op(n, 0, "clip_by_norm", "X=c@GRAD", "Out=clipped", "max_norm=0.5");
    net_op(n, 0, "sgd", "Param=c Grad=clipped LearningRate=rate", "ParamOut=c@NEXT", "");
    net_op(n, 0, "sgd", "Param=d Grad=d@GRAD LearningRate=rate", "ParamOut=d@NEXT", "");
    net_op(n, 0, "sum", "X=e@GRAD,f@GRAD", "Out=both", "");
    net_op(n, 0, "sgd", "Param=e Grad=both LearningRate=rate", "ParamOut=e@NEXT", "");
    net_op(n, 0, "sgd", "Param=f Grad=f@GRAD LearningRate=rate", "ParamOut=f@NEXT", "");
    for (int i = 0; i < BLOCKS; i++)
        net_feed(n, grads[i], gradient[i], 1, grad_sizes[i]);
}

static tr_server_pieces *cut(net *n)
{
    static const char *const params[BLOCKS] = {"a", "b", "c", "d", "e", "f"};
    tr_piece_block           blocks[BLOCKS];
    tr_server_pieces        *pieces;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = (tr_piece_block){params[i], grads[i], (uint64_t)grad_sizes[i] * 4};
    EXPECT_OK(tr_server_pieces_new(&pieces, n->program, n->scope, BLOCKS, blocks));
    return pieces;
}

/* Pieces of 4096 elements, the last ones first. */
static void run_pieces(tr_server_pieces *pieces, int block)
{
    for (int at = (grad_sizes[block] - 1) / 4096 * 4096; at >= 0; at -= 4096) {
        const int count = grad_sizes[block] - at < 4096 ? grad_sizes[block] - at : 4096;
        EXPECT_OK(tr_server_pieces_run(pieces, (uint32_t)block, (uint64_t)at * 4, (uint64_t)count * 4, gradient[block] + at));
    }
}

static void exchange(net *n)
{
    for (int i = 0; i < (int)(sizeof kept / sizeof *kept); i++) {
        char next[16];
        snprintf(next, sizeof next, "%s@NEXT", kept[i]);
        tr_tensor *a = tr_var_tensor(tr_scope_find(n->scope, kept[i])), *b = tr_var_tensor(tr_scope_find(n->scope, next));
        for (int k = 0; k < sizes[i]; k++) {
            const float was = ((float *)tr_tensor_data(a))[k];
            ((float *)tr_tensor_data(a))[k] = ((float *)tr_tensor_data(b))[k];
            ((float *)tr_tensor_data(b))[k] = was;
        }
    }
}

static void expect_same(const net *got, const net *want)
{
    for (int i = 0; i < (int)(sizeof kept / sizeof *kept); i++)
        assert_memory_equal(tr_tensor_data(tr_var_tensor(tr_scope_find(got->scope, kept[i]))),
                            tr_tensor_data(tr_var_tensor(tr_scope_find(want->scope, kept[i]))), (size_t)sizes[i] * 4);
}

static void pieces_have_the_bits_of_the_whole(void **state)
{
    net whole, cut_up;

    (void)state;
    make(&whole);
    make(&cut_up);
    tr_server_pieces *pieces = cut(&cut_up);
    for (int update = 0; update < 3; update++) {
        net_run(&whole, "");
        run_pieces(pieces, B);
        run_pieces(pieces, A);
        run_pieces(pieces, B);                     /* once more: of an update that had begun before */
        net_run(&cut_up, "");
        tr_server_pieces_next(pieces);
        exchange(&whole);
        exchange(&cut_up);
        expect_same(&cut_up, &whole);
    }
    tr_server_pieces_free(pieces);
    net_deinit(&whole);
    net_deinit(&cut_up);
}

static void norms_small_blocks_and_blocks_that_meet_stay_whole(void **state)
{
    net n;

    (void)state;
    make(&n);
    tr_server_pieces *pieces = cut(&n);
    assert_true(tr_server_pieces_has(pieces, A));
    assert_true(tr_server_pieces_has(pieces, B));
    for (uint32_t i = C; i < BLOCKS; i++)
        assert_false(tr_server_pieces_has(pieces, i));
    tr_server_pieces_free(pieces);
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_the_bits_of_the_whole),
        cmocka_unit_test(norms_small_blocks_and_blocks_that_meet_stay_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
