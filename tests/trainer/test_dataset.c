/* test_dataset.c - text of each format becomes the batches it says, whatever the number of threads and the size of
 * blocks; what is wrong with a line is said. */
#include "tests/support/expect.h"

#include "trainer/formats/parse.h"
#include "trainer/trireme_trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int64_t one[] = {-1, 1}, two[] = {-1, 2}, three[] = {-1, 3};

static const char *write_text(const char *name, const char *text)
{
    const char *path = test_path(name);
    FILE       *out = fopen(path, "w");

    assert_non_null(out);
    fputs(text, out);
    fclose(out);
    return path;
}

/* All batches as text: "x[2x1 lod 0,1,3]=1 2 3; ..." a line each. */
static char *print_batches(tr_dataset *data, bool must_work, tr_status *status)
{
    static char text[1 << 16];
    size_t      used = 0;
    tr_batch   *batch = tr_batch_new(data);
    bool        got = true;

    text[0] = '\0';
    *status = tr_dataset_begin(data);
    while (*status == TR_OK && (*status = tr_dataset_next(&got, batch, data, 10)) == TR_OK && got) {
        for (int f = 0; f < tr_batch_feed_count(batch); f++) {
            const tr_feed *feed = &tr_batch_feeds(batch)[f];
            int64_t        count = 1;
            for (int i = 0; i < feed->rank; i++)
                count *= feed->dims[i];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s[%d]", f ? "; " : "", feed->name, (int)feed->dims[0]);
            for (int64_t i = 0; feed->lod_levels && i < feed->lod_counts[0]; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? "," : "(", (int)feed->lod_offsets[0][i]);
            used += (size_t)snprintf(text + used, sizeof text - used, "%s=", feed->lod_levels ? ")" : "");
            for (int64_t i = 0; i < count; i++) {
                const double value = feed->dtype == TR_INT64 ? (double)((const int64_t *)feed->data)[i]
                                     : feed->dtype == TR_FP32 ? (double)((const float *)feed->data)[i]
                                                              : ((const double *)feed->data)[i];
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%g", i ? " " : "", value);
            }
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    }
    if (must_work && *status != TR_OK)
        fail_msg("%s", tr_error());
    tr_dataset_end(data);
    tr_batch_free(batch);
    return text;
}

static void expect_batches(const tr_data_spec *spec, const char *want)
{
    tr_dataset *data = NULL;
    tr_status   status;

    EXPECT_OK(tr_dataset_new(&data, spec));
    assert_string_equal(print_batches(data, true, &status), want);
    tr_dataset_free(data);
}

static tr_status read_all(const tr_data_spec *spec)
{
    tr_dataset *data = NULL;
    tr_status   status = tr_dataset_new(&data, spec);

    if (status == TR_OK)
        print_batches(data, false, &status);
    tr_dataset_free(data);
    return status;
}

/* == multislot =============================================================================== */

static const tr_data_slot multislot[] = {
    {.name = "ids", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
    {.name = NULL, .dtype = TR_FP32, .rank = 2, .dims = one},
    {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = two},
};

static tr_data_spec spec_of(tr_data_format format, const tr_data_slot *slots, int count, const char *const *path)
{
    return (tr_data_spec){.format = format, .slot_count = count, .slots = slots, .file_count = 1, .files = path, .batch_size = 2};
}

TEST(multislot_lines_have_counts_and_sequences)
{
    const char  *path = write_text("m.txt", "2 5 6 1 0.5 2 1.5 -2\n0   3 1 2 3  2 3e0 4\r\n\n1 18446744073709551615 1 1 2 .5 6");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, multislot, 3, &path);

    expect_batches(&spec, "ids[2](0,2,2)=5 6; x[2]=1.5 -2 3 4\nids[1](0,1)=-1; x[1]=0.5 6\n");
    spec.drop_last = true;
    expect_batches(&spec, "ids[2](0,2,2)=5 6; x[2]=1.5 -2 3 4\n");
}

static tr_status multislot_line(const char *line)
{
    char         text[512];
    const char  *path;

    snprintf(text, sizeof text, "1 1 0 2 1 1\n%s\n", line);
    path = write_text("bad.txt", text);
    const tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, multislot, 3, &path);
    return read_all(&spec);
}

