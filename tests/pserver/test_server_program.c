/* test_server_program.c - an update with values that trainers have set: what it reads, and what others read meanwhile; the state that a
 * process finds after a death. */
#include "pserver/store/server_store.h"

#include "framework/base/memory.h"
#include "proto/pserver.pb-c.h"
#include "pserver/trireme_dist.h"
#include "tests/support/net.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { W, RATE, VALUES };

static Trireme__Pserver__Value value_of(const char *name, int64_t *count)
{
    Trireme__Pserver__Value v = TRIREME__PSERVER__VALUE__INIT;

    v.name = (char *)(uintptr_t)name;
    v.dtype = TR_FP32;
    v.n_dims = 1;
    v.dims = count;
    v.bytes = (uint64_t)*count * 4;
    return v;
}

static const tr_server_part PART = {TR_DUTY_SERVER, .trainers = 1, .newest = -1, .first_generation = 1};

/* w -= rate * gradient, for two elements: whole in `async`, where gradients of trainers are apart. The program is set up anew. */
static tr_server_program *program_of(tr_store *store, net *n, const Trireme__Pserver__Setup **kept, const char *mode)
{
    static int64_t                 two = 2, one = 1;
    static Trireme__Pserver__Value values[VALUES], *value[VALUES] = {&values[W], &values[RATE]};
    static Trireme__Pserver__Block w, *block = &w;
    static Trireme__Pserver__Setup setup;
    static tr_times                applied;
    tr_server_program             *sp = tr_server_program_new(NULL, &applied);
    tr_policy                      policy;
    void                          *packed;
    size_t                         size;

    net_init(n);
    net_parameter(n, "w", TR_FP32, 1, 2);
    net_parameter(n, "rate", TR_FP32, 1, 1);
    net_var(n, "w@GRAD", TR_FP32, 1, 2);
    net_op(n, 0, "sgd", "Param=w Grad=w@GRAD LearningRate=rate", "ParamOut=w", "op_pointwise_on=w");
    EXPECT_OK(tr_program_serialize(&packed, &size, n->program));
    values[W] = value_of("w", &two);
    values[RATE] = value_of("rate", &one);
    trireme__pserver__block__init(&w);
    w.param = (char *)"w";
    w.grad = (char *)"w@GRAD";
    w.dtype = TR_FP32;
    w.bytes = 8;
    trireme__pserver__setup__init(&setup);
    setup.program = (ProtobufCBinaryData){size, packed};
    setup.n_values = VALUES;
    setup.values = value;
    setup.n_blocks = 1;
    setup.blocks = &block;
    EXPECT_OK(tr_policy_parse(&policy, mode));
    *store = tr_server_store(sp, &PART);
    EXPECT_OK(store->setup(sp, &setup, &policy, "", 1, false));
    memcpy(store->value(sp, W), (float[]){1, 2}, 8);
    memcpy(store->value(sp, RATE), (float[]){0.5f}, 4);
    EXPECT_OK(store->ready(sp));
    *kept = &setup;
    return sp;
}

static void expect_w(const tr_store *store, float a, float b)
{
    const float *w = store->param(store->self, 0);

    assert_float_equal(w[0], a, 0);
    assert_float_equal(w[1], b, 0);
    assert_memory_equal(store->value(store->self, W), w, 8);
}

/* The memory of update 0 is read by others until update 1 counts: by a trainer that is late, a snapshot, and the server that takes a dead
 * one's place. */
