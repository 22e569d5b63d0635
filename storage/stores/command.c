/* command.c - see command.h.
 *
 * Three parties: a thread of this process, the guard, and the shell. The thread makes the guard, a process that shares our memory
 * (CLONE_VM), and waits until the guard is gone. The guard makes the shell, waits for it and notes its status. A fork would copy the page
 * tables of a large process; this costs two stacks.
 *
 * What must stay true: the guard runs on a stack of its own, but with the thread's thread-local storage. So the thread does nothing
 * while the guard lives, and the guard makes system calls alone. All signals are blocked in both. */
#include "storage/stores/command.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/memory.h"

enum { STACK_BYTES = 1 << 16, PARENT_DIED = SIGUSR2 };

struct tr_command {
    char          *text;
    pid_t          parent;            /* this process */
    int            input, output;
    pthread_t      thread;
    _Atomic pid_t  shell;             /* its process group, too; 0: not started yet, or ended */
    atomic_bool    is_killed;
    int            failed;            /* errno, if the shell could not be started */
    bool           has_ended;         /* `status` is waitpid's */
    int            status;
    _Alignas(16) char guard_stack[STACK_BYTES], shell_stack[STACK_BYTES];
};

/* The environment of commands, as it was when tr_command_keep_environment was called last. Other threads may change the process's
 * environment while a command is started (a library's first use does), so commands get copies. A copy stays until the process ends: a shell
 * may begin with it. */
typedef struct kept {
    struct kept *before;
    char        *line[];              /* the last is NULL */
} kept;

static kept *_Atomic environment;

static bool is_present(const kept *k)
{
    size_t i = 0;

    while (k && k->line[i] && environ[i] && !strcmp(k->line[i], environ[i]))
        i++;
    return k && !k->line[i] && !environ[i];
}

static kept *copy_environment(kept *before)
{
    size_t count = 0;

    while (environ[count])
        count++;
    kept *k = tr__must_alloc(sizeof *k + (count + 1) * sizeof *k->line);
    k->before = before;
    for (size_t i = 0; i < count; i++)
        k->line[i] = tr__must_strdup(environ[i]);
    return k;
}

void tr_command_keep_environment(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    if (!is_present(environment))
        environment = copy_environment(environment);
    pthread_mutex_unlock(&lock);
}

char *const *tr_command_environment(void)
{
    const kept *k = environment;
    return k ? k->line : NULL;
}

/* == three parties ============================================================================ */

/* The shell before its exec. It leads a process group, so that the whole group can be ended. If the guard is killed, the shell does not
 * outlive it. Python ignores SIGPIPE; a command should not. */
static int become_shell(void *payload)
{
    static const int restored[] = {SIGCHLD, SIGPIPE, SIGXFSZ};
    tr_command      *c = payload;
    kept            *kept_environment = environment;
    sigset_t         none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int input = fcntl(c->input, F_DUPFD_CLOEXEC, 3), output = fcntl(c->output, F_DUPFD_CLOEXEC, 3);    /* they may be 0 or 1 */
    dup2(input, 0);
    dup2(output, 1);
    for (size_t i = 0; i < sizeof restored / sizeof *restored; i++)
        signal(restored[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execle("/bin/sh", "sh", "-c", c->text, (char *)NULL, kept_environment ? kept_environment->line : environ);
    c->failed = errno;
    _exit(127);
}

/* The guard has copies of all of our descriptors. A pipe would not end while the guard holds one of its ends. */
static void close_all(void)
{
    if (syscall(SYS_close_range, 0u, ~0u, 0u) == 0)
        return;
    for (long i = 0, count = sysconf(_SC_OPEN_MAX); i < count; i++)
        close((int)i);
}

/* If this process is killed, the guard ends the whole group: the shell's children, too. The shell may have ended, but is not collected yet,
 * so its number belongs to the group alone. */
static void await_shell(const tr_command *c, pid_t shell)
{
    sigset_t  awaited;
    siginfo_t info = {0};

    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, PARENT_DIED);
    while (waitid(P_PID, (id_t)shell, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == 0) {
        if (getppid() != c->parent)
            kill(-shell, SIGKILL);
        sigwaitinfo(&awaited, NULL);
    }
}

static int guard(void *payload)
{
    tr_command *c = payload;

    prctl(PR_SET_PDEATHSIG, PARENT_DIED);
    signal(SIGCHLD, SIG_DFL);                      /* the guard's own table of handlers: it can wait for the shell */
    const pid_t shell = clone(become_shell, c->shell_stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    if (shell < 0) {
        c->failed = errno;
        _exit(0);
    }
    c->shell = shell;
    if (c->is_killed)
        kill(-shell, SIGKILL);
    close_all();
    await_shell(c, shell);
    c->shell = 0;                                  /* before the number is free for another process */
    c->has_ended = waitpid(shell, &c->status, 0) == shell;
    _exit(0);
}

static void *watch(void *payload)
{
    tr_command *c = payload;
    const pid_t pid = clone(guard, c->guard_stack + STACK_BYTES, CLONE_VM | SIGCHLD, c);

    if (pid < 0)
        c->failed = errno;
    else
        waitpid(pid, NULL, 0);                     /* it also returns where another party has collected the guard */
    close(c->input);
    close(c->output);
    return NULL;
}

/* == life ===================================================================================== */

static int start_thread(tr_command *c)
{
    sigset_t all, old;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(&c->thread, NULL, watch, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

tr_status tr_command_start(tr_command **out, int *output, int input, const char *text)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        const int error = errno;
        close(input);
        return tr_fail(TR_EIO, "data: no pipe for '%s': %s", text, strerror(error));
    }
    tr_command *c = tr__must_alloc(sizeof *c);
    c->text = tr__must_strdup(text);
    c->parent = getpid();
    c->input = input;
    c->output = ends[1];
    const int error = start_thread(c);
    if (error) {
        close(input);
        close(ends[0]);
        close(ends[1]);
        free(c->text);
        free(c);
        return tr_fail(TR_EIO, "data: '%s' cannot be started: %s", text, strerror(error));
    }
    *out = c;
    *output = ends[0];
    return TR_OK;
}

void tr_command_kill(tr_command *c)
{
    c->is_killed = true;
    const pid_t shell = c->shell;
    if (shell)
        kill(-shell, SIGKILL);
}

static tr_status describe_end(const tr_command *c, const char *path)
{
    const char *on = path ? " on '" : "", *quote = path ? "'" : "";

    path = path ? path : "";
    if (c->failed)
        return tr_fail(TR_EIO, "data: '%s' cannot be started: %s", c->text, strerror(c->failed));
    if (!c->has_ended)
        return tr_fail(TR_EIO, "data: it is not known how '%s'%s%s%s ended: the process that waited for it was killed", c->text, on, path,
                       quote);
    if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == 0)
        return TR_OK;
    return tr_fail(TR_EIO, "data: '%s'%s%s%s ended with %s %d", c->text, on, path, quote,
                   WIFEXITED(c->status) ? "exit code" : "signal", WIFEXITED(c->status) ? WEXITSTATUS(c->status) : WTERMSIG(c->status));
}

tr_status tr_command_end(tr_command *c, const char *path)
{
    pthread_join(c->thread, NULL);
    const tr_status status = describe_end(c, path);
    free(c->text);
    free(c);
    return status;
}
