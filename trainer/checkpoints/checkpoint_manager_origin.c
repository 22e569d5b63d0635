/* checkpoint_manager_origin.c - where a training goes on, and the values that it takes from there. */
#include "trainer/checkpoints/checkpoint_manager_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "storage/stores/object_store.h"

/* == what the user hears ========================================================================= */

void tr__checkpoints_say(const tr_checkpoint_manager *m, bool is_warning, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *text = tr__must_vformat(format, arguments);
    va_end(arguments);
    if (m->contents.say)
        m->contents.say(text, is_warning, m->contents.payload);
    else
        fprintf(stderr, "trireme%s: %s\n", is_warning ? " warning" : "", text);
    free(text);
}

tr_status tr__checkpoints_digest(const char **out, tr_checkpoint_manager *m)
{
    if (!m->digest && m->contents.digest)
        TR_TRY(m->contents.digest(&m->digest, m->contents.payload));
    *out = m->digest;
    return TR_OK;
}

static void say_refused(const tr_checkpoint_manager *m)
{
    for (const char *line = m->refused; line && *line;) {
        const size_t length = strcspn(line, "\n");
        tr__checkpoints_say(m, true, "%.*s: the checkpoint before it is taken", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static tr_status say_where(tr_checkpoint_manager *m)
{
    const char *there = tr_checkpoint_digest(m->from), *here = NULL;

    say_refused(m);
    if (there && *there)
        TR_TRY(tr__checkpoints_digest(&here, m));
    if (here && strcmp(here, there) != 0)
        tr__checkpoints_say(m, true,
                            "the checkpoint '%s' is of another program. It must have all variables that this one keeps. If that is not "
                            "meant, give --checkpoint another folder",
                            tr_checkpoint_folder(m->from));
    tr__checkpoints_say(m, false, "going on from step %lld, %s", (long long)tr_checkpoint_step(m->from), tr_checkpoint_folder(m->from));
    return TR_OK;
}

/* == the place =================================================================================== */

int64_t tr__checkpoints_newest(const tr_checkpoint_manager *m)
{
    int64_t step = -1;

    tr_checkpoint_list(&step, 1, m->options.folder);
    return step;
}

tr_status tr__checkpoints_claim(tr_checkpoint_manager *m, tr_checkpoint_entry entry)
{
    char *said = NULL;

    TR_TRY(tr_checkpoint_claim(&said, m->options.folder, entry, m->options.command));
    if (said)
        tr__checkpoints_say(m, false, "%s", said);
    tr_free(said);
    return TR_OK;
}

/* What do the servers hold? */
static tr_status ask_servers(tr_checkpoint_manager *m)
{
    if (m->job && !m->is_asked)
        TR_TRY(tr_job_resumed(m->job, &m->servers_have_state, &m->resumed));
    m->servers_have_state |= m->job && tr_job_is_replacement(m->job);
    m->is_asked = true;
    return TR_OK;
}

char *tr__checkpoints_absolute(const char *folder)
{
    char *here = folder[0] == '/' || tr_store_is_uri(folder) ? NULL : getcwd(NULL, 0);
    char *path = here ? tr__must_format("%s/%s", here, folder) : tr__must_strdup(folder);

    free(here);
    return path;
}

/* Let the servers read their parts, which compares every byte. */
static tr_status restore_on_servers(const tr_checkpoint *checkpoint, void *manager)
{
    char           *path = tr__checkpoints_absolute(tr_checkpoint_folder(checkpoint));
    const tr_status status = tr_job_restore(((tr_checkpoint_manager *)manager)->job, path, tr_checkpoint_number(checkpoint));

    free(path);
    return status;
}

static tr_status find(tr_checkpoint_manager *m)
{
    const int                index = m->job ? tr_job_index(m->job) : 0;
    tr_trainer_state         place = {0};
    tr_checkpoint_beginning *b = &m->beginning;

    TR_TRY(ask_servers(m));
    if (tr__keeps_checkpoints(m))
        b->origin = tr_checkpoint_origin_of(m->servers_have_state, m->options.resume, tr__checkpoints_newest(m) >= 0);
    if (b->origin == TR_ORIGIN_SERVERS)
        tr_beginning_read(&place, m->options.folder, index);
    if (b->origin == TR_ORIGIN_CHECKPOINT) {
        TR_TRY(m->job ? tr_checkpoint_open_newest_by(&m->from, &m->refused, m->options.folder, restore_on_servers, m)
                      : tr_checkpoint_open_newest(&m->from, &m->refused, m->options.folder));
        tr_checkpoint_place(&place, m->from, index);
    }
    b->checkpoint = m->from;
    b->refused = m->refused;
    b->steps = place.steps;
    b->runs = place.runs;
    for (int i = 0; m->from && i < tr_checkpoint_trainers(m->from); i++) {
        tr_checkpoint_trainer(&place, m->from, i);
        if (place.index == index) {
            b->position = place.position;
            b->position_size = place.position_size;
        }
    }
    m->is_found = true;
    return TR_OK;
}

tr_status tr_checkpoint_manager_find(tr_checkpoint_beginning *out, tr_checkpoint_manager *manager)
{
    if (!manager->is_found)
        TR_TRY(find(manager));
    *out = manager->beginning;
    return TR_OK;
}

/* A training that should go on, in a folder without checkpoints. */
static tr_status refuse_empty(const tr_checkpoint_manager *m)
{
    if (!m->options.needs_one || m->servers_have_state || tr__checkpoints_newest(m) >= 0)
        return TR_OK;
    return tr_fail(TR_ENOTFOUND, "--resume: the folder '%s' holds no checkpoint; with --resume=auto, or without it, the training begins",
                   m->options.folder);
}

static void say_begins(const tr_checkpoint_manager *m)
{
    if (m->options.resume && m->beginning.origin == TR_ORIGIN_BEGINNING)
        tr__checkpoints_say(m, false, "the folder '%s' holds no checkpoint: the training begins", m->options.folder);
}

/* Where the servers hold the state, a checkpoint serves only for statistics, so training goes on without it. */
static void open_for_statistics(tr_checkpoint_manager *m)
{
    if (tr_checkpoint_origin_reads(m->beginning.origin, m->first, tr__checkpoints_newest(m) >= 0) &&
        tr_checkpoint_open_newest(&m->from, &m->refused, m->options.folder) == TR_OK && tr__is_first_trainer(m))
        say_refused(m);
}

static void make_policy(tr_checkpoint_manager *m)
{
    m->checkpoints = tr_checkpoint_policy_new(&(tr_checkpoint_start){
        .every_steps = m->options.every_steps, .every_seconds = m->options.every_seconds, .first = m->beginning.steps,
        .steps_on_servers = m->steps_on_servers, .resumed = m->beginning.checkpoint ? tr_checkpoint_step(m->beginning.checkpoint) : -1,
        .newest = tr__checkpoints_newest(m), .servers_have_state = m->servers_have_state, .is_first = tr__is_first_trainer(m),
        .can_lag = m->policy.snapshots_all}, tr__clock());
}

static tr_status index_variables(tr_checkpoint_manager *m)
{
    for (int i = 0; i < m->contents.count; i++)
        if (tr_map_put(&m->variable, m->contents.variables[i].name, (void *)(uintptr_t)&m->contents.variables[i]) != 0)
            return tr_fail(TR_ENOMEM, "no memory for the names of a checkpoint's variables");
    return TR_OK;
}

tr_status tr_checkpoint_manager_begin(tr_checkpoint_manager *manager, const tr_checkpoint_contents *contents)
{
    tr_checkpoint_manager *m = manager;

    m->contents = *contents;
    TR_TRY(index_variables(m));
    m->policy = (tr_policy){.period = 1};
    if (contents->mode)
        TR_TRY(tr_policy_parse(&m->policy, contents->mode));
    TR_TRY(ask_servers(m));
    if (tr__keeps_checkpoints(m))
        TR_TRY(refuse_empty(m));
    if (tr__keeps_checkpoints(m) && tr__is_first_trainer(m))
        TR_TRY(tr__checkpoints_claim(m, m->servers_have_state ? TR_ENTRY_JOIN : m->options.entry));
    if (!m->is_found)
        TR_TRY(find(m));
    m->steps_on_servers = m->resumed * m->policy.period;
    m->first = m->beginning.steps + m->steps_on_servers;
    m->first_run = m->beginning.runs + m->steps_on_servers;
    if (!tr__keeps_checkpoints(m))
        return TR_OK;
    if (m->job && tr__is_first_trainer(m) && !m->servers_have_state)
        tr_beginning_write(m->options.folder, m->from);
    if (tr__is_first_trainer(m))
        say_begins(m);
    if (!m->from)
        open_for_statistics(m);
    else if (tr__is_first_trainer(m))
        TR_TRY(say_where(m));
    make_policy(m);
    return TR_OK;
}

/* == values ====================================================================================== */

/* Where the servers hold newer parameters, what a trainer had accumulated for older ones would count twice. So only statistics of which all
 * trainers have one value are taken then. */
static bool takes(const tr_checkpoint_manager *m, const tr_checkpoint_variable *v)
{
    if (!m->from || v->kind == TR_STATE_TABLE || !tr_checkpoint_origin_takes(m->beginning.origin, v->kind, v->is_on_servers))
        return false;
    if (m->beginning.origin == TR_ORIGIN_SERVERS)
        return tr_checkpoint_find(m->from, v->name) >= 0;
    return !v->is_pulled || tr__is_first_trainer(m);
}

/* In a job that goes on from a checkpoint the servers read the variables that they keep. A trainer pulls those later, so it does not read
 * them. Trainer 0 checks that they fit. */
static bool only_servers_read(const tr_checkpoint_manager *m, const tr_checkpoint_variable *v)
{
    return m->job && m->beginning.checkpoint && v->is_on_servers && v->is_pulled;
}

bool tr_checkpoint_manager_has_old(const tr_checkpoint_manager *manager, const char *name)
{
    const tr_checkpoint_variable *v = tr__checkpoint_variable(manager, name);
    return v && manager->beginning.origin == TR_ORIGIN_SERVERS && takes(manager, v);
}

int64_t tr__checkpoints_updates_of(const tr_checkpoint_manager *m, const char *table)
{
    const int    index = tr_checkpoint_find_table(m->from, table);
    tr_job_table found;
    int64_t      rows;

    if (index < 0)
        return 0;
    tr_checkpoint_table(&found, &rows, m->from, index);
    return found.updates;
}

/* In a job the servers have read the rows: then only check that they fit. */
static tr_status load_table(const tr_checkpoint_manager *m, const char *name)
{
    const int index = tr_checkpoint_find_table(m->from, name);

    if (index < 0)
        return tr_fail(TR_ENOTFOUND,
                       "the checkpoint '%s' of step %lld has no sparse table '%s', which the program keeps: was it written by another "
                       "program?",
                       tr_checkpoint_folder(m->from), (long long)tr_checkpoint_step(m->from), name);
    const tr_status status = (m->job ? tr_checkpoint_check_table : tr_checkpoint_load_table)(m->contents.scope, m->from, index);
    return status == TR_OK ? TR_OK
                           : tr_context(status, "for the sparse table '%s' of the checkpoint '%s'", name, tr_checkpoint_folder(m->from));
}

static tr_status load_tables(const tr_checkpoint_manager *m)
{
    for (int i = 0; i < m->contents.count && m->beginning.checkpoint && tr__is_first_trainer(m); i++)
        if (m->contents.variables[i].kind == TR_STATE_TABLE)
            TR_TRY(load_table(m, m->contents.variables[i].name));
    return TR_OK;
}

/* scope NULL: only check that the values fit, those of the servers, too. */
static tr_status load_values(tr_scope *scope, const tr_checkpoint_manager *m)
{
    const tr_checkpoint_contents *c = &m->contents;
    const int    trainer = m->job ? tr_job_index(m->job) : 0, trainers = m->job ? tr_job_trainers(m->job) : 1;
    const char **names = tr__must_array((size_t)c->count + 1, sizeof *names);
    int          count = 0;

    for (int i = 0; i < c->count; i++)
        if (takes(m, &c->variables[i]) && !(scope && only_servers_read(m, &c->variables[i])))
            names[count++] = c->variables[i].name;
    const tr_status status = count ? tr_checkpoint_restore(scope, m->from, c->program, count, names, trainer, trainers) : TR_OK;
    free(names);
    return status;
}

tr_status tr_checkpoint_manager_load(tr_checkpoint_manager *manager)
{
    TR_TRY(load_values(NULL, manager));
    TR_TRY(load_tables(manager));
    return load_values(manager->contents.scope, manager);
}
