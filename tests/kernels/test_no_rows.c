/* test_no_rows.c - every operator and every gradient operator on inputs without rows.
 *
 * The cases are those of tests/fuzz/corpus/run. Any set of a case's values is cut: to no rows and no sequences, to sequences that are all
 * empty, or to sequences of which the first is empty. A run that is not refused must then
 *   - make no NaN and no infinity, except for a mean of nothing, which is NaN as in NumPy;
 *   - make the same bits in fresh memory, in memory with other contents, and after a run with rows: all that it gives is of this run;
 *   - give gradients of 0 where all gradients that come in have no elements.
 * The sanitizers look for accesses that are out of bounds. */
#include "tests/support/expect.h"

#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>

#include "framework/operators/op_registry.h"
#include "framework/tensors/tensor_finite.h"
#include "tests/support/run_case.h"

#define FOLDER "tests/fuzz/corpus/run"

enum { MAX_FILES = 4096, MAX_CUT_VALUES = 10 };

/* NO_ROWS_AT_ALL leaves no sequences either. */
typedef enum cut_how { NO_ROWS_AT_ALL, ALL_EMPTY, FIRST_EMPTY, HOW_COUNT } cut_how;

static const char *const how_name[] = {"no rows", "all sequences empty", "the first sequence empty"};

/* Operators that have no case without rows, and why. */
static const char *const left_out[][2] = {
    {"affine_grid", "an attribute says how many images there are"},
    {"affine_grid_grad", "the same"},
    {"crop", "an attribute says how many rows it takes"},
    {"crop_grad", "the same"},
    {"linspace", "its inputs have one element"},
    {"load", "it reads a file"},
    {"load_combine", "the same"},
    {"lod_tensor_to_array_grad", "its input is an array, which has no file"},
    {"pad_grad", "its attribute adds rows"},
    {"py_func", "it calls a function of Python"},
    {"range", "its inputs have one element"},
    {"read_from_array", "its input is an array, which has no file"},
    {"save", "it writes a file"},
    {"save_combine", "the same"},
    {"split_byref", "an attribute says how many rows there are"},
    {"split_byref_grad", "the same"},
    {"transpose2_grad", "the rows of its gradient are another dimension"},
    {"unstack", "it has as many outputs as rows"},
};

/* -- cutting ------------------------------------------------------------------------------------ */

static int64_t rows_of(const tr_tensor *value) { return value->shape.rank > 0 ? value->shape.dim[0] : 0; }

/* The rows of the first sequence. */
static int64_t first_length(const tr_tensor *value)
{
    const int      level = tr_tensor_lod_levels(value) - 1;
    const int64_t *offset = tr_tensor_lod_offsets(value, level);

    return level >= 0 && tr_tensor_lod_count(value, level) > 1 ? offset[1] - offset[0] : 0;
}

static void cut_lod(tr_tensor *value, cut_how how, int64_t first)
{
    static int64_t offset[8][4096];
    int64_t        count[8];
    const int64_t *level[8];
    const int      levels = tr_tensor_lod_levels(value);

    for (int l = 0; l < levels; l++) {
        const int64_t *from = tr_tensor_lod_offsets(value, l);
        count[l] = how == NO_ROWS_AT_ALL ? 1 : tr_tensor_lod_count(value, l);
        assert_true(count[l] <= 4096);
        for (int64_t k = 0; k < count[l]; k++)
            offset[l][k] = how == NO_ROWS_AT_ALL ? 0 : l < levels - 1 ? from[k] : how == ALL_EMPTY || k == 0 ? 0 : from[k] - first;
        level[l] = offset[l];
    }
    EXPECT_OK(tr_tensor_set_lod(value, levels, count, level));
}

/* Without the first rows; `gone` for a value without sequences. */
static void cut(tr_tensor *value, cut_how how, int64_t gone)
{
    const int     levels = tr_tensor_lod_levels(value);
    const int64_t first = levels > 0 ? first_length(value) : gone;
    const int64_t left = how == FIRST_EMPTY && rows_of(value) > first ? rows_of(value) - first : 0;
    const int64_t bytes = rows_of(value) > 0 ? tr_tensor_bytes(value) / rows_of(value) : 0;

    memmove(value->data, (char *)value->data + (rows_of(value) - left) * bytes, (size_t)(left * bytes));
    value->shape.dim[0] = left;
    if (value->rows)
        EXPECT_OK(tr_tensor_set_rows(value, value->rows->height, left, value->rows->index));
    if (levels > 0)
        cut_lod(value, how, first);
}

