/* test_checkpoint.c - checkpoints come back as they were written, whoever wrote them, or not at all. */
#include "tests/support/expect.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "framework/tensors/random.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/util/crc32c.h"

/* -- checksums ------------------------------------------------------------------------------------ */

TEST(checksums_are_those_of_the_standard)
{
    uint8_t bytes[32];

    assert_int_equal(tr_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);                /* RFC 3720, B.4 */
    assert_int_equal(tr_crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 255, sizeof bytes);
    assert_int_equal(tr_crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    assert_int_equal(tr_crc32c(0, bytes, 0), 0);
}

TEST(checksums_do_not_depend_on_how_they_are_computed)
{
    static uint8_t large[60000];
    uint8_t        bytes[300];

    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (uint8_t)tr_random_bits(8, i);
    for (size_t size = 12000; size < sizeof large - 9; size += 1111)
        assert_int_equal(tr_crc32c(5, large + size % 9, size), tr_crc32c_plain(5, large + size % 9, size));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)tr_random_bits(7, i);
    for (size_t begin = 0; begin < 9; begin++)
        for (size_t size = 0; begin + size <= sizeof bytes; size += 13) {
            const uint32_t whole = tr_crc32c(0, bytes + begin, size);
            assert_int_equal(tr_crc32c_plain(0, bytes + begin, size), whole);
            assert_int_equal(tr_crc32c(tr_crc32c(0, bytes + begin, size / 3), bytes + begin + size / 3, size - size / 3), whole);
        }
}

/* -- helpers -------------------------------------------------------------------------------------- */

/* A fresh folder each time. */
static const char *new_folder(void)
{
    static int  count;
    static char path[4][512];
    char        name[32];

    snprintf(name, sizeof name, "checkpoints%d", count++);
    snprintf(path[count % 4], sizeof path[0], "%s", test_path(name));
    return path[count % 4];
}

static const char *file_of(const char *folder, int64_t step, const char *name)
{
    static char path[1024];
    char       *step_folder = tr_checkpoint_path(folder, step);

    snprintf(path, sizeof path, "%s/%s", step_folder, name);
    free(step_folder);
    return path;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

/* The value of element i of an array at a step: what it must come back as. */
static float value_at(int64_t step, int array, int64_t i)
{
    return (float)tr_random_bits((uint64_t)step * 31 + (uint64_t)array, (uint64_t)i) / 1e9f;
}

enum { ROWS = 700, COLUMNS = 500 };                /* a little more than a chunk */

static float w[ROWS * COLUMNS], moment[ROWS * COLUMNS];
static double power[1];
static int64_t counter[1];
static const int64_t w_dims[] = {ROWS, COLUMNS}, one[] = {1};

static void fill(int64_t step)
{
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        w[i] = value_at(step, 0, i);
        moment[i] = value_at(step, 1, i);
    }
    power[0] = 0.5 + (double)step;
    counter[0] = step;
}

static const tr_checkpoint_item states[] = {
    {"w", NULL, TR_STATE_PARAMETER, TR_FP32, 2, w_dims, 0, 0, w},
    {"w.moment", "w", TR_STATE_OPTIMIZER, TR_FP32, 2, w_dims, 0, 0, moment},
    {"w.power", "w", TR_STATE_OPTIMIZER, TR_FP64, 1, one, 0, 0, power},
    {"counter", NULL, TR_STATE_SCHEDULE, TR_INT64, 1, one, 0, 0, counter},
    {"number", NULL, TR_STATE_STATISTIC, TR_INT64, 0, NULL, 0, 0, counter},
};
enum { STATES = sizeof states / sizeof *states };

static const tr_trainer_state trainers[] = {{0, 12, 13, "line 4\0 5", 9}, {1, 11, 12, NULL, 0}};

static tr_checkpoint_facts facts_of(int64_t step)
{
    return (tr_checkpoint_facts){step, "sync", "abc", 2, trainers};
}

