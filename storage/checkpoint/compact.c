/* compact.c - writes a checkpoint that builds on others anew, in its place, so that it needs none of them.
 *
 * Rows that are coded there are exact here: coding them a second time would change them. The shards of tables are written in PARTS parts,
 * one after the other, so memory is needed for one part of the tables at a time, and for the dense arrays. The new parts
 * stand beside the old ones until the manifest is renamed. */
#include "storage/checkpoint/base.h"

#include "storage/checkpoint/rows_ahead.h"
#include "storage/table/table_var.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/tensors/dtype.h"

enum { PARTS = 16 };

/* What one part has. */
typedef struct content {
    const tr_checkpoint *checkpoint;
    tr_checkpoint_item *items;
    void              **memory;       /* of each array */
    tr_job_table       *tables;
    int                 arrays, table_count, count;      /* count: of items */
} content;

static tr_status read_array(content *to, const tr_checkpoint *c, int index)
{
    tr_checkpoint_item *item = &to->items[to->count];

    tr_checkpoint_array(item, c, index);
    int64_t bytes = tr_dtype_size(item->dtype);
    for (int i = 0; i < item->rank; i++)
        bytes *= item->dims[i];
    item->data = to->memory[to->arrays++] = malloc((size_t)bytes + 1);
    if (!item->data)
        return tr_fail(TR_ENOMEM, "no memory for the %lld bytes of '%s'", (long long)bytes, item->name);
    to->count++;
    return tr_checkpoint_read(c, index, 0, item->rank ? item->dims[0] : 1, to->memory[to->arrays - 1], bytes);
}

static tr_status put(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    const content *to = payload;
    const int      index = tr_checkpoint_find_table(to->checkpoint, what->name);

    return tr__rows_put((tr_table *)(uintptr_t)to->tables[index].first_rows, what, rows, bytes);
}

static tr_status make_table(content *to, const tr_checkpoint *c, const tr_table_segment *place)
{
    tr_job_table *table = &to->tables[to->table_count];
    tr_table     *rows = NULL;
    int64_t       count;

    tr_checkpoint_table(table, &count, c, to->table_count++);
    const tr_table_config config = tr_table_config_of(table);
    TR_TRY(tr_table_create(&rows, &config, place));
    table->first_rows = rows;
    to->items[to->count++] = (tr_checkpoint_item){.name = table->name, .kind = TR_STATE_TABLE, .data = table};
    return TR_OK;
}

static tr_status fill(content *to, const tr_checkpoint *c, int part)
{
    const tr_table_segment place = {.first_shard = (uint32_t)(part * TR_SHARDS / PARTS), .shard_count = TR_SHARDS / PARTS};
    const tr_rows_wanted   wanted = {.first_shard = place.first_shard, .shard_count = place.shard_count};

    for (int i = 0; part == 0 && i < tr_checkpoint_count(c); i++)
        TR_TRY(read_array(to, c, i));
    for (int i = 0; i < tr_checkpoint_tables(c); i++)
        TR_TRY(make_table(to, c, &place));
    TR_TRY(tr__checkpoint_read_rows(c, &wanted, put, to));
    return tr_tables_snapshot(to->count, to->items, 0, 0);
}

static void empty(content *to)
{
    for (int i = 0; i < to->arrays; i++)
        free(to->memory[i]);
    for (int i = 0; i < to->table_count; i++)
        tr_table_free((tr_table *)(uintptr_t)to->tables[i].first_rows);
    free(to->items);
    free(to->memory);
    free(to->tables);
}

static tr_status write_part(tr_part **out, const tr_checkpoint *c, int part, const char *name)
{
    const size_t arrays = (size_t)tr_checkpoint_count(c), tables = (size_t)tr_checkpoint_tables(c);
    content      one = {.checkpoint = c,
                        .items = tr__must_array(arrays + tables + 1, sizeof *one.items),
                        .memory = tr__must_array(arrays + 1, sizeof *one.memory),
                        .tables = tr__must_array(tables + 1, sizeof *one.tables)};
    tr_status    status = fill(&one, c, part);

    if (status == TR_OK)
        status = tr_part_write(out, tr_checkpoint_folder(c), name, TR_ROWS_EXACT, one.count, one.items);
    empty(&one);
    return status;
}

/* All but the parts is as it was: the run, the place among the other checkpoints, where trainers were. */
static tr_status write_manifest(const tr_checkpoint *c, const char *dir, uint64_t number, tr_part **parts)
{
    tr_manifest m = *tr__checkpoint_manifest(c);

    m.snapshot = number;
    m.has_base_step = m.has_base_snapshot = false;
    m.n_parts = PARTS;
    m.parts = parts;
    return tr__manifest_put(dir, tr_checkpoint_folder(c), &m);
}

/* Other checkpoints may need the files that this one would lose. */
static tr_status check_alone(const tr_checkpoint *c, const char *dir)
{
    tr_folder all;
    int64_t   above = -1;

    tr_folder_scan(&all, dir);
    for (int i = 0; i < all.count; i++)
        for (size_t p = 0; all.item[i].manifest && p < all.item[i].manifest->n_parts; p++)
            if (all.item[i].manifest->parts[p]->has_of_step && (int64_t)all.item[i].manifest->parts[p]->of_step == tr_checkpoint_step(c))
                above = above < 0 ? all.item[i].step : above;
    tr_folder_free(&all);
    if (above < 0)
        return TR_OK;
    return tr_fail(TR_EINVAL, "the checkpoint '%s' cannot be written anew: that of step %lld builds on it", tr_checkpoint_folder(c),
                   (long long)above);
}

tr_status tr_checkpoint_compact(const tr_checkpoint *checkpoint, const char *dir)
{
    const uint64_t number = tr_checkpoint_new_number();
    tr_part       *parts[PARTS] = {NULL};
    char          *names[PARTS];
    tr_status      status = check_alone(checkpoint, dir);

    for (int i = 0; i < PARTS; i++)
        names[i] = tr_part_name(i, PARTS, number);
    for (int i = 0; i < PARTS && status == TR_OK; i++)
        status = write_part(&parts[i], checkpoint, i, names[i]);
    if (status == TR_OK)
        status = write_manifest(checkpoint, dir, number, parts);
    char *why = status == TR_OK ? NULL : tr__must_strdup(tr_error());
    for (int i = 0; i < PARTS; i++) {
        if (status != TR_OK)
            tr_part_remove(tr_checkpoint_folder(checkpoint), names[i]);
        tr_part_free(parts[i]);
        free(names[i]);
    }
    if (why)
        tr_fail(status, "%s", why);
    free(why);
    return status;
}
