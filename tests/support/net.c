/* net.c - see net.h. */
#include "tests/support/net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "framework/base/memory.h"
#include "framework/runs/frame.h"
#include "tests/support/run_case.h"

void net_init(net *n)
{
    *n = (net){.program = NULL};
    EXPECT_OK(tr_init());
    n->program = tr_program_new();
    n->scope = tr_scope_new(NULL);
    n->executor = tr_executor_new();
    for (int i = 0; i < NET_MAX; i++)
        n->result[i] = tr_tensor_new();
}

void net_deinit(net *n)
{
    for (int i = 0; i < NET_MAX; i++)
        tr_tensor_free(n->result[i]);
    tr_executor_free(n->executor);
    tr_scope_free(n->scope);
    tr_program_free(n->program);
}

static tr_var_desc *declare(net *n, int block, const char *name, tr_dtype dtype, int rank, va_list args)
{
    tr_var_desc *var = tr_block_create_var(tr_program_block(n->program, block), name);
    int64_t      dims[TR_MAX_RANK];

    for (int i = 0; i < rank; i++)
        dims[i] = va_arg(args, int);
    tr_var_desc_set_dtype(var, dtype);
    EXPECT_OK(tr_var_desc_set_shape(var, rank, dims));
    return var;
}

void net_var(net *n, const char *name, tr_dtype dtype, int rank, ...)
{
    va_list args;
    va_start(args, rank);
    declare(n, 0, name, dtype, rank, args);
    va_end(args);
}

void net_var_in(net *n, int block, const char *name, tr_dtype dtype, int rank, ...)
{
    va_list args;
    va_start(args, rank);
    declare(n, block, name, dtype, rank, args);
    va_end(args);
}

void net_parameter(net *n, const char *name, tr_dtype dtype, int rank, ...)
{
    va_list args;
    va_start(args, rank);
    tr_var_desc_set_persistable(declare(n, 0, name, dtype, rank, args), true);
    va_end(args);
}

int net_block(net *n, int parent)
{
    return tr_block_index(tr_program_append_block(n->program, parent));
}

/* -- operators --------------------------------------------------------------------------------- */

static void set_slot(tr_op_desc *op, char *text, bool output)
{
    const char *names[NET_MAX];
    char       *save = NULL, *equals = strchr(text, '=');
    int         count = 0;

    assert_non_null(equals);
    *equals = '\0';
    for (char *name = strtok_r(equals + 1, ",", &save); name; name = strtok_r(NULL, ",", &save))
        names[count++] = name;
    (output ? tr_op_desc_set_output : tr_op_desc_set_input)(op, text, count, names);
}

static void set_slots(tr_op_desc *op, const char *text, bool output)
{
    char *copy = strdup(text), *save = NULL;
    for (char *slot = strtok_r(copy, " ", &save); slot; slot = strtok_r(NULL, " ", &save))
        set_slot(op, slot, output);
    free(copy);
}

static void set_list(tr_op_desc *op, const char *name, const char *text)
{
    int64_t values[NET_MAX];
    int     count = 0;
    for (const char *p = text + 1; *p && *p != ']'; p += *p == ',')
        values[count++] = strtoll(p, (char **)(uintptr_t)&p, 10);
    tr_op_desc_set_ints(op, name, count, values, TR_ATTR_INTS);
}

static void set_strings(tr_op_desc *op, const char *name, char *text)
{
    const char *values[NET_MAX];
    char       *save = NULL;
    int         count = 0;
    for (char *value = strtok_r(text, "{,}", &save); value; value = strtok_r(NULL, "{,}", &save))
        values[count++] = value;
    tr_op_desc_set_strings(op, name, count, values);
}

static void set_attr(tr_op_desc *op, char *text)
{
    char *equals = strchr(text, '='), *end;

    assert_non_null(equals);
    *equals = '\0';
    const char *value = equals + 1;
    const double number = strtod(value, &end);
    if (strncmp(value, "block:", 6) == 0)
        tr_op_desc_set_int(op, text, atoi(value + 6), TR_ATTR_BLOCK);
    else if (value[0] == '[')
        set_list(op, text, value);
    else if (value[0] == '{')
        set_strings(op, text, equals + 1);
    else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        tr_op_desc_set_int(op, text, value[0] == 't', TR_ATTR_BOOL);
    else if (*end != '\0')
        tr_op_desc_set_string(op, text, value, strlen(value));
    else if (strchr(value, '.'))
        tr_op_desc_set_float(op, text, number);
    else
        tr_op_desc_set_int(op, text, (int64_t)number, TR_ATTR_INT);
}

