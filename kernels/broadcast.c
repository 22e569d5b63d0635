/* broadcast.c - see broadcast.h. */
#include "kernels/broadcast.h"
#include "kernels/check.h"

/* The dimensions of X that Y stands for: [begin, end), after dropping the ones at Y's ends. */
typedef struct span {
    int begin, end;
    int dropped;                      /* of Y's dimensions, from its front */
} span;

static span span_of(const tr_shape *x, const tr_shape *y, int axis)
{
    const int begin = axis < 0 ? x->rank - y->rank : axis;
    int       rank = y->rank, first = 0;

    while (rank > 0 && y->dim[rank - 1] == 1)
        rank--;
    while (first < rank && y->dim[first] == 1)
        first++;
    return (span){begin + first, begin + rank, first};
}

tr_status tr__broadcast_check(const tr_infer *io)
{
    const tr_broadcast_attrs *attrs = io->attrs;
    const tr_shape            x = io->in[0].shape, y = io->in[1].shape;
    const int                 axis = attrs->axis <= x.rank ? attrs->axis : x.rank + 1;     /* too large, and can be added to */
    const span                run = span_of(&x, &y, axis);

    TR_TRY(tr__check_dtype(io, "Y", &io->in[1], io->in[0].dtype));
    if (run.begin - run.dropped < 0 || run.end > x.rank)
        return tr_fail(TR_ESHAPE, "%s: Y's dimensions must be a run of X's; X is %s, Y is %s, axis is %d",
                       io->type, TR_SHAPE_STR(x), TR_SHAPE_STR(y), attrs->axis);
    for (int i = run.begin; i < run.end; i++) {
        const int     d = i - run.begin + run.dropped;
        const int64_t have = y.dim[d], want = x.dim[i];
        if (have != want && have >= 0 && want >= 0)
            return tr_fail(TR_ESHAPE, "%s: Y's dimension %d must be %lld, as X's dimension %d is; X is %s, Y is %s, "
                           "axis is %d", io->type, d, (long long)want, i, TR_SHAPE_STR(x),
                           TR_SHAPE_STR(y), attrs->axis);
    }
    return TR_OK;
}

tr_cut tr__broadcast_of(const tr_shape *x, const tr_shape *y, int axis)
{
    const span run = span_of(x, y, axis);

    if (run.begin == run.end)
        return (tr_cut){.pre = 1, .n = 1, .post = tr_shape_numel(x)};
    return (tr_cut){
        .pre = tr_shape_product(x, 0, run.begin),
        .n = tr_shape_product(x, run.begin, run.end),
        .post = tr_shape_product(x, run.end, x->rank),
    };
}
