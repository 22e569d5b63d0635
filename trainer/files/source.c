/* source.c - see source.h. */
#include "trainer/files/source.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "storage/stores/command.h"
#include "storage/stores/object_store.h"
#include "trainer/files/text_start.h"
#include "trainer/files/unpack.h"

enum { MAX_LINE = 1 << 28 };          /* a file with a longer line is refused: it is probably no text */

struct tr_source {
    tr_source_options options;
    tr_piece piece;
    bool     is_open;
    int      file;                    /* or -1 */
    tr_store_call *call;              /* that fills `file` with a file of a store; or NULL */
    tr_unpack *packed;                /* or NULL */
    pthread_mutex_t lock;             /* guards the fields below: another thread may end the command, or the bytes of the store */
    int      store_file;              /* the socket that the call fills; or -1 */
    bool     is_interrupted;          /* no further command is started */
    tr_command *command;              /* or NULL */
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
    return pipe_command || is_packed(path) || tr_store_unpacks(path);
}

/* == life ==================================================================================== */

tr_source *tr_source_new(const tr_source_options *options)
{
    tr_source *source = tr__must_alloc(sizeof *source);

    source->options = *options;
    source->file = source->store_file = -1;
    pthread_mutex_init(&source->lock, NULL);
    return source;
}

void tr_source_interrupt(tr_source *source)
{
    pthread_mutex_lock(&source->lock);
    source->is_interrupted = true;
    if (source->command)
        tr_command_kill(source->command);
    if (source->store_file >= 0)
        shutdown(source->store_file, SHUT_RDWR);
    pthread_mutex_unlock(&source->lock);
}

/* The command has closed its output: check how it ended. */
static tr_status end_command(tr_source *source)
{
    pthread_mutex_lock(&source->lock);
    tr_command *command = source->command;
    source->command = NULL;
    pthread_mutex_unlock(&source->lock);
    return command ? tr_command_end(command, source->piece.path) : TR_OK;
}

/* Close the file. Of one of a store, or its command, this says how reading ended. */
static tr_status close_file(tr_source *source)
{
    pthread_mutex_lock(&source->lock);
    const int file = source->store_file;
    source->store_file = -1;
    pthread_mutex_unlock(&source->lock);
    tr_store_call *call = source->call;
    source->call = NULL;
    if (source->file >= 0)
        close(source->file);
    if (file >= 0 && file != source->file)         /* a command reads it */
        close(file);
    source->file = -1;
    return call ? tr_store_end(call) : TR_OK;
}

static void close_piece(tr_source *source)
{
    if (source->is_open && source->options.reader)
        source->options.reader->close(source->options.reader->payload);
    tr_unpack_free(source->packed);
    if (source->command)
        tr_command_kill(source->command);
    end_command(source);
    close_file(source);
    source->packed = NULL;
    source->is_open = false;
}

