/* keeper.h - checkpoints of a saved job: what it goes on from, when one is due, what is in it. As a script's, see docs/checkpoints.md.
 *
 * What must stay true: one keeper in a process; it is asked between two steps of the loop. */
#ifndef TR_TRAINER_KEEPER_H
#define TR_TRAINER_KEEPER_H

#include "framework/scope.h"
#include "trainer/trireme_trainer.h"

typedef struct tr_keeper {
    const tr_saved_job_desc *desc;
    const tr_saved_partition      *partition;     /* NULL: one process */
    tr_job        *job;
    const tr_policy *policy;          /* of the job's mode; NULL: one process */
    tr_scope      *scope;
    tr_checkpoint *from;              /* what it goes on from, or NULL */
    bool           has_servers_state; /* the job was started again, or this trainer is a replacement, and servers have what was done: nothing
                                         but statistics is taken */
    int64_t        first;             /* steps of this trainer before this launch of the job */
    int64_t        before;            /* and in earlier starts of it */
    int64_t        made, last;        /* steps of this process; all steps at the newest checkpoint */
    int64_t        ahead;             /* a checkpoint is called by so many steps more: of others it may have more */
    int64_t        known;             /* the newest in the folder before this launch; -1: none, or that is not known */
    bool           makes;             /* checkpoints, when it was looked at last */
    bool           has_taken;         /* a checkpoint in this process, of which it was not said yet what became of it */
    bool           is_good;           /* the last one that it has taken, as far as is known */
    tr_status      status;            /* of the last one that could not be written, and why not; TR_OK: what came after it was */
    char           why[1024];
    int64_t        took_at;           /* when that was begun, or another trainer's was there */
    bool           is_wanted;         /* a death has cost it, and it is to be begun anew */
    bool           has_told;          /* the launcher that a signal asked for the end */
} tr_keeper;

/* Find where this trainer goes on: at the newest checkpoint, or, when the job was started again and its servers have their state, or
 * another process was this trainer before, as many steps as they have behind where the launch began. And listen to signals. Nothing is done where the job keeps none. */
tr_status tr_keeper_init(tr_keeper *keeper, const tr_saved_job_desc *desc, const tr_saved_partition *partition, const tr_policy *policy, tr_job *job,
                         tr_scope *scope);
void      tr_keeper_deinit(tr_keeper *keeper);
/* Give the scope's variables the values of the checkpoint: behind the startup program. */
tr_status tr_keeper_load(const tr_keeper *keeper);
/* What the servers are told of checkpoints; `values` are the spec's, to be completed. */
void      tr_keeper_fill(const tr_keeper *keeper, tr_job_spec *spec, tr_job_value *values);
/* The servers have so many steps of this trainer from earlier starts of the job. */
void      tr_keeper_joined(tr_keeper *keeper, int64_t before);
/* Steps until the next look for the sake of their number; 0: that does not matter. */
int64_t   tr_keeper_steps_to_pause(tr_keeper *keeper);
/* So many steps were made here. *stops: a signal asked for the end, and the checkpoint is written. */
tr_status tr_keeper_look(bool *stops, tr_keeper *keeper, int64_t made);
/* The training is over: where it is this trainer's to make the last checkpoint, one more. Waits until all have made their steps.
 * Fails where that checkpoint could not be written. */
tr_status tr_keeper_end(tr_keeper *keeper);

#endif
