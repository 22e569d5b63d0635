/* checkpoint_read.c - opens a checkpoint, and joins the pieces of their arrays. Bytes are used only after their checksum was compared. */
#include "storage/checkpoint/checkpoint.h"

#include "storage/checkpoint/table_description.h"
#include "storage/util/crc32c.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"
#include "framework/base/path.h"

/* A tensor of a part. */
typedef struct piece {
    const tr_part        *part;
    const tr_part_tensor *tensor;
} piece;

typedef struct array {
    const piece *piece;               /* pieces in the order of their rows */
    int          pieces;
    int64_t      dims[TR_MAX_RANK];   /* dimensions of the whole array */
} array;

struct tr_checkpoint {
    char        *folder;
    tr_manifest *manifest;
    piece       *piece;               /* all tensors except those of tables, sorted by name, whole arrays first, then by row */
    array       *array;
    int          pieces, arrays;
    tr__whole_table *table;
    int          tables;
};

/* == pieces to arrays ============================================================================ */

static int compare_pieces(const void *left, const void *right)
{
    const tr_part_tensor *a = ((const piece *)left)->tensor, *b = ((const piece *)right)->tensor;
    const int             by_name = strcmp(a->name, b->name);

    if (by_name || a->has_rows != b->has_rows)
        return by_name ? by_name : a->has_rows - b->has_rows;
    return a->row != b->row ? (a->row > b->row) - (a->row < b->row) : (a->n_dims && a->dims[0] > b->dims[0]);
}

static bool is_like(const tr_part_tensor *a, const tr_part_tensor *b)
{
    const size_t from = a->has_rows ? 1 : 0;

    if (a->has_rows != b->has_rows || a->dtype != b->dtype || a->kind != b->kind || a->n_dims != b->n_dims ||
        (a->has_rows && a->rows != b->rows))
        return false;
    return a->n_dims <= from || !memcmp(a->dims + from, b->dims + from, (a->n_dims - from) * sizeof *a->dims);
}

/* Check the pieces of one name: they must agree, and together be the whole. If there are copies of a whole array, the first counts. */
static tr_status join(array *out, const piece *first, int count)
{
    const tr_part_tensor *t = first->tensor;
    uint64_t              row = 0;

    *out = (array){first, t->has_rows ? count : 1, {0}};
    for (size_t i = 0; i < t->n_dims; i++)         /* a scalar has no dimension */
        out->dims[i] = t->dims[i];
    for (int i = 0; i < count; i++) {
        const tr_part_tensor *next = first[i].tensor;
        if (!is_like(t, next))
            return tr_fail(TR_EFORMAT, "array '%.200s' of %s and of %s do not fit together", t->name, first->part->file,
                           first[i].part->file);
        if (t->has_rows && next->row != row)
            return tr_fail(TR_EFORMAT, "array '%.200s': rows from %llu on are missing or stand twice", t->name,
                           (unsigned long long)row);
        row += t->has_rows ? (uint64_t)next->dims[0] : 0;
    }
    if (!t->has_rows)
        return TR_OK;
    if (row != t->rows)
        return tr_fail(TR_EFORMAT, "array '%.200s': it has %llu rows, %llu are there", t->name, (unsigned long long)t->rows,
                       (unsigned long long)row);
    out->dims[0] = (int64_t)row;
    return TR_OK;
}

static tr_status join_all(tr_checkpoint *c)
{
    int capacity = 0;

    for (size_t i = 0; i < c->manifest->n_parts; i++)
        capacity += (int)c->manifest->parts[i]->n_tensors;
    c->piece = tr__must_alloc((size_t)capacity * sizeof *c->piece + 1);
    c->array = tr__must_alloc((size_t)capacity * sizeof *c->array + 1);
    for (size_t i = 0; i < c->manifest->n_parts; i++)
        for (size_t j = 0; j < c->manifest->parts[i]->n_tensors; j++)
            if (c->manifest->parts[i]->tensors[j]->kind != TRIREME__CHECKPOINT__KIND__TABLE)
                c->piece[c->pieces++] = (piece){c->manifest->parts[i], c->manifest->parts[i]->tensors[j]};
    qsort(c->piece, (size_t)c->pieces, sizeof *c->piece, compare_pieces);
    for (int from = 0, to; from < c->pieces; from = to) {
        for (to = from + 1; to < c->pieces && !strcmp(c->piece[from].tensor->name, c->piece[to].tensor->name);)
            to++;
        TR_TRY(join(&c->array[c->arrays++], &c->piece[from], to - from));
    }
    return TR_OK;
}

