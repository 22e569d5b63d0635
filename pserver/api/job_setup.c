/* job_setup.c - the setup that trainers send to the servers. */
#include "pserver/api/job_setup.h"

#include "framework/base/memory.h"
#include "pserver/api/job_compress.h"
#include "pserver/api/job_facts.h"
#include "pserver/api/job_tables.h"
#include "pserver/core/base/roster.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/store/server_part.h"
#include "pserver/store/table_places.h"
#include "storage/table/table_var.h"

#include "proto/pserver.pb-c.h"

#include <stdlib.h>

/* == checks ====================================================================================== */

static tr_status check_blocks(const tr_job *job, const tr_job_spec *spec)
{
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *b = &spec->blocks[i];
        if (!b->param || !b->grad)
            return tr_fail(TR_EINVAL, "tr_job_setup: block %d has no name", i);
        if (b->server < 0 || b->server >= tr_job_servers(job))
            return tr_fail(TR_ERANGE, "tr_job_setup: block '%s' on server %d; there are %d servers", b->param, b->server,
                           tr_job_servers(job));
        if (b->dtype != TR_FP32 && b->dtype != TR_FP64)
            return tr_fail(TR_EDTYPE, "tr_job_setup: block '%s' is %s; float32 and float64 are possible", b->param,
                           tr_dtype_name(b->dtype));
        if (b->bytes <= 0 || b->bytes % tr_dtype_size(b->dtype))
            return tr_fail(TR_ESHAPE, "tr_job_setup: block '%s' has %lld bytes", b->param, (long long)b->bytes);
    }
    return TR_OK;
}

/* TR_EUNSUPPORTED names a table with rows on disk in a job whose trainers have rows of their own. */
static tr_status check_spill(const tr_policy *policy, const tr_job *job, const tr_job_spec *spec)
{
    for (int i = 0; i < spec->table_count; i++) {
        const tr_job_table  *t = &spec->tables[i];
        const tr__job_spill *own = tr__job_spill_of(job, t->name);
        const char          *every = tr_table_spill_folder(), *folder = every ? every : own ? own->folder : NULL;
        if (folder && policy->trains_copies)
            return tr_fail(TR_EUNSUPPORTED, "table '%s' has rows on disk (spill='%s'), which does not work with modes geo and average yet: "
                           "leave out one or the other", t->name, folder);
    }
    return TR_OK;
}

tr_status tr__job_check_spec(tr_policy *policy, const tr_job *job, const tr_job_spec *spec)
{
    tr_compress compress;

    TR_TRY(tr_compress_parse(&compress, tr__job_compress_text(spec)));
    TR_TRY(tr_policy_parse(policy, spec->mode ? spec->mode : ""));
    if (spec->program_count != tr_job_servers(job))
        return tr_fail(TR_EINVAL, "tr_job_setup: %d programs for %d servers", spec->program_count, tr_job_servers(job));
    for (int i = 0; i < spec->value_count; i++)
        if (spec->values[i].server < 0 || spec->values[i].server >= tr_job_servers(job))
            return tr_fail(TR_ERANGE, "tr_job_setup: first value of '%s' for server %d; there are %d servers",
                           spec->values[i].name, spec->values[i].server, tr_job_servers(job));
    TR_TRY(tr__job_check_tables(spec));
    TR_TRY(check_spill(policy, job, spec));
    for (int i = 0; i < spec->value_count; i++) {
        const tr_job_value *v = &spec->values[i];
        const bool          has_rows = v->rank > 0 && v->row >= 0 && v->rows >= v->row && v->dims[0] <= v->rows - v->row;
        if (v->source && ((unsigned)v->state >= TR_STATE_TABLE || (v->rows && !has_rows)))
            return tr_fail(TR_ERANGE, "tr_job_setup: '%s' is of kind %d and begins at row %lld of the %lld of '%s'", v->name,
                           (int)v->state, (long long)v->row, (long long)v->rows, v->source);
    }
    return check_blocks(job, spec);
}

/* == messages ==================================================================================== */

static int64_t value_bytes(const tr_job_value *value)
{
    int64_t bytes = tr_dtype_size(value->dtype);

    for (int i = 0; i < value->rank; i++)
        bytes *= value->dims[i];
    return bytes;
}

static Trireme__Pserver__Block *make_block(const tr_job_block *from)
{
    Trireme__Pserver__Block *to = tr__must_alloc(sizeof *to);

    trireme__pserver__block__init(to);
    to->param = (char *)(uintptr_t)from->param;
    to->grad = (char *)(uintptr_t)from->grad;
    to->dtype = (uint32_t)from->dtype;
    to->bytes = (uint64_t)from->bytes;
    to->has_is_number = to->is_number = from->is_exact;
    return to;
}

