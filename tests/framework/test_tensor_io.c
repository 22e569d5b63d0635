/* test_tensor_io.c - tensors in files. The expected bytes are written out by hand from docs/formats.md. */
#include "tests/support/expect.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/tensors/tensor_io.h"

/* -- the bytes ---------------------------------------------------------------------------------- */

/* float32 [2, 3] without sequences. */
static const uint8_t plain[] = {
    0, 0, 0, 0,                                           /* record version */
    0, 0, 0, 0, 0, 0, 0, 0,                               /* LoD levels */
    0, 0, 0, 0,                                           /* tensor version */
    6, 0, 0, 0, 0x08, 5, 0x10, 2, 0x10, 3,                /* description: FP32, 2, 3 */
    0, 0, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0, 0, 0xa0, 0x40,
};
/* int64 [3, 1]: two sequences of 1 and 2 rows. */
static const uint8_t sequences[] = {
    0, 0, 0, 0,
    1, 0, 0, 0, 0, 0, 0, 0,
    24, 0, 0, 0, 0, 0, 0, 0,                              /* bytes of the level */
    0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0,
    6, 0, 0, 0, 0x08, 3, 0x10, 3, 0x10, 1,
    7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
};
/* uint8 [2, 2]: rows 9 and 4 of ten. */
static const uint8_t rows[] = {
    0, 0, 0, 0,
    2, 0, 0, 0, 0, 0, 0, 0,                               /* rows */
    9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
    10, 0, 0, 0, 0, 0, 0, 0,                              /* height */
    0, 0, 0, 0,
    6, 0, 0, 0, 0x08, 20, 0x10, 2, 0x10, 2,
    1, 2, 3, 4,
};

static void make_plain(tr_tensor *t)
{
    assert_int_equal(tr_tensor_resize(t, TR_FP32, 2, (const int64_t[]){2, 3}), TR_OK);
    for (int i = 0; i < 6; i++)
        ((float *)t->data)[i] = (float)i;
}

static void make_sequences(tr_tensor *t)
{
    static const int64_t values[] = {7, 8, -1}, offsets[] = {0, 1, 3}, count = 3;
    const int64_t *const levels[] = {offsets};

    assert_int_equal(tr_tensor_resize(t, TR_INT64, 2, (const int64_t[]){3, 1}), TR_OK);
    memcpy(t->data, values, sizeof values);
    assert_int_equal(tr_tensor_set_lod(t, 1, &count, levels), TR_OK);
}

static void make_rows(tr_tensor *t)
{
    assert_int_equal(tr_tensor_resize(t, TR_UINT8, 2, (const int64_t[]){2, 2}), TR_OK);
    memcpy(t->data, "\1\2\3\4", 4);
    assert_int_equal(tr_tensor_set_rows(t, 10, 2, (const int64_t[]){9, 4}), TR_OK);
}

