/* fuzz_run.c - programs from outside, run: a wrong one is refused with a message, or computes something.
 *
 * The corpus has a small program of every operator (support/run_case.h is the format), and what once crashed. */
#include "tests/support/run_mutate.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/memory.h"

enum { SECONDS = 20, LOOP_SECONDS = 1, MAX_ARRAY = 64 << 20 };

int    LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
const char *__asan_default_options(void);

/* Memory that is not to be had is a failure like others. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static bool has_loop(const tr_program *program)
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->block[b]->op_count; i++)
            if (strcmp(program->block[b]->op[i]->type, "while") == 0)
                return true;
    return false;
}

static void run_here(run_case *c)
{
    if (run_case_run(c) != TR_OK && !*tr_error())
        abort();
}

/* A loop whose condition stays true never ends: such a program runs in a process that an alarm ends. */
static void run_apart(run_case *c)
{
    int status;

    fflush(NULL);
    const pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(LOOP_SECONDS);
        run_here(c);
        _exit(EXIT_SUCCESS);
    }
    if (waitpid(child, &status, 0) != child || !(WIFEXITED(status) ? WEXITSTATUS(status) == EXIT_SUCCESS : WTERMSIG(status) == SIGALRM))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    run_case c;

    if (tr_init() != TR_OK)
        abort();
    tr_set_num_threads(1);
    tr__array_set_limit(MAX_ARRAY);
    if (!run_case_read(&c, input, size))
        return 0;
    alarm(SECONDS);
    if (has_loop(c.program))
        run_apart(&c);
    else
        run_here(&c);
    alarm(0);
    run_case_deinit(&c);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    run_case c;
    size_t   new_size;

    if (tr_init() != TR_OK)
        abort();
    if (!run_case_read(&c, data, size))
        return size;
    run_mutate(&c, seed);
    void *bytes = run_case_write(&new_size, &c);
    run_case_deinit(&c);
    if (new_size <= max_size) {
        memcpy(data, bytes, new_size);
        size = new_size;
    }
    free(bytes);
    return size;
}
