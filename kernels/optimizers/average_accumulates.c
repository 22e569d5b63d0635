/* average_accumulates.c - sums of a parameter over a window of the last updates, for its mean.
 *
 * The window is average_window times the number of updates, but at least min_average_window and at most max_average_window. Three sums
 * keep digits: in_sum_1 has at most 16384 values and goes to in_sum_2 then; when the window is full both go to in_sum_3, and a new
 * window begins. The mean is the three sums over the two numbers of accumulates. */
#ifndef T

#include "framework/operators/op.h"
#include "kernels/math/arrays/elementwise.h"

#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, SUM_1, SUM_2, SUM_3, ACCUMULATES, OLD_ACCUMULATES, UPDATES };
enum { SUM_1_OUT, SUM_2_OUT, SUM_3_OUT, ACCUMULATES_OUT, OLD_ACCUMULATES_OUT, UPDATES_OUT };
enum { LONGEST = 16384 };

typedef struct attrs {
    float   average_window;
    int64_t max_average_window, min_average_window;
} attrs;

static const tr_op_proto proto = {
    .doc = "Adds a parameter to the sums of its last values.",
    .in = TR_SLOTS({"param", "[...] float"}, TR_SLOT("in_sum_1", "like param", "; of at most 16384 values"),
                   TR_SLOT("in_sum_2", "like param", "; those before"),
                   TR_SLOT("in_sum_3", "like param", "; of the window before"),
                   TR_SLOT("in_num_accumulates", "[1]", " int64; values in the first two sums", TR_SLOT_INT64),
                   TR_SLOT("in_old_num_accumulates", "[1]", " int64; values in the third", TR_SLOT_INT64),
                   TR_SLOT("in_num_updates", "[1]", " int64; all values there were", TR_SLOT_INT64)),
    .out = TR_SLOTS(TR_SLOT("out_sum_1", "like in_sum_1", "; the same variable"),
                    TR_SLOT("out_sum_2", "like in_sum_2", "; the same variable"),
                    TR_SLOT("out_sum_3", "like in_sum_3", "; the same variable"),
                    TR_SLOT("out_num_accumulates", "like in_num_accumulates", "; the same variable", TR_SLOT_ANY_TYPE),
                    TR_SLOT("out_old_num_accumulates", "like in_old_num_accumulates", "; the same variable", TR_SLOT_ANY_TYPE),
                    TR_SLOT("out_num_updates", "like in_num_updates", "; the same variable", TR_SLOT_ANY_TYPE)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, average_window, FLOAT, "the window's share of all updates", .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, max_average_window, LONG, "the longest window", .required = true, .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, min_average_window, LONG, "the shortest window", .number = 10000, .range = TR_AT_LEAST(1))),
};

static tr_status check(const void *attributes)
{
    const attrs *a = attributes;

    if (a->min_average_window > a->max_average_window)
        return tr_fail(TR_ERANGE, "average_accumulates: min_average_window is %lld, above max_average_window, which is %lld",
                       (long long)a->min_average_window, (long long)a->max_average_window);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(average_accumulates, .proto = &proto, .check = check, .kernels = TR_FLOAT_KERNELS(average_accumulates),
               .inplace = {{SUM_1, SUM_1_OUT}, {SUM_2, SUM_2_OUT}, {SUM_3, SUM_3_OUT}}, .inplace_count = 3);

#else /* the kernel, for each T */

/* Is the window full? */
static bool NAME(is_full)(const attrs *a, int64_t accumulates, int64_t updates)
{
    const double share = (double)updates * (double)a->average_window;

    return accumulates >= a->min_average_window &&
           (accumulates >= a->max_average_window || (double)accumulates >= share);
}

static tr_status NAME(average_accumulates)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[PARAM]), updates = *(const int64_t *)io->in[UPDATES]->data + 1;
    int64_t       accumulates = *(const int64_t *)io->in[ACCUMULATES]->data + 1, old = *(const int64_t *)io->in[OLD_ACCUMULATES]->data;
    T            *sum[3];

    for (int k = 0; k < 3; k++) {
        sum[k] = io->out[SUM_1_OUT + k]->data;
        if (sum[k] != io->in[SUM_1 + k]->data && n > 0)
            memcpy(sum[k], io->in[SUM_1 + k]->data, (size_t)n * sizeof(T));
    }
    NAME(tr_axpy)(sum[0], 1, io->in[PARAM]->data, n);
    if (updates % LONGEST == 0) {
        NAME(tr_axpy)(sum[1], 1, sum[0], n);
        NAME(tr_scale)(sum[0], sum[0], 0, 0, n);
    }
    if (NAME(is_full)(a, accumulates, updates)) {
        NAME(tr_binary_apply)(TR_BINARY_ADD, sum[2], sum[0], sum[1], 1, n, 1);
        NAME(tr_scale)(sum[0], sum[0], 0, 0, n);
        NAME(tr_scale)(sum[1], sum[1], 0, 0, n);
        old = accumulates;
        accumulates = 0;
    }
    *(int64_t *)io->out[ACCUMULATES_OUT]->data = accumulates;
    *(int64_t *)io->out[OLD_ACCUMULATES_OUT]->data = old;
    *(int64_t *)io->out[UPDATES_OUT]->data = updates;
    return TR_OK;
}

#endif