static Trireme__Pserver__Value *make_value(const tr_job_value *from)
{
    Trireme__Pserver__Value *to = tr__must_alloc(sizeof *to);

    trireme__pserver__value__init(to);
    to->name = (char *)(uintptr_t)from->name;
    to->dtype = (uint32_t)from->dtype;
    to->n_dims = (size_t)from->rank;
    to->dims = (int64_t *)(uintptr_t)from->dims;
    to->bytes = (uint64_t)value_bytes(from);
    to->source = (char *)(uintptr_t)from->source;
    to->owner = (char *)(uintptr_t)from->param;
    to->has_state = from->source != NULL;
    to->state = (uint32_t)from->state;
    to->has_row = to->has_rows = from->rows > 0;
    to->row = (uint64_t)from->row;
    to->rows = (uint64_t)from->rows;
    to->has_is_restored = to->is_restored = from->is_restored;
    return to;
}

static Trireme__Pserver__Table *make_table(const tr_job *job, const tr_job_table *from, int server)
{
    const int                servers = tr_job_servers(job);
    Trireme__Pserver__Table *to = tr__must_alloc(sizeof *to);

    trireme__pserver__table__init(to);
    to->name = (char *)(uintptr_t)from->name;
    to->dtype = (uint32_t)from->dtype;
    to->width = from->width;
    to->n_state_values = (size_t)from->states;
    to->state_values = (float *)(uintptr_t)from->state_value;
    to->init = (uint32_t)from->init;
    to->a = from->a;
    to->b = from->b;
    to->random_key = from->random_key;
    to->has_entry_count = to->has_entry_probability = to->has_max_age = to->has_keep_count = to->has_max_rows = 1;
    to->entry_count = (uint32_t)from->entry_count;
    to->entry_probability = from->entry_probability;
    to->max_age = (uint32_t)from->max_age;
    to->keep_count = (uint32_t)from->keep_count;
    to->max_rows = (uint64_t)from->max_rows;
    to->has_updates = from->updates > 0;
    to->updates = (uint64_t)from->updates;
    to->first_shard = tr_first_shard(server, servers);
    to->shard_count = tr_first_shard(server + 1, servers) - to->first_shard;
    const tr__job_spill *spill = tr__job_spill_of(job, from->name);
    to->has_memory = spill != NULL;
    to->memory = spill ? spill->memory : 0;
    to->spill = spill ? spill->folder : NULL;
    return to;
}

/* Fill in the blocks, values and tables of server `server`. */
static void make_lists(Trireme__Pserver__Setup *setup, const tr_job *job, const tr_job_spec *spec, int server)
{
    setup->blocks = tr__must_alloc((size_t)spec->block_count * sizeof *setup->blocks);
    setup->values = tr__must_alloc((size_t)spec->value_count * sizeof *setup->values);
    setup->tables = tr__must_alloc((size_t)spec->table_count * sizeof *setup->tables);
    for (int i = 0; i < spec->block_count; i++)
        if (spec->blocks[i].server == server)
            setup->blocks[setup->n_blocks++] = make_block(&spec->blocks[i]);
    for (int i = 0; i < spec->value_count; i++)
        if (spec->values[i].server == server)
            setup->values[setup->n_values++] = make_value(&spec->values[i]);
    for (int i = 0; i < spec->table_count; i++)
        setup->tables[setup->n_tables++] = make_table(job, &spec->tables[i], server);
}

static void free_lists(Trireme__Pserver__Setup *setup)
{
    for (size_t i = 0; i < setup->n_blocks; i++)
        free(setup->blocks[i]);
    for (size_t i = 0; i < setup->n_values; i++)
        free(setup->values[i]);
    for (size_t i = 0; i < setup->n_tables; i++)
        free(setup->tables[i]);
    free(setup->blocks);
    free(setup->values);
    free(setup->tables);
}

