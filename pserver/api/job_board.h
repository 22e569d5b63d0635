/* job_board.h - posts of trainers for each other. */
#pragma once

#include "pserver/api/job.h"
#include "pserver/trireme_board.h"

void      tr__job_board_free(tr_job *job);
