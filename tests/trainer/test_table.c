/* test_table.c - rows of tables become batches, whatever the arrays look like; a reader's failure is the dataset's. */
#include "tests/support/expect.h"

#include "framework/base/status.h"
#include "trainer/trireme_trainer.h"

#include <stdio.h>
#include <string.h>

static const int64_t one[] = {-1, 1}, two[] = {-1, 2};

/* A reader of one block: x is float64 with a null, ids are lists of int64, city is text. */
typedef struct source {
    int  opened, closed, released, blocks;
    bool is_broken;
} source;

static source *owner;

static void release_child(tr_arrow_array *array)
{
    array->release = NULL;
}

static void release_rows(tr_arrow_array *array)
{
    for (int64_t i = 0; i < array->n_children; i++)
        array->children[i]->release(array->children[i]);
    array->release = NULL;
    owner->released++;
}

static tr_status open_piece(void *payload, const char *path, int64_t begin, int64_t end, char *error)
{
    (void)path, (void)begin, (void)end, (void)error;
    ((source *)payload)->opened++;
    ((source *)payload)->blocks = 0;
    return TR_OK;
}

static tr_status next_rows(void *payload, tr_table_block *out, char *error)
{
    static const uint8_t  x_valid[] = {0x1d};                      /* a null before the offset */
    static const double   x[] = {99, 99, 1, 2, 3};
    static const int64_t  ids[] = {7, 8, 9}, ids_end[] = {0, 2, 2, 3};
    static const uint8_t  ids_valid[] = {0x05};
    static const int64_t  city_end[] = {0, 4, 4, 8};
    static const void    *x_buffers[] = {x_valid, x}, *leaf_buffers[] = {NULL, ids}, *ids_buffers[] = {ids_valid, ids_end};
    static const void    *city_buffers[] = {NULL, city_end, "OsloOslo"}, *none[] = {NULL};
    static tr_arrow_array leaf, child[3], *leaves[] = {&leaf}, *children[] = {&child[0], &child[1], &child[2]};
    source               *self = payload;

    if (self->is_broken) {
        strcpy(error, "the table is broken");
        return TR_EFORMAT;
    }
    if (self->blocks++) {
        out->is_last = true;
        return TR_OK;
    }
    leaf = (tr_arrow_array){.length = 3, .n_buffers = 2, .buffers = leaf_buffers, .release = release_child};
    child[0] = (tr_arrow_array){.length = 3, .null_count = 1, .offset = 2, .n_buffers = 2, .buffers = x_buffers, .release = release_child};
    child[1] = (tr_arrow_array){.length = 3, .null_count = 1, .n_buffers = 2, .buffers = ids_buffers, .n_children = 1, .children = leaves,
                                .release = release_child};
    child[2] = (tr_arrow_array){.length = 3, .n_buffers = 3, .buffers = city_buffers, .release = release_child};
    out->rows = (tr_arrow_array){
        .length = 3, .n_buffers = 1, .buffers = none, .n_children = 3, .children = children, .release = release_rows};
    out->group = 4;
    out->first = 10;
    return TR_OK;
}

static void close_piece(void *payload)
{
    ((source *)payload)->closed++;
}

