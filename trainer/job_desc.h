/* job_desc.h - from the description of a job to a message, and back. Neither direction copies texts or bytes: the result points into its
 * source. */
#ifndef TR_TRAINER_JOB_DESC_H
#define TR_TRAINER_JOB_DESC_H

#include "framework/status.h"
#include "proto/job.pb-c.h"
#include "trainer/trireme_trainer.h"

/* The lists that were made on the way, freed together. */
typedef struct tr_job_desc_memory {
    void **item;
    int    count, capacity;
} tr_job_desc_memory;

void tr_job_desc_free(tr_job_desc_memory *memory);

const Trireme__Trainer__Job *tr_job_desc_write(tr_job_desc_memory *memory, const tr_saved_job_desc *desc);
/* Checked: every number is in range by itself, every list as long as another that it belongs to. */
tr_status tr_job_desc_read(tr_saved_job_desc *out, tr_job_desc_memory *memory, const Trireme__Trainer__Job *message);

#endif
