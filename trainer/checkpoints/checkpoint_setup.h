/* checkpoint_setup.h - the parts of a job's setup that concern checkpoints, once the manager's training has begun. */
#pragma once

#include "trainer/checkpoints/checkpoint_manager.h"

/* Say which variable of a checkpoint a value of the servers is: `source` in the trainers' scope. A variable that the manager does not know
 * stays as it is. */
void tr_checkpoint_setup_value(tr_job_value *value, const char *source, const tr_checkpoint_manager *manager);
/* Say that the servers have the rows of this table from the checkpoint that the training goes on from, if they have. */
void tr_checkpoint_setup_table(tr_job_table *table, const tr_checkpoint_manager *manager);
/* Fill in all else, once. The spec points into the manager then. */
void tr_checkpoint_setup_fill(tr_job_spec *spec, tr_checkpoint_manager *manager);
