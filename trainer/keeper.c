/* keeper.c - see keeper.h. */
#include "trainer/keeper.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/memory.h"
#include "framework/status.h"
#include "pserver/observe/launcher.h"
#include "trainer/feed.h"

static const double PATIENCE = 3600;  /* seconds, for a disk */
static const int64_t AGAIN = 1000000000;      /* from the beginning of a checkpoint that a death has cost to the next one, at least */
static const double LOOK = 0.1;       /* and from one look at signals to the next, when nothing else is to be done */

static volatile sig_atomic_t asked;   /* the signal that asks for an end */

static void note_signal(int number)
{
    asked = number;
}

static bool is_on(const tr_keeper *k)
{
    return k->desc && k->desc->checkpoints.folder;
}

static int64_t steps_of(const tr_keeper *k)
{
    return k->first + k->before + k->made;
}

/* Other trainers may have made steps when this one made none. */
static bool has_others_apart(const tr_keeper *k)
{
    return k->job && k->policy->snapshots_all;
}

static bool is_teller(const tr_keeper *k)
{
    return !k->job || tr_job_index(k->job) == 0;
}

/* == life ====================================================================================== */

static void say_where(const tr_keeper *k, const char *refused)
{
    if (!is_teller(k))
        return;
    if (refused)
        fprintf(stderr, "trireme: %s: the checkpoint before it is taken\n", refused);
    if (!k->has_servers_state)
        fprintf(stderr, "trireme: going on from step %lld, %s\n", (long long)tr_checkpoint_step(k->from),
                tr_checkpoint_folder(k->from));
}

static tr_status open_newest(tr_keeper *k)
{
    char *refused = NULL;

    if (!tr_checkpoint_list(NULL, 0, k->desc->checkpoints.folder))
        return TR_OK;
    TR_TRY(tr_checkpoint_open_newest(&k->from, &refused, k->desc->checkpoints.folder));
    say_where(k, refused);
    tr_free(refused);
    return TR_OK;
}

/* The same rules as a script's: python/trireme/distributed/keeper.py, claim_folder, ... */
static tr_status claim_folder(const tr_keeper *k)
{
    const char *attempt = getenv("TRIREME_ATTEMPT");
    const bool  is_again = attempt && *attempt && strcmp(attempt, "0") != 0;

    return is_teller(k) ? tr_checkpoint_claim(k->desc->checkpoints.folder, !is_again && !k->has_servers_state) : TR_OK;
}

/* ... and checkpoints.py, beginning_of. */
static tr_status find_beginning(tr_keeper *k)
{
    const int        index = k->job ? tr_job_index(k->job) : 0;
    const char      *folder = k->desc->checkpoints.folder;
    tr_trainer_state place = {0};
    int64_t          made = 0;

    if (k->job)
        TR_TRY(tr_job_resumed(k->job, &k->has_servers_state, &made));
    k->has_servers_state |= k->job && tr_job_is_replacement(k->job);
    TR_TRY(claim_folder(k));
    if (k->has_servers_state) {
        tr_beginning_read(&place, folder, index);
        if (made > 0 || place.steps > 0)
            open_newest(k);                        /* it is missed by nobody */
    } else if (k->desc->checkpoints.resume) {
        TR_TRY(open_newest(k));
    }
    if (!k->has_servers_state && k->from)
        tr_checkpoint_place(&place, k->from, index);
    if (!k->has_servers_state && k->job && is_teller(k))
        tr_beginning_write(folder, k->from);
    k->first = place.steps;
    return TR_OK;
}

static int64_t newest(const tr_keeper *k)
{
    int64_t step = -1;

    tr_checkpoint_list(&step, 1, k->desc->checkpoints.folder);
    return step;
}

