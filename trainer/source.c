/* source.c - see source.h. */
#include "trainer/source.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "framework/memory.h"
#include "framework/path.h"

enum { MAX_LINE = 1 << 28 };          /* a file with a longer line is refused: it is probably no text */

struct tr_source {
    tr_source_options options;
    tr_piece piece;
    bool     is_open;
    int      file;                    /* or -1 */
    gzFile   packed;                  /* or NULL */
    pthread_mutex_t lock;             /* guards the two fields below: another thread may end the command */
    bool     is_interrupted;          /* no further command is started */
    pid_t    command;                 /* or 0 */
    int64_t  at;                      /* place in the file of the first byte that was not returned yet */
    int64_t  line;
    char    *rest;                    /* bytes that were read and not returned yet: the beginning of a line */
    size_t   rest_size, rest_capacity;
};

void tr_block_text_release(tr_block_text *block)
{
    if (block->table.rows.release)
        block->table.rows.release(&block->table.rows);
    block->table = (tr_table_block){0};
}

void tr_block_text_deinit(tr_block_text *block)
{
    tr_block_text_release(block);
    free(block->text);
    *block = (tr_block_text){0};
}

static bool is_packed(const char *path)
{
    const size_t size = strlen(path);
    return size > 3 && !strcmp(path + size - 3, ".gz");
}

bool tr_source_is_whole(const char *path, const char *pipe_command)
{
    return pipe_command || is_packed(path);
}

/* == life ==================================================================================== */

tr_source *tr_source_new(const tr_source_options *options)
{
    tr_source *source = tr__must_alloc(sizeof *source);

    source->options = *options;
    source->file = -1;
    pthread_mutex_init(&source->lock, NULL);
    return source;
}

void tr_source_interrupt(tr_source *source)
{
    pthread_mutex_lock(&source->lock);
    source->is_interrupted = true;
    if (source->command)
        kill(-source->command, SIGKILL);
    pthread_mutex_unlock(&source->lock);
}

/* Wait for the end of the command, and return waitpid's status. */
static int reap_command(tr_source *source)
{
    siginfo_t info;
    int       status = 0;

    while (waitid(P_PID, (id_t)source->command, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&source->lock);
    while (waitpid(source->command, &status, 0) < 0 && errno == EINTR)
        ;
    source->command = 0;
    pthread_mutex_unlock(&source->lock);
    return status;
}

static void close_piece(tr_source *source)
{
    if (source->is_open && source->options.reader)
        source->options.reader->close(source->options.reader->payload);
    if (source->packed)
        gzclose(source->packed);
    else if (source->file >= 0)
        close(source->file);
    if (source->command) {
        tr_source_interrupt(source);
        reap_command(source);
    }
    source->packed = NULL;
    source->file = -1;
    source->is_open = false;
}

void tr_source_free(tr_source *source)
{
    if (!source)
        return;
    close_piece(source);
    pthread_mutex_destroy(&source->lock);
    free(source->rest);
    free(source);
}

bool tr_source_is_open(const tr_source *source)
{
    return source->is_open;
}

/* == a command ================================================================================ */

/* The environment of commands, as it was when the first feed was made. Other threads may change the process's environment while a
 * command is started (a library's first use does). The copy stays until the process ends. */
static char **environment;

static void copy_environment(void)
{
    size_t count = 0;

    while (environ[count])
        count++;
    environment = tr__must_array(count + 1, sizeof *environment);
    for (size_t i = 0; i < count; i++)
        environment[i] = tr__must_strdup(environ[i]);
}

void tr_source_keep_environment(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, copy_environment);
}

