/* job_setup.h - what the servers are to do, made from the script's description. */
#pragma once

#include "pserver/api/job.h"
#include "pserver/rank/rank_commands.h"

tr_status tr__job_check_spec(tr_policy *policy, const tr_job *job, const tr_job_spec *spec);
tr_status tr__job_make_setup(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec);
/* After the handover the packed messages belong to the client. */
void      tr__job_free_setup(tr__setup_call *setup, bool is_handed_over);
