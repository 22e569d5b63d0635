/* restored.c - see restored.h. */
#include "pserver/store/restored.h"

#include "framework/base/memory.h"
#include "framework/tensors/random.h"
#include "pserver/store/table_places.h"
#include "storage/checkpoint/place.h"
#include "storage/checkpoint/rows_ahead.h"
#include "storage/memory/segment.h"
#include "storage/table/table_var.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct item {
    tr_job_table about;               /* as the checkpoint describes it */
    char        *segments;            /* name of its segments, or NULL */
    tr_table    *table;               /* NULL: the setup has taken it */
} item;

struct tr_restored {
    tr_checkpoint *checkpoint;
    item          *item;
    int            count;
};

const char *tr_server_table_name(char out[TR_SEGMENT_NAME], const char *segments, const char *table)
{
    if (!segments)
        return NULL;
    snprintf(out, TR_SEGMENT_NAME, "%s.%016llx", segments, (unsigned long long)tr_hash_bytes(table, strlen(table)));
    return out;
}

/* == reading ===================================================================================== */

/* A host that does not see the job's folder has nothing there, or a folder of its own under this name. */
static bool sees(const char *path)
{
    char *manifest = tr__must_format("%s/manifest", path);
    bool  has = true;

    if (tr_place_of(path)->has_folders)
        has = access(manifest, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR && errno != EACCES);
    else if (tr_place_has(&has, manifest) != TR_OK)
        has = true;                                /* opening it will say why the store does not answer */
    free(manifest);
    return has;
}

static tr_status open_checkpoint(tr_restored *r, const char *path, uint64_t number)
{
    if (!sees(path))
        return tr_fail(TR_ENOTFOUND, "there is no checkpoint '%s'", path);
    TR_TRY(tr_checkpoint_open(&r->checkpoint, path));
    if (tr_checkpoint_number(r->checkpoint) != number)
        return tr_fail(TR_ENOTFOUND, "there is another checkpoint in '%s'", path);
    return TR_OK;
}

static uint64_t stride_of(const tr_checkpoint *checkpoint, int index)
{
    tr_job_table about;
    int64_t      rows;

    tr_checkpoint_table(&about, &rows, checkpoint, index);
    const tr_table_config config = tr_table_config_of(&about);
    return tr_table_stride(&config);
}

/* Bytes of one row of each table together. */
static uint64_t strides_of(const tr_checkpoint *checkpoint)
{
    uint64_t bytes = 0;

    for (int i = 0; i < tr_checkpoint_tables(checkpoint); i++)
        bytes += stride_of(checkpoint, i);
    return bytes;
}

/* Rows lie where they lay when the checkpoint was written, or where the environment says. The setup is not known yet. `strides`: bytes of
 * one row of each table together. */
static tr_status make_table(item *to, const tr_checkpoint *checkpoint, int index, const tr_table_segment *place, uint64_t strides,
                            const char *segments)
{
    char             name[TR_SEGMENT_NAME];
    tr_table_segment here = *place;
    int64_t          rows;

    tr_checkpoint_table(&to->about, &rows, checkpoint, index);
    here.name = tr_server_table_name(name, segments, to->about.name);
    here.spill = tr__checkpoint_spill(&here.memory, checkpoint, index);
    TR_TRY(tr_table_complete_place(&here, stride_of(checkpoint, index), strides));
    to->segments = here.name ? tr__must_strdup(here.name) : NULL;
    if (here.name)
        tr_table_remove(here.name);                /* usually there is no old one */
    const tr_table_config config = tr_table_config_of(&to->about);
    const tr_status       status = tr_table_create(&to->table, &config, &here);
    return status == TR_OK
               ? TR_OK
               : tr_context(status, "while sparse table '%s' of '%s' was made", to->about.name, tr_checkpoint_folder(checkpoint));
}

/* The items have the order of the checkpoint's tables. */
static item *find_item(const tr_restored *r, const char *name)
{
    const int index = tr_checkpoint_find_table(r->checkpoint, name);

    return index < 0 ? NULL : &r->item[index];
}

static tr_status put(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    return tr__rows_put(find_item(payload, what->name)->table, what, rows, bytes);
}

static tr_status read_all(tr_restored *r, const tr_server_part *part, const char *segments)
{
    const tr_table_segment place = {.first_shard = tr_first_shard(part->server, part->servers),
                                    .shard_count = tr_first_shard(part->server + 1, part->servers) -
                                                   tr_first_shard(part->server, part->servers)};
    const tr_rows_wanted   wanted = {
        .first_shard = place.first_shard, .shard_count = place.shard_count, .reader = part->server, .readers = part->servers};

    r->item = tr__must_array((size_t)tr_checkpoint_tables(r->checkpoint) + 1, sizeof *r->item);
    const uint64_t strides = strides_of(r->checkpoint);
    for (int i = 0; i < tr_checkpoint_tables(r->checkpoint); i++) {
        r->count++;
        TR_TRY(make_table(&r->item[i], r->checkpoint, i, &place, strides, segments));
    }
    return tr__checkpoint_read_rows(r->checkpoint, &wanted, put, r);
}

tr_status tr_restored_read(tr_restored **out, const char *path, uint64_t number, const tr_server_part *part, const char *segments)
{
    tr_restored *r = tr__must_alloc(sizeof *r);
    tr_status    status = open_checkpoint(r, path, number);

    if (status == TR_OK)
        status = read_all(r, part, segments);
    if (status == TR_OK) {
        *out = r;
        return TR_OK;
    }
    char *why = tr__must_strdup(tr_error());       /* removing segments that are not there is an error, too */
    tr_restored_free(r);
    tr_fail(status, "%s", why);
    free(why);
    return status;
}

void tr_restored_free(tr_restored *restored)
{
    if (!restored)
        return;
    for (int i = 0; i < restored->count; i++) {
        item *it = &restored->item[i];
        if (it->table && it->segments)
            tr_table_remove(it->segments);
        tr_table_free(it->table);
        free(it->segments);
    }
    tr_checkpoint_free(restored->checkpoint);
    free(restored->item);
    free(restored);
}

uint64_t tr_restored_number(const tr_restored *restored)
{
    return tr_checkpoint_number(restored->checkpoint);
}

/* == for the setup =============================================================================== */

tr_status tr_restored_take(tr_table **out, tr_restored *restored, const char *name, const tr_table_config *config,
                           const tr_table_segment *place)
{
    item *it = find_item(restored, name);

    if (!it || !it->table)
        return tr_fail(TR_ENOTFOUND, "the checkpoint '%s' has no sparse table '%s'", tr_checkpoint_folder(restored->checkpoint), name);
    const tr_status status = tr_table_configure(it->table, config, place);
    if (status != TR_OK)
        return tr_context(status, "for the sparse table '%s' of the checkpoint '%s'", name, tr_checkpoint_folder(restored->checkpoint));
    *out = it->table;
    it->table = NULL;
    return TR_OK;
}

tr_status tr_restored_value(const tr_restored *restored, const Trireme__Pserver__Value *value, void *to)
{
    const int     index = value->source ? tr_checkpoint_find(restored->checkpoint, value->source) : -1;
    const int64_t rows = value->n_dims ? value->dims[0] : 1;

    if (index < 0)
        return tr_fail(TR_ENOTFOUND, "the checkpoint '%s' has no '%s', which the servers keep", tr_checkpoint_folder(restored->checkpoint),
                       value->source ? value->source : value->name);
    return tr_checkpoint_read(restored->checkpoint, index, value->has_row ? (int64_t)value->row : 0, rows, to, (int64_t)value->bytes);
}