static void save(const char *folder, int64_t step, int keep)
{
    const tr_checkpoint_facts facts = facts_of(step);

    fill(step);
    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, STATES, states, keep));
}

static tr_status open_and_verify(const char *folder)
{
    tr_checkpoint *c = NULL;
    tr_status      status = tr_checkpoint_open(&c, folder);

    if (status == TR_OK)
        status = tr_checkpoint_verify(c);
    tr_checkpoint_free(c);
    return status;
}

/* All its arrays are those of its step. */
static void expect_whole(const tr_checkpoint *c)
{
    static float   got[ROWS * COLUMNS];
    const int64_t  step = tr_checkpoint_step(c);
    tr_checkpoint_item       a;
    double         p;
    int64_t        n;

    assert_int_equal(tr_checkpoint_count(c), STATES);
    for (int array = 0; array < 2; array++) {
        const int index = tr_checkpoint_find(c, array ? "w.moment" : "w");
        assert_true(index >= 0);
        tr_checkpoint_array(&a, c, index);
        assert_int_equal(a.rank, 2);
        assert_int_equal(a.dims[0], ROWS);
        assert_int_equal(a.dims[1], COLUMNS);
        assert_int_equal(a.kind, array ? TR_STATE_OPTIMIZER : TR_STATE_PARAMETER);
        EXPECT_OK(tr_checkpoint_read(c, index, 0, ROWS, got, sizeof got));
        for (int64_t i = 0; i < ROWS * COLUMNS; i++)
            assert_true(got[i] == value_at(step, array, i));
    }
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w.power"), 0, 1, &p, sizeof p));
    assert_true(p == 0.5 + (double)step);
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "number"), 0, 1, &n, sizeof n));
    assert_int_equal(n, step);
}

/* -- round trips ---------------------------------------------------------------------------------- */

TEST(a_checkpoint_comes_back_as_it_was_written)
{
    const char      *folder = new_folder();
    tr_checkpoint   *c = NULL;
    tr_trainer_state t;
    char            *refused;

    save(folder, 12, 0);
    EXPECT_OK(tr_checkpoint_open_newest(&c, &refused, folder));
    assert_null(refused);
    assert_int_equal(tr_checkpoint_step(c), 12);
    assert_string_equal(tr_checkpoint_mode(c), "sync");
    assert_string_equal(tr_checkpoint_digest(c), "abc");
    assert_string_equal(tr_checkpoint_version(c), tr_version());
    assert_int_equal(tr_checkpoint_parts(c), 1);
    expect_whole(c);
    assert_int_equal(tr_checkpoint_trainers(c), 2);
    tr_checkpoint_trainer(&t, c, 0);
    assert_int_equal(t.steps, 12);
    assert_int_equal(t.runs, 13);
    assert_int_equal(t.position_size, 9);
    assert_memory_equal(t.position, "line 4\0 5", 9);
    tr_checkpoint_trainer(&t, c, 1);
    assert_null(t.position);
    assert_int_equal(tr_checkpoint_find(c, "v"), -1);
    assert_int_equal(tr_checkpoint_find(c, "w.x"), -1);
    tr_checkpoint_free(c);
}

TEST(any_rows_can_be_read)
{
    static const struct { int64_t row, rows; } ranges[] = {{0, 1}, {0, ROWS}, {699, 1}, {523, 4}, {520, 180}, {3, 0}, {700, 0}};
    static float    got[ROWS * COLUMNS];
    const char     *folder = new_folder();
    tr_checkpoint  *c = NULL;

    save(folder, 3, 0);
    char *path = tr_checkpoint_path(folder, 3);
    EXPECT_OK(tr_checkpoint_open(&c, path));
    const int index = tr_checkpoint_find(c, "w.moment");
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        const int64_t n = ranges[r].rows * COLUMNS;
        EXPECT_OK(tr_checkpoint_read(c, index, ranges[r].row, ranges[r].rows, got, n * 4));
        for (int64_t i = 0; i < n; i++)
            assert_true(got[i] == value_at(3, 1, ranges[r].row * COLUMNS + i));
    }
    EXPECT_FAIL(TR_ERANGE, "rows 699 to 701 of 'w.moment', which has 700", tr_checkpoint_read(c, index, 699, 2, got, 4000));
    EXPECT_FAIL(TR_ERANGE, "into 3 bytes", tr_checkpoint_read(c, index, 0, 1, got, 3));
    EXPECT_FAIL(TR_ERANGE, "array 9", tr_checkpoint_read(c, 9, 0, 1, got, 3));
    tr_checkpoint_free(c);
    free(path);
}

