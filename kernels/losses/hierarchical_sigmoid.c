/* hierarchical_sigmoid.c - the cost of a class that is a leaf of a binary tree: one sigmoid for each turn on the way to it.
 *
 * Either the complete tree of num_classes leaves or, with PathTable and PathCode, a tree of the user's own, whose paths are
 * given row by row. A cost counts the turns of its own path alone, so that exp(-Out) over all classes adds up to 1. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/losses/picked_grad.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/tree_path.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, W, LABEL, PATH_TABLE, PATH_CODE, BIAS };
enum { OUT, PRE_OUT, W_OUT };
enum { G_X, G_W, G_LABEL, G_PATH_TABLE, G_PATH_CODE, G_BIAS, G_PRE_OUT, G_DOUT };

typedef struct attrs {
    int32_t num_classes;
    bool    is_sparse;
} attrs;

static const tr_op_proto proto = {
    .doc = "Minus the log of the probability of a class that is a leaf of a binary tree: of the turns on the way to it, where the "
           "turn at a node is 1 with probability sigmoid(X . W[node] + Bias[node]). In the complete tree of num_classes leaves "
           "bit b of Label + num_classes is the turn at node ((Label + num_classes) >> (b + 1)) - 1.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, width]", " float"),
                   TR_SLOT("W", "[nodes, width]", ", same dtype; num_classes - 1 nodes in the complete tree"),
                   TR_SLOT("Label", "[n] or [n, 1]", " int64: the classes; not read with PathTable", TR_SLOT_INT64),
                   TR_SLOT("PathTable", "[n, longest path]", " int64: the nodes on the way to each row's class; the first negative number ends it", TR_SLOT_OPTIONAL | TR_SLOT_INT64),
                   TR_SLOT("PathCode", "like PathTable", ": the turns, 0 or 1", TR_SLOT_OPTIONAL | TR_SLOT_INT64),
                   TR_SLOT("Bias", "[nodes] or [nodes, 1]", ", same dtype as X", TR_SLOT_OPTIONAL)),
    .out = TR_SLOTS({"Out", "[n, 1]: the cost"},
                    {"PreOut", "[n, longest path]: the score of each node of a path; 0 beyond its end", TR_SLOT_INTERMEDIATE},
                    {"W_Out", "W itself, for old programs", TR_SLOT_INTERMEDIATE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_classes, INT, "leaves of the complete tree, at least 2", .number = 2),
                       TR_ATTR_ONLY("remote_prefetch", BOOL, "rows of a table on servers need trireme.distributed"),
                       TR_ATTR_IGNORED("trainer_id", INT),
                       TR_ATTR_IGNORED("height_sections", LONGS), TR_ATTR_IGNORED("epmap", STRINGS),
                       TR_ATTR_IGNORED("table_names", STRINGS),
                       TR_ATTR(attrs, is_sparse, BOOL, "the gradients of W and Bias are selected rows")),
};

/* -- shapes ------------------------------------------------------------------------------------- */

/* *nodes and *depth: how many nodes the tree has and the longest path; -1 where not known. */
static tr_status check_tree(int64_t *nodes, int64_t *depth, const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *table = &io->in[PATH_TABLE], *code = &io->in[PATH_CODE];

    if ((table->kind == TR_KIND_NONE) != (code->kind == TR_KIND_NONE))
        return tr_fail(TR_EINVAL, "%s: PathTable and PathCode come together; %s is missing", io->type,
                       code->kind == TR_KIND_NONE ? "PathCode" : "PathTable");
    if (table->kind == TR_KIND_NONE && a->num_classes < 2)
        return tr_fail(TR_ERANGE, "%s: attribute 'num_classes' is %d; a tree has at least 2 classes", io->type, a->num_classes);
    if (table->kind == TR_KIND_NONE) {
        *nodes = a->num_classes - 1;
        *depth = tr_tree_depth(a->num_classes);
        return TR_OK;
    }
    *nodes = -1;
    *depth = table->shape.dim[1];
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const tr_meta *x = &io->in[X], *w = &io->in[W];
    int64_t        nodes = -1, depth = -1;

    TR_TRY(check_tree(&nodes, &depth, io));
    TR_TRY(tr__check_shape(io, "W", w, &TR_SHAPE(nodes, x->shape.dim[1])));
    io->out[OUT] = *x;
    io->out[OUT].shape.dim[1] = 1;
    io->out[PRE_OUT] = tr_meta_dense(x->dtype, TR_SHAPE(x->shape.dim[0], depth));
    io->out[W_OUT] = *w;
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    const attrs *a = io->attrs;

    tr__picked_infer_grad(io, &io->in[G_X], &io->in[G_W], &io->in[G_BIAS], a->is_sparse);
    return TR_OK;
}

/* -- the paths -------------------------------------------------------------------------------------- */

