/* job_own_part.h - each trainer's own part of a checkpoint: variables of which every trainer has values of its own, such as what an
 * optimizer accumulates before it sends it.
 *
 * A trainer knows of each snapshot which step of its own is the last one in it (tr_client_sees_snapshot). In mode sync the servers say to
 * each trainer which one. Where all trainers take part, it is the step after which this trainer does. Each trainer takes the copy that
 * keep_variables has made after that step, and a thread writes it into FOLDER/.own-TRAINER beside a manifest with the snapshot's number.
 * The initiator waits for all of them and moves them into the checkpoint. A trainer that died without a replacement has zeros there: what
 * it had accumulated is lost.
 *
 * What must stay true: a copy is taken before the operator overwrites it, in the step after the next. The driver calls tr__own_part_poll,
 * the thread that writes the checkpoint tr__own_parts_collect, the owner the rest. */
#pragma once

#include "framework/tensors/scope.h"
#include "pserver/api/job_parts.h"
#include "pserver/rank/rank.h"
#include "storage/memory/trainer_vars.h"

typedef struct tr__own_part tr__own_part;

tr__own_part *tr__own_part_new(tr_job *job);
/* When no driver polls any more. Waits for the thread, and removes what is left in the folder. */
void      tr__own_part_free(tr__own_part *part);
/* Before the first step. TR_EUNSUPPORTED: in the job's mode nobody could say which trainers' values belong to a checkpoint. */
tr_status tr__own_part_set_up(tr__own_part *part, const tr_job_spec *spec);
/* A start that goes on after earlier steps, of whose values this host has no copy: it goes on with those in the scope. */
void      tr__own_part_begin(tr__own_part *part, const tr_scope *scope);
/* Is a copy of this trainer's variables wanted after each step, whether or not they outlive the process? */
bool      tr__own_part_wants_copies(const tr__own_part *part);
/* The copies are here from now on; NULL: nowhere. */
void      tr__own_part_show(tr__own_part *part, tr_trainer_vars *kept);
void      tr__own_part_poll(tr__own_part *part, const tr_client *client);

/* Has each trainer a value of its own of this variable, which is in its own part and in no other? */
bool      tr__own_part_has(const tr__own_part *part, const char *name);
/* May a checkpoint be made that needs these parts? TR_EUNSUPPORTED: the trainers have no folder to leave them in. */
tr_status tr__own_parts_check(const tr__own_part *part);
/* Wait for the parts of all trainers in this trainer's newest snapshot, add them to `parts` and move them to `folder`. *is_lost: a trainer
 * died meanwhile, or has taken a dead one's place and does not have its part. */
tr_status tr__own_parts_collect(tr__parts *parts, bool *is_lost, tr__own_part *part, const char *folder, const tr_places *places);