tr_status net_try_op(net *n, int block, const char *type, const char *inputs, const char *outputs, const char *attrs)
{
    tr_op_desc *op = tr_op_desc_new(type);
    char       *copy = strdup(attrs), *save = NULL;

    set_slots(op, inputs, false);
    set_slots(op, outputs, true);
    for (char *attr = strtok_r(copy, " ", &save); attr; attr = strtok_r(NULL, " ", &save))
        set_attr(op, attr);
    free(copy);
    const tr_status status = tr_block_insert_op(tr_program_block(n->program, block), -1, op);
    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

void net_op(net *n, int block, const char *type, const char *inputs, const char *outputs, const char *attrs)
{
    EXPECT_OK(net_try_op(n, block, type, inputs, outputs, attrs));
}

/* -- running ------------------------------------------------------------------------------------ */

static int feed_index(net *n, const char *name)
{
    for (int i = 0; i < n->feed_count; i++)
        if (strcmp(n->feed_name[i], name) == 0)
            return i;
    n->feed_name[n->feed_count] = name;
    return n->feed_count++;
}

void net_feed(net *n, const char *name, const void *data, int rank, ...)
{
    const int i = feed_index(n, name);
    const tr_var_desc *var = tr_block_find_var(tr_program_block(n->program, 0), name);
    va_list args;

    va_start(args, rank);
    for (int d = 0; d < rank; d++)
        n->dims[i][d] = va_arg(args, int);
    va_end(args);
    n->feed[i] = (tr_feed){.name = name, .dtype = var ? tr_var_desc_dtype(var) : TR_FP32, .rank = rank,
                           .dims = n->dims[i], .data = data};
}

void net_feed_lod(net *n, const char *name, int levels, ...)
{
    const int i = feed_index(n, name);
    va_list   args;

    va_start(args, levels);
    for (int l = 0; l < levels; l++) {
        n->lod_counts[i][l] = va_arg(args, int);
        n->lod_offsets[i][l] = va_arg(args, const int64_t *);
    }
    va_end(args);
    n->feed[i].lod_levels = levels;
    n->feed[i].lod_counts = n->lod_counts[i];
    n->feed[i].lod_offsets = n->lod_offsets[i];
}

tr_status net_try_run(net *n, const char *fetches)
{
    char       *copy = strdup(fetches), *save = NULL;
    const char *names[NET_MAX];
    int         count = 0;

    for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save))
        names[count++] = name;
    tr_status status = tr_executor_prepare(&n->plan, n->executor, n->program, n->scope, n->feed_count, n->feed_name,
                                           count, names);
    if (status == TR_OK)
        status = tr_plan_run(n->plan, n->feed, n->result);
    if (status == TR_OK && getenv("TRIREME_KEEP_RUN"))
        assert_true(run_case_save(getenv("TRIREME_KEEP_RUN"), &(saved_run){
            .program = n->program, .scope = n->scope, .feed_count = n->feed_count, .feed_name = n->feed_name,
            .feed = n->feed, .fetch_count = count, .fetch_name = names}));
    free(copy);
    return status;
}

void net_run(net *n, const char *fetches)
{
    EXPECT_OK(net_try_run(n, fetches));
}

static const void *data_of(const net *n, int i, tr_dtype dtype)
{
    assert_int_equal(tr_tensor_dtype(n->result[i]), dtype);
    return tr_tensor_data(n->result[i]);
}

const float *net_f32(const net *n, int i) { return data_of(n, i, TR_FP32); }
const double *net_f64(const net *n, int i) { return data_of(n, i, TR_FP64); }
const int64_t *net_i64(const net *n, int i) { return data_of(n, i, TR_INT64); }

tr_tensor *net_array_item(const net *n, const char *name, int64_t index)
{
    const int v = tr_plan_var_at_end(n->plan, name);
    return v < 0 ? NULL : tr_var_array_item(n->plan->frame->var[v], index);
}

static double loss_of_run(net *n)
{
    net_run(n, "loss");
    return net_f64(n, 0)[0];
}

void net_check_gradient(net *n, const char *name, double *data, int count, double tolerance)
{
    const double step = 1e-6;
    char         grad[64];
    double      *analytic = malloc((size_t)count * sizeof *analytic);

    snprintf(grad, sizeof grad, "%s@GRAD", name);
    net_run(n, grad);
    assert_int_equal(tr_tensor_numel(n->result[0]), count);
    memcpy(analytic, net_f64(n, 0), (size_t)count * sizeof *analytic);
    for (int i = 0; i < count; i++) {
        const double kept = data[i];
        data[i] = kept + step;
        const double up = loss_of_run(n);
        data[i] = kept - step;
        const double down = loss_of_run(n);
        data[i] = kept;
        if (fabs((up - down) / (2 * step) - analytic[i]) > tolerance * (1 + fabs(analytic[i])))
            fail_msg("%s[%d]: %.9g, numerically %.9g", grad, i, analytic[i], (up - down) / (2 * step));
    }
    free(analytic);
}

bool net_plan_says(const net *n, const char *text)
{
    char *print = NULL;
    EXPECT_OK(tr_plan_to_string(&print, n->plan));
    const bool found = strstr(print, text) != NULL;
    tr_free(print);
    return found;
}
