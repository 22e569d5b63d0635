/* cold.c - the life of cold rows, and the blocks of their file. */
#include "storage/cold/cold_state.h"

#include "framework/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const uint64_t BLOCK = 1 << 20;

/* == life ======================================================================================= */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + TR__COLD_PAGE - 1) / TR__COLD_PAGE * TR__COLD_PAGE;
}

tr_status tr__cold_size_blocks(tr_cold *cold, uint64_t wanted)
{
    enum { LEAST_RECORDS = 16 };
    const uint64_t least = round_up(LEAST_RECORDS * cold->record_bytes);

    cold->block_bytes = wanted > least ? wanted : least;
    cold->per_block = (uint32_t)(cold->block_bytes / cold->record_bytes);
    cold->tail_bytes = aligned_alloc(TR__COLD_PAGE, cold->block_bytes);
    if (!cold->tail_bytes)
        return tr_fail(TR_ENOMEM, "cold rows: no memory for a block of %llu bytes", (unsigned long long)cold->block_bytes);
    memset(cold->tail_bytes, 0, cold->block_bytes);
    return TR_OK;
}

static tr_status begin(tr_cold *cold)
{
    char                  name[TR_SEGMENT_NAME];
    const tr_cold_config *c = &cold->config;

    TR_TRY(tr__cold_size_blocks(cold, c->block_bytes ? c->block_bytes : BLOCK));
    TR_TRY(tr_tag_index_create(&cold->index, tr__cold_index_name(name, c->name), c->first_shard, c->shard_count));
    TR_TRY(tr__cold_make_file(cold));
    tr__cold_put_notes(cold);
    return tr__cold_open_ages(cold);
}

static tr_status open_cold(tr_cold **out, const tr_cold_config *config, bool is_new)
{
    tr_cold *cold = calloc(1, sizeof *cold);

    if (!cold)
        return tr_fail(TR_ENOMEM, "cold rows: no memory");
    cold->config = *config;
    cold->config.folder = cold->folder = tr__must_strdup(config->folder);
    cold->config.name = cold->name = config->name ? tr__must_strdup(config->name) : NULL;
    cold->file = -1;
    cold->pid = getpid();
    cold->tail = TR__COLD_NONE;
    cold->record_bytes = sizeof(tr__cold_head) + config->stride;
    const tr_status status = is_new ? begin(cold) : tr__cold_go_on(cold);
    if (status == TR_OK)
        *out = cold;
    else
        tr_cold_free(cold);
    return status;
}

tr_status tr_cold_create(tr_cold **out, const tr_cold_config *config)
{
    return open_cold(out, config, true);
}

tr_status tr_cold_attach(tr_cold **out, const tr_cold_config *config)
{
    return open_cold(out, config, false);
}

void tr_cold_free(tr_cold *cold)
{
    if (!cold)
        return;
    tr_cold_snapshot_end(cold);
    tr__cold_ahead_free(cold);
    tr_tag_index_free(cold->index);
    tr_segment_free(cold->ages);
    if (cold->file >= 0)
        close(cold->file);
    free(cold->tail_bytes);
    free(cold->block);
    free(cold->free);
    free(cold->found);
    free(cold->folder);
    free(cold->name);
    free(cold);
}

tr_status tr__cold_check_process(const tr_cold *cold)
{
    if (cold->pid == getpid())
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED, "cold rows in '%s' belong to process %lld; its forked children cannot use the table", cold->folder,
                   (long long)cold->pid);
}

uint64_t tr_cold_count(const tr_cold *cold)
{
    return tr_tag_index_count(cold->index);
}

uint64_t tr_cold_memory(const tr_cold *cold)
{
    return tr_tag_index_bytes(cold->index) + (cold->ages ? tr_segment_bytes(cold->ages) : 0);
}

void tr_cold_get_report(const tr_cold *cold, tr_cold_report *report)
{
    *report = cold->report;
    report->rows = tr_cold_count(cold);
    report->file_bytes = (uint64_t)(cold->blocks - cold->free_count) * cold->block_bytes;
    report->index_bytes = tr_cold_memory(cold);
}

/* == blocks ======================================================================================== */

