/* job_fetched.c - see job_fetched.h.
 *
 * A slot: step u64, bytes u64 of the values, the values, step u64. A value: bytes of its name, data type, rank, LoD levels, each u32; the
 * name; i64 dims; of each level i64 offsets' number and the offsets; the data. */
#include "pserver/api/job_fetched.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOT_BYTES = 1 << 16, VALUE_BYTES = 4096 };

typedef struct tr__fetched {
    int     file;
    size_t  bytes;                    /* size of the slot that is being made */
    uint8_t slot[SLOT_BYTES];
} tr__fetched;

tr_status tr_job_keep_fetched(tr_job *job, const char *path)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_keep_fetched"));
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        return tr_fail(TR_EIO, "cannot open '%s' for what steps fetch: %s", path, strerror(errno));
    tr__job_fetched_free(job->fetched);
    job->fetched = tr__must_alloc(sizeof *job->fetched);
    job->fetched->file = file;
    return TR_OK;
}

void tr__job_fetched_free(tr__fetched *fetched)
{
    if (fetched)
        close(fetched->file);
    free(fetched);
}

/* == a slot ====================================================================================== */

static void put(tr__fetched *f, const void *data, size_t bytes)
{
    memcpy(f->slot + f->bytes, data, bytes);
    f->bytes += bytes;
}

static void put_u64(tr__fetched *f, uint64_t value)
{
    put(f, &value, sizeof value);
}

static size_t size_of_lod(const tr_tensor *value)
{
    size_t words = 0;

    for (int i = 0; i < tr_tensor_lod_levels(value); i++)
        words += 1 + (size_t)tr_tensor_lod_count(value, i);
    return words * sizeof(int64_t);
}

static void put_value(tr__fetched *f, const char *name, const tr_tensor *value)
{
    const size_t   data = (size_t)tr_tensor_bytes(value), name_bytes = strlen(name);
    const int      levels = tr_tensor_lod_levels(value);
    const uint32_t head[] = {(uint32_t)name_bytes, (uint32_t)value->dtype, (uint32_t)value->shape.rank, (uint32_t)levels};
    const size_t   dims = (size_t)value->shape.rank * sizeof *value->shape.dim;

    if (data > VALUE_BYTES || f->bytes + sizeof head + name_bytes + dims + size_of_lod(value) + data + sizeof(uint64_t) > SLOT_BYTES)
        return;
    put(f, head, sizeof head);
    put(f, name, name_bytes);
    put(f, value->shape.dim, dims);
    for (int i = 0; i < levels; i++) {
        put_u64(f, (uint64_t)tr_tensor_lod_count(value, i));
        put(f, tr_tensor_lod_offsets(value, i), (size_t)tr_tensor_lod_count(value, i) * sizeof(int64_t));
    }
    put(f, value->data, data);
}

/* == a step ====================================================================================== */

tr_status tr__job_note_fetched(tr_job *job, const tr_run *io, int64_t step)
{
    const int    count = job->fetched ? tr_run_fetch_count(io) : 0;
    tr__fetched *f = job->fetched;

    if (!count)
        return TR_OK;
    f->bytes = 0;
    put_u64(f, (uint64_t)step);
    put_u64(f, 0);
    const size_t begin = f->bytes;
    for (int i = 0; i < count; i++) {
        const char      *name;
        const tr_tensor *value = tr_run_fetch(&name, io, i);
        if (value->data && !value->rows && tr_run_has_made_fetch(io, i))
            put_value(f, name, value);
    }
    const uint64_t bytes = f->bytes - begin;
    memcpy(f->slot + sizeof bytes, &bytes, sizeof bytes);
    put_u64(f, (uint64_t)step);
    if (bytes && pwrite(f->file, f->slot, f->bytes, step % 2 * SLOT_BYTES) != (ssize_t)f->bytes) {
        tr__job_fetched_free(f);                   /* the disk is full: the script's own record (fetched.py) reports it */
        job->fetched = NULL;
    }
    return TR_OK;
}
