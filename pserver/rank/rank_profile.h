/* rank_profile.h - a Chrome trace of each rank of a job, if the environment asks for it: TRIREME_PROFILE=DIR. */
#pragma once

#include "pserver/rank/rank.h"

/* Begin to record, if TRIREME_PROFILE is set. */
void tr__rank_profile_begin(void);
/* Write DIR/trainer-0.json, DIR/server-1.json and so on. If a file cannot be written, a line on standard error names it, and the job
 * goes on. */
void tr__rank_profile_end(const tr__rank *rank);
