/* checkpoint_write.c - writes parts, chunk by chunk: each chunk is checksummed while it is in the cache, then handed to the file. One
 * rename makes the checkpoint valid. */
#include "storage/checkpoint/checkpoint.h"

#include "storage/checkpoint/base.h"
#include "storage/checkpoint/checkpoint_file.h"
#include "storage/checkpoint/own_run.h"
#include "storage/checkpoint/run.h"
#include "storage/checkpoint/table_description.h"
#include "storage/util/crc32c.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"
#include "framework/tensors/dtype.h"
#include "storage/table/table_var.h"

/* == a part ===================================================================================== */

typedef struct writer {
    tr_checkpoint_file *file;
    tr_part            *part;
    tr_checkpoint_rows  rows;         /* how rows of tables are written */
    uint8_t            *chunk;        /* chunk of the file; the first `filled` bytes are not written yet */
    size_t              filled, capacity;      /* room in the part's list of checksums */
} writer;

static tr_status write_chunk(writer *w, const uint8_t *data, size_t size)
{
    tr_part *part = w->part;

    if (part->n_checksums == w->capacity) {
        w->capacity = w->capacity ? 2 * w->capacity : 64;
        part->checksums = tr__must_realloc(part->checksums, w->capacity * sizeof *part->checksums);
    }
    part->checksums[part->n_checksums++] = tr_crc32c(0, data, size);
    part->bytes += size;
    return tr_checkpoint_file_write(w->file, data, size);
}

static tr_status write_filled(writer *w)
{
    const size_t size = w->filled;

    w->filled = 0;
    return size ? write_chunk(w, w->chunk, size) : TR_OK;
}

/* Write memory that does not change until the file is closed. Whole chunks are written in place, the rest is copied. */
static tr_status put(writer *w, const void *bytes, size_t size, bool do_stay)
{
    for (const uint8_t *data = bytes; size;) {
        const size_t room = TR_CHECKPOINT_CHUNK - w->filled, n = size < room ? size : room;
        if (do_stay && n == TR_CHECKPOINT_CHUNK) {
            TR_TRY(write_chunk(w, data, n));
        } else {
            if (!w->filled)
                w->chunk = tr_checkpoint_file_chunk(w->file);
            memcpy(w->chunk + w->filled, data, n);
            w->filled += n;
            if (w->filled == TR_CHECKPOINT_CHUNK)
                TR_TRY(write_filled(w));
        }
        data += n;
        size -= n;
    }
    return TR_OK;
}

static tr_status put_padding(writer *w)
{
    static const uint8_t zeros[TR_CHECKPOINT_ALIGN];
    const size_t         over = (w->part->bytes + w->filled) % TR_CHECKPOINT_ALIGN;

    return over ? put(w, zeros, TR_CHECKPOINT_ALIGN - over, false) : TR_OK;
}

static tr_part_tensor *describe(const tr_checkpoint_item *state, uint64_t offset)
{
    tr_part_tensor *t = tr__must_alloc(sizeof *t);

    trireme__checkpoint__tensor__init(t);
    t->name = tr__must_strdup(state->name);
    t->param = state->param ? tr__must_strdup(state->param) : NULL;
    t->kind = (Trireme__Checkpoint__Kind)state->kind;
    t->dtype = (uint32_t)state->dtype;
    t->n_dims = (size_t)state->rank;
    t->dims = (int64_t *)tr__must_copy(state->dims, (size_t)state->rank * sizeof(int64_t));
    t->has_row = t->has_rows = state->rows > 0;
    t->row = (uint64_t)state->row;
    t->rows = (uint64_t)state->rows;
    t->offset = offset;
    t->bytes = (uint64_t)tr_dtype_size(state->dtype);
    for (int i = 0; i < state->rank; i++)
        t->bytes *= (uint64_t)state->dims[i];
    return t;
}

/* -- tables: an array of bytes for each shard ---------------------------------------------------- */

