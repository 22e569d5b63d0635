/* dataset.c - passes over lines, from files as they are read or from memory.
 *
 * What must stay true: threads that take lines hold `lock`; parsing threads never do. */
#include "trainer/dataset/dataset.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/dataset/batch.h"
#include "trainer/dataset/feed_threads.h"
#include "pserver/util/wake.h"
#include "trainer/files/pieces.h"

#include "framework/base/memory.h"

struct tr_dataset {
    tr_data_spec     spec;
    tr_parser        parser;
    tr_feed_threads *feed;
    int              part, parts;

    pthread_mutex_t  lock;            /* guards all fields below */
    bool             is_in_pass, is_leased;
    tr_chunk        *chunk;           /* the chunk whose lines are taken now, or NULL */
    int64_t          chunk_line;      /* the next line of that chunk */
    tr_status        failed;          /* failure of this pass; later calls return it again */
    char            *failure;
    tr_data_counts   counts;
    char            *first_bad;

    bool             is_loading, is_loaded;
    tr_columns       memory;
    int64_t         *order;           /* order of the lines in memory; NULL: as they were read */
    int64_t          memory_line;     /* next line of the pass in that order */
};

const tr_data_spec *tr__dataset_spec(const tr_dataset *dataset)
{
    return &dataset->spec;
}

tr_batch *tr_batch_new(const tr_dataset *dataset)
{
    return tr__batch_new(&dataset->spec);
}

bool tr__dataset_is_shared(const tr_dataset *dataset)
{
    return dataset->parts > 1 && dataset->spec.split != TR_SPLIT_BATCHES;
}

/* == life ===================================================================================== */

tr_status tr_dataset_new(tr_dataset **out, const tr_data_spec *spec)
{
    tr_dataset *dataset = tr__must_alloc(sizeof *dataset);

    tr_status status = tr__data_spec_copy(&dataset->spec, spec);
    if (status == TR_OK)
        status = tr_parser_init(&dataset->parser, &dataset->spec);
    if (status != TR_OK) {
        tr_parser_deinit(&dataset->parser);
        tr__data_spec_deinit(&dataset->spec);
        free(dataset);
        return status;
    }
    dataset->parts = 1;
    dataset->feed = tr_feed_threads_new(&dataset->spec, &dataset->parser);
    pthread_mutex_init(&dataset->lock, NULL);
    *out = dataset;
    return TR_OK;
}

void tr_dataset_free(tr_dataset *dataset)
{
    if (!dataset)
        return;
    tr_dataset_release(dataset);
    tr_feed_threads_free(dataset->feed);
    tr_parser_deinit(&dataset->parser);
    tr__data_spec_deinit(&dataset->spec);
    pthread_mutex_destroy(&dataset->lock);
    free(dataset->first_bad);
    free(dataset->failure);
    free(dataset);
}

tr_status tr_dataset_set_part(tr_dataset *dataset, int part, int parts)
{
    if (parts < 1 || part < 0 || part >= parts)
        return tr_fail(TR_ERANGE, "data: part %d of %d", part, parts);
    if (dataset->is_in_pass)
        return tr_fail(TR_EINVAL, "data: the part is chosen between passes, not in one");
    dataset->part = part;
    dataset->parts = parts;
    return TR_OK;
}

/* == chunks =================================================================================== */

/* Hand the pieces of the data to the reading threads. With the split in tasks, each part takes one of every `parts` tasks. */
static tr_status start_reading(tr_dataset *dataset)
{
    tr_piece *pieces;
    int64_t   count;

    TR_TRY(tr_pieces_list(&pieces, &count, &dataset->spec));
    const tr_status status = tr_feed_start(dataset->feed);
    const bool      is_dealt = dataset->spec.split == TR_SPLIT_TASKS;
    for (int64_t i = 0; status == TR_OK && i < count; i++)
        if (!is_dealt || i % dataset->parts == dataset->part)
            tr_feed_add(dataset->feed, &pieces[i]);
    if (status == TR_OK)
        tr_feed_close(dataset->feed);
    free(pieces);
    return status;
}

static tr_status fail(tr_dataset *dataset, tr_status status)
{
    dataset->failed = status;
    free(dataset->failure);
    dataset->failure = tr__must_strdup(tr_error());
    return status;
}

/* Count bad lines against the limit: 0, or a number that the caller allows. */
static tr_status count_chunk(tr_dataset *dataset, const tr_chunk *chunk)
{
    const int64_t allowed = dataset->spec.bad_lines;

    dataset->counts.lines += chunk->columns.lines;
    dataset->counts.bytes += (int64_t)chunk->block.size;
    dataset->counts.bad_lines += chunk->bad.count;
    if (chunk->status != TR_OK)
        return tr_fail(chunk->status, "%s", chunk->text);
    if (!chunk->bad.count)
        return TR_OK;
    if (!dataset->first_bad && allowed)
        dataset->first_bad = tr__must_strdup(chunk->bad.first);
    if (!allowed || chunk->bad.status == TR_ENOMEM)
        return tr_fail(chunk->bad.status, "%s", chunk->bad.first);
    if (allowed > 0 && dataset->counts.bad_lines > allowed)
        return tr_fail(TR_EFORMAT, "data: %lld lines cannot be read, %lld are allowed; the first: %s",
                       (long long)dataset->counts.bad_lines, (long long)allowed, dataset->first_bad);
    return TR_OK;
}