TEST(a_bad_multislot_line_is_explained)
{
    EXPECT_FAIL(TR_EFORMAT, "bad.txt, line 2, column 5: slot 'ids': expected an integer as value 2 of 2, got 'x'",
                multislot_line("2 1 x 0 2 1 1"));
    EXPECT_FAIL(TR_EFORMAT, "line 2, column 7: slot 'x': expected the count 2, for the elements of the variable, got '3'",
                multislot_line("1 1 0 3 1 1 1"));
    EXPECT_FAIL(TR_EFORMAT, "column 11: slot 'x': expected a finite number that fits float32 as value 2 of 2, got the end of the line",
                multislot_line("1 1 0 2 1 "));
    EXPECT_FAIL(TR_EFORMAT, "expected the end of the line after 3 slots, got '9'", multislot_line("1 1 0 2 1 1 9"));
    EXPECT_FAIL(TR_EFORMAT, "expected the count of slot 1 of 3, got '1.5'", multislot_line("1.5 1 0 2 1 1"));
    EXPECT_FAIL(TR_EFORMAT, "got '\\x01'", multislot_line("1 \x01 0 2 1 1"));
    EXPECT_FAIL(TR_EFORMAT, "slot 'ids': expected a count", multislot_line("-1 0 2 1 1"));
}

TEST(a_count_beyond_its_line_takes_no_memory)
{
    static char         text[] = "2000000000 1 2 3\n";
    const char         *path = "promises.txt";
    const tr_data_spec  spec = spec_of(TR_DATA_MULTISLOT, multislot, 3, &path);
    const tr_block_text block = {.text = text, .size = sizeof text - 1, .piece = {.path = path, .end = INT64_MAX}};
    tr_parser           parser;
    tr_columns          columns;
    tr_bad_lines        bad;

    EXPECT_OK(tr_parser_init(&parser, &spec));
    tr_columns_init(&columns, &spec);
    tr_parse_block(&parser, &columns, &block, true, &bad);
    assert_non_null(strstr(bad.first, "expected an integer as value 4 of 2000000000, got the end of the line"));
    assert_true(columns.column[0].capacity <= 1024);
    free(bad.first);
    tr_columns_deinit(&columns);
    tr_parser_deinit(&parser);
}

/* == csv ===================================================================================== */

