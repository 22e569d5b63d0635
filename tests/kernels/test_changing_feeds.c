/* test_changing_feeds.c - what is fed as integers or flags is read once, when a run begins: the array may change while operators run.
 *
 * So are offsets of sequences. Floats stay the caller's memory: another thread may give an operator any values, and it must neither read nor write
 * elsewhere, whatever it sees.
 *
 * The cases are those of tests/fuzz/corpus/run. A function that the program calls first (py_func) spoils the fed arrays, as another thread of
 * the caller may at any moment. Every operator must then compute what it computes from the right numbers. */
#include "tests/support/expect.h"

#include "framework/tensors/tensor.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/run_case.h"

#define FOLDER "tests/fuzz/corpus/run"

/* -- spoiling ----------------------------------------------------------------------------------- */

static run_case *shown;                           /* whose values the function spoils */

static bool is_spoiled(const run_value *value)
{
    const tr_dtype dtype = value->tensor.dtype;

    return value->is_fed && (dtype == TR_INT64 || dtype == TR_INT32 || dtype == TR_BOOL) && tr_tensor_count(&value->tensor) > 0;
}

static bool has_offsets(const run_value *value)
{
    return value->is_fed && tr_tensor_lod_levels(&value->tensor) > 0;
}

/* Write numbers that are no rows of anything. */
static tr_status spoil(tr_call *call)
{
    (void)call;
    for (int i = 0; i < shown->value_count; i++) {
        tr_tensor *tensor = &shown->value[i].tensor;
        if (is_spoiled(&shown->value[i]))
            memset(tensor->data, tensor->dtype == TR_BOOL ? 1 : 0x77, (size_t)tr_tensor_bytes(tensor));
        for (int l = 0; has_offsets(&shown->value[i]) && l < tr_tensor_lod_levels(tensor); l++)
            memset((void *)(uintptr_t)tr_tensor_lod_offsets(tensor, l), 0x77, (size_t)tr_tensor_lod_count(tensor, l) * sizeof(int64_t));
    }
    return TR_OK;
}

/* -- runs ------------------------------------------------------------------------------------------ */

/* What the scope has is fed, too, unless it must persist. How many of the values are spoiled? */
static int feed_all(run_case *c)
{
    tr_block *block = tr_program_block(c->program, 0);
    int       spoiled = 0;

    for (int i = 0; i < c->value_count; i++) {
        const tr_var_desc *desc = tr_block_find_var(block, c->value[i].name);
        c->value[i].is_fed = c->value[i].is_fed || (desc && !tr_var_desc_persistable(desc) && !c->value[i].tensor.rows);
        spoiled += is_spoiled(&c->value[i]) || has_offsets(&c->value[i]);
    }
    return spoiled;
}

static void spoil_first(run_case *c)
{
    tr_op_desc *op = tr_op_desc_new("py_func");

    tr_op_desc_set_int(op, "forward_callable_id", 0, TR_ATTR_INT);
    EXPECT_OK(tr_block_insert_op(tr_program_block(c->program, 0), 0, op));
    shown = c;
}

static bool same(const tr_tensor *a, const tr_tensor *b)
{
    return a->dtype == b->dtype && tr_tensor_bytes(a) == tr_tensor_bytes(b) && memcmp(a->data, b->data, (size_t)tr_tensor_bytes(a)) == 0;
}

/* False: it makes something else, or fails. */
static bool holds(run_case *c)
{
    run_place usual, spoiled;
    bool      ok = true;

    run_place_init(&usual, c);
    run_place_init(&spoiled, c);
    if (run_place_run(&usual, c) == TR_OK) {
        spoil_first(c);
        ok = run_place_run(&spoiled, c) == TR_OK;
        for (int f = 0; ok && f < c->fetch_count; f++)
            ok = same(usual.result[f], spoiled.result[f]);
    }
    run_place_deinit(&usual, c);
    run_place_deinit(&spoiled, c);
    return ok;
}

static int is_file(const struct dirent *e) { return e->d_name[0] != '.'; }

TEST(no_operator_reads_numbers_that_change_while_it_runs)
{
    struct dirent **entry;
    const int       count = scandir(FOLDER, &entry, is_file, alphasort);
    int             tried = 0, wrong = 0;

    tr_set_num_threads(1);
    tr_set_call_fn(spoil);
    for (int i = 0; i < count; i++) {
        char     path[512];
        size_t   size;
        run_case c;
        snprintf(path, sizeof path, "%s/%s", FOLDER, entry[i]->d_name);
        uint8_t *bytes = test_read_file(&size, path);
        if (run_case_read(&c, bytes, size)) {
            if (feed_all(&c) > 0) {
                tried++;
                if (!holds(&c)) {
                    fprintf(stderr, "%s: %s\n", entry[i]->d_name, *tr_error() ? tr_error() : "other results");
                    wrong++;
                }
            }
            run_case_deinit(&c);
        }
        free(bytes);
        free(entry[i]);
    }
    free(entry);
    tr_set_call_fn(NULL);
    assert_true(tried > 100);
    assert_int_equal(wrong, 0);
}

