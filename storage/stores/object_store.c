/* object_store.c - see object_store.h: requests and their answers. store_process.c has the process. */
#include "storage/stores/object_store.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/stores/store_process.h"

/* Bytes; seconds of silence of the process, which has shorter limits of its own; tries. */
enum { MOST_REQUEST = 1 << 16, PATIENCE = 600, TRIES = 4 };

struct tr_store_call {
    int   answer;                     /* the socket */
    char *path;
};

/* == names ==================================================================================== */

bool tr_store_is_uri(const char *path)
{
    const size_t scheme = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return scheme > 1 && !strncmp(path + scheme, "://", 3);
}

static bool ends_with(const char *path, const char *end)
{
    const size_t size = strlen(path), length = strlen(end);
    return size > length && !strcmp(path + size - length, end);
}

bool tr_store_unpacks(const char *path)
{
    return ends_with(path, ".zst") || ends_with(path, ".bz2");
}

bool tr_store_opens(const char *path)
{
    return tr_store_is_uri(path) || tr_store_unpacks(path);
}

/* == requests ================================================================================= */

static tr_status make_call(tr_store_call **out, int *file, const char *path, char *request, size_t size)
{
    int answer[2], data[2] = {-1, -1};

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, answer) != 0)
        return tr_fail(TR_EIO, "'%s': no socket: %s", path, strerror(errno));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, data) != 0) {
        const int error = errno;
        close(answer[0]);
        close(answer[1]);
        return tr_fail(TR_EIO, "'%s': no socket: %s", path, strerror(error));
    }
    const tr_status status = tr_store_process_send(request, size, (const int[]){answer[1], data[1]}, path);
    close(answer[1]);
    close(data[1]);
    if (status != TR_OK) {
        close(answer[0]);
        close(data[0]);
        return status;
    }
    tr_store_call *call = tr__must_alloc(sizeof *call);
    *call = (tr_store_call){answer[0], tr__must_strdup(path)};
    *out = call;
    *file = data[0];
    return TR_OK;
}

/* The texts of a request, with a zero between them. */
static tr_status ask(tr_store_call **out, int *file, const char *verb, const char *path, const char *more)
{
    const size_t verb_size = strlen(verb), path_size = strlen(path), more_size = strlen(more);
    const size_t size = verb_size + 1 + path_size + more_size;

    if (size > MOST_REQUEST)
        return tr_fail(TR_EINVAL, "a name of %zu bytes is longer than any store's", path_size);
    char *request = tr__must_alloc(size);
    memcpy(request, verb, verb_size + 1);
    memcpy(request + verb_size + 1, path, path_size);
    memcpy(request + verb_size + 1 + path_size, more, more_size);
    for (size_t i = size - more_size; i < size; i++)
        request[i] = request[i] == ' ' ? '\0' : request[i];
    const tr_status status = make_call(out, file, path, request, size);
    free(request);
    return status;
}

tr_status tr_store_await(int file, const char *path)
{
    struct pollfd one = {file, POLLIN, 0};
    int           ready;

    while ((ready = poll(&one, 1, PATIENCE * 1000)) < 0 && errno == EINTR)
        ;
    return ready > 0 ? TR_OK : tr_fail(TR_ETIMEOUT, "'%s': the process that reads stores has been silent for %d s", path, PATIENCE);
}

/* Read a socket to its end, malloc'ed, with a zero behind. */
static tr_status drain(char **out, size_t *size, int file, const char *path)
{
    size_t capacity = 1 << 12, used = 0;
    char  *text = tr__must_alloc(capacity);

    for (;;) {
        if (tr_store_await(file, path) != TR_OK) {
            free(text);
            return TR_ETIMEOUT;
        }
        const ssize_t got = read(file, text + used, capacity - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
        if (capacity - used < 2)
            text = tr__must_realloc(text, capacity *= 2);
    }
    text[used] = '\0';
    *out = text;
    *size = used;
    return TR_OK;
}

static void free_call(tr_store_call *call)
{
    close(call->answer);
    free(call->path);
    free(call);
}

/* "failed ENOTFOUND\ntext" */
static tr_status failed(const tr_store_call *call, char *said)
{
    static const tr_status known[] = {TR_EINVAL, TR_ENOTFOUND, TR_EIO, TR_EFORMAT, TR_EUNSUPPORTED, TR_ENOMEM, TR_ETIMEOUT};
    char                  *text = strchr(said, '\n');

    if (strncmp(said, "failed ", 7) != 0 || !text)
        return tr_fail(TR_EIO, "'%s': the process that reads stores, '%s', has ended; is its program on the PATH?", call->path,
                       tr_store_command());
    *text++ = '\0';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(tr_status_name(known[i]), said + 7))
            return tr_fail(known[i], "%s", text);
    return tr_fail(TR_EIO, "%s", text);
}