/* The rows that FIRST_EMPTY takes away. */
static int64_t gone_from(const run_case *c, unsigned set)
{
    for (int i = 0; i < c->value_count; i++)
        if (set >> i & 1 && tr_tensor_lod_levels(&c->value[i].tensor) > 0)
            return first_length(&c->value[i].tensor);
    return 0;
}

static bool can_cut(const run_case *c, unsigned set, cut_how how)
{
    bool has_lod = false;

    for (int i = 0; i < c->value_count; i++) {
        if (set >> i & 1 && rows_of(&c->value[i].tensor) == 0)
            return false;
        has_lod = has_lod || (set >> i & 1 && tr_tensor_lod_levels(&c->value[i].tensor) > 0);
    }
    return how == NO_ROWS_AT_ALL || has_lod;
}

/* -- looking ------------------------------------------------------------------------------------ */

static bool is_gradient(const char *name)
{
    return strstr(name, "@GRAD") != NULL;
}

/* What a test has fed as the gradient of a result. */
static bool is_weight(const char *name)
{
    return strstr(name, "weight") != NULL;
}

static bool has_op(const run_case *c, const char *type)
{
    tr_block *block = tr_program_block(c->program, 0);

    for (int i = 0; i < tr_block_op_count(block); i++)
        if (strcmp(tr_op_desc_type(tr_block_op_at(block, i)), type) == 0)
            return true;
    return false;
}

/* The loss of no samples: one number. */
static bool may_be_nan(const run_case *c, int fetch, const tr_tensor *got)
{
    return !is_gradient(c->fetch[fetch]) && tr_tensor_numel(got) == 1 && has_op(c, "mean");
}

static bool same(const tr_tensor *a, const tr_tensor *b)
{
    return a->dtype == b->dtype && tr_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->data, b->data, (size_t)tr_tensor_bytes(a)) == 0;
}

static bool is_zero(const tr_tensor *tensor)
{
    const int64_t n = tr_tensor_numel(tensor);

    for (int64_t i = 0; i < n; i++)
        if (tensor->dtype == TR_FP32 ? ((const float *)tensor->data)[i] != 0
                                     : tensor->dtype == TR_FP64 && ((const double *)tensor->data)[i] != 0)
            return false;
    return true;
}

static void describe(const char *file, const run_case *c, unsigned set, cut_how how, int fetch, const char *what)
{
    fprintf(stderr, "%s: '%s' %s; cut (%s):", file, c->fetch[fetch], what, how_name[how]);
    for (int i = 0; i < c->value_count; i++)
        if (set >> i & 1)
            fprintf(stderr, " %s", c->value[i].name);
    fprintf(stderr, "\n");
}

/* All gradients that come in have no elements, and there are some. */
static bool nothing_comes_in(const run_case *c, unsigned set)
{
    bool any = false;

    for (int i = 0; i < c->value_count; i++)
        if (is_weight(c->value[i].name)) {
            any = true;
            if (!(set >> i & 1) && rows_of(&c->value[i].tensor) > 0)
                return false;
        }
    return any;
}

/* -- running ------------------------------------------------------------------------------------ */

typedef struct tally {
    int ran, wrong;
} tally;

/* What is wrong with result `f` of a case that was cut? NULL: nothing. */
static const char *fault(const run_case *c, int f, const tr_tensor *got, const tr_tensor *usual, bool is_zero_expected)
{
    if (!tr__tensor_is_finite(got) && tr__tensor_is_finite(usual) && !may_be_nan(c, f, got))
        return "is not finite";
    if (is_zero_expected && is_gradient(c->fetch[f]) && !is_zero(got))
        return "is not 0, though no gradient comes in";
    return NULL;
}

/* Run the case in memory that holds other bytes, perhaps after a run of the case as it usually is. */
static bool run_with(run_place *place, run_case *c, const run_case *usual, int bytes)
{
    run_case before;

    mallopt(M_PERTURB, bytes);
    run_place_init(place, c);
    if (usual) {
        before = *usual;
        before.program = c->program;
        EXPECT_OK(run_place_run(place, &before));
    }
    return run_place_run(place, c) == TR_OK;
}

