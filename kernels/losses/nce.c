/* nce.c - noise-contrastive estimation: a class is learnt by telling it from a few drawn ones, not from all others.
 *
 * The draws are a pure function of the run's key (program seed, name, step), attribute `seed` and their place in the batch.
 * Backward reads what was drawn and the sigmoids; it finds the expected numbers of draws anew. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/tensors/random.h"
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/losses/picked_grad.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/nce.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { INPUT, LABEL, WEIGHT, BIAS, SAMPLE_WEIGHT, PROBS, ALIAS, ALIAS_PROBS };
enum { COST, LOGITS, LABELS };
enum { G_INPUT, G_LABEL, G_WEIGHT, G_BIAS, G_SAMPLE_WEIGHT, G_PROBS, G_LOGITS, G_LABELS, G_DCOST };

typedef struct attrs {
    int32_t num_total_classes, num_neg_samples, sampler, seed;
    bool    is_sparse;
    tr_ints custom_neg_classes;
} attrs;

static const tr_op_proto proto = {
    .doc = "The cost of noise-contrastive estimation. With o = sigmoid(Input . Weight[class] + Bias[class]) and b = "
           "num_neg_samples times the probability that the class is drawn, a row costs the sum of -log(o / (o + b)) over its "
           "true classes and of -log(b / (o + b)) over num_neg_samples drawn ones, times its SampleWeight.",
    .in = TR_SLOTS(TR_SLOT("Input", "[n, width]", " float"), TR_SLOT("Label", "[n] or [n, true classes]", " int64", TR_SLOT_INT64),
                   {"Weight", "[num_total_classes, width], same dtype as Input"},
                   {"Bias", "[num_total_classes, 1] or [num_total_classes], same dtype", TR_SLOT_OPTIONAL},
                   TR_SLOT("SampleWeight", "[n] or [n, 1]", ", same dtype: what each row counts; 1 without", TR_SLOT_OPTIONAL),
                   {"CustomDistProbs", "[num_total_classes] float32: how often each class is drawn", TR_SLOT_OPTIONAL | TR_SLOT_FP32},
                   {"CustomDistAlias", "[num_total_classes] int32: the other class of each place of the alias tables; -1: none", TR_SLOT_OPTIONAL | TR_SLOT_INT32},
                   {"CustomDistAliasProbs", "[num_total_classes] float32: how often a place stands for its own class", TR_SLOT_OPTIONAL | TR_SLOT_FP32}),
    .out = TR_SLOTS({"Cost", "[n, 1]"},
                    {"SampleLogits", "[n, true + drawn classes]: o of each", TR_SLOT_INTERMEDIATE},
                    {"SampleLabels", "like SampleLogits, int64: the classes, true ones first", TR_SLOT_INTERMEDIATE | TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_total_classes, INT, "how many classes there are", .required = true,
                               .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, num_neg_samples, INT, "how many are drawn for each row", .number = 10,
                               .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, sampler, INT,
                               "0: evenly; 1: class c with probability log((c + 2) / (c + 1)) / log(num_total_classes + 1); 2: by "
                               "CustomDistProbs",
                               .range = TR_BETWEEN(0, 2)),
                       TR_ATTR(attrs, seed, INT, "other draws for each seed; always others in each step"),
                       TR_ATTR(attrs, is_sparse, BOOL, "the gradients of Weight and Bias are selected rows"),
                       TR_ATTR_ONLY("remote_prefetch", BOOL, "rows of a table on servers need trireme.distributed"),
                       TR_ATTR_IGNORED("trainer_id", INT),
                       TR_ATTR_IGNORED("height_sections", LONGS), TR_ATTR_IGNORED("epmap", STRINGS),
                       TR_ATTR_IGNORED("table_names", STRINGS),
                       TR_ATTR(attrs, custom_neg_classes, INTS, "these instead of drawn ones, for every row")),
};

static tr_status check_attrs(const void *attributes)
{
    const attrs *a = attributes;

    if (a->custom_neg_classes.count > 0 && a->custom_neg_classes.count != a->num_neg_samples)
        return tr_fail(TR_ERANGE, "nce: attribute 'custom_neg_classes' lists %d classes; it must be num_neg_samples, %d",
                       a->custom_neg_classes.count, a->num_neg_samples);
    for (int i = 0; i < a->custom_neg_classes.count; i++)
        if (a->custom_neg_classes.item[i] < 0 || a->custom_neg_classes.item[i] >= a->num_total_classes)
            return tr_fail(TR_ERANGE, "nce: attribute 'custom_neg_classes' lists %d, which is none of the %d classes",
                           a->custom_neg_classes.item[i], a->num_total_classes);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_table(const tr_infer *io, int slot, const char *name)
{
    const attrs   *a = io->attrs;
    const tr_shape shape = TR_SHAPE(a->num_total_classes);

    if (io->in[slot].kind == TR_KIND_NONE)
        return a->sampler == TR_SAMPLER_CUSTOM && !(io->for_gradient && slot != PROBS) ? tr_fail(TR_EINVAL, "%s: sampler 2 draws by %s, which is missing", io->type, name)
                                               : TR_OK;
    return tr__check_shape(io, name, &io->in[slot], &shape);
}

/* True classes of a row: labels are [n, truths], or [n] for one. */
static int64_t truths_of(const tr_shape *label)
{
    return label->rank == 1 ? 1 : label->dim[1];
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *x = &io->in[INPUT], *label = &io->in[LABEL];

    TR_TRY(tr__check_shape(io, "Weight", &io->in[WEIGHT], &TR_SHAPE(a->num_total_classes, x->shape.dim[1])));
    if (io->in[BIAS].kind != TR_KIND_NONE)
        TR_TRY(tr__check_column(io, "Bias", &io->in[BIAS], a->num_total_classes));
    TR_TRY(check_table(io, PROBS, "CustomDistProbs"));
    TR_TRY(check_table(io, ALIAS, "CustomDistAlias"));
    TR_TRY(check_table(io, ALIAS_PROBS, "CustomDistAliasProbs"));

    const int64_t truths = truths_of(&label->shape);
    io->out[LABELS] = tr_meta_dense(TR_INT64, TR_SHAPE(x->shape.dim[0], truths < 0 ? -1 : truths + a->num_neg_samples));
    io->out[LOGITS] = tr_meta_dense(x->dtype, io->out[LABELS].shape);
    io->out[COST] = *x;
    io->out[COST].shape.dim[1] = 1;
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    const attrs *a = io->attrs;

    tr__picked_infer_grad(io, &io->in[G_INPUT], &io->in[G_WEIGHT], &io->in[G_BIAS], a->is_sparse);
    return TR_OK;
}

