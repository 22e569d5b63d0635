/* guard.c - see guard.h. The handler is looked at in each call: another library may have put its own in front, such as Python's faulthandler. */
#include "storage/memory/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "framework/base/fork_lock.h"

static _Thread_local sigjmp_buf *volatile way_out;     /* of this thread's guarded call */
static struct sigaction previous;
static tr_fork_lock     lock = TR_FORK_LOCK_INIT;
static atomic_bool      is_passed_on;

/* A SIGBUS outside of guarded calls. The second one is the first again, after the handler before this one has seen it. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    if (atomic_exchange(&is_passed_on, true) || (!(previous.sa_flags & SA_SIGINFO) && previous.sa_handler == SIG_DFL))
        signal(number, SIG_DFL);                       /* the read happens again, and ends the process */
    else if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    if (way_out)
        siglongjmp(*way_out, 1);
    pass_on(number, info, context);
}

static void install(void)
{
    struct sigaction now, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    if (sigaction(SIGBUS, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error))
        return;
    tr__fork_lock_take(&lock);
    previous = now;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, NULL);
    tr__fork_lock_release(&lock);
}

bool tr_guard_call(void (*read)(void *payload), void *payload)
{
    sigjmp_buf out;

    install();
    const bool is_whole = sigsetjmp(out, 0) == 0;
    if (is_whole) {
        way_out = &out;
        read(payload);
    }
    way_out = NULL;
    return is_whole;
}