/* What a tensor of a table has. */
typedef struct content {
    tr_status (*read)(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
    bool        are_candidates, are_removed;
} content;

static tr_status put_rows(writer *w, const char *name, uint32_t shard, uint64_t stride, const content *what, const void *rows,
                          uint64_t bytes)
{
    const int64_t  dims[] = {(int64_t)(bytes / stride), (int64_t)stride};
    const tr_checkpoint_item state = {.name = name, .kind = TR_STATE_TABLE, .dtype = TR_UINT8, .rank = 2, .dims = dims};

    if (!bytes)
        return TR_OK;
    TR_TRY(put_padding(w));
    tr_part_tensor *t = w->part->tensors[w->part->n_tensors++] = describe(&state, w->part->bytes + w->filled);
    t->has_shard = true;
    t->shard = shard;
    t->has_candidates = t->candidates = what->are_candidates;
    t->has_removed = t->removed = what->are_removed;
    return put(w, rows, bytes, false);
}

static tr_status put_coded(writer *w, const char *name, uint32_t shard, const tr_row_code *code, const tr_table_config *config,
                           const void *rows, uint64_t bytes)
{
    const uint64_t stride = tr_row_code_stride(code, config);
    const int64_t  dims[] = {(int64_t)(bytes / stride), (int64_t)stride};
    const tr_checkpoint_item state = {.name = name, .kind = TR_STATE_TABLE, .dtype = TR_UINT8, .rank = 2, .dims = dims};

    if (!bytes)
        return TR_OK;
    tr_part_tensor *t = w->part->tensors[w->part->n_tensors++] = describe(&state, w->part->bytes + w->filled);
    t->has_shard = true;
    t->shard = shard;
    t->code = tr__must_alloc(sizeof *t->code);
    trireme__checkpoint__row_code__init(t->code);
    t->code->first_key = code->first_key;
    t->code->last = code->last;
    t->code->key_bits = code->key_bits;
    t->code->touch_bits = code->touch_bits;
    t->code->age_bits = code->age_bits;
    return put(w, rows, bytes, false);
}

/* Write rows coded; those that cannot be coded stay in `rows`, *bytes of them. */
static tr_status code_rows(writer *w, const tr_job_table *table, uint32_t shard, void *rows, uint64_t *bytes)
{
    const tr_table_config config = tr_table_config_of(table);
    tr_row_code code;
    void       *coded;
    uint64_t    coded_bytes;

    tr_row_code_encode(&code, &coded, &coded_bytes, bytes, rows, *bytes, &config);
    const tr_status status = put_coded(w, table->name, shard, &code, &config, coded, coded_bytes);
    free(coded);
    return status;
}

static tr_status read_removed_rows(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return tr_table_snapshot_read_removed(table, shard, false, out, bytes);
}

static tr_status read_removed_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes)
{
    return tr_table_snapshot_read_removed(table, shard, true, out, bytes);
}

/* In this order they are put into a table: a key that was removed may have a row again. */
static const content CONTENTS[] = {{read_removed_rows, false, true},
                                   {read_removed_candidates, true, true},
                                   {tr_table_snapshot_read, false, false},
                                   {tr_table_snapshot_read_candidates, true, false}};

static tr_status put_shard(writer *w, const tr_job_table *table, uint32_t shard, uint64_t stride)
{
    for (size_t i = 0; i < sizeof CONTENTS / sizeof *CONTENTS; i++) {
        const content *what = &CONTENTS[i];
        const uint64_t size = what->are_removed ? sizeof(int64_t) : what->are_candidates ? sizeof(tr_slot_row) : stride;
        void          *rows = NULL;
        uint64_t       bytes = 0;
        TR_TRY(what->read(table->first_rows, shard, &rows, &bytes));
        tr_status status = TR_OK;
        if (w->rows == TR_ROWS_INT8 && !what->are_removed && !what->are_candidates)
            status = code_rows(w, table, shard, rows, &bytes);
        if (status == TR_OK)
            status = put_rows(w, table->name, shard, size, what, rows, bytes);
        free(rows);
        TR_TRY(status);
    }
    return TR_OK;
}

static tr_status put_table(writer *w, const tr_job_table *table)
{
    tr_part                    *part = w->part;
    Trireme__Checkpoint__Table *about = part->tables[part->n_tables++] = tr__table_describe(table);
    const tr_table_config       config = tr_table_config_of(table);

    if (table->first_rows) {
        about->has_changes = about->changes = tr_table_snapshot_has_changes(table->first_rows);
        about->has_rows = about->changes;
        about->rows = about->changes ? tr_table_snapshot_rows(table->first_rows) : 0;
    }
    for (uint32_t i = 0; table->first_rows && i < about->shard_count; i++)
        TR_TRY(put_shard(w, table, about->first_shard + i, tr_table_stride(&config)));
    return TR_OK;
}

/* -- a whole part --------------------------------------------------------------------------------- */

static tr_status put_array(writer *w, const tr_checkpoint_item *state)
{
    TR_TRY(put_padding(w));
    tr_part_tensor *t = w->part->tensors[w->part->n_tensors++] = describe(state, w->part->bytes + w->filled);
    return put(w, state->data, t->bytes, true);
}