/* Between vfork and exec the child may only make system calls. It runs in the parent's memory, and leaves there the reason of a failure. */
static void become(int input, int output, const char *command, const sigset_t *mask, volatile int *failed)
{
    setpgid(0, 0);                                 /* the child leads a process group, so that the whole group can be ended */
    prctl(PR_SET_PDEATHSIG, SIGKILL);              /* if this process is killed, the child does not outlive it */
    dup2(input, 0);
    dup2(output, 1);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execle("/bin/sh", "sh", "-c", command, (char *)NULL, environment ? environment : environ);
    *failed = errno;
    _exit(127);                                    /* exit code of the child: there is no shell */
}

static tr_status spawn(pid_t *out, int input, int output, const char *command)
{
    sigset_t     all, none, old;
    volatile int failed = 0;

    sigfillset(&all);
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &all, &old);      /* the parent's signal handlers must not run in the child */
    *out = vfork();
    if (*out == 0)
        become(input, output, command, &none, &failed);
    if (*out < 0)
        failed = errno;
    else if (failed)
        waitpid(*out, NULL, 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? tr_fail(TR_EIO, "data: '%s' cannot be started: %s", command, strerror(failed)) : TR_OK;
}

/* Start the command with the file as its input, and read its output. */
static tr_status start_command(tr_source *source)
{
    pid_t pid = 0;
    int   ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return tr_fail(TR_EIO, "data: no pipe for '%s': %s", source->options.pipe_command, strerror(errno));
    pthread_mutex_lock(&source->lock);
    const tr_status status = source->is_interrupted ? tr_fail(TR_EIO, "data: interrupted")
                                                    : spawn(&pid, source->file, ends[1], source->options.pipe_command);
    source->command = status == TR_OK ? pid : 0;
    pthread_mutex_unlock(&source->lock);
    close(ends[1]);
    close(source->file);
    source->file = ends[0];
    return status;
}