static const void *data_of(const tr_tensor *x)
{
    return x ? x->data : NULL;
}

/* -- the classes of each row ------------------------------------------------------------------------ */

/* id [rows][truths + drawn]; u is room for a number for each draw. */
static void pick(int64_t *id, double *u, const tr_run *io, const tr_sampler *sampler, int64_t rows, int64_t truths)
{
    const attrs   *a = io->attrs;
    const int64_t  drawn = a->num_neg_samples, *label = io->in[LABEL]->data;
    const uint64_t key = a->seed == 0 ? io->random_key : tr_random_key(io->random_key, (uint64_t)(uint32_t)a->seed, 0);
    const tr_ints *given = &a->custom_neg_classes;

    if (given->count == 0)
        tr_random_uniform_f64(u, rows * drawn, key, 0, 0, 1);
    for (int64_t i = 0; i < rows; i++, id += truths + drawn) {
        memcpy(id, label + i * truths, (size_t)truths * sizeof *id);
        if (given->count == 0)
            tr_sampler_draw(id + truths, u + i * drawn, drawn, sampler);
        for (int j = 0; j < given->count; j++)
            id[truths + j] = given->item[j];
    }
}

static tr_status check_picks(const tr_run *io, const int64_t *id, const tr_sampler *sampler, int64_t rows, int64_t truths)
{
    const attrs  *a = io->attrs;
    const int64_t picks = truths + a->num_neg_samples, bad = tr_rows_check(id, rows * picks, sampler->classes, -1);

    if (bad >= 0 && bad % picks < truths)
        return tr_fail(TR_ERANGE, "nce: label %" PRId64 " in row %" PRId64 " of '%s' is none of the %" PRId64 " classes", id[bad],
                       bad / picks, tr_run_in_name(io, LABEL, 0), sampler->classes);
    if (bad >= 0)
        return tr_fail(TR_ERANGE, "nce: '%s' (CustomDistAlias) names %" PRId64 ", which is none of the %" PRId64 " classes",
                       tr_run_in_name(io, ALIAS, 0), id[bad], sampler->classes);
    for (int64_t k = 0; sampler->kind == TR_SAMPLER_CUSTOM && k < rows * picks; k++) {
        const double p = (double)sampler->prob[id[k]];
        if (!(p >= 0 && p <= 1) || (p <= 0 && k % picks >= truths))
            return tr_fail(TR_ERANGE, "nce: class %" PRId64 " was drawn, but its probability in '%s' (CustomDistProbs) is %g", id[k],
                           tr_run_in_name(io, PROBS, 0), p);
    }
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "nce_grad",
    .reads = {TR_IN(INPUT), TR_IN_SHAPE(LABEL), TR_IN(WEIGHT), TR_IN_SHAPE(BIAS), TR_IN(SAMPLE_WEIGHT), TR_IN(PROBS),
              TR_OUT(LOGITS), TR_OUT(LABELS), TR_DOUT(COST)},
    .makes = {TR_DIN(INPUT), TR_DIN(WEIGHT), TR_DIN(BIAS)},
};

