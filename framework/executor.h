/* executor.h - what an executor keeps: plans, the arena they take turns in, scratch memory, run counters. */
#ifndef TR_FRAMEWORK_EXECUTOR_H
#define TR_FRAMEWORK_EXECUTOR_H

#include "framework/plan.h"

/* How often a program was run in a scope: random operators differ from run to run. */
typedef struct tr_run_count {
    uint64_t             program_id, scope_id, runs;
    struct tr_run_count *next;
} tr_run_count;

struct tr_executor {
    tr_plan      *plans;
    tr_run_count *counts;
    bool          check_finite;
    tr_tensor     arena;              /* grows to the largest layout; plans run one at a time */
    tr_tensor     scratch;
};

/* At least `bytes`, aligned; kept between calls. */
tr_status tr__executor_grow(tr_tensor *memory, size_t bytes);

#endif
