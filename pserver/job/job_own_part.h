/* job_own_part.h - each trainer's own part of a checkpoint: variables of which every trainer has values of its own, such as what an
 * optimizer accumulates before it sends it.
 *
 * In mode sync the initiator alone takes part in a snapshot. The other trainers hear of it, and of its step, from the servers (see
 * tr_client_sees_snapshot). Each takes the copy that keep_variables has made behind that step, and a thread writes it into
 * FOLDER/.own-TRAINER beside a manifest with the snapshot's number. The initiator waits for all of them and moves them into the checkpoint.
 *
 * What must stay true: a copy is taken before the operator overwrites it, in the step after the next. The driver calls tr__own_part_poll, the
 * thread that writes the checkpoint tr__own_parts_collect, the owner the rest. */
#ifndef TR_PSERVER_JOB_OWN_PART_H
#define TR_PSERVER_JOB_OWN_PART_H

#include "pserver/job/job_shared.h"
#include "pserver/memory/trainer_vars.h"
#include "pserver/job/job_parts.h"

typedef struct tr__own_part tr__own_part;

tr__own_part *tr__own_part_new(tr_job *job);
/* When no driver polls any more. Waits for the thread, and removes what is left in the folder. */
void      tr__own_part_free(tr__own_part *part);
/* Before the first step. TR_EUNSUPPORTED: the job's mode has no moment at which all these values could be taken. */
tr_status tr__own_part_set_up(tr__own_part *part, const tr_job_spec *spec);
/* Is a copy of this trainer's variables wanted behind each step, whether or not they outlive the process? */
bool      tr__own_part_wants_copies(const tr__own_part *part);
/* The copies are here from now on; NULL: nowhere. */
void      tr__own_part_show(tr__own_part *part, tr_trainer_vars *kept);
void      tr__own_part_poll(tr__own_part *part, const tr_client *client);

/* Has each trainer a value of its own of this variable, which is in its own part and in no other? */
bool      tr__own_part_has(const tr__own_part *part, const char *name);
/* May a checkpoint be made that needs these parts? TR_EUNSUPPORTED: the trainers have no folder to leave them in. */
tr_status tr__own_parts_check(const tr__own_part *part);
/* Wait for the parts of all trainers, add them to `parts` and move them to `folder`. *is_lost: a trainer that has taken a dead one's place does not
 * have its part. */
tr_status tr__own_parts_collect(tr__parts *parts, bool *is_lost, tr__own_part *part, const char *folder, uint32_t number);

#endif