static void pack_setup(tr_client_setup *out, const tr_job *job, const tr_job_spec *spec, int server)
{
    Trireme__Pserver__Setup setup = TRIREME__PSERVER__SETUP__INIT;

    make_lists(&setup, job, spec, server);
    setup.mode = (char *)(uintptr_t)spec->mode;
    setup.compress = (char *)(uintptr_t)tr__job_compress_text(spec);
    setup.chunk_bytes = (uint64_t)job->rank.options.chunk_bytes;
    setup.program.data = (uint8_t *)(uintptr_t)spec->programs[server].bytes;
    setup.program.len = spec->programs[server].size;
    setup.has_tasks = server == 0 && spec->tasks;
    setup.tasks.data = (uint8_t *)(uintptr_t)spec->tasks;
    setup.tasks.len = setup.has_tasks ? spec->tasks_size : 0;
    setup.has_restores = spec->restores;
    setup.restores = spec->restored;
    setup.has_keeps = true;
    setup.keeps = spec->checkpoints != NULL;
    out->setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    out->setup = tr__must_alloc(out->setup_bytes);
    trireme__pserver__setup__pack(&setup, out->setup);
    free_lists(&setup);
}

/* Attach the first values of server `server`; they follow the setup in its order. Returns their number. */
static uint32_t list_values(tr_client_value *to, const tr_job_spec *spec, int server)
{
    uint32_t count = 0;

    for (int i = 0; i < spec->value_count; i++)
        if (spec->values[i].server == server)
            to[count++] = (tr_client_value){spec->values[i].data,
                                            spec->values[i].is_restored ? 0 : (uint64_t)value_bytes(&spec->values[i])};
    return count;
}

/* Add the parts of the setup that only trainer 0 sends. */
static tr_status add_setups(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec)
{
    tr_client_value *values = out->value = tr__must_array((size_t)spec->value_count + 1, sizeof *values);
    tr_client_pack  *rows = out->rows = tr__must_array((size_t)spec->table_count * 2 * TR_SHARDS + 2, sizeof *rows);
    uint64_t         step;
    const bool       sends_rows = spec->table_count && !spec->restores && !tr_client_resumes(tr__rank_client(&job->rank), &step);

    for (int s = 0; s < out->servers; s++) {
        tr_client_setup *to = &out->server[s];
        pack_setup(to, job, spec, s);
        to->values = values;
        to->value_count = list_values(values, spec, s);
        values += to->value_count;
        for (int i = 0; i < spec->table_count && sends_rows && s == 0; i++)
            out->files += spec->tables[i].first_files ? ((const tr_table_files *)spec->tables[i].first_files)->count : 0;
        const int packs = sends_rows ? tr__job_pack_rows(rows, spec, s, out->servers) : 0;
        if (packs < 0)
            return TR_ENOMEM;                      /* tr_error() has the text already */
        to->rows = rows;
        to->row_count = (uint32_t)packs;
        rows += packs;
    }
    return TR_OK;
}

static tr_status make_setup(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec, const tr__facts *facts)
{
    out->servers = tr_job_servers(job);
    out->server = tr__must_array((size_t)out->servers, sizeof *out->server);
    out->block_count = (uint32_t)spec->block_count;
    out->block = tr__must_array((size_t)spec->block_count + (size_t)spec->value_count + 1, sizeof *out->block);
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *b = &spec->blocks[i];
        out->block[i] = (tr_client_block){b->server, (uint64_t)b->bytes, job->rounds && !b->is_exact && b->dtype == TR_FP32,
                                           b->dtype == TR_FP64};
    }
    for (int i = 0; i < spec->value_count; i++)
        out->block[out->block_count++] = (tr_client_block){spec->values[i].server, (uint64_t)value_bytes(&spec->values[i])};
    out->width = tr__must_array((size_t)spec->table_count + 1, sizeof *out->width);
    for (int i = 0; i < spec->table_count; i++)
        out->width[out->table_count++] = spec->tables[i].width;
    for (int s = 0; s < out->servers; s++)
        tr__facts_pack(&out->server[s], facts);
    return tr_job_index(job) == 0 ? add_setups(out, job, spec) : TR_OK;
}

tr_status tr__job_make_setup(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec)
{
    tr__facts facts = {0};
    tr_status status;

    out->policy = &job->policy;
    out->compress = &job->compress;
    status = tr__facts_collect(&facts, job, spec);
    if (status == TR_OK)
        status = make_setup(out, job, spec, &facts);
    if (status != TR_OK)
        tr__job_free_setup(out, false);
    tr__facts_deinit(&facts);
    return status;
}

void tr__job_free_setup(tr__setup_call *setup, bool is_handed_over)
{
    for (int s = 0; !is_handed_over && s < setup->servers; s++) {
        free(setup->server[s].setup);
        free(setup->server[s].join);
        for (uint32_t i = 0; i < setup->server[s].row_count; i++)
            free(setup->server[s].rows[i].data);
    }
    free(setup->rows);
    free(setup->server);
    free(setup->block);
    free(setup->width);
    free(setup->value);
}
