/* checkpoint.c - names of files, and the manifest as bytes. Parsing checks everything that can be checked without the parts. */
#include "storage/checkpoint/checkpoint.h"

#include "storage/checkpoint/shard_list.h"
#include "storage/checkpoint/table_description.h"
#include "storage/util/crc32c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/message.h"
#include "framework/base/name.h"
#include "storage/util/little_endian.h"

static const char MAGIC[8] = "TRIRECKP";

/* A reader that knows no lists of shards (shard_list.h) refuses a manifest that has them by its version. */
enum { VERSION = 1, VERSION_OF_LISTS = 2, CHUNK_MIN = 4096, CHUNK_MAX = 1 << 30 };

/* == names ==================================================================================== */

uint64_t tr_checkpoint_new_number(void)
{
    uint64_t snapshot = 0;

    if (getrandom(&snapshot, sizeof snapshot, GRND_NONBLOCK) != sizeof snapshot)
        snapshot = (uint64_t)time(NULL) << 32 ^ (uint64_t)getpid();
    return snapshot;
}

char *tr_part_name(int index, int count, uint64_t snapshot)
{
    return tr__must_format("part-%05d-of-%05d.%016" PRIx64 ".data", index, count, snapshot);
}

char *tr_checkpoint_path(const char *folder, int64_t step)
{
    return tr__must_format("%s/step-%09" PRId64, folder, step);
}

/* == options ================================================================================== */

tr_status tr_checkpoint_rows_parse(tr_checkpoint_rows *out, const char *name)
{
    static const char *const NAMES[TR_ROWS_COUNT] = {"exact", "int8"};

    for (int i = 0; i < TR_ROWS_COUNT; i++)
        if (!strcmp(name, NAMES[i])) {
            *out = (tr_checkpoint_rows)i;
            return TR_OK;
        }
    return tr_fail(TR_EINVAL, "checkpoint: rows are 'exact' or 'int8', got '%.100s'", name);
}

/* == parts ==================================================================================== */

uint8_t *tr_part_pack(size_t *size, const tr_part *part)
{
    tr_part *listed = tr__shards_list(part);

    *size = trireme__checkpoint__part__get_packed_size(listed);
    uint8_t *bytes = tr__must_alloc(*size + 1);
    trireme__checkpoint__part__pack(listed, bytes);
    tr__shards_list_free(listed);
    return bytes;
}

tr_part *tr_part_parse(const uint8_t *bytes, size_t size)
{
    if (tr__message_check_strings(&trireme__checkpoint__part__descriptor, bytes, size) != TR_OK)
        return NULL;
    tr_part *part = trireme__checkpoint__part__unpack(NULL, size, bytes);
    if (part && tr__shards_expand(part) != TR_OK) {
        tr_part_free(part);
        return NULL;
    }
    return part;
}

void tr_part_free(tr_part *part)
{
    if (part)
        trireme__checkpoint__part__free_unpacked(part, NULL);
}

char *tr__checkpoint_beside(const char *folder, int64_t step)
{
    size_t end = strlen(folder), begin;

    while (end > 1 && folder[end - 1] == '/')
        end--;
    for (begin = end; begin && folder[begin - 1] != '/'; begin--)
        ;
    /* Another name, such as '.', or a link's, does not say in which folder it is. */
    char *dir = strncmp(folder + begin, "step-", 5) != 0 ? tr__must_format("%s/..", folder)
                : begin                                ? tr__must_format("%.*s", (int)(begin > 1 ? begin - 1 : 1), folder)
                                                       : tr__must_strdup(".");
    char *path = tr_checkpoint_path(dir, step);
    free(dir);
    return path;
}

char *tr__part_folder(const tr_part *part, const char *folder)
{
    return part->has_of_step ? tr__checkpoint_beside(folder, (int64_t)part->of_step) : tr__must_strdup(folder);
}

/* == checks ==================================================================================== */

