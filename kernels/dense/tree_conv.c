/* tree_conv.c - a convolution over the nodes of trees. (Mou et al., Convolutional neural networks over tree structures, 2016)
 *
 * The window of a node is itself and its descendants of fewer than max_depth generations. A node in it at depth d below the window's
 * root, child number i of n, counts with three weights, which mix three filters (left, right, top):
 *
 *     top = (max_depth - d) / max_depth,  left = (1 - top) (i - 1) / (n - 1) or (1 - top) / 2 where n = 1,  right = (1 - top) (1 - left)
 *
 * Out[node] = sum over the window of sum_k weight_k NodesVector[node'] Filter[:, k]. Edges are pairs (parent, child) of numbers from 1;
 * the first pair that has a 0 ends the list. Rows of Out beyond the tree's nodes are 0.
 *
 * The windows make a matrix `columns`, [nodes, features * 3], so the rest is a product, and so are the gradients. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/scratch.h"
#include "kernels/math/products/blas.h"

#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { NODES, EDGES, FILTER };
enum { OUT };
enum { G_NODES, G_EDGES, G_FILTER, G_DOUT };
enum { G_DNODES, G_DFILTER };

typedef struct attrs {
    int32_t max_depth;
} attrs;

static const tr_op_proto proto = {
    .doc = "A tree-based convolution: each node's window is its descendants down to max_depth.",
    .in = TR_SLOTS(TR_SLOT("NodesVector", "[batch, nodes, features]", " float"),
                   TR_SLOT("EdgeSet", "[batch, edges, 2]", " int32; parent and child, numbers from 1; 0 ends the list", TR_SLOT_INT32),
                   TR_SLOT("Filter", "[features, 3, output size, filters]", "; of left, right and top")),
    .out = TR_SLOTS(TR_SLOT("Out", "[batch, nodes, output size, filters]", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, max_depth, INT, "generations of a window, the node included", .number = 2, .range = TR_AT_LEAST(1))),
};

/* -- trees ---------------------------------------------------------------------------------------- */

/* A node of a window: which one, how deep, and its place among its siblings. */
typedef struct member {
    int32_t node, depth, index, siblings;
} member;

/* Children of node u, from 0 on: child[first[u]] ... child[first[u + 1] - 1], in the order of the edges. */
typedef struct tree {
    int32_t  count;                   /* nodes that an edge may name */
    int32_t *first, *child, *seen;
    member  *window;
} tree;

static tr_status tree_init(tree *t, const tr_run *io, const int32_t *edge, int64_t edges)
{
    int64_t used = 0;

    memset(t->first, 0, (size_t)(t->count + 2) * sizeof *t->first);
    for (; used < edges && edge[2 * used] != 0 && edge[2 * used + 1] != 0; used++) {
        for (int k = 0; k < 2; k++)
            if (edge[2 * used + k] < 1 || edge[2 * used + k] > t->count)
                return tr_fail(TR_ERANGE, "tree_conv: edge %lld of '%s' is (%d, %d); the nodes of a tree are 1 to %d",
                               (long long)used, tr_run_in_name(io, EDGES, 0), edge[2 * used], edge[2 * used + 1], t->count);
        t->first[edge[2 * used] + 1]++;
    }
    for (int32_t u = 1; u < t->count + 2; u++)
        t->first[u] += t->first[u - 1];
    for (int64_t i = 0; i < used; i++)                  /* first[u] runs to its end, which is where u + 1 begins */
        t->child[t->first[edge[2 * i]]++] = edge[2 * i + 1] - 1;
    memset(t->seen, 0, (size_t)t->count * sizeof *t->seen);
    return TR_OK;
}

/* How many nodes the window of `root` has, and which ones. Node 0's children end at first[1], as the fill has moved them on. */
static int32_t find_window(tree *t, int32_t root, int32_t max_depth)
{
    int32_t count = 1;

    t->window[0] = (member){root, 0, 1, 1};
    t->seen[root] = root + 1;
    for (int32_t at = 0; at < count; at++) {
        const member  m = t->window[at];
        const int32_t begin = t->first[m.node], siblings = t->first[m.node + 1] - begin;
        for (int32_t i = 0; i < siblings && m.depth + 1 < max_depth; i++) {
            const int32_t child = t->child[begin + i];
            if (t->seen[child] == root + 1)
                continue;
            t->seen[child] = root + 1;
            t->window[count++] = (member){child, m.depth + 1, i + 1, siblings};
        }
    }
    return count;
}

/* Left, right, top. */
static void weights_of(double weight[3], const member *m, int32_t max_depth)
{
    const double top = (double)(max_depth - m->depth) / max_depth;
    const double place = m->siblings == 1 ? 0.5 : (double)(m->index - 1) / (m->siblings - 1);

    weight[0] = (1 - top) * place;
    weight[1] = (1 - top) * (1 - weight[0]);
    weight[2] = top;
}

/* -- kernels: the end of this file, once for each type --------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "tree_conv_grad",
    .reads = {TR_IN(NODES), TR_IN(EDGES), TR_IN(FILTER), TR_DOUT(OUT)},
    .makes = {TR_DIN(NODES), TR_DIN(FILTER)},
    .second = tr__second_bilinear,
};
TR_REGISTER_OP(tree_conv, .proto = &proto, .kernels = TR_FLOAT_KERNELS(tree_conv), .grad = &grad);
TR_REGISTER_OP(tree_conv_grad, .grad_of = &tr_op_record_tree_conv, .kernels = TR_FLOAT_KERNELS(tree_conv_grad));

#else /* the kernels, for each T */

