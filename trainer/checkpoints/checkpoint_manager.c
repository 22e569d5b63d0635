/* checkpoint_manager.c - see checkpoint_manager.h. */
#include "trainer/checkpoints/checkpoint_manager.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/scope.h"
#include "trainer/checkpoints/checkpoint_manager_state.h"
#include "trainer/checkpoints/stop_signal.h"

/* == life ======================================================================================== */

static char *copy(const char *text)
{
    return text ? tr__must_strdup(text) : NULL;
}

tr_checkpoint_manager *tr_checkpoint_manager_new(const tr_checkpoint_options *options, tr_job *job)
{
    tr_checkpoint_manager *m = tr__must_alloc(sizeof *m);

    m->options = *options;
    m->options.folder = copy(options->folder);
    m->options.command = copy(options->command);
    m->job = job;
    m->set_after = -1;
    return m;
}

void tr_checkpoint_manager_free(tr_checkpoint_manager *manager)
{
    if (!manager)
        return;
    tr_checkpoint_policy_free(manager->checkpoints);
    tr_map_deinit(&manager->variable);
    tr_checkpoint_free(manager->from);
    free(manager->refused);
    free(manager->facts);
    free(manager->origin_text);
    free(manager->folder_text);
    free((char *)(uintptr_t)manager->options.folder);
    free((char *)(uintptr_t)manager->options.command);
    free(manager);
}

/* == steps ======================================================================================= */

int64_t tr_checkpoint_manager_steps(const tr_checkpoint_manager *manager)
{
    return manager->first + manager->made;
}

int64_t tr_checkpoint_manager_runs(const tr_checkpoint_manager *manager)
{
    return manager->first_run + manager->made;
}

int64_t tr_checkpoint_manager_steps_on_servers(const tr_checkpoint_manager *manager)
{
    return manager->steps_on_servers;
}

void tr_checkpoint_manager_count_idle(tr_checkpoint_manager *manager, int64_t steps)
{
    manager->made += steps;
}

/* The job counts steps; but where trainers train copies it counts exchanges. */
static void count_by_job(tr_checkpoint_manager *m)
{
    if (m->job && !m->policy.trains_copies)
        m->made = tr_job_step(m->job) - m->steps_on_servers;
}

void tr_checkpoint_manager_retract(tr_checkpoint_manager *manager, bool has_begun)
{
    manager->made -= has_begun;
    count_by_job(manager);
}

/* == when ======================================================================================== */

/* Does this process make the checkpoints now? */
static bool makes_them(tr_checkpoint_manager *m)
{
    const bool makes = !m->job || tr_job_makes_checkpoints(m->job);

    if (tr_checkpoint_policy_becomes_initiator(m->checkpoints, makes)) {
        tr__checkpoints_claim(m, TR_ENTRY_JOIN);
        tr_checkpoint_policy_take_over(m->checkpoints, tr_checkpoint_manager_steps(m), tr__checkpoints_newest(m),
                                       tr_checkpoint_age(m->options.folder), tr__clock());
    }
    return makes;
}

/* Are there steps that the servers do not know yet? */
static bool is_between_exchanges(const tr_checkpoint_manager *m)
{
    const tr_var *count = m->contents.exchange_count ? tr_scope_find(m->contents.scope, m->contents.exchange_count) : NULL;
    return count && count->tensor.data && *(const int64_t *)count->tensor.data != 0;
}

/* The servers get values that the script has set with the next step, so a checkpoint waits for this step. A script that sets some before
 * each step makes no checkpoint wait: it sets them again when it goes on. */
static bool has_set_just_now(tr_checkpoint_manager *m)
{
    const bool    is_set = m->job && tr_job_is_set(m->job, NULL);
    const int64_t now = tr_checkpoint_manager_steps(m), before = m->set_after;

    m->set_after = !is_set ? -1 : before >= 0 ? before : now;
    return is_set && m->set_after == now;
}

static tr_checkpoint_view view_of(const tr_checkpoint_manager *m)
{
    return (tr_checkpoint_view){
        .steps = tr_checkpoint_manager_steps(m), .now = tr__clock(), .is_asked = tr_stop_signal_came(),
        .is_under_way = m->job && tr_job_checkpoint_is_under_way(m->job),
        .is_possible = !is_between_exchanges(m) && !(m->job && tr_job_is_uneven(m->job))};
}

