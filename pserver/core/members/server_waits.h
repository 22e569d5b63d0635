/* server_waits.h - trainers that wait for each other, as server 0 sees them.
 *
 * A trainer that waits for posts makes no step. In modes with a common step, or with a bound between trainers, another trainer may wait for
 * that step, and the first one may wait for a post of that other trainer: then both would wait for ever. So server 0 tells the first
 * trainer that it is awaited. This trainer makes the step without a gradient, as if its slice of the batch were empty, and goes on waiting.
 * In the same way a trainer that waits before its first step is told to join.
 *
 * Why no timing matters: a trainer is told to make step s only when the trainer that it waits for has ended step s itself and has not
 * posted. The post then comes after step s in the other's script, whatever happens first.
 *
 * Posts alone can also be waited for in a ring: one trainer waits in a barrier, and another one waits for a save of the first. No rule
 * helps there, since the scripts make different calls. Such a ring fails the job, with the call of each trainer in it. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* Put off the questions of all trainers that are awaited. Fail if trainers wait for each other's posts in a ring. */
void tr__waits_resolve(tr_server *server);
