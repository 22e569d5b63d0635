/* checkpoint_policy.c - see checkpoint_policy.h. */
#include "trainer/checkpoints/checkpoint_policy.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

/* If a death prevents a checkpoint, the next attempt comes after so many nanoseconds. So a row of deaths does not make a row of
 * attempts. */
static const int64_t AGAIN = 1000000000;
/* Attempts at the last checkpoint. */
enum { ATTEMPTS = 2 };

struct tr_checkpoint_policy {
    tr_checkpoint_start start;
    int64_t   last;                   /* steps at the newest checkpoint, as far as is known */
    int64_t   ahead;                  /* add this to the steps to get the step in a checkpoint's name: other trainers may have made more
                                       * steps */
    int64_t   begun_at;               /* when the last checkpoint was begun, by this trainer or another */
    bool      is_initiator;
    bool      is_pending;             /* one was begun, and its outcome was not told yet */
    bool      is_good;                /* the last checkpoint was written */
    bool      has_one;                /* a checkpoint exists */
    bool      is_wanted;              /* a death prevented the last checkpoint: begin another */
    int       attempts;               /* attempts at the last checkpoint of the training so far */
    tr_status status;                 /* status of the last checkpoint. A failed peer says nothing about the disk, so it changes nothing
                                       * here */
};

/* == where a training goes on from ================================================================== */

tr_checkpoint_origin tr_checkpoint_origin_of(bool servers_have_state, bool resume, bool has_some)
{
    if (servers_have_state)
        return TR_ORIGIN_SERVERS;
    return resume && has_some ? TR_ORIGIN_CHECKPOINT : TR_ORIGIN_BEGINNING;
}

bool tr_checkpoint_origin_reads(tr_checkpoint_origin origin, int64_t steps, bool has_some)
{
    return origin == TR_ORIGIN_CHECKPOINT || (origin == TR_ORIGIN_SERVERS && steps > 0 && has_some);
}

bool tr_checkpoint_origin_takes(tr_checkpoint_origin origin, tr_state_kind kind, bool is_on_servers)
{
    if (origin == TR_ORIGIN_SERVERS)
        return kind == TR_STATE_STATISTIC && !is_on_servers;
    return origin == TR_ORIGIN_CHECKPOINT;
}

char *tr_checkpoint_origin_text(const tr_checkpoint *from)
{
    if (!from)
        return tr__must_strdup("the beginning");
    return tr__must_format("step %lld, snapshot %016llx", (long long)tr_checkpoint_step(from),
                           (unsigned long long)tr_checkpoint_number(from));
}

/* == life ============================================================================================ */

tr_checkpoint_policy *tr_checkpoint_policy_new(const tr_checkpoint_start *start, int64_t now)
{
    tr_checkpoint_policy *p = tr__must_alloc(sizeof *p);

    *p = (tr_checkpoint_policy){.start = *start, .last = start->first, .begun_at = now,
                                .is_initiator = start->is_first && !start->servers_have_state, .is_good = true,
                                .has_one = start->resumed >= 0};
    if (!start->every_steps && !(start->every_seconds > 0))
        p->start.every_seconds = TR_CHECKPOINT_SECONDS;
    if (start->servers_have_state)                 /* the newest may be of this launch */
        p->start.newest = -1;
    const int64_t steps = start->first + start->steps_on_servers;
    p->ahead = start->resumed > steps ? start->resumed - steps : 0;
    return p;
}

void tr_checkpoint_policy_free(tr_checkpoint_policy *policy)
{
    free(policy);
}

/* == the trainer that makes checkpoints ============================================================== */

bool tr_checkpoint_policy_becomes_initiator(tr_checkpoint_policy *policy, bool is_initiator)
{
    const bool becomes = is_initiator && !policy->is_initiator;

    policy->is_initiator = is_initiator;
    return becomes;
}

/* The time to the next checkpoint counts from the last one, whichever trainer wrote it. If that is older than the launch, the time
 * counts from the beginning of the launch. This process began with the launch, unless the servers have state of an earlier start. */
static void count_from_last(tr_checkpoint_policy *p, double age, int64_t now)
{
    const int64_t at = now - (int64_t)(age * 1e9);

    if (age >= 0 && (p->start.servers_have_state || at > p->begun_at))
        p->begun_at = at;
}

void tr_checkpoint_policy_take_over(tr_checkpoint_policy *policy, int64_t steps, int64_t newest, double age, int64_t now)
{
    if (newest != policy->start.newest) {
        if (newest - steps > policy->ahead)
            policy->ahead = newest - steps;
        if (newest - policy->ahead > policy->last)
            policy->last = newest - policy->ahead;
        policy->has_one |= newest >= 0;
    }
    count_from_last(policy, age, now);
}

/* == when one is due ================================================================================= */

static bool is_old(const tr_checkpoint_policy *p, int64_t now, double seconds)
{
    return (double)(now - p->begun_at) >= seconds * 1e9;
}

