/* tensor_file.c - see tensor_file.h. */
#include "kernels/input_output/tensor_file.h"

#include <unistd.h>

#include "kernels/base/selected_rows.h"
#include "kernels/math/tools/cast.h"

tr_status tr__file_path_check(const char *type, const char *path)
{
    if (!*path)
        return tr_fail(TR_EINVAL, "%s: attribute 'file_path' must name a file, got \"\"", type);
    return TR_OK;
}

tr_status tr__save_may_write(const char *type, const tr_save_attrs *attrs)
{
    if (!attrs->overwrite && access(attrs->file_path, F_OK) == 0)
        return tr_fail(TR_EEXIST, "%s: '%s' is there already, and attribute 'overwrite' is false", type,
                       attrs->file_path);
    return TR_OK;
}

/* The same rows and sequences, other numbers. */
static tr_status to_fp16(tr_tensor *out, const tr_tensor *x)
{
    TR_TRY(tr__tensor_reserve(out, TR_FP16, &x->shape));
    tr_cast(out->data, TR_FP16, x->data, x->dtype, tr_tensor_count(x));
    tr__tensor_share_lod(out, x);
    return tr__rows_copy(out, x);
}

tr_status tr__tensor_for_file(tr_tensor *out, const tr_tensor *x, bool as_fp16)
{
    if (as_fp16 && tr_dtype_is_float(x->dtype) && x->dtype != TR_FP16)
        return to_fp16(out, x);
    tr_tensor_share(out, x);
    return TR_OK;
}

tr_status tr__tensor_from_file(tr_tensor *out, const tr_tensor *read, bool as_fp16)
{
    tr_tensor wanted;

    tr_tensor_init(&wanted);
    const tr_status status = tr__tensor_for_file(&wanted, read, as_fp16);
    if (status == TR_OK)
        tr_tensor_share(out, &wanted);
    tr_tensor_deinit(&wanted);
    return status;
}
