/* machine.c - the real machine: Linux, and the launcher that started this process. */
#include "pserver/transport/machine.h"

#include "pserver/core/base/roster.h"
#include "pserver/observe/launcher.h"
#include "pserver/util/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/uio.h>

/* How long a killed process may take to end: milliseconds. */
enum { KILLED_MAX = 100 };

static int64_t now(void *self)
{
    (void)self;
    return tr__clock();
}

static int processors(void *self)
{
    cpu_set_t set;

    (void)self;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : INT_MAX;
}

static int processor(void *self)
{
    (void)self;
    return sched_getcpu();
}

static void ring(void *self, atomic_uint *word, unsigned who)
{
    (void)self;
    tr__bell_ring_for(word, who);
}

static tr_doorbell *make_doorbell(void *self, int *file)
{
    (void)self;
    return tr_doorbell_new(file);
}

static tr_doorbell *open_doorbell(void *self, int64_t pid, int file)
{
    (void)self;
    return tr_doorbell_open(pid, file);
}

static void close_doorbell(void *self, tr_doorbell *bell)
{
    (void)self;
    tr_doorbell_close(bell);
}

static tr_status pack_hello(uint8_t **out, size_t *size, void *self, tr_role role, uint32_t incarnation, bool can_replace, int doorbell)
{
    (void)self;
    return tr_roster_pack_hello(out, size, role, incarnation, can_replace, doorbell);
}

/* Two milliseconds of processor time count, so that the thread that asks is no progress itself. Pages that are read, and pages that come
 * back from where they were swapped to, count each. */
static int64_t progress(void *self)
{
    struct rusage used;

    (void)self;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return 0;
    const int64_t microseconds = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * (int64_t)1000000 + used.ru_utime.tv_usec +
                                 used.ru_stime.tv_usec;
    return microseconds / 2000 + used.ru_majflt + used.ru_inblock + used.ru_oublock;
}

/* == processes ================================================================================= */

/* Where all open processes are watched together. It stays open until the end of this process. */
static int watched = -1;

/* Without the watch, ends of processes are not seen here. Then silence tells of them, or MPI. */
static void watch_process(int process)
{
    struct epoll_event end = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = process};

    if (watched < 0)
        watched = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(watched, EPOLL_CTL_ADD, process, &end);
}

static int open_process(void *self, int64_t pid)
{
    const int process = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

    (void)self;
    if (process >= 0)
        watch_process(process);
    return process;
}

static void close_process(void *self, int process)
{
    (void)self;
    if (process >= 0)
        close(process);
}

static bool has_ended(void *self, int process)
{
    struct pollfd end = {process, POLLIN, 0};

    (void)self;
    return poll(&end, 1, 0) == 1;
}

static bool has_any_ended(void *self)
{
    struct epoll_event end[16];

    (void)self;
    return watched >= 0 && epoll_wait(watched, end, 16, 0) != 0;       /* an error, too: somebody has closed the descriptor */
}

static bool is_open(void *self, int process)
{
    char path[40], target[40];

    (void)self;
    snprintf(path, sizeof path, "/proc/self/fd/%d", process);
    const ssize_t size = readlink(path, target, sizeof target - 1);
    target[size > 0 ? size : 0] = '\0';
    return strstr(target, "pidfd") || (size < 0 && fcntl(process, F_GETFD) >= 0);     /* without /proc only a closed one is known */
}

static void kill_process(void *self, int process)
{
    struct pollfd end = {process, POLLIN, 0};

    (void)self;
    syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
    poll(&end, 1, KILLED_MAX);
}

static bool can_read(void *self, int64_t pid)
{
    char               byte;
    const struct iovec here = {&byte, 1}, nowhere = {NULL, 1};

    (void)self;
    return process_vm_readv((pid_t)pid, &here, 1, &nowhere, 1, 0) < 0 && errno == EFAULT;
}

/* == messages to users ========================================================================= */

static bool tell(void *self, tr_notice what, int rank, const char *text)
{
    (void)self;
    return tr__launcher_tell(what, rank, text);
}

/* On one host the right to print is a file in mpirun's folder for this job; the folder goes with the job. Without it, a rank that had no
 * processor for a while could miss the others' messages, and those ranks may have ended. */
static bool may_explain(void *self)
{
    const char *folder = getenv("PMIX_SERVER_TMPDIR");
    char        path[1024];

    (void)self;
    if (!folder || (size_t)snprintf(path, sizeof path, "%s/trireme-failure", folder) >= sizeof path)
        return true;
    const int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        return errno != EEXIST;
    close(file);
    return true;
}

/* One write, so that lines of several ranks do not mix. */
static void print(void *self, const char *text)
{
    char      line[4200];
    const int length = snprintf(line, sizeof line, "trireme: %s\n", text);

    (void)self;
    if (write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1) < 0)
        return;                                    /* standard error has no reader */
}

static __attribute__((noreturn)) void end(void *self, tr_rank_end how, int code)
{
    (void)self;
    tr__rank_end(how, code);
}

const tr_machine tr_machine_real = {
    NULL, now, processors, processor, ring, make_doorbell, open_doorbell, close_doorbell, pack_hello,
    progress, open_process, close_process, has_ended, has_any_ended, is_open, kill_process, can_read, tell, may_explain, print, end,
};