static const struct {
    const char    *name;
    const uint8_t *bytes;
    size_t         size;
    void         (*make)(tr_tensor *);
} samples[] = {
    {"plain", plain, sizeof plain, make_plain},
    {"sequences", sequences, sizeof sequences, make_sequences},
    {"rows", rows, sizeof rows, make_rows},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* -- helpers ------------------------------------------------------------------------------------ */

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

static tr_status load_bytes(tr_tensor *tensor, const void *bytes, size_t size)
{
    const char *path = test_path("tensor");
    write_file(path, bytes, size);
    return tr_tensor_load(tensor, path);
}

static void expect_equal(const tr_tensor *a, const tr_tensor *b)
{
    assert_int_equal(a->dtype, b->dtype);
    assert_true(tr_shape_equal(&a->shape, &b->shape));
    assert_memory_equal(a->data, b->data, (size_t)tr_tensor_bytes(a));
    assert_int_equal(tr_tensor_lod_levels(a), tr_tensor_lod_levels(b));
    for (int l = 0; l < tr_tensor_lod_levels(a); l++)
        assert_memory_equal(tr_tensor_lod_offsets(a, l), tr_tensor_lod_offsets(b, l),
                            (size_t)tr_tensor_lod_count(a, l) * sizeof(int64_t));
    assert_int_equal(tr_tensor_height(a), tr_tensor_height(b));
    if (tr_tensor_has_rows(a))
        assert_memory_equal(tr_tensor_rows(a), tr_tensor_rows(b), (size_t)a->rows->count * sizeof(int64_t));
}

/* -- tests -------------------------------------------------------------------------------------- */

TEST(files_have_the_bytes_of_the_format)
{
    for (int s = 0; s < SAMPLES; s++) {
        tr_tensor  *t = tr_tensor_new();
        const char *path = test_path("saved");
        size_t      size;
        samples[s].make(t);
        EXPECT_OK(tr_tensor_save(t, path));
        uint8_t *bytes = test_read_file(&size, path);
        assert_int_equal(size, samples[s].size);
        assert_memory_equal(bytes, samples[s].bytes, size);
        free(bytes);
        tr_tensor_free(t);
    }
}

TEST(files_are_read_as_what_they_are)
{
    tr_tensor *got = tr_tensor_new();                     /* the same one for all: nothing is left from before */

    for (int s = 0; s < SAMPLES; s++) {
        tr_tensor *wanted = tr_tensor_new();
        samples[s].make(wanted);
        EXPECT_OK(load_bytes(got, samples[s].bytes, samples[s].size));
        expect_equal(got, wanted);
        tr_tensor_free(wanted);
    }
    tr_tensor_free(got);
}

TEST(records_stand_back_to_back)
{
    FILE      *file = tmpfile();
    tr_tensor *t = tr_tensor_new(), *wanted = tr_tensor_new();

    for (int s = 0; s < SAMPLES; s++) {
        samples[s].make(wanted);
        EXPECT_OK(tr_tensor_write(file, wanted));
    }
    rewind(file);
    for (int s = 0; s < SAMPLES; s++) {
        samples[s].make(wanted);
        EXPECT_OK(tr_tensor_read(file, t));
        expect_equal(t, wanted);
    }
    EXPECT_FAIL(TR_EFORMAT, "expected record version of 4 bytes, but the file ends", tr_tensor_read(file, t));
    expect_equal(t, wanted);                              /* as it was */
    fclose(file);
    tr_tensor_free(t);
    tr_tensor_free(wanted);
}

TEST(every_type_and_odd_shapes_come_back)
{
    static const struct { int rank; int64_t dims[9]; } shapes[] = {
        {0, {0}}, {1, {0}}, {1, {5}}, {3, {2, 0, 4}}, {9, {1, 2, 1, 2, 1, 2, 1, 2, 1}}};
    tr_tensor *t = tr_tensor_new(), *got = tr_tensor_new();

    for (int type = 0; type < TR_DTYPE_COUNT; type++)
        for (size_t s = 0; tr_dtype_size(type) && s < sizeof shapes / sizeof *shapes; s++) {
            EXPECT_OK(tr_tensor_resize(t, type, shapes[s].rank, shapes[s].dims));
            memset(t->data, 0x5a, (size_t)tr_tensor_bytes(t));
            EXPECT_OK(tr_tensor_save(t, test_path("odd")));
            EXPECT_OK(tr_tensor_load(got, test_path("odd")));
            expect_equal(got, t);
        }
    tr_tensor_free(t);
    tr_tensor_free(got);
}

TEST(selected_rows_without_a_row_are_written_and_read)
{
    tr_tensor *t = tr_tensor_new(), *got = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, (const int64_t[]){0, 4}));
    EXPECT_OK(tr_tensor_set_rows(t, 100, 0, NULL));
    EXPECT_OK(tr_tensor_save(t, test_path("none")));
    EXPECT_OK(tr_tensor_load(got, test_path("none")));
    assert_true(tr_tensor_has_rows(got));
    assert_int_equal(tr_tensor_height(got), 100);
    tr_tensor_free(t);
    tr_tensor_free(got);
}

/* -- damage ------------------------------------------------------------------------------------- */

