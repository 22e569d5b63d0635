/* job_desc.h - from the description of a job to a message, and back. Neither direction copies texts or bytes: the result points into its
 * source. */
#pragma once

#include "framework/base/status.h"
#include "proto/job.pb-c.h"
#include "trainer/trireme_trainer.h"

/* The lists that a conversion allocates, freed together. */
typedef struct tr_job_desc_memory {
    void **item;
    int    count, capacity;
} tr_job_desc_memory;

void tr_job_desc_free(tr_job_desc_memory *memory);

const Trireme__Trainer__Job *tr_job_desc_write(tr_job_desc_memory *memory, const tr_saved_job_desc *desc);
/* Convert a message and check it: every number must be in its range, and lists that belong together must have the same length. */
tr_status tr_job_desc_read(tr_saved_job_desc *out, tr_job_desc_memory *memory, const Trireme__Trainer__Job *message);
