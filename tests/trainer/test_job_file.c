/* test_job_file.c - a saved job is held against its limits before memory is asked for. */
#include "tests/support/expect.h"

#include "trainer/saved_job/job_file.h"
#include "trainer/trireme_trainer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "/tmp/trireme-job-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

TEST(a_file_that_is_too_large_is_not_read)
{
    tr_saved_job *job = NULL;

    assert_int_equal(truncate(path, ((off_t)1 << 31) + 1), 0);             /* a hole: it takes no disk */
    EXPECT_FAIL(TR_EFORMAT, "more than the possible", tr_saved_job_load(&job, path));
}

TEST(a_length_is_that_of_the_file)
{
    static const uint8_t   lengths[][8] = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0, 1}, {1}};
    uint8_t                header[TR_JOB_FILE_HEADER] = "TRIREJOB";
    Trireme__Trainer__Job *job = NULL;

    header[8] = TR_JOB_FILE_VERSION;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(header + 16, lengths[i], sizeof lengths[i]);
        EXPECT_FAIL(TR_EFORMAT, "after its header", tr_job_file_parse(&job, header, sizeof header, "file"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_is_too_large_is_not_read, make_file, remove_file),
        cmocka_unit_test(a_length_is_that_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