static const char *const named[] = {"b", "a"};
static const tr_data_slot csv[] = {
    {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = two, .column_count = 2, .columns = named, .has_missing = true, .missing = -1},
    {.name = "city", .dtype = TR_INT64, .rank = 2, .dims = one, .hash_buckets = 1000},
    {.name = "tags", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
};

TEST(csv_columns_go_by_name)
{
    char want[256];
    const char  *path = write_text("c.csv", "a,city,\"b\",tags\n1,\"Oslo, \"\"N\"\"\",2,1 2 3\n NA ,x,\"7.5\",\n");
    tr_data_spec spec = spec_of(TR_DATA_CSV, csv, 3, &path);

    spec.has_header = true;
    snprintf(want, sizeof want, "x[2]=2 1 7.5 -1; city[2]=%d %d; tags[3](0,3,3)=1 2 3\n",
             (int)tr_data_hash("Oslo, \"N\"", 9, 1000), (int)tr_data_hash("x", 1, 1000));
    expect_batches(&spec, want);
}

TEST(csv_columns_go_by_number_and_in_order)
{
    static const char *const last[] = {"#3"};
    const tr_data_slot slots[] = {{.name = "x", .dtype = TR_FP64, .rank = 2, .dims = two},
                                  {.name = "y", .dtype = TR_INT64, .rank = 2, .dims = one, .column_count = 1, .columns = last}};
    const char  *path = write_text("n.csv", "1;2;zzz;4\n5;6;;8\n");
    tr_data_spec spec = spec_of(TR_DATA_CSV, slots, 2, &path);

    spec.delimiter = ';';
    expect_batches(&spec, "x[2]=1 2 5 6; y[2]=4 8\n");
}

static tr_status csv_text(const char *text)
{
    const char  *path = write_text("bad.csv", text);
    tr_data_spec spec = spec_of(TR_DATA_CSV, csv, 3, &path);

    spec.has_header = true;
    return read_all(&spec);
}

TEST(a_bad_csv_line_is_explained)
{
    EXPECT_FAIL(TR_EFORMAT, "bad.csv, line 2, column 3: slot 'x': expected a finite number that fits float32, got 'x'",
                csv_text("city,a,b,tags\n0,x,y,\n"));
    EXPECT_FAIL(TR_EFORMAT, "line 3, column 6: expected 4 fields, found 3, got the end of the line",
                csv_text("city,a,b,tags\n0,1,2,\n0,1,2\n"));
    EXPECT_FAIL(TR_EFORMAT, "slot 'tags': expected an integer", csv_text("city,a,b,tags\n0,1,2,3 4.5\n"));
    EXPECT_FAIL(TR_EFORMAT, "expected quotes that end", csv_text("city,a,b,tags\n\"0,1,2,3\n"));
    EXPECT_FAIL(TR_ENOTFOUND, "slot 'x': there is no column 'b'; there are city, a, tags", csv_text("city,a,tags\n"));
    EXPECT_FAIL(TR_EFORMAT, "it is empty", csv_text(""));
}

TEST(csv_words_for_missing_values)
{
    static const char *const words[] = {"", "?", "NA", "n/a", "NaN", "nan", "NAN", "-nan", "null", "\"nan\""};
    const tr_data_slot slots[] = {{.name = "x", .dtype = TR_FP32, .rank = 2, .dims = one, .has_missing = true, .missing = -1},
                                  {.name = "n", .dtype = TR_INT64, .rank = 2, .dims = one, .has_missing = true, .missing = 7},
                                  {.name = "s", .dtype = TR_FP64, .rank = 2, .dims = one, .lod_level = 1, .has_missing = true}};
    char text[128];

    for (int i = 0; i < TR_COUNT(words); i++) {
        const bool is_quoted = words[i][0] == '"';
        snprintf(text, sizeof text, "%s,%s,1 %s 3\n", words[i], words[i], is_quoted || !*words[i] ? "?" : words[i]);
        const char *path = write_text("missing.csv", text);
        const tr_data_spec spec = spec_of(TR_DATA_CSV, slots, 3, &path);
        expect_batches(&spec, "x[1]=-1; n[1]=7; s[3](0,3)=1 0 3\n");
    }
}

/* == numbers that no tensor should hold ======================================================= */

static const char *const not_finite[] = {"nan", "NaN", "-nan", "inf", "-Infinity", "1e999", "-1e999"};

/* One slot of the type; the line is `before`, the number, `after`. */
static tr_status number_in_line(tr_data_format format, tr_dtype dtype, const char *before, const char *number, const char *after,
                                int lod_level)
{
    const tr_data_slot slots[] = {{.name = "y", .dtype = format == TR_DATA_LIBSVM ? TR_INT64 : dtype, .rank = 2, .dims = one},
                                  {.name = "x", .dtype = dtype, .rank = 2, .dims = one, .lod_level = lod_level}};
    char               text[128];

    snprintf(text, sizeof text, "%s%s%s\n", before, number, after);
    const char        *path = write_text("number.txt", text);
    const tr_data_spec spec = spec_of(format, slots, 2, &path);
    return read_all(&spec);
}

static void refused_everywhere(tr_dtype dtype, const char *number, const char *noun)
{
    char said[128];

    snprintf(said, sizeof said, "number.txt, line 1, column 3: slot 'x': expected %s", noun);
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_CSV, dtype, "1,", number, "", 0));
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_CSV, dtype, "1,", number, " 1", 1));
    snprintf(said, sizeof said, "number.txt, line 1, column 7: slot 'x': expected %s", noun);
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_MULTISLOT, dtype, "1 1 1 ", number, "", 0));
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_MULTISLOT, dtype, "1 1 1 ", number, "", 1));
    if (dtype == TR_INT64)
        return;
    snprintf(said, sizeof said, "number.txt, line 1, column 5: slot 'x': expected %s", noun);
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_LIBSVM, dtype, "1 1:", number, "", 0));
    EXPECT_FAIL(TR_EFORMAT, said, number_in_line(TR_DATA_LIBSVM, dtype, "1 1:", number, " #", 1));
}

