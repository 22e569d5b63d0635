/* plan_fuse.h - chains of steps become one step. */
#pragma once

#include "framework/plans/plan.h"

/* Of a root plan whose steps are all made. */
tr_status tr__plan_fuse(tr_plan *plan);
