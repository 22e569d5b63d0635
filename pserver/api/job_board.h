/* job_board.h - posts of trainers for each other. */
#ifndef TR_PSERVER_JOB_BOARD_H
#define TR_PSERVER_JOB_BOARD_H

#include "pserver/api/job.h"
#include "pserver/trireme_board.h"

void      tr__job_board_free(tr_job *job);

#endif
