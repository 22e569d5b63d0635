/* fuzz_job.c - the message of a saved job: what is accepted is copied again, written and read, and its data make a
 * dataset or are refused. The file's header has a checksum, which a fuzzer cannot guess: it is tried apart. */
#include "trainer/saved_job/job_desc.h"
#include "trainer/saved_job/job_file.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void write_again(const tr_saved_job_desc *desc)
{
    tr_job_desc_memory memory = {0};
    const Trireme__Trainer__Job *job = tr_job_desc_write(&memory, desc);
    const size_t size = trireme__trainer__job__get_packed_size(job);
    uint8_t     *bytes = malloc(size + 1);

    if (trireme__trainer__job__pack(job, bytes) != size)
        abort();
    Trireme__Trainer__Job *back = trireme__trainer__job__unpack(NULL, size, bytes);
    tr_job_desc_memory     more = {0};
    tr_saved_job_desc      again;
    if (!back || tr_job_desc_read(&again, &more, back) != TR_OK)
        abort();
    tr_job_desc_free(&more);
    trireme__trainer__job__free_unpacked(back, NULL);
    free(bytes);
    tr_job_desc_free(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    Trireme__Trainer__Job *job = NULL;
    tr_job_desc_memory     memory = {0};
    tr_saved_job_desc      desc;
    tr_dataset            *data = NULL;

    if (tr_job_file_parse(&job, input, size, "fuzz") != TR_OK)
        job = trireme__trainer__job__unpack(NULL, size, input);
    if (!job)
        return 0;
    if (tr_job_desc_read(&desc, &memory, job) == TR_OK) {
        write_again(&desc);
        if (tr_dataset_new(&data, &desc.data) == TR_OK)
            tr_dataset_free(data);
    }
    tr_job_desc_free(&memory);
    trireme__trainer__job__free_unpacked(job, NULL);
    return 0;
}
