/* test_row_files.c - one server with a table, two trainers, messages by hand: rows go into files and come out of files. */
#include "tests/support/server_rig.h"

#include "proto/pserver.pb-c.h"

#include <stdio.h>

enum { STRIDE = 24 };

/* A store whose table has in shard s one row, of key s and update s. It writes and reads nothing: the test says how that went. */
static int     saved, loaded, written;
static int     written_before;       /* rows that were set when the last file was begun to be read */
static char    path_of_file[64];
static int64_t rows_of_file;

static tr_status read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, uint32_t since, void **out, uint64_t *bytes)
{
    const int64_t  key = shard;
    const uint32_t numbers[2] = {1, shard};

    (void)self;
    (void)index;
    assert_false(are_candidates);
    *out = calloc(1, STRIDE);
    memcpy(*out, &key, 8);
    memcpy((char *)*out + 8, numbers, 8);
    *bytes = since && shard <= since ? 0 : STRIDE;
    return TR_OK;
}

static tr_status write_rows(void *self, const tr_form_write_rows *what, const void *rows, uint64_t bytes)
{
    (void)self;
    (void)rows;
    assert_false(what->clears || what->has_candidates);
    written += (int)(bytes / STRIDE);
    return TR_OK;
}

static void save(void *worker, uint32_t index, const tr_table_file *file, void *packed, uint64_t bytes)
{
    (void)worker;
    (void)index;
    assert_non_null(file->head);
    snprintf(path_of_file, sizeof path_of_file, "%s", file->path);
    rows_of_file = (int64_t)(bytes / STRIDE);
    saved++;
    free(packed);
}

static void load(void *worker, uint32_t index, const tr_table_file *file)
{
    (void)worker;
    (void)index;
    assert_null(file->head);
    assert_int_equal(file->crc, 17);
    snprintf(path_of_file, sizeof path_of_file, "%s", file->path);
    written_before = written;
    loaded++;
}

static void apply(void *worker, const tr_update *update)
{
    (void)worker;
    applying = update->number;
}

static rig make_with_files(const char *mode, bool all_join)
{
    tr_store store = plain_store();

    saved = loaded = written = 0;
    store.apply = apply;
    store.read_rows = read_rows;
    store.write_rows = write_rows;
    store.save_rows = save;
    store.load_rows = load;
    rig r = make_with_table(&store, mode);
    for (int i = TRAINER0; all_join && i <= TRAINER1; i++)
        say_join(&r, i);
    return r;
}

static void say_file(rig *r, int from, tr_wire wire, const char *path)
{
    Trireme__Pserver__RowsFile file = TRIREME__PSERVER__ROWS_FILE__INIT;
    uint8_t                    packed[128];

    file.path = (char *)(uintptr_t)path;
    file.has_head = wire.kind == TR_WIRE_SAVE_ROWS;
    file.head = (ProtobufCBinaryData){4, (uint8_t *)(uintptr_t)"head"};
    file.has_crc = !file.has_head;
    file.crc = 17;
    wire.bytes = trireme__pserver__rows_file__pack(&file, packed);
    say(r, from, wire, packed);
}

static void say_save(rig *r, int from, uint32_t shard, uint32_t shards, uint32_t since, const char *path)
{
    say_file(r, from, (tr_wire){.kind = TR_WIRE_SAVE_ROWS, .save_rows = {.shard = shard, .shards = shards, .since = since}}, path);
}

static void say_load(rig *r, int from, bool only_checks, const char *path)
{
    say_file(r, from, (tr_wire){.kind = TR_WIRE_LOAD_ROWS, .load_rows = {.only_checks = only_checks}}, path);
}

/* The file is done. `rows`: that were read. */
static void done(rig *r, tr_status status, int rows)
{
    const tr_table_file file = {.rows = rows_of_file, .last = 9, .crc = 5};

    tr_server_row_file(r->server, status == TR_OK ? TR_OK : tr_fail(status, "the disk is gone"), &file,
                       rows ? calloc((size_t)rows, STRIDE) : NULL, (uint64_t)rows * STRIDE);
}

/* How many files the server tells this trainer of now; the last of them. */
static int take_files(rig *r, int to, tr_wire *last, char *text)
{
    tr_message m;
    int        count = 0;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_ROWS_FILE) {
            *last = m.wire;
            memcpy(text, m.payload, m.wire.bytes);
            text[m.wire.bytes] = '\0';
            count++;
        }
        tr_message_over(&m);
    }
    return count;
}

TEST(files_are_written_one_at_a_time_and_told_of)
{
    rig     r = make_with_files("sync", true);
    tr_wire told = {0};
    char    text[256];

    say_save(&r, TRAINER0, 10, 4, 0, "/a");
    say_save(&r, TRAINER1, 0, TABLE_SHARDS, 1000, "/b");
    assert_true(saved == 1 && rows_of_file == 4 && !strcmp(path_of_file, "/a"));
    say_file(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SAVE_ROWS, .seq = r.seq[TRAINER0], .save_rows = {.shard = 10, .shards = 4}}, "/a");
    assert_int_equal(saved, 1);
    done(&r, TR_OK, 0);
    assert_int_equal(take_files(&r, TRAINER0, &told, text), 1);
    assert_true(told.rows_file.rows == 4 && told.rows_file.last == 9 && told.rows_file.crc == 5 && told.rows_file.status == TR_OK);
    assert_true(saved == 2 && rows_of_file == 23 && !strcmp(path_of_file, "/b"));
    done(&r, TR_ENOTFOUND, 0);
    assert_int_equal(take_files(&r, TRAINER1, &told, text), 1);
    assert_true(told.rows_file.status == TR_ENOTFOUND && strstr(text, "the disk is gone"));
    say_file(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SAVE_ROWS, .seq = r.seq[TRAINER0], .save_rows = {.shard = 10, .shards = 4}}, "/a");
    assert_int_equal(saved, 3);                        /* its answer may be lost: the file is written again */
    unmake(&r);
}

