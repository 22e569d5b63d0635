/* rows_ahead.c - see rows_ahead.h. A part is read in runs of at most RUN bytes: tensors of one table that lie close together, or some
 * rows of a large one. */
#include "storage/checkpoint/rows_ahead.h"
#include "storage/checkpoint/table_description.h"
#include "storage/table/table_var.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

enum { SLOTS = 2 };
static const uint64_t RUN = 16 << 20;

typedef struct run {
    const tr_part *part;
    size_t         from, end;         /* its tensors; one alone may reach beyond these bytes: */
    uint64_t       begin, until;      /* in the part's file */
} run;

/* A run that was read, and that the caller has not put away yet. */
typedef struct slot {
    uint8_t *bytes;                   /* memory for `room` bytes, used again for each run */
    uint64_t room;
    bool     is_full;
} slot;

typedef struct reader {
    const tr_checkpoint  *checkpoint;
    const tr_rows_wanted *wanted;
    run                  *run;
    int                   count, capacity;
    pthread_t             thread;
    pthread_mutex_t       lock;       /* guards the fields below */
    pthread_cond_t        changed;
    slot                  slot[SLOTS];       /* run i is in slot i % SLOTS */
    bool                  is_given_up;       /* the caller has failed */
    bool                  has_ended;         /* nothing more will be read */
    tr_status             status;     /* the reading thread's */
    char                 *error;
} reader;

tr_status tr__rows_put(tr_table *table, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    if (what->candidates && tr_table_get_config(table)->entry_count < 2)
        return TR_OK;                                  /* a table that makes rows at the first update needs no counts of candidates */
    if (what->removed)
        return tr_table_unpack_removed(table, what->candidates, rows, bytes);
    return (what->candidates ? tr_table_unpack_candidates : tr_table_unpack)(table, rows, bytes);
}

/* == what is read ================================================================================ */

static bool is_wanted(const tr_part_tensor *t, const tr_rows_wanted *w)
{
    return t->kind == TRIREME__CHECKPOINT__KIND__TABLE && t->shard >= w->first_shard && t->shard - w->first_shard < w->shard_count &&
           (!w->table || !strcmp(t->name, w->table));
}

static void add_run(reader *r, const run *found)
{
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        r->run = tr__must_realloc(r->run, (size_t)r->capacity * sizeof *r->run);
    }
    r->run[r->count++] = *found;
}

/* Find the run that begins with tensor `from`. */
static run run_from(const tr_part *part, size_t from, const tr_rows_wanted *wanted)
{
    const tr_part_tensor *first = part->tensors[from];
    run                   found = {part, from, from, first->offset, first->offset};

    for (; found.end < part->n_tensors && is_wanted(part->tensors[found.end], wanted); found.end++) {
        const tr_part_tensor *t = part->tensors[found.end];
        const bool is_near = !strcmp(t->name, first->name) && t->offset >= found.until && t->offset + t->bytes - found.begin <= RUN;
        if (found.end > from && !is_near)
            break;
        found.until = t->offset + t->bytes;
    }
    return found;
}

/* Add the rows of a tensor that is too large for one run. */
static void add_pieces(reader *r, const run *whole)
{
    const uint64_t row = (uint64_t)whole->part->tensors[whole->from]->dims[1], most = row < RUN ? RUN / row * row : row;
    run            piece = *whole;

    for (; piece.begin < whole->until; piece.begin = piece.until) {
        piece.until = whole->until - piece.begin < most ? whole->until : piece.begin + most;
        add_run(r, &piece);
    }
}

static void find_runs(reader *r)
{
    const tr_manifest *m = tr__checkpoint_manifest(r->checkpoint);

    for (size_t i = 0; i < m->n_parts; i++)
        for (size_t from = 0; from < m->parts[i]->n_tensors;) {
            const run found = run_from(m->parts[i], from, r->wanted);
            if (found.until - found.begin > RUN)
                add_pieces(r, &found);
            else if (found.end > from)
                add_run(r, &found);
            from = found.end > from ? found.end : from + 1;
        }
}

/* == the reading thread ========================================================================== */

/* Wait until the slot is empty. False: the caller has failed. */
static bool await_empty(reader *r, const slot *s)
{
    pthread_mutex_lock(&r->lock);
    while (s->is_full && !r->is_given_up)
        pthread_cond_wait(&r->changed, &r->lock);
    const bool goes_on = !r->is_given_up;
    pthread_mutex_unlock(&r->lock);
    return goes_on;
}