tr_status tr_keeper_init(tr_keeper *keeper, const tr_saved_job_desc *desc, const tr_saved_partition *partition, const tr_policy *policy, tr_job *job,
                         tr_scope *scope)
{
    *keeper = (tr_keeper){.desc = desc, .partition = partition, .policy = policy, .job = job, .scope = scope, .took_at = tr__now(), .is_good = true};
    if (!is_on(keeper))
        return TR_OK;
    if (!desc->kept_count)
        return tr_fail(TR_EUNSUPPORTED, "the job does not say what a checkpoint of it holds: save it anew");
    TR_TRY(find_beginning(keeper));
    keeper->last = keeper->first;
    if (keeper->from && !keeper->has_servers_state && tr_checkpoint_step(keeper->from) > keeper->first)
        keeper->ahead = tr_checkpoint_step(keeper->from) - keeper->first;
    keeper->known = keeper->has_servers_state ? -1 : newest(keeper);        /* others may have made some in this launch */
    keeper->makes = is_teller(keeper) && !keeper->has_servers_state;
    signal(SIGTERM, note_signal);
    signal(SIGUSR1, note_signal);
    tr__launcher_tell_own("listens", NULL);
    return TR_OK;
}

void tr_keeper_deinit(tr_keeper *keeper)
{
    tr_checkpoint_free(keeper->from);
}

/* == going on =================================================================================== */

static bool is_on_servers(const tr_keeper *k, const tr_saved_state *state)
{
    if (!k->partition)
        return false;
    for (int i = 0; i < k->partition->spec.value_count; i++)
        if (!strcmp(k->partition->value_rows[i].source, state->name))
            return true;
    return state->kind == TR_STATE_TABLE;
}

static tr_status load_array(const tr_keeper *k, const char *name)
{
    const int index = tr_checkpoint_find(k->from, name);
    tr_var   *var = tr_scope_find(k->scope, name);
    tr_state  state;

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
    return tr_checkpoint_read(k->from, index, 0, state.rank ? state.dims[0] : 1, t->data, tr_tensor_bytes(t));
}

static tr_status load_table(const tr_keeper *k, const char *name)
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

tr_status tr_keeper_load(const tr_keeper *keeper)
{
    for (int i = 0; keeper->from && i < keeper->desc->kept_count; i++) {
        const tr_saved_state *s = &keeper->desc->kept[i];
        if (keeper->has_servers_state && (s->kind != TR_STATE_STATISTIC || is_on_servers(keeper, s)))
            continue;
        if (s->kind != TR_STATE_TABLE)
            TR_TRY(load_array(keeper, s->name));
        else if (is_teller(keeper))                    /* the servers get its rows from here */
            TR_TRY(load_table(keeper, s->name));
    }
    return TR_OK;
}

static const tr_saved_state *find_state(const tr_keeper *k, const char *name)
{
    for (int i = 0; i < k->desc->kept_count; i++)
        if (!strcmp(k->desc->kept[i].name, name))
            return &k->desc->kept[i];
    return NULL;
}

static int64_t rows_of(const tr_keeper *k, const char *name)
{
    const tr_var *var = tr_scope_find(k->scope, name);
    return var && var->tensor.shape.rank ? var->tensor.shape.dim[0] : 0;
}

void tr_keeper_joined(tr_keeper *keeper, int64_t before)
{
    keeper->before = before;
}

void tr_keeper_fill(const tr_keeper *keeper, tr_job_spec *spec, tr_job_value *values)
{
    if (!is_on(keeper))
        return;
    for (int i = 0; i < spec->value_count; i++) {
        const tr_saved_rows  *rows = &keeper->partition->value_rows[i];
        const tr_saved_state *state = find_state(keeper, rows->source);
        if (!state)
            continue;
        values[i].source = rows->source;
        values[i].param = state->param;
        values[i].state = state->kind;
        values[i].row = rows->begin > 0 ? rows->begin : 0;
        values[i].rows = rows->begin >= 0 ? rows_of(keeper, rows->source) : 0;
    }
    spec->checkpoints = keeper->desc->checkpoints.folder;
    spec->first_step = spec->first_run = keeper->first;
    if (keeper->from && !keeper->has_servers_state && is_teller(keeper))
        spec->tasks = tr_checkpoint_tasks(&spec->tasks_size, keeper->from);
}

/* == writing ===================================================================================== */

