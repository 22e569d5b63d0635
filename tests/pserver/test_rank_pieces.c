/* test_rank_pieces.c - pieces of updates on their way to another thread: all are computed before the rest of the update, and a failure is
 * reported with it. */
#include "pserver/rank/rank_pieces.h"

#include "framework/base/memory.h"
#include "pserver/store/server_store.h"
#include "pserver/util/wake.h"
#include "tests/support/net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, CHUNKS = 20, COUNT = CHUNK * CHUNKS };      /* more chunks than the first ring has room for */

typedef struct rig {
    net                     n;
    tr_times                applied;
    tr_store                store;
    tr__rank                rank;
    int64_t                 count, one;
    Trireme__Pserver__Value value[2], *values[2];
    Trireme__Pserver__Block block, *blocks[1];
    Trireme__Pserver__Setup setup;
    float                  *grad;
    pthread_t               thread;
    atomic_bool             is_over;
} rig;

static void *serve(void *payload)
{
    rig *r = payload;

    while (!atomic_load(&r->is_over))
        tr__pieces_serve(r->rank.pieces);
    return NULL;
}

static void set_value(rig *r, int i, const char *name, int64_t *count)
{
    trireme__pserver__value__init(&r->value[i]);
    r->value[i].name = (char *)(uintptr_t)name;
    r->value[i].dtype = TR_FP32;
    r->value[i].n_dims = 1;
    r->value[i].dims = count;
    r->value[i].bytes = (uint64_t)*count * 4;
    r->values[i] = &r->value[i];
}

