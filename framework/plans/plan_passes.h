/* plan_passes.h - what is done with the steps of a plan when all are made, in this order. */
#pragma once

#include "framework/plans/plan.h"

/* plan_fuse.c: chains of steps of a root plan become one step. */
tr_status tr__plan_fuse(tr_plan *plan);
/* plan_update.c: optimizers of a root plan run with the operators that make their gradients. */
tr_status tr__plan_fuse_updates(tr_plan *plan);
/* plan_separate.c: outputs that would overwrite an input too early go through a temporary. */
tr_status tr__plan_separate(tr_plan *plan);
