/* test_changing_feeds.c - what is fed as integers or flags is read once, when a run begins: the array may change while operators run.
 *
 * So are offsets of sequences. Floats stay the caller's memory: another thread may give an operator any values, and it must neither read
 * nor write elsewhere, whatever it sees.
 *
 * The cases are those of tests/fuzz/corpus/run. A function that the program calls first (py_func) spoils the fed arrays, as another thread
 * of the caller may at any moment. Every operator must then compute what it computes from the right numbers. Each slot that takes numbers,
 * or sequences, is fed in some case. */
#include "tests/support/expect.h"

#include "framework/base/memory.h"
#include "framework/operators/op_registry.h"
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

/* A case of an operator's own test feeds through `assign`, which copies: feed what it makes. */
static void feed_directly(run_case *c)
{
    tr_block *block = tr_program_block(c->program, 0);

    for (int v = 0; v < c->value_count; v++) {
        const tr_op_desc *op = tr_block_op_count(block) > 0 ? tr_block_op_at(block, 0) : NULL;
        if (!op || strcmp(tr_op_desc_type(op), "assign") != 0 || strcmp(tr_op_desc_input(op, "X", 0), c->value[v].name) != 0)
            return;
        free(c->value[v].name);
        c->value[v].name = tr__must_strdup(tr_op_desc_output(op, "Out", 0));
        tr_block_remove_op(block, 0);
    }
}

/* What the scope has is fed, too, unless it must persist. How many of the values are spoiled? */
static int feed_all(run_case *c)
{
    tr_block *block = tr_program_block(c->program, 0);
    int       spoiled = 0;

    feed_directly(c);
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

static const char *case_name;                     /* of the case that is tried */

static void each_case(void (*action)(run_case *c, void *payload), void *payload)
{
    struct dirent **entry;
    const int       count = scandir(FOLDER, &entry, is_file, alphasort);

    for (int i = 0; i < count; i++) {
        char     path[512];
        size_t   size;
        run_case c;
        snprintf(path, sizeof path, "%s/%s", FOLDER, entry[i]->d_name);
        uint8_t *bytes = test_read_file(&size, path);
        case_name = entry[i]->d_name;
        if (run_case_read(&c, bytes, size)) {
            action(&c, payload);
            run_case_deinit(&c);
        }
        free(bytes);
        free(entry[i]);
    }
    free(entry);
}

typedef struct tally {
    int tried, wrong;
} tally;

static void try_case(run_case *c, void *payload)
{
    tally *t = payload;

    if (feed_all(c) == 0)
        return;
    t->tried++;
    if (!holds(c)) {
        fprintf(stderr, "%s: %s\n", case_name, *tr_error() ? tr_error() : "other results");
        t->wrong++;
    }
}

TEST(no_operator_reads_numbers_that_change_while_it_runs)
{
    tally t = {0};

    tr_set_num_threads(1);
    tr_set_call_fn(spoil);
    each_case(try_case, &t);
    tr_set_call_fn(NULL);
    assert_true(t.tried > 100);
    assert_int_equal(t.wrong, 0);
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

static void run_beside_scribbling(run_case *c, void *payload)
{
    run_place place;
    scribble  s = {.c = c};

    (void)payload;
    if (has_loop(c))
        return;
    fprintf(stderr, "%s\n", case_name);                   /* which one it is where a run does not return */
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
    tr_set_num_threads(1);
    each_case(run_beside_scribbling, NULL);
}

/* -- what the corpus feeds ----------------------------------------------------------------------------- */

/* "gather Index": an operator and a slot of it that some case feeds with numbers, or offsets. */
typedef struct fed_slots {
    int   count;
    char *name[8192];
} fed_slots;

static bool is_of(const run_value *value, const tr_op_desc *op, const char *slot)
{
    for (int k = 0; k < tr_op_desc_input_count(op, slot); k++)
        if (strcmp(value->name, tr_op_desc_input(op, slot, k)) == 0)
            return true;
    return false;
}

static void note(fed_slots *fed, const run_value *value, const tr_block *block, const char *what)
{
    for (int i = 0; i < tr_block_op_count(block); i++) {
        const tr_op_desc *op = tr_block_op_at((tr_block *)(uintptr_t)block, i);
        for (int s = 0; s < tr_op_desc_input_slots(op); s++)
            if (is_of(value, op, tr_op_desc_input_slot(op, s))) {
                assert_true(fed->count < 8192);
                assert_true(asprintf(&fed->name[fed->count++], "%s of %s %s", what, tr_op_desc_type(op), tr_op_desc_input_slot(op, s)) > 0);
            }
    }
}

static void note_case(run_case *c, void *payload)
{
    feed_all(c);
    for (int v = 0; v < c->value_count; v++)
        for (int b = 0; b < tr_program_block_count(c->program); b++) {
            if (is_spoiled(&c->value[v]))
                note(payload, &c->value[v], tr_program_block(c->program, b), "numbers");
            if (has_offsets(&c->value[v]))
                note(payload, &c->value[v], tr_program_block(c->program, b), "offsets");
        }
}

static bool is_noted(const fed_slots *fed, const char *what, const char *type, const char *slot)
{
    char name[300];
    bool found = false;

    snprintf(name, sizeof name, "%s of %s %s", what, type, slot);
    for (int i = 0; i < fed->count && !found; i++)
        found = strcmp(fed->name[i], name) == 0;
    return found;
}

/* A gradient operator's input that the forward operator makes: nobody feeds it. */
static bool is_made(const tr_op *op, const char *slot)
{
    char type[128];

    snprintf(type, sizeof type, "%.*s", (int)(strlen(tr_op_type(op)) - strlen("_grad")), tr_op_type(op));
    const tr_op *forward = strstr(tr_op_type(op), "_grad") ? tr_op_find(type) : NULL;
    for (const tr_slot_def *out = forward ? tr__op_proto(forward)->out : NULL; out && out->name; out++)
        if (strcmp(out->name, slot) == 0)
            return true;
    return false;
}

static bool says(const tr_slot_def *slot, const char *word) { return strstr(slot->comment, word) != NULL; }

TEST(each_slot_of_numbers_is_fed_in_some_case)
{
    fed_slots *fed = calloc(1, sizeof *fed);
    int        missing = 0;

    each_case(note_case, fed);
    for (int i = 0; i < tr_op_count(); i++)
        for (const tr_slot_def *slot = tr__op_proto(tr_op_at(i))->in; slot && slot->name; slot++) {
            const bool is_numbers = (slot->flags & TR_SLOT_ANY_TYPE) && (says(slot, "int32") || says(slot, "int64") || says(slot, "bool"));
            const char *what = is_numbers ? "numbers" : "offsets";
            if ((!is_numbers && !says(slot, "of sequences")) || is_made(tr_op_at(i), slot->name) ||
                is_noted(fed, what, tr_op_type(tr_op_at(i)), slot->name))
                continue;
            fprintf(stderr, "no case of %s feeds %s of %s: %s\n", tr_op_type(tr_op_at(i)), what, slot->name, slot->comment);
            missing++;
        }
    for (int i = 0; i < fed->count; i++)
        free(fed->name[i]);
    free(fed);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_of_numbers_is_fed_in_some_case),
        cmocka_unit_test(no_operator_reads_numbers_that_change_while_it_runs),
        cmocka_unit_test(no_operator_reaches_elsewhere_while_another_thread_writes_what_is_fed),
    };

    return tr_init() == TR_OK ? cmocka_run_group_tests(tests, NULL, NULL) : EXIT_FAILURE;
}
