/* partition.c - see partition.h. */
#include "trainer/job/partition.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/scope.h"
#include "pserver/trireme_rows.h"
#include "storage/table/table_var.h"
#include "trainer/checkpoints/checkpoint_setup.h"
#include "trainer/job/accumulators.h"

/* == memory of variables ========================================================================= */

static tr_status find_tensor(tr_tensor **out, const tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find(scope, name);

    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value yet: run the startup program before the first step", name);
    *out = &var->tensor;
    return TR_OK;
}

static int64_t bytes_of_row(const tr_tensor *t)
{
    const int64_t rows = t->shape.rank ? t->shape.dim[0] : 1;
    return rows ? tr_tensor_bytes(t) / rows : 0;
}

/* Find the memory of `bytes` bytes of a variable, from a row on. */
static tr_status find_rows(char **out, const tr_scope *scope, const char *name, int64_t begin, int64_t bytes)
{
    tr_tensor *t = NULL;

    TR_TRY(find_tensor(&t, scope, name));
    const int64_t rows = t->shape.rank ? t->shape.dim[0] : 1, row = bytes_of_row(t);
    if (begin < 0 || begin > rows || bytes < 0 || bytes > (rows - begin) * row)
        return tr_fail(TR_ESHAPE, "'%s' has %lld rows of %lld bytes; the job speaks of %lld bytes from row %lld on", name, (long long)rows,
                       (long long)row, (long long)bytes, (long long)begin);
    *out = (char *)t->data + begin * row;
    return TR_OK;
}

/* == joining ===================================================================================== */

/* The first values of the servers are parts of the variables that the startup program made here. */
static tr_status fill_value(tr_job_value *value, tr_scope *scope, const tr_partition_rows *rows, int64_t *dims)
{
    tr_tensor *t = NULL;
    char      *data;

    TR_TRY(find_tensor(&t, scope, rows->source));
    memcpy(dims, t->shape.dim, (size_t)t->shape.rank * sizeof *dims);
    value->dtype = t->dtype;
    value->rank = t->shape.rank;
    value->dims = dims;
    value->data = t->data;
    if (rows->begin < 0)
        return TR_OK;
    if (!t->shape.rank || rows->end > dims[0])
        return tr_fail(TR_ESHAPE, "'%s' is %s; the job speaks of rows %lld to %lld", rows->source, TR_SHAPE_STR(t->shape),
                       (long long)rows->begin, (long long)rows->end);
    TR_TRY(find_rows(&data, scope, rows->source, rows->begin, (rows->end - rows->begin) * bytes_of_row(t)));
    if (!value->for_trainers) {                        /* a checkpoint joins the parts */
        value->row = rows->begin;
        value->rows = dims[0];
    }
    dims[0] = rows->end - rows->begin;
    value->data = data;
    return TR_OK;
}

/* The lists that a spec points into while a trainer joins. */
typedef struct lists {
    tr_job_value       *values;
    int64_t           (*dims)[TR_MAX_RANK];
    tr_job_table       *tables;
    tr_checkpoint_item *own;
} lists;

static tr_status fill_spec(tr_job_spec *spec, lists *l, const tr_partition *p, tr_checkpoint_manager *manager, tr_scope *scope,
                           tr_program *program)
{
    for (int i = 0; i < p->table_count; i++) {
        TR_TRY(tr_job_describe_table(&l->tables[i], scope, p->tables[i]));
        tr_checkpoint_setup_table(&l->tables[i], manager);
    }
    for (int i = 0; i < spec->value_count; i++) {
        l->values[i] = p->spec.values[i];
        TR_TRY(fill_value(&l->values[i], scope, &p->value_rows[i], l->dims[i]));
        if (!l->values[i].for_trainers)
            tr_checkpoint_setup_value(&l->values[i], p->value_rows[i].source, manager);
    }
    spec->table_count = p->table_count;
    spec->tables = l->tables;
    spec->values = l->values;
    TR_TRY(tr_accumulators_list(&l->own, &spec->own_count, program, scope));
    spec->own = l->own;
    return TR_OK;
}

/* The rows lie with the servers as the startup program says of this process. */
static tr_status spill(tr_job *job, const tr_scope *scope, const char *table)
{
    const tr_table_segment place = tr_table_var_place(tr_scope_find(scope, table));

    return place.spill ? tr_job_spill_table(job, table, (int64_t)place.memory, place.spill) : TR_OK;
}

static tr_status set_up(lists *l, const tr_partition *p, tr_job *job, tr_checkpoint_manager *manager, tr_scope *scope, tr_program *program)
{
    tr_job_spec spec = p->spec;

    TR_TRY(fill_spec(&spec, l, p, manager, scope, program));
    tr_checkpoint_setup_fill(&spec, manager);
    for (int i = 0; i < p->table_count; i++)
        TR_TRY(spill(job, scope, p->tables[i]));
    TR_TRY(tr_job_setup(job, &spec));
    for (int i = 0; i < p->table_count; i++)
        TR_TRY(tr_job_bind_table(job, scope, &l->tables[i]));
    return TR_OK;
}

tr_status tr_partition_join(const tr_partition *partition, tr_job *job, tr_checkpoint_manager *manager, tr_scope *scope,
                            tr_program *program)
{
    const size_t values = (size_t)partition->spec.value_count + 1;
    lists        l = {.values = tr__must_array(values, sizeof *l.values), .dims = tr__must_array(values, sizeof *l.dims),
                      .tables = tr__must_array((size_t)partition->table_count + 1, sizeof *l.tables)};

    const tr_status status = set_up(&l, partition, job, manager, scope, program);
    free(l.values);
    free(l.dims);
    free(l.tables);
    free(l.own);
    return status;
}

/* == parameters ================================================================================== */

static tr_status pull(int *blocks, void **places, const tr_partition *p, tr_job *job, const tr_scope *scope, bool keeps_set)
{
    tr_ticket ticket;
    int       count = 0;

    for (int i = 0; i < p->spec.block_count; i++) {
        const tr_partition_rows *rows = &p->block_rows[i];
        char                    *place;
        if (keeps_set && tr_job_is_set(job, rows->source))
            continue;
        TR_TRY(find_rows(&place, scope, rows->source, rows->begin, p->spec.blocks[i].bytes));
        places[count] = place;
        blocks[count++] = i;
    }
    TR_TRY(tr_job_pull(job, count, blocks, places, &ticket));
    TR_TRY(tr_job_wait(job, ticket));
    for (int i = 0; keeps_set && i < count; i++)
        tr_job_unset(job, p->block_rows[blocks[i]].source);        /* the pull has set it */
    return TR_OK;
}

tr_status tr_partition_pull(const tr_partition *partition, tr_job *job, tr_scope *scope, bool keeps_set)
{
    int   *blocks = tr__must_array((size_t)partition->spec.block_count + 1, sizeof *blocks);
    void **places = tr__must_array((size_t)partition->spec.block_count + 1, sizeof *places);

    const tr_status status = pull(blocks, places, partition, job, scope, keeps_set);
    free(blocks);
    free(places);
    return status;
}
