/* checkpoint_setup.c - see checkpoint_setup.h. */
#include "trainer/checkpoints/checkpoint_setup.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "trainer/checkpoints/checkpoint_manager_state.h"

/* All trainers go on from the same checkpoint. A replacement does not know it, and missing facts are not compared. */
static void add_facts(tr_checkpoint_manager *m, tr_job_spec *spec)
{
    m->facts = tr__must_array((size_t)spec->fact_count + 2, sizeof *m->facts);
    memcpy(m->facts, spec->facts, (size_t)spec->fact_count * sizeof *m->facts);
    m->folder_text = tr__checkpoints_absolute(m->options.folder);
    m->origin_text = tr_checkpoint_origin_text(m->beginning.checkpoint);
    if (!tr_job_is_replacement(m->job))
        m->facts[spec->fact_count++] = (tr_job_fact){"goes on from", m->origin_text};
    m->facts[spec->fact_count++] = (tr_job_fact){"checkpoints", m->folder_text};
    spec->facts = m->facts;
}

void tr_checkpoint_setup_value(tr_job_value *value, const char *source, const tr_checkpoint_manager *manager)
{
    const tr_checkpoint_variable *v = tr__checkpoint_variable(manager, source);

    if (!v)
        return;
    value->source = source;
    value->param = v->param;
    value->state = v->kind;
    value->is_restored = manager->beginning.checkpoint && v->is_on_servers;
}

void tr_checkpoint_setup_table(tr_job_table *table, const tr_checkpoint_manager *manager)
{
    if (!manager->beginning.checkpoint)
        return;
    table->first_rows = NULL;
    table->updates = tr__checkpoints_updates_of(manager, table->name);
}

void tr_checkpoint_setup_fill(tr_job_spec *spec, tr_checkpoint_manager *manager)
{
    const tr_checkpoint_beginning *b = &manager->beginning;

    spec->first_step = b->steps;
    spec->first_run = b->runs;
    if (b->checkpoint && !manager->steps_on_servers) {
        spec->first_position = b->position;
        spec->first_position_size = b->position_size;
    }
    spec->restores = b->checkpoint != NULL;
    spec->restored = b->checkpoint ? tr_checkpoint_number(b->checkpoint) : 0;
    if (!tr__keeps_checkpoints(manager))
        return;
    add_facts(manager, spec);
    spec->checkpoints = manager->options.folder;
    if (b->checkpoint && tr__is_first_trainer(manager))
        spec->tasks = tr_checkpoint_tasks(&spec->tasks_size, b->checkpoint);
}
