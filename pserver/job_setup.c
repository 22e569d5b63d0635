/* job_setup.c - what the servers are told, and the facts that all trainers must agree on. */
#include "framework/program.h"
#include "pserver/job.h"
#include "pserver/mode.h"
#include "pserver/slots.h"

#include "proto/pserver.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

tr_status tr__job_check_spec(const tr_job *job, const tr_job_spec *spec)
{
    tr_mode     mode;
    tr_compress compress;

    TR_TRY(tr_compress_parse(&compress, tr__job_compress_word(spec)));
    TR_TRY(tr_mode_parse(&mode, spec->mode ? spec->mode : ""));
    if (spec->program_count != tr_job_servers(job))
        return tr_fail(TR_EINVAL, "tr_job_setup: %d programs for %d servers", spec->program_count, tr_job_servers(job));
    for (int i = 0; i < spec->value_count; i++)
        if (spec->values[i].server < 0 || spec->values[i].server >= tr_job_servers(job))
            return tr_fail(TR_ERANGE, "tr_job_setup: first value of '%s' for server %d; there are %d servers",
                           spec->values[i].name, spec->values[i].server, tr_job_servers(job));
    TR_TRY(tr__job_check_tables(spec));
    for (int i = 0; i < spec->value_count; i++) {
        const tr_job_value *v = &spec->values[i];
        const bool          has_rows = v->rank > 0 && v->row >= 0 && v->rows >= v->row && v->dims[0] <= v->rows - v->row;
        if (v->source && ((unsigned)v->state >= TR_STATE_TABLE || (v->rows && !has_rows)))
            return tr_fail(TR_ERANGE, "tr_job_setup: '%s' is of kind %d and begins at row %lld of the %lld of '%s'", v->name,
                           (int)v->state, (long long)v->row, (long long)v->rows, v->source);
    }
    return check_blocks(job, spec);
}

/* == facts ======================================================================================= */

typedef struct facts {
    size_t                   count, capacity;
    Trireme__Pserver__Fact **item;
} facts;

static void add_fact(facts *f, const char *key, const char *value)
{
    Trireme__Pserver__Fact *fact = malloc(sizeof *fact);

    trireme__pserver__fact__init(fact);
    fact->key = strdup(key);
    fact->value = strdup(value);
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 32;
        f->item = realloc(f->item, f->capacity * sizeof(void *));
    }
    f->item[f->count++] = fact;
}

static void free_facts(facts *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->item[i]->key);
        free(f->item[i]->value);
        free(f->item[i]);
    }
    free(f->item);
}

/* FNV-1a */
static uint64_t digest(const uint8_t *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

static tr_status add_program(facts *f, int server, const tr_job_program *bytes)
{
    char        key[64], value[512];
    tr_program *program;

    TR_TRY(tr_program_parse(&program, bytes->bytes, bytes->size));
    tr_block *global = tr_program_block(program, 0);
    for (int i = 0; i < tr_block_op_count(global); i++) {
        snprintf(key, sizeof key, "operator %d of server %d", i, server);
        char *text = tr__op_desc_to_string(tr_block_op_at(global, i));
        snprintf(value, sizeof value, "%s", text ? text : "");       /* a diff needs no more; the digest has all */
        free(text);
        add_fact(f, key, value);
    }
    tr_program_free(program);
    snprintf(key, sizeof key, "program of server %d", server);
    snprintf(value, sizeof value, "%zu bytes, digest %016" PRIx64, bytes->size, digest(bytes->bytes, bytes->size));
    add_fact(f, key, value);
    return TR_OK;
}

static tr_status collect_facts(facts *f, const tr_job *job, const tr_job_spec *spec)
{
    char key[64], value[768];

    add_fact(f, "mode", spec->mode);
    add_fact(f, "compression", tr__job_compress_word(spec));
    snprintf(value, sizeof value, "%lld", (long long)job->options.chunk_bytes);
    add_fact(f, "chunk_bytes", value);
    snprintf(value, sizeof value, "%d", spec->block_count);
    add_fact(f, "blocks", value);
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *b = &spec->blocks[i];
        snprintf(key, sizeof key, "block %d", i);
        snprintf(value, sizeof value, "%.300s (%.300s), %s, %lld bytes on server %d", b->param, b->grad,
                 tr_dtype_name(b->dtype), (long long)b->bytes, b->server);
        add_fact(f, key, value);
    }
    for (int i = 0; i < spec->table_count; i++) {
        const tr_job_table *t = &spec->tables[i];
        snprintf(key, sizeof key, "table %d", i);
        snprintf(value, sizeof value, "%.300s, %s [%lld], %d states, first values %d (%.9g, %.9g) of key %016" PRIx64
                 ", entry %lld (%g), age %lld, %lld, at most %lld rows", t->name, tr_dtype_name(t->dtype), (long long)t->width,
                 t->states, t->init, t->a, t->b, t->random_key, (long long)t->entry_count, t->entry_probability,
                 (long long)t->max_age, (long long)t->keep_count, (long long)t->max_rows);
        add_fact(f, key, value);
    }
    for (int i = 0; i < spec->fact_count; i++)
        add_fact(f, spec->facts[i].key, spec->facts[i].value);
    for (int i = 0; i < spec->program_count; i++)
        TR_TRY(add_program(f, i, &spec->programs[i]));
    return TR_OK;
}

