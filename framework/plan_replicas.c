/* plan_replicas.c - plans that run at the same time: the replicas of a program, each with a slice of a batch.
 *
 * Each plan is one slice of the thread pool, so its kernels run on one thread, and as many plans run at a time as there are
 * threads. What they compute does not depend on that: a kernel's slices depend on shapes alone. */
#include <stdlib.h>
#include <string.h>

#include "framework/plan.h"
#include "framework/status.h"
#include "framework/threadpool.h"

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
    if (one->status != TR_OK)
        one->failure = strdup(tr_error());
}

static tr_status check_workspaces(int count, tr_plan *const *plans)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (plans[i]->workspace == plans[j]->workspace)
                return tr_fail(TR_EINVAL, "tr_plans_run: plans %d and %d are of one executor, whose plans share memory; prepare each by "
                               "an executor of its own", j, i);
    return TR_OK;
}

/* The first failure in the order of the plans, whichever came first. */
static tr_status first_failure(int count, const replica *all)
{
    for (int i = 0; i < count; i++)
        if (all[i].status != TR_OK) {
            const tr_status status = tr_fail(all[i].status, "%s", all[i].failure ? all[i].failure : "no memory for the message");
            return count > 1 ? tr_context(status, "in replica %d of %d", i, count) : status;
        }
    return TR_OK;
}

tr_status tr_plans_run(int count, tr_plan *const *plans, const tr_feed *const *feeds, tr_tensor *const *const *fetches)
{
    replica all[MAX_REPLICAS];

    if (count < 0 || count > MAX_REPLICAS)
        return tr_fail(TR_EINVAL, "tr_plans_run: %d plans; 0 to %d are possible", count, MAX_REPLICAS);
    TR_TRY(check_workspaces(count, plans));
    for (int i = 0; i < count; i++)
        all[i] = (replica){.plan = plans[i], .feeds = feeds[i], .fetches = fetches[i]};
    tr_parallel(count, run_replica, all);
    const tr_status status = first_failure(count, all);
    for (int i = 0; i < count; i++)
        free(all[i].failure);
    return status;
}