TEST(numbers_that_are_not_finite_are_mistakes)
{
    for (int i = 0; i < TR_COUNT(not_finite); i++) {
        refused_everywhere(TR_FP32, not_finite[i], "a finite number that fits float32");
        refused_everywhere(TR_FP64, not_finite[i], "a finite number that fits float64");
        refused_everywhere(TR_INT64, not_finite[i], "an integer");
    }
    refused_everywhere(TR_FP32, "1e39", "a finite number that fits float32");
    EXPECT_OK(number_in_line(TR_DATA_CSV, TR_FP64, "1,", "1e39", "", 0));
    refused_everywhere(TR_INT64, "18446744073709551616", "an integer");
    refused_everywhere(TR_INT64, "-9223372036854775809", "an integer");
}

TEST(a_libsvm_label_must_be_finite)
{
    const tr_data_slot slots[] = {{.name = "y", .dtype = TR_FP32, .rank = 2, .dims = one},
                                  {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = one}};
    const char        *path = write_text("label.txt", "nan 1:1\n");
    const tr_data_spec spec = spec_of(TR_DATA_LIBSVM, slots, 2, &path);

    EXPECT_FAIL(TR_EFORMAT, "label.txt, line 1, column 1: slot 'y': expected a finite number", read_all(&spec));
}

TEST(a_slot_that_is_dropped_may_hold_anything)
{
    const char  *path = write_text("dropped.txt", "1 5 1 nan 2 1 2\n");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, multislot, 3, &path);

    expect_batches(&spec, "ids[1](0,1)=5; x[1]=1 2\n");
}

TEST(files_must_agree_about_their_columns)
{
    const char  *paths[] = {write_text("one.csv", "a,b,city,tags\n1,2,c,\n"), write_text("two.csv", "a,c,city,tags\n1,2,c,\n")};
    tr_data_spec spec = spec_of(TR_DATA_CSV, csv, 3, paths);

    spec.has_header = true;
    spec.file_count = 2;
    EXPECT_FAIL(TR_EFORMAT, "two.csv, line 1: column 1 is 'c'; in ", read_all(&spec));
}

/* == libsvm ================================================================================== */

TEST(libsvm_is_dense_or_sparse)
{
    const tr_data_slot dense[] = {{.name = "y", .dtype = TR_INT64, .rank = 2, .dims = one},
                                  {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = three}};
    const tr_data_slot sparse[] = {{.name = "y", .dtype = TR_FP32, .rank = 2, .dims = one},
                                   {.name = "id", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
                                   {.name = "v", .dtype = TR_FP32, .rank = 2, .dims = one, .lod_level = 1}};
    const char  *path = write_text("s.txt", "+1 3:0.5 1:2 # a comment\n-1\n");
    tr_data_spec spec = spec_of(TR_DATA_LIBSVM, dense, 2, &path);

    spec.first_index = 1;
    expect_batches(&spec, "y[2]=1 -1; x[2]=2 0 0.5 0 0 0\n");
    spec.slots = sparse;
    spec.slot_count = 3;
    expect_batches(&spec, "y[2]=1 -1; id[2](0,2,2)=2 0; v[2](0,2,2)=0.5 2\n");
    spec.slots = dense;
    spec.slot_count = 2;
    path = write_text("s.txt", "1 4:1\n");
    EXPECT_FAIL(TR_EFORMAT, "line 1, column 3: slot 'x': expected an index from 1 to 3, got '4:1'", read_all(&spec));
    path = write_text("s.txt", "1 0:1\n");
    EXPECT_FAIL(TR_EFORMAT, "expected an index of at least 1", read_all(&spec));
    path = write_text("s.txt", "1 2=1\n");
    EXPECT_FAIL(TR_EFORMAT, "expected index:value, got '2=1'", read_all(&spec));
}

/* == any number of threads ====================================================================== */

static const tr_data_slot numbered[] = {{.name = "n", .dtype = TR_INT64, .rank = 2, .dims = one},
                                        {.name = "s", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1}};

/* Lines of very different lengths: line i is numbered i. */
static const char *write_numbered(const char *name, int lines)
{
    const char *path = test_path(name);
    FILE       *out = fopen(path, "w");

    for (int i = 0; i < lines; i++) {
        fprintf(out, "1 %d %d", i, i % 7 * (i % 5));
        for (int j = 0; j < i % 7 * (i % 5); j++)
            fprintf(out, " %d", i * j);
        fprintf(out, "\n");
    }
    fclose(out);
    return path;
}

TEST(threads_and_blocks_change_nothing)
{
    const char  *paths[] = {write_numbered("a.txt", 123), write_numbered("b.txt", 45)};
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, paths);
    tr_dataset  *data = NULL;
    tr_status    status;

    spec.file_count = 2;
    spec.batch_size = 10;
    EXPECT_OK(tr_dataset_new(&data, &spec));
    char *want = strdup(print_batches(data, true, &status));
    tr_dataset_free(data);
    for (int threads = 1; threads <= 5; threads += 2)
        for (int bytes = 1; bytes < 5000; bytes = 3 * bytes + 5) {
            spec.threads = threads;
            spec.block_bytes = bytes;
            expect_batches(&spec, want);
        }
    free(want);
}

