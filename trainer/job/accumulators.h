/* accumulators.h - variables in which each trainer of a job accumulates what it has not sent yet: the operator dgc writes them. A
 * checkpoint of a job has those of every trainer (tr_job_spec.own). */
#pragma once

#include "pserver/trireme_dist.h"

/* List them with their types and shapes in `scope`, where each has a value; their names are the program's. *out is malloc'ed. */
tr_status tr_accumulators_list(tr_checkpoint_item **out, int *count, tr_program *program, tr_scope *scope);