/* Three servers hold rows of one parameter, and each a copy of a number. */
static tr_part *write_rows(const char *folder, int server, int64_t begin, int64_t end, uint64_t snapshot)
{
    const int64_t  dims[] = {end - begin, COLUMNS};
    const tr_checkpoint_item mine[] = {
        {"w", NULL, TR_STATE_PARAMETER, TR_FP32, 2, dims, begin, ROWS, w + begin * COLUMNS},
        {"w.power", "w", TR_STATE_OPTIMIZER, TR_FP64, 1, one, 0, 0, power},
    };
    char    *name = tr_part_name(server, 3, snapshot);
    tr_part *part = NULL;
    size_t   size;

    EXPECT_OK(tr_part_write(&part, folder, name, TR_ROWS_EXACT, 2, mine));
    uint8_t *bytes = tr_part_pack(&size, part);    /* as it travels */
    tr_part_free(part);
    part = tr_part_parse(bytes, size);
    assert_non_null(part);
    free(bytes);
    free(name);
    return part;
}

static tr_status write_parts(const char *folder, const int64_t snapshots[4])
{
    const tr_checkpoint_facts facts = facts_of(5);
    const uint64_t            snapshot = tr_checkpoint_new_number();
    tr_part                  *parts[3];

    for (int i = 0; i < 3; i++)
        parts[i] = write_rows(folder, i, snapshots[i], snapshots[i + 1], snapshot);
    const tr_status status = tr_manifest_write(NULL, folder, &facts, "4,2", snapshot, 3, parts);
    for (int i = 0; i < 3; i++)
        tr_part_free(parts[i]);
    return status;
}

TEST(pieces_of_several_servers_are_one_array)
{
    static float    got[ROWS * COLUMNS];
    char           *path = tr_checkpoint_path(new_folder(), 5);
    tr_checkpoint  *c = NULL;
    tr_checkpoint_item        a;
    double          p;

    fill(5);
    EXPECT_OK(write_parts(path, (const int64_t[]){0, 100, 101, ROWS}));
    EXPECT_OK(tr_checkpoint_open(&c, path));
    assert_int_equal(tr_checkpoint_count(c), 2);
    assert_string_equal(tr_checkpoint_groups(c), "4,2");
    tr_checkpoint_array(&a, c, tr_checkpoint_find(c, "w"));
    assert_int_equal(a.dims[0], ROWS);
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w"), 0, ROWS, got, sizeof got));
    assert_memory_equal(got, w, sizeof w);
    /* What one of two servers takes: its first rows are the second's, its last the third's. */
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w"), 100, 250, got, 250 * COLUMNS * 4));
    assert_memory_equal(got, w + 100 * COLUMNS, 250 * COLUMNS * 4);
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w.power"), 0, 1, &p, 8));
    assert_true(p == 5.5);
    tr_checkpoint_free(c);
    free(path);
}

TEST(missing_and_doubled_rows_are_refused)
{
    char          *path = tr_checkpoint_path(new_folder(), 5);
    tr_checkpoint *c = NULL;

    fill(5);
    EXPECT_OK(write_parts(path, (const int64_t[]){0, 100, 101, ROWS - 1}));
    EXPECT_FAIL(TR_EFORMAT, "array 'w': it has 700 rows, 699 are there", tr_checkpoint_open(&c, path));
    EXPECT_OK(write_parts(path, (const int64_t[]){1, 100, 101, ROWS}));
    EXPECT_FAIL(TR_EFORMAT, "array 'w': rows from 0 on are missing", tr_checkpoint_open(&c, path));
    free(path);
}

