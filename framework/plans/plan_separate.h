/* plan_separate.h - outputs that would overwrite an input too early go through a temporary. */
#ifndef TR_FRAMEWORK_PLAN_SEPARATE_H
#define TR_FRAMEWORK_PLAN_SEPARATE_H

#include "framework/plans/plan.h"

tr_status tr__plan_separate(tr_plan *plan);

#endif
