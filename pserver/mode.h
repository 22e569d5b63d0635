/* mode.h - the consistency of a job, which is one word:
 *
 *     sync                  a step is the mean over all trainers, applied once
 *     sync(fewer)           sync, and when a trainer has died the mean over all others
 *     sync(backups=1)       the mean over all but the slowest 1, whose late gradients are dropped
 *     async                 each trainer's step is an update of its own, applied when it is there
 *     async(compensation=0.04)   the same, its gradient corrected for what others did meanwhile
 *     ssp(3)                async, but no trainer begins a step more than 3 steps ahead of the slowest
 *     geo(10)               trainers update their own copies; every 10 steps they add what they changed to the servers'
 *
 * What follows from a mode is asked here and nowhere else. */
#ifndef TR_PSERVER_MODE_H
#define TR_PSERVER_MODE_H

#include "pserver/trireme_dist.h"

/* Are the gradients of different trainers gathered apart from each other? */
bool tr_mode_keeps_apart(const tr_mode *mode);
/* Does it have to be decided which gradients make an update (server_verdict.c)? */
bool tr_mode_decides(const tr_mode *mode);
/* When a job is started again, do servers that have an update more than others go back by it? */
bool tr_mode_goes_back(const tr_mode *mode);
/* May parameters count that updates of others have overtaken while they were on their way? Then they are to be whole. */
bool tr_mode_overtakes(const tr_mode *mode);
/* Does every trainer cut its stream for a checkpoint? Otherwise that of the one that begins it is enough: no update can pass it. */
bool tr_mode_cuts_by_all(const tr_mode *mode);
/* Do the others go on when a trainer dies? */
bool tr_mode_survives_trainers(const tr_mode *mode);

#endif
