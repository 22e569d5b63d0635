/* op_rig.c - see op_rig.h. */
#include "tests/support/op_rig.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/run_case.h"

#define TRY(call)                              \
    do {                                       \
        const tr_status try_status = (call);   \
        if (try_status != TR_OK)               \
            return try_status;                 \
    } while (0)

/* "x3" and the like, for ever: there are few. */
static const char *name_of(const char *format, int index)
{
    static char names[320][24];
    char        name[24];
    int         i = 0;

    snprintf(name, sizeof name, format, index);
    while (i < 320 && names[i][0] && strcmp(names[i], name) != 0)
        i++;
    assert(i < 320);
    strcpy(names[i], name);
    return names[i];
}

/* -- building ---------------------------------------------------------------------------------------- */

static int lod_levels(const op_arg *arg)
{
    int levels = 0;

    while (levels < OP_MAX_LODS && arg->lod[levels].count > 0)
        levels++;
    return levels;
}

static void declare(op_rig *rig, int i, const char *name, op_rig_flags flags)
{
    const op_arg *arg = &rig->c->in[i];
    tr_var_desc  *var = tr_block_create_var(tr_program_block(rig->program, 0), name);
    int64_t       dims[TR_MAX_RANK];

    for (int d = 0; d < arg->rank; d++)
        dims[d] = flags & OP_UNKNOWN_DIMS ? -1 : arg->dims[d];
    if (arg->height > 0)
        dims[0] = arg->height;
    tr_var_desc_set_kind(var, arg->height > 0 ? TR_KIND_SELECTED_ROWS : TR_KIND_TENSOR);
    tr_var_desc_set_dtype(var, rig->in[i].dtype);
    (void)tr_var_desc_set_shape(var, arg->rank, dims);
    tr_var_desc_set_lod_level(var, lod_levels(arg));
}

static void add_feed(op_rig *rig, const char *name, const op_array *array, const void *bytes)
{
    rig->feed_name[rig->feed_count] = name;
    rig->feed[rig->feed_count++] = (tr_feed){
        .name = name, .dtype = array->dtype, .rank = array->rank, .dims = array->dims, .data = bytes,
    };
}

static void feed_sequences(op_rig *rig, const op_arg *arg)
{
    static int64_t        counts[OP_MAX_NAMES][OP_MAX_LODS];
    static const int64_t *offsets[OP_MAX_NAMES][OP_MAX_LODS];
    const int             f = rig->feed_count - 1;

    for (int level = 0; level < lod_levels(arg); level++) {
        counts[f][level] = arg->lod[level].count;
        offsets[f][level] = arg->lod[level].item;
    }
    rig->feed[f].lod_levels = lod_levels(arg);
    rig->feed[f].lod_counts = counts[f];
    rig->feed[f].lod_offsets = offsets[f];
}

/* Selected rows cannot be fed: they lie in the scope. */
static tr_status put_rows(op_rig *rig, int i, const char *name)
{
    const op_arg *arg = &rig->c->in[i];
    tr_tensor    *tensor = tr_var_tensor(tr_scope_var(rig->scope, name));

    tr_var_desc_set_persistable(tr_block_find_var(tr_program_block(rig->program, 0), name), true);
    TRY(tr_tensor_resize(tensor, rig->in[i].dtype, arg->rank, arg->dims));
    memcpy(tr_tensor_data(tensor), rig->bytes[i], (size_t)tr_tensor_bytes(tensor));
    return tr_tensor_set_rows(tensor, arg->height, arg->rows.count, arg->rows.item);
}

