/* feed_threads.h - threads that read and parse ahead, and one thread that takes the results.
 *
 * A parsing thread takes a free chunk, reads a block of text into it, and parses it beside the other threads. One thread reads at a time,
 * so blocks are numbered in the order of the text. The taker gets chunks in the order of their numbers, whichever thread finished first,
 * and gives them back. A fixed number of chunks bounds the memory; each chunk keeps its memory from use to use.
 *
 * Lock order: `reading` before `lock`. What must stay true: one thread takes. */
#pragma once

#include "trainer/formats/parse.h"

/* A block of text, parsed. */
typedef struct tr_chunk {
    struct tr_chunk *next;
    tr_block_text    block;
    tr_columns       columns;
    tr_bad_lines     bad;
    int64_t          number;
    tr_status        status;          /* of reading; the text is in `text` */
    char            *text;            /* malloc'ed */
} tr_chunk;

typedef struct tr_feed_threads tr_feed_threads;

/* `spec` and `parser` must outlive the threads. */
tr_feed_threads *tr_feed_threads_new(const tr_data_spec *spec, tr_parser *parser);
void             tr_feed_threads_free(tr_feed_threads *feed);

/* Start a pass: threads wait for pieces. */
tr_status tr_feed_start(tr_feed_threads *feed);
/* Add a piece after the others. The path must outlive the pass. */
void      tr_feed_add(tr_feed_threads *feed, const tr_piece *piece);
/* There will be no more pieces. */
void      tr_feed_close(tr_feed_threads *feed);
/* End the pass now: its threads end, and its chunks are free. */
void      tr_feed_stop(tr_feed_threads *feed);

/* Take the next chunk. *out is NULL when all pieces were read. Waits until `deadline` (CLOCK_MONOTONIC, nanoseconds), then returns
 * TR_ETIMEOUT. A chunk whose reading failed is returned, too; the caller checks its status. */
tr_status tr_feed_take(tr_chunk **out, tr_feed_threads *feed, int64_t deadline);
void      tr_feed_give_back(tr_feed_threads *feed, tr_chunk *chunk);