static tr_status put_states(writer *w, int count, const tr_checkpoint_item *states)
{
    tr_part *part = w->part;
    size_t   tables = 0;

    for (int i = 0; i < count; i++)
        tables += states[i].kind == TR_STATE_TABLE;
    part->tensors = tr__must_alloc(((size_t)count + tables * 5 * TR_SHARDS) * sizeof *part->tensors + 1);
    part->tables = tr__must_alloc(tables * sizeof *part->tables + 1);
    for (int i = 0; i < count; i++)
        TR_TRY(states[i].kind == TR_STATE_TABLE ? put_table(w, states[i].data) : put_array(w, &states[i]));
    return write_filled(w);
}

tr_status tr_part_write(tr_part **out, const char *folder, const char *name, tr_checkpoint_rows rows, int count,
                        const tr_checkpoint_item *states)
{
    writer w = {.part = tr__must_alloc(sizeof *w.part), .rows = rows};

    trireme__checkpoint__part__init(w.part);
    w.part->file = tr__must_strdup(name);
    w.part->chunk_bytes = TR_CHECKPOINT_CHUNK;
    tr_status status = tr_checkpoint_file_open(&w.file, folder, name);
    if (status == TR_OK)
        status = tr_checkpoint_file_close(w.file, put_states(&w, count, states));
    if (status == TR_OK) {
        *out = w.part;
    } else {
        tr_part_free(w.part);
        tr_part_remove(folder, name);
    }
    return status;
}

void tr_part_remove(const char *folder, const char *name)
{
    const tr_place *place = tr_place_of(folder);
    char           *path = tr__must_format("%s/%s", folder, name);

    place->remove(path);
    if (place->has_folders)
        place->remove(folder);        /* fails if the folder has other parts, which stay */
    free(path);
}

/* == the manifest ================================================================================= */

static void describe_trainers(tr_manifest *m, Trireme__Checkpoint__Trainer *item, const tr_checkpoint_facts *facts)
{
    for (int i = 0; i < facts->trainer_count; i++) {
        const tr_trainer_state *from = &facts->trainers[i];
        trireme__checkpoint__trainer__init(&item[i]);
        item[i].index = (uint32_t)from->index;
        item[i].steps = (uint64_t)from->steps;
        item[i].runs = (uint64_t)from->runs;
        item[i].has_position = from->position != NULL;
        item[i].position.data = (uint8_t *)(uintptr_t)from->position;
        item[i].position.len = from->position_size;
        m->trainers[i] = &item[i];
    }
    m->n_trainers = (size_t)facts->trainer_count;
}

static void describe_run(tr_manifest *m, Trireme__Checkpoint__Run *run, const tr__run_stamp *stamp)
{
    if (!stamp->run.number)
        return;
    trireme__checkpoint__run__init(run);
    run->number = stamp->run.number;
    run->began = (uint64_t)stamp->run.began;
    run->command = (char *)(uintptr_t)stamp->run.command;
    m->run = run;
    m->has_order = true;
    m->order = stamp->order;
}

tr_status tr__manifest_put(const char *dir, const char *folder, const tr_manifest *manifest)
{
    tr_checkpoint_file *file = NULL;
    size_t              size;
    uint8_t            *bytes = tr_manifest_pack(&size, manifest);
    /* The checkpoint's folder is safe before the checkpoint counts. */
    tr_status status = dir ? tr_checkpoint_sync_folder(dir) : TR_OK;
    if (status == TR_OK && size > TR_MANIFEST_MOST)    /* nobody would read it; the next checkpoint is full, and its manifest small */
        status = tr_fail(TR_EUNSUPPORTED, "the manifest of '%s' would have %zu bytes, and may have %d: make full checkpoints more often", folder,
                         size, TR_MANIFEST_MOST);

    if (status == TR_OK)
        status = tr_checkpoint_file_open(&file, folder, "manifest");
    if (status == TR_OK)
        status = tr_checkpoint_file_close(file, tr_checkpoint_file_write(file, bytes, size));
    free(bytes);
    if (status == TR_OK)
        tr__checkpoint_clean(folder, dir, (int)manifest->n_parts, manifest->parts);
    if (status == TR_OK && dir)
        tr__claim_renew(dir);
    return status;
}

