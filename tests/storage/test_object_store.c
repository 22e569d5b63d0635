/* test_object_store.c - requests to the process that reads and writes files of stores: its answers, its failures, its death, forks.
 * fake_store.py is the process. */
#include "tests/support/expect.h"

#include "storage/checkpoint/place.h"
#include "storage/stores/object_store.h"
#include "storage/stores/store_process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 16 };
static const char FAKE[] = "exec python3 tests/storage/fake_store.py";

/* A file as a text, to be freed. */
static char *get(const char *path)
{
    uint8_t *bytes = NULL;
    size_t   size;

    EXPECT_OK(tr_store_get(&bytes, &size, path, MOST));
    return (char *)bytes;
}

static long number(const char *path)
{
    char      *text = get(path);
    const long value = strtol(text, NULL, 10);

    free(text);
    return value;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void end_process(void)
{
    int64_t size;
    EXPECT_FAIL(TR_EIO, "has ended; is its program on the PATH?", tr_store_size(&size, NULL, "fake://dies"));
}

/* == names ==================================================================================== */

TEST(a_scheme_makes_a_uri)
{
    static const char *const uris[] = {"s3://bucket/a", "file:///a", "HDFS://h:1/a", "a+b.c-d1://x", "s3://"};
    static const char *const paths[] = {"", "a", "/a/b", "C:/a", "c://a", "://a", "s3:/a", "a/s3://b", "s 3://a", "s3", "s3:"};

    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++)
        assert_true(tr_store_is_uri(uris[i]) && tr_store_opens(uris[i]));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_false(tr_store_is_uri(paths[i]) || tr_store_opens(paths[i]));
}

TEST(some_packed_files_are_opened_too)
{
    assert_true(tr_store_unpacks("a.zst") && tr_store_unpacks("b/a.bz2") && tr_store_unpacks("s3://b/a.zst") && tr_store_opens("a.zst"));
    assert_false(tr_store_unpacks("a.gz") || tr_store_unpacks(".zst") || tr_store_unpacks("zst") || tr_store_unpacks("a.zst.txt"));
}

/* == answers ================================================================================== */

TEST(files_are_asked_about)
{
    int64_t size = 0;
    double  written = 0;
    char   *lines = NULL;

    tr_store_set_command(FAKE);
    EXPECT_OK(tr_store_size(&size, &written, "fake://size"));
    assert_int_equal(size, 1234);
    assert_float_equal(written, 5.0, 0.0);
    EXPECT_OK(tr_store_size(NULL, NULL, "fake://size"));
    EXPECT_OK(tr_store_list(&lines, "fake://folder"));
    assert_string_equal(lines, "7 a/x\n0 b\n");
    free(lines);
    EXPECT_OK(tr_store_remove("fake://bytes"));
}

TEST(a_failure_keeps_its_code_and_its_text)
{
    int64_t size;

    EXPECT_FAIL(TR_ENOTFOUND, "so it is", tr_store_size(&size, NULL, "fake://failed/ENOTFOUND"));
    EXPECT_FAIL(TR_ETIMEOUT, "so it is", tr_store_remove("fake://failed/ETIMEOUT"));
    EXPECT_FAIL(TR_EIO, "so it is", tr_store_size(&size, NULL, "fake://failed/EUNHEARDOF"));
}

TEST(an_answer_that_is_none_is_a_failure)
{
    int64_t size;

    EXPECT_FAIL(TR_EIO, "'fake://silent': the process that reads stores, 'exec python3 ", tr_store_size(&size, NULL, "fake://silent"));
    EXPECT_FAIL(TR_EIO, "is its program on the PATH?", tr_store_size(&size, NULL, "fake://noise"));
    assert_int_equal(number("fake://given-up"), 0);        /* it still answers */
}

TEST(a_name_has_an_end)
{
    char *name = malloc(MOST + 1);

    memset(name, 'x', MOST);
    name[MOST] = '\0';
    memcpy(name, "fake://", 7);
    EXPECT_FAIL(TR_EINVAL, "a name of 65536 bytes is longer than any store's", tr_store_remove(name));
    free(name);
}

/* == reading ================================================================================== */

TEST(a_range_is_read)
{
    tr_range *range;
    uint8_t   bytes[300];

    EXPECT_OK(tr__place_store.open(&range, "fake://bytes", 100, 400));
    for (int at = 0; at < 300; at += 100)
        EXPECT_OK(tr__place_store.read(range, bytes + at, 100));
    for (int i = 0; i < 300; i++)
        assert_int_equal(bytes[i], (100 + i) % 251);
    tr__place_store.close(range);
}

TEST(a_file_that_sends_too_little_is_a_failure)
{
    static const struct {
        const char *path;
        tr_status   status;
        const char *text;
    } cases[] = {
        {"fake://short", TR_EFORMAT, "'fake://short' ends at 150, where 50 more bytes are expected"},
        {"fake://cut", TR_EFORMAT, "fake://cut ends early"},
        {"fake://dies", TR_EIO, "'fake://dies': the process that reads stores, "},
    };
    uint8_t bytes[100];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tr_range *range;
        EXPECT_OK(tr__place_store.open(&range, cases[i].path, 100, 200));
        EXPECT_FAIL(cases[i].status, cases[i].text, tr__place_store.read(range, bytes, sizeof bytes));
        tr__place_store.close(range);
    }
}

