/* rows_ops.c - the operators by which a trainer and the servers exchange rows of sparse tables: prefetch, pull_sparse, push_sparse.
 *
 * They know tables by their names and hold none. pull_sparse waits for rows; the others do not wait, and send_barrier ends the step. */
#include "framework/operators/op.h"
#include "framework/tensors/tensor.h"
#include "pserver/api/job_rows.h"
#include "pserver/ops/comm_ops.h"
#include "pserver/ops/looked_up.h"

#include <string.h>

/* == prefetch ============================================================================================== */

enum { F_IDS };

typedef struct prefetch_attrs {
    tr_strings table_names;
    bool       is_next;
} prefetch_attrs;

static const tr_op_proto prefetch_proto = {
    .doc = "Asks the servers for the rows that lookups further down will want, and returns: they come while other operators run.",
    .in = TR_SLOTS({"X", "[...] int64; keys of the lookups, in their order", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "orders operators; never written", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(prefetch_attrs, table_names, STRINGS, "the tables, in the order of X; one may come several times"),
                     TR_ATTR(prefetch_attrs, is_next, BOOL, "the keys are those of the next step: its rows are asked for when this step "
                             "is ended"),
                     TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("epmap", STRINGS)),
    .attrs_size = sizeof(prefetch_attrs),
};

/* Collect the keys of the lists from `first` on that belong to its table, one list after the other. `table`: the number of each list's
 * table. */
static tr_status join_keys(const int64_t **keys, int64_t *count, const tr_run *io, const int *table, int first)
{
    void     *joined = NULL;
    int64_t   at = 0;
    int       lists = 0;
    const int all = io->ins[F_IDS].count;

    *count = 0;
    for (int i = first; i < all; i++) {
        const tr_tensor *ids = io->ins[F_IDS].item[i];
        if (table[i] != table[first])
            continue;
        if (ids->dtype != TR_INT64)
            return tr_fail(TR_EDTYPE, "prefetch: '%s' is %s; keys are int64", tr_run_in_name(io, F_IDS, i), tr_dtype_name(ids->dtype));
        *count += tr_tensor_count(ids);
        lists++;
    }
    *keys = io->ins[F_IDS].item[first]->data;
    if (lists == 1)
        return TR_OK;
    TR_TRY(tr_run_scratch(&joined, io, (size_t)*count * sizeof **keys + 1));
    for (int i = first; i < all; i++) {
        const tr_tensor *ids = io->ins[F_IDS].item[i];
        if (table[i] != table[first])
            continue;
        memcpy((int64_t *)joined + at, ids->data, (size_t)tr_tensor_bytes(ids));
        at += tr_tensor_count(ids);
    }
    *keys = joined;
    return TR_OK;
}

static bool is_first_of_table(const int *table, int index)
{
    for (int i = 0; i < index; i++)
        if (table[i] == table[index])
            return false;
    return true;
}

static tr_status run_prefetch(const tr_run *io)
{
    const prefetch_attrs *a = io->attrs;
    tr_job               *job = tr_run_job(io);
    const int64_t        *keys = NULL;
    const int            *table = NULL;
    int64_t               count = 0;
    bool                  asks = !a->is_next;

    if (a->table_names.count != io->ins[F_IDS].count)
        return tr_fail(TR_EINVAL, "prefetch: %d tables for %d lists of keys", a->table_names.count, io->ins[F_IDS].count);
    if (!job)
        return TR_OK;
    TR_TRY(tr__comm_begin(&job, &table, io, a->table_names.count, a->table_names.item, tr_job_find_table));
    for (int i = 0; i < a->table_names.count; i++) {
        if (!is_first_of_table(table, i))
            continue;
        TR_TRY(join_keys(&keys, &count, io, table, i));
        TR_TRY((a->is_next ? tr__job_prefetch_next_gather : tr__job_prefetch_gather)(job, table[i], count, keys));
        asks |= tr__job_is_on_disk(job, table[i]);
    }
    return asks ? tr_job_flush(job) : TR_OK;
}

/* == pull_sparse =========================================================================================== */

enum { L_IDS };
enum { L_OUT };

typedef struct pull_attrs {
    const char *table;
    int64_t     padding_idx, width;
} pull_attrs;

static const tr_op_proto pull_proto = {
    .doc = "Looks rows up in a sparse table that the servers have: Out[i] = the row of key Ids[i]. Stands in a trainer's program where the "
           "program that is trained has lookup_sparse_table.",
    .in = TR_SLOTS({"Ids", "[..., 1] int64; any keys"}),
    .out = TR_SLOTS({"Out", "[..., width] float32"}),
    .attr = TR_ATTRS(TR_ATTR(pull_attrs, table, STRING, "name of the table", .required = true),
                     TR_ATTR(pull_attrs, padding_idx, LONG, "this key gives zeros and trains nothing; -1 is none", .number = -1),
                     TR_ATTR(pull_attrs, width, LONG, "values of a row", .required = true, .range = TR_AT_LEAST(1))),
    .attrs_size = sizeof(pull_attrs),
};

static tr_status infer_pull(const tr_infer *io)
{
    return tr__looked_up_infer(io, L_IDS, ((const pull_attrs *)io->attrs)->width);
}

static tr_status run_pull(const tr_run *io)
{
    const pull_attrs *a = io->attrs;
    const int64_t     n = tr_tensor_count(io->in[L_IDS]), *keys = io->in[L_IDS]->data;
    float            *out = io->out[L_OUT]->data;
    const int        *table = NULL;
    tr_job           *job;

    TR_TRY(tr__comm_begin(&job, &table, io, 1, &a->table, tr_job_find_table));
    if (job->tables.item[*table].width != a->width)
        return tr_fail(TR_ESHAPE, "pull_sparse: '%s' has rows of %lld values, %lld are wanted", a->table,
                       (long long)job->tables.item[*table].width, (long long)a->width);
    TR_TRY(tr_job_lookup(job, *table, n, keys, out));
    tr__looked_up_clear(out, keys, n, a->width, a->padding_idx);
    return TR_OK;
}

/* == push_sparse =========================================================================================== */

enum { P_GRAD };

typedef struct push_attrs {
    const char *table;
} push_attrs;

static const tr_op_proto push_proto = {
    .doc = "Pushes the rows of a sparse table's gradient to the servers, repeated keys added up. Returns before the data has left; "
           "send_barrier ends the step.",
    .in = TR_SLOTS({"Grad", "[n, width] float32, selected rows", TR_SLOT_ROWS}),
    .attr = TR_ATTRS(TR_ATTR(push_attrs, table, STRING, "name of the table", .required = true)),
    .attrs_size = sizeof(push_attrs),
};

static tr_status run_push(const tr_run *io)
{
    const push_attrs *a = io->attrs;
    const tr_tensor  *grad = io->in[P_GRAD];
    const int        *table = NULL;
    tr_job           *job;

    TR_TRY(tr__comm_begin(&job, &table, io, 1, &a->table, tr_job_find_table));
    if (!grad->rows)
        return tr_fail(TR_EINVAL, "push_sparse: '%s' has no rows", tr_run_in_name(io, P_GRAD, 0));
    return tr_job_push_rows(job, *table, grad->rows->count, grad->rows->index, grad->data, tr_job_weight(job), NULL);
}

/* == registration ============================================================================================ */

TR_REGISTER_OP(prefetch, .proto = &prefetch_proto, .run = run_prefetch, .has_effect = true, .io = TR_IO_PEERS);
TR_REGISTER_OP(pull_sparse, .proto = &pull_proto, .infer = infer_pull, .run = run_pull, .io = TR_IO_PEERS);
TR_REGISTER_OP(push_sparse, .proto = &push_proto, .run = run_push, .has_effect = true, .io = TR_IO_PEERS);