/* == messages ==================================================================================== */

static void pack_join(tr_client_setup *out, const facts *f)
{
    Trireme__Pserver__Join join = TRIREME__PSERVER__JOIN__INIT;

    join.n_facts = f->count;
    join.facts = f->item;
    out->join_bytes = trireme__pserver__join__get_packed_size(&join);
    out->join = malloc(out->join_bytes);
    trireme__pserver__join__pack(&join, out->join);
}

static int64_t value_bytes(const tr_job_value *value)
{
    int64_t bytes = tr_dtype_size(value->dtype);

    for (int i = 0; i < value->rank; i++)
        bytes *= value->dims[i];
    return bytes;
}

static void fill_table(Trireme__Pserver__Table *to, const tr_job_table *from, int server, int servers)
{
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
    to->first_shard = tr__job_first_shard(server, servers);
    to->shard_count = tr__job_first_shard(server + 1, servers) - to->first_shard;
}

/* What server `server` gets of the lists; `values` continues the list of all servers. */
static void pack_setup(tr_client_setup *out, tr_client_value *values, const tr_job *job, const tr_job_spec *spec, int server)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Block *block = calloc((size_t)spec->block_count + 1, sizeof *block);
    Trireme__Pserver__Value *value = calloc((size_t)spec->value_count + 1, sizeof *value);
    Trireme__Pserver__Table *table = calloc((size_t)spec->table_count + 1, sizeof *table);
    Trireme__Pserver__Table **tables = calloc((size_t)spec->table_count + 1, sizeof *tables);
    Trireme__Pserver__Block **blocks = calloc((size_t)spec->block_count + 1, sizeof *blocks);
    Trireme__Pserver__Value **firsts = calloc((size_t)spec->value_count + 1, sizeof *firsts);

    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *from = &spec->blocks[i];
        if (from->server != server)
            continue;
        Trireme__Pserver__Block *b = blocks[setup.n_blocks] = &block[setup.n_blocks];
        trireme__pserver__block__init(b);
        b->param = (char *)(uintptr_t)from->param;
        b->grad = (char *)(uintptr_t)from->grad;
        b->dtype = (uint32_t)from->dtype;
        b->bytes = (uint64_t)from->bytes;
        setup.n_blocks++;
    }
    for (int i = 0; i < spec->value_count; i++) {
        const tr_job_value *from = &spec->values[i];
        if (from->server != server)
            continue;
        Trireme__Pserver__Value *v = firsts[setup.n_values] = &value[setup.n_values];
        trireme__pserver__value__init(v);
        v->name = (char *)(uintptr_t)from->name;
        v->dtype = (uint32_t)from->dtype;
        v->n_dims = (size_t)from->rank;
        v->dims = (int64_t *)(uintptr_t)from->dims;
        v->bytes = (uint64_t)value_bytes(from);
        v->source = (char *)(uintptr_t)from->source;
        v->owner = (char *)(uintptr_t)from->param;
        v->has_state = from->source != NULL;
        v->state = (uint32_t)from->state;
        v->has_row = v->has_rows = from->rows > 0;
        v->row = (uint64_t)from->row;
        v->rows = (uint64_t)from->rows;
        values[setup.n_values++] = (tr_client_value){from->data, v->bytes};
    }
    setup.mode = (char *)(uintptr_t)spec->mode;
    setup.compress = (char *)(uintptr_t)tr__job_compress_word(spec);
    setup.chunk_bytes = (uint64_t)job->options.chunk_bytes;
    setup.program.data = (uint8_t *)(uintptr_t)spec->programs[server].bytes;
    setup.program.len = spec->programs[server].size;
    setup.blocks = blocks;
    setup.values = firsts;
    for (int i = 0; i < spec->table_count; i++)
        fill_table(tables[i] = &table[i], &spec->tables[i], server, tr_job_servers(job));
    setup.n_tables = (size_t)spec->table_count;
    setup.tables = tables;
    setup.has_tasks = server == 0 && spec->tasks;
    setup.tasks.data = (uint8_t *)(uintptr_t)spec->tasks;
    setup.tasks.len = setup.has_tasks ? spec->tasks_size : 0;
    setup.has_keeps = true;
    setup.keeps = spec->checkpoints != NULL;
    out->setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    out->setup = malloc(out->setup_bytes);
    trireme__pserver__setup__pack(&setup, out->setup);
    out->values = values;
    out->value_count = (uint32_t)setup.n_values;
    free(table);
    free(tables);
    free(block);
    free(value);
    free(blocks);
    free(firsts);
}