/* == parts of tables to tables =================================================================== */

static int compare_tables(const void *left, const void *right)
{
    return strcmp(((const tr__whole_table *)left)->about->name, ((const tr__whole_table *)right)->about->name);
}

static void join_tables(tr_checkpoint *c)
{
    const tr_manifest *m = c->manifest;
    size_t             count = 0;

    for (size_t i = 0; i < m->n_parts; i++)
        count += m->parts[i]->has_of_step ? 0 : m->parts[i]->n_tables;
    tr__whole_table *all = c->table = tr__must_array(count + 1, sizeof *all);
    for (size_t i = 0, at = 0; i < m->n_parts; i++)
        for (size_t j = 0; !m->parts[i]->has_of_step && j < m->parts[i]->n_tables; j++, at++)
            all[at] = (tr__whole_table){m->parts[i]->tables[j], (int64_t)m->parts[i]->tables[j]->rows,
                                        (int64_t)m->parts[i]->tables[j]->updates};
    qsort(all, count, sizeof *all, compare_tables);
    for (size_t i = 0; i < count; i++) {
        tr__whole_table *last = c->tables ? &all[c->tables - 1] : NULL;
        if (!last || compare_tables(last, &all[i]))
            all[c->tables++] = all[i];
        else {
            last->rows += all[i].rows;
            last->updates = all[i].updates > last->updates ? all[i].updates : last->updates;
        }
    }
}

/* Add the rows of a part that has all rows of its shards. */
static void count_rows(const tr_checkpoint *c, const tr_part *part)
{
    tr__whole_table *found = NULL;
    bool             counts = false;

    for (size_t i = 0; i < part->n_tensors; i++) {
        const tr_part_tensor      *t = part->tensors[i];
        Trireme__Checkpoint__Table named = {.name = t->name};
        const tr__whole_table      key = {.about = &named};
        if (t->kind != TRIREME__CHECKPOINT__KIND__TABLE || t->candidates)
            continue;
        if (!found || strcmp(found->about->name, t->name) != 0) {      /* tensors of a table stand together */
            found = bsearch(&key, c->table, (size_t)c->tables, sizeof *c->table, compare_tables);
            counts = !tr__find_description(part, t->name)->has_rows;
        }
        found->rows += counts ? t->dims[0] : 0;
    }
}

/* == files ======================================================================================= */

/* A missing file counts as damage. */
static tr_status missing(tr_status status)
{
    if (status == TR_ENOTFOUND)
        return tr_fail(TR_EFORMAT, "%s", tr_error());
    return status;
}

tr_status tr__manifest_find(tr_manifest **out, const char *folder)
{
    uint8_t *bytes = NULL;
    char    *path;
    size_t   size;

    TR_TRY(tr_place_inside(&path, folder, "manifest"));
    tr_status status = tr_place_of(path)->get(&bytes, &size, path, TR_MANIFEST_MOST);
    if (status == TR_OK)
        status = tr_manifest_parse(out, bytes, size, path);
    free(bytes);
    free(path);
    return status;
}

tr_status tr_manifest_read(tr_manifest **out, const char *folder)
{
    return missing(tr__manifest_find(out, folder));
}

/* The path of a part's file, in the checkpoint's own folder or in that of one that it builds on; malloc'ed. */
static tr_status path_of(char **out, const char *folder, const tr_part *part)
{
    char           *at = tr__part_folder(part, folder);
    const tr_status status = tr_place_inside(out, at, part->file);

    free(at);
    return status;
}

static tr_status in_base(tr_status status, const tr_part *part, const char *folder)
{
    if (!part->has_of_step)
        return status;
    return tr_context(status, "for '%s', which has the changes since the checkpoint of step %llu", folder,
                      (unsigned long long)part->of_step);
}