TEST(a_file_cut_anywhere_is_refused)
{
    tr_tensor *t = tr_tensor_new();

    for (int s = 0; s < SAMPLES; s++)
        for (size_t cut = 0; cut < samples[s].size; cut++)
            EXPECT_FAIL(TR_EFORMAT, "while loading '/tmp/", load_bytes(t, samples[s].bytes, cut));
    assert_int_equal(tr_tensor_dtype(t), TR_DTYPE_NONE);
    tr_tensor_free(t);
}

TEST(a_flipped_bit_is_refused_or_a_tensor)
{
    uint8_t    copy[128];
    tr_tensor *t = tr_tensor_new();

    for (int s = 0; s < SAMPLES; s++)
        for (size_t i = 0; i < samples[s].size * 8; i++) {
            memcpy(copy, samples[s].bytes, samples[s].size);
            copy[i / 8] ^= (uint8_t)(1 << i % 8);
            FILE           *in = fmemopen(copy, samples[s].size, "rb");
            const tr_status status = tr_tensor_read(in, t);
            assert_true(status == TR_OK || status == TR_EFORMAT);
            fclose(in);
        }
    tr_tensor_free(t);
}

static tr_status load_changed(const uint8_t *bytes, size_t size, size_t at, uint8_t value)
{
    uint8_t    copy[128];
    tr_tensor *t = tr_tensor_new();

    memcpy(copy, bytes, size);
    copy[at] = value;
    const tr_status status = load_bytes(t, copy, size);
    tr_tensor_free(t);
    return status;
}

TEST(damage_is_told_with_its_position)
{
    EXPECT_FAIL(TR_EFORMAT, "byte 0 of 50: expected record version 0, found 9", load_changed(plain, sizeof plain, 0, 9));
    EXPECT_FAIL(TR_EFORMAT, "byte 12 of 50: expected tensor version 0, found 1", load_changed(plain, sizeof plain, 12, 1));
    EXPECT_FAIL(TR_EFORMAT, "a tensor's description of 1 to 4096 bytes, found 0", load_changed(plain, sizeof plain, 16, 0));
    EXPECT_FAIL(TR_EFORMAT, "are no description of a tensor", load_changed(plain, sizeof plain, 20, 0x0a));
    EXPECT_FAIL(TR_EFORMAT, "data type is the unknown 7", load_changed(plain, sizeof plain, 21, 7));
    EXPECT_FAIL(TR_EFORMAT, "more bytes after the tensor, which ends at 42", load_changed(plain, sizeof plain, 25, 2));
    EXPECT_FAIL(TR_EFORMAT, "expected 32 bytes of a float32 tensor [2, 4], but 24 are left",
                load_changed(plain, sizeof plain, 25, 4));
    EXPECT_FAIL(TR_EFORMAT, "LoD level 0 ends at 2, but there are 3 rows",
                load_changed(sequences, sizeof sequences, 36, 2));
    EXPECT_FAIL(TR_EFORMAT, "LoD level 0 falls from 4 to 3", load_changed(sequences, sizeof sequences, 28, 4));
    EXPECT_FAIL(TR_EFORMAT, "a multiple of 8, found 25", load_changed(sequences, sizeof sequences, 12, 25));
    EXPECT_FAIL(TR_EFORMAT, "row index 0 is 10, but the height is 10", load_changed(rows, sizeof rows, 12, 10));
}

TEST(a_giant_claim_takes_no_memory)
{
    uint8_t    copy[sizeof plain];
    tr_tensor *t = tr_tensor_new();

    memcpy(copy, plain, sizeof plain);
    copy[4 + 6] = 0x7f;                                   /* 2^55 levels, or rows */
    EXPECT_FAIL(TR_EFORMAT, "at most 64 LoD levels, found 35747322042253312", load_bytes(t, copy, sizeof copy));
    tr_tensor_free(t);
}