static void set(const char *mode)
{
    net                            n;
    tr_store                       store;
    const Trireme__Pserver__Setup *setup;
    tr_server_program             *sp = program_of(&store, &n, &setup, mode);
    float                          gradient[2] = {2, 4}, w[2] = {10, 20}, rate = 0.25f;
    uint64_t                       settled = 1;
    uint8_t                        flags = 0, *grads[1] = {(uint8_t *)gradient};
    const tr_set_value             values[] = {{W, (uint8_t *)w}, {RATE, (uint8_t *)&rate}};
    const tr_update                first = {.number = 1, .grad = grads, .set = values, .set_count = 2}, next = {.number = 2, .grad = grads};
    tr_commit                      commit = {.updates = 1, .settled = &settled, .trainer = &flags, .start = 1};

    for (int i = 0; i < 2; i++) {                  /* once more: after a death */
        EXPECT_OK(tr_server_program_run(sp, &first));
        expect_w(&store, 1, 2);
    }
    store.commit(sp, &commit, true);
    expect_w(&store, 9.5f, 19);
    const float *before = store.param_before(sp, 0);
    assert_true(before[0] == 1 && before[1] == 2);
    EXPECT_OK(tr_server_program_run(sp, &next));
    commit.updates = settled = 2;
    store.commit(sp, &commit, true);
    expect_w(&store, 9, 18);
    tr_server_program_free(sp);
    free(setup->program.data);
    net_deinit(&n);
}

TEST(a_set_value_counts_with_its_update_and_not_before)
{
    set("sync");
    set("async");
}

/* After a death the servers that are one update ahead undo it. */
TEST(a_process_undoes_the_last_update_of_an_earlier_one_before_it_is_ready)
{
    static tr_times                applied;
    net                            n;
    tr_store                       store;
    const Trireme__Pserver__Setup *setup;
    float                          gradient[2] = {2, 4};
    uint64_t                       settled = 1, bytes;
    uint8_t                        flags = 0, *grads[1] = {(uint8_t *)gradient};
    const void                    *packed;
    tr_policy                      policy;
    tr_commit                      commit = {.updates = 1, .settled = &settled, .trainer = &flags, .start = 1};

    char *prefix = tr__must_format("trireme-test-%d", (int)getpid());
    setenv("TRIREME_STATE", prefix, 1);
    EXPECT_OK(tr_policy_parse(&policy, "sync"));
    tr_server_program *sp = program_of(&store, &n, &setup, "sync");
    const tr_update    first = {.number = 1, .grad = grads};
    EXPECT_OK(tr_server_program_run(sp, &first));
    store.commit(sp, &commit, true);
    expect_w(&store, 0, 0);
    tr_server_program_free(sp);

    sp = tr_server_program_new(NULL, &applied);
    store = tr_server_store(sp, &PART);
    assert_true(store.last_commit(sp, &commit, &packed, &bytes));
    assert_int_equal(commit.updates, 1);
    EXPECT_OK(store.setup(sp, setup, &policy, "", 1, true));
    store.go_back(sp, NULL);
    EXPECT_OK(store.ready(sp));
    expect_w(&store, 1, 2);
    EXPECT_OK(tr_server_program_run(sp, &first));
    store.commit(sp, &(tr_commit){.updates = 1, .settled = &settled, .trainer = &flags, .start = 2}, true);
    expect_w(&store, 0, 0);

    tr_server_program_over(sp);
    tr_server_program_free(sp);
    unsetenv("TRIREME_STATE");
    free(prefix);
    free(setup->program.data);
    net_deinit(&n);
}

/* A standby of any kind, which is no trireme-pserver, too. */
TEST(who_becomes_a_server_has_the_threads_of_servers)
{
    const Trireme__Pserver__Setup *setup;
    tr_store                       store;
    net                            n;

    setenv("TRIREME_SERVER_THREADS", "3", 1);
    tr_server_program *sp = program_of(&store, &n, &setup, "sync");
    assert_int_equal(tr_num_threads(), 3);
    unsetenv("TRIREME_SERVER_THREADS");
    tr_set_num_threads(0);
    tr_server_program_free(sp);
    free(setup->program.data);
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_value_counts_with_its_update_and_not_before),
        cmocka_unit_test(a_process_undoes_the_last_update_of_an_earlier_one_before_it_is_ready),
        cmocka_unit_test(who_becomes_a_server_has_the_threads_of_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
