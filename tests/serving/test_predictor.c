/* test_predictor.c - a saved model: run by several threads, without an allocation, and exchanged for a newer export while they run. */
#include "tests/support/net.h"

#include "framework/base/status.h"
#include "pserver/trireme_rows.h"
#include "serving/trireme_serving.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every allocation of the process. A sanitizer has its own malloc. */
static atomic_long allocations;

#ifndef TR_SANITIZE
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(memory, size);
}
#endif

enum { ROWS = 4, MOST_COLUMNS = 40 };

/* Of w. The larger one is packed once for all runs of a model (kernels/math/products/weight_cache.h). */
static int columns, outputs;

static char folder[4096];

static const char *in_folder(const char *a, const char *b)
{
    static _Thread_local char path[3][8192];
    static _Thread_local int  next;

    next = (next + 1) % 3;
    snprintf(path[next], sizeof path[next], "%s/%s%s%s", folder, a, *b ? "/" : "", b);
    return path[next];
}

static void write_text(const char *path, const char *text)
{
    char  part[8300];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *out = fopen(part, "w");

    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    assert_int_equal(rename(part, path), 0);
}

static void write_parameter(const char *part, float value)
{
    const int64_t dims[2] = {columns, outputs};
    tr_tensor    *w = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(w, TR_FP32, 2, dims));
    for (int i = 0; i < columns * outputs; i++)
        ((float *)tr_tensor_data(w))[i] = value;
    EXPECT_OK(tr_tensor_save(w, in_folder(part, "w")));
    tr_tensor_free(w);
}

/* y = x w + rows of a table, where `has_table`. */
static void write_program(const char *part, bool has_table)
{
    net    n;
    void  *bytes = NULL;
    size_t size = 0;

    net_init(&n);
    net_var(&n, "x", TR_FP32, 2, -1, columns);
    net_parameter(&n, "w", TR_FP32, 2, columns, outputs);
    tr_var_desc_set_kind(tr_block_create_var(tr_program_block(n.program, 0), "feed"), TR_KIND_FEED);
    tr_var_desc_set_kind(tr_block_create_var(tr_program_block(n.program, 0), "fetch"), TR_KIND_FETCH);
    net_op(&n, 0, "feed", "X=feed", "Out=x", "col=0");
    if (has_table) {
        net_var(&n, "ids", TR_INT64, 2, -1, 1);
        net_op(&n, 0, "feed", "X=feed", "Out=ids", "col=1");
        net_parameter(&n, "table", TR_FP32, 2, 100, 2);
        net_op(&n, 0, "lookup_sparse_table", "W=table Ids=ids", "Out=rows", "width=2");
        net_op(&n, 0, "mul", "X=x Y=w", "Out=xw", "");
        net_op(&n, 0, "elementwise_add", "X=xw Y=rows", "Out=y", "");
    } else {
        net_op(&n, 0, "mul", "X=x Y=w", "Out=y", "");
    }
    net_op(&n, 0, "fetch", "X=y", "Out=fetch", "col=0");
    EXPECT_OK(tr_program_serialize(&bytes, &size, n.program));
    FILE *out = fopen(in_folder(part, "__model__"), "wb");
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
    tr_free(bytes);
    net_deinit(&n);
}

static void make_model(const char *name, bool has_table)
{
    columns = has_table ? 3 : MOST_COLUMNS;
    outputs = has_table ? 2 : 32;
    snprintf(folder, sizeof folder, "%s", test_path(name));
    mkdir(folder, 0777);
    mkdir(in_folder("full-1", ""), 0777);
    mkdir(in_folder("delta-2", ""), 0777);
    write_program("full-1", has_table);
    write_parameter("full-1", 1);
    write_parameter("delta-2", 2);
    write_text(in_folder("current", ""), "trireme-export 1\nversion 1\nstep 10\nfull full-1\n");
}

