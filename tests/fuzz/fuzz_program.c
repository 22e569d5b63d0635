/* fuzz_program.c - programs from outside: whatever is read can be printed, copied and written, and what was written
 * is read again as the same. */
#include "framework/programs/program.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void write_and_compare(const tr_program *program, const void *expected, size_t expected_size)
{
    void  *bytes;
    size_t size;

    must(tr_program_serialize(&bytes, &size, program) == TR_OK);
    must(size == expected_size && memcmp(bytes, expected, size) == 0);
    tr_free(bytes);
}

static void use(tr_program *program)
{
    void       *bytes;
    size_t      size;
    char       *text;
    tr_program *again, *clone = tr_program_clone(program);

    must(tr_program_to_string(&text, program) == TR_OK);
    must(tr_program_serialize(&bytes, &size, program) == TR_OK);
    must(tr_program_parse(&again, bytes, size) == TR_OK);
    write_and_compare(again, bytes, size);
    write_and_compare(clone, bytes, size);
    tr_program_free(again);
    tr_program_free(clone);
    tr_free(bytes);
    tr_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    tr_program *program;

    if (tr_init() != TR_OK)
        abort();
    const tr_status status = tr_program_parse(&program, input, size);
    if (status != TR_OK) {
        must(status == TR_EFORMAT && *tr_error());
        return 0;
    }
    use(program);
    tr_program_free(program);
    return 0;
}