static const tr_data_slot slots[] = {
    {.name = "x", .dtype = TR_FP64, .rank = 2, .dims = one, .has_missing = true, .missing = -1},
    {.name = "ids", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
    {.name = "city", .dtype = TR_INT64, .rank = 2, .dims = one, .hash_buckets = 1000},
};

static tr_data_spec spec_of(source *self, const char *const *path, const tr_data_slot *slot)
{
    owner = self;
    return (tr_data_spec){.format = TR_DATA_TABLE, .slot_count = 3, .slots = slot, .file_count = 1, .files = path, .batch_size = 5,
                          .threads = 2, .reader = {open_piece, next_rows, close_piece, self}};
}

static const char *some_file(void)
{
    const char *path = test_path("table");
    FILE       *out = fopen(path, "w");

    assert_non_null(out);
    fclose(out);
    return path;
}

static tr_status take(const tr_data_spec *spec, tr_batch **batch, tr_dataset **data)
{
    bool got = false;

    TR_TRY(tr_dataset_new(data, spec));
    *batch = tr_batch_new(*data);
    TR_TRY(tr_dataset_begin(*data));
    return tr_dataset_next(&got, *batch, *data, 10);
}

TEST(rows_become_a_batch)
{
    const char        *path = some_file();
    source             self = {0};
    const tr_data_spec spec = spec_of(&self, &path, slots);
    tr_batch          *batch = NULL;
    tr_dataset        *data = NULL;

    EXPECT_OK(take(&spec, &batch, &data));
    const tr_feed *feed = tr_batch_feeds(batch);
    assert_int_equal(tr_batch_samples(batch), 3);
    assert_memory_equal(feed[0].data, ((double[]){1, 2, 3}), 3 * sizeof(double));
    assert_memory_equal(feed[1].data, ((int64_t[]){7, 8, 9}), 3 * sizeof(int64_t));
    assert_memory_equal(feed[1].lod_offsets[0], ((int64_t[]){0, 2, 2, 3}), 4 * sizeof(int64_t));
    assert_memory_equal(feed[2].data, ((int64_t[]){394, tr_data_hash("", 0, 1000), 394}), 3 * sizeof(int64_t));
    tr_batch_free(batch);
    tr_dataset_free(data);
    assert_int_equal(self.opened, 1);
    assert_int_equal(self.closed, 1);
    assert_int_equal(self.released, 1);
}

TEST(a_row_that_does_not_fit_is_explained)
{
    const tr_data_slot wide[] = {slots[0], {.name = "ids", .dtype = TR_INT64, .rank = 2, .dims = two, .lod_level = 1}, slots[2]};
    const char        *path = some_file();
    source             self = {0};
    tr_data_spec       spec = spec_of(&self, &path, wide);
    tr_batch          *batch = NULL;
    tr_dataset        *data = NULL;

    EXPECT_FAIL(TR_EFORMAT,
                "row group 4, row 12 (from 0): slot 'ids': column 'ids': expected a list of a multiple of 2 values, got one of 1",
                take(&spec, &batch, &data));
    tr_batch_free(batch);
    tr_dataset_free(data);
    assert_int_equal(self.released, 1);
    spec.bad_lines = -1;
    EXPECT_OK(take(&spec, &batch, &data));
    assert_int_equal(tr_batch_samples(batch), 2);
    tr_batch_free(batch);
    tr_dataset_free(data);
}

TEST(a_readers_failure_is_told)
{
    const char        *path = some_file();
    source             self = {.is_broken = true};
    const tr_data_spec spec = spec_of(&self, &path, slots);
    tr_batch          *batch = NULL;
    tr_dataset        *data = NULL;

    EXPECT_FAIL(TR_EFORMAT, "the table is broken", take(&spec, &batch, &data));
    tr_batch_free(batch);
    tr_dataset_free(data);
    assert_int_equal(self.closed, 1);
}

TEST(tables_need_a_reader)
{
    const char  *path = some_file();
    source       self = {0};
    tr_data_spec spec = spec_of(&self, &path, slots);
    tr_dataset  *data = NULL;

    spec.pipe_command = "cat";
    EXPECT_FAIL(TR_EINVAL, "a command writes lines, and Parquet and Arrow files have none", tr_dataset_new(&data, &spec));
    spec.reader = (tr_table_reader){0};
    EXPECT_FAIL(TR_EUNSUPPORTED, "a program without Python reads text: multislot, csv or libsvm", tr_dataset_new(&data, &spec));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_a_batch),
        cmocka_unit_test(a_row_that_does_not_fit_is_explained),
        cmocka_unit_test(a_readers_failure_is_told),
        cmocka_unit_test(tables_need_a_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
