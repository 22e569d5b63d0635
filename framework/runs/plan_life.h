/* plan_life.h - whose plans are, how they begin and when they end.
 *
 * A plan looks at its executor's memory, at its program and at its scope's variables. So all plans of such three, and the number of
 * their runs, hang on one binding (bond.h), which goes with the first of the three. A plan goes before that when its program has changed
 * and another one is prepared, when tr_executor_forget says so, or with the last of those that retained it. What was retained stays as an empty
 * struct that says it is gone. */
#pragma once

#include "framework/base/bond.h"
#include "framework/plans/plan.h"

/* An executor's plans of one program in one scope. */
typedef struct tr_binding {
    tr_bond  bond;                    /* first: it is what lists hold */
    uint64_t runs;                    /* random operators differ from run to run */
    tr_plan *plans;
} tr_binding;

struct tr_executor {
    tr_bond     *bonds;
    tr_workspace workspace;
};

/* The job in which its runs take part from now on, or NULL. */
void tr__executor_set_job(tr_executor *executor, tr_weak *job);
/* End the plans of a program, or all of them (NULL). */
void tr__plans_forget(tr_executor *executor, const tr_program *program);
