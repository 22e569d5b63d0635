/* step.c - see step.h. */
#include "trainer/loop/step.h"

#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/programs/program.h"

tr_status tr_step_begin(bool *stops, tr_checkpoint_manager *manager, tr_job *job, tr_executor *executor, double weight, bool checks_finite)
{
    *stops = false;
    tr_job_step_begin(job);
    TR_TRY(tr_job_set_weight(job, weight));
    if (checks_finite)
        tr_executor_check_finite(executor, weight > 0);
    return manager ? tr_checkpoint_manager_begin_step(stops, manager) : TR_OK;
}

void tr_step_end(tr_job *job, tr_dtype dtype, int64_t count, const void *loss)
{
    if (count == 1 && dtype == TR_FP32)
        tr_job_set_loss(job, (double)*(const float *)loss);
    if (count == 1 && dtype == TR_FP64)
        tr_job_set_loss(job, *(const double *)loss);
}

/* == looking ahead =============================================================================== */

static tr_op_desc *find_prefetch(tr_program *program)
{
    tr_block *block = tr_program_block(program, 0);

    for (int i = 0; i < tr_block_op_count(block); i++)
        if (!strcmp(tr_op_desc_type(tr_block_op_at(block, i)), "prefetch"))
            return tr_block_op_at(block, i);
    return NULL;
}

static bool is_fed(const char *name, int count, const char *const *feeds)
{
    bool found = !feeds;

    for (int i = 0; !found && i < count; i++)
        found = !strcmp(feeds[i], name);
    return found;
}

static tr_status declare(tr_program *to, tr_program *from, const char *name)
{
    const tr_var_desc *known = tr_block_find_var(tr_program_block(from, 0), name);
    tr_var_desc       *var = known ? tr__block_var(tr_program_block(to, 0), name) : NULL;

    if (!var)
        return tr_fail(TR_ENOTFOUND, "'%s', a key of sparse tables, is no variable of the program", name);
    tr_var_desc_set_kind(var, TR_KIND_TENSOR);
    tr_var_desc_set_dtype(var, known->dtype);
    return tr_var_desc_set_shape(var, known->shape.rank, known->shape.dim);
}

/* Append an operator, which the block owns, also on failure. */
static tr_status append(tr_program *to, tr_op_desc *op)
{
    const tr_status status = tr_block_insert_op(tr_program_block(to, 0), -1, op);

    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

/* A trainer asks for the rows of all of its lookups at once. */
static tr_status append_prefetch(tr_program *ahead, tr_program *program, const tr_op_desc *op)
{
    for (int i = 0; i < tr_op_desc_input_count(op, "X"); i++)
        TR_TRY(declare(ahead, program, tr_op_desc_input(op, "X", i)));
    tr_op_desc *copy = tr__op_desc_clone(op);
    tr_op_desc_set_int(copy, "is_next", 1, TR_ATTR_BOOL);
    return append(ahead, copy);
}

static tr_status append_expect(tr_program *ahead, tr_program *program, const char *table, const char *keys)
{
    TR_TRY(declare(ahead, program, keys));
    tr_var_desc *var = tr__block_var(tr_program_block(ahead, 0), table);
    tr_op_desc  *op = var ? tr_op_desc_new("expect_rows") : NULL;
    if (!op)
        return tr_fail(TR_ENOMEM, "no memory for the program that looks ahead");
    tr_var_desc_set_kind(var, TR_KIND_RAW);
    tr_var_desc_set_persistable(var, true);
    tr_op_desc_set_input(op, "W", 1, &table);
    tr_op_desc_set_input(op, "Ids", 1, &keys);
    return append(ahead, op);
}

static tr_status fill_ahead(tr_program *ahead, tr_program *program, int feed_count, const char *const *feeds)
{
    const tr_op_desc *prefetch = find_prefetch(program);
    tr_block         *block = tr_program_block(program, 0);

    for (int i = 0; i < feed_count; i++)
        TR_TRY(declare(ahead, program, feeds[i]));
    for (int i = 0; prefetch && i < tr_op_desc_input_count(prefetch, "X"); i++)
        if (!is_fed(tr_op_desc_input(prefetch, "X", i), feed_count, feeds))
            return TR_OK;
    if (prefetch)
        return append_prefetch(ahead, program, prefetch);
    for (int i = 0; i < tr_block_op_count(block); i++) {
        const tr_op_desc *op = tr_block_op_at(block, i);
        if (strcmp(tr_op_desc_type(op), "lookup_sparse_table"))
            continue;
        const char *keys = tr_op_desc_input(op, "Ids", 0);
        if (is_fed(keys, feed_count, feeds))
            TR_TRY(append_expect(ahead, program, tr_op_desc_input(op, "W", 0), keys));
    }
    return TR_OK;
}

tr_status tr_step_ahead(tr_program **out, tr_program *program, int feed_count, const char *const *feeds)
{
    tr_program *ahead = tr_program_new();

    *out = NULL;
    const tr_status status = ahead ? fill_ahead(ahead, program, feed_count, feeds)
                                   : tr_fail(TR_ENOMEM, "no memory for the program that looks ahead");
    if (status == TR_OK && tr_block_op_count(tr_program_block(ahead, 0)))
        *out = ahead;
    else
        tr_program_free(ahead);
    return status;
}