TEST(a_tensor_without_a_value_and_a_missing_path_are_explained)
{
    tr_tensor *t = tr_tensor_new();

    EXPECT_FAIL(TR_EINVAL, "no value", tr_tensor_save(t, test_path("nothing")));
    assert_int_equal(access(test_path("nothing"), F_OK), -1);
    EXPECT_FAIL(TR_EIO, "cannot open '/no/such/file'", tr_tensor_load(t, "/no/such/file"));
    make_plain(t);
    EXPECT_FAIL(TR_EIO, "'/dev/null/x'", tr_tensor_save(t, "/dev/null/x"));
    EXPECT_FAIL(TR_EIO, "/dev/full", tr_tensor_save(t, "/dev/full/x/y"));
    tr_tensor_free(t);
}

/* A writer that lives has a lock on its file; other names are somebody else's. */
TEST(the_partial_file_of_a_dead_writer_is_removed_and_no_other)
{
    static const char *const there[] = {"t.1.1.tmp", "t.4000000.12.tmp", "t.1.2.tmp", "t.tmp", "t.1.tmp", "t.1.1.tmp2", "u.1.1.tmp"};
    enum { LEFT = 2, LOCKED = 2, ALL = sizeof there / sizeof *there };
    tr_tensor *t = tr_tensor_new();
    char       folder[128], path[256];
    int        locked = -1;

    make_plain(t);
    snprintf(folder, sizeof folder, "%s", test_path("left"));
    mkdir(folder, 0777);
    for (int i = 0; i < ALL; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, there[i]);
        const int fd = open(path, O_CREAT | O_WRONLY, 0666);
        assert_true(fd >= 0);
        if (i == LOCKED)
            assert_int_equal(flock(locked = fd, LOCK_EX), 0);
        else
            close(fd);
    }
    snprintf(path, sizeof path, "%s/t", folder);
    EXPECT_OK(tr_tensor_save(t, path));
    for (int i = 0; i < ALL; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, there[i]);
        assert_int_equal(access(path, F_OK) == 0, i >= LEFT);
    }
    close(locked);
    tr_tensor_free(t);
}

TEST(only_regular_files_are_read)
{
    tr_tensor  *t = tr_tensor_new();
    const char *fifo = test_path("fifo");

    assert_int_equal(mkfifo(fifo, 0666), 0);
    EXPECT_FAIL(TR_EIO, "is no regular file, but a FIFO", tr_tensor_load(t, fifo));
    EXPECT_FAIL(TR_EIO, "'/dev/zero' is no regular file, but a device", tr_tensor_load(t, "/dev/zero"));
    EXPECT_FAIL(TR_EIO, "'/tmp' is no regular file, but a folder", tr_tensor_load(t, "/tmp"));
    tr_tensor_free(t);
}

TEST(a_file_is_replaced_whole_and_its_folders_are_made)
{
    tr_tensor  *t = tr_tensor_new(), *got = tr_tensor_new();
    const char *path = test_path("a/b/c");

    make_plain(t);
    EXPECT_OK(tr_tensor_save(t, path));
    make_rows(t);
    EXPECT_OK(tr_tensor_save(t, path));
    EXPECT_OK(tr_tensor_load(got, path));
    expect_equal(got, t);
    DIR *folder = opendir(test_path("a/b"));
    int  entries = 0;
    while (readdir(folder))
        entries++;
    closedir(folder);
    assert_int_equal(entries, 3);                         /* ".", ".." and the file: nothing is left beside it */
    tr_tensor_free(t);
    tr_tensor_free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_the_bytes_of_the_format),
        cmocka_unit_test(files_are_read_as_what_they_are),
        cmocka_unit_test(records_stand_back_to_back),
        cmocka_unit_test(every_type_and_odd_shapes_come_back),
        cmocka_unit_test(selected_rows_without_a_row_are_written_and_read),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_flipped_bit_is_refused_or_a_tensor),
        cmocka_unit_test(damage_is_told_with_its_position),
        cmocka_unit_test(a_giant_claim_takes_no_memory),
        cmocka_unit_test(a_tensor_without_a_value_and_a_missing_path_are_explained),
        cmocka_unit_test(the_partial_file_of_a_dead_writer_is_removed_and_no_other),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(a_file_is_replaced_whole_and_its_folders_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
