/* job_save.h - writes the variables of a saved job at its end. */
#pragma once

#include "framework/tensors/scope.h"
#include "trainer/trireme_trainer.h"

/* Write the variables that the job names into its folder, a file each. */
tr_status tr_saved_job_save(const tr_saved_job_desc *desc, const tr_scope *scope);