/* Take the next chunk. Afterwards dataset->chunk is NULL if the pass has ended. */
static tr_status next_chunk(tr_dataset *dataset, double seconds)
{
    const int64_t from = tr__clock();
    tr_status     status = tr_feed_take(&dataset->chunk, dataset->feed, from + (int64_t)(seconds * 1e9));

    dataset->counts.wait_nanoseconds += tr__clock() - from;
    if (status == TR_ETIMEOUT)
        return tr_fail(TR_ETIMEOUT, "data: no line has come in the time given; the files, or '%s', are slow",
                       dataset->spec.pipe_command ? dataset->spec.pipe_command : "their disk");
    dataset->chunk_line = 0;
    if (dataset->chunk)
        status = count_chunk(dataset, dataset->chunk);
    return status == TR_OK ? TR_OK : fail(dataset, status);
}

static void drop_chunk(tr_dataset *dataset)
{
    if (dataset->chunk)
        tr_feed_give_back(dataset->feed, dataset->chunk);
    dataset->chunk = NULL;
}

/* == passes =================================================================================== */

tr_status tr_dataset_begin(tr_dataset *dataset)
{
    if (dataset->is_loading)
        return tr_fail(TR_EINVAL, "data: the lines are still being loaded");
    tr_dataset_end(dataset);
    if (!dataset->is_loaded)
        TR_TRY(start_reading(dataset));
    dataset->memory_line = 0;
    dataset->failed = TR_OK;
    dataset->is_in_pass = true;
    return TR_OK;
}

tr_status tr__dataset_begin_leased(tr_dataset *dataset)
{
    if (dataset->is_loading || dataset->is_loaded)
        return tr_fail(TR_EINVAL, "data: tasks on lease are read while training, but the lines are in memory");
    tr_dataset_end(dataset);
    TR_TRY(tr_feed_start(dataset->feed));
    dataset->failed = TR_OK;
    dataset->is_in_pass = dataset->is_leased = true;
    return TR_OK;
}

void tr__dataset_add(tr_dataset *dataset, const tr_piece *piece)
{
    tr_feed_add(dataset->feed, piece);
}

void tr_dataset_end(tr_dataset *dataset)
{
    drop_chunk(dataset);
    tr_feed_stop(dataset->feed);
    dataset->is_in_pass = dataset->is_leased = false;
}

static tr_status no_memory(void)
{
    return tr_fail(TR_ENOMEM, "data: no memory for a batch");
}

/* Add lines until the batch is full or the pass, or the task, ends. */
static tr_status fill_from_files(tr_dataset *dataset, tr_batch *batch, double seconds)
{
    const int64_t want = dataset->spec.batch_size;
    const bool    by_task = dataset->spec.split == TR_SPLIT_TASKS;

    while (batch->columns.lines < want && !batch->ends_task) {
        if (!dataset->chunk)
            TR_TRY(next_chunk(dataset, seconds));
        const tr_chunk *chunk = dataset->chunk;
        if (!chunk)
            return TR_OK;
        const int64_t left = chunk->columns.lines - dataset->chunk_line, room = want - batch->columns.lines;
        const int64_t count = left < room ? left : room;
        if (!tr_columns_append(&batch->columns, &chunk->columns, dataset->chunk_line, count))
            return no_memory();
        dataset->chunk_line += count;
        batch->task = chunk->block.piece.id;
        if (dataset->chunk_line < chunk->columns.lines)
            continue;
        batch->ends_task = by_task && chunk->block.is_last;
        drop_chunk(dataset);
    }
    return TR_OK;
}

static tr_status fill_from_memory(tr_dataset *dataset, tr_batch *batch)
{
    const int64_t left = dataset->memory.lines - dataset->memory_line;
    const int64_t count = left < dataset->spec.batch_size ? left : dataset->spec.batch_size;

    if (!dataset->order && !tr_columns_append(&batch->columns, &dataset->memory, dataset->memory_line, count))
        return no_memory();
    for (int64_t i = 0; dataset->order && i < count; i++)
        if (!tr_columns_append(&batch->columns, &dataset->memory, dataset->order[dataset->memory_line + i], 1))
            return no_memory();
    dataset->memory_line += count;
    return TR_OK;
}

