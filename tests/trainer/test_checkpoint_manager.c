/* test_checkpoint_manager.c - the checkpoints of one process: steps until one, going on from it, and functions of the caller that fail. */
#include "tests/support/expect.h"

#include "trainer/checkpoints/checkpoint_manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct training {
    tr_program            *program;
    tr_scope              *scope;
    tr_checkpoint_manager *manager;
    bool                   position_fails;
    int                    digests;
} training;

static char folder[64];

static tr_status position(const void **bytes, size_t *size, void *payload)
{
    *bytes = "line 7";
    *size = 6;
    return ((training *)payload)->position_fails ? TR_EINTERNAL : TR_OK;
}

static tr_status digest(const char **text, void *payload)
{
    ((training *)payload)->digests++;
    *text = "d1";
    return TR_OK;
}

static char said[256];                                     /* the last line for the user */

static void note_words(const char *text, bool is_warning, void *payload)
{
    (void)is_warning, (void)payload;
    snprintf(said, sizeof said, "%s", text);
}

static const tr_checkpoint_variable W = {.name = "w", .kind = TR_STATE_PARAMETER};

/* A program with one parameter of `rows` rows, and a training of it. */
static void begin(training *t, int64_t rows, tr_checkpoint_entry entry)
{
    const tr_checkpoint_options options = {
        .folder = folder, .every_steps = 2, .keep = 3, .resume = entry == TR_ENTRY_RESUME, .entry = entry};
    const tr_checkpoint_contents contents = {.program = t->program = tr_program_new(), .scope = t->scope = tr_scope_new(NULL), .count = 1,
                                             .variables = &W, .position = position, .digest = digest, .say = note_words, .payload = t};

    assert_int_equal(tr_block_declare_var(tr_program_block(t->program, 0), "w", TR_KIND_TENSOR, TR_FP32, 1, &rows, true), TR_OK);
    assert_int_equal(tr_tensor_resize(tr_var_tensor(tr_scope_var(t->scope, "w")), TR_FP32, 1, &rows), TR_OK);
    memset(tr_tensor_data(tr_var_tensor(tr_scope_var(t->scope, "w"))), 0, (size_t)rows * 4);
    t->manager = tr_checkpoint_manager_new(&options, NULL);
    assert_int_equal(tr_checkpoint_manager_begin(t->manager, &contents), TR_OK);
}

static void end(training *t)
{
    tr_checkpoint_manager_free(t->manager);
    tr_scope_free(t->scope);
    tr_program_free(t->program);
    *t = (training){0};
}

static float *values_of(training *t)
{
    return tr_tensor_data(tr_var_tensor(tr_scope_find(t->scope, "w")));
}

static int64_t newest(void)
{
    int64_t step = -1;

    tr_checkpoint_list(&step, 1, folder);
    return step;
}

static tr_status make_step(training *t)
{
    bool            stops;
    const tr_status status = tr_checkpoint_manager_begin_step(&stops, t->manager);

    values_of(t)[0] += 1;
    return status;
}

TEST(a_training_goes_on_where_its_checkpoint_was_made)
{
    training                t = {0};
    tr_checkpoint_beginning from;

    begin(&t, 3, TR_ENTRY_BEGIN);
    for (int i = 0; i < 3; i++)                        /* the third step begins with the checkpoint of the second */
        assert_int_equal(make_step(&t), TR_OK);
    assert_int_equal(newest(), 2);
    assert_int_equal(tr_checkpoint_manager_end(t.manager, 0), TR_OK);
    assert_int_equal(newest(), 3);
    assert_int_equal(t.digests, 1);
    end(&t);
    begin(&t, 3, TR_ENTRY_RESUME);
    assert_int_equal(tr_checkpoint_manager_find(&from, t.manager), TR_OK);
    assert_int_equal(from.origin, TR_ORIGIN_CHECKPOINT);
    assert_memory_equal(from.position, "line 7", from.position_size);
    assert_int_equal(tr_checkpoint_manager_load(t.manager), TR_OK);
    assert_int_equal(tr_checkpoint_manager_steps(t.manager), 3);
    assert_true(values_of(&t)[0] == 3);
    end(&t);
}