TR_REGISTER_OP(nce, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(nce), .grad = &grad, .check = check_attrs,
               .is_random = true, .is_varying = true);
TR_REGISTER_OP(nce_grad, .grad_of = &tr_op_record_nce, .infer = infer_grad, .kernels = TR_FLOAT_KERNELS(nce_grad));

#else /* the kernels, for each T */

static tr_status NAME(nce)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[INPUT], *logits = io->out[LOGITS], *labels = io->out[LABELS];
    const int64_t    rows = x->shape.dim[0], truths = truths_of(&io->in[LABEL]->shape), picks = truths + a->num_neg_samples;
    const tr_sampler sampler = {(tr_sampler_kind)a->sampler, a->num_total_classes, data_of(io->in[PROBS]),
                                data_of(io->in[ALIAS]), data_of(io->in[ALIAS_PROBS])};
    const size_t     count = (size_t)(rows * picks);
    T               *score = logits ? logits->data : NULL, *expected = NULL;
    int64_t         *id = labels ? labels->data : NULL;
    double          *u = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&score, logits ? 0 : count * sizeof *score}, {&id, labels ? 0 : count * sizeof *id}, {&expected, count * sizeof *expected},
        {&u, (size_t)(rows * a->num_neg_samples) * sizeof *u}, {NULL, 0}}));
    pick(id, u, io, &sampler, rows, truths);
    TR_TRY(check_picks(io, id, &sampler, rows, truths));
    const NAME(tr_picked) p = {x->data, io->in[WEIGHT]->data, data_of(io->in[BIAS]), id, rows, picks, x->shape.dim[1]};
    NAME(tr_picked_scores)(score, &p);
    NAME(tr_sampler_expected)(expected, id, rows * picks, a->num_neg_samples, &sampler);
    NAME(tr_nce_cost)(io->out[COST]->data, score, expected, data_of(io->in[SAMPLE_WEIGHT]), rows, picks, truths);
    return TR_OK;
}

static tr_status NAME(nce_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[G_INPUT], *w = io->in[G_WEIGHT], *labels = io->in[G_LABELS];
    const int64_t    rows = labels->shape.dim[0], picks = labels->shape.dim[1], count = rows * picks;
    const tr_sampler sampler = {(tr_sampler_kind)a->sampler, a->num_total_classes, data_of(io->in[G_PROBS]), NULL, NULL};
    T               *dscore = NULL, *expected = NULL;
    int64_t         *memory = NULL;
    const int64_t    bad = tr_rows_check(labels->data, count, sampler.classes, -1);

    if (bad >= 0)
        return tr_fail(TR_ERANGE, "nce_grad: '%s' (SampleLabels) names %" PRId64 ", which is none of the %" PRId64 " classes",
                       tr_run_in_name(io, G_LABELS, 0), ((const int64_t *)labels->data)[bad], sampler.classes);
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&dscore, (size_t)count * sizeof *dscore}, {&expected, (size_t)count * sizeof *expected},
        {&memory, (size_t)tr_picked_memory(count) * sizeof *memory}, {NULL, 0}}));
    NAME(tr_sampler_expected)(expected, labels->data, count, a->num_neg_samples, &sampler);
    NAME(tr_nce_grad)(dscore, io->in[G_DCOST]->data, io->in[G_LOGITS]->data, expected, data_of(io->in[G_SAMPLE_WEIGHT]), rows,
                      picks, truths_of(&io->in[G_LABEL]->shape));
    const NAME(tr_picked) p = {x->data, w->data, NULL, labels->data, rows, picks, x->shape.dim[1]};
    return NAME(tr__picked_grad)(io, dscore, &p, memory, w->shape.dim[0], a->is_sparse);
}

#endif