TEST(tasks_share_the_lines_out)
{
    const char *path = write_numbered("t.txt", 100);

    for (int bytes = 1; bytes < 4000; bytes += 1 + bytes / 3) {
        int          seen[100] = {0};
        tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);
        spec.split = TR_SPLIT_TASKS;
        spec.task_bytes = bytes;
        spec.block_bytes = 1 + bytes / 2;
        for (int part = 0; part < 3; part++) {
            tr_dataset *data = NULL;
            bool        got = true;
            EXPECT_OK(tr_dataset_new(&data, &spec));
            EXPECT_OK(tr_dataset_set_part(data, part, 3));
            tr_batch *batch = tr_batch_new(data);
            EXPECT_OK(tr_dataset_begin(data));
            for (;;) {
                EXPECT_OK(tr_dataset_next(&got, batch, data, 10));
                if (!got)
                    break;
                for (int64_t i = 0; i < tr_batch_samples(batch); i++)
                    seen[((const int64_t *)tr_batch_feeds(batch)[0].data)[i]]++;
            }
            tr_batch_free(batch);
            tr_dataset_free(data);
        }
        for (int i = 0; i < 100; i++)
            assert_int_equal(seen[i], 1);
    }
}

TEST(small_batches_at_the_ends_of_tasks_can_be_left_out)
{
    const char  *path = write_text("ends.txt", "1 0 0\n1 1 0\n1 2 0\n1 3 0\n1 4 0\n1 5 0\n1 6 0\n");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);

    spec.split = TR_SPLIT_TASKS;
    spec.task_bytes = 18;                          /* three lines */
    expect_batches(&spec, "n[2]=0 1; s[0](0,0,0)=\nn[1]=2; s[0](0,0)=\nn[2]=3 4; s[0](0,0,0)=\nn[1]=5; s[0](0,0)=\n"
                          "n[1]=6; s[0](0,0)=\n");
    spec.drop_last = true;
    expect_batches(&spec, "n[2]=0 1; s[0](0,0,0)=\nn[2]=3 4; s[0](0,0,0)=\n");
}

TEST(slices_of_batches_are_those_of_one_process)
{
    const char  *path = write_text("p.txt", "1 0 0\n1 1 1 7\n1 2 0\n1 3 2 8 9\n1 4 0\n");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);
    tr_dataset  *data = NULL;
    tr_status    status;

    spec.batch_size = 3;
    EXPECT_OK(tr_dataset_new(&data, &spec));
    EXPECT_OK(tr_dataset_set_part(data, 0, 2));
    assert_string_equal(print_batches(data, true, &status), "n[1]=0; s[0](0,0)=\nn[1]=3; s[2](0,2)=8 9\n");
    EXPECT_OK(tr_dataset_set_part(data, 1, 2));
    assert_string_equal(print_batches(data, true, &status), "n[2]=1 2; s[1](0,1,1)=7\nn[1]=4; s[0](0,0)=\n");
    tr_dataset_free(data);
}