/* Is this the name of a file in the same folder? */
static bool is_plain_name(const char *name)
{
    return !strncmp(name, "part-", 5) && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")] == '\0' &&
           strlen(name) < 200;
}

static tr_status check_tensor(const tr_part *part, const tr_part_tensor *t)
{
    uint64_t bytes = (uint64_t)tr_dtype_size((tr_dtype)t->dtype);

    TR_TRY(tr_name_check(t->name));
    if ((unsigned)t->kind >= TR_STATE_KIND_COUNT || !bytes || t->n_dims > TR_MAX_RANK)
        return tr_fail(TR_EFORMAT, "array '%.200s' of %.200s: kind %d, data type %u, rank %zu", t->name, part->file,
                       (int)t->kind, t->dtype, t->n_dims);
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)t->dims[i], &bytes))
            return tr_fail(TR_EFORMAT, "array '%.200s' of %.200s: dimension %zu is %lld", t->name, part->file, i,
                           (long long)t->dims[i]);
    if (bytes != t->bytes || (t->offset % TR_CHECKPOINT_ALIGN && !t->code) || t->offset > part->bytes || bytes > part->bytes - t->offset)
        return tr_fail(TR_EFORMAT, "array '%.200s': %llu bytes by its dimensions, %llu at %llu of the %llu of %.200s", t->name,
                       (unsigned long long)bytes, (unsigned long long)t->bytes, (unsigned long long)t->offset,
                       (unsigned long long)part->bytes, part->file);
    if (t->has_rows && (t->n_dims == 0 || t->rows > INT64_MAX || t->row > t->rows || (uint64_t)t->dims[0] > t->rows - t->row))
        return tr_fail(TR_EFORMAT, "array '%.200s' of %.200s: its rows from %llu on do not lie in %llu", t->name, part->file,
                       (unsigned long long)t->row, (unsigned long long)t->rows);
    return TR_OK;
}

static tr_status check_part(const tr_part *part)
{
    if (!is_plain_name(part->file))
        return tr_fail(TR_EFORMAT, "'%.200s' is no name of a part", part->file);
    if (part->chunk_bytes < CHUNK_MIN || part->chunk_bytes > CHUNK_MAX || part->bytes > INT64_MAX ||
        part->n_checksums != (part->bytes + part->chunk_bytes - 1) / part->chunk_bytes)
        return tr_fail(TR_EFORMAT, "%.200s has %llu bytes in chunks of %llu and %zu checksums", part->file,
                       (unsigned long long)part->bytes, (unsigned long long)part->chunk_bytes, part->n_checksums);
    for (size_t i = 0; i < part->n_tensors; i++)
        TR_TRY(check_tensor(part, part->tensors[i]));
    return TR_OK;
}

static tr_status check_manifest(tr_manifest *m)
{
    if (m->step > INT64_MAX || m->created > INT64_MAX || m->base_step > INT64_MAX)
        return tr_fail(TR_EFORMAT, "step %llu, since %llu", (unsigned long long)m->step, (unsigned long long)m->base_step);
    for (size_t i = 0; i < m->n_parts; i++) {
        TR_TRY(tr__shards_expand(m->parts[i]));
        TR_TRY(check_part(m->parts[i]));
        for (size_t j = 0; j < i; j++)
            if (!strcmp(m->parts[i]->file, m->parts[j]->file))
                return tr_fail(TR_EFORMAT, "%.200s stands there twice", m->parts[i]->file);
    }
    for (size_t i = 0; i < m->n_trainers; i++)
        if (m->trainers[i]->steps > INT64_MAX || m->trainers[i]->runs > INT64_MAX || m->trainers[i]->index > INT32_MAX)
            return tr_fail(TR_EFORMAT, "trainer %zu: step %llu, run %llu", i, (unsigned long long)m->trainers[i]->steps,
                           (unsigned long long)m->trainers[i]->runs);
    return tr__tables_check(m);
}

/* == the manifest's file ======================================================================== */

