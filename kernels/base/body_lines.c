/* body_lines.c - see body_lines.h. */
#include "kernels/base/body_lines.h"

#include "framework/tensors/half.h"

tr_status tr__add_ones(tr_composite *c, const char *like, const char *out)
{
    TR_TRY(tr_composite_add(c, "fill_zeros_like(X=%s) -> %s.zeros", like, out));
    return tr_composite_add(c, "scale(X=%s.zeros) {bias=1.0} -> %s", out, out);
}

tr_status tr__add_wide(tr_composite *c, const char *slot, const char *out)
{
    const tr_dtype dtype = tr_composite_dtype(c, slot);

    return tr_dtype_is_half(dtype) ? tr_composite_add(c, "cast(X=%s) {in_dtype=%d, out_dtype=%d} -> %s", slot, dtype, TR_FP32, out)
                                   : tr_composite_add(c, "assign(X=%s) -> %s", slot, out);
}

tr_status tr__add_narrow(tr_composite *c, const char *from, const char *slot, const char *out)
{
    const tr_dtype dtype = tr_composite_dtype(c, slot);

    return tr_dtype_is_half(dtype) ? tr_composite_add(c, "cast(X=%s) {in_dtype=%d, out_dtype=%d} -> %s", from, TR_FP32, dtype, out)
                                   : tr_composite_add(c, "assign(X=%s) -> %s", from, out);
}

/* The gradient of the cross entropy of ones, which is -1 / 1 at the label. */
tr_status tr__add_marks(tr_composite *c, const char *like, int32_t ignore)
{
    TR_TRY(tr__add_ones(c, like, "mark.ones"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=mark.ones.zeros) {dim=[-1], keep_dim=true} -> mark.column"));
    TR_TRY(tr__add_ones(c, "mark.column", "mark.rows"));
    TR_TRY(tr_composite_add(c, "cross_entropy_grad(X=mark.ones, Label=Label, Y@GRAD=mark.rows) {ignore_index=%d} -> marks", ignore));
    tr_composite_stop_gradient(c, "marks");
    return TR_OK;
}