static void set_full(reader *r, slot *s)
{
    pthread_mutex_lock(&r->lock);
    s->is_full = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static tr_status read_run(const reader *r, slot *s, const run *from)
{
    const uint64_t bytes = from->until - from->begin;

    if (bytes > s->room) {                         /* more than RUN: one row */
        free(s->bytes);
        s->room = bytes > RUN ? bytes : RUN;
        s->bytes = malloc(s->room);
    }
    if (!s->bytes)
        return tr_fail(TR_ENOMEM, "no memory for %llu bytes of table '%s'", (unsigned long long)bytes,
                       from->part->tensors[from->from]->name);
    return tr_part_read(from->part, tr_checkpoint_folder(r->checkpoint), from->begin, bytes, s->bytes);
}

/* Mark the chunks of a part that have bytes of tables: the readers of those shards compare them. */
static bool *chunks_of_tables(const tr_part *part)
{
    bool *marked = tr__must_array(part->n_checksums + 1, sizeof *marked);

    for (size_t i = 0; i < part->n_tensors; i++) {
        const tr_part_tensor *t = part->tensors[i];
        for (uint64_t at = t->offset / part->chunk_bytes; t->bytes && at <= (t->offset + t->bytes - 1) / part->chunk_bytes; at++)
            marked[at] |= t->kind == TRIREME__CHECKPOINT__KIND__TABLE;
    }
    return marked;
}

static tr_status compare_others(const reader *r, const tr_part *part)
{
    bool          *marked = chunks_of_tables(part);
    const uint64_t most = part->chunk_bytes < RUN ? RUN / part->chunk_bytes : 1;           /* chunks that are read at a time */
    uint8_t       *bytes = tr__must_bytes(most * part->chunk_bytes + 1);
    tr_status      status = TR_OK;

    for (uint64_t from = 0, end, other = 0; from < part->n_checksums && status == TR_OK; from = end) {
        for (end = from; end < part->n_checksums && end - from < most && !marked[end]; end++)
            ;
        if (end > from && other++ % (uint64_t)r->wanted->readers == (uint64_t)r->wanted->reader) {
            const uint64_t at = from * part->chunk_bytes, until = end * part->chunk_bytes;
            status = tr_part_read(part, tr_checkpoint_folder(r->checkpoint), at, (until < part->bytes ? until : part->bytes) - at, bytes);
        }
        end += end == from;
    }
    free(bytes);
    free(marked);
    return status;
}

static tr_status read_all(reader *r)
{
    const tr_manifest *m = tr__checkpoint_manifest(r->checkpoint);

    for (int i = 0; i < r->count; i++) {
        slot *s = &r->slot[i % SLOTS];
        if (!await_empty(r, s))
            return TR_OK;
        TR_TRY(read_run(r, s, &r->run[i]));
        set_full(r, s);
    }
    for (size_t i = 0; r->wanted->readers && i < m->n_parts; i++)
        if (!m->parts[i]->has_of_step)
            TR_TRY(compare_others(r, m->parts[i]));
    return TR_OK;
}

static void *run_reader(void *payload)
{
    reader         *r = payload;
    const tr_status status = read_all(r);

    pthread_mutex_lock(&r->lock);
    r->status = status;
    r->error = status == TR_OK ? NULL : tr__must_strdup(tr_error());
    r->has_ended = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* == the caller ================================================================================== */

/* Wait until the slot is full. False: it will not be. */
static bool await_full(reader *r, const slot *s)
{
    pthread_mutex_lock(&r->lock);
    while (!s->is_full && !r->has_ended)
        pthread_cond_wait(&r->changed, &r->lock);
    const bool is_full = s->is_full;
    pthread_mutex_unlock(&r->lock);
    return is_full;
}

static void empty(reader *r, slot *s, bool gives_up)
{
    pthread_mutex_lock(&r->lock);
    s->is_full = false;
    r->is_given_up = gives_up;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Decode rows, some at a time: they take several times the memory. */
static tr_status take_coded(const tr_part *part, const tr_part_tensor *t, const uint8_t *rows, uint64_t bytes, tr_take_rows take,
                            void *payload)
{
    static const uint64_t MOST = 1 << 20;
    const tr_row_code     code = tr__described_code(t);
    const tr_job_table    table = tr__described_table(tr__find_description(part, t->name));
    const tr_table_config config = tr_table_config_of(&table);
    const uint64_t        from = (uint64_t)t->dims[1], to = tr_table_stride(&config), most = to < MOST ? MOST / to : 1;
    uint8_t              *decoded = tr__must_bytes(most * to);
    tr_status             status = TR_OK;

    for (uint64_t at = 0, n; status == TR_OK && at < bytes; at += n * from) {
        n = (bytes - at) / from < most ? (bytes - at) / from : most;
        tr_row_code_decode(decoded, rows + at, n, &code, &config);
        status = take(payload, t, decoded, n * to);
    }
    free(decoded);
    return status;
}

static tr_status take_run(const run *from, const uint8_t *bytes, tr_take_rows take, void *payload)
{
    for (size_t i = from->from; i < from->end; i++) {
        const tr_part_tensor *t = from->part->tensors[i];
        const uint64_t        begin = t->offset > from->begin ? t->offset : from->begin;
        const uint64_t        end = t->offset + t->bytes < from->until ? t->offset + t->bytes : from->until;
        const uint8_t        *rows = bytes + (begin - from->begin);
        TR_TRY(t->code ? take_coded(from->part, t, rows, end - begin, take, payload) : take(payload, t, rows, end - begin));
    }
    return TR_OK;
}

static tr_status take_all(reader *r, tr_take_rows take, void *payload)
{
    tr_status status = TR_OK;

    for (int i = 0; i < r->count && status == TR_OK; i++) {
        slot *s = &r->slot[i % SLOTS];
        if (!await_full(r, s))
            break;
        status = take_run(&r->run[i], s->bytes, take, payload);
        empty(r, s, status != TR_OK);
    }
    return status;
}

static tr_status read_on_thread(reader *r, tr_take_rows take, void *payload)
{
    if (pthread_create(&r->thread, NULL, run_reader, r))
        return tr_fail(TR_ENOMEM, "cannot start a thread to read '%s'", tr_checkpoint_folder(r->checkpoint));
    const tr_status taken = take_all(r, take, payload);
    pthread_join(r->thread, NULL);
    if (taken != TR_OK)
        return taken;
    return r->status == TR_OK ? TR_OK : tr_fail(r->status, "%s", r->error);
}

tr_status tr__checkpoint_read_rows(const tr_checkpoint *checkpoint, const tr_rows_wanted *wanted, tr_take_rows take, void *payload)
{
    reader r = {.checkpoint = checkpoint, .wanted = wanted};

    find_runs(&r);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    const tr_status status = read_on_thread(&r, take, payload);
    for (int i = 0; i < SLOTS; i++)
        free(r.slot[i].bytes);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.changed);
    free(r.error);
    free(r.run);
    return status;
}
