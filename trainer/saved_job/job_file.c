/* job_file.c - the bytes of the file and its header. The message inside is job_desc.c's. */
#include "trainer/saved_job/job_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/memory.h"
#include "framework/base/message.h"
#include "framework/base/path.h"
#include "framework/tensors/beside.h"
#include "storage/util/crc32c.h"
#include "trainer/saved_job/job_desc.h"

static const char     MAGIC[8] = "TRIREJOB";
static const uint64_t JOB_MAX = 1ull << 31;             /* bytes of the largest message */

struct tr_saved_job {
    Trireme__Trainer__Job *message;
    tr_job_desc_memory     memory;
    tr_saved_job_desc      desc;
};

/* == numbers of a header, little-endian ========================================================== */

static void put(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

/* == reading ================================================================================== */

tr_status tr_job_file_parse(Trireme__Trainer__Job **out, const void *bytes, size_t size, const char *path)
{
    const uint8_t *header = bytes, *message = header + TR_JOB_FILE_HEADER;

    if (size < TR_JOB_FILE_HEADER || memcmp(header, MAGIC, sizeof MAGIC))
        return tr_fail(TR_EFORMAT, "'%s' is no saved job: it does not begin with \"%.8s\"", path, MAGIC);
    const uint64_t version = get(header + 8, 4), checksum = get(header + 12, 4), length = get(header + 16, 8);
    if (version != TR_JOB_FILE_VERSION)
        return tr_fail(TR_EFORMAT, "'%s' has the format's version %llu; this program reads %d", path,
                       (unsigned long long)version, TR_JOB_FILE_VERSION);
    if (length != size - TR_JOB_FILE_HEADER)
        return tr_fail(TR_EFORMAT, "'%s' should have %llu bytes after its header; it has %zu: it was cut or written on",
                       path, (unsigned long long)length, size - TR_JOB_FILE_HEADER);
    const uint32_t got = tr_crc32c(0, message, length);
    if (got != checksum)
        return tr_fail(TR_EFORMAT, "'%s' is damaged: its checksum is %08x, it should be %08x", path, got,
                       (unsigned)checksum);
    TR_TRY(tr__message_check_strings(&trireme__trainer__job__descriptor, message, length));
    *out = trireme__trainer__job__unpack(NULL, length, message);
    return *out ? TR_OK : tr_fail(TR_EFORMAT, "'%s' holds no message of proto/job.proto", path);
}

tr_status tr_saved_job_load(tr_saved_job **out, const char *path)
{
    struct stat   info;
    uint8_t      *bytes = NULL;
    size_t        size = 0;
    tr_saved_job *job = tr__must_alloc(sizeof *job);
    const bool    is_folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    char         *file = is_folder ? tr__must_format("%s/job", path) : tr__must_strdup(path);

    tr_status status = tr_path_read(&bytes, &size, file, JOB_MAX);
    if (status == TR_OK) {
        status = tr_job_file_parse(&job->message, bytes, size, file);
        free(bytes);
    }
    if (status == TR_OK)
        status = tr_job_desc_read(&job->desc, &job->memory, job->message);
    if (status != TR_OK) {
        tr_context(status, "while reading '%s'", file);
        tr_saved_job_free(job);
    }
    free(file);
    *out = status == TR_OK ? job : NULL;
    return status;
}

void tr_saved_job_free(tr_saved_job *job)
{
    if (!job)
        return;
    tr_job_desc_free(&job->memory);
    if (job->message)
        trireme__trainer__job__free_unpacked(job->message, NULL);
    free(job);
}

const tr_saved_job_desc *tr_saved_job_get(const tr_saved_job *job)
{
    return &job->desc;
}

/* == writing ================================================================================== */

tr_status tr_saved_job_write(const char *path, const tr_saved_job_desc *desc)
{
    uint8_t            header[TR_JOB_FILE_HEADER];
    tr_job_desc_memory memory = {0};
    tr_beside          file;

    const Trireme__Trainer__Job *message = tr_job_desc_write(&memory, desc);
    const size_t size = trireme__trainer__job__get_packed_size(message);
    uint8_t     *bytes = tr__must_alloc(size);
    trireme__trainer__job__pack(message, bytes);
    memcpy(header, MAGIC, sizeof MAGIC);
    put(header + 8, TR_JOB_FILE_VERSION, 4);
    put(header + 12, tr_crc32c(0, bytes, size), 4);
    put(header + 16, size, 8);
    tr_status status = tr_beside_open(&file, path);
    if (status == TR_OK) {
        fwrite(header, 1, sizeof header, file.out);
        fwrite(bytes, 1, size, file.out);
        status = tr_beside_close(&file, TR_OK);
    }
    free(bytes);
    tr_job_desc_free(&memory);
    return status;
}