static void look(tally *t, const char *file, run_case *c, run_case *usual, const run_place *base, unsigned set, cut_how how)
{
    const bool is_zero_expected = how == NO_ROWS_AT_ALL && nothing_comes_in(usual, set);
    run_place  fresh, other, after;

    const bool runs = run_with(&fresh, c, NULL, 0x5a), still = run_with(&other, c, NULL, 0x80), again = run_with(&after, c, usual, 0x33);
    if (runs != still || runs != again)
        fail_msg("%s: one run fails, another one does not", file);
    t->ran += runs;
    for (int f = 0; runs && f < c->fetch_count; f++) {
        const char *what = fault(c, f, fresh.result[f], base->result[f], is_zero_expected);
        if (!what && !(same(fresh.result[f], other.result[f]) && same(fresh.result[f], after.result[f])))
            what = "depends on what was in memory before";
        if (what)
            describe(file, c, set, how, f, what);
        t->wrong += what != NULL;
    }
    run_place_deinit(&fresh, c);
    run_place_deinit(&other, c);
    run_place_deinit(&after, c);
}

static void try_cut(tally *t, const char *file, run_case *usual, const run_place *base, unsigned set, cut_how how)
{
    const int64_t gone = gone_from(usual, set);
    run_case      c = *usual;

    for (int i = 0; i < c.value_count; i++)
        if (set >> i & 1) {
            tr_tensor_init(&c.value[i].tensor);
            EXPECT_OK(tr_tensor_copy(&c.value[i].tensor, &usual->value[i].tensor));
            cut(&c.value[i].tensor, how, gone);
        }
    look(t, file, &c, usual, base, set, how);
    for (int i = 0; i < c.value_count; i++)
        if (set >> i & 1)
            tr_tensor_deinit(&c.value[i].tensor);
}

/* One of the case's own inputs has no rows. */
static bool has_no_rows(const run_case *c)
{
    for (int i = 0; i < c->value_count; i++)
        if (rows_of(&c->value[i].tensor) == 0)
            return true;
    return false;
}

/* All sets of its values, of many values only small and large ones. */
static void try_case(tally *t, const char *file, run_case *c)
{
    const unsigned all = (1u << c->value_count) - 1;
    run_place      base;

    run_place_init(&base, c);
    if (run_place_run(&base, c) == TR_OK) {
        t->ran += c->value_count == 0 || has_no_rows(c);
        for (unsigned set = 1; set <= all; set++) {
            const int size = __builtin_popcount(set);
            if (c->value_count > MAX_CUT_VALUES && size > 3 && size < c->value_count - 3)
                continue;
            for (cut_how how = 0; how < HOW_COUNT; how++)
                if (can_cut(c, set, how))
                    try_cut(t, file, c, &base, set, how);
        }
    }
    run_place_deinit(&base, c);
}

static tally try_file(const char *name)
{
    char     path[512];
    size_t   size;
    run_case c;
    tally    t = {0, 0};

    snprintf(path, sizeof path, "%s/%s", FOLDER, name);
    uint8_t *bytes = test_read_file(&size, path);
    if (run_case_read(&c, bytes, size)) {
        if (c.value_count < 16)
            try_case(&t, name, &c);
        run_case_deinit(&c);
    }
    free(bytes);
    return t;
}

/* -- tests ---------------------------------------------------------------------------------------- */

/* Has a file of this operator been run without rows? Files are called TYPE.NUMBER. */
static bool            ran[MAX_FILES];
static struct dirent **entry;
static int             entry_count;

static int is_file(const struct dirent *e) { return e->d_name[0] != '.'; }

TEST(no_rows_give_no_nan_and_nothing_of_another_run)
{
    int wrong = 0;

    tr_set_num_threads(1);
    for (int i = 0; i < entry_count; i++) {
        const tally t = try_file(entry[i]->d_name);
        ran[i] = t.ran > 0;
        wrong += t.wrong;
    }
    assert_int_equal(wrong, 0);
}

static bool is_left_out(const char *type)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (strcmp(left_out[i][0], type) == 0)
            return true;
    return false;
}

TEST(every_operator_has_run_without_rows)
{
    int wrong = 0;

    for (int i = 0; i < entry_count;) {
        const int length = (int)(strrchr(entry[i]->d_name, '.') - entry[i]->d_name);
        char      type[256];
        bool      any = false;
        snprintf(type, sizeof type, "%.*s", length, entry[i]->d_name);
        for (; i < entry_count && strncmp(entry[i]->d_name, type, (size_t)length) == 0 && entry[i]->d_name[length] == '.'; i++)
            any = any || ran[i];
        if (any == is_left_out(type)) {
            fprintf(stderr, "%s: %s\n", type, any ? "is left out, but has run" : "no case of it has run without rows");
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rows_give_no_nan_and_nothing_of_another_run),
        cmocka_unit_test(every_operator_has_run_without_rows),
    };

    if (tr_init() != TR_OK || (entry_count = scandir(FOLDER, &entry, is_file, alphasort)) <= 0 || entry_count > MAX_FILES)
        return EXIT_FAILURE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