/* The command has closed its output: check how it ended. */
static tr_status end_command(tr_source *source)
{
    const int status = reap_command(source);

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return TR_OK;
    return tr_fail(TR_EIO, "data: '%s' on '%s' ended with %s %d", source->options.pipe_command, source->piece.path,
                   WIFEXITED(status) ? "exit code" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* == reading ================================================================================== */

/* Read up to `size` bytes. 0: the end of the file. */
static tr_status read_some(size_t *got, tr_source *source, char *to, size_t size)
{
    if (source->packed) {
        const int n = gzread(source->packed, to, (unsigned)size);
        int       error = Z_OK;
        const char *text = n < 0 || (n == 0 && size) ? gzerror(source->packed, &error) : "";
        if (n < 0 || (n == 0 && error != Z_OK && error != Z_STREAM_END))
            return tr_fail(TR_EFORMAT, "data: '%s' cannot be unpacked: %s", source->piece.path, text);
        *got = (size_t)n;
    } else {
        ssize_t n;
        while ((n = read(source->file, to, size)) < 0 && errno == EINTR)
            ;
        if (n < 0)
            return tr_fail(TR_EIO, "data: '%s' cannot be read: %s", source->piece.path, strerror(errno));
        *got = (size_t)n;
    }
    return TR_OK;
}

/* Make room for `size` bytes and a line's end. */
static tr_status reserve(char **data, size_t *capacity, size_t size)
{
    if (*capacity >= size + 2)
        return TR_OK;
    char *memory = realloc(*data, size + size / 4 + 2);
    if (!memory)
        return tr_fail(TR_ENOMEM, "data: no memory for %zu bytes of text", size);
    *data = memory;
    *capacity = size + size / 4 + 2;
    return TR_OK;
}

static tr_status keep_rest(tr_source *source, const char *from, size_t size)
{
    TR_TRY(reserve(&source->rest, &source->rest_capacity, size));
    memcpy(source->rest, from, size);
    source->rest_size = size;
    return TR_OK;
}

static int64_t count_lines(const char *text, size_t size)
{
    int64_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Find the end of the last whole line that belongs to the piece. 0: no line has ended yet, or there is none. *is_last: the piece ends
 * there. */
static size_t cut(const tr_source *source, const char *text, size_t size, bool *is_last)
{
    const int64_t left = source->piece.end - source->at;      /* lines that begin before this place belong to the piece */

    *is_last = left <= 0;
    if (*is_last)
        return 0;
    const char *end = left <= (int64_t)size ? memchr(text + left - 1, '\n', size - (size_t)left + 1) : NULL;
    *is_last = end;
    if (!end)
        end = memrchr(text, '\n', size);
    return end ? (size_t)(end + 1 - text) : 0;
}

/* Fill the block up to a line's end. */
static tr_status fill(tr_source *source, tr_block_text *block)
{
    size_t want = (size_t)source->options.block_bytes, got = 1;

    TR_TRY(reserve(&block->text, &block->capacity, want > source->rest_size ? want : source->rest_size));
    memcpy(block->text, source->rest ? source->rest : "", source->rest_size);
    block->size = source->rest_size;
    source->rest_size = 0;
    for (;;) {
        while (block->size < want && got) {
            TR_TRY(read_some(&got, source, block->text + block->size, want - block->size));
            block->size += got;
        }
        if (!got && block->size && block->text[block->size - 1] != '\n')
            block->text[block->size++] = '\n';
        const size_t whole = cut(source, block->text, block->size, &block->is_last);
        block->is_last |= !got;
        if (whole || block->is_last) {
            TR_TRY(keep_rest(source, block->text + whole, block->is_last ? 0 : block->size - whole));
            block->size = whole;
            source->at += (int64_t)whole;
            return TR_OK;
        }
        if (want >= MAX_LINE)
            return tr_fail(TR_EFORMAT, "%s, line %lld: it is longer than %d bytes; is this a text file?",
                           source->piece.path, (long long)tr_piece_line_number(&source->piece, source->line), MAX_LINE);
        want *= 2;
        TR_TRY(reserve(&block->text, &block->capacity, want));
    }
}

static tr_status read_table(tr_source *source, tr_block_text *block)
{
    const tr_table_reader *reader = source->options.reader;
    char                   error[TR_TABLE_ERROR_SIZE] = "";

    tr_block_text_release(block);
    const tr_status status = reader->next(reader->payload, &block->table, error);
    if (status != TR_OK)
        return tr_fail(status, "%s", error);
    block->size = (size_t)block->table.bytes;
    block->is_last = block->table.is_last;
    if (block->is_last)
        close_piece(source);
    return TR_OK;
}

tr_status tr_source_read(tr_source *source, tr_block_text *block)
{
    block->piece = source->piece;
    if (source->options.reader)
        return read_table(source, block);
    block->line = source->line;
    TR_TRY(fill(source, block));
    block->text[block->size] = '\0';
    source->line += count_lines(block->text, block->size);
    if (!block->is_last)
        return TR_OK;
    const tr_status status = source->command ? end_command(source) : TR_OK;
    close_piece(source);
    return status;
}

/* == opening ================================================================================== */

/* Take the text up to '\n' from the beginning of the next block. */
static tr_status take_line(tr_block_text *line, tr_source *source)
{
    const int64_t end = source->piece.end, at = source->at;

    source->piece.end = INT64_MAX;
    const tr_status status = fill(source, line);
    source->piece.end = end;
    TR_TRY(status);
    const size_t size = line->size ? (size_t)((char *)memchr(line->text, '\n', line->size) + 1 - line->text) : 0;
    const size_t read = line->size, rest = source->rest_size;
    /* Put the text after the line back in front of the rest. */
    TR_TRY(reserve(&source->rest, &source->rest_capacity, read - size + rest));
    memmove(source->rest + read - size, source->rest, rest);
    memcpy(source->rest, line->text + size, read - size);
    source->rest_size = read - size + rest;
    source->at = at + (int64_t)size;
    line->size = size;
    line->text[size] = '\0';
    return TR_OK;
}

/* Read the line of names, which stands at the beginning of the file, whichever piece is read. */
static tr_status read_header(tr_source *source)
{
    tr_block_text line = {0};
    tr_status     status;

    TR_TRY_GOTO(done, take_line(&line, source));
    if (!line.size)
        status = tr_fail(TR_EFORMAT, "%s: it is empty, and its first line should name the columns", source->piece.path);
    else
        status = source->options.header(source->options.payload, source->piece.path, line.text);
    source->line = 1;
done:
    tr_block_text_deinit(&line);
    return status;
}

/* Go to the first line that begins at the piece's begin or after it. */
static tr_status seek_line(tr_source *source)
{
    tr_block_text line = {0};

    if (lseek(source->file, source->piece.begin - 1, SEEK_SET) < 0)
        return tr_fail(TR_EIO, "data: '%s' has no byte %lld: %s", source->piece.path, (long long)source->piece.begin - 1,
                       strerror(errno));
    source->at = source->piece.begin - 1;
    source->rest_size = 0;
    source->line = 0;
    const tr_status status = take_line(&line, source);
    tr_block_text_deinit(&line);
    return status;
}

static tr_status open_packed(tr_source *source)
{
    struct stat info;

    source->packed = gzdopen(source->file, "rb");
    if (!source->packed)
        return tr_fail(TR_ENOMEM, "data: no memory for unpacking '%s'", source->piece.path);
    gzbuffer(source->packed, 1 << 17);
    if (gzdirect(source->packed) && fstat(source->file, &info) == 0 && info.st_size > 0)
        return tr_fail(TR_EFORMAT, "data: '%s' is not packed by gzip, as its name says", source->piece.path);
    return TR_OK;
}

static tr_status open_file(tr_source *source)
{
    const char *path = source->piece.path;

    if (tr_path_open(&source->file, NULL, path) != TR_OK) {
        source->file = -1;
        return tr_fail(errno == ENOENT ? TR_ENOTFOUND : TR_EIO, "data: %s", tr_error());
    }
    if (source->options.pipe_command)
        return start_command(source);
    return is_packed(path) ? open_packed(source) : TR_OK;
}

static tr_status open_table(tr_source *source)
{
    const tr_table_reader *reader = source->options.reader;
    const tr_piece        *piece = &source->piece;
    char                   error[TR_TABLE_ERROR_SIZE] = "";

    const tr_status status = reader->open(reader->payload, piece->path, piece->begin, piece->end, error);
    source->is_open = status == TR_OK;
    return source->is_open ? TR_OK : tr_fail(status, "%s", error);
}

tr_status tr_source_open(tr_source *source, const tr_piece *piece)
{
    tr_status status;

    source->piece = *piece;
    source->at = source->line = 0;
    source->rest_size = 0;
    if (source->options.reader)
        return open_table(source);
    TR_TRY_GOTO(fail, open_file(source));
    if (source->options.header)
        TR_TRY_GOTO(fail, read_header(source));
    if (piece->begin > 0)
        TR_TRY_GOTO(fail, seek_line(source));
    source->is_open = true;
    return TR_OK;
fail:
    close_piece(source);
    return status;
}

int64_t tr_piece_line_number(const tr_piece *piece, int64_t line)
{
    char     text[1 << 14];
    int64_t  left = piece->begin > 0 ? piece->begin - 1 : 0;
    int64_t  before = piece->begin > 0;            /* the byte before the piece belongs to this line */
    ssize_t  got = 1;
    int      file = -1;

    if (left && tr_path_open(&file, NULL, piece->path) != TR_OK)
        file = -1;
    while (file >= 0 && left > 0 && got > 0) {
        got = read(file, text, left < (int64_t)sizeof text ? (size_t)left : sizeof text);
        before += got > 0 ? count_lines(text, (size_t)got) : 0;
        left -= got;
    }
    if (file >= 0)
        close(file);
    return before + line + 1;
}
