/* store_process.c - see store_process.h.
 *
 * The process is a command (command.h), so it ends with this one, however this one ends. Its standard input is a socket. A forked child
 * starts a process of its own: two processes on one end of a socket would take each other's answers. */
#include "storage/stores/store_process.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/stores/command.h"
#include "storage/trireme_store.h"

static struct {
    pthread_mutex_t lock;             /* guards all fields */
    pid_t           owner;            /* the process that started it; 0: it is not there */
    int             control, output;
    tr_command     *command;
    char *const    *environment;      /* that the process has; NULL: this one's, when it started */
    char           *text;             /* as tr_store_set_command said */
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

void tr_store_set_command(const char *command)
{
    tr_command_keep_environment();
    pthread_mutex_lock(&the.lock);
    free(the.text);
    the.text = tr__must_strdup(command);
    pthread_mutex_unlock(&the.lock);
}

const char *tr_store_command(void)
{
    const char *named = getenv("TRIREME_STORE_COMMAND");

    if (the.text)
        return the.text;
    return named && *named ? named : "exec trireme store";
}

static tr_status start(const char *path)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return tr_fail(TR_EIO, "'%s': no socket: %s", path, strerror(errno));
    the.environment = tr_command_environment();
    const tr_status status = tr_command_start(&the.command, &the.output, ends[1], tr_store_command());
    if (status != TR_OK) {
        close(ends[0]);
        return status;
    }
    the.control = ends[0];
    the.owner = getpid();
    return TR_OK;
}

/* The process has ended: collect it. A forked child only closes its copies. */
static tr_status end(const char *path)
{
    const bool is_ours = the.owner == getpid();

    close(the.control);
    close(the.output);
    the.owner = 0;
    if (!is_ours)
        return TR_OK;
    tr_command_kill(the.command);
    return tr_command_end(the.command, path);
}

static tr_status send_message(void *request, size_t size, const int descriptors[2])
{
    union {
        char           bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec  part = {request, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    ssize_t         sent;

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(head), descriptors, 2 * sizeof(int));
    while ((sent = sendmsg(the.control, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent >= 0 ? TR_OK : TR_EIO;
}

/* A file of this process's memory with the environment's lines, a zero behind each. */
static int environment_file(char *const *line)
{
    const int file = memfd_create("environment", MFD_CLOEXEC);

    for (; file >= 0 && *line; line++)
        if (write(file, *line, strlen(*line) + 1) < 0) {
            close(file);
            return -1;
        }
    return file;
}

/* The environment of this process may have changed since the other one started, an address or a key. */
static tr_status send_environment(void)
{
    char *const *line = tr_command_environment();

    if (line == the.environment)
        return TR_OK;
    const int file = environment_file(line);
    if (file < 0)
        return TR_EIO;
    const tr_status status = send_message((char[]){"environment"}, strlen("environment"), (const int[]){file, file});
    close(file);
    if (status == TR_OK)
        the.environment = line;
    return status;
}

static tr_status send_once(void *request, size_t size, const int descriptors[2])
{
    TR_TRY(send_environment());
    return send_message(request, size, descriptors);
}

tr_status tr_store_process_send(void *request, size_t size, const int descriptors[2], const char *path)
{
    tr_status status = TR_OK;

    pthread_mutex_lock(&the.lock);
    if (the.owner && the.owner != getpid())
        end(path);
    for (int tries = 0; tries < 2; tries++) {
        if (!the.owner && (status = start(path)) != TR_OK)
            break;
        if ((status = send_once(request, size, descriptors)) == TR_OK)
            break;
        if (end(path) == TR_OK || tries)
            tr_fail(TR_EIO, "'%s': the process that reads stores, '%s', does not take requests", path, tr_store_command());
    }
    pthread_mutex_unlock(&the.lock);
    return status;
}
