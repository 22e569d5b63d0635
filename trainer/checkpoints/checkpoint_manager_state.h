/* checkpoint_manager_state.h - the fields of a checkpoint manager, for its own files:
 *
 *     checkpoint_manager_origin.c   where the training goes on, and the values that it takes from there
 *     checkpoint_manager_take.c     writing one
 *     checkpoint_manager.c          steps, and when one is written
 *     checkpoint_setup.c            what the setup of a job says of all that */
#pragma once

#include "trainer/checkpoints/checkpoint_manager.h"
#include "framework/base/map.h"
#include "pserver/util/wake.h"

struct tr_checkpoint_manager {
    tr_checkpoint_options   options;          /* with texts of its own */
    tr_job                 *job;              /* NULL: one process */
    tr_checkpoint_contents  contents;         /* empty until the training begins */
    tr_map                  variable;         /* those of `contents`, by their names */
    tr_policy               policy;           /* of the job's mode */
    tr_checkpoint_policy   *checkpoints;      /* when one is due; NULL: none are kept, or the training has not begun */

    /* -- where it began -- */
    bool                    is_asked, is_found;       /* the servers have said what they hold; the beginning is known */
    bool                    servers_have_state;
    int64_t                 resumed;          /* the servers' steps of an earlier start of this launch */
    tr_checkpoint_beginning beginning;
    tr_checkpoint          *from;             /* the checkpoint to read values from, or NULL */
    char                   *refused;
    int64_t                 first, first_run; /* steps and runs before this process, those that an earlier start left with the servers
                                               * included */
    int64_t                 steps_on_servers; /* only these */
    tr_job_fact            *facts;            /* made by tr_checkpoint_setup_fill, with the two texts */
    char                   *origin_text, *folder_text;

    /* -- steps -- */
    int64_t                 made, loop_began; /* steps of this process: now, and when the last loop began */
    int64_t                 set_after;        /* the script has set values after this step, and before each step since then; -1: the servers
                                               * lack none */
    bool                    is_staying;       /* this trainer makes no step any more */
    tr_checkpoint_base      base;             /* the last checkpoint that was written; number 0: there is none, or the next one is full */
    int64_t                 since_full;       /* checkpoints of changes since the last full one */
    char                    why[1024];        /* why the last checkpoint was not written */
    const char             *digest;           /* NULL: it was not asked for yet */
};

static inline bool tr__keeps_checkpoints(const tr_checkpoint_manager *m)
{
    return m->options.folder != NULL;
}

static inline bool tr__is_first_trainer(const tr_checkpoint_manager *m)
{
    return !m->job || tr_job_index(m->job) == 0;
}

static inline const tr_checkpoint_variable *tr__checkpoint_variable(const tr_checkpoint_manager *m, const char *name)
{
    return tr_map_find(&m->variable, name);
}

/* -- checkpoint_manager_origin.c -- */

/* The newest step in the folder; -1: there is none. */
int64_t   tr__checkpoints_newest(const tr_checkpoint_manager *m);
tr_status tr__checkpoints_claim(tr_checkpoint_manager *m, tr_checkpoint_entry entry);
void tr__checkpoints_say(const tr_checkpoint_manager *m, bool is_warning, const char *format, ...) __attribute__((format(printf, 3, 4)));
tr_status tr__checkpoints_digest(const char **out, tr_checkpoint_manager *m);

/* The number of updates of a sparse table in the checkpoint that the training goes on from. */
int64_t   tr__checkpoints_updates_of(const tr_checkpoint_manager *m, const char *table);

/* The folder as a path that begins with '/'; malloc'ed. */
char     *tr__checkpoints_absolute(const char *folder);

/* -- checkpoint_manager_take.c -- */

/* Write a checkpoint, or begin to. Training goes on without one that cannot be written. TR_EPEER: the job has failed. */
tr_status tr__checkpoints_take(tr_checkpoint_manager *m);
/* Wait for the one that was begun last. */
tr_status tr__checkpoints_wait(tr_checkpoint_manager *m);
/* This trainer's place in its data after `later` more steps. */
tr_status tr__checkpoints_place(tr_trainer_state *out, const tr_checkpoint_manager *m, int64_t later);
