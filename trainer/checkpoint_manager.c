/* checkpoint_manager.c - see checkpoint_manager.h. */
#include "trainer/checkpoint_manager.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "pserver/observe/launcher.h"
#include "trainer/feed_threads.h"

static volatile sig_atomic_t asked;   /* the signal that asks for an end */

static void note_signal(int number)
{
    asked = number;
}

/* A signal that was ignored when the program began stays ignored, as under nohup, and as in a script. */
static void listen_to(int number)
{
    struct sigaction action;

    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
        signal(number, note_signal);
}

static bool is_on(const tr_checkpoint_manager *k)
{
    return k->desc && k->desc->checkpoints.folder;
}

static int64_t steps_of(const tr_checkpoint_manager *k)
{
    return k->first + k->steps_on_servers + k->made;
}

static bool is_first_trainer(const tr_checkpoint_manager *k)
{
    return !k->job || tr_job_index(k->job) == 0;
}

/* == life ====================================================================================== */

static void say_where(const tr_checkpoint_manager *k, const char *refused)
{
    if (!is_first_trainer(k))
        return;
    if (refused)
        fprintf(stderr, "trireme warning: %s: the checkpoint before it is taken\n", refused);
    if (k->origin == TR_ORIGIN_CHECKPOINT)
        fprintf(stderr, "trireme: going on from step %lld, %s\n", (long long)tr_checkpoint_step(k->from),
                tr_checkpoint_folder(k->from));
}

static tr_status open_newest(tr_checkpoint_manager *k)
{
    char *refused = NULL;

    TR_TRY(tr_checkpoint_open_newest(&k->from, &refused, k->desc->checkpoints.folder));
    say_where(k, refused);
    tr_free(refused);
    return TR_OK;
}

static int64_t newest(const tr_checkpoint_manager *k)
{
    int64_t step = -1;

    tr_checkpoint_list(&step, 1, k->desc->checkpoints.folder);
    return step;
}

/* Find how many steps this trainer has made before, and the checkpoint to read values from. Where the servers hold the state, the
 * checkpoint serves only for statistics, so training goes on without it. */
static tr_status find_place(tr_checkpoint_manager *k)
{
    const int        index = k->job ? tr_job_index(k->job) : 0;
    const char      *folder = k->desc->checkpoints.folder;
    tr_trainer_state place = {0};

    if (k->origin == TR_ORIGIN_SERVERS) {
        tr_beginning_read(&place, folder, index);
        if (tr_checkpoint_origin_reads(k->origin, k->steps_on_servers + place.steps, newest(k) >= 0))
            open_newest(k);
    } else if (k->origin == TR_ORIGIN_CHECKPOINT) {
        TR_TRY(open_newest(k));
        tr_checkpoint_place(&place, k->from, index);
    }
    if (k->origin != TR_ORIGIN_SERVERS && k->job && is_first_trainer(k))
        tr_beginning_write(folder, k->from);
    k->first = place.steps;
    return TR_OK;
}

static tr_status claim(const tr_checkpoint_manager *k, tr_checkpoint_entry entry)
{
    const tr_checkpoint_options *o = &k->desc->checkpoints;
    char                        *said = NULL;

    TR_TRY(tr_checkpoint_claim(&said, o->folder, entry, o->command));
    if (said)
        fprintf(stderr, "trireme: %s\n", said);
    tr_free(said);
    return TR_OK;
}

static tr_status find_origin(tr_checkpoint_manager *k)
{
    bool    have_state = false;
    int64_t resumed = 0;

    if (k->job)
        TR_TRY(tr_job_resumed(k->job, &have_state, &resumed));
    k->steps_on_servers = k->job ? resumed * k->policy->period : 0;
    have_state |= k->job && tr_job_is_replacement(k->job);
    if (is_first_trainer(k))
        TR_TRY(claim(k, have_state ? TR_ENTRY_JOIN : k->desc->checkpoints.entry));
    k->origin = tr_checkpoint_origin_of(have_state, k->desc->checkpoints.resume, newest(k) >= 0);
    return find_place(k);
}

