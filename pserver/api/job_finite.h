/* job_finite.h - a trainer checks its gradients before their step ends: one that is not finite would make all parameters NaN.
 *
 * The trainer checks, not the servers, because it alone has all gradients of a step. So its step counts on all servers, or on none. With
 * `skip` gradients therefore wait for the end of their step. Where a trainer's step is an update of its own (async, ssp), a skipped step
 * ends without a gradient. Elsewhere its gradients have the weight 0, and servers leave them out. So servers, replicas and standbys need no
 * code for this.
 *
 * A step without samples (weight 0) is not checked: the mean over nothing may be NaN, and counts for nothing. */
#pragma once

#include "pserver/api/job.h"

/* Choose the word: TRIREME_ON_NAN, else the spec. It must suit the job's mode. */
tr_status tr__job_choose_on_nan(tr_job *job, const tr_job_spec *spec);
/* Check a gradient of the step that has not ended. TR_ENAN: the step must not end, so that no server applies it, and the job must end. */
tr_status tr__job_look_at_block(tr_job *job, int block, const void *data, double weight);
tr_status tr__job_look_at_rows(tr_job *job, int table, int64_t count, const int64_t *keys, const float *values, double weight);
/* Do gradients wait for the end of their step? */
bool      tr__job_holds_gradients(const tr_job *job);
/* At the step's end: send the gradients that waited, or leave the whole step out. *is_idle: end the step as one without a gradient. */
tr_status tr__job_release_gradients(tr_job *job, bool *is_idle);