static tr_status check_size(const tr_checkpoint *c, const tr_part *part)
{
    uint64_t size = 0;
    char    *path;

    TR_TRY(path_of(&path, c->folder, part));
    tr_status status = missing(tr_place_of(path)->look(&size, NULL, path));
    if (status != TR_OK)
        status = in_base(status, part, c->folder);
    else if (size != part->bytes)
        status = tr_fail(TR_EFORMAT, "'%s': expected %llu bytes, found %llu", path, (unsigned long long)part->bytes,
                         (unsigned long long)size);
    free(path);
    return status;
}

/* An open part, whose chunks are read one after the other. */
typedef struct open_part {
    const tr_part  *part;
    const tr_place *place;
    tr_range       *range;
    char           *path;
} open_part;

/* Read the next chunk, which has number `index`, into `to`, and compare its checksum. */
static tr_status read_chunk(const open_part *from, uint64_t index, uint8_t *to)
{
    const tr_part *part = from->part;
    const char    *path = from->path;
    const uint64_t at = index * part->chunk_bytes, left = part->bytes - at;
    const size_t   size = left < part->chunk_bytes ? left : part->chunk_bytes;

    TR_TRY(from->place->read(from->range, to, size));
    const uint32_t got = tr_crc32c(0, to, size);
    if (got != part->checksums[index])
        return tr_fail(TR_EFORMAT, "'%s': chunk %llu (bytes %llu to %llu): expected the checksum %08x, got %08x", path,
                       (unsigned long long)index, (unsigned long long)at, (unsigned long long)(at + size),
                       part->checksums[index], got);
    return TR_OK;
}

static tr_status read_range(const open_part *from, uint64_t offset, uint64_t bytes, uint8_t *to, uint8_t *chunk)
{
    const tr_part *part = from->part;
    const uint64_t end = offset + bytes;

    for (uint64_t i = offset / part->chunk_bytes; offset < end; i++) {
        const uint64_t at = i * part->chunk_bytes;
        const uint64_t until = at + part->chunk_bytes < part->bytes ? at + part->chunk_bytes : part->bytes;
        if (offset == at && until <= end) {
            TR_TRY(read_chunk(from, i, to));
            to += until - at;
            offset = until;
            continue;
        }
        const uint64_t n = (until < end ? until : end) - offset;
        TR_TRY(read_chunk(from, i, chunk));
        memcpy(to, chunk + (offset - at), n);
        to += n;
        offset += n;
    }
    return TR_OK;
}

/* Open a part at the chunk that has byte `offset`, up to the chunk that has the last one. */
static tr_status open_at(open_part *out, const tr_part *part, const char *folder, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = (offset + bytes + part->chunk_bytes - 1) / part->chunk_bytes * part->chunk_bytes;

    *out = (open_part){.part = part, .place = tr_place_of(folder)};
    TR_TRY(path_of(&out->path, folder, part));
    const tr_status status = missing(out->place->open(&out->range, out->path, offset / part->chunk_bytes * part->chunk_bytes,
                                                      end < part->bytes ? end : part->bytes));
    if (status == TR_OK)
        return TR_OK;
    free(out->path);
    return in_base(status, part, folder);
}

/* `to` NULL: only compare. */
static tr_status with_part(const tr_part *part, const char *folder, uint64_t offset, uint64_t bytes, uint8_t *to)
{
    uint8_t  *chunk = malloc(part->chunk_bytes);
    open_part from;
    tr_status status = chunk ? open_at(&from, part, folder, offset, to ? bytes : part->bytes)
                             : tr_fail(TR_ENOMEM, "no memory for %llu bytes of '%s/%s'", (unsigned long long)part->chunk_bytes, folder, part->file);

    if (status == TR_OK) {
        if (to)
            status = read_range(&from, offset, bytes, to, chunk);
        for (uint64_t i = 0; !to && status == TR_OK && i < part->n_checksums; i++)
            status = read_chunk(&from, i, chunk);
        from.place->close(from.range);
        free(from.path);
    }
    free(chunk);
    return status;
}

