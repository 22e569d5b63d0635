/* plan_build.h - from a block's operators to the steps of a plan. */
#pragma once

#include "framework/plans/plan.h"

/* Everything down to `scope` is set, and of a root plan the names of feeds and fetches. On failure the plan is to be
 * freed like a finished one. */
tr_status tr__plan_build(tr_plan *plan);
