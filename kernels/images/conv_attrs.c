/* conv_attrs.c - see conv_attrs.h. */
#include "kernels/images/conv_attrs.h"

#include "framework/base/memory.h"
#include "framework/base/size.h"
#include "kernels/base/check.h"
#include "kernels/math/tools/window.h"

tr_status tr__conv_check(const char *type, const tr_conv_attrs *a, int spatial)
{
    TR_TRY(tr__check_extents(type, "strides", &a->strides, spatial, 1));
    TR_TRY(tr__check_extents(type, "paddings", &a->paddings, spatial, 0));
    return tr__check_extents(type, "dilations", &a->dilations, spatial, 1);
}

int64_t tr__conv_window(const tr_conv_attrs *a, const tr_shape *filter, int i)
{
    const int64_t kernel = filter->dim[i + 2];

    if (kernel < 0)
        return -1;
    return kernel < 1 ? 1 : tr_size_add(tr_size_mul(a->dilations.item[i], kernel - 1), 1);
}

tr_status tr__conv_check_scratch(const tr_infer *io, const tr_shape *image, const tr_shape *filter, const tr_shape *result)
{
    const tr_conv_attrs *a = io->attrs;
    int64_t              padded = 8, patches = 8;

    if (!tr_shape_is_known(image) || !tr_shape_is_known(filter))
        return TR_OK;
    for (int i = 0; i < image->rank - 2; i++) {
        padded = tr_size_mul(padded, tr_window_reach(image->dim[i + 2], tr__conv_window(a, filter, i), a->strides.item[i], 2 * (int64_t)a->paddings.item[i], result->dim[i + 2]));
        patches = tr_size_mul(patches, tr_size_mul(filter->dim[i + 2], result->dim[i + 2]));
    }
    const int64_t channels = image->dim[1] > filter->dim[0] ? image->dim[1] : filter->dim[0];
    if (tr_size_mul(padded > patches ? padded : patches, channels) > (int64_t)tr__array_limit())
        return tr_fail(TR_ENOMEM, "%s: Input %s, Filter %s and the given paddings need more memory than this machine has", io->type,
                       TR_SHAPE_STR(io->in[0].shape), tr_shape_str(filter));
    return TR_OK;
}

tr_conv_shape tr__conv_shape(const tr_conv_attrs *a, const tr_shape *image, const tr_shape *filter, const tr_shape *result)
{
    const int     before = 5 - image->rank;          /* dimensions of 1 in front of the spatial ones */
    tr_conv_shape s = {.batch = image->dim[0], .in_channels = image->dim[1], .out_channels = filter->dim[0], .groups = a->groups,
                       .in = {1, 1, 1}, .out = {1, 1, 1}, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};

    for (int i = 0; i + before < 3; i++) {
        s.in[i + before] = image->dim[i + 2];
        s.out[i + before] = result->dim[i + 2];
        s.kernel[i + before] = filter->dim[i + 2];
        s.stride[i + before] = a->strides.item[i];
        s.pad[i + before] = a->paddings.item[i];
        s.dilation[i + before] = a->dilations.item[i];
    }
    return s;
}
