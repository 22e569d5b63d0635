/* plan_replicas.c - plans that run at the same time: the replicas of a program, each with a slice of a batch.
 *
 * Each plan is one slice of the thread pool, so its kernels run on one thread, and as many plans run at a time as there are
 * threads. What they compute does not depend on that: a kernel's slices depend on shapes alone. Plans with operators in which
 * replicas wait for each other (reduction.h) have a thread each. */
#include <stdlib.h>
#include <string.h>

#include "framework/base/status.h"
#include "framework/plans/plan.h"
#include "framework/runs/reduction.h"
#include "framework/threads/gang.h"
#include "framework/threads/threadpool.h"

enum { MAX_REPLICAS = 256 };

/* Failures leave their text in the thread that ran the plan: it is carried over. */
typedef struct replica {
    tr_plan          *plan;
    const tr_feed    *feeds;
    tr_tensor *const *fetches;
    tr_status         status;
    char             *failure;        /* malloc'ed */
} replica;

static void run_replica(void *payload, int64_t slice)
{
    replica *one = (replica *)payload + slice;

    one->status = tr_plan_run(one->plan, one->feeds, one->fetches);
    if (one->plan->reduction)
        tr__reduction_leave(one->plan->reduction, (int)slice);
    if (one->status != TR_OK)
        one->failure = strdup(tr_error());
}

static tr_status check_workspaces(int count, tr_plan *const *plans)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (plans[i]->workspace && plans[i]->workspace == plans[j]->workspace)
                return tr_fail(TR_EINVAL, "tr_plans_run: plans %d and %d are of one executor, whose plans share memory; prepare each by "
                               "an executor of its own", j, i);
    return TR_OK;
}

static tr_status fail_as(const replica *one, int number, int count)
{
    const tr_status status = tr_fail(one->status, "%s", one->failure ? one->failure : "no memory for the message");
    return count > 1 ? tr_context(status, "in replica %d of %d", number, count) : status;
}

/* The first failure in the order of the plans, whichever came first. Where plans meet, the first one that left is the cause: the
 * others may have failed because they waited for it. */
static tr_status first_failure(int count, const replica *all, const tr_reduction *reduction)
{
    const int left = reduction ? tr__reduction_first_left(reduction) : -1;

    if (left >= 0 && all[left].status != TR_OK)
        return fail_as(&all[left], left, count);
    for (int i = 0; i < count; i++)
        if (all[i].status != TR_OK)
            return fail_as(&all[i], i, count);
    return TR_OK;
}

/* The plans' reduction: NULL if they have none. */
static tr_status begin_reduction(tr_reduction **out, int count, tr_plan *const *plans)
{
    *out = NULL;
    if (count < 2 || !plans[0]->reduces)
        return TR_OK;
    if (!plans[0]->own_reduction && !(plans[0]->own_reduction = tr__reduction_new()))
        return tr_fail(TR_ENOMEM, "no memory for the reduction of %d replicas", count);
    TR_TRY(tr__reduction_begin(plans[0]->own_reduction, count));
    *out = plans[0]->own_reduction;
    return TR_OK;
}

static tr_status run_all(int count, replica *all, tr_reduction *reduction)
{
    if (!reduction) {
        tr_parallel(count, run_replica, all);
        return TR_OK;
    }
    for (int i = 0; i < count; i++) {
        all[i].plan->reduction = reduction;
        all[i].plan->replica = i;
    }
    const bool have_run = tr_parallel_gang(count, run_replica, all);
    for (int i = 0; i < count; i++)
        all[i].plan->reduction = NULL;
    return have_run ? TR_OK : tr_fail(TR_ENOMEM, "%d replicas that wait for each other need a thread each, and the system has no more; take "
                                      "fewer places", count);
}

tr_status tr_plans_run(int count, tr_plan *const *plans, const tr_feed *const *feeds, tr_tensor *const *const *fetches)
{
    replica     all[MAX_REPLICAS];
    tr_reduction *reduction;

    if (count < 0 || count > MAX_REPLICAS)
        return tr_fail(TR_EINVAL, "tr_plans_run: %d plans; 0 to %d are possible", count, MAX_REPLICAS);
    TR_TRY(check_workspaces(count, plans));
    for (int i = 0; i < count; i++)
        all[i] = (replica){.plan = plans[i], .feeds = feeds[i], .fetches = fetches[i]};
    TR_TRY(begin_reduction(&reduction, count, plans));
    TR_TRY(run_all(count, all, reduction));
    const tr_status status = first_failure(count, all, reduction);
    for (int i = 0; i < count; i++)
        free(all[i].failure);
    return status;
}
