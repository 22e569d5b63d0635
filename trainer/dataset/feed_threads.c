/* feed_threads.c - see feed_threads.h. */
#include "trainer/dataset/feed_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/base/memory.h"
#include "pserver/util/wake.h"
#include "storage/stores/command.h"

typedef struct piece_node {
    struct piece_node *next;
    tr_piece           piece;
} piece_node;

struct tr_feed_threads {
    const tr_data_spec *spec;
    tr_parser          *parser;
    int                 chunk_count;
    tr_chunk           *chunk;
    pthread_t          *thread;
    int                 started;

    pthread_mutex_t     reading;      /* guards reading: source, next_number */
    tr_source          *source;
    int64_t             next_number;

    pthread_mutex_t     lock;         /* guards all fields below */
    pthread_cond_t      is_ready, is_free, has_piece;
    tr_chunk           *free, *ready; /* ready: in the order of their numbers */
    piece_node         *pieces, **pieces_end;
    bool                is_closed, is_stopping;
    bool                is_starved;   /* the thread that reads waits for a piece */
    bool                has_ended;    /* all pieces were read, or reading has failed: no further chunk gets a number */
    int64_t             wanted;       /* number of the next chunk to be taken */
    int                 working;      /* chunks that have a number and are not ready */
};

/* == life ===================================================================================== */

static void cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

tr_feed_threads *tr_feed_threads_new(const tr_data_spec *spec, tr_parser *parser)
{
    tr_feed_threads *feed = tr__must_alloc(sizeof *feed);

    feed->spec = spec;
    feed->parser = parser;
    feed->chunk_count = 2 * spec->threads + 2;
    feed->chunk = tr__must_alloc((size_t)feed->chunk_count * sizeof *feed->chunk);
    feed->thread = tr__must_alloc((size_t)spec->threads * sizeof *feed->thread);
    for (int i = 0; i < feed->chunk_count; i++)
        tr_columns_init(&feed->chunk[i].columns, spec);
    pthread_mutex_init(&feed->reading, NULL);
    pthread_mutex_init(&feed->lock, NULL);
    cond_init(&feed->is_ready);
    cond_init(&feed->is_free);
    cond_init(&feed->has_piece);
    return feed;
}

void tr_feed_threads_free(tr_feed_threads *feed)
{
    if (!feed)
        return;
    tr_feed_stop(feed);
    for (int i = 0; i < feed->chunk_count; i++) {
        tr_block_text_deinit(&feed->chunk[i].block);
        tr_columns_deinit(&feed->chunk[i].columns);
        free(feed->chunk[i].bad.first);
        free(feed->chunk[i].text);
    }
    pthread_cond_destroy(&feed->has_piece);
    pthread_cond_destroy(&feed->is_free);
    pthread_cond_destroy(&feed->is_ready);
    pthread_mutex_destroy(&feed->lock);
    pthread_mutex_destroy(&feed->reading);
    free(feed->chunk);
    free(feed->thread);
    free(feed);
}

/* == one parsing thread ======================================================================= */

/* Wait for a free chunk. NULL: the pass is being stopped, or all pieces were read. The caller holds `reading`. */
static tr_chunk *wait_for_chunk(tr_feed_threads *feed)
{
    tr_chunk *chunk = NULL;

    pthread_mutex_lock(&feed->lock);
    while (!feed->free && !feed->is_stopping && !feed->has_ended)
        pthread_cond_wait(&feed->is_free, &feed->lock);
    if (!feed->is_stopping && !feed->has_ended) {
        chunk = feed->free;
        feed->free = chunk->next;
        feed->working++;
    }
    pthread_mutex_unlock(&feed->lock);
    return chunk;
}

