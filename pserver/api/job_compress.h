/* job_compress.h - a trainer compresses its gradients. */
#pragma once

#include "pserver/api/job.h"

/* How this process compresses gradients: TRIREME_COMPRESS, else the spec. */
const char *tr__job_compress_text(const tr_job_spec *spec);
/* How parameters come back, from TRIREME_COMPRESS_PARAMETERS or the spec. */
const char *tr__job_compress_parameters_text(const tr_job_spec *spec);
/* Bytes of a step's gradients that compression could reduce, whether or not it is on. */
int64_t     tr__job_compressible_bytes(const tr_job *job, const tr_job_spec *spec);
/* Make the state that a compressed gradient needs. NULL in *out: this gradient is not compressed. */
tr_status tr__job_coder_new(struct tr__job_coder **out, const tr_job *job, const tr_job_block *block);
void      tr__job_coder_free(struct tr__job_coder *coder);
bool      tr__job_compresses(const tr_job *job, int block);
/* Compress the block's gradient together with the residual of earlier steps. The result is valid until the ticket of the step's end is
 * done. Waits for the ticket of the step before. */
tr_status tr__job_compress(const tr_client_pieces **out, tr_job *job, tr__job_block *block, const void *data, double weight);