TEST(a_bad_line_in_a_later_task_has_its_number_in_the_file)
{
    const char  *path = write_text("late.txt", "1 0 0\n1 1 0\n1 2 0\n1 3 0\n1 x 0\n");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);

    spec.split = TR_SPLIT_TASKS;
    for (spec.task_bytes = 1; spec.task_bytes < 40; spec.task_bytes++)
        EXPECT_FAIL(TR_EFORMAT, "late.txt, line 5, column 3: slot 'n': expected an integer", read_all(&spec));
}

/* == bad lines, memory, errors ==================================================================== */

TEST(bad_lines_are_skipped_and_counted)
{
    const char    *path = write_text("some.txt", "1 0 0\nx\n1 1 1 z\n1 2 1 5\n");
    tr_data_spec   spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);
    tr_dataset    *data = NULL;
    tr_data_counts counts;
    tr_status      status;

    spec.bad_lines = 2;
    EXPECT_OK(tr_dataset_new(&data, &spec));
    assert_string_equal(print_batches(data, true, &status), "n[2]=0 2; s[1](0,0,1)=5\n");
    tr_dataset_count(data, &counts);
    assert_int_equal(counts.bad_lines, 2);
    assert_int_equal(counts.lines, 2);
    assert_non_null(strstr(tr_dataset_first_bad_line(data), "some.txt, line 2, column 1: slot 'n': expected the count"));
    tr_dataset_free(data);
    spec.bad_lines = 1;
    EXPECT_FAIL(TR_EFORMAT, "2 lines cannot be read, 1 are allowed; the first: ", read_all(&spec));
}

TEST(lines_in_memory_are_shuffled_by_the_seed)
{
    const char  *path = write_numbered("mem.txt", 6);
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 1, &path);
    const tr_data_slot slot[] = {numbered[0], {.name = NULL, .dtype = TR_INT64, .rank = 2, .dims = one}};
    tr_dataset  *data = NULL;
    tr_status    status;
    bool         done = false;

    spec.slots = slot;
    spec.slot_count = 2;
    spec.batch_size = 4;
    spec.threads = 2;
    EXPECT_OK(tr_dataset_new(&data, &spec));
    assert_int_equal(tr_dataset_lines_in_memory(data), -1);
    EXPECT_FAIL(TR_EINVAL, "load them first", tr_dataset_shuffle(data, 1));
    while (!done)
        EXPECT_OK(tr_dataset_load(&done, data, 1));
    assert_int_equal(tr_dataset_lines_in_memory(data), 6);
    assert_string_equal(print_batches(data, true, &status), "n[4]=0 1 2 3\nn[2]=4 5\n");
    EXPECT_OK(tr_dataset_shuffle(data, 1));
    char *first = strdup(print_batches(data, true, &status));
    assert_string_not_equal(first, "n[4]=0 1 2 3\nn[2]=4 5\n");
    tr_dataset_release(data);
    for (done = false; !done;)
        EXPECT_OK(tr_dataset_load(&done, data, 1));
    EXPECT_OK(tr_dataset_shuffle(data, 1));
    assert_string_equal(print_batches(data, true, &status), first);
    free(first);
    tr_dataset_free(data);
}

static tr_status make(tr_data_spec spec)
{
    tr_dataset *data = NULL;
    const tr_status status = tr_dataset_new(&data, &spec);

    tr_dataset_free(data);
    return status;
}