static tr_status act(tr_checkpoint_manager *m, tr_checkpoint_action action)
{
    return action == TR_CHECKPOINT_REPORT ? tr__checkpoints_wait(m) : action == TR_CHECKPOINT_BEGIN ? tr__checkpoints_take(m) : TR_OK;
}

static tr_status finish(tr_checkpoint_manager *m, bool has_more)
{
    tr_checkpoint_action action;

    while ((action = tr_checkpoint_policy_finish(m->checkpoints, tr_checkpoint_manager_steps(m), has_more)) != TR_CHECKPOINT_GO_ON)
        TR_TRY(act(m, action));
    return TR_OK;
}

tr_status tr_checkpoint_manager_begin_loop(tr_checkpoint_manager *manager, int64_t runs)
{
    count_by_job(manager);
    manager->loop_began = manager->made;
    if (!manager->job)
        manager->first_run = runs - manager->made;
    return manager->job && manager->checkpoints ? tr_job_set_place(manager->job, NULL) : TR_OK;
}

void tr_checkpoint_manager_count(tr_checkpoint_manager *manager, int64_t made)
{
    manager->made = manager->loop_began + made;
}

tr_status tr_checkpoint_manager_look(bool *stops, tr_checkpoint_manager *manager)
{
    tr_checkpoint_action action;

    *stops = false;
    if (!manager->checkpoints)
        return TR_OK;
    tr_stop_signal_came();                             /* the launcher learns of a signal from the trainers that make no checkpoints, too */
    if (!makes_them(manager))
        return TR_OK;
    const bool is_set = has_set_just_now(manager);
    do {
        tr_checkpoint_view view = view_of(manager);
        view.is_possible &= !is_set;
        action = tr_checkpoint_policy_look(manager->checkpoints, &view);
        TR_TRY(act(manager, action));
    } while (action == TR_CHECKPOINT_REPORT);
    *stops = action == TR_CHECKPOINT_STOP;
    return *stops ? finish(manager, false) : TR_OK;
}

int64_t tr_checkpoint_manager_steps_to_look(tr_checkpoint_manager *manager)
{
    if (!manager->checkpoints || !makes_them(manager))
        return 0;
    const tr_checkpoint_view view = view_of(manager);
    return tr_checkpoint_policy_steps_to_look(manager->checkpoints, &view);
}

tr_status tr_checkpoint_manager_begin_step(bool *stops, tr_checkpoint_manager *manager)
{
    tr_trainer_state place;

    TR_TRY(tr_checkpoint_manager_look(stops, manager));
    if (*stops)
        return TR_OK;
    if (manager->checkpoints && manager->policy.gathers_per_trainer) {         /* trainers may be at different steps */
        TR_TRY(tr__checkpoints_place(&place, manager, 1));
        TR_TRY(tr_job_set_place(manager->job, &place));
    }
    manager->made++;
    return TR_OK;
}

char *tr_checkpoint_manager_stop_text(const tr_checkpoint_manager *manager)
{
    char name[32];

    return tr_checkpoint_policy_stop_text(manager->checkpoints, manager->options.folder, tr_stop_signal_name(name, sizeof name),
                                          tr_checkpoint_manager_steps(manager));
}

/* == the end ===================================================================================== */

/* The last checkpoint is a part of the training's result, so a failure of it is a failure of the training. */
static tr_status make_last(tr_checkpoint_manager *m, bool has_more)
{
    TR_TRY(finish(m, has_more));
    return tr_checkpoint_policy_status(m->checkpoints) == TR_OK ? TR_OK
                                                                : tr_fail(TR_EIO, "the last checkpoint was not written: %s", m->why);
}

tr_status tr_checkpoint_manager_end(tr_checkpoint_manager *manager, double seconds)
{
    tr_job_last last;

    if (!manager->checkpoints)
        return TR_OK;
    if (!manager->job)
        return make_last(manager, false);
    if (!manager->is_staying) {
        count_by_job(manager);
        if (tr_checkpoint_policy_is_pending(manager->checkpoints))
            TR_TRY(tr__checkpoints_wait(manager));
        tr_checkpoint_policy_becomes_initiator(manager->checkpoints, false);   /* meanwhile another trainer may have begun to make the
                                                                                * checkpoints */
        manager->is_staying = true;
    }
    tr_stop_signal_came();                             /* a trainer that still makes steps acts on the signal */
    TR_TRY(tr_job_stay(manager->job, seconds, &last));
    return last.is_mine && makes_them(manager) ? make_last(manager, last.has_more) : TR_OK;
}
