/* instructions.c - see instructions.h. */
#include "tests/support/instructions.h"
#include "tests/support/expect.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void work_and_stop(bool (*begin)(void *payload), bool (*work)(void *payload), void *payload)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || !begin(payload))
        _exit(3);
    raise(SIGSTOP);
    if (!work(payload))
        _exit(4);
    raise(SIGSTOP);
    _exit(5);
}

uint64_t tr_kill_after(bool (*begin)(void *payload), bool (*work)(void *payload), void *payload, uint64_t count)
{
    uint64_t    done = 0;
    int         how;
    const pid_t child = fork();

    if (child == 0)
        work_and_stop(begin, work, payload);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSTOPPED(how));
    for (; done < count; done++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSTOPPED(how));
        if (WSTOPSIG(how) == SIGSTOP)
            break;
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &how, 0), child);
    return done;
}