static tr_status write_manifest(const char *dir, const char *folder, const tr_checkpoint_facts *facts, const char *groups,
                                uint64_t snapshot, int part_count, tr_part *const *parts)
{
    tr_manifest m = TRIREME__CHECKPOINT__MANIFEST__INIT;
    Trireme__Checkpoint__Trainer *trainer = tr__must_alloc((size_t)facts->trainer_count * sizeof *trainer + 1);
    Trireme__Checkpoint__Run run;
    tr__run_stamp            stamp = {0};

    tr_status status = dir ? tr__run_stamp_next(&stamp, dir, facts->step) : TR_OK;
    if (status != TR_OK) {
        free(trainer);
        return status;
    }
    describe_run(&m, &run, &stamp);
    m.step = (uint64_t)facts->step;
    m.digest = (char *)(uintptr_t)(facts->digest ? facts->digest : "");
    m.mode = (char *)(uintptr_t)facts->mode;
    m.snapshot = snapshot;
    m.created = (uint64_t)time(NULL);
    m.version = (char *)(uintptr_t)tr_version();
    for (int i = 0; i < part_count; i++)
        m.has_base_step |= tr__tables_have_changes(parts[i]);
    m.has_base_snapshot = m.has_base_step;
    m.base_step = (uint64_t)facts->base.step;
    m.base_snapshot = facts->base.number;
    m.n_parts = (size_t)part_count;
    m.parts = (tr_part **)(uintptr_t)parts;
    m.trainers = tr__must_alloc((size_t)facts->trainer_count * sizeof *m.trainers + 1);
    m.has_tasks = facts->tasks != NULL;
    m.tasks.data = (uint8_t *)(uintptr_t)facts->tasks;
    m.tasks.len = facts->tasks_size;
    m.groups = (char *)(uintptr_t)groups;
    describe_trainers(&m, trainer, facts);
    status = tr__manifest_put(dir, folder, &m);
    free(trainer);
    free(m.trainers);
    return status;
}

tr_status tr_manifest_write(const char *dir, const char *folder, const tr_checkpoint_facts *facts, const char *groups, uint64_t snapshot,
                            int part_count, tr_part *const *parts)
{
    tr_manifest *before = NULL;
    int          inherited = 0;

    if (!facts->base.number)
        return write_manifest(dir, folder, facts, groups, snapshot, part_count, parts);
    TR_TRY(tr__base_read(&before, folder, &facts->base));
    for (int i = 0; i < part_count; i++)
        tr__tables_sort(parts[i]);
    tr_part **all = tr__must_array(before->n_parts + (size_t)part_count + 1, sizeof *all);
    for (size_t i = 0; i < before->n_parts; i++)
        if (tr__base_inherit(before->parts[i], facts->base.step, part_count, parts))
            all[inherited++] = before->parts[i];
    memcpy(all + inherited, parts, (size_t)part_count * sizeof *all);
    const tr_status status = write_manifest(dir, folder, facts, groups, snapshot, inherited + part_count, all);
    free(all);
    tr_manifest_free(before);
    return status;
}

/* == one process =================================================================================== */

static tr_status check_states(int count, const tr_checkpoint_item *states)
{
    for (int i = 0; i < count; i++) {
        const tr_checkpoint_item *s = &states[i];
        if (s->kind == TR_STATE_TABLE && s->name && s->data)
            continue;
        if (!s->name || !s->name[0] || (unsigned)s->kind >= TR_STATE_KIND_COUNT || !tr_dtype_is_valid(s->dtype) ||
            s->rank < 0 || s->rank > TR_MAX_RANK || (!s->data && s->rank))
            return tr_fail(TR_EINVAL, "tr_checkpoint_save: array %d ('%s') is of kind %d, data type %d, rank %d", i,
                           s->name ? s->name : "", (int)s->kind, (int)s->dtype, s->rank);
    }
    return TR_OK;
}

tr_status tr_checkpoint_save(uint64_t *number, const char *folder, const tr_checkpoint_facts *facts, int count,
                             const tr_checkpoint_item *states, int keep)
{
    const uint64_t snapshot = tr_checkpoint_new_number();
    tr_part       *part = NULL;
    char          *said = NULL;

    TR_TRY(check_states(count, states));
    if (facts->step < 0)
        return tr_fail(TR_ERANGE, "tr_checkpoint_save: step %lld", (long long)facts->step);
    if (!tr__own_run_in(folder).is_settled)
        TR_TRY(tr_checkpoint_claim(&said, folder, TR_ENTRY_BEGIN, NULL));
    char     *path = tr_checkpoint_path(folder, facts->step), *name = tr_part_name(0, 1, snapshot);
    tr_status status = tr_tables_snapshot(count, states, snapshot, facts->base.number);
    if (status == TR_OK)
        status = tr_part_write(&part, path, name, facts->rows, count, states);
    tr_tables_snapshot_end(count, states);
    if (status == TR_OK)
        status = tr_manifest_write(folder, path, facts, NULL, snapshot, 1, &part);
    if (status != TR_OK)
        tr_part_remove(path, name);
    if (status == TR_OK && keep > 0)
        tr_checkpoint_prune(folder, keep);
    if (number)
        *number = snapshot;
    tr_part_free(part);
    if (status != TR_OK)
        tr_context(status, "while writing the checkpoint '%s'", path);
    free(path);
    free(name);
    return status;
}