/* Assemble the next batch. A batch that is too small to count is left out. */
static tr_status fill(bool *got, tr_batch *batch, tr_dataset *dataset, double seconds)
{
    const int64_t least = dataset->spec.drop_last ? dataset->spec.batch_size : 1;

    do {
        if (!batch->is_open) {
            tr_columns_clear(&batch->columns);
            batch->ends_task = false;
        }
        batch->is_open = true;
        if (dataset->is_loaded)
            TR_TRY(fill_from_memory(dataset, batch));
        else
            TR_TRY(fill_from_files(dataset, batch, seconds));
        batch->is_open = false;
        *got = batch->columns.lines >= least;
        if (!*got && batch->ends_task)
            tr_columns_clear(&batch->columns);
        if (!*got && batch->ends_task && dataset->is_leased)
            *got = true;                           /* empty, but a caller waits for the end of this task */
    } while (!*got && batch->ends_task);
    return TR_OK;
}

static tr_status take_batch(bool *got, tr_batch *batch, tr_dataset *dataset, double seconds)
{
    if (!dataset->is_in_pass)
        return tr_fail(TR_EINVAL, "data: no pass has begun");
    if (dataset->failed != TR_OK)
        return tr_fail(dataset->failed, "%s", dataset->failure);
    TR_TRY(fill(got, batch, dataset, seconds));
    const int64_t lines = batch->columns.lines;
    const bool    is_sliced = dataset->spec.split == TR_SPLIT_BATCHES;
    const int64_t part = is_sliced ? dataset->part : 0, parts = is_sliced ? dataset->parts : 1;
    return tr__batch_show(batch, part * lines / parts, (part + 1) * lines / parts) ? TR_OK : no_memory();
}

tr_status tr_dataset_next(bool *got, tr_batch *batch, tr_dataset *dataset, double seconds)
{
    *got = false;
    pthread_mutex_lock(&dataset->lock);
    const tr_status status = take_batch(got, batch, dataset, seconds < 1e8 ? seconds : 1e8);
    pthread_mutex_unlock(&dataset->lock);
    return status;
}

/* == memory =================================================================================== */

static tr_status load_some(bool *done, tr_dataset *dataset, double seconds)
{
    const int64_t deadline = tr__clock() + (int64_t)(seconds * 1e9);

    do {
        TR_TRY(next_chunk(dataset, seconds));
        *done = !dataset->chunk;
        if (dataset->chunk && !tr_columns_append(&dataset->memory, &dataset->chunk->columns, 0, dataset->chunk->columns.lines))
            return tr_fail(TR_ENOMEM, "data: no memory for all lines; after %lld of them", (long long)dataset->memory.lines);
        drop_chunk(dataset);
    } while (!*done && tr__clock() < deadline);
    return TR_OK;
}

tr_status tr_dataset_load(bool *done, tr_dataset *dataset, double seconds)
{
    tr_status status = TR_OK;

    *done = false;
    if (!dataset->is_loading) {
        tr_dataset_release(dataset);
        tr_columns_init(&dataset->memory, &dataset->spec);
        status = start_reading(dataset);
        dataset->is_loading = true;
    }
    if (status == TR_OK)
        status = load_some(done, dataset, seconds);
    if (status == TR_ETIMEOUT || (status == TR_OK && !*done))
        return TR_OK;
    tr_dataset_end(dataset);
    dataset->is_loading = false;
    dataset->is_loaded = true;
    if (status != TR_OK)
        tr_dataset_release(dataset);
    return status;
}

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

tr_status tr_dataset_shuffle(tr_dataset *dataset, uint64_t seed)
{
    const int64_t lines = dataset->memory.lines;
    uint64_t      state = seed;

    if (!dataset->is_loaded)
        return tr_fail(TR_EINVAL, "data: only lines in memory can be shuffled: load them first");
    if (dataset->is_in_pass)
        return tr_fail(TR_EINVAL, "data: lines are shuffled between passes, not in one");
    if (!dataset->order) {
        dataset->order = malloc((size_t)(lines + 1) * sizeof *dataset->order);
        for (int64_t i = 0; dataset->order && i < lines; i++)
            dataset->order[i] = i;
    }
    if (!dataset->order)
        return tr_fail(TR_ENOMEM, "data: no memory for the order of %lld lines", (long long)lines);
    for (int64_t i = lines - 1; i > 0; i--) {      /* Fisher and Yates */
        const int64_t j = (int64_t)((unsigned __int128)next_random(&state) * (uint64_t)(i + 1) >> 64);
        const int64_t line = dataset->order[i];
        dataset->order[i] = dataset->order[j];
        dataset->order[j] = line;
    }
    return TR_OK;
}

void tr_dataset_release(tr_dataset *dataset)
{
    tr_dataset_end(dataset);
    tr_columns_deinit(&dataset->memory);
    free(dataset->order);
    dataset->order = NULL;
    dataset->is_loading = dataset->is_loaded = false;
}

int64_t tr_dataset_lines_in_memory(const tr_dataset *dataset)
{
    return dataset->is_loaded ? dataset->memory.lines : -1;
}

/* == counters ================================================================================= */

void tr_dataset_count(const tr_dataset *dataset, tr_data_counts *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&dataset->lock;

    pthread_mutex_lock(lock);
    *out = dataset->counts;
    pthread_mutex_unlock(lock);
}

const char *tr_dataset_first_bad_line(const tr_dataset *dataset)
{
    return dataset->first_bad ? dataset->first_bad : "";
}
