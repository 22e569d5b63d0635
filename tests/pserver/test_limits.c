/* test_limits.c - a size that comes from a peer or from a file is held against a limit before memory of that size is asked for. */
#include "tests/support/expect.h"

#include "framework/base/memory.h"
#include "proto/pserver.pb-c.h"
#include "pserver/store/server_store.h"
#include "pserver/wire/wire.h"
#include "storage/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/trireme-limits-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[160];

    (void)state;
    snprintf(path, sizeof path, "%s/step-000000001/manifest", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/step-000000001", folder);
    rmdir(path);
    return rmdir(folder);
}

/* -- messages ------------------------------------------------------------------------------------------- */

TEST(a_message_of_any_kind_has_a_limit)
{
    static const uint64_t sizes[] = {(UINT64_C(1) << 30) + 1, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX};
    uint8_t header[TR_WIRE_HEADER];

    for (int kind = TR_WIRE_NONE + 1; kind < TR_WIRE_KIND_COUNT; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            tr_wire wire = {.kind = (tr_wire_kind)kind, .bytes = sizes[i]};
            tr_wire_encode(header, &wire);
            if (tr_wire_decode(&wire, header) != TR_EFORMAT || !strstr(tr_error(), "are allowed"))
                fail_msg("%s takes %llu bytes", tr_wire_kind_name((tr_wire_kind)kind), (unsigned long long)sizes[i]);
        }
}

TEST(data_have_a_smaller_limit)
{
    static const tr_wire_kind kinds[] = {TR_WIRE_VALUE, TR_WIRE_PUSH, TR_WIRE_PUSH_COMPRESSED, TR_WIRE_PUSH_MANY, TR_WIRE_PUSH_ROWS};
    uint8_t header[TR_WIRE_HEADER];

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tr_wire wire = {.kind = kinds[i], .bytes = TR_LIMIT_DATA + 1};
        tr_wire_encode(header, &wire);
        EXPECT_FAIL(TR_EFORMAT, "are allowed", tr_wire_decode(&wire, header));
    }
}

/* These two come from ranks that are not known yet, or that fail: their limits are near their content. */
TEST(a_hello_and_an_abort_have_limits_near_their_content)
{
    static const struct { tr_wire_kind kind; uint64_t limit; } of[] = {{TR_WIRE_HELLO, 1048576}, {TR_WIRE_ABORT, 8192}};
    uint8_t header[TR_WIRE_HEADER];
    char    want[64];

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        tr_wire wire = {.kind = of[i].kind, .bytes = of[i].limit};
        tr_wire_encode(header, &wire);
        EXPECT_OK(tr_wire_decode(&wire, header));
        wire = (tr_wire){.kind = of[i].kind, .bytes = of[i].limit + 1};
        tr_wire_encode(header, &wire);
        snprintf(want, sizeof want, "at most %llu are allowed", (unsigned long long)of[i].limit);
        EXPECT_FAIL(TR_EFORMAT, want, tr_wire_decode(&wire, header));
    }
}

/* A start of a large job, and the longest text of a failure, must pass. */
TEST(the_largest_hello_and_abort_fit)
{
    enum { SERVERS = 60000, TEXT = 4096 };
    Trireme__Pserver__Hello   hello = TRIREME__PSERVER__HELLO__INIT;
    Trireme__Pserver__Abort   abort_ = TRIREME__PSERVER__ABORT__INIT;
    Trireme__Pserver__Found   one = TRIREME__PSERVER__FOUND__INIT;
    Trireme__Pserver__Found **found = malloc(SERVERS * sizeof *found);
    char                      text[TEXT], host[256];

    assert_non_null(found);
    one.server = SERVERS;
    one.generation = UINT32_MAX;
    for (int i = 0; i < SERVERS; i++)
        found[i] = &one;
    memset(text, 'x', sizeof text - 1);
    memset(host, 'h', sizeof host - 1);
    text[sizeof text - 1] = host[sizeof host - 1] = '\0';
    hello.version = hello.host = hello.host_id = host;
    hello.pid = UINT64_MAX;
    hello.found = found;
    hello.n_found = SERVERS;
    abort_.text = text;
    abort_.rank = abort_.exit_code = UINT32_MAX;
    abort_.has_exit_code = true;
    assert_true(trireme__pserver__hello__get_packed_size(&hello) <= TR_LIMIT_HELLO);
    assert_true(trireme__pserver__abort__get_packed_size(&abort_) <= TR_LIMIT_ABORT);
    free(found);
}