/* Reading has failed, or has ended. Where a store failed, this is the reason. */
static tr_status reason(tr_source *source, tr_status status)
{
    char           *text = status != TR_OK ? tr__must_strdup(tr_error()) : NULL;
    const tr_status ended = end_command(source), closed = close_file(source);

    if (closed == TR_OK && status != TR_OK)
        tr_fail(status, "%s", text);
    free(text);
    return closed != TR_OK ? closed : status != TR_OK ? status : ended;
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

/* == reading ================================================================================== */

/* Read up to `size` bytes. 0: the end of the file. */
static tr_status read_some(size_t *got, tr_source *source, char *to, size_t size)
{
    ssize_t n;

    if (source->packed)
        return tr_unpack_read(got, source->packed, to, size);
    if (source->call)
        TR_TRY(tr_store_await(source->file, source->piece.path));
    while ((n = read(source->file, to, size)) < 0 && errno == EINTR)
        ;
    if (n < 0)
        return tr_fail(TR_EIO, "data: '%s' cannot be read: %s", source->piece.path, strerror(errno));
    *got = (size_t)n;
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

/* A CR ends a line, too, as CR LF does. Make LF of each CR that no LF follows. At the end of the text a CR stays, unless the file ends
 * there. */
static void end_lines(char *text, size_t size, bool is_end)
{
    char *const end = text + size;

    for (char *cr = text; (cr = memchr(cr, '\r', (size_t)(end - cr))); cr++)
        if (cr + 1 < end ? cr[1] != '\n' : is_end)
            *cr = '\n';
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
        end_lines(block->text, block->size, !got);
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
    tr_status status = fill(source, block);
    if (status != TR_OK)
        return reason(source, status);
    block->text[block->size] = '\0';
    source->line += count_lines(block->text, block->size);
    if (!block->is_last)
        return TR_OK;
    status = reason(source, TR_OK);
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

/* Look at the first bytes of a file, and skip a byte order mark. */
static tr_status read_start(tr_source *source)
{
    size_t got = 1, skip;

    TR_TRY(reserve(&source->rest, &source->rest_capacity, TR_TEXT_START));
    for (; got && source->rest_size < TR_TEXT_START; source->rest_size += got)
        TR_TRY(read_some(&got, source, source->rest + source->rest_size, TR_TEXT_START - source->rest_size));
    TR_TRY(tr_text_start(&skip, source->rest, source->rest_size, source->piece.path));
    source->rest_size -= skip;
    source->at += (int64_t)skip;
    memmove(source->rest, source->rest + skip, source->rest_size);
    return TR_OK;
}

/* Read the line of names, which stands at the beginning of the file, whichever piece is read. */
static tr_status read_header(tr_source *source)
{
    tr_block_text line = {0};
    tr_status     status;

    TR_TRY_GOTO(done, take_line(&line, source));
    if (!line.size && source->command)
        TR_TRY_GOTO(done, end_command(source));
    if (!line.size)
        status = tr_fail(TR_EFORMAT, "%s: it is empty, and its first line should name the columns", source->piece.path);
    else
        status = source->options.header(source->options.payload, source->piece.path, line.text);
    source->line = 1;
done:
    tr_block_text_deinit(&line);
    return status;
}

/* Read the file from `begin` on. */
static tr_status open_store(tr_source *source, int64_t begin)
{
    tr_status status = close_file(source);

    pthread_mutex_lock(&source->lock);
    if (status == TR_OK)
        status = source->is_interrupted ? tr_fail(TR_EIO, "data: interrupted")
                                        : tr_store_read(&source->call, &source->file, source->piece.path, begin, INT64_MAX,
                                                        source->piece.end);
    if (status == TR_OK)
        source->store_file = source->file;
    pthread_mutex_unlock(&source->lock);
    return status;
}

static tr_status go_to(tr_source *source, int64_t begin)
{
    if (source->call)
        return open_store(source, begin);
    if (lseek(source->file, begin, SEEK_SET) < 0)
        return tr_fail(TR_EIO, "data: '%s' has no byte %lld: %s", source->piece.path, (long long)begin, strerror(errno));
    return TR_OK;
}

/* Go to the first line that begins at the piece's begin or after it. */
static tr_status seek_line(tr_source *source)
{
    tr_block_text line = {0};

    TR_TRY(go_to(source, source->piece.begin - 1));
    source->at = source->piece.begin - 1;
    source->rest_size = 0;
    source->line = 0;
    const tr_status status = take_line(&line, source);
    tr_block_text_deinit(&line);
    return status;
}

/* Start the command with the file as its input, and read its output. */
static tr_status start_command(tr_source *source)
{
    const int input = source->file;
    tr_status status;

    pthread_mutex_lock(&source->lock);
    if (source->is_interrupted) {
        status = tr_fail(TR_EIO, "data: interrupted");
    } else {
        source->file = -1;
        status = tr_command_start(&source->command, &source->file, input, source->options.pipe_command);
    }
    pthread_mutex_unlock(&source->lock);
    return status;
}

static tr_status open_packed(tr_source *source)
{
    source->packed = tr_unpack_new(source->file, source->piece.path);
    return source->packed ? TR_OK : tr_fail(TR_ENOMEM, "data: no memory for unpacking '%s'", source->piece.path);
}

static tr_status open_file(tr_source *source)
{
    const char *path = source->piece.path;

    if (tr_store_opens(path)) {
        TR_TRY(open_store(source, 0));
    } else if (tr_path_open(&source->file, NULL, path) != TR_OK) {
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
    if (source->options.header || piece->begin == 0)
        TR_TRY_GOTO(fail, read_start(source));
    if (source->options.header)
        TR_TRY_GOTO(fail, read_header(source));
    if (piece->begin > 0)
        TR_TRY_GOTO(fail, seek_line(source));
    source->is_open = true;
    return TR_OK;
fail:
    status = reason(source, status);
    close_piece(source);
    return status;
}

/* The lines that end in the first `size` bytes of a file. */
static int64_t count_ends(const char *path, int64_t size)
{
    char    text[1 << 14];
    int64_t lines = 0;
    bool    has_cr = false;                        /* the last byte was CR */
    ssize_t got = 1;
    int     file = -1;
    tr_store_call *call = NULL;

    if ((tr_store_is_uri(path) ? tr_store_read(&call, &file, path, 0, size + 1, size + 1) : tr_path_open(&file, NULL, path)) != TR_OK)
        return 0;
    while (size >= 0 && (got = read(file, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < got && size >= 0; i++, size--) {
            lines += has_cr && text[i] != '\n';
            has_cr = text[i] == '\r';
            lines += text[i] == '\n' && size > 0;
        }
    close(file);
    if (call)
        tr_store_end(call);
    return lines;
}

int64_t tr_piece_line_number(const tr_piece *piece, int64_t line)
{
    if (piece->begin <= 0)
        return line + 1;
    return count_ends(piece->path, piece->begin - 1) + line + 2;      /* the byte before the piece belongs to the line before */
}
