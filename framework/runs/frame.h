/* frame.h - the storage of one activation of a plan, and how control flow runs a sub-block. */
#pragma once

#include "framework/plans/plan_layout.h"

struct tr_frame {
    tr_plan     *plan;
    tr_frame    *parent;              /* where OUTER variables are */
    tr_frame    *caller;              /* where the CALLER'S are */
    tr_var      *local;               /* one per variable; only LOCAL and FED ones are used */
    tr_var     **var;                 /* one per variable: where it really is */
    tr_tensor  **arg;                 /* one per argument of every step */
    tr_tensor  **first;               /* one per slot of every step */
    tr_args     *args;                /* likewise */
    tr_run      *run;                 /* one per step */
    tr_layout   *layout;              /* of the root frame: the one in force */
    void        *arena;               /* that it points into */
    tr_tensor   *spare;               /* of the root frame: SPARES per fetch, see frame.c */
    tr_frame    *next;
};

tr_status tr__frame_new(tr_frame **out, tr_plan *plan, tr_frame *parent, tr_frame *caller);
void      tr__frame_free(tr_frame *frame);
/* The frame of a root plan, and those that are kept to be used again. */
void      tr__plan_free_frames(tr_plan *plan);
/* Look the scope's (or the parent frame's) variables up again. */
tr_status tr__frame_bind(tr_frame *frame);
/* Of a root frame: point temporaries into the arena, give the others memory of their own. */
tr_status tr__frame_set_layout(tr_frame *frame, tr_layout *layout, void *arena);
/* Before each run: drop the LoD that the last run has left in temporaries, so that the owners of the LoD can write into it again. */
void      tr__frame_drop_lods(tr_frame *frame);
/* Before each run of a root frame: memory for what is fetched and for what the scope keeps. */
tr_status tr__frame_prepare_outputs(tr_frame *frame);
tr_status tr__frame_run(tr_frame *frame);

/* For operators with a sub-block. A frame of the step's sub-plan, under the frame that the step runs in, or
 * under another one (a gradient block runs under the frame of its forward block). Closing keeps the memory for
 * the next one that is opened. */
tr_status tr_frame_open(tr_frame **out, const tr_run *io, tr_frame *parent);
void      tr_frame_close(tr_frame *frame);
tr_status tr_frame_run(tr_frame *frame);
/* A variable's number in the plan's frames, at the block's begin or end; -1: no operator of the block names it. */
int       tr_plan_var_at_begin(const tr_plan *plan, const char *name);
int       tr_plan_var_at_end(const tr_plan *plan, const char *name);