/* Wait for the answer, and free the call. *payload, malloc'ed: what follows "ok". *is_lost: the process has ended before it said a word, so
 * the request may be made again. */
static tr_status take_answer(char **payload, bool *is_lost, tr_store_call *call)
{
    char  *said = NULL;
    size_t size = 0;

    *payload = NULL;
    tr_status status = drain(&said, &size, call->answer, call->path);
    *is_lost = status == TR_OK && size == 0;
    if (status == TR_OK) {
        status = !strncmp(said, "ok\n", 3) ? TR_OK : failed(call, said);
        if (status == TR_OK)
            *payload = tr__must_strdup(said + 3);
    }
    free(said);
    free_call(call);
    return status;
}

tr_status tr_store_end(tr_store_call *call)
{
    char           *payload;
    bool            is_lost;
    const tr_status status = take_answer(&payload, &is_lost, call);

    free(payload);
    return status;
}

void tr_store_drop(tr_store_call *call)
{
    free_call(call);
}

/* A process that dies may still take requests, until the thread that waits for it (command.c) knows of its death. So a request that is lost
 * is made again, a little later each time: another process gets it. */
static bool is_made_again(int tries, bool is_lost)
{
    if (tries == 0 || !is_lost || tries == TRIES)
        return tries == 0;
    nanosleep(&(struct timespec){.tv_nsec = 5000000L << 3 * (tries - 1)}, NULL);
    return true;
}

static tr_status ask_for_text(char **payload, const char *verb, const char *path)
{
    tr_store_call *call;
    tr_status      status = TR_OK;
    bool           is_lost = false;
    int            file;

    for (int tries = 0; is_made_again(tries, is_lost); tries++) {
        TR_TRY(ask(&call, &file, verb, path, ""));
        close(file);
        status = take_answer(payload, &is_lost, call);
    }
    return status;
}

/* == files ==================================================================================== */

tr_status tr_store_read(tr_store_call **out, int *file, const char *path, int64_t begin, int64_t end, int64_t soon)
{
    char *more = tr__must_format(" %lld %lld %lld", (long long)begin, (long long)end, (long long)soon);
    const tr_status status = ask(out, file, "read", path, more);

    free(more);
    return status;
}

tr_status tr_store_write(tr_store_call **out, int *file, const char *path)
{
    return ask(out, file, "write", path, "");
}

tr_status tr_store_commit(tr_store_call *call, uint64_t bytes)
{
    char *done = tr__must_format("done %llu", (unsigned long long)bytes);
    ssize_t sent;

    while ((sent = send(call->answer, done, strlen(done), MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    free(done);
    return tr_store_end(call);
}

tr_status tr_store_size(int64_t *size, double *written, const char *path)
{
    char *payload, *rest;

    TR_TRY(ask_for_text(&payload, "size", path));
    const int64_t bytes = strtoll(payload, &rest, 10);
    if (size)
        *size = bytes;
    if (written)
        *written = (double)strtoll(rest, NULL, 10) / 1e6;
    free(payload);
    return TR_OK;
}

tr_status tr_store_list(char **lines, const char *folder)
{
    return ask_for_text(lines, "list", folder);
}

static tr_status tell(const char *verb, const char *path)
{
    char           *payload = NULL;
    const tr_status status = ask_for_text(&payload, verb, path);

    free(payload);
    return status;
}

tr_status tr_store_remove(const char *path)
{
    return tell("remove", path);
}

tr_status tr_store_new_save(char **out, const char *folder)
{
    return ask_for_text(out, "new_save", folder);
}

tr_status tr_store_remove_old(const char *folder)
{
    return tell("remove_old", folder);
}

static tr_status get_once(char **content, size_t *size, bool *is_lost, const char *path, int64_t end)
{
    tr_store_call *call;
    char          *payload;
    int            file;

    *is_lost = false;
    TR_TRY(tr_store_read(&call, &file, path, 0, end, end));
    const tr_status status = drain(content, size, file, path);
    close(file);
    const tr_status ended = take_answer(&payload, is_lost, call);
    free(payload);
    return status != TR_OK ? status : ended;
}

tr_status tr_store_get(uint8_t **bytes, size_t *size, const char *path, uint64_t most)
{
    char     *content = NULL;
    bool      is_lost = false;
    tr_status status = TR_OK;

    for (int tries = 0; is_made_again(tries, is_lost); tries++) {
        free(content);
        content = NULL;
        status = get_once(&content, size, &is_lost, path, (int64_t)most + 1);
    }
    if (status == TR_OK && *size > most)
        status = tr_fail(TR_EFORMAT, "'%s' has more than %llu bytes", path, (unsigned long long)most);
    if (status != TR_OK) {
        free(content);
        return status;
    }
    *bytes = (uint8_t *)content;
    return TR_OK;
}