/* -- damage ---------------------------------------------------------------------------------------- */

static const float small_values[] = {1, 2, 3, 4, 5, 6};
static const int64_t small_dims[] = {3, 2};

static void save_small(const char *folder, int64_t step)
{
    const tr_checkpoint_item            small[] = {{"w", NULL, TR_STATE_PARAMETER, TR_FP32, 2, small_dims, 0, 0, small_values},
                                         {"n", "w", TR_STATE_OPTIMIZER, TR_INT64, 1, one, 0, 0, counter}};
    const tr_checkpoint_facts facts = facts_of(step);

    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, 2, small, 0));
}

/* The part's file name, as the folder has it. */
static const char *part_of(const char *folder, int64_t step)
{
    static char path[1024];
    char        pattern[1024];

    snprintf(pattern, sizeof pattern, "ls %s", file_of(folder, step, "part-*.data"));
    FILE *list = popen(pattern, "r");
    assert_non_null(fgets(path, sizeof path, list));
    path[strcspn(path, "\n")] = '\0';
    pclose(list);
    return path;
}

/* Each byte of a file flipped, each end cut off: refused, and what was there before is taken. */
static void expect_refused_when_damaged(const char *folder, const char *path)
{
    size_t   size;
    uint8_t *bytes = test_read_file(&size, path);
    char    *newest = tr_checkpoint_path(folder, 2), *refused = NULL;

    for (size_t i = 0; i < size; i++) {
        for (int bit = 0; bit < 8; bit += 1 + (int)(i % 3)) {
            bytes[i] ^= (uint8_t)(1 << bit);
            write_file(path, bytes, size);
            bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_equal(open_and_verify(newest), TR_EFORMAT);
        }
        write_file(path, bytes, i);
        assert_int_equal(open_and_verify(newest), TR_EFORMAT);
    }
    bytes = realloc(bytes, size + 1);
    bytes[size] = 0;
    write_file(path, bytes, size + 1);
    assert_int_equal(open_and_verify(newest), TR_EFORMAT);
    tr_checkpoint *c = NULL;
    EXPECT_OK(tr_checkpoint_open_newest(&c, &refused, folder));
    assert_int_equal(tr_checkpoint_step(c), 1);
    assert_non_null(strstr(refused, path));
    tr_checkpoint_free(c);
    tr_free(refused);
    write_file(path, bytes, size);
    EXPECT_OK(open_and_verify(newest));
    free(bytes);
    free(newest);
}

TEST(every_flipped_byte_and_every_truncation_is_refused)
{
    const char *folder = new_folder();

    counter[0] = 77;
    save_small(folder, 1);
    save_small(folder, 2);
    expect_refused_when_damaged(folder, file_of(folder, 2, "manifest"));
    expect_refused_when_damaged(folder, part_of(folder, 2));
}

TEST(the_damaged_file_of_a_checkpoint_is_named)
{
    const char    *folder = new_folder(), *path;
    tr_checkpoint *c = NULL;
    char          *newest = tr_checkpoint_path(folder, 7), *refused;
    size_t         size;

    save(folder, 7, 0);
    path = part_of(folder, 7);
    uint8_t *bytes = test_read_file(&size, path);
    bytes[(1 << 20) + 5] ^= 4;
    write_file(path, bytes, size);
    EXPECT_OK(tr_checkpoint_open(&c, newest));
    EXPECT_FAIL(TR_EFORMAT, "chunk 1 (bytes 1048576 to 2097152): expected the checksum ", tr_checkpoint_verify(c));
    EXPECT_FAIL(TR_EFORMAT, "chunk 1", tr_checkpoint_read(c, tr_checkpoint_find(c, "w"), 0, ROWS, w, sizeof w));
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w"), 0, 100, w, 100 * COLUMNS * 4));
    tr_checkpoint_free(c);
    EXPECT_FAIL(TR_ENOTFOUND, "chunk 1", tr_checkpoint_open_newest(&c, &refused, folder));
    assert_null(refused);
    write_file(path, bytes, size - 1);
    EXPECT_FAIL(TR_EFORMAT, "expected 2800136 bytes, found 2800135", tr_checkpoint_open(&c, newest));
    assert_int_equal(unlink(path), 0);
    EXPECT_FAIL(TR_EFORMAT, "No such file", tr_checkpoint_open(&c, newest));
    assert_int_equal(unlink(file_of(folder, 7, "manifest")), 0);
    EXPECT_FAIL(TR_EFORMAT, "manifest': No such file", tr_checkpoint_open(&c, newest));
    free(bytes);
    free(newest);
}