TEST(a_file_is_taken_up_to_a_size)
{
    uint8_t *bytes = NULL;
    size_t   size;

    EXPECT_OK(tr_store_get(&bytes, &size, "fake://bytes", 4000));
    assert_int_equal(size, 4000);
    assert_int_equal(bytes[4000], 0);
    free(bytes);
    EXPECT_FAIL(TR_EFORMAT, "'fake://bytes' has more than 3999 bytes", tr_store_get(&bytes, &size, "fake://bytes", 3999));
    EXPECT_FAIL(TR_EFORMAT, "fake://cut ends early", tr_store_get(&bytes, &size, "fake://cut", MOST));
}

TEST(a_reader_may_leave)
{
    tr_store_call *call;
    int            file;

    for (int i = 0; i < 20; i++) {
        EXPECT_OK(tr_store_read(&call, &file, "fake://bytes", 0, 4000, 4000));
        close(file);
        tr_store_drop(call);
    }
    assert_true(number("fake://pid") > 0);
}

static void *read_ranges(void *payload)
{
    const int first = *(const int *)payload;

    for (int begin = first; begin < 2000; begin += 8) {
        tr_range *range;
        uint8_t   byte[2] = {0};
        if (tr__place_store.open(&range, "fake://bytes", (uint64_t)begin, (uint64_t)begin + 2) != TR_OK)
            return payload;
        const tr_status status = tr__place_store.read(range, byte, 2);
        tr__place_store.close(range);
        if (status != TR_OK || byte[0] != begin % 251 || byte[1] != (begin + 1) % 251)
            return payload;
    }
    return NULL;
}