static tr_status bad(const char *path, const char *what)
{
    char why[512];

    snprintf(why, sizeof why, "%s", what);
    return tr_fail(TR_EFORMAT, "'%s': %s", path, why);
}

tr_status tr_manifest_parse(tr_manifest **out, const uint8_t *bytes, size_t size, const char *path)
{
    if (size < TR_MANIFEST_HEADER || memcmp(bytes, MAGIC, sizeof MAGIC))
        return bad(path, "this is no manifest of a checkpoint");
    const uint32_t version = tr_get_u32(bytes + 8), expected = tr_get_u32(bytes + 12);
    const uint64_t length = tr_get_u64(bytes + 16);
    if (version < VERSION || version > VERSION_OF_LISTS)
        return tr_fail(TR_EFORMAT, "'%s': version %u of the format; %d to %d are known", path, version, VERSION, VERSION_OF_LISTS);
    if (length != size - TR_MANIFEST_HEADER)
        return tr_fail(TR_EFORMAT, "'%s': expected %llu bytes, found %zu", path,
                       (unsigned long long)length + TR_MANIFEST_HEADER, size);
    const uint32_t got = tr_crc32c(0, bytes + TR_MANIFEST_HEADER, size - TR_MANIFEST_HEADER);
    if (got != expected)
        return tr_fail(TR_EFORMAT, "'%s': expected the checksum %08x, got %08x", path, expected, got);
    tr_manifest *m = trireme__checkpoint__manifest__unpack(NULL, size - TR_MANIFEST_HEADER, bytes + TR_MANIFEST_HEADER);
    if (!m)
        return bad(path, "its message is damaged");
    tr_status status = tr__message_check_strings(&trireme__checkpoint__manifest__descriptor, bytes + TR_MANIFEST_HEADER,
                                                 size - TR_MANIFEST_HEADER);
    if (status != TR_OK || check_manifest(m) != TR_OK) {
        tr_manifest_free(m);
        return bad(path, tr_error());
    }
    *out = m;
    return TR_OK;
}

static bool has_tables(const tr_manifest *m)
{
    for (size_t i = 0; i < m->n_parts; i++)
        if (m->parts[i]->n_tables)
            return true;
    return false;
}

uint8_t *tr_manifest_pack(size_t *size, const tr_manifest *manifest)
{
    tr_manifest listed = *manifest;

    listed.parts = tr__must_array(manifest->n_parts + 1, sizeof *listed.parts);
    for (size_t i = 0; i < manifest->n_parts; i++)
        listed.parts[i] = tr__shards_list(manifest->parts[i]);
    const size_t length = trireme__checkpoint__manifest__get_packed_size(&listed);
    uint8_t     *bytes = tr__must_alloc(length + TR_MANIFEST_HEADER);
    trireme__checkpoint__manifest__pack(&listed, bytes + TR_MANIFEST_HEADER);
    for (size_t i = 0; i < manifest->n_parts; i++)
        tr__shards_list_free(listed.parts[i]);
    free(listed.parts);
    memcpy(bytes, MAGIC, sizeof MAGIC);
    tr_put_u32(bytes + 8, has_tables(manifest) ? VERSION_OF_LISTS : VERSION);
    tr_put_u32(bytes + 12, tr_crc32c(0, bytes + TR_MANIFEST_HEADER, length));
    tr_put_u64(bytes + 16, length);
    *size = length + TR_MANIFEST_HEADER;
    return bytes;
}

void tr_manifest_free(tr_manifest *manifest)
{
    if (manifest)
        trireme__checkpoint__manifest__free_unpacked(manifest, NULL);
}

tr_checkpoint_run tr__run_of_manifest(const tr_manifest *manifest)
{
    const Trireme__Checkpoint__Run *run = manifest->run;

    return run ? (tr_checkpoint_run){run->number, (int64_t)run->began, run->command} : (tr_checkpoint_run){.command = ""};
}