tr_status tr_part_read(const tr_part *part, const char *folder, uint64_t offset, uint64_t bytes, void *to)
{
    return bytes ? with_part(part, folder, offset, bytes, to) : TR_OK;
}

/* == one checkpoint ================================================================================ */

tr_status tr_checkpoint_open(tr_checkpoint **out, const char *folder)
{
    tr_checkpoint *c = tr__must_alloc(sizeof *c);
    tr_status      status;

    c->folder = tr__must_strdup(folder);
    TR_TRY_GOTO(fail, tr_manifest_read(&c->manifest, folder));
    for (size_t i = 0; i < c->manifest->n_parts; i++)
        TR_TRY_GOTO(fail, check_size(c, c->manifest->parts[i]));
    TR_TRY_GOTO(fail, join_all(c));
    join_tables(c);
    for (size_t i = 0; i < c->manifest->n_parts; i++)
        if (!c->manifest->parts[i]->has_of_step)
            count_rows(c, c->manifest->parts[i]);
    *out = c;
    return TR_OK;
fail:
    tr_checkpoint_free(c);
    return tr_context(status, "while opening the checkpoint '%s'", folder);
}

void tr_checkpoint_free(tr_checkpoint *c)
{
    if (!c)
        return;
    tr_manifest_free(c->manifest);
    free(c->piece);
    free(c->array);
    free(c->table);
    free(c->folder);
    free(c);
}

tr_status tr_checkpoint_verify(const tr_checkpoint *c)
{
    for (size_t i = 0; i < c->manifest->n_parts; i++)
        TR_TRY(with_part(c->manifest->parts[i], c->folder, 0, 0, NULL));
    return TR_OK;
}

/* == contents ======================================================================================== */

const tr_manifest *tr__checkpoint_manifest(const tr_checkpoint *c) { return c->manifest; }

const tr__whole_table *tr__checkpoint_tables_of(int *count, const tr_checkpoint *c)
{
    *count = c->tables;
    return c->table;
}
const void *tr_checkpoint_tasks(size_t *size, const tr_checkpoint *c)
{
    *size = c->manifest->has_tasks ? c->manifest->tasks.len : 0;
    return c->manifest->has_tasks ? c->manifest->tasks.data : NULL;
}

const char *tr_checkpoint_folder(const tr_checkpoint *c) { return c->folder; }
int64_t     tr_checkpoint_step(const tr_checkpoint *c) { return (int64_t)c->manifest->step; }
const char *tr_checkpoint_mode(const tr_checkpoint *c) { return c->manifest->mode; }
const char *tr_checkpoint_digest(const tr_checkpoint *c) { return c->manifest->digest; }
const char *tr_checkpoint_version(const tr_checkpoint *c) { return c->manifest->version; }
uint64_t    tr_checkpoint_number(const tr_checkpoint *c) { return c->manifest->snapshot; }
int64_t     tr_checkpoint_created(const tr_checkpoint *c) { return (int64_t)c->manifest->created; }
void        tr_checkpoint_run_of(tr_checkpoint_run *out, const tr_checkpoint *c) { *out = tr__run_of_manifest(c->manifest); }
int         tr_checkpoint_parts(const tr_checkpoint *c)
{
    int count = 0;

    for (size_t i = 0; i < c->manifest->n_parts; i++)
        count += !c->manifest->parts[i]->has_of_step;
    return count;
}

tr_checkpoint_rows tr_checkpoint_rows_of(const tr_checkpoint *c)
{
    for (size_t i = 0; i < c->manifest->n_parts; i++) {
        const tr_part *part = c->manifest->parts[i];
        for (size_t t = 0; !part->has_of_step && t < part->n_tensors; t++)
            if (part->tensors[t]->code)
                return TR_ROWS_INT8;
    }
    return TR_ROWS_EXACT;
}

int64_t     tr_checkpoint_base_step(const tr_checkpoint *c) { return c->manifest->has_base_step ? (int64_t)c->manifest->base_step : -1; }
int         tr_checkpoint_trainers(const tr_checkpoint *c) { return (int)c->manifest->n_trainers; }
const char *tr_checkpoint_groups(const tr_checkpoint *c) { return c->manifest->groups ? c->manifest->groups : ""; }
int         tr_checkpoint_count(const tr_checkpoint *c) { return c->arrays; }