TEST(a_folder_without_checkpoints_has_none)
{
    tr_checkpoint *c = NULL;
    char          *refused;
    int64_t        steps[4];

    assert_int_equal(tr_checkpoint_list(steps, 4, "/nowhere/at/all"), 0);
    EXPECT_FAIL(TR_ENOTFOUND, "there is no checkpoint in '/nowhere/at/all'",
                tr_checkpoint_open_newest(&c, &refused, "/nowhere/at/all"));
}

/* -- which ones stay ------------------------------------------------------------------------------- */

TEST(the_newest_ones_are_kept)
{
    const char *folder = new_folder();
    int64_t     steps[8];

    for (int64_t step = 1; step <= 5; step++)
        save_small(folder, step * 10);
    save(folder, 60, 3);
    assert_int_equal(tr_checkpoint_list(steps, 8, folder), 3);
    assert_int_equal(steps[0], 60);
    assert_int_equal(steps[2], 40);
}

TEST(damaged_checkpoints_do_not_count_and_foreign_files_stay)
{
    const char *folder = new_folder();
    int64_t     steps[8];

    for (int64_t step = 1; step <= 4; step++)
        save_small(folder, step);
    write_file(file_of(folder, 4, "manifest"), "x", 1);         /* newer than all valid ones: stays */
    write_file(file_of(folder, 2, "manifest"), "x", 1);
    write_file(file_of(folder, 1, "notes"), "mine", 4);
    tr_checkpoint_prune(folder, 1);
    assert_int_equal(tr_checkpoint_list(steps, 8, folder), 2);
    assert_int_equal(steps[0], 4);
    assert_int_equal(steps[1], 3);
    assert_int_equal(access(file_of(folder, 1, "notes"), F_OK), 0);
}

TEST(the_same_step_can_be_written_again)
{
    const char    *folder = new_folder();
    tr_checkpoint *c = NULL;
    char          *path = tr_checkpoint_path(folder, 9);
    char           count[512];

    save_small(folder, 9);
    save(folder, 9, 0);
    EXPECT_OK(tr_checkpoint_open(&c, path));
    expect_whole(c);
    tr_checkpoint_free(c);
    snprintf(count, sizeof count, "test $(ls %s | wc -l) = 2", path);
    assert_int_equal(system(count), 0);            /* the first one's part is gone */
    free(path);
}

/* -- writers that die -------------------------------------------------------------------------------- */

static void write_for_ever(const char *folder, int64_t from)
{
    for (int64_t step = from;; step++) {
        const tr_checkpoint_facts facts = facts_of(step);
        fill(step);
        if (tr_checkpoint_save(NULL, folder, &facts, STATES, states, 2) != TR_OK)
            _exit(1);
    }
}