TEST(a_senseless_description_of_data_is_refused)
{
    static const int64_t open_dims[] = {-1, -1};
    const tr_data_slot   half = {.name = "h", .dtype = TR_FP16, .rank = 2, .dims = one},
                         open = {.name = "o", .dtype = TR_FP32, .rank = 2, .dims = open_dims},
                         twice[] = {numbered[0], numbered[0]},
                         deep = {.name = "d", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 2};
    const char  *path = "/nowhere/at/all.txt";

    EXPECT_FAIL(TR_EDTYPE, "slot 'h' is float16", make(spec_of(TR_DATA_MULTISLOT, &half, 1, &path)));
    EXPECT_FAIL(TR_ESHAPE, "slot 'o' has -1 as dimension 1", make(spec_of(TR_DATA_MULTISLOT, &open, 1, &path)));
    EXPECT_FAIL(TR_EEXIST, "two slots are named 'n'", make(spec_of(TR_DATA_MULTISLOT, twice, 2, &path)));
    EXPECT_FAIL(TR_EUNSUPPORTED, "lod_level 2", make(spec_of(TR_DATA_MULTISLOT, &deep, 1, &path)));
    EXPECT_FAIL(TR_EINVAL, "there is no slot", make(spec_of(TR_DATA_CSV, NULL, 0, &path)));
    EXPECT_FAIL(TR_ESHAPE, "the first slot is the label", make(spec_of(TR_DATA_LIBSVM, csv, 1, &path)));
    const tr_data_spec lost = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);
    EXPECT_FAIL(TR_ENOTFOUND, "'/nowhere/at/all.txt' cannot be opened", read_all(&lost));
}

TEST(only_regular_files_are_read)
{
    const char        *path = test_path("fifo");
    const tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 2, &path);

    assert_int_equal(mkfifo(path, 0666), 0);
    EXPECT_FAIL(TR_EIO, "is no regular file, but a FIFO", read_all(&spec));
}

TEST(a_command_makes_the_lines)
{
    const char  *path = write_text("raw.txt", "0 1 2");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 1, &path);

    spec.pipe_command = "tr ' ' '\\n' | sed 's/^/1 /'";
    expect_batches(&spec, "n[2]=0 1\nn[1]=2\n");
    spec.pipe_command = "cat; exit 3";
    path = write_text("raw.txt", "1 1\n");
    EXPECT_FAIL(TR_EIO, "ended with exit code 3", read_all(&spec));
}

TEST(a_slow_command_is_waited_for_in_turns)
{
    const char  *path = write_text("slow.txt", "1 1\n");
    tr_data_spec spec = spec_of(TR_DATA_MULTISLOT, numbered, 1, &path);
    tr_dataset  *data = NULL;
    bool         got = false;

    spec.pipe_command = "sleep 600";
    EXPECT_OK(tr_dataset_new(&data, &spec));
    tr_batch *batch = tr_batch_new(data);
    EXPECT_OK(tr_dataset_begin(data));
    EXPECT_FAIL(TR_ETIMEOUT, "no line has come in the time given", tr_dataset_next(&got, batch, data, 0.05));
    tr_batch_free(batch);
    tr_dataset_free(data);                         /* ends the command */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multislot_lines_have_counts_and_sequences),
        cmocka_unit_test(a_bad_multislot_line_is_explained),
        cmocka_unit_test(a_count_beyond_its_line_takes_no_memory),
        cmocka_unit_test(csv_columns_go_by_name),
        cmocka_unit_test(csv_columns_go_by_number_and_in_order),
        cmocka_unit_test(a_bad_csv_line_is_explained),
        cmocka_unit_test(csv_words_for_missing_values),
        cmocka_unit_test(numbers_that_are_not_finite_are_mistakes),
        cmocka_unit_test(a_libsvm_label_must_be_finite),
        cmocka_unit_test(a_slot_that_is_dropped_may_hold_anything),
        cmocka_unit_test(files_must_agree_about_their_columns),
        cmocka_unit_test(libsvm_is_dense_or_sparse),
        cmocka_unit_test(threads_and_blocks_change_nothing),
        cmocka_unit_test(tasks_share_the_lines_out),
        cmocka_unit_test(small_batches_at_the_ends_of_tasks_can_be_left_out),
        cmocka_unit_test(slices_of_batches_are_those_of_one_process),
        cmocka_unit_test(a_bad_line_in_a_later_task_has_its_number_in_the_file),
        cmocka_unit_test(bad_lines_are_skipped_and_counted),
        cmocka_unit_test(lines_in_memory_are_shuffled_by_the_seed),
        cmocka_unit_test(a_senseless_description_of_data_is_refused),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(a_command_makes_the_lines),
        cmocka_unit_test(a_slow_command_is_waited_for_in_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
