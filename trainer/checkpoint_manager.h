/* checkpoint_manager.h - checkpoints of a saved job: where it goes on from, and what a checkpoint of it holds. checkpoint_policy.h decides when one is
 * due. Scripts behave alike: docs/checkpoints.md.
 *
 * What must stay true: a process has one manager. The loop asks it between two steps. */
#ifndef TR_TRAINER_CHECKPOINT_MANAGER_H
#define TR_TRAINER_CHECKPOINT_MANAGER_H

#include "framework/tensors/scope.h"
#include "trainer/trireme_trainer.h"

typedef struct tr_checkpoint_manager {
    const tr_saved_job_desc  *desc;
    const tr_saved_partition *partition;      /* NULL: one process */
    tr_job                   *job;
    const tr_policy          *policy;         /* of the job's mode; NULL: one process */
    tr_scope                 *scope;
    tr_checkpoint            *from;           /* the checkpoint to read values from, or NULL */
    tr_checkpoint_origin      origin;
    tr_checkpoint_policy     *checkpoints;    /* when one is due; NULL: the job keeps none */
    int64_t                   first;          /* steps of this trainer before this launch of the job */
    int64_t                   steps_on_servers; /* further steps, which an earlier start of the launch left with the servers */
    int64_t                   made;           /* steps of this process */
    char                      why[1024];      /* why the last checkpoint was not written */
    tr_job_fact              *facts;          /* made by tr_checkpoint_manager_fill, with the two texts */
    char                     *origin_text, *folder_text;
    bool                      has_told;       /* the launcher knows that a signal asked for the end */
} tr_checkpoint_manager;

/* Find where this trainer goes on, and listen to signals. Where the servers hold the state (tr_checkpoint_origin), the trainer goes on
 * from the place where the launch began, plus the steps that the servers have had since. Otherwise it goes on from the newest
 * checkpoint, or from the beginning. Does nothing for a job without checkpoints. */
tr_status tr_checkpoint_manager_init(tr_checkpoint_manager *manager, const tr_saved_job_desc *desc, const tr_saved_partition *partition, const tr_policy *policy, tr_job *job,
                         tr_scope *scope);
void      tr_checkpoint_manager_deinit(tr_checkpoint_manager *manager);
/* After the startup program: give the scope's variables the values of the checkpoint. */
tr_status tr_checkpoint_manager_load(const tr_checkpoint_manager *manager);
/* Fill in the parts of the setup's spec that concern checkpoints. `values` are the spec's values, to be changed. The spec points into the
 * manager then. To be called once. */
void      tr_checkpoint_manager_fill(tr_checkpoint_manager *manager, tr_job_spec *spec, tr_job_value *values);
/* Steps until the next look, where checkpoints depend on the number of steps; 0: they do not. */
int64_t   tr_checkpoint_manager_steps_to_pause(tr_checkpoint_manager *manager);
/* The loop has made so many steps in this process: do the work that is due. *stops: a signal asked for the end, and the checkpoint is
 * written. */
tr_status tr_checkpoint_manager_look(bool *stops, tr_checkpoint_manager *manager, int64_t made);
/* The training is over. Wait until all trainers have made their steps, and make the last checkpoint if that is this trainer's task.
 * Fails if that checkpoint could not be written. */
tr_status tr_checkpoint_manager_end(tr_checkpoint_manager *manager);

#endif