TEST(a_killed_writer_leaves_nothing_that_is_taken_for_valid)
{
    enum { ROUNDS = 12 };
    const char *folder = new_folder();
    int64_t     last = 0;
    uint64_t    limit = 20000;                     /* microseconds: doubled while nothing gets done */

    for (int round = 0; round < ROUNDS; round++) {
        const int64_t before = last;
        const pid_t child = fork();
        if (child == 0)
            write_for_ever(folder, last + 1);
        usleep((useconds_t)tr_random_below(11, (uint64_t)round, limit));
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        tr_checkpoint *c = NULL;
        char          *refused = NULL;
        const tr_status status = tr_checkpoint_open_newest(&c, &refused, folder);
        if (status == TR_OK) {
            assert_true(tr_checkpoint_step(c) >= last);          /* what was there stays */
            last = tr_checkpoint_step(c);
            expect_whole(c);
        } else {
            assert_int_equal(status, TR_ENOTFOUND);
            assert_int_equal(last, 0);
        }
        if (last == before && limit < 2000000)
            limit *= 2;
        tr_checkpoint_free(c);
        tr_free(refused);
    }
    assert_true(last > 0);
}

TEST(a_disk_that_takes_nothing_is_reported)
{
    const tr_checkpoint_facts facts = facts_of(1);
    const char               *file = test_path("a_file");

    write_file(file, "x", 1);
    EXPECT_FAIL(TR_EIO, "a_file", tr_checkpoint_save(NULL, file, &facts, STATES, states, 0));
}

/* Whoever makes the bytes hears of it in the end, however many wait in line by then, and nothing stays. */
TEST(a_disk_that_is_full_in_the_middle_is_reported)
{
    enum { MANY = 20 << 18 };
    static float              many[MANY];
    const int64_t             dims[] = {MANY};
    const tr_checkpoint_item            large = {"large", NULL, TR_STATE_PARAMETER, TR_FP32, 1, dims, 0, 0, many};
    const tr_checkpoint_facts facts = facts_of(1);
    const char               *folder = new_folder();
    struct rlimit             before, less;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t mib = 1; mib < 20; mib += 9) {
        less.rlim_cur = mib << 20;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        const tr_status status = tr_checkpoint_save(NULL, folder, &facts, 1, &large, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, TR_EIO);
        assert_non_null(strstr(tr_error(), "File too large"));
        char *step = tr_checkpoint_path(folder, 1);
        assert_int_not_equal(access(step, F_OK), 0);
        free(step);
    }
    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, 1, &large, 0));
}

TEST(wrong_arrays_are_refused_before_anything_is_written)
{
    const tr_checkpoint_facts facts = facts_of(1), before = facts_of(-1);
    const tr_checkpoint_item            bad = {"w", NULL, TR_STATE_PARAMETER, (tr_dtype)99, 1, one, 0, 0, power};
    const char               *folder = new_folder();

    EXPECT_FAIL(TR_EINVAL, "array 0 ('w') is of kind 0, data type 99", tr_checkpoint_save(NULL, folder, &facts, 1, &bad, 0));
    EXPECT_FAIL(TR_ERANGE, "step -1", tr_checkpoint_save(NULL, folder, &before, STATES, states, 0));
    assert_int_equal(access(folder, F_OK), -1);
}

TEST(later_starts_of_a_launch_know_where_it_began)
{
    const tr_checkpoint_facts facts = facts_of(12);
    const char               *folder = new_folder();
    tr_checkpoint            *from;
    tr_trainer_state          place;

    assert_int_equal(tr_checkpoint_save(NULL, folder, &facts, STATES, states, 0), TR_OK);
    char *path = tr_checkpoint_path(folder, 12);
    assert_int_equal(tr_checkpoint_open(&from, path), TR_OK);
    tr_free(path);
    tr_checkpoint_place(&place, from, 1);
    assert_true(place.steps == 11 && place.runs == 12);
    tr_checkpoint_place(&place, from, 7);          /* it is not known: as trainer 0 */
    assert_true(place.index == 7 && place.steps == 12 && place.runs == 13);

    unsetenv("TRIREME_STATE");
    tr_beginning_write(folder, from);              /* nobody would start this job again */
    setenv("TRIREME_STATE", "trireme-state-1-2.0", 1);
    tr_beginning_read(&place, folder, 1);
    assert_true(place.steps == 0 && place.runs == 0);
    tr_beginning_write(folder, from);
    tr_beginning_read(&place, folder, 1);
    assert_true(place.steps == 11 && place.runs == 12);
    tr_beginning_read(&place, folder, 7);
    assert_true(place.steps == 12 && place.runs == 13);

    setenv("TRIREME_STATE", "trireme-state-1-2.1", 1);         /* the servers have lost what they had */
    tr_beginning_read(&place, folder, 1);
    assert_int_equal(place.steps, 0);
    tr_beginning_write(folder, NULL);
    setenv("TRIREME_STATE", "trireme-state-1-2.0", 1);
    tr_beginning_read(&place, folder, 1);
    assert_int_equal(place.steps, 0);
    unsetenv("TRIREME_STATE");
    tr_checkpoint_free(from);
}