/* -- checkpoints ---------------------------------------------------------------------------------------- */

TEST(a_manifest_that_is_too_large_is_not_read)
{
    char           path[160];
    tr_checkpoint *c = NULL;

    snprintf(path, sizeof path, "%s/step-000000001", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    strcat(path, "/manifest");
    const int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, ((off_t)1 << 30) + 1), 0);              /* a hole: it takes no disk */
    close(fd);
    *strrchr(path, '/') = '\0';
    EXPECT_FAIL(TR_EFORMAT, "1073741825 bytes", tr_checkpoint_open(&c, path));
}

/* A manifest of one part with one array of two numbers, which a case then spoils. */
typedef struct sample {
    tr_manifest     manifest;
    tr_part         part, *parts[1];
    tr_part_tensor  tensor, *tensors[1];
    int64_t         dims[1];
    uint32_t        checksums[1];
    Trireme__Checkpoint__Trainer trainer, *trainers[1];
} sample;

static void fill(sample *s)
{
    memset(s, 0, sizeof *s);
    trireme__checkpoint__manifest__init(&s->manifest);
    trireme__checkpoint__part__init(&s->part);
    trireme__checkpoint__tensor__init(&s->tensor);
    trireme__checkpoint__trainer__init(&s->trainer);
    s->parts[0] = &s->part;
    s->tensors[0] = &s->tensor;
    s->trainers[0] = &s->trainer;
    s->dims[0] = 2;
    s->manifest.mode = s->manifest.version = (char *)(uintptr_t)"sync";
    s->manifest.n_parts = 1, s->manifest.parts = s->parts;
    s->manifest.n_trainers = 1, s->manifest.trainers = s->trainers;
    s->part.file = (char *)(uintptr_t)"part-00000-of-00001.0000000000000001.data";
    s->part.bytes = 8, s->part.chunk_bytes = TR_CHECKPOINT_CHUNK;
    s->part.n_checksums = 1, s->part.checksums = s->checksums;
    s->part.n_tensors = 1, s->part.tensors = s->tensors;
    s->tensor.name = (char *)(uintptr_t)"w";
    s->tensor.dtype = TR_FP32, s->tensor.n_dims = 1, s->tensor.dims = s->dims, s->tensor.bytes = 8;
}

static tr_status parse(const sample *s)
{
    size_t       size;
    uint8_t     *bytes = tr_manifest_pack(&size, &s->manifest);
    tr_manifest *m = NULL;

    const tr_status status = tr_manifest_parse(&m, bytes, size, "manifest");
    tr_manifest_free(m);
    free(bytes);
    return status;
}

static void huge_step(sample *s)       { s->manifest.step = UINT64_MAX; }
static void huge_part(sample *s)       { s->part.bytes = UINT64_MAX; }
static void large_part(sample *s)      { s->part.bytes = UINT64_C(1) << 50; }
static void huge_chunk(sample *s)      { s->part.chunk_bytes = (UINT64_C(1) << 30) + 1; }
static void no_chunk(sample *s)        { s->part.chunk_bytes = 0; }
static void huge_dim(sample *s)        { s->dims[0] = INT64_MAX; }
static void negative_dim(sample *s)    { s->dims[0] = -1; }
static void huge_array(sample *s)      { s->dims[0] = INT64_C(1) << 40, s->tensor.bytes = UINT64_C(4) << 40; }
static void huge_offset(sample *s)     { s->tensor.offset = UINT64_MAX - 63; }
static void many_rows(sample *s)       { s->tensor.has_rows = s->tensor.has_row = true, s->tensor.rows = UINT64_MAX; }
static void far_row(sample *s)
{
    s->tensor.has_rows = s->tensor.has_row = true, s->tensor.rows = 4, s->tensor.row = UINT64_MAX - 1;
}
static void huge_trainer_steps(sample *s) { s->trainer.steps = UINT64_MAX; }
static void huge_trainer_index(sample *s) { s->trainer.index = UINT32_MAX; }

