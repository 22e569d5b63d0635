/* interrupt.c - see interrupt.h; and signals that interrupt. */
#include "framework/threads/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

atomic_uint tr__interrupt_count;

static _Thread_local unsigned noted;
static _Thread_local int      depth;

void tr_interrupt(void)
{
    atomic_fetch_add(&tr__interrupt_count, 1);
}

void tr__interruptible_begin(void)
{
    if (depth++ == 0)
        noted = atomic_load(&tr__interrupt_count);
}

void tr__interruptible_end(void)
{
    depth--;
}

unsigned tr__interrupt_noted(void)
{
    return depth > 0 ? noted : atomic_load_explicit(&tr__interrupt_count, memory_order_relaxed);
}

tr_status tr__fail_interrupted(const char *what)
{
    return tr_fail(TR_EINTR, "%s was interrupted (tr_interrupt, or a signal of tr_interrupt_on)", what);
}

/* == signals =================================================================================== */

typedef void (*plain_handler)(int number);
typedef void (*info_handler)(int number, siginfo_t *info, void *context);

/* The handler that was there before, by signal; at most one of the two is set. */
static struct {
    _Atomic(plain_handler) plain;
    _Atomic(info_handler)  info;
} previous[NSIG];

/* The earlier handler goes first: when a run sees the interrupt, the application knows of the signal. */
static void interrupt_by_signal(int number, siginfo_t *info, void *context)
{
    const int           error = errno;
    const plain_handler plain = atomic_load(&previous[number].plain);
    const info_handler  with_info = atomic_load(&previous[number].info);

    if (plain)
        plain(number);
    if (with_info)
        with_info(number, info, context);
    tr_interrupt();
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == interrupt_by_signal;
}

static bool is_ignored(const struct sigaction *action)
{
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

static void remember(int number, const struct sigaction *action)
{
    const bool has_info = action->sa_flags & SA_SIGINFO;
    const bool is_default = !has_info && action->sa_handler == SIG_DFL;

    atomic_store(&previous[number].plain, has_info || is_default ? NULL : action->sa_handler);
    atomic_store(&previous[number].info, has_info ? action->sa_sigaction : NULL);
}

tr_status tr_interrupt_on(int number)
{
    struct sigaction action;
    sigset_t         one, before;

    if (number <= 0 || number >= NSIG || sigaction(number, NULL, &action) != 0)
        return tr_fail(TR_EINVAL, "tr_interrupt_on: %d is no signal", number);
    if (is_ours(&action) || is_ignored(&action))
        return TR_OK;
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    remember(number, &action);
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = interrupt_by_signal;
    const int failed = sigaction(number, &action, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? tr_fail(TR_EINVAL, "tr_interrupt_on: signal %d cannot be caught: %s", number, strerror(errno)) : TR_OK;
}
