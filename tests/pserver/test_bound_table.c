/* test_bound_table.c - operators on a table whose rows are in a job: they ask whom the table's variable names. */
#include "tests/support/net.h"

#include "framework/tensors/scope.h"
#include "pserver/trireme_rows.h"
#include "storage/table/table_var.h"

enum { WIDTH = 2, TABLE = 3 };

struct tr_job {                       /* in this test a stand-in, which has the rows itself */
    int asked, table;
};

static tr_status look_up(struct tr_job *job, int table, int64_t count, const int64_t *keys, float *out)
{
    job->asked++;
    job->table = table;
    for (int64_t i = 0; i < count * WIDTH; i++)
        out[i] = (float)(keys[i / WIDTH] * 10 + i % WIDTH);
    return TR_OK;
}

static tr_status no_own_table(tr_table **out, struct tr_job *job, int table, int64_t count, const int64_t *keys)
{
    (void)job, (void)table, (void)count, (void)keys;
    *out = NULL;
    return TR_OK;
}

static const tr_table_source source = {look_up, no_own_table};
static const int64_t         keys[] = {7, 4, 7};

static void begin(net *n, struct tr_job *job, tr_weak **weak, int64_t width)
{
    const tr_table_config config = {.dtype = TR_FP32, .width = width, .entry_probability = 1};

    EXPECT_OK(tr_dist_init());
    net_init(n);
    net_var(n, "ids", TR_INT64, 2, -1, 1);
    net_parameter(n, "table", TR_FP32, 2, 100, WIDTH);
    net_op(n, 0, "lookup_sparse_table", "W=table Ids=ids", "Out=rows", "width=2 padding_idx=4");
    net_feed(n, "ids", keys, 2, 3, 1);
    *weak = tr__weak_new(job);
    EXPECT_OK(tr_table_var_bind(tr_scope_var(n->scope, "table"), &config, &source, *weak, TABLE));
}

static void end(net *n, tr_weak *weak)
{
    tr__weak_release(weak);
    net_deinit(n);
}

TEST(a_lookup_asks_the_job_that_has_the_rows)
{
    static const float want[] = {70, 71, 0, 0, 70, 71};
    struct tr_job      job = {0};
    tr_weak           *weak;
    net                n;

    begin(&n, &job, &weak, WIDTH);
    net_run(&n, "rows");
    assert_memory_equal(net_f32(&n, 0), want, sizeof want);
    assert_int_equal(job.asked, 1);
    assert_int_equal(job.table, TABLE);
    end(&n, weak);
}

TEST(rows_of_a_job_that_is_over_are_refused)
{
    struct tr_job job = {0};
    tr_weak      *weak;
    net           n;

    begin(&n, &job, &weak, WIDTH);
    net_run(&n, "rows");
    tr__weak_end(weak);
    EXPECT_FAIL(TR_EINVAL, "of a job that is over", net_try_run(&n, "rows"));
    assert_int_equal(job.asked, 1);
    end(&n, weak);
}

TEST(rows_of_another_width_are_refused_before_the_job_is_asked)
{
    struct tr_job job = {0};
    tr_weak      *weak;
    net           n;

    begin(&n, &job, &weak, WIDTH + 1);
    EXPECT_FAIL(TR_ESHAPE, "'table' has rows of 3 values, 2 are wanted", net_try_run(&n, "rows"));
    assert_int_equal(job.asked, 0);
    end(&n, weak);
}

TEST(a_bound_table_has_no_rows_of_its_own)
{
    struct tr_job job = {0};
    tr_weak      *weak;
    net           n;
    tr_table_var *tv;
    tr_table     *table;
    void         *rows = NULL;
    const int64_t none = 0;

    begin(&n, &job, &weak, WIDTH);
    EXPECT_OK(tr_table_var_of(&tv, tr_scope_var(n.scope, "table"), "test", "table"));
    EXPECT_FAIL(TR_EUNSUPPORTED, "are with the servers of a job", tr_table_var_table(&table, tv));
    assert_true(tr_job_has_rows(n.scope, "table"));
    assert_false(tr_job_has_rows(n.scope, "ids"));
    EXPECT_FAIL(TR_EINVAL, "tr_job_set_rows gives them others", tr_table_write_rows(n.scope, "table", &rows, none, false));
    end(&n, weak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lookup_asks_the_job_that_has_the_rows),
        cmocka_unit_test(rows_of_a_job_that_is_over_are_refused),
        cmocka_unit_test(rows_of_another_width_are_refused_before_the_job_is_asked),
        cmocka_unit_test(a_bound_table_has_no_rows_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