/* -- another thread --------------------------------------------------------------------------------- */

typedef struct scribble {
    run_case   *c;
    pthread_t   thread;
    atomic_uint turns;
    atomic_bool is_over;
} scribble;

/* Numbers of every kind. As a size none of them is more than 9 or fits into memory: a run is short. */
static void scribble_over(tr_tensor *tensor, unsigned turn)
{
    static const uint32_t f32[] = {0x7fc00000, 0x7f800000, 0xff7fffff, 0x00000001, 0x5f000000, 0xbf800000};
    static const int64_t  i64[] = {-1, 0, 1, 9, INT64_MAX / 2, INT64_MIN / 2};
    static const int32_t  i32[] = {-1, 0, 1, 9, INT32_MIN, INT32_MIN / 2};
    const int64_t         bytes = tr_tensor_bytes(tensor);

    if (tensor->dtype == TR_INT64)
        for (int64_t i = 0; i < bytes / 8; i++)
            __atomic_store_n((int64_t *)tensor->data + i, i64[(turn + i) % 6], __ATOMIC_RELAXED);
    else if (tensor->dtype == TR_INT32)
        for (int64_t i = 0; i < bytes / 4; i++)
            __atomic_store_n((int32_t *)tensor->data + i, i32[(turn + i) % 6], __ATOMIC_RELAXED);
    else if (tensor->dtype == TR_BOOL)
        for (int64_t i = 0; i < bytes; i++)
            __atomic_store_n((uint8_t *)tensor->data + i, (turn + i) % 2, __ATOMIC_RELAXED);
    else
        for (int64_t i = 0; i < bytes / 4; i++)
            __atomic_store_n((uint32_t *)tensor->data + i, f32[(turn + i) % 6], __ATOMIC_RELAXED);
}

static void scribble_over_offsets(tr_tensor *tensor, unsigned turn)
{
    for (int l = 0; l < tr_tensor_lod_levels(tensor); l++)
        __atomic_store_n((int64_t *)(uintptr_t)tr_tensor_lod_offsets(tensor, l) + turn % tr_tensor_lod_count(tensor, l),
                         turn % 3 ? (int64_t)turn % 5 : INT64_MAX / 2, __ATOMIC_RELAXED);
}

static void *scribble_on(void *payload)
{
    scribble *s = payload;

    for (unsigned turn = 0; !atomic_load(&s->is_over); turn++) {
        for (int i = 0; i < s->c->value_count; i++)
            if (s->c->value[i].is_fed) {
                scribble_over(&s->c->value[i].tensor, turn);
                scribble_over_offsets(&s->c->value[i].tensor, turn);
            }
        atomic_store(&s->turns, turn + 1);
    }
    return NULL;
}

/* A loop may be told to go on for ever. */
static bool has_loop(const run_case *c)
{
    tr_block *block = tr_program_block(c->program, 0);
    bool      found = false;

    for (int i = 0; i < tr_block_op_count(block); i++)
        found = found || strncmp(tr_op_desc_type(tr_block_op_at(block, i)), "while", 5) == 0;
    return found;
}

enum { RUNS = 20 };

static void run_beside_scribbling(run_case *c)
{
    run_place place;
    scribble  s = {.c = c};

    feed_all(c);
    run_place_init(&place, c);
    assert_int_equal(pthread_create(&s.thread, NULL, scribble_on, &s), 0);
    while (atomic_load(&s.turns) == 0)
        sched_yield();
    for (int k = 0; k < RUNS; k++)
        (void)run_place_run(&place, c);          /* any result, or an error */
    atomic_store(&s.is_over, true);
    pthread_join(s.thread, NULL);
    run_place_deinit(&place, c);
}

TEST(no_operator_reaches_elsewhere_while_another_thread_writes_what_is_fed)
{
    struct dirent **entry;
    const int       count = scandir(FOLDER, &entry, is_file, alphasort);

    tr_set_num_threads(1);
    for (int i = 0; i < count; i++) {
        char     path[512];
        size_t   size;
        run_case c;
        snprintf(path, sizeof path, "%s/%s", FOLDER, entry[i]->d_name);
        uint8_t *bytes = test_read_file(&size, path);
        if (run_case_read(&c, bytes, size)) {
            fprintf(stderr, "%s\n", entry[i]->d_name);      /* which one it is where a run does not return */
            if (!has_loop(&c))
                run_beside_scribbling(&c);
            run_case_deinit(&c);
        }
        free(bytes);
        free(entry[i]);
    }
    free(entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_operator_reads_numbers_that_change_while_it_runs),
        cmocka_unit_test(no_operator_reaches_elsewhere_while_another_thread_writes_what_is_fed),
    };

    return tr_init() == TR_OK ? cmocka_run_group_tests(tests, NULL, NULL) : EXIT_FAILURE;
}
