/* rank_runlog.h - the lines of a job's rank in its log, and its figures for the launcher. See runlog.h and docs/logs.md. */
#pragma once

#include "pserver/rank/rank.h"

/* Start the log; all ranks must be known. */
void tr__rank_runlog_start(tr__rank *rank);
/* Write the last line: how the job ended for this rank. A server that ended well runs no update, so the line describes its tables. */
void tr__rank_runlog_end(tr__rank *rank, tr_status status);