static tr_status no_room(const tr_cold *cold, uint64_t bytes, int error)
{
    struct statvfs info;

    if ((error != ENOSPC && error != EDQUOT) || statvfs(cold->folder, &info) != 0)
        return tr_fail(TR_EIO, "cannot write cold rows in folder '%s': %s", cold->folder, strerror(error));
    return tr_fail(TR_EIO, "no room for %llu bytes of cold rows in folder '%s', which has %llu bytes left: make room, or let the table have "
                   "more memory. No row is lost: they are still in memory", (unsigned long long)bytes, cold->folder,
                   (unsigned long long)info.f_bavail * info.f_frsize);
}

/* Take the room of a block now: a write that fails in the middle of a block would be harder to explain. */
static tr_status take_room(tr_cold *cold, uint32_t block)
{
    const off_t at = (off_t)tr__cold_block_place(cold, block);

    while (fallocate(cold->file, 0, at, (off_t)cold->block_bytes) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EOPNOTSUPP)
            return no_room(cold, cold->block_bytes, errno);
        const off_t had = (off_t)tr__cold_block_place(cold, cold->blocks), needs = at + (off_t)cold->block_bytes;
        return ftruncate(cold->file, had > needs ? had : needs) == 0 ? TR_OK : no_room(cold, cold->block_bytes, errno);
    }
    return TR_OK;
}

tr_status tr__cold_reserve_blocks(tr_cold *cold, uint32_t blocks)
{
    if (blocks < cold->block_capacity)
        return TR_OK;
    const uint32_t  capacity = 2 * blocks + 64;
    if (cold->snapshot)                                /* its reader looks at blocks */
        pthread_mutex_lock(&cold->snapshot->lock);
    tr__cold_block *block = realloc(cold->block, capacity * sizeof *block);
    uint32_t       *list = block ? realloc(cold->free, capacity * sizeof *list) : NULL;

    if (block)
        cold->block = block;
    if (cold->snapshot)
        pthread_mutex_unlock(&cold->snapshot->lock);
    if (list)
        cold->free = list;
    if (!list)
        return tr_fail(TR_ENOMEM, "cold rows: no memory to count the records of %u blocks", capacity);
    cold->block_capacity = capacity;
    return TR_OK;
}

tr_status tr__cold_begin_block(tr_cold *cold)
{
    TR_TRY(tr__cold_reserve_blocks(cold, cold->blocks));
    const bool     is_new = !cold->free_count;
    const uint32_t block = is_new ? cold->blocks : cold->free[cold->free_count - 1];
    if ((uint64_t)(block + 1) * cold->per_block > UINT32_MAX - 1)
        return tr_fail(TR_ENOMEM, "cold rows: 2^32 records are possible on one server");
    TR_TRY(tr__cold_reserve_ages(cold, (uint64_t)block + 1));
    TR_TRY(take_room(cold, block));
    if (is_new)
        cold->blocks++;
    else
        cold->free_count--;
    cold->block[block] = (tr__cold_block){.is_used = true, .life = is_new ? 0 : cold->block[block].life};
    const uint32_t last = cold->tail;
    cold->tail = block;
    if (last != TR__COLD_NONE && !cold->block[last].live && !cold->block[last].is_old)
        tr__cold_free_block(cold, last);
    cold->filled = 0;
    return TR_OK;
}

void tr__cold_free_block(tr_cold *cold, uint32_t block)
{
    cold->block[block] = (tr__cold_block){.life = cold->block[block].life + 1};
    cold->free[cold->free_count++] = block;
    /* A file system that cannot give the room back keeps it for the next block. To a forked child it does not belong. */
    if (cold->pid == getpid())
        (void)!fallocate(cold->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)tr__cold_block_place(cold, block),
                         (off_t)cold->block_bytes);
}

void tr_cold_clear(tr_cold *cold)
{
    if (cold->snapshot)
        tr__cold_snapshot_clear(cold);
    else
        tr__cold_clear_index(cold);
    cold->tail = TR__COLD_NONE;
    for (uint32_t i = 0; i < cold->blocks; i++) {
        cold->block[i].live = 0;
        if (cold->block[i].is_used && !cold->block[i].is_old)
            tr__cold_free_block(cold, i);
    }
}