static tr_status fill_state(tr_state *to, tr_job_table *table, const tr_keeper *k, const tr_saved_state *from)
{
    *to = (tr_state){.name = from->name, .param = from->param, .kind = from->kind};
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

/* The step that a checkpoint is called by. */
static int64_t label_of(const tr_keeper *k)
{
    return steps_of(k) + k->ahead;
}

static tr_status take_with(tr_keeper *k, tr_state *states, tr_job_table *tables)
{
    const tr_checkpoint_options *o = &k->desc->checkpoints;
    const tr_trainer_state       place = {.steps = steps_of(k), .runs = steps_of(k)};
    int                          count = 0;

    for (int i = 0; i < k->desc->kept_count; i++)
        if (!is_on_servers(k, &k->desc->kept[i])) {
            TR_TRY(fill_state(&states[count], &tables[count], k, &k->desc->kept[i]));
            count++;
        }
    if (!k->job) {
        const tr_checkpoint_facts facts = {.step = steps_of(k), .mode = "local", .trainer_count = 1, .trainers = &place};
        return tr_checkpoint_save(o->folder, &facts, count, states, o->keep);
    }
    const tr_job_checkpoint_spec spec = {.folder = o->folder, .step = label_of(k), .keep = o->keep, .place = place, .count = count,
                                         .states = states};
    return tr_job_checkpoint(k->job, &spec);
}

/* What became of a checkpoint. Training goes on without one that cannot be written, and says so when the one before was. */
static tr_status note(tr_keeper *k, tr_status status)
{
    const bool is_said = k->status != TR_OK;

    k->is_good = status == TR_OK;
    if (status == TR_EPEER)
        return status;
    k->status = status;
    if (status == TR_OK)
        return TR_OK;
    snprintf(k->why, sizeof k->why, "%s", tr_error());
    if (!is_said)
        fprintf(stderr, "trireme: a checkpoint was not written: %s\n", k->why);
    return TR_OK;
}

static tr_status wait(tr_keeper *k)
{
    if (!k->job || !k->has_taken)
        return TR_OK;
    tr_job_checkpoint_report report = {0};
    k->has_taken = false;
    const tr_status status = tr_job_checkpoint_wait(k->job, PATIENCE, &report);
    k->is_wanted = report.is_given_up;
    return note(k, status);
}

static tr_status take(tr_keeper *k)
{
    TR_TRY(wait(k));                               /* what became of the one before is said */
    tr_state     *states = tr__must_alloc((size_t)k->desc->kept_count * sizeof *states);
    tr_job_table *tables = tr__must_alloc((size_t)k->desc->kept_count * sizeof *tables);

    k->last = steps_of(k);
    k->took_at = tr__now();
    k->is_wanted = false;
    const tr_status status = take_with(k, states, tables);
    free(states);
    free(tables);
    k->has_taken = status == TR_OK;
    if (k->has_taken && k->job)                    /* what becomes of it is to be seen */
        return TR_OK;
    return note(k, status);
}

/* == when ======================================================================================== */

/* The time of the next one is counted from the last one, whoever has made that; and of one that is older than the launch from its beginning, which is
 * that of this process unless the job was started again since. */
static void count_from_last(tr_keeper *k)
{
    const double  age = tr_checkpoint_age(k->desc->checkpoints.folder);
    const int64_t at = tr__now() - (int64_t)(age * 1e9);

    if (age >= 0 && (k->has_servers_state || at > k->took_at))
        k->took_at = at;
}

/* Is it this process that makes checkpoints now? When another one made them before, its own are called by steps behind those. */
static bool makes_them(tr_keeper *k)
{
    const bool makes = !k->job || tr_job_makes_checkpoints(k->job);

    if (makes && !k->makes && k->job) {
        tr_checkpoint_claim(k->desc->checkpoints.folder, false);
        const int64_t step = newest(k);
        if (step != k->known && step - steps_of(k) > k->ahead)
            k->ahead = step - steps_of(k);
        if (step != k->known && step - k->ahead > k->last)
            k->last = step - k->ahead;
        count_from_last(k);
    }
    return k->makes = makes;
}

/* In mode geo checkpoints are of exchanges. */
static bool is_possible(const tr_keeper *k)
{
    if (!k->job)
        return true;
    if (k->made % k->policy->period)
        return false;
    return !tr_job_checkpoint_is_under_way(k->job) && !tr_job_is_uneven(k->job);
}

/* What became of the last one is known, and was not said yet. */
static bool has_news(const tr_keeper *k)
{
    return k->job && k->has_taken && !tr_job_checkpoint_is_under_way(k->job);
}

/* Not again and again at once, where ranks die one after the other. */
static bool is_wanted(const tr_keeper *k)
{
    return k->is_wanted && tr__now() - k->took_at >= AGAIN;
}

static bool is_due(const tr_keeper *k)
{
    const tr_checkpoint_options *o = &k->desc->checkpoints;

    return steps_of(k) > k->last && (is_wanted(k) || (o->every_steps && steps_of(k) / o->every_steps > k->last / o->every_steps) ||
                                     (o->every_seconds > 0 && (double)(tr__now() - k->took_at) / 1e9 >= o->every_seconds));
}

int64_t tr_keeper_steps_to_pause(tr_keeper *keeper)
{
    if (!is_on(keeper) || !makes_them(keeper))
        return 0;
    const int64_t every = keeper->desc->checkpoints.every_steps;
    if (has_news(keeper) || is_wanted(keeper) || is_due(keeper))       /* the steps are those of the last look */
        return 1;
    return every ? every - steps_of(keeper) % every : 0;
}

/* Up to here. It is tried again once: a server that dies takes its part with it. */
static tr_status finish(tr_keeper *k, bool has_more)
{
    TR_TRY(wait(k));
    for (int i = 0; i < 2; i++) {
        if (has_more || steps_of(k) > k->last || !k->is_good || has_others_apart(k))
            TR_TRY(take(k));
        TR_TRY(wait(k));
        if (k->is_good)
            return TR_OK;
    }
    return TR_OK;
}

static tr_status stop(bool *stops, tr_keeper *k)
{
    char text[1024], name[32];

    TR_TRY(finish(k, false));
    char *path = tr_checkpoint_path(k->desc->checkpoints.folder, label_of(k));
    snprintf(text, sizeof text, "%s%sstopped by %s after step %lld; %s%s",
             k->job ? tr_job_rank_name(k->job, tr_job_rank(k->job)) : "", k->job ? " " : "",
             asked == SIGTERM ? "SIGTERM" : tr__launcher_asked_by(name, sizeof name, "SIGUSR1"), (long long)steps_of(k),
             k->is_good ? "the checkpoint is " : "it is in no checkpoint", k->is_good ? path : "");
    tr_free(path);
    *stops = true;
    if (k->job)
        return tr_job_stop(k->job, text, TR_STOPPED);
    fprintf(stderr, "trireme: %s\n", text);
    return TR_OK;
}

/* So that who takes this trainer's place hears of it. */
static void tell_asked(tr_keeper *k)
{
    if (asked && !k->has_told)
        tr__launcher_tell_own("asked", NULL);
    k->has_told = asked != 0;
}

tr_status tr_keeper_look(bool *stops, tr_keeper *keeper, int64_t made)
{
    *stops = false;
    keeper->made = made;
    if (is_on(keeper))
        tell_asked(keeper);
    if (!is_on(keeper) || !makes_them(keeper))
        return TR_OK;
    if (asked && is_possible(keeper))
        return stop(stops, keeper);
    if (has_news(keeper))
        TR_TRY(wait(keeper));
    return is_due(keeper) && is_possible(keeper) ? take(keeper) : TR_OK;
}

/* The checkpoint that a training ends with is a part of its result. */
static tr_status make_last(tr_keeper *k, bool has_more)
{
    TR_TRY(finish(k, has_more));
    return k->is_good ? TR_OK : tr_fail(k->status, "the last checkpoint was not written: %s", k->why);
}

tr_status tr_keeper_end(tr_keeper *keeper)
{
    tr_job_last last;
    tr_status   status = TR_ETIMEOUT;

    if (!is_on(keeper))
        return TR_OK;
    if (!keeper->job)
        return make_last(keeper, false);
    TR_TRY(wait(keeper));
    keeper->makes = false;                         /* another one may make them, meanwhile */
    while (status == TR_ETIMEOUT) {
        tell_asked(keeper);                        /* who makes steps acts on it, too */
        status = tr_job_stay(keeper->job, LOOK, &last);
    }
    TR_TRY(status);
    return last.is_mine && makes_them(keeper) ? make_last(keeper, last.has_more) : TR_OK;
}