/* Every value of y is `w` x sum of a row of x. */
static tr_status run_once(tr_predictor *p, tr_tensor *y, float *first)
{
    float         x[ROWS * MOST_COLUMNS];
    const int64_t dims[2] = {ROWS, columns};
    const tr_feed        feed = {.dtype = TR_FP32, .rank = 2, .dims = dims, .data = x};
    int64_t              version;

    for (int i = 0; i < ROWS * columns; i++)
        x[i] = 1;
    TR_TRY(tr_predictor_run_version(p, &feed, &y, &version));
    const float *got = tr_tensor_data(y);
    for (int i = 0; i < outputs * ROWS; i++)
        if (got[i] != got[0])
            return tr_fail(TR_EINTERNAL, "a run saw parameters of two models: %g, %g", got[0], got[i]);
    if (version && got[0] != (float)(version * columns))
        return tr_fail(TR_EINTERNAL, "a run told version %lld and gave %g", (long long)version, got[0]);
    *first = got[0];
    return TR_OK;
}

TEST(a_model_says_what_it_takes_and_gives)
{
    tr_predictor *p = NULL;
    tr_dtype      dtype;
    int           rank, lod_level;
    int64_t       dims[TR_MAX_RANK];

    make_model("named", false);
    EXPECT_OK(tr_predictor_load(&p, in_folder("full-1", "")));          /* a saved model */
    assert_int_equal(tr_predictor_version(p), 0);
    assert_string_equal(tr_predictor_feed(p, 0), "x");
    assert_null(tr_predictor_feed(p, 1));
    assert_string_equal(tr_predictor_fetch(p, 0), "y");
    EXPECT_OK(tr_predictor_feed_type(p, 0, &dtype, &rank, dims, &lod_level));
    assert_int_equal(dtype, TR_FP32);
    assert_true(rank == 2 && dims[0] == -1 && dims[1] == columns && lod_level == 0);
    EXPECT_FAIL(TR_ERANGE, "feed 1", tr_predictor_feed_type(p, 1, &dtype, &rank, dims, &lod_level));
    EXPECT_OK(tr_predictor_fetch_type(p, 0, &dtype, &rank, dims, &lod_level));
    assert_int_equal(dtype, TR_FP32);
    assert_true(rank == 2 && dims[0] == -1 && lod_level == 0);
    EXPECT_FAIL(TR_ERANGE, "fetch 1", tr_predictor_fetch_type(p, 1, &dtype, &rank, dims, &lod_level));
    tr_predictor_free(p);
}

TEST(runs_allocate_nothing_once_they_are_warm)
{
    tr_predictor *p = NULL;
    tr_tensor    *y = tr_tensor_new();
    float         first;

    make_model("warm", false);
    EXPECT_OK(tr_predictor_load(&p, folder));
    for (int i = 0; i < 5; i++)
        EXPECT_OK(run_once(p, y, &first));
    const long before = atomic_load(&allocations), counted = (long)tr_predictor_allocations(p);
    for (int i = 0; i < 100; i++)
        EXPECT_OK(run_once(p, y, &first));
    assert_int_equal(atomic_load(&allocations), before);
    assert_int_equal(tr_predictor_allocations(p), counted);
    assert_true(first == (float)columns);
    tr_tensor_free(y);
    tr_predictor_free(p);
}

static atomic_bool is_over;

static void *run_until_over(void *payload)
{
    tr_tensor *y = tr_tensor_new();
    float      first, last = 0;
    tr_status  status = TR_OK;
    tr_dtype   dtype;
    int64_t    dims[TR_MAX_RANK];
    int        rank, lod_level;

    while (status == TR_OK && !atomic_load(&is_over)) {
        status = run_once(payload, y, &first);
        for (int i = 0; i < 100 && status == TR_OK; i++)
            status = tr_predictor_feed_type(payload, 0, &dtype, &rank, dims, &lod_level);
        if (status == TR_OK && first < last)
            status = tr_fail(TR_EINTERNAL, "a run went back to an older model");
        last = first;
    }
    if (status != TR_OK)
        fprintf(stderr, "%s\n", tr_error());
    tr_tensor_free(y);
    return status == TR_OK ? NULL : payload;
}

TEST(threads_run_while_newer_exports_come)
{
    enum { THREADS = 4 };
    tr_predictor *p = NULL;
    pthread_t     thread[THREADS];
    bool          is_new;
    char          text[200];

    make_model("follow", false);
    EXPECT_OK(tr_predictor_load(&p, folder));
    EXPECT_OK(tr_predictor_refresh(p, &is_new));
    assert_false(is_new);
    atomic_store(&is_over, false);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_until_over, p), 0);
    for (int version = 2; version < 20; version++) {
        snprintf(text, sizeof text, "delta-%d", version);
        mkdir(in_folder(text, ""), 0777);
        write_parameter(text, (float)version);
        snprintf(text, sizeof text, "trireme-export 1\nversion %d\nstep %d\nfull full-1\ndelta delta-%d\n", version, 10 * version, version);
        write_text(in_folder("current", ""), text);
        EXPECT_OK(tr_predictor_refresh(p, &is_new));
        assert_true(is_new);
        assert_int_equal(tr_predictor_version(p), version);
        assert_int_equal(tr_predictor_step(p), 10 * version);
        usleep(2000);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(thread[i], &failed), 0);
        assert_null(failed);
    }
    tr_predictor_free(p);
}

