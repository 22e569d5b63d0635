/* test_loop.c - a loop over data with a checkpoint manager: checkpoints at the steps that were asked for, whatever the number of workers,
 * and a signal that asks for the end. */
#include "tests/support/expect.h"

#include "trainer/checkpoints/stop_signal.h"
#include "trainer/trireme_trainer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, EVERY = 4 };

typedef struct training {
    char                   folder[64];
    tr_program            *program;
    tr_scope              *scope;
    tr_dataset            *data;
    tr_checkpoint_manager *manager;
    tr_loop               *loop;
} training;

static const tr_checkpoint_variable W = {.name = "w", .kind = TR_STATE_PARAMETER};

static void no_words(const char *text, bool is_warning, void *payload)
{
    (void)text, (void)is_warning, (void)payload;
}

static void make_program(training *t)
{
    const int64_t      rows[] = {-1, 1}, one[] = {1};
    const char *const  x[] = {"x"}, *const y[] = {"y"};
    tr_block          *block = tr_program_block(t->program = tr_program_new(), 0);
    tr_op_desc        *op = tr_op_desc_new("scale");

    EXPECT_OK(tr_init());
    EXPECT_OK(tr_block_declare_var(block, "x", TR_KIND_TENSOR, TR_FP32, 2, rows, false));
    EXPECT_OK(tr_block_declare_var(block, "y", TR_KIND_TENSOR, TR_FP32, 2, rows, false));
    EXPECT_OK(tr_block_declare_var(block, "w", TR_KIND_TENSOR, TR_FP32, 1, one, true));
    tr_op_desc_set_input(op, "X", 1, x);
    tr_op_desc_set_output(op, "Out", 1, y);
    EXPECT_OK(tr_block_insert_op(block, -1, op));
    t->scope = tr_scope_new(NULL);
    EXPECT_OK(tr_tensor_resize(tr_var_tensor(tr_scope_var(t->scope, "w")), TR_FP32, 1, one));
    memset(tr_tensor_data(tr_var_tensor(tr_scope_find(t->scope, "w"))), 0, sizeof(float));
}

static void make_data(training *t)
{
    static const int64_t      dims[] = {-1, 1};
    static const tr_data_slot slots[] = {{.name = "x", .dtype = TR_FP32, .rank = 2, .dims = dims}};
    const char *const         path = test_path("lines");
    FILE                     *out = fopen(path, "w");
    const tr_data_spec        spec = {
        .format = TR_DATA_MULTISLOT, .slot_count = 1, .slots = slots, .file_count = 1, .files = &path, .batch_size = 1};

    assert_non_null(out);
    for (int i = 0; i < STEPS; i++)
        fprintf(out, "1 %d\n", i);
    fclose(out);
    EXPECT_OK(tr_dataset_new(&t->data, &spec));
}

static void begin(training *t, int threads)
{
    strcpy(t->folder, "/tmp/trireme-loop-XXXXXX");
    assert_non_null(mkdtemp(t->folder));
    make_program(t);
    make_data(t);
    const tr_checkpoint_options  options = {.folder = t->folder, .every_steps = EVERY, .entry = TR_ENTRY_BEGIN};
    const tr_checkpoint_contents contents = {.program = t->program, .scope = t->scope, .count = 1, .variables = &W, .say = no_words};
    t->manager = tr_checkpoint_manager_new(&options, NULL);
    EXPECT_OK(tr_checkpoint_manager_begin(t->manager, &contents));
    EXPECT_OK(tr_loop_new(&t->loop, t->program, t->scope, t->data, &(tr_loop_options){.threads = threads, .manager = t->manager}));
}

static void end(training *t)
{
    char command[96];

    tr_loop_free(t->loop);
    tr_checkpoint_manager_free(t->manager);
    tr_dataset_free(t->data);
    tr_scope_free(t->scope);
    tr_program_free(t->program);
    snprintf(command, sizeof command, "rm -r %s", t->folder);
    assert_int_equal(system(command), 0);
}

/* A call returns long before the next checkpoint is due, as where steps are slow. */
static void a_checkpoint_is_made_after_each_number_of_steps(int threads)
{
    training       t = {0};
    tr_loop_report report = {0};
    int64_t        steps[STEPS];

    begin(&t, threads);
    while (!report.is_at_end)
        EXPECT_OK(tr_loop_run(t.loop, 0, &report));
    assert_int_equal(report.step, STEPS);
    assert_int_equal(tr_checkpoint_manager_steps(t.manager), STEPS);
    EXPECT_OK(tr_checkpoint_manager_end(t.manager, 0));
    assert_int_equal(tr_checkpoint_list(steps, STEPS, t.folder), STEPS / EVERY);
    for (int i = 0; i < STEPS / EVERY; i++)
        assert_int_equal(steps[i] % EVERY, 0);
    end(&t);
}

TEST(a_lone_worker_makes_a_checkpoint_after_each_number_of_steps)
{
    a_checkpoint_is_made_after_each_number_of_steps(1);
}

TEST(several_workers_make_a_checkpoint_after_each_number_of_steps)
{
    a_checkpoint_is_made_after_each_number_of_steps(3);
}

TEST(a_callers_pause_is_not_a_look_of_the_manager)
{
    training       t = {0};
    tr_loop_report report = {0};

    begin(&t, 1);
    tr_loop_pause_at(t.loop, EVERY + 1);
    while (!report.is_paused)
        EXPECT_OK(tr_loop_run(t.loop, 10, &report));
    assert_int_equal(report.step, EVERY + 1);
    end(&t);
}

/* The last test: the signal stays noted. */
TEST(a_signal_ends_the_loop_with_a_checkpoint)
{
    training       t = {0};
    tr_loop_report report = {0};
    int64_t        step;

    begin(&t, 1);
    tr_loop_pause_at(t.loop, 3);
    while (!report.is_paused)
        EXPECT_OK(tr_loop_run(t.loop, 10, &report));
    assert_false(report.is_stopped);
    tr_stop_signal_listen();
    raise(SIGUSR1);
    tr_loop_pause_at(t.loop, 0);
    EXPECT_OK(tr_loop_run(t.loop, 10, &report));
    assert_true(report.is_stopped && report.step == 3);
    assert_true(tr_checkpoint_list(&step, 1, t.folder) == 1 && step == 3);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_worker_makes_a_checkpoint_after_each_number_of_steps),
        cmocka_unit_test(several_workers_make_a_checkpoint_after_each_number_of_steps),
        cmocka_unit_test(a_callers_pause_is_not_a_look_of_the_manager),
        cmocka_unit_test(a_signal_ends_the_loop_with_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
