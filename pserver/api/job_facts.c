/* job_facts.c - see job_facts.h. */
#include "pserver/api/job_facts.h"

#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "framework/programs/program.h"
#include "pserver/api/job_compress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(tr__facts *f, const char *key, const char *value)
{
    Trireme__Pserver__Fact *fact = tr__must_bytes(sizeof *fact);

    trireme__pserver__fact__init(fact);
    fact->key = tr__must_strdup(key);
    fact->value = tr__must_strdup(value);
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 32;
        f->item = tr__must_realloc(f->item, f->capacity * sizeof(void *));
    }
    f->item[f->count++] = fact;
}

void tr__facts_deinit(tr__facts *f)
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

static tr_status add_program(tr__facts *f, int server, const tr_job_program *bytes)
{
    char        key[64], value[512];
    tr_program *program;

    TR_TRY(tr_program_parse(&program, bytes->bytes, bytes->size));
    tr_block *global = tr_program_block(program, 0);
    for (int i = 0; i < tr_block_op_count(global); i++) {
        snprintf(key, sizeof key, "operator %d of server %d", i, server);
        char *text = tr__op_desc_to_string(tr_block_op_at(global, i));
        snprintf(value, sizeof value, "%s", text ? text : "");       /* this much is enough to show a difference; the digest covers the
                                                                      * whole text */
        free(text);
        add(f, key, value);
    }
    tr_program_free(program);
    snprintf(key, sizeof key, "program of server %d", server);
    snprintf(value, sizeof value, "%zu bytes, digest %016" PRIx64, bytes->size, digest(bytes->bytes, bytes->size));
    add(f, key, value);
    return TR_OK;
}

tr_status tr__facts_collect(tr__facts *f, const tr_job *job, const tr_job_spec *spec)
{
    char key[64], value[768];

    add(f, "mode", spec->mode);
    add(f, "matmul precision of the process", tr_precision_name(tr_matmul_precision()));
    add(f, "compression", tr__job_compress_text(spec));
    add(f, "compression of parameters", tr__job_compress_parameters_text(spec));
    snprintf(value, sizeof value, "%lld", (long long)job->rank.options.chunk_bytes);
    add(f, "chunk_bytes", value);
    snprintf(value, sizeof value, "%d", spec->block_count);
    add(f, "blocks", value);
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *b = &spec->blocks[i];
        snprintf(key, sizeof key, "block %d", i);
        tr__format(value, sizeof value, "%.300s (%.300s), %s, %lld bytes on server %d", b->param, b->grad,
                 tr_dtype_name(b->dtype), (long long)b->bytes, b->server);
        add(f, key, value);
    }
    for (int i = 0; i < spec->table_count; i++) {
        const tr_job_table *t = &spec->tables[i];
        snprintf(key, sizeof key, "table %d", i);
        tr__format(value, sizeof value, "%.300s, %s [%lld], %d states, first values %d (%.9g, %.9g) of key %016" PRIx64
                 ", entry %lld (%g), age %lld, %lld, at most %lld rows", t->name, tr_dtype_name(t->dtype), (long long)t->width,
                 t->states, t->init, t->a, t->b, t->random_key, (long long)t->entry_count, t->entry_probability,
                 (long long)t->max_age, (long long)t->keep_count, (long long)t->max_rows);
        add(f, key, value);
    }
    for (int i = 0; i < spec->fact_count; i++)
        add(f, spec->facts[i].key, spec->facts[i].value);
    for (int i = 0; i < spec->program_count; i++)
        TR_TRY(add_program(f, i, &spec->programs[i]));
    return TR_OK;
}

void tr__facts_pack(tr_client_setup *out, const tr__facts *f)
{
    Trireme__Pserver__Join join = TRIREME__PSERVER__JOIN__INIT;

    join.n_facts = f->count;
    join.facts = f->item;
    out->join_bytes = trireme__pserver__join__get_packed_size(&join);
    out->join = tr__must_bytes(out->join_bytes);
    trireme__pserver__join__pack(&join, out->join);
}
