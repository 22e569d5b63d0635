/* rank_saving.h - a server writes its part of a checkpoint when its core asks for it.
 *
 * The main thread, which applies updates, makes a copy. Another thread writes the copy, so neither messages nor training wait for the disk.
 *
 * What must stay true: the driver calls tr__saving_begin, the owner calls the rest. */
#pragma once

#include "pserver/rank/rank.h"

typedef struct tr__saving tr__saving;

tr__saving *tr__saving_new(tr__rank *rank);
void        tr__saving_free(tr__saving *saving);
/* Wait for the thread. If the job has failed, the thread ends by itself. */
void        tr__saving_end(tr__saving *saving);
/* The job keeps checkpoints: reserve memory for the copy, and leave the signals that ask for an end to the trainers. */
void        tr__saving_expect(tr__saving *saving);
void        tr__saving_begin(tr__saving *saving, const Trireme__Pserver__SnapshotTarget *target);
/* Called in the main thread's loop: make the copy if one is wanted. */
tr_status   tr__saving_serve(tr__saving *saving);
/* Does tr__saving_serve have work at this moment? */
bool        tr__saving_is_due(const tr__saving *saving);