TEST(rows_of_a_table_come_from_its_files)
{
    static const float   x[3] = {1, 2, 3};
    static const int64_t id = 7, dims[2] = {1, 3}, id_dims[2] = {1, 1};
    const tr_job_table   table = {.name = "table", .dtype = TR_FP32, .width = 2, .a = 0.5};
    const struct {
        int64_t  key;
        uint32_t touches, last;
        float    values[2];
    } row = {7, 1, 1, {10, 20}};
    const tr_feed   feeds[2] = {{.dtype = TR_FP32, .rank = 2, .dims = dims, .data = x},
                                {.dtype = TR_INT64, .rank = 2, .dims = id_dims, .data = &id}};
    tr_predictor   *p = NULL;
    tr_scope       *scope = tr_scope_new(NULL);
    tr_tensor      *y = tr_tensor_new();

    EXPECT_OK(tr_dist_init());
    make_model("rows", true);
    EXPECT_FAIL(TR_EUNSUPPORTED, "was not exported for serving", tr_predictor_load(&p, folder));
    EXPECT_OK(tr_table_declare(scope, &table));
    for (int i = 0; i < 2; i++) {
        tr_table_file file = {.path = in_folder(i ? "delta-2" : "full-1", "table.rows"), .shards = 1024};
        if (i)
            EXPECT_OK(tr_table_write_rows(scope, "table", &row, sizeof row, true));
        EXPECT_OK(tr_table_save_files(scope, "table", 1, &file));
        assert_int_equal(file.rows, i);
    }
    EXPECT_OK(tr_predictor_load(&p, folder));
    EXPECT_OK(tr_predictor_run(p, feeds, &y));
    assert_true(((float *)tr_tensor_data(y))[0] == 6.5f);              /* the first value of a key without a row */
    write_text(in_folder("current", ""), "trireme-export 1\nversion 2\nstep 10\nfull full-1\ndelta delta-2\n");
    bool is_new;
    EXPECT_OK(tr_predictor_refresh(p, &is_new));
    EXPECT_OK(tr_predictor_run(p, feeds, &y));
    assert_true(((float *)tr_tensor_data(y))[0] == 22 && ((float *)tr_tensor_data(y))[1] == 32);
    tr_scope_free(scope);
    tr_tensor_free(y);
    tr_predictor_free(p);
}

TEST(a_folder_that_is_no_model_is_refused)
{
    tr_predictor *p = NULL;
    bool          is_new;

    make_model("damaged", false);
    EXPECT_FAIL(TR_EIO, "nothing", tr_predictor_load(&p, in_folder("nothing", "")));
    EXPECT_OK(tr_predictor_load(&p, folder));
    static const char *const bad[] = {"trireme-export 2\nversion 2\nfull full-1\n", "version 2\n", "full\n", "version x\nfull full-1\n",
                                      "version 2\ndelta delta-2\n", "version 2\nfull ../full-1\n", "version 2\nfull full-1\nfull full-1\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text(in_folder("current", ""), bad[i]);
        EXPECT_FAIL(TR_EFORMAT, "in the export", tr_predictor_refresh(p, &is_new));
    }
    write_text(in_folder("current", ""), "trireme-export 1\nversion 3\nfull full-3\n");
    EXPECT_FAIL(TR_EIO, "full-3", tr_predictor_refresh(p, &is_new));
    assert_int_equal(tr_predictor_version(p), 1);                      /* it goes on with what it has */
    tr_predictor_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_says_what_it_takes_and_gives),
        cmocka_unit_test(runs_allocate_nothing_once_they_are_warm),
        cmocka_unit_test(threads_run_while_newer_exports_come),
        cmocka_unit_test(rows_of_a_table_come_from_its_files),
        cmocka_unit_test(a_folder_that_is_no_model_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
