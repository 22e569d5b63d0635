/* broadcast.c - see broadcast.h. */
#include "kernels/elementwise/broadcast.h"

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

static bool is_partly_known(const tr_shape *shape)
{
    return shape->rank > 0 && !tr_shape_is_known(shape);
}

/* Dimension i of the larger one may be a length, between the batch and what the last dimension is for. Where both are of a batch that is not
 * known yet, lengths are only declared: feeds may have others, and those count.
 *
 * `names`: of the larger argument and of the one that is a run of its dimensions. */
static tr_status check_run(const tr_infer *io, tr_shape large, tr_shape small, const char *const names[2])
{
    const tr_broadcast_attrs *attrs = io->attrs;
    const int                 axis = attrs->axis <= large.rank ? attrs->axis : large.rank + 1;     /* too large, and can be added to */
    const span                run = span_of(&large, &small, axis);

    if (run.begin - run.dropped < 0 || run.end > large.rank)
        return tr_fail(TR_ESHAPE, "%s: %s's dimensions must be a run of %s's; %s is %s, %s is %s, axis is %d", io->type, names[1], names[0],
                       names[0], TR_SHAPE_STR(large), names[1], TR_SHAPE_STR(small), attrs->axis);
    const int lengths = is_partly_known(&large) && is_partly_known(&small) ? large.rank - 1 : 0;
    for (int i = run.begin > lengths ? run.begin : lengths; i < run.end; i++) {
        const int     d = i - run.begin + run.dropped;
        const int64_t have = small.dim[d], want = large.dim[i];
        if (have != want && have >= 0 && want >= 0)
            return tr_fail(TR_ESHAPE, "%s: %s's dimension %d must be %lld, as %s's dimension %d is; %s is %s, %s is %s, axis is %d", io->type,
                           names[1], d, (long long)want, names[0], i, names[0], TR_SHAPE_STR(large), names[1], TR_SHAPE_STR(small),
                           attrs->axis);
    }
    return TR_OK;
}

tr_status tr__broadcast_check(const tr_infer *io)
{
    return check_run(io, io->in[0].shape, io->in[1].shape, (const char *const[]){"X", "Y"});
}

tr_status tr__broadcast_check_either(const tr_infer *io)
{
    if (!tr__broadcast_is_swapped(&io->in[0].shape, &io->in[1].shape))
        return tr__broadcast_check(io);
    return check_run(io, io->in[1].shape, io->in[0].shape, (const char *const[]){"Y", "X"});
}

bool tr__broadcast_is_swapped(const tr_shape *x, const tr_shape *y)
{
    if (x->rank != y->rank || x->rank == 0)
        return x->rank > 0 && x->rank < y->rank;
    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] >= 0 && x->dim[i] < y->dim[i])
            return true;
    return false;
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