static bool is_due(const tr_checkpoint_policy *p, int64_t steps, int64_t now)
{
    const tr_checkpoint_start *s = &p->start;
    const int64_t              began = s->first + s->steps_on_servers, from = p->last > began ? p->last : began;

    if (steps <= p->last)
        return false;
    return (p->is_wanted && now - p->begun_at >= AGAIN) || (s->every_steps && steps / s->every_steps > from / s->every_steps) ||
           (s->every_seconds > 0 && is_old(p, now, s->every_seconds));
}

tr_checkpoint_action tr_checkpoint_policy_look(const tr_checkpoint_policy *policy, const tr_checkpoint_view *view)
{
    if (!policy->is_initiator || !view->is_possible)
        return TR_CHECKPOINT_GO_ON;
    if (view->is_asked)
        return TR_CHECKPOINT_STOP;
    if (view->is_under_way)
        return TR_CHECKPOINT_GO_ON;
    if (policy->is_pending)
        return TR_CHECKPOINT_REPORT;
    return is_due(policy, view->steps, view->now) ? TR_CHECKPOINT_BEGIN : TR_CHECKPOINT_GO_ON;
}

int64_t tr_checkpoint_policy_steps_to_look(const tr_checkpoint_policy *policy, const tr_checkpoint_view *view)
{
    const int64_t every = policy->start.every_steps;

    if (!policy->is_initiator)
        return 0;
    /* A checkpoint is due, but it is not possible now, or it waits for the one that is being written. */
    if (view->is_asked || (policy->is_pending && !view->is_under_way) || is_due(policy, view->steps, view->now))
        return 1;
    return every ? every - view->steps % every : 0;
}

/* == the last checkpoint ============================================================================= */

static bool lacks_something(const tr_checkpoint_policy *p, int64_t steps, bool has_more)
{
    return has_more || steps > p->last || !p->is_good || p->start.can_lag;
}

tr_checkpoint_action tr_checkpoint_policy_finish(tr_checkpoint_policy *policy, int64_t steps, bool has_more)
{
    if (policy->is_pending)
        return TR_CHECKPOINT_REPORT;
    const bool is_over = policy->attempts ? policy->is_good || policy->attempts == ATTEMPTS : !lacks_something(policy, steps, has_more);
    policy->attempts = is_over ? 0 : policy->attempts + 1;
    return is_over ? TR_CHECKPOINT_GO_ON : TR_CHECKPOINT_BEGIN;
}

/* == outcomes ======================================================================================== */

void tr_checkpoint_policy_begun(tr_checkpoint_policy *policy, int64_t steps, int64_t now)
{
    policy->last = steps;
    policy->has_one = true;
    policy->begun_at = now;
    policy->is_wanted = false;
    policy->is_pending = true;
}

bool tr_checkpoint_policy_ended(tr_checkpoint_policy *policy, tr_status status, bool is_given_up)
{
    const bool was_good = policy->status == TR_OK;

    policy->is_pending = false;
    policy->is_good = status == TR_OK;
    policy->is_wanted = is_given_up;
    if (status == TR_EPEER)
        return false;
    policy->status = status;
    return status != TR_OK && was_good;
}

bool tr_checkpoint_policy_is_pending(const tr_checkpoint_policy *policy)
{
    return policy->is_pending;
}

int64_t tr_checkpoint_policy_label(const tr_checkpoint_policy *policy, int64_t steps)
{
    return steps + policy->ahead;
}

bool tr_checkpoint_policy_has_saved(const tr_checkpoint_policy *policy, int64_t steps)
{
    return policy->has_one && policy->is_good && !policy->is_pending && policy->last == steps;
}

tr_status tr_checkpoint_policy_status(const tr_checkpoint_policy *policy)
{
    return policy->status;
}

char *tr_checkpoint_report_text(const tr_job_checkpoint_report *report)
{
    const char *asked = getenv("TRIREME_CHECKPOINT_REPORT");

    if (!asked || !*asked || !strcmp(asked, "0"))
        return NULL;
    return tr__must_format("checkpoint of step %lld: %lld bytes in %.3f s, trainers waited %.2f ms", (long long)report->step,
                           (long long)report->bytes, report->seconds, 1e3 * report->pause);
}

char *tr_checkpoint_policy_stop_text(const tr_checkpoint_policy *policy, const char *folder, const char *signal, int64_t steps)
{
    if (!tr_checkpoint_policy_has_saved(policy, steps))
        return tr__must_format("stopped by %s after step %lld; it is in no checkpoint", signal, (long long)steps);
    char *path = tr_checkpoint_path(folder, tr_checkpoint_policy_label(policy, steps));
    char *text = tr__must_format("stopped by %s after step %lld; the checkpoint is %s", signal, (long long)steps, path);
    free(path);
    return text;
}