/* Wait for a piece to read. False: there are no more. The caller holds `reading`. */
static bool wait_for_piece(tr_feed_threads *feed, tr_piece *out)
{
    pthread_mutex_lock(&feed->lock);
    feed->is_starved = true;
    while (!feed->pieces && !feed->is_closed && !feed->is_stopping)
        pthread_cond_wait(&feed->has_piece, &feed->lock);
    feed->is_starved = false;
    piece_node *node = feed->is_stopping ? NULL : feed->pieces;
    if (node) {
        *out = node->piece;
        feed->pieces = node->next;
        if (!node->next)
            feed->pieces_end = &feed->pieces;
    }
    pthread_mutex_unlock(&feed->lock);
    free(node);
    return node;
}

/* Fill a chunk with text. False: there is no more text. A failure is noted in the chunk. The caller holds `reading`. */
static bool read_chunk(tr_feed_threads *feed, tr_chunk *chunk)
{
    tr_piece piece;

    chunk->status = TR_OK;
    chunk->block.size = 0;
    chunk->block.is_last = false;
    if (!tr_source_is_open(feed->source)) {
        if (!wait_for_piece(feed, &piece))
            return false;
        chunk->block.piece = piece;
        chunk->status = tr_source_open(feed->source, &piece);
    }
    if (chunk->status == TR_OK)
        chunk->status = tr_source_read(feed->source, &chunk->block);
    if (chunk->status != TR_OK) {
        free(chunk->text);
        chunk->text = tr__must_strdup(tr_error());
        chunk->block.size = 0;
    }
    return true;
}

/* Put a parsed chunk into `ready`, in the order of numbers. */
static void put_ready(tr_feed_threads *feed, tr_chunk *chunk)
{
    pthread_mutex_lock(&feed->lock);
    tr_chunk **link = &feed->ready;
    while (*link && (*link)->number < chunk->number)
        link = &(*link)->next;
    chunk->next = *link;
    *link = chunk;
    feed->working--;
    pthread_cond_signal(&feed->is_ready);
    pthread_mutex_unlock(&feed->lock);
}

static void put_back(tr_feed_threads *feed, tr_chunk *chunk)
{
    pthread_mutex_lock(&feed->lock);
    chunk->next = feed->free;
    feed->free = chunk;
    feed->working--;
    feed->has_ended = true;
    pthread_cond_broadcast(&feed->is_free);
    pthread_cond_signal(&feed->is_ready);
    pthread_mutex_unlock(&feed->lock);
}

/* Take a free chunk and read the next block of text into it. NULL: this thread has no more work. */
static tr_chunk *next_block(tr_feed_threads *feed)
{
    pthread_mutex_lock(&feed->reading);
    tr_chunk *chunk = wait_for_chunk(feed);
    if (chunk && !read_chunk(feed, chunk)) {
        put_back(feed, chunk);
        chunk = NULL;
    }
    if (chunk) {
        chunk->number = feed->next_number++;
        if (chunk->status != TR_OK) {              /* reading stops after this failure */
            pthread_mutex_lock(&feed->lock);
            feed->has_ended = true;
            pthread_cond_broadcast(&feed->is_free);
            pthread_mutex_unlock(&feed->lock);
        }
    }
    pthread_mutex_unlock(&feed->reading);
    return chunk;
}

static void *work(void *payload)
{
    tr_feed_threads *feed = payload;
    tr_chunk        *chunk;

    while ((chunk = next_block(feed))) {
        tr_columns_clear(&chunk->columns);
        free(chunk->bad.first);
        chunk->bad = (tr_bad_lines){0};
        if (chunk->status == TR_OK)
            tr_parse_block(feed->parser, &chunk->columns, &chunk->block, feed->spec->bad_lines != 0, &chunk->bad);
        tr_block_text_release(&chunk->block);
        put_ready(feed, chunk);
    }
    return NULL;
}

/* == a pass =================================================================================== */