TEST(numbers_of_a_manifest_are_held_against_its_files)
{
    static void (*const spoil[])(sample *) = {huge_step, huge_part, large_part, huge_chunk, no_chunk, huge_dim, negative_dim, huge_array,
                                              huge_offset, many_rows, far_row, huge_trainer_steps, huge_trainer_index};
    sample s;

    fill(&s);
    EXPECT_OK(parse(&s));
    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        fill(&s);
        spoil[i](&s);
        if (parse(&s) != TR_EFORMAT)
            fail_msg("case %zu is taken", i);
    }
}

/* -- the setup that trainer 0 sends ------------------------------------------------------------------------ */

static tr_status set_up(Trireme__Pserver__Value *value)
{
    Trireme__Pserver__Value *values[] = {value};
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    tr_times                 applied = {0};
    tr_server_program       *sp = tr_server_program_new(NULL, &applied);
    const tr_store           store = tr_server_store(sp, &(tr_server_part){TR_DUTY_SERVER, .trainers = 1, .newest = -1});
    tr_policy                policy;
    tr_program              *program = tr_program_new();
    void                    *bytes;
    size_t                   size;

    EXPECT_OK(tr_program_serialize(&bytes, &size, program));
    tr_program_free(program);
    setup.program = (ProtobufCBinaryData){size, bytes};
    setup.n_values = 1, setup.values = values;
    EXPECT_OK(tr_policy_parse(&policy, "sync"));
    const tr_status status = store.setup(sp, &setup, &policy, "", 1, false);
    tr_server_program_free(sp);
    tr_free(bytes);
    return status;
}

TEST(a_first_value_has_a_size_that_the_machine_can_have)
{
    Trireme__Pserver__Value value = TRIREME__PSERVER__VALUE__INIT;
    int64_t                 dims[TR_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1};

    value.name = (char *)(uintptr_t)"w";
    value.dtype = TR_FP32, value.n_dims = 2, value.dims = dims;
    dims[0] = dims[1] = INT64_C(1) << 40;
    EXPECT_FAIL(TR_ESHAPE, "first value of 'w'", set_up(&value));           /* 2^82 bytes */
    dims[0] = -2;
    EXPECT_FAIL(TR_ESHAPE, "first value of 'w'", set_up(&value));
    dims[0] = 4, dims[1] = 4, value.bytes = 65;
    EXPECT_FAIL(TR_ESHAPE, "65 announced", set_up(&value));
    dims[0] = 1, dims[1] = INT64_C(1) << 58, value.bytes = UINT64_C(1) << 60;
    assert_int_not_equal(set_up(&value), TR_OK);                            /* more than there is */
    value.dtype = 9999;
    EXPECT_FAIL(TR_ESHAPE, "first value of 'w'", set_up(&value));
    value.n_dims = TR_MAX_RANK + 1;
    EXPECT_FAIL(TR_ESHAPE, "rank", set_up(&value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_any_kind_has_a_limit),
        cmocka_unit_test(data_have_a_smaller_limit),
        cmocka_unit_test(a_hello_and_an_abort_have_limits_near_their_content),
        cmocka_unit_test(the_largest_hello_and_abort_fit),
        cmocka_unit_test_setup_teardown(a_manifest_that_is_too_large_is_not_read, make_folder, remove_folder),
        cmocka_unit_test(numbers_of_a_manifest_are_held_against_its_files),
        cmocka_unit_test(a_first_value_has_a_size_that_the_machine_can_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
