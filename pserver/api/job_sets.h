/* job_sets.h - what a script sets between two steps: the servers' variables, of which this trainer has copies.
 *
 * The servers own the parameters, the optimizers' states and the learning rates. A trainer's scope has a variable of the same name for
 * each. A value that a script writes there is meant for the servers. The framework tells this module of each write
 * (framework/tensors/watched.h). The operator send_sets, the first of each step, asks this module what was set since the step before.
 *
 * Memory that was handed out (an array of NumPy that shares it, tr_tensor_data) may be written without a word. So a digest of its bytes is
 * made when it is handed out, and again at the next step. While an array of NumPy shares the memory, the digest is renewed after each pull.
 *
 * A trainer has no present value of the optimizers' states: no step brings them. Such a variable is *remote*. The framework tells this
 * module that the variable is about to be read. Then its value is pulled, once for each state of the servers that this trainer sees. A
 * value that the script has set counts until the next step.
 *
 * What must stay true: a step before which nothing was written or handed out costs one comparison here. */
#pragma once

#include "pserver/api/job.h"

typedef struct tr__job_sets tr__job_sets;

/* Remember which variables the servers have. */
tr_status tr__job_sets_keep(tr_job *job, const tr_job_spec *spec);
void      tr__job_sets_free(tr__job_sets *sets);
/* A step begins. */
tr_status tr__job_sets_send(tr_job *job);
/* A step has ended: fetch the remote values whose memory other objects share. */
tr_status tr__job_sets_renew(tr_job *job);
/* Parameters have arrived while other objects share their memory. */
void      tr__job_sets_arrived(tr_job *job);