tr_status tr_feed_start(tr_feed_threads *feed)
{
    const bool has_header = feed->spec->format == TR_DATA_CSV && feed->spec->has_header;
    const bool has_tables = feed->spec->format == TR_DATA_TABLE;
    const tr_source_options options = {feed->spec->block_bytes, feed->spec->pipe_command,
                                       has_header ? tr_parser_header : NULL, feed->parser,
                                       has_tables ? &feed->spec->reader : NULL};

    tr_command_keep_environment();
    tr_feed_stop(feed);
    feed->source = tr_source_new(&options);
    feed->pieces_end = &feed->pieces;
    feed->is_closed = feed->is_stopping = feed->has_ended = false;
    feed->next_number = feed->wanted = 0;
    feed->free = feed->ready = NULL;
    feed->working = 0;
    for (int i = 0; i < feed->chunk_count; i++) {
        feed->chunk[i].next = feed->free;
        feed->free = &feed->chunk[i];
    }
    for (int i = 0; i < feed->spec->threads; i++) {
        if (pthread_create(&feed->thread[i], NULL, work, feed)) {
            tr_feed_stop(feed);
            return tr_fail(TR_ENOMEM, "data: thread %d of %d cannot be started", i + 1, feed->spec->threads);
        }
        feed->started++;
    }
    return TR_OK;
}

void tr_feed_add(tr_feed_threads *feed, const tr_piece *piece)
{
    piece_node *node = tr__must_alloc(sizeof *node);

    node->piece = *piece;
    pthread_mutex_lock(&feed->lock);
    *feed->pieces_end = node;
    feed->pieces_end = &node->next;
    pthread_cond_signal(&feed->has_piece);
    pthread_mutex_unlock(&feed->lock);
}

void tr_feed_close(tr_feed_threads *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->is_closed = true;
    pthread_cond_broadcast(&feed->has_piece);
    pthread_mutex_unlock(&feed->lock);
}

void tr_feed_stop(tr_feed_threads *feed)
{
    if (!feed->source)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->is_stopping = true;
    pthread_cond_broadcast(&feed->is_free);
    pthread_cond_broadcast(&feed->has_piece);
    pthread_mutex_unlock(&feed->lock);
    tr_source_interrupt(feed->source);
    for (int i = 0; i < feed->started; i++)
        pthread_join(feed->thread[i], NULL);
    feed->started = 0;
    while (feed->pieces) {
        piece_node *next = feed->pieces->next;
        free(feed->pieces);
        feed->pieces = next;
    }
    tr_source_free(feed->source);
    feed->source = NULL;
}

/* == taking =================================================================================== */

/* May the first ready chunk be taken now? The caller holds `lock`. */
static bool can_take(const tr_feed_threads *feed)
{
    return feed->ready && (feed->spec->is_unordered || feed->ready->number == feed->wanted);
}

/* Is no thread at work? One is waiting for a piece, with the chunk that it would fill. */
static bool is_idle(const tr_feed_threads *feed)
{
    return feed->is_starved && !feed->pieces && feed->working == 1;
}

static bool is_at_end(const tr_feed_threads *feed)
{
    return feed->has_ended && !feed->working && !feed->ready;
}

tr_status tr_feed_take(tr_chunk **out, tr_feed_threads *feed, int64_t deadline)
{
    bool is_late = false;

    *out = NULL;
    pthread_mutex_lock(&feed->lock);
    while (!can_take(feed) && !is_at_end(feed) && !is_late)
        is_late = !tr__cond_wait(&feed->is_ready, &feed->lock, deadline, is_idle(feed));
    const bool found = can_take(feed), ended = is_at_end(feed);
    if (found) {
        *out = feed->ready;
        feed->ready = (*out)->next;
        feed->wanted++;
    }
    pthread_mutex_unlock(&feed->lock);
    return found || ended ? TR_OK : TR_ETIMEOUT;
}

void tr_feed_give_back(tr_feed_threads *feed, tr_chunk *chunk)
{
    pthread_mutex_lock(&feed->lock);
    chunk->next = feed->free;
    feed->free = chunk;
    pthread_cond_signal(&feed->is_free);
    pthread_mutex_unlock(&feed->lock);
}
