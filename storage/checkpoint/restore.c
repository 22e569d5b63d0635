/* restore.c - a program's dense variables get their values of a checkpoint.
 *
 * What must stay true: a variable is changed only when the values of all variables have been read. */
#include <stdlib.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/programs/program.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/scope.h"
#include "storage/trireme_checkpoint.h"

static const tr_var_desc *find_declared(tr_program *program, const char *name)
{
    const tr_var_desc *found = NULL;

    for (int i = 0; !found && i < tr_program_block_count(program); i++)
        found = tr_block_find_var(tr_program_block(program, i), name);
    return found;
}

static bool fits_shape(const tr_checkpoint_item *array, const tr_shape *wanted)
{
    bool fits = array->rank == wanted->rank;

    for (int i = 0; fits && i < array->rank; i++)
        fits = wanted->dim[i] < 0 || wanted->dim[i] == array->dims[i];
    return fits;
}

static tr_shape shape_of(const tr_checkpoint_item *array)
{
    tr_shape shape = {.rank = array->rank};

    for (int i = 0; i < array->rank; i++)
        shape.dim[i] = array->dims[i];
    return shape;
}

static tr_status find_fitting(tr_checkpoint_item *out, const tr_checkpoint *c, tr_program *program, const char *name, int trainer)
{
    const int          index = tr_checkpoint_find_own(c, name, trainer);
    const tr_var_desc *wanted = find_declared(program, name);

    if (index < 0)
        return tr_fail(TR_ENOTFOUND, "the checkpoint '%s' of step %lld has no '%s', which the program keeps: was it written by another program?",
                       tr_checkpoint_folder(c), (long long)tr_checkpoint_step(c), name);
    tr_checkpoint_array(out, c, index);
    const tr_shape shape = shape_of(out);
    if (wanted && !fits_shape(out, &wanted->shape))
        return tr_fail(TR_ESHAPE, "%s in '%s' has the shape %s, the program wants %s", name, tr_checkpoint_folder(c), TR_SHAPE_STR(shape),
                       TR_SHAPE_STR(wanted->shape));
    if (wanted && wanted->dtype != TR_DTYPE_NONE && wanted->dtype != out->dtype)
        return tr_fail(TR_EDTYPE, "%s in '%s' is %s, the program wants %s", name, tr_checkpoint_folder(c), tr_dtype_name(out->dtype),
                       tr_dtype_name(wanted->dtype));
    return TR_OK;
}

static tr_status read_one(tr_tensor *out, const tr_checkpoint *c, const char *name, const tr_checkpoint_item *array, int trainer, int trainers)
{
    TR_TRY(tr_tensor_resize(out, array->dtype, array->rank, array->dims));
    return tr_checkpoint_read_own(c, name, trainer, trainers, out->data, tr_tensor_bytes(out));
}

static tr_status share_all(tr_scope *scope, const tr_tensor *values, int count, const char *const *names)
{
    for (int i = 0; i < count; i++) {
        tr_var *var = tr_scope_var(scope, names[i]);
        if (!var)
            return tr_fail(TR_ENOMEM, "no memory for '%s'", names[i]);
        tr_tensor_share(tr_var_tensor(var), &values[i]);
    }
    return TR_OK;
}

static tr_status read_all(tr_tensor *values, const tr_checkpoint *c, int count, const char *const *names, const tr_checkpoint_item *arrays, int trainer,
                          int trainers)
{
    for (int i = 0; i < count; i++) {
        const tr_status status = read_one(&values[i], c, names[i], &arrays[i], trainer, trainers);
        if (status != TR_OK)
            return tr_context(status, "for variable '%s' of the checkpoint '%s'", names[i], tr_checkpoint_folder(c));
    }
    return TR_OK;
}

tr_status tr_checkpoint_restore(tr_scope *scope, const tr_checkpoint *checkpoint, tr_program *program, int count, const char *const *names, int trainer,
                                int trainers)
{
    tr_checkpoint_item *arrays = tr__must_array((size_t)count + 1, sizeof *arrays);
    tr_tensor          *values = tr__must_array((size_t)count + 1, sizeof *values);
    tr_status           status = TR_OK;

    for (int i = 0; i < count; i++)
        tr_tensor_init(&values[i]);
    for (int i = 0; i < count && status == TR_OK; i++)
        status = find_fitting(&arrays[i], checkpoint, program, names[i], trainer);
    if (status == TR_OK && scope)
        status = read_all(values, checkpoint, count, names, arrays, trainer, trainers);
    if (status == TR_OK && scope)
        status = share_all(scope, values, count, names);
    for (int i = 0; i < count; i++)
        tr_tensor_deinit(&values[i]);
    free(values);
    free(arrays);
    return status;
}