static tr_status insert(op_rig *rig, tr_op_desc *op)
{
    const tr_status status = tr_block_insert_op(tr_program_block(rig->program, 0), -1, op);

    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

static tr_status insert_unary(op_rig *rig, const char *type, const char *x, const char *out)
{
    tr_op_desc *op = tr_op_desc_new(type);

    tr_op_desc_set_input(op, "X", 1, &x);
    tr_op_desc_set_output(op, "Out", 1, &out);
    return insert(rig, op);
}

static tr_status add_input(op_rig *rig, int i, op_rig_flags flags)
{
    const char *x = name_of("x%d", i), *feed = flags & OP_BARE ? x : name_of("feed%d", i);

    if (flags & OP_SHAPES_ONLY) {
        rig->in[i].dtype = op_case_dtype(rig->c, i, rig->dtype);
        declare(rig, i, x, flags);
        return TR_OK;
    }
    rig->in[i] = op_array_of_input(rig->c, i, rig->dtype);
    if (!rig->c->in[i].is_typed)
        op_array_round(&rig->in[i], rig->rounded);
    rig->bytes[i] = op_array_encode(&rig->in[i]);
    declare(rig, i, feed, flags);
    if (rig->c->in[i].height > 0) {
        TRY(put_rows(rig, i, feed));
    } else {
        add_feed(rig, feed, &rig->in[i], rig->bytes[i]);
        feed_sequences(rig, &rig->c->in[i]);
    }
    return flags & OP_BARE ? TR_OK : insert_unary(rig, "assign", feed, x);
}

/* Arguments to slots: each that is not one more of the slot before begins the next slot. */
static void set_inputs(op_rig *rig, tr_op_desc *op, const tr_op *record)
{
    const char *names[OP_MAX_ARGS];

    for (int i = 0, slot = 0; i < rig->in_count; slot++) {
        int count = 0;
        do {
            if (rig->c->in[i].rank > 0)
                names[count++] = name_of("x%d", i);
            i++;
        } while (i < rig->in_count && rig->c->in[i].is_more);
        assert(slot < tr_op_input_count(record) && "the case has more inputs than the operator");
        if (count > 0)
            tr_op_desc_set_input(op, tr_op_input_name(record, slot), count, names);
    }
}

static void set_outputs(op_rig *rig, tr_op_desc *op, const tr_op *record)
{
    const char *names[OP_MAX_ARGS];

    for (int slot = 0; slot < tr_op_output_count(record); slot++) {
        const int given = rig->c->out_count[slot], count = given == 0 ? 1 : given < 0 ? 0 : given;
        for (int i = 0; i < count; i++)
            names[i] = name_of("out%d", rig->out_count++);
        if (count > 0)
            tr_op_desc_set_output(op, tr_op_output_name(record, slot), count, names);
    }
}

static tr_status build(op_rig *rig, op_rig_flags flags)
{
    const tr_op *record = tr_op_find(rig->op);

    assert(record && "there is no such operator");
    rig->program = tr_program_new();
    rig->scope = tr_scope_new(NULL);
    rig->executor = tr_executor_new();
    rig->in_count = op_case_inputs(rig->c);
    tr_program_set_random_seed(rig->program, 1);
    for (int i = 0; i < rig->in_count; i++)
        if (rig->c->in[i].rank > 0)
            TRY(add_input(rig, i, flags));
    tr_op_desc *op = tr_op_desc_new(rig->op);
    set_inputs(rig, op, record);
    set_outputs(rig, op, record);
    op_case_set_attrs(op, rig->c);
    TRY(insert(rig, op));
    for (int i = 0; i < rig->out_count && !(flags & (OP_SHAPES_ONLY | OP_BARE)); i++)
        TRY(insert_unary(rig, "assign", name_of("out%d", i), name_of("copy%d", i)));
    return TR_OK;
}

static tr_status init(op_rig *rig)
{
    TRY(tr_init());
    const tr_status status = build(rig, rig->flags);
    if (status != TR_OK)
        op_rig_deinit(rig);
    return status;
}

tr_status op_rig_init(op_rig *rig, const char *op, const op_case *c, tr_dtype dtype, op_rig_flags flags)
{
    *rig = (op_rig){.op = op, .c = c, .dtype = dtype, .rounded = TR_DTYPE_NONE, .flags = flags};
    return init(rig);
}

tr_status op_rig_init_rounded(op_rig *rig, const char *op, const op_case *c, tr_dtype dtype, tr_dtype rounded)
{
    *rig = (op_rig){.op = op, .c = c, .dtype = dtype, .rounded = rounded, .flags = OP_PLAIN};
    return init(rig);
}

void op_rig_deinit(op_rig *rig)
{
    for (int i = 0; i < OP_MAX_ARGS; i++) {
        op_array_free(&rig->in[i]);
        op_array_free(&rig->weight[i]);
        free(rig->bytes[i]);
        free(rig->weight_bytes[i]);
    }
    op_rig_fetch_nothing(rig);
    tr_executor_free(rig->executor);
    tr_scope_free(rig->scope);
    tr_program_free(rig->program);
    *rig = (op_rig){.op = rig->op};
}

/* -- gradients ------------------------------------------------------------------------------------------ */

static bool is_float(tr_dtype dtype)
{
    return dtype == TR_FP32 || dtype == TR_FP64 || dtype == TR_BF16 || dtype == TR_FP16;
}

bool op_rig_has_gradient(const op_rig *rig, int i)
{
    return rig->c->in[i].rank > 0 && !rig->c->in[i].is_constant && is_float(rig->in[i].dtype);
}

/* Intermediate outputs are for the gradient operator alone. */
static bool is_intermediate(const op_rig *rig, int out)
{
    const tr_op *record = tr_op_find(rig->op);
    int          slot = 0;

    for (int seen = 0; slot < tr_op_output_count(record); slot++) {
        const int given = rig->c->out_count[slot];
        seen += given == 0 ? 1 : given < 0 ? 0 : given;
        if (out < seen)
            break;
    }
    return tr_op_output_flags(record, slot) & TR_SLOT_INTERMEDIATE;
}

static tr_status add_weight(op_rig *rig, int i, const op_array *output)
{
    const char *name = name_of(rig->flags & OP_BARE ? "weight%d" : "fed_weight%d", i);
    op_array   *weight = &rig->weight[i];

    *weight = *output;
    weight->rows = NULL;
    weight->data = malloc((size_t)(weight->count + 1) * sizeof *weight->data);
    assert(weight->data);
    for (int64_t k = 0; k < weight->count; k++)
        weight->data[k] = op_round(weight->dtype, 2 * op_random(1000 + (uint64_t)i, (uint64_t)k) - 1);
    op_array_round(weight, rig->rounded);
    rig->weight_bytes[i] = op_array_encode(weight);
    tr_var_desc *var = tr_block_create_var(tr_program_block(rig->program, 0), name);
    tr_var_desc_set_kind(var, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(var, weight->dtype);
    (void)tr_var_desc_set_shape(var, weight->rank, weight->dims);
    add_feed(rig, name, weight, rig->weight_bytes[i]);
    return rig->flags & OP_BARE ? TR_OK : insert_unary(rig, "assign", name, name_of("weight%d", i));
}

/* Between forward and backward, write over all memory that the plan takes for free: a gradient operator that reads
 * what its rule does not say then reads this. */
static tr_status spoil_free_memory(op_rig *rig, const op_array *like, int i)
{
    const char *spoiler = name_of("spoiler%d", i), *seen = name_of("spoiled%d", i);
    tr_op_desc *fill = tr_op_desc_new("fill_constant");

    tr_op_desc_set_ints(fill, "shape", like->rank, like->dims, TR_ATTR_LONGS);
    tr_op_desc_set_int(fill, "dtype", rig->dtype, TR_ATTR_INT);
    tr_op_desc_set_float(fill, "value", 1e4);
    tr_op_desc_set_output(fill, "Out", 1, &spoiler);
    rig->spoiled_count = i + 1;
    TRY(insert(rig, fill));
    return insert_unary(rig, "scale", spoiler, seen);
}

static tr_status spoil(op_rig *rig, const op_array *outputs)
{
    for (int i = 0; i < rig->in_count; i++)
        if (rig->c->in[i].rank > 0)
            TRY(spoil_free_memory(rig, &rig->in[i], rig->spoiled_count));
    for (int i = 0; i < rig->out_count; i++)
        TRY(spoil_free_memory(rig, &outputs[i], rig->spoiled_count));
    return TR_OK;
}

tr_status op_rig_add_gradients(op_rig *rig, const op_array *outputs, int without)
{
    const char *targets[OP_MAX_ARGS], *weights[OP_MAX_ARGS], *stopped[OP_MAX_ARGS];
    int         target_count = 0, stopped_count = 0;

    if (!(rig->flags & OP_BARE))
        TRY(spoil(rig, outputs));
    for (int i = 0; i < rig->out_count; i++) {
        if (!is_float(outputs[i].dtype) || is_intermediate(rig, i))
            continue;
        TRY(add_weight(rig, i, &outputs[i]));
        targets[target_count] = name_of("out%d", i);
        weights[target_count++] = name_of("weight%d", i);
    }
    for (int i = 0; i < rig->in_count; i++)
        if (rig->c->in[i].rank > 0 && (i == without || !op_rig_has_gradient(rig, i)))
            stopped[stopped_count++] = name_of(rig->flags & OP_BARE ? "x%d" : "feed%d", i);
    return tr_append_gradients(rig->program, target_count, targets, weights, 0, NULL, stopped_count, stopped);
}

/* -- running -------------------------------------------------------------------------------------------- */

void op_rig_fetch_nothing(op_rig *rig)
{
    for (int i = 0; i < rig->fetch_count; i++)
        tr_tensor_free(rig->result[i]);
    rig->fetch_count = 0;
    rig->plan = NULL;
}

void op_rig_fetch(op_rig *rig, const char *format, int index)
{
    assert(rig->fetch_count < OP_MAX_NAMES);
    rig->fetch_name[rig->fetch_count] = name_of(format, index);
    rig->result[rig->fetch_count++] = tr_tensor_new();
    rig->plan = NULL;
}

void op_rig_fetch_outputs(op_rig *rig)
{
    op_rig_fetch_nothing(rig);
    for (int i = 0; i < rig->out_count; i++)
        op_rig_fetch(rig, "copy%d", i);
}

void op_rig_fetch_gradients(op_rig *rig, int without)
{
    op_rig_fetch_nothing(rig);
    for (int i = 0; i < rig->in_count; i++)
        if (i != without && op_rig_has_gradient(rig, i))
            op_rig_fetch(rig, "feed%d@GRAD", i);
    rig->gradient_count = rig->fetch_count;
    for (int i = 0; i < rig->spoiled_count; i++)          /* so that the plan does not leave them out */
        op_rig_fetch(rig, "spoiled%d", i);
}

tr_status op_rig_run(op_rig *rig)
{
    if (!rig->plan)
        TRY(tr_executor_prepare(&rig->plan, rig->executor, rig->program, rig->scope, rig->feed_count, rig->feed_name,
                                rig->fetch_count, rig->fetch_name));
    return tr_plan_run(rig->plan, rig->feed, rig->result);
}

/* -- for the corpus of fuzz_run -------------------------------------------------------------------------- */

static bool is_empty_case(const op_rig *rig)
{
    bool empty = false;

    for (int i = 0; i < rig->in_count; i++)
        empty = empty || (rig->c->in[i].rank > 0 && rig->in[i].count == 0);
    return empty;
}

static tr_status fetch_all_bare(op_rig *rig, bool gradient)
{
    op_array outputs[OP_MAX_ARGS] = {{.rank = 0}};

    for (int i = 0; i < rig->out_count; i++)
        op_rig_fetch(rig, "out%d", i);
    TRY(op_rig_run(rig));
    for (int i = 0; gradient && i < rig->out_count; i++)
        outputs[i] = op_array_of_tensor(rig->result[i]);
    if (!gradient)
        return TR_OK;
    TRY(op_rig_add_gradients(rig, outputs, -1));
    for (int i = 0; i < rig->in_count; i++)
        if (op_rig_has_gradient(rig, i))
            op_rig_fetch(rig, "x%d@GRAD", i);
    for (int i = 0; i < rig->out_count; i++)
        op_array_free(&outputs[i]);
    return op_rig_run(rig);
}

void op_rig_keep(const char *op, const op_case *c, bool gradient)
{
    const char *folder = getenv("TRIREME_KEEP_OPS");
    char        path[512];
    op_rig      rig;

    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s%s.1", folder, op, gradient ? "_grad" : "");
    if (access(path, F_OK) == 0 || op_rig_init(&rig, op, c, TR_FP32, OP_BARE) != TR_OK)
        return;
    if (!is_empty_case(&rig) && fetch_all_bare(&rig, gradient) == TR_OK)
        run_case_save(path, &(saved_run){.program = rig.program, .scope = rig.scope, .feed_count = rig.feed_count,
                                        .feed_name = rig.feed_name, .feed = rig.feed, .fetch_count = rig.fetch_count,
                                        .fetch_name = rig.fetch_name});
    op_rig_deinit(&rig);
}
