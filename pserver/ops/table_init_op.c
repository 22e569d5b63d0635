/* table_init_op.c - lookup_sparse_table_init: makes the object that the operators of table_ops.c read and update. */
#include "framework/operators/op.h"
#include "framework/tensors/random.h"
#include "storage/table/table_var.h"

#include <string.h>

enum { OUT };

typedef struct init_attrs {
    int32_t     dtype;
    int64_t     width;
    tr_table_init init;
    float       a, b;
    int32_t     seed;
    tr_floats   state_values;
    int64_t     entry_count, max_age, keep_count, max_rows;
    float       entry_probability;
    int64_t     memory;
    const char *spill;
} init_attrs;

static const tr_op_proto init_proto = {
    .doc = "Makes an empty sparse table of rows by int64 keys. A key's first value is that which a parameter of the same name would "
           "have in row `key`.",
    .out = TR_SLOTS({"Out", "the table"}),
    .attr = TR_ATTRS(
        TR_ATTR(init_attrs, dtype, INT, "type of the rows: FP32, FP16 or BF16", .number = TR_FP32),
        TR_ATTR(init_attrs, width, LONG, "values of a row", .required = true, .range = TR_AT_LEAST(1)),
        TR_ATTR(init_attrs, init, STRING, "how first values are drawn", .text = "constant",
                .range = TR_ONE_OF({"constant", TR_TABLE_CONSTANT}, {"uniform", TR_TABLE_UNIFORM}, {"normal", TR_TABLE_NORMAL},
                                   {"truncated_normal", TR_TABLE_TRUNCATED_NORMAL})),
        TR_ATTR(init_attrs, a, FLOAT, "the constant; the least value; the mean"),
        TR_ATTR(init_attrs, b, FLOAT, "all values are below this; the standard deviation"),
        TR_ATTR(init_attrs, seed, INT, "0: numbers of the program's seed and the output's name; else of this alone"),
        TR_ATTR(init_attrs, state_values, FLOATS, "first values of what the optimizer keeps for each element"),
        TR_ATTR(init_attrs, entry_count, LONG, "updates after which a key gets a row", .range = TR_BETWEEN(0, TR__TOUCHES)),
        TR_ATTR(init_attrs, entry_probability, FLOAT, "share of the keys that get one", .number = 1, .range = TR_BETWEEN(0, 1)),
        TR_ATTR(init_attrs, max_age, LONG, "rows untouched for more steps go; 0: none", .range = TR_BETWEEN(0, UINT32_MAX)),
        TR_ATTR(init_attrs, keep_count, LONG, "but not those touched so often; 0: those too", .range = TR_BETWEEN(0, TR__TOUCHES)),
        TR_ATTR(init_attrs, max_rows, LONG, "the longest untouched go when there are more; 0: no limit", .range = TR_AT_LEAST(0)),
        TR_ATTR(init_attrs, memory, LONG, "with spill: bytes of the rows in memory, with their index", .range = TR_AT_LEAST(0)),
        TR_ATTR(init_attrs, spill, STRING, "folder on this machine's disk for all other rows; empty: all rows are in memory")),
    .attrs_size = sizeof(init_attrs),
};

/* The output keeps the shape that the program gave it, but no memory of that shape is allocated. */
static tr_status infer_init(const tr_infer *io)
{
    const init_attrs *a = io->attrs;
    const int64_t     dims[2] = {-1, a->width};
    tr_shape          shape = {.rank = 2};

    memcpy(shape.dim, dims, sizeof dims);
    io->out[OUT] = tr_meta_dense((tr_dtype)a->dtype, shape);
    return TR_OK;
}

static tr_status run_init(const tr_run *io)
{
    const init_attrs    *a = io->attrs;
    const tr_table_segment here = {
        .shard_count = TR_SHARDS, .spill = a->spill && a->spill[0] ? a->spill : NULL, .memory = (uint64_t)a->memory};
    tr_table_config      config = {
        .dtype = (tr_dtype)a->dtype, .width = a->width, .states = a->state_values.count, .init = a->init, .a = a->a,
        .b = a->b, .random_key = a->seed ? tr_random_key(0, (uint64_t)(uint32_t)a->seed, 0) : io->random_key,
        .entry_count = (uint32_t)a->entry_count, .entry_probability = a->entry_probability, .max_age = (uint32_t)a->max_age,
        .keep_count = (uint32_t)a->keep_count, .max_rows = (uint64_t)a->max_rows};

    if (tr_table_var_is_bound(tr_var_of(io->out[OUT])))
        return tr_fail(
            TR_EUNSUPPORTED,
            "lookup_sparse_table_init: the servers have the rows of table '%s' since the first step, and a job cannot begin them "
            "anew: run the startup program a second time in a job of its own, or in one process",
            tr_run_out_name(io, OUT, 0));
    if (a->state_values.count > TR_TABLE_STATES)
        return tr_fail(TR_ERANGE, "lookup_sparse_table_init: %d states for each element; up to %d are possible",
                       a->state_values.count, TR_TABLE_STATES);
    for (int i = 0; i < config.states; i++)
        config.state_value[i] = a->state_values.item[i];
    return tr_table_var_set(tr_var_of(io->out[OUT]), &config, &here);
}

TR_REGISTER_OP(lookup_sparse_table_init, .proto = &init_proto, .infer = infer_init, .run = run_init, .key = TR_KEY_OUT,
               .is_random = true, .has_effect = true);
