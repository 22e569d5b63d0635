/* plan_update.h - optimizers run with the operators that make their gradients. */
#pragma once

#include "framework/plans/plan.h"

/* Of a root plan whose chains are fused. */
tr_status tr__plan_fuse_updates(tr_plan *plan);