TEST(threads_get_their_own_answers)
{
    pthread_t thread[8];
    int       first[8];

    for (int i = 0; i < 8; i++) {
        first[i] = i;
        assert_int_equal(pthread_create(&thread[i], NULL, read_ranges, &first[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
}

/* == writing ================================================================================== */

TEST(a_file_is_there_when_its_writer_says_how_long_it_is)
{
    tr_new_file *file;

    EXPECT_OK(tr__place_store.create(&file, "fake://x"));
    EXPECT_OK(tr__place_store.write(file, "some ", 5));
    EXPECT_OK(tr__place_store.write(file, "words", 5));
    EXPECT_OK(tr__place_store.finish(file, TR_OK));
    char *text = get("fake://written");
    assert_string_equal(text, "some words");
    free(text);
}

TEST(a_wrong_length_makes_no_file)
{
    tr_store_call *call;
    int            file;

    EXPECT_OK(tr_store_write(&call, &file, "fake://x"));
    assert_int_equal(write(file, "abc", 3), 3);
    shutdown(file, SHUT_WR);
    EXPECT_FAIL(TR_EIO, "fake://x: the writer gave up after 3 bytes", tr_store_commit(call, 4));
    close(file);
    assert_int_equal(number("fake://given-up"), 1);
}

TEST(a_writer_that_fails_makes_no_file_and_keeps_its_reason)
{
    tr_new_file *file;

    EXPECT_OK(tr__place_store.create(&file, "fake://x"));
    EXPECT_OK(tr__place_store.write(file, "abc", 3));
    EXPECT_FAIL(TR_EFORMAT, "the rows are bad", tr__place_store.finish(file, tr_fail(TR_EFORMAT, "the rows are bad")));
    while (number("fake://given-up") < 2)                  /* nobody waits for it */
        pause_briefly();
    char *text = get("fake://written");
    assert_string_equal(text, "some words");
    free(text);
}

/* How a file of 4 MB ends. Its first bytes may be taken: the failure comes with some later bytes, or at the end. */
static tr_status write_much(const char *path)
{
    static const char block[1 << 16];
    tr_new_file      *file;
    tr_status         status;

    TR_TRY(tr__place_store.create(&file, path));
    for (int i = 0; i < 64 && (status = tr__place_store.write(file, block, sizeof block)) == TR_OK; i++)
        ;
    return tr__place_store.finish(file, status);
}

TEST(a_file_that_cannot_be_written_says_why)
{
    EXPECT_FAIL(TR_EUNSUPPORTED, "so it is", write_much("fake://failed/EUNSUPPORTED"));
    EXPECT_FAIL(TR_EIO, "'fake://dies': the process that reads stores, ", write_much("fake://dies"));
}

/* == the process ============================================================================== */

TEST(another_process_takes_the_place_of_one_that_died)
{
    int64_t size;
    char   *lines = NULL;

    for (int i = 0; i < 10; i++) {
        const long pid = number("fake://pid");
        assert_int_equal(number("fake://pid"), pid);
        kill((pid_t)pid, SIGKILL);                         /* it may be gone, or about to */
        if (i % 2)
            EXPECT_OK(tr_store_size(&size, NULL, "fake://size"));
        assert_int_not_equal(number("fake://pid"), pid);
    }
    kill((pid_t)number("fake://pid"), SIGKILL);
    EXPECT_OK(tr_store_list(&lines, "fake://folder"));
    free(lines);
}

TEST(a_command_that_is_no_store_is_named)
{
    int64_t size;

    end_process();
    tr_store_set_command("no-such-program-at-all 2>/dev/null");
    EXPECT_FAIL(TR_EIO, "the process that reads stores, 'no-such-program-at-all 2>/dev/null', ", tr_store_size(&size, NULL, "fake://size"));
    tr_store_set_command("exit 3");
    for (int i = 0; i < 10; i++)
        EXPECT_FAIL(TR_EIO, "'exit 3'", tr_store_size(&size, NULL, "fake://size"));
    tr_store_set_command(FAKE);
    EXPECT_OK(tr_store_size(&size, NULL, "fake://size"));
}

TEST(the_command_is_the_one_of_the_environment_where_none_was_set)
{
    const pid_t child = fork();

    if (child == 0) {                                      /* a program that never set one */
        execl("/proc/self/exe", "object_store", "command", (char *)NULL);
        _exit(127);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int check_command(void)
{
    unsetenv("TRIREME_STORE_COMMAND");
    if (strcmp(tr_store_command(), "exec trireme store") != 0)
        return 1;
    setenv("TRIREME_STORE_COMMAND", "", 1);
    if (strcmp(tr_store_command(), "exec trireme store") != 0)
        return 2;
    setenv("TRIREME_STORE_COMMAND", "one", 1);
    if (strcmp(tr_store_command(), "one") != 0)
        return 3;
    tr_store_set_command("two");
    return strcmp(tr_store_command(), "two") ? 4 : 0;
}

static void assert_text(const char *path, const char *wanted)
{
    char *text = get(path);
    assert_string_equal(text, wanted);
    free(text);
}

TEST(a_request_has_the_environment_that_was_kept_last)
{
    const long pid = number("fake://pid");

    assert_text("fake://env/STORE_TEST_KEY", "(none)");
    setenv("STORE_TEST_KEY", "one, with\na line's end", 1);
    tr_store_set_command(FAKE);
    assert_text("fake://env/STORE_TEST_KEY", "one, with\na line's end");
    setenv("STORE_TEST_KEY", "", 1);
    tr_store_set_command(FAKE);
    assert_text("fake://env/STORE_TEST_KEY", "");
    unsetenv("STORE_TEST_KEY");
    tr_store_set_command(FAKE);
    assert_text("fake://env/STORE_TEST_KEY", "(none)");
    assert_int_equal(number("fake://pid"), pid);
}

TEST(a_forked_child_has_a_process_of_its_own)
{
    const long pid = number("fake://pid");
    const pid_t child = fork();
    int         status;

    if (child == 0) {
        uint8_t *bytes = NULL;
        size_t   size;
        if (tr_store_get(&bytes, &size, "fake://pid", MOST) != TR_OK)
            _exit(1);
        const long own = strtol((char *)bytes, NULL, 10);
        free(bytes);
        _exit(own > 0 && own != pid && number("fake://pid") == own ? 0 : 2);
    }
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(number("fake://pid"), pid);           /* the child has not ended it */
}

int main(int count, char **word)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scheme_makes_a_uri),
        cmocka_unit_test(some_packed_files_are_opened_too),
        cmocka_unit_test(files_are_asked_about),
        cmocka_unit_test(a_failure_keeps_its_code_and_its_text),
        cmocka_unit_test(an_answer_that_is_none_is_a_failure),
        cmocka_unit_test(a_name_has_an_end),
        cmocka_unit_test(a_range_is_read),
        cmocka_unit_test(a_file_that_sends_too_little_is_a_failure),
        cmocka_unit_test(a_file_is_taken_up_to_a_size),
        cmocka_unit_test(a_reader_may_leave),
        cmocka_unit_test(threads_get_their_own_answers),
        cmocka_unit_test(a_file_is_there_when_its_writer_says_how_long_it_is),
        cmocka_unit_test(a_wrong_length_makes_no_file),
        cmocka_unit_test(a_writer_that_fails_makes_no_file_and_keeps_its_reason),
        cmocka_unit_test(a_file_that_cannot_be_written_says_why),
        cmocka_unit_test(another_process_takes_the_place_of_one_that_died),
        cmocka_unit_test(a_command_that_is_no_store_is_named),
        cmocka_unit_test(the_command_is_the_one_of_the_environment_where_none_was_set),
        cmocka_unit_test(a_request_has_the_environment_that_was_kept_last),
        cmocka_unit_test(a_forked_child_has_a_process_of_its_own),
    };

    if (count > 1 && !strcmp(word[1], "command"))
        return check_command();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