typedef struct {
    tree    t;
    T      *columns;
    int64_t batch, nodes, features, edges, width;       /* width: of a row of Out */
    int32_t max_depth;
} NAME(job);

static tr_status NAME(job_init)(NAME(job) *j, const tr_run *io)
{
    const attrs    *a = io->attrs;
    const tr_shape *nodes = &io->in[NODES]->shape, *filter = &io->in[FILTER]->shape;

    *j = (NAME(job)){.batch = nodes->dim[0], .nodes = nodes->dim[1], .features = nodes->dim[2], .edges = io->in[EDGES]->shape.dim[1],
                     .width = filter->dim[2] * filter->dim[3], .max_depth = a->max_depth};
    if (j->nodes >= INT32_MAX - 2 || j->edges >= INT32_MAX)
        return tr_fail(TR_ESHAPE, "tree_conv: %lld nodes and %lld edges; a tree may have 2^31 - 3", (long long)j->nodes,
                       (long long)j->edges);
    j->t.count = (int32_t)j->nodes;
    TR_TRY(tr_blas_init());
    return tr__scratch_pieces(io, (const tr_piece[]){{&j->t.first, (size_t)(j->nodes + 2) * sizeof(int32_t)},
                                                     {&j->t.child, (size_t)j->edges * sizeof(int32_t)},
                                                     {&j->t.seen, (size_t)j->nodes * sizeof(int32_t)},
                                                     {&j->t.window, (size_t)(j->nodes + 1) * sizeof(member)},
                                                     {&j->columns, (size_t)(j->nodes * j->features * 3) * sizeof(T)}, {NULL, 0}});
}

/* The windows of one tree: into `columns` from x, or, where dx is not NULL, from `columns` into dx. Nodes that no edge names are
 * windows of themselves if their number is at most the number of edges + 1, as a tree's nodes are. */
static tr_status NAME(move)(NAME(job) *j, const tr_run *io, int64_t n, const T *x, T *dx)
{
    const int32_t *edge = (const int32_t *)io->in[EDGES]->data + n * j->edges * 2;
    int64_t        named = 1;

    TR_TRY(tree_init(&j->t, io, edge, j->edges));
    for (int64_t i = 0; i < j->edges && edge[2 * i] != 0 && edge[2 * i + 1] != 0; i++)
        named++;
    if (!dx)
        memset(j->columns, 0, (size_t)(j->nodes * j->features * 3) * sizeof(T));
    for (int32_t root = 0; root < j->t.count && root < named; root++) {
        const int32_t count = find_window(&j->t, root, j->max_depth);
        T            *column = j->columns + root * j->features * 3;
        for (int32_t m = 0; m < count; m++) {
            double weight[3];
            weights_of(weight, &j->t.window[m], j->max_depth);
            for (int64_t f = 0, at = j->t.window[m].node * j->features; f < j->features; f++, at++)
                for (int k = 0; k < 3; k++)
                    if (dx)
                        dx[at] += (T)weight[k] * column[3 * f + k];
                    else
                        column[3 * f + k] += (T)weight[k] * x[at];
        }
    }
    return TR_OK;
}

static tr_status NAME(tree_conv)(const tr_run *io)
{
    const T  *x = io->in[NODES]->data, *filter = io->in[FILTER]->data;
    T        *out = io->out[OUT]->data;
    NAME(job) j;

    TR_TRY(NAME(job_init)(&j, io));
    for (int64_t n = 0; n < j.batch; n++) {
        TR_TRY(NAME(move)(&j, io, n, x + n * j.nodes * j.features, NULL));
        NAME(tr_gemm)(false, false, j.nodes, j.width, j.features * 3, 1, j.columns, j.features * 3, filter, j.width, 0,
                      out + n * j.nodes * j.width, j.width);
    }
    return TR_OK;
}

static tr_status NAME(tree_conv_grad)(const tr_run *io)
{
    const T  *x = io->in[G_NODES]->data, *filter = io->in[G_FILTER]->data, *dout = io->in[G_DOUT]->data;
    T        *dx = io->out[G_DNODES] ? io->out[G_DNODES]->data : NULL;
    T        *dfilter = io->out[G_DFILTER] ? io->out[G_DFILTER]->data : NULL;
    NAME(job) j;

    TR_TRY(NAME(job_init)(&j, io));
    const int64_t in = j.nodes * j.features, rows = j.features * 3;
    if (dx)
        memset(dx, 0, (size_t)(j.batch * in) * sizeof(T));
    if (dfilter)
        memset(dfilter, 0, (size_t)(rows * j.width) * sizeof(T));
    for (int64_t n = 0; n < j.batch; n++) {
        const T *d = dout + n * j.nodes * j.width;
        if (dfilter) {
            TR_TRY(NAME(move)(&j, io, n, x + n * in, NULL));
            NAME(tr_gemm)(true, false, rows, j.width, j.nodes, 1, j.columns, rows, d, j.width, 1, dfilter, j.width);
        }
        if (dx) {
            NAME(tr_gemm)(false, true, j.nodes, rows, j.width, 1, d, j.width, filter, j.width, 0, j.columns, rows);
            TR_TRY(NAME(move)(&j, io, n, NULL, dx + n * in));
        }
    }
    return TR_OK;
}

#endif
