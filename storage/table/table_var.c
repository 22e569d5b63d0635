#include "storage/table/table_var.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void free_files(tr_table_files *files)
{
    for (int i = 0; files && i < files->count; i++)
        free((void *)(uintptr_t)files->file[i].path);
    if (files)
        free(files->file);
    free(files);
}

void tr_table_var_read_later(tr_table_var *tv, tr_table_files *files)
{
    tr_table_free(tv->table);
    tv->table = NULL;
    free_files(tv->files);
    tv->files = files;
}

static void free_table_var(void *object)
{
    tr_table_var *tv = object;

    tr_table_free(tv->table);
    free_files(tv->files);
    tr_mapped_table_free(tv->mapped);
    tr_table_tile_free(tv->tile);
    tr_rows_merge_deinit(&tv->merge);
    tr__weak_release(tv->job);
    free(tv->name);
    free(tv->spill);
    free(tv);
}

tr_status tr_table_var_set(tr_var *var, const tr_table_config *config, const tr_table_segment *place)
{
    TR_TRY(tr_table_check_config(config));
    tr_table_var *tv = calloc(1, sizeof *tv);
    if (!tv)
        return tr_fail(TR_ENOMEM, "table: no memory");
    tv->config = *config;
    tv->place = *place;
    tv->name = place->name ? tr__must_strdup(place->name) : NULL;
    tv->place.name = tv->name;
    tv->spill = place->spill ? tr__must_strdup(place->spill) : NULL;
    tv->place.spill = tv->spill;
    tr__var_set_object(var, TR_KIND_RAW, tv, free_table_var);
    return TR_OK;
}

tr_status tr_table_var_map(tr_var *var, tr_mapped_table *mapped)
{
    const tr_table_segment here = {.shard_count = TR_SHARDS};
    const tr_status      status = tr_table_var_set(var, tr_mapped_table_config(mapped), &here);

    if (status == TR_OK)
        ((tr_table_var *)var->object)->mapped = mapped;
    else
        tr_mapped_table_free(mapped);
    return status;
}

tr_status tr_table_var_bind(tr_var *var, const tr_table_config *config, const tr_table_source *source, tr_weak *job, int number)
{
    const tr_table_segment here = {.shard_count = TR_SHARDS};

    TR_TRY(tr_table_var_set(var, config, &here));
    tr_table_var *tv = var->object;
    tv->source = source;
    tv->job = tr__weak_retain(job);
    tv->number = number;
    return TR_OK;
}

static bool is_table(const tr_var *var)
{
    return var && var->kind == TR_KIND_RAW && var->object_free == free_table_var;
}

tr_table_segment tr_table_var_place(const tr_var *var)
{
    return is_table(var) ? ((const tr_table_var *)var->object)->place : (tr_table_segment){.shard_count = TR_SHARDS};
}

bool tr_table_var_is_bound(const tr_var *var)
{
    return is_table(var) && ((const tr_table_var *)var->object)->source;
}

tr_status tr_table_var_job(struct tr_job **out, const tr_table_var *tv)
{
    *out = tr__weak_object(tv->job);
    return *out ? TR_OK : tr_fail(TR_EINVAL, "the rows of a sparse table are with the servers of a job that is over, or in which this process, a forked child, "
                                  "takes no part");
}

tr_status tr_table_var_of(tr_table_var **out, tr_var *var, const char *op, const char *name)
{
    if (!is_table(var))
        return tr_fail(TR_ENOTFOUND, "%s: '%s' is no sparse table yet: run the startup program first", op, name);
    *out = var->object;
    return TR_OK;
}

void tr_table_var_describe(tr_job_table *out, const tr_table_var *tv, const char *name)
{
    const tr_table_config *c = &tv->config;

    *out = (tr_job_table){.name = name,
                          .dtype = c->dtype,
                          .width = c->width,
                          .states = c->states,
                          .init = (int)c->init,
                          .a = c->a,
                          .b = c->b,
                          .random_key = c->random_key,
                          .entry_count = c->entry_count,
                          .entry_probability = c->entry_probability,
                          .max_age = c->max_age,
                          .keep_count = c->keep_count,
                          .max_rows = (int64_t)c->max_rows,
                          .updates = (int64_t)tv->updates,
                          .first_rows = tv->table,
                          .first_files = tv->files};
    memcpy(out->state_value, c->state_value, sizeof c->state_value);
}

tr_table_config tr_table_config_of(const tr_job_table *table)
{
    tr_table_config config = {
        .dtype = table->dtype, .width = table->width, .states = table->states, .init = (tr_table_init)table->init, .a = table->a,
        .b = table->b, .random_key = table->random_key, .entry_count = (uint32_t)table->entry_count,
        .entry_probability = table->entry_probability, .max_age = (uint32_t)table->max_age,
        .keep_count = (uint32_t)table->keep_count, .max_rows = (uint64_t)table->max_rows};

    memcpy(config.state_value, table->state_value, sizeof config.state_value);
    return config;
}

tr_status tr_table_var_attach(tr_table_var *tv, uint64_t updates)
{
    tv->updates = updates;
    return tr_table_attach(&tv->table, &tv->config, &tv->place, updates);
}

static tr_status make_table(tr_table_var *tv)
{
    tr_table *table;

    TR_TRY(tr_table_create(&table, &tv->config, &tv->place));
    tr_table_go_back(table, tv->updates);              /* its clock begins there */
    const tr_status status = tv->files ? tv->files->read(table, tv->files) : TR_OK;
    if (status != TR_OK) {
        tr_table_free(table);
        return status;
    }
    tr_table_var_read_later(tv, NULL);
    tv->table = table;
    return TR_OK;
}

tr_status tr_table_var_table(tr_table **out, tr_table_var *tv)
{
    if (tv->mapped)
        return tr_fail(TR_EUNSUPPORTED, "a sparse table whose rows lie in files can only be looked up");
    if (tv->source)
        return tr_fail(TR_EUNSUPPORTED, "a sparse table whose rows are with the servers of a job has none here");
    if (!tv->table)
        TR_TRY(make_table(tv));
    *out = tv->table;
    return TR_OK;
}