tr_status tr__job_make_setup(tr__setup_call *out, const tr_job *job, const tr_job_spec *spec)
{
    facts     f = {0};
    tr_mode   mode;
    TR_TRY(tr_mode_parse(&mode, spec->mode));
    tr_status status = collect_facts(&f, job, spec);

    if (status != TR_OK) {
        free_facts(&f);
        return status;
    }
    out->survives_trainers = tr_mode_survives_trainers(&mode);
    out->keeps_settled = !tr_mode_goes_back(&mode);
    out->servers = tr_job_servers(job);
    out->server = calloc((size_t)out->servers, sizeof *out->server);
    out->value = calloc((size_t)spec->value_count + 1, sizeof *out->value);
    out->block_count = (uint32_t)spec->block_count;
    out->block = calloc((size_t)spec->block_count + 1, sizeof *out->block);
    for (int i = 0; i < spec->block_count; i++)
        out->block[i] = (tr_client_block){spec->blocks[i].server, (uint64_t)spec->blocks[i].bytes};
    tr_client_value *values = out->value;
    uint64_t         step;
    const bool       sends_rows = tr_job_index(job) == 0 && spec->table_count && !tr_client_resumes(job->client, &step);
    out->rows = calloc((size_t)spec->table_count * 2 * TR_SHARDS + 2, sizeof *out->rows);
    tr_client_pack  *rows = out->rows;
    for (int s = 0; s < out->servers; s++) {
        pack_join(&out->server[s], &f);
        if (tr_job_index(job) == 0) {
            pack_setup(&out->server[s], values, job, spec, s);
            values += out->server[s].value_count;
        }
        const int packs = sends_rows ? tr__job_pack_rows(rows, spec, s, out->servers) : 0;
        if (packs < 0) {
            free_facts(&f);
            tr__job_free_setup(out, false);
            return TR_ENOMEM;                          /* the text is there */
        }
        out->server[s].rows = rows;
        out->server[s].row_count = (uint32_t)packs;
        rows += packs;
    }
    free_facts(&f);
    return TR_OK;
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
    free(setup->value);
}