int64_t tr_checkpoint_bytes(const tr_checkpoint *c)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < c->manifest->n_parts; i++)
        bytes += c->manifest->parts[i]->has_of_step ? 0 : (int64_t)c->manifest->parts[i]->bytes;
    return bytes;
}

void tr_checkpoint_trainer(tr_trainer_state *out, const tr_checkpoint *c, int index)
{
    const Trireme__Checkpoint__Trainer *t = c->manifest->trainers[index];

    *out = (tr_trainer_state){(int)t->index, (int64_t)t->steps, (int64_t)t->runs, t->has_position ? t->position.data : NULL,
                              t->has_position ? t->position.len : 0};
}

void tr_checkpoint_place(tr_trainer_state *out, const tr_checkpoint *c, int index)
{
    tr_trainer_state most = {0};

    for (int i = 0; i < tr_checkpoint_trainers(c); i++) {
        tr_checkpoint_trainer(out, c, i);
        if (out->index == index)
            return;
        most = i == 0 || out->steps > most.steps ? *out : most;
    }
    if (!tr_checkpoint_trainers(c))
        most.steps = most.runs = tr_checkpoint_step(c);
    *out = (tr_trainer_state){.index = index, .steps = most.steps, .runs = most.runs};
}

void tr_checkpoint_array(tr_checkpoint_item *out, const tr_checkpoint *c, int index)
{
    const array          *a = &c->array[index];
    const tr_part_tensor *t = a->piece->tensor;

    *out = (tr_checkpoint_item){.name = t->name, .param = t->param, .kind = (tr_state_kind)t->kind, .dtype = (tr_dtype)t->dtype,
                      .rank = (int)t->n_dims, .dims = a->dims};
}

int tr_checkpoint_find(const tr_checkpoint *c, const char *name)
{
    int low = 0, high = c->arrays;

    while (low < high) {
        const int middle = (low + high) / 2;
        const int order = strcmp(c->array[middle].piece->tensor->name, name);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* Bytes of one row; for an array without dimensions, bytes of the array. */
static uint64_t row_bytes(const array *a)
{
    const tr_part_tensor *t = a->piece->tensor;
    uint64_t              bytes = (uint64_t)tr_dtype_size((tr_dtype)t->dtype);

    for (size_t i = 1; i < t->n_dims; i++)
        bytes *= (uint64_t)t->dims[i];
    return bytes;
}

tr_status tr_checkpoint_read(const tr_checkpoint *c, int index, int64_t row, int64_t rows, void *data, int64_t bytes)
{
    if (index < 0 || index >= c->arrays)
        return tr_fail(TR_ERANGE, "tr_checkpoint_read: array %d; there are %d", index, c->arrays);
    const array   *a = &c->array[index];
    const uint64_t width = row_bytes(a);
    const int64_t  height = a->piece->tensor->n_dims ? a->dims[0] : 1;
    uint8_t       *to = data;
    if (row < 0 || rows < 0 || row > height || rows > height - row || bytes != rows * (int64_t)width)
        return tr_fail(TR_ERANGE, "tr_checkpoint_read: rows %lld to %lld of '%s', which has %lld, into %lld bytes",
                       (long long)row, (long long)(row + rows), a->piece->tensor->name, (long long)height, (long long)bytes);
    for (int i = 0; i < a->pieces && rows > 0; i++) {
        const piece  *p = &a->piece[i];
        const int64_t begin = (int64_t)(p->tensor->has_rows ? p->tensor->row : 0);
        const int64_t end = begin + (p->tensor->n_dims ? p->tensor->dims[0] : 1);
        if (row >= end)
            continue;
        const int64_t n = (end < row + rows ? end : row + rows) - row;
        TR_TRY(tr_part_read(p->part, c->folder, p->tensor->offset + (uint64_t)(row - begin) * width, (uint64_t)n * width, to));
        to += n * (int64_t)width;
        row += n;
        rows -= n;
    }
    return TR_OK;
}