static void make_policy(tr_checkpoint_manager *k)
{
    const tr_checkpoint_options *o = &k->desc->checkpoints;

    k->checkpoints = tr_checkpoint_policy_new(&(tr_checkpoint_start){
        .every_steps = o->every_steps, .every_seconds = o->every_seconds, .first = k->first, .steps_on_servers = k->steps_on_servers,
        .resumed = k->origin == TR_ORIGIN_CHECKPOINT ? tr_checkpoint_step(k->from) : -1, .newest = newest(k),
        .servers_have_state = k->origin == TR_ORIGIN_SERVERS, .is_first = is_first_trainer(k),
        .can_lag = k->job && k->policy->snapshots_all}, tr__now());
}

tr_status tr_checkpoint_manager_init(tr_checkpoint_manager *manager, const tr_saved_job_desc *desc, const tr_saved_partition *partition, const tr_policy *policy, tr_job *job,
                         tr_scope *scope)
{
    *manager = (tr_checkpoint_manager){.desc = desc, .partition = partition, .policy = policy, .job = job, .scope = scope};
    if (!is_on(manager))
        return TR_OK;
    if (!desc->state_count)
        return tr_fail(TR_EUNSUPPORTED, "the job does not say what a checkpoint of it holds: save it anew");
    TR_TRY(find_origin(manager));
    make_policy(manager);
    listen_to(SIGTERM);
    listen_to(SIGUSR1);
    tr_notice_tell(TR_NOTICE_LISTENS, NULL);
    return TR_OK;
}

void tr_checkpoint_manager_deinit(tr_checkpoint_manager *manager)
{
    tr_checkpoint_policy_free(manager->checkpoints);
    tr_checkpoint_free(manager->from);
    free(manager->facts);
    free(manager->origin_text);
    free(manager->folder_text);
}

/* == going on =================================================================================== */

static bool is_on_servers(const tr_checkpoint_manager *k, const tr_saved_state *state)
{
    if (!k->partition)
        return false;
    for (int i = 0; i < k->partition->spec.value_count; i++)
        if (!strcmp(k->partition->value_rows[i].source, state->name))
            return true;
    return state->kind == TR_STATE_TABLE;
}