TEST(a_value_that_does_not_fit_changes_nothing)
{
    training t = {0};

    begin(&t, 4, TR_ENTRY_RESUME);
    EXPECT_FAIL(TR_ESHAPE, "the program wants [4]", tr_checkpoint_manager_load(t.manager));
    assert_true(values_of(&t)[0] == 0);
    end(&t);
}

TEST(the_failure_of_a_position_is_the_callers)
{
    training t = {0};

    begin(&t, 3, TR_ENTRY_RESUME);
    assert_int_equal(tr_checkpoint_manager_load(t.manager), TR_OK);
    assert_int_equal(make_step(&t), TR_OK);
    t.position_fails = true;
    assert_int_equal(make_step(&t), TR_EINTERNAL);     /* a checkpoint is due after step 4 */
    t.position_fails = false;
    assert_int_equal(tr_checkpoint_manager_steps(t.manager), 4);
    assert_int_equal(make_step(&t), TR_OK);
    assert_int_equal(newest(), 4);
    end(&t);
}

TEST(a_training_that_goes_on_says_so_and_begins_where_it_may_in_an_empty_folder)
{
    const tr_checkpoint_contents contents = {.say = note_words};
    char                         empty[64];

    snprintf(empty, sizeof empty, "%s/none", folder);
    for (int must = 1; must >= 0; must--) {
        tr_checkpoint_manager *manager = tr_checkpoint_manager_new(
            &(tr_checkpoint_options){.folder = empty, .resume = true, .needs_one = must, .entry = TR_ENTRY_RESUME_SCRIPT}, NULL);
        said[0] = '\0';
        const tr_status status = tr_checkpoint_manager_begin(manager, &contents);
        assert_int_equal(status, must ? TR_ENOTFOUND : TR_OK);
        assert_non_null(strstr(must ? tr_error() : said, "holds no checkpoint"));
        assert_int_equal(access(empty, F_OK), must ? -1 : 0);      /* a refused training leaves nothing there */
        tr_checkpoint_manager_free(manager);
    }
    training t;
    begin(&t, 2, TR_ENTRY_RESUME);
    assert_non_null(strstr(said, "going on from step 4"));
    end(&t);
}

TEST(without_a_folder_steps_are_counted)
{
    bool                         stops;
    const tr_checkpoint_options  options = {0};
    const tr_checkpoint_contents contents = {0};
    tr_checkpoint_manager       *manager = tr_checkpoint_manager_new(&options, NULL);

    assert_int_equal(tr_checkpoint_manager_begin(manager, &contents), TR_OK);
    assert_int_equal(tr_checkpoint_manager_begin_step(&stops, manager), TR_OK);
    assert_int_equal(tr_checkpoint_manager_begin_loop(manager, 0), TR_OK);
    tr_checkpoint_manager_count(manager, 5);
    assert_int_equal(tr_checkpoint_manager_look(&stops, manager), TR_OK);
    tr_checkpoint_manager_count_idle(manager, 2);
    tr_checkpoint_manager_retract(manager, true);
    assert_int_equal(tr_checkpoint_manager_steps(manager), 7);
    assert_int_equal(tr_checkpoint_manager_end(manager, 0), TR_OK);
    tr_checkpoint_manager_free(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_goes_on_where_its_checkpoint_was_made),
        cmocka_unit_test(a_value_that_does_not_fit_changes_nothing),
        cmocka_unit_test(the_failure_of_a_position_is_the_callers),
        cmocka_unit_test(a_training_that_goes_on_says_so_and_begins_where_it_may_in_an_empty_folder),
        cmocka_unit_test(without_a_folder_steps_are_counted),
    };
    char command[96];

    strcpy(folder, "/tmp/trireme-checkpoints-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) || failed;
}