/* w -= rate * gradient, all ones at first. */
static void begin(rig *r, float rate)
{
    static const tr_server_part part = {TR_DUTY_SERVER, .trainers = 1, .newest = -1, .first_generation = 1};
    tr_policy policy;
    void     *packed;

    *r = (rig){.count = COUNT, .one = 1};
    tr_set_num_threads(2);
    net_init(&r->n);
    net_parameter(&r->n, "w", TR_FP32, 1, COUNT);
    net_parameter(&r->n, "rate", TR_FP32, 1, 1);
    net_var(&r->n, "w@GRAD", TR_FP32, 1, COUNT);
    net_op(&r->n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=rate", "ParamOut=w", "op_pointwise_on=w");
    trireme__pserver__setup__init(&r->setup);
    EXPECT_OK(tr_program_serialize(&packed, &r->setup.program.len, r->n.program));
    r->setup.program.data = packed;
    set_value(r, 0, "w", &r->count);
    set_value(r, 1, "rate", &r->one);
    trireme__pserver__block__init(&r->block);
    r->block.param = (char *)"w";
    r->block.grad = (char *)"w@GRAD";
    r->block.dtype = TR_FP32;
    r->block.bytes = (uint64_t)COUNT * 4;
    r->blocks[0] = &r->block;
    r->setup.n_values = 2, r->setup.values = r->values;
    r->setup.n_blocks = 1, r->setup.blocks = r->blocks;
    EXPECT_OK(tr_policy_parse(&policy, "sync"));
    r->rank.program = tr_server_program_new(NULL, &r->applied);
    r->store = tr_server_store(r->rank.program, &part);
    EXPECT_OK(r->store.setup(r->rank.program, &r->setup, &policy, "", 1, false));
    for (int i = 0; i < COUNT; i++)
        ((float *)r->store.value(r->rank.program, 0))[i] = 1;
    *(float *)r->store.value(r->rank.program, 1) = rate;
    EXPECT_OK(r->store.ready(r->rank.program));
    r->grad = tr__must_array(COUNT, sizeof *r->grad);
    for (int i = 0; i < COUNT; i++)
        r->grad[i] = (float)(i % 7);
    r->rank.pieces = tr__pieces_new(&r->rank);
}

static void put_all(rig *r)
{
    for (int i = 0; i < CHUNKS; i++)
        EXPECT_OK(tr__pieces_put(r->rank.pieces, 0, (uint64_t)i * CHUNK * 4, CHUNK * 4, r->grad + i * CHUNK));
}

static void end(rig *r)
{
    tr__pieces_free(r->rank.pieces);
    tr_server_program_free(r->rank.program);
    free(r->setup.program.data);
    free(r->grad);
    tr_set_num_threads(0);
    net_deinit(&r->n);
}

static void expect_updates(rig *r, int updates)
{
    const float *w = r->store.param(r->rank.program, 0);

    for (int i = 0; i < COUNT; i++)
        assert_float_equal(w[i], 1 - (float)updates * (float)(i % 7) / 4, 0);
}

TEST(pieces_are_computed_on_another_thread)
{
    uint64_t  settled = 0;
    uint8_t   flags = 0;
    tr_commit commit = {.settled = &settled, .trainer = &flags, .start = 1};
    rig       r;

    begin(&r, 0.25f);
    pthread_create(&r.thread, NULL, serve, &r);
    for (int update = 1; update <= 50; update++) {
        put_all(&r);
        while (!tr__pieces_are_done(r.rank.pieces))
            tr__pause();
        commit.updates = settled = (uint64_t)update;
        r.store.commit(r.rank.program, &commit, true);
    }
    atomic_store(&r.is_over, true);
    pthread_join(r.thread, NULL);
    expect_updates(&r, 50);
    end(&r);
}

TEST(pieces_that_are_left_are_computed_before_the_rest_of_the_update)
{
    uint64_t  settled = 1;
    uint8_t   flags = 0;
    tr_commit commit = {.updates = 1, .settled = &settled, .trainer = &flags, .start = 1};
    rig       r;

    begin(&r, 0.25f);
    put_all(&r);
    assert_false(tr__pieces_are_done(r.rank.pieces));
    EXPECT_OK(tr__pieces_finish(r.rank.pieces));
    assert_true(tr__pieces_are_done(r.rank.pieces));
    r.store.commit(r.rank.program, &commit, true);
    expect_updates(&r, 1);
    end(&r);
}

TEST(a_small_piece_is_computed_at_once_unless_others_wait)
{
    rig r;

    begin(&r, 0.25f);
    EXPECT_OK(tr__pieces_put(r.rank.pieces, 0, 0, 4096, r.grad));
    assert_true(tr__pieces_are_done(r.rank.pieces));
    EXPECT_OK(tr__pieces_put(r.rank.pieces, 0, 4096, CHUNK * 4, r.grad));
    EXPECT_OK(tr__pieces_put(r.rank.pieces, 0, 0, 4096, r.grad));
    assert_false(tr__pieces_are_done(r.rank.pieces));
    tr__pieces_serve(r.rank.pieces);
    assert_true(tr__pieces_are_done(r.rank.pieces));
    end(&r);
}

TEST(a_server_with_one_thread_computes_pieces_at_once)
{
    rig r;

    begin(&r, 0.25f);
    tr_set_num_threads(1);
    put_all(&r);
    assert_true(tr__pieces_are_done(r.rank.pieces));
    end(&r);
}

TEST(a_failure_of_a_piece_is_that_of_its_update)
{
    rig r;

    begin(&r, INFINITY);
    put_all(&r);
    tr__pieces_serve(r.rank.pieces);
    assert_false(tr__pieces_are_done(r.rank.pieces));          /* so that the main thread has the update, and reports the failure */
    assert_int_equal(tr__pieces_finish(r.rank.pieces), TR_ERANGE);
    assert_non_null(strstr(tr_error(), "the learning rate"));
    assert_true(tr__pieces_are_done(r.rank.pieces));
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_computed_on_another_thread),
        cmocka_unit_test(pieces_that_are_left_are_computed_before_the_rest_of_the_update),
        cmocka_unit_test(a_small_piece_is_computed_at_once_unless_others_wait),
        cmocka_unit_test(a_server_with_one_thread_computes_pieces_at_once),
        cmocka_unit_test(a_failure_of_a_piece_is_that_of_its_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
