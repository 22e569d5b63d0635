/* source.h - the text of files, in blocks of whole lines; or the rows of tables.
 *
 * Pieces of files are read one after the other in large blocks. A piece [begin, end) of a file has the lines that begin in it, so pieces
 * share the lines of a file. A file that is packed (.gz) or piped through a command is one piece.
 *
 * What must stay true: one thread at a time uses a source (feed_threads.h holds its lock). */
#pragma once

#include "framework/base/status.h"
#include "trainer/trireme_data.h"

/* Part of a file; end = INT64_MAX: to its end. */
typedef struct tr_piece {
    const char *path;                 /* borrowed for the life of the source */
    int64_t     begin, end;
    int64_t     id;                   /* a number of the caller's choice */
} tr_piece;

/* Text of whole lines. Every line ends with '\n', also the last line of a file, and lines that end with CR alone there. A NUL stands after
 * the text. */
typedef struct tr_block_text {
    char    *text;
    size_t   size, capacity;
    tr_piece piece;
    int64_t  line;                    /* number of lines before this text: in the piece; for a packed or piped file, in the file */
    bool     is_last;                 /* this is the last text of its piece */
    tr_table_block table;             /* for a table: the rows, instead of text */
} tr_block_text;

void tr_block_text_deinit(tr_block_text *block);
/* Give the rows of a table back, if the block holds any. */
void tr_block_text_release(tr_block_text *block);

/* A function that reads the first line of a file with a line of names. `text` ends with '\n'. */
typedef tr_status (*tr_header_fn)(void *payload, const char *path, const char *text);

typedef struct tr_source_options {
    int64_t      block_bytes;
    const char  *pipe_command;        /* NULL: none */
    tr_header_fn header;              /* NULL: files have no such line */
    void        *payload;
    const tr_table_reader *reader;    /* NULL: files are text */
} tr_source_options;

typedef struct tr_source tr_source;

tr_source *tr_source_new(const tr_source_options *options);
/* Close the file, and end a command that still runs. */
void       tr_source_free(tr_source *source);
/* From another thread: end the command that a read waits for. The read then fails. */
void       tr_source_interrupt(tr_source *source);
/* Open this piece. The piece before must have been read to its end. */
tr_status  tr_source_open(tr_source *source, const tr_piece *piece);
/* Is there more of the open piece? */
bool       tr_source_is_open(const tr_source *source);
/* Read the next block of the piece. The block may be empty, because a piece need not contain the beginning of a line. */
tr_status  tr_source_read(tr_source *source, tr_block_text *block);

/* Is this file always one piece, whatever its size? */
bool tr_source_is_whole(const char *path, const char *pipe_command);
/* The number, from 1, of line `line` of a piece. The call counts the lines of the file before the piece. */
int64_t tr_piece_line_number(const tr_piece *piece, int64_t line);