TEST(a_file_waits_for_an_update)
{
    rig r = make_with_files("sync", true);

    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1, .is_idle = true}}, NULL);
    say_file(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SAVE_ROWS, .save_rows = {.step = 1, .shards = 1}}, "/a");
    assert_int_equal(saved, 0);                        /* the step is not settled */
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1, .is_idle = true}}, NULL);
    assert_true(applying == 1 && saved == 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(saved, 1);
    unmake(&r);
}

TEST(a_dead_trainers_file_is_written_and_nobody_is_told)
{
    rig     r = make_with_files("async", true);
    tr_wire told = {0};
    char    text[256];

    say_save(&r, TRAINER0, 0, 1, 0, "/a");
    say_save(&r, TRAINER0, 1, 1, 0, "/never");
    lose(&r, TRAINER0);
    say_save(&r, TRAINER1, 0, 1, 0, "/b");
    assert_int_equal(saved, 1);
    done(&r, TR_OK, 0);
    assert_int_equal(take_files(&r, TRAINER0, &told, text), 0);
    assert_true(saved == 2 && !strcmp(path_of_file, "/b"));
    done(&r, TR_OK, 0);
    assert_int_equal(take_files(&r, TRAINER1, &told, text), 1);
    unmake(&r);
}

TEST(first_rows_come_from_files_before_trainer_0_joins)
{
    rig     r = make_with_files("sync", false);
    tr_wire told = {0};
    char    text[256];

    say_join(&r, TRAINER1);
    say_load(&r, TRAINER0, false, "/a");
    say_load(&r, TRAINER0, true, "/b");
    assert_true(loaded == 1 && written == 0);
    done(&r, TR_OK, 7);
    assert_true(loaded == 2 && written == 7 && !strcmp(path_of_file, "/b"));
    done(&r, TR_OK, 9);
    assert_int_equal(written, 7);                      /* the second was only compared */
    say_load(&r, TRAINER0, false, "/c");
    done(&r, TR_EFORMAT, 0);
    assert_int_equal(take_files(&r, TRAINER0, &told, text), 3);
    assert_true(told.rows_file.status == TR_EFORMAT && strstr(text, "the disk is gone") && written == 7);
    const char *why;
    assert_int_equal(status_of(&r, &why), TR_OK);
    unmake(&r);
}

TEST(the_next_file_is_read_while_rows_are_set)
{
    rig     r = make_with_files("sync", false);
    tr_wire told = {0};
    char    text[256];

    say_load(&r, TRAINER0, false, "/a");
    say_load(&r, TRAINER0, false, "/b");
    say_load(&r, TRAINER0, false, "/c");
    done(&r, TR_OK, 7);
    assert_true(loaded == 2 && written_before == 0 && written == 7);
    done(&r, TR_EFORMAT, 0);                           /* one that failed has nothing to set */
    assert_true(loaded == 3 && written_before == 7 && !strcmp(path_of_file, "/c"));
    assert_int_equal(take_files(&r, TRAINER0, &told, text), 2);
    lose(&r, TRAINER0);
    done(&r, TR_OK, 9);
    assert_int_equal(written, 7);                      /* nobody waits for these rows any more */
    unmake(&r);
}

TEST(wrong_requests_are_refused)
{
    static const struct {
        uint32_t shard, shards;
    } wrong[] = {{0, 0}, {0, TABLE_SHARDS + 1}, {TABLE_SHARDS, 1}, {1, UINT32_MAX}};

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rig r = make_with_files("sync", true);
        say_save(&r, TRAINER0, wrong[i].shard, wrong[i].shards, 0, "/a");
        EXPECT_REFUSED(&r, "which this server does not have");
        unmake(&r);
    }
    rig r = make_with_files("sync", false);
    say_load(&r, TRAINER1, false, "/a");
    EXPECT_REFUSED(&r, "trainer 0 may");
    unmake(&r);
    r = make_with_files("sync", true);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SAVE_ROWS, .bytes = 3, .save_rows = {.shards = 1}}, "\x0a\xff\xff");
    EXPECT_REFUSED(&r, "a damaged SAVE_ROWS");
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_written_one_at_a_time_and_told_of),
        cmocka_unit_test(a_file_waits_for_an_update),
        cmocka_unit_test(a_dead_trainers_file_is_written_and_nobody_is_told),
        cmocka_unit_test(first_rows_come_from_files_before_trainer_0_joins),
        cmocka_unit_test(the_next_file_is_read_while_rows_are_set),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
