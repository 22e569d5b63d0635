/* plan_separate.h - outputs that would overwrite an input too early go through a temporary. */
#pragma once

#include "framework/plans/plan.h"

tr_status tr__plan_separate(tr_plan *plan);