static void set_age(const char *folder, const char *name, int seconds)
{
    char                  path[512];
    struct timespec       now;
    const struct timespec keep = {0, UTIME_OMIT};

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){keep, {now.tv_sec - seconds, now.tv_nsec}}, 0), 0);
}

static bool is_about(double seconds, double age)
{
    return age >= seconds && age < seconds + 60;
}

TEST(the_age_of_the_last_one_is_that_of_the_launch_if_that_is_younger)
{
    const tr_checkpoint_facts facts = facts_of(12);
    const char               *folder = new_folder();

    unsetenv("TRIREME_STATE");
    assert_true(tr_checkpoint_age(folder) < 0);
    assert_int_equal(tr_checkpoint_save(NULL, folder, &facts, STATES, states, 0), TR_OK);
    assert_true(is_about(0, tr_checkpoint_age(folder)));
    set_age(folder, "step-000000012/manifest", 5000);
    assert_true(is_about(5000, tr_checkpoint_age(folder)));

    setenv("TRIREME_STATE", "trireme-state-1-2.0", 1);
    tr_beginning_write(folder, NULL);
    assert_true(is_about(0, tr_checkpoint_age(folder)));
    set_age(folder, ".began-trireme-state-1-2.0", 1000);
    assert_true(is_about(1000, tr_checkpoint_age(folder)));
    set_age(folder, "step-000000012/manifest", 100);
    assert_true(is_about(100, tr_checkpoint_age(folder)));
    set_age(folder, "step-000000012/manifest", -9);            /* of a host whose clock is ahead */
    assert_true(is_about(0, tr_checkpoint_age(folder)));
    unsetenv("TRIREME_STATE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_those_of_the_standard),
        cmocka_unit_test(checksums_do_not_depend_on_how_they_are_computed),
        cmocka_unit_test(a_checkpoint_comes_back_as_it_was_written),
        cmocka_unit_test(any_rows_can_be_read),
        cmocka_unit_test(pieces_of_several_servers_are_one_array),
        cmocka_unit_test(missing_and_doubled_rows_are_refused),
        cmocka_unit_test(every_flipped_byte_and_every_truncation_is_refused),
        cmocka_unit_test(the_damaged_file_of_a_checkpoint_is_named),
        cmocka_unit_test(a_folder_without_checkpoints_has_none),
        cmocka_unit_test(the_newest_ones_are_kept),
        cmocka_unit_test(damaged_checkpoints_do_not_count_and_foreign_files_stay),
        cmocka_unit_test(the_same_step_can_be_written_again),
        cmocka_unit_test(a_killed_writer_leaves_nothing_that_is_taken_for_valid),
        cmocka_unit_test(a_disk_that_takes_nothing_is_reported),
        cmocka_unit_test(a_disk_that_is_full_in_the_middle_is_reported),
        cmocka_unit_test(wrong_arrays_are_refused_before_anything_is_written),
        cmocka_unit_test(later_starts_of_a_launch_know_where_it_began),
        cmocka_unit_test(the_age_of_the_last_one_is_that_of_the_launch_if_that_is_younger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