static tr_status load_array(const tr_checkpoint_manager *k, const char *name)
{
    const int trainer = k->job ? tr_job_index(k->job) : 0, trainers = k->job ? tr_job_trainers(k->job) : 1;
    const int index = tr_checkpoint_find_own(k->from, name, trainer);
    tr_var   *var = tr_scope_find(k->scope, name);
    tr_checkpoint_item  state;

    if (index < 0 || !var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' is not in both the checkpoint '%s' and the job", name, tr_checkpoint_folder(k->from));
    tr_checkpoint_array(&state, k->from, index);
    tr_tensor *t = &var->tensor;
    bool       is_same = state.dtype == t->dtype && state.rank == t->shape.rank;
    for (int i = 0; is_same && i < state.rank; i++)
        is_same = state.dims[i] == t->shape.dim[i];
    if (!is_same)
        return tr_fail(TR_ESHAPE, "'%s' in '%s' has another shape or type than the job's, %s", name, tr_checkpoint_folder(k->from),
                       TR_SHAPE_STR(t->shape));
    return tr_checkpoint_read_own(k->from, name, trainer, trainers, t->data, tr_tensor_bytes(t));
}

/* Where the servers hold newer parameters, what a trainer had accumulated for older ones would count twice. */
static bool is_old_accumulator(const tr_checkpoint_manager *k, const char *name)
{
    return k->origin == TR_ORIGIN_SERVERS && tr_checkpoint_find(k->from, name) < 0 && tr_checkpoint_find_own(k->from, name, 0) >= 0;
}

static tr_status load_table(const tr_checkpoint_manager *k, const char *name)
{
    tr_job_table table;
    int64_t      rows;

    for (int i = 0; i < tr_checkpoint_tables(k->from); i++) {
        tr_checkpoint_table(&table, &rows, k->from, i);
        if (!strcmp(table.name, name))
            return tr_checkpoint_load_table(k->scope, k->from, i);
    }
    return tr_fail(TR_ENOTFOUND, "the checkpoint '%s' has no sparse table '%s'", tr_checkpoint_folder(k->from), name);
}

tr_status tr_checkpoint_manager_load(const tr_checkpoint_manager *manager)
{
    for (int i = 0; manager->from && i < manager->desc->state_count; i++) {
        const tr_saved_state *s = &manager->desc->states[i];
        if (!tr_checkpoint_origin_takes(manager->origin, s->kind, is_on_servers(manager, s)) || is_old_accumulator(manager, s->name))
            continue;
        if (s->kind != TR_STATE_TABLE)
            TR_TRY(load_array(manager, s->name));
        else if (is_first_trainer(manager))                    /* the servers get the table's rows from this variable */
            TR_TRY(load_table(manager, s->name));
    }
    return TR_OK;
}

static const tr_saved_state *find_state(const tr_checkpoint_manager *k, const char *name)
{
    for (int i = 0; i < k->desc->state_count; i++)
        if (!strcmp(k->desc->states[i].name, name))
            return &k->desc->states[i];
    return NULL;
}

static int64_t rows_of(const tr_checkpoint_manager *k, const char *name)
{
    const tr_var *var = tr_scope_find(k->scope, name);
    return var && var->tensor.shape.rank ? var->tensor.shape.dim[0] : 0;
}

static char *absolute(const char *folder)
{
    char *here = folder[0] == '/' ? NULL : getcwd(NULL, 0);
    char *path = here ? tr__must_format("%s/%s", here, folder) : tr__must_strdup(folder);

    free(here);
    return path;
}

/* All trainers go on from the same checkpoint. A replacement does not know it, and missing facts are not compared. */
static void add_facts(tr_checkpoint_manager *k, tr_job_spec *spec)
{
    k->facts = tr__must_array((size_t)spec->fact_count + 2, sizeof *k->facts);
    memcpy(k->facts, spec->facts, (size_t)spec->fact_count * sizeof *k->facts);
    k->folder_text = absolute(k->desc->checkpoints.folder);
    k->origin_text = tr_checkpoint_origin_text(k->origin == TR_ORIGIN_CHECKPOINT ? k->from : NULL);
    if (!tr_job_is_replacement(k->job))
        k->facts[spec->fact_count++] = (tr_job_fact){"goes on from", k->origin_text};
    k->facts[spec->fact_count++] = (tr_job_fact){"checkpoints", k->folder_text};
    spec->facts = k->facts;
}

void tr_checkpoint_manager_fill(tr_checkpoint_manager *manager, tr_job_spec *spec, tr_job_value *values)
{
    if (!is_on(manager))
        return;
    for (int i = 0; i < spec->value_count; i++) {
        const tr_saved_rows  *rows = &manager->partition->value_rows[i];
        const tr_saved_state *state = find_state(manager, rows->source);
        if (!state)
            continue;
        values[i].source = rows->source;
        values[i].param = state->param;
        values[i].state = state->kind;
        values[i].row = rows->begin > 0 ? rows->begin : 0;
        values[i].rows = rows->begin >= 0 ? rows_of(manager, rows->source) : 0;
    }
    add_facts(manager, spec);
    spec->checkpoints = manager->desc->checkpoints.folder;
    spec->first_step = spec->first_run = manager->first;
    if (manager->origin == TR_ORIGIN_CHECKPOINT && is_first_trainer(manager))
        spec->tasks = tr_checkpoint_tasks(&spec->tasks_size, manager->from);
}

/* == writing ===================================================================================== */

static tr_status fill_state(tr_checkpoint_item *to, tr_job_table *table, const tr_checkpoint_manager *k, const tr_saved_state *from)
{
    *to = (tr_checkpoint_item){.name = from->name, .param = from->param, .kind = from->kind};
    if (from->kind == TR_STATE_TABLE) {
        to->data = table;
        return tr_job_describe_table(table, k->scope, from->name);
    }
    const tr_var *var = tr_scope_find(k->scope, from->name);
    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value for a checkpoint", from->name);
    to->dtype = var->tensor.dtype;
    to->rank = var->tensor.shape.rank;
    to->dims = var->tensor.shape.dim;
    to->data = var->tensor.data;
    return TR_OK;
}

static tr_status take_with(tr_checkpoint_manager *k, tr_checkpoint_item *states, tr_job_table *tables)
{
    const tr_checkpoint_options *o = &k->desc->checkpoints;
    const tr_trainer_state       place = {.steps = steps_of(k), .runs = steps_of(k)};
    int                          count = 0;

    for (int i = 0; i < k->desc->state_count; i++)
        if (!is_on_servers(k, &k->desc->states[i])) {
            TR_TRY(fill_state(&states[count], &tables[count], k, &k->desc->states[i]));
            count++;
        }
    if (!k->job) {
        const tr_checkpoint_facts facts = {.step = steps_of(k), .mode = "local", .trainer_count = 1, .trainers = &place};
        return tr_checkpoint_save(o->folder, &facts, count, states, o->keep);
    }
    const tr_job_checkpoint_spec spec = {.folder = o->folder, .step = tr_checkpoint_policy_label(k->checkpoints, steps_of(k)), .keep = o->keep, .place = place, .count = count,
                                         .states = states};
    return tr_job_checkpoint(k->job, &spec);
}

/* Training goes on without a checkpoint that cannot be written. */
static tr_status note(tr_checkpoint_manager *k, tr_status status, bool is_given_up)
{
    const bool is_told = tr_checkpoint_policy_ended(k->checkpoints, status, is_given_up);

    if (status == TR_EPEER)
        return status;
    if (status != TR_OK)
        snprintf(k->why, sizeof k->why, "%s", tr_error());
    if (is_told)
        fprintf(stderr, "trireme warning: a checkpoint was not written: %s\n", k->why);
    return TR_OK;
}

static tr_status wait(tr_checkpoint_manager *k)
{
    tr_job_checkpoint_report report = {0};
    const tr_status          status = tr_job_checkpoint_wait(k->job, TR_CHECKPOINT_PATIENCE, &report);
    char                    *text = status == TR_OK ? tr_checkpoint_report_text(&report) : NULL;

    if (text)
        fprintf(stderr, "trireme: %s\n", text);
    free(text);
    return note(k, status, report.is_given_up);
}

/* In a job the checkpoint is written in the background; the policy asks for its outcome later. */
static tr_status take(tr_checkpoint_manager *k)
{
    tr_checkpoint_item     *states = tr__must_array((size_t)k->desc->state_count, sizeof *states);
    tr_job_table *tables = tr__must_array((size_t)k->desc->state_count, sizeof *tables);

    tr_checkpoint_policy_begun(k->checkpoints, steps_of(k), tr__now());
    const tr_status status = take_with(k, states, tables);
    free(states);
    free(tables);
    return status == TR_OK && k->job ? TR_OK : note(k, status, false);
}

/* == when ======================================================================================== */

/* Does this process make the checkpoints now? */
static bool makes_them(tr_checkpoint_manager *k)
{
    const char *folder = k->desc->checkpoints.folder;
    const bool  makes = !k->job || tr_job_makes_checkpoints(k->job);

    if (tr_checkpoint_policy_becomes_initiator(k->checkpoints, makes)) {
        claim(k, TR_ENTRY_JOIN);
        tr_checkpoint_policy_take_over(k->checkpoints, steps_of(k), newest(k), tr_checkpoint_age(folder), tr__now());
    }
    return makes;
}

static tr_checkpoint_view view_of(const tr_checkpoint_manager *k)
{
    tr_checkpoint_view view = {.steps = steps_of(k), .now = tr__now(), .is_possible = true, .is_asked = asked != 0};

    if (k->job) {
        view.is_possible = k->made % k->policy->period == 0 && !tr_job_is_uneven(k->job);
        view.is_under_way = tr_job_checkpoint_is_under_way(k->job);
    }
    return view;
}

int64_t tr_checkpoint_manager_steps_to_pause(tr_checkpoint_manager *manager)
{
    if (!is_on(manager) || !makes_them(manager))
        return 0;
    const tr_checkpoint_view view = view_of(manager);       /* of the last look */
    return tr_checkpoint_policy_steps_to_look(manager->checkpoints, &view);
}

static tr_status act(tr_checkpoint_manager *k, tr_checkpoint_action action)
{
    return action == TR_CHECKPOINT_REPORT ? wait(k) : action == TR_CHECKPOINT_BEGIN ? take(k) : TR_OK;
}

static tr_status finish(tr_checkpoint_manager *k, bool has_more)
{
    tr_checkpoint_action action;

    while ((action = tr_checkpoint_policy_finish(k->checkpoints, steps_of(k), has_more)) != TR_CHECKPOINT_GO_ON)
        TR_TRY(act(k, action));
    return TR_OK;
}

static tr_status stop(bool *stops, tr_checkpoint_manager *k)
{
    char name[32];

    TR_TRY(finish(k, false));
    const char *signal_name = asked == SIGTERM ? "SIGTERM" : tr_notice_asked_by(name, sizeof name, "SIGUSR1");
    char       *text = tr_checkpoint_policy_stop_text(k->checkpoints, k->desc->checkpoints.folder, signal_name, steps_of(k));
    char       *said = k->job ? tr__must_format("%s %s", tr_job_rank_name(k->job, tr_job_rank(k->job)), text) : tr__must_strdup(text);
    tr_status status = TR_OK;
    *stops = true;
    if (k->job)
        status = tr_job_stop(k->job, said, TR_STOPPED);
    else
        fprintf(stderr, "trireme: %s\n", said);
    free(text);
    free(said);
    return status;
}

/* If a standby replaces this trainer, the launcher tells the standby of the signal. */
static void tell_asked(tr_checkpoint_manager *k)
{
    if (asked && !k->has_told)
        tr_notice_tell(TR_NOTICE_ASKED, NULL);
    k->has_told = asked != 0;
}

tr_status tr_checkpoint_manager_look(bool *stops, tr_checkpoint_manager *manager, int64_t made)
{
    tr_checkpoint_action action;

    *stops = false;
    manager->made = made;
    if (!is_on(manager))
        return TR_OK;
    tell_asked(manager);
    if (!makes_them(manager))
        return TR_OK;
    do {
        const tr_checkpoint_view view = view_of(manager);
        action = tr_checkpoint_policy_look(manager->checkpoints, &view);
        if (action == TR_CHECKPOINT_STOP)
            return stop(stops, manager);
        TR_TRY(act(manager, action));
    } while (action == TR_CHECKPOINT_REPORT);
    return TR_OK;
}

/* The last checkpoint is a part of the training's result, so a failure of it is a failure of the training. */
static tr_status make_last(tr_checkpoint_manager *k, bool has_more)
{
    TR_TRY(finish(k, has_more));
    const tr_status status = tr_checkpoint_policy_status(k->checkpoints);
    return status == TR_OK ? TR_OK : tr_fail(status, "the last checkpoint was not written: %s", k->why);
}

tr_status tr_checkpoint_manager_end(tr_checkpoint_manager *manager)
{
    tr_job_last last;
    tr_status   status = TR_ETIMEOUT;

    if (!is_on(manager))
        return TR_OK;
    if (!manager->job)
        return make_last(manager, false);
    if (tr_checkpoint_policy_is_pending(manager->checkpoints))
        TR_TRY(wait(manager));
    tr_checkpoint_policy_becomes_initiator(manager->checkpoints, false);        /* meanwhile another trainer may have begun to make the checkpoints */
    while (status == TR_ETIMEOUT) {
        tell_asked(manager);                        /* a trainer that still makes steps acts on the signal */
        status = tr_job_stay(manager->job, TR_CHECKPOINT_LOOK_MILLISECONDS / 1e3, &last);
    }
    TR_TRY(status);
    return last.is_mine && makes_them(manager) ? make_last(manager, last.has_more) : TR_OK;
}