/* Fill in node and turn, [n][depth], from the input slots, which the gradient operator numbers in the same way. */
static tr_status find_paths(int64_t *node, uint8_t *turn, const tr_run *io, int64_t nodes, int64_t depth)
{
    const attrs     *a = io->attrs;
    const tr_tensor *label = io->in[LABEL], *table = io->in[PATH_TABLE], *code = io->in[PATH_CODE];
    const int64_t    n = io->in[X]->shape.dim[0], bad = table ? -1 : tr_rows_check(label->data, n, a->num_classes, -1);

    if (bad >= 0)
        return tr_fail(TR_ERANGE, "hierarchical_sigmoid: label %" PRId64 " in row %" PRId64 " of '%s' is none of the %d classes",
                       ((const int64_t *)label->data)[bad], bad, tr_run_in_name(io, LABEL, 0), a->num_classes);
    if (!table) {
        tr_tree_paths(node, turn, label->data, n, a->num_classes, depth);
        return TR_OK;
    }
    if (n)                                         /* memory of no rows is NULL */
        memcpy(node, table->data, (size_t)(n * depth) * sizeof *node);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = i * depth; k < (i + 1) * depth && node[k] >= 0; k++) {
            const int64_t to = ((const int64_t *)code->data)[k];
            if (node[k] >= nodes)
                return tr_fail(TR_ERANGE, "hierarchical_sigmoid: node %" PRId64 " in row %" PRId64 " of '%s' is no row of '%s', which "
                               "has %" PRId64, node[k], i, tr_run_in_name(io, PATH_TABLE, 0), tr_run_in_name(io, W, 0), nodes);
            if (to != 0 && to != 1)
                return tr_fail(TR_ERANGE, "hierarchical_sigmoid: the turn %" PRId64 " in row %" PRId64 " of '%s' is neither 0 nor 1", to,
                               i, tr_run_in_name(io, PATH_CODE, 0));
            turn[k] = (uint8_t)to;
        }
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "hierarchical_sigmoid_grad",
    .reads = {TR_IN(X), TR_IN(W), TR_IN(LABEL), TR_IN(PATH_TABLE), TR_IN(PATH_CODE), TR_IN_SHAPE(BIAS), TR_OUT(PRE_OUT),
              TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(W), TR_DIN(BIAS)},
};

TR_REGISTER_OP(hierarchical_sigmoid, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(hierarchical_sigmoid),
               .grad = &grad, .inplace = {{W, W_OUT}}, .inplace_count = 1);
TR_REGISTER_OP(hierarchical_sigmoid_grad, .grad_of = &tr_op_record_hierarchical_sigmoid, .infer = infer_grad,
               .kernels = TR_FLOAT_KERNELS(hierarchical_sigmoid_grad));

#else /* the kernels, for each T */

static tr_status NAME(hierarchical_sigmoid)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X], *w = io->in[W], *bias = io->in[BIAS], *kept = io->out[PRE_OUT], *w_out = io->out[W_OUT];
    const int64_t    n = x->shape.dim[0];
    const int64_t    depth = io->in[PATH_TABLE] ? io->in[PATH_TABLE]->shape.dim[1] : tr_tree_depth(a->num_classes);
    const size_t     count = (size_t)(n * depth);
    T               *score = kept ? kept->data : NULL;
    int64_t         *node = NULL;
    uint8_t         *turn = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&node, count * sizeof *node}, {&turn, count}, {&score, kept ? 0 : count * sizeof *score}, {NULL, 0}}));
    TR_TRY(find_paths(node, turn, io, w->shape.dim[0], depth));
    const NAME(tr_picked) p = {x->data, w->data, bias ? bias->data : NULL, node, n, depth, x->shape.dim[1]};
    NAME(tr_picked_scores)(score, &p);
    NAME(tr_tree_cost)(io->out[OUT]->data, score, node, turn, n, depth);
    if (w_out && w_out->data != w->data)
        memcpy(w_out->data, w->data, (size_t)tr_tensor_bytes(w));
    return TR_OK;
}

static tr_status NAME(hierarchical_sigmoid_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[G_X], *w = io->in[G_W], *kept = io->in[G_PRE_OUT];
    const int64_t    n = kept->shape.dim[0], depth = kept->shape.dim[1], count = n * depth;
    T               *dscore = NULL;
    int64_t         *node = NULL, *memory = NULL;
    uint8_t         *turn = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&node, (size_t)count * sizeof *node}, {&turn, (size_t)count}, {&dscore, (size_t)count * sizeof *dscore},
        {&memory, (size_t)tr_picked_memory(count) * sizeof *memory}, {NULL, 0}}));
    TR_TRY(find_paths(node, turn, io, w->shape.dim[0], depth));
    NAME(tr_tree_grad)(dscore, io->in[G_DOUT]->data, kept->data, node, turn, n, depth);
    const NAME(tr_picked) p = {x->data, w->data, NULL, node, n, depth, x->shape.dim[1]};
    return NAME(tr__picked_grad)(io, dscore, &p, memory, w->shape.dim[0], a->is_sparse);
}

#endif
