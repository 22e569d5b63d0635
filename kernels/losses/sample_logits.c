/* sample_logits.c - the scores of each row's true classes and of some drawn ones, for a softmax over few instead of all classes.
 *
 * num_samples different classes are drawn for the whole batch, by the log-uniform distribution over class numbers. SampledLogits holds
 * the scores of the row's classes less the log of how often each is to be expected in the draw (Jean et al., 2015): of a class of
 * probability p, 1 - (1 - p)^tries where it took `tries` draws to find that many different ones. A drawn class that is a true one of
 * the row gets -1e20, if remove_accidental_hits. Backward adds the gradients up at the classes of Samples; it does not read Logits. */
#ifndef T

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/tensors/random.h"
#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/nce.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { LOGITS, LABELS, GIVEN_SAMPLES, GIVEN_PROBABILITIES };
enum { SAMPLES, PROBABILITIES, LOGITS_DIM, LABELS_DIM, SAMPLED_LOGITS, SAMPLED_LABELS };
enum { G_LOGITS, G_LABELS, G_SAMPLES, G_DSAMPLED };
enum { G_DLOGITS };
enum { CHUNK = 256 };                  /* draws at a time */

typedef struct attrs {
    bool    use_customized_samples, remove_accidental_hits;
    int32_t num_samples, seed;
} attrs;

static const tr_op_proto proto = {
    .doc = "The scores of each row's true classes and of num_samples drawn ones: SampledLogits[i][j] = Logits[i][Samples[i][j]] - "
           "log(Probabilities[i][j]).",
    .in = TR_SLOTS(TR_SLOT("Logits", "[n, classes]", " float; scores of all classes"),
                   TR_SLOT("Labels", "[n, truths]", " int64; the true classes", TR_SLOT_INT64),
                   {"CustomizedSamples", "[n, truths + num_samples] int64; with use_customized_samples the classes, the true ones first", TR_SLOT_OPTIONAL | TR_SLOT_INT64},
                   {"CustomizedProbabilities", "like CustomizedSamples, typed as Logits; how often each is to be expected", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Samples", "[n, truths + num_samples] int64; the classes of SampledLogits", TR_SLOT_INTERMEDIATE | TR_SLOT_ANY_TYPE},
                    {"Probabilities", "like Samples, typed as Logits; how often each is to be expected", TR_SLOT_INTERMEDIATE},
                    {"LogitsDim", "[0, classes]; holds no data", TR_SLOT_INTERMEDIATE}, {"LabelsDim", "[0, truths]; holds no data", TR_SLOT_INTERMEDIATE | TR_SLOT_ANY_TYPE},
                    {"SampledLogits", "[n, truths + num_samples]; the scores"},
                    {"SampledLabels", "[n, truths] int64; where the true classes are in a row: 0, 1, ...", TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, use_customized_samples, BOOL, "take the classes from CustomizedSamples, draw none"),
                       TR_ATTR_ONLY("uniq", BOOL, "nce draws with repetition", .number = 1),
                       TR_ATTR(attrs, remove_accidental_hits, BOOL, "a drawn class that is a true one of the row gets -1e20", .number = 1),
                       TR_ATTR(attrs, num_samples, INT, "how many classes are drawn", .required = true, .range = TR_GREATER(0)),
                       TR_ATTR(attrs, seed, INT, "gives other draws, never the same ones in each step")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_given(const tr_infer *io, const tr_shape *picks)
{
    const attrs   *a = io->attrs;
    const tr_meta *samples = &io->in[GIVEN_SAMPLES], *probabilities = &io->in[GIVEN_PROBABILITIES];

    if (!a->use_customized_samples || io->for_gradient)
        return TR_OK;
    if (samples->kind == TR_KIND_NONE || probabilities->kind == TR_KIND_NONE)
        return tr_fail(TR_EINVAL, "%s: use_customized_samples needs CustomizedSamples and CustomizedProbabilities", io->type);
    TR_TRY(tr__check_shape(io, "CustomizedSamples", samples, picks));
    return tr__check_shape(io, "CustomizedProbabilities", probabilities, picks);
}

static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *logits = &io->in[LOGITS], *labels = &io->in[LABELS];
    tr_shape       picks = {.rank = 2, .dim = {logits->shape.dim[0], -1}};

    const int64_t classes = logits->shape.dim[1];
    if (classes >= 0 && a->num_samples > classes && !a->use_customized_samples)
        return tr_fail(TR_ERANGE, "%s: num_samples is %d, but Logits %s has only %" PRId64 " classes to draw from", io->type, a->num_samples,
                       TR_SHAPE_STR(logits->shape), classes);
    const bool has_labels = labels->kind != TR_KIND_NONE;
    if (has_labels && labels->shape.dim[1] >= 0)
        picks.dim[1] = labels->shape.dim[1] + a->num_samples;
    TR_TRY(check_given(io, &picks));
    io->out[SAMPLES] = tr_meta_dense(TR_INT64, picks);
    io->out[PROBABILITIES] = tr_meta_dense(logits->dtype, picks);
    io->out[LOGITS_DIM] = tr_meta_dense(logits->dtype, TR_SHAPE(0, classes));
    io->out[LABELS_DIM] = tr_meta_dense(TR_INT64, TR_SHAPE(0, has_labels ? labels->shape.dim[1] : -1));
    io->out[SAMPLED_LOGITS] = io->out[PROBABILITIES];
    if (has_labels)
        io->out[SAMPLED_LABELS] = tr_meta_dense(TR_INT64, labels->shape);
    return TR_OK;
}

/* -- drawing --------------------------------------------------------------------------------------- */

/* `count` different classes into `chosen`; returns how many draws that took. taken: a bit for each class, u and one: room for CHUNK. */
static int64_t draw_different(int64_t *chosen, int64_t count, uint8_t *taken, double *u, int64_t *one, uint64_t key, const tr_sampler *sampler)
{
    int64_t tries = 0, found = 0;

    memset(taken, 0, (size_t)(sampler->classes / 8 + 1));
    for (uint64_t start = 0; found < count; start += CHUNK) {
        tr_random_uniform_f64(u, CHUNK, key, start, 0, 1);
        tr_sampler_draw(one, u, CHUNK, sampler);
        for (int i = 0; i < CHUNK && found < count; i++, tries++) {
            const int64_t id = one[i] > 0 ? one[i] : 0;
            uint8_t      *byte = &taken[id / 8];
            const uint8_t bit = (uint8_t)(1u << (id % 8));
            if (!(*byte & bit))
                chosen[found++] = id;
            *byte |= bit;
        }
    }
    return tries;
}

/* How often a class of probability p is to be expected among `count` different ones that `tries` draws gave. */
static double expected_of(double p, int64_t count, int64_t tries)
{
    return tries == count ? p * (double)count : -expm1((double)tries * log1p(-p));
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* A row's scores are a plane, whose places are the classes. */
static tr_status spread(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "unsqueeze(X=Logits) {axes=[1]} -> planes"));
    TR_TRY(tr_composite_add(c, "cast(X=Samples) {in_dtype=%d, out_dtype=%d} -> classes", TR_INT64, TR_INT32));
    TR_TRY(tr_composite_add(c, "unsqueeze(X=classes) {axes=[1]} -> places"));
    TR_TRY(tr_composite_add(c, "unsqueeze(X=SampledLogits@GRAD) {axes=[1]} -> given"));
    TR_TRY(tr_composite_add(c, "take_places_grad(X=planes, Places=places, Out@GRAD=given) -> X@GRAD=spread"));
    return tr_composite_add(c, "unsqueeze_grad(X=Logits, Out@GRAD=spread) {axes=[1]} -> X@GRAD=Logits@GRAD");
}

static const tr_grad_rule grad = {
    .op = "sample_logits_grad", .reads = {TR_IN_SHAPE(LOGITS), TR_IN_SHAPE(LABELS), TR_OUT(SAMPLES), TR_DOUT(SAMPLED_LOGITS)}, .makes = {TR_DIN(LOGITS)},
    .second = tr__second_body, .body = spread,
};

TR_REGISTER_OP(sample_logits, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(sample_logits), .grad = &grad, .is_random = true,
               .is_varying = true);
TR_REGISTER_OP(sample_logits_grad, .grad_of = &tr_op_record_sample_logits, .kernels = TR_FLOAT_KERNELS(sample_logits_grad));

#else /* the kernels, for each T */

typedef struct {
    int64_t  rows, classes, truths, picks;
    int64_t *id;                       /* [rows][picks] */
    T       *chance;
} NAME(picked);

/* Fill in the classes and how often they are to be expected. */
static void NAME(pick)(const NAME(picked) *p, const tr_run *io, const int64_t *chosen, int64_t tries, const tr_sampler *sampler)
{
    const attrs   *a = io->attrs;
    const int64_t *label = io->in[LABELS]->data;

    for (int64_t i = 0; i < p->rows; i++) {
        memcpy(p->id + i * p->picks, label + i * p->truths, (size_t)p->truths * sizeof *p->id);
        memcpy(p->id + i * p->picks + p->truths, chosen, (size_t)a->num_samples * sizeof *p->id);
    }
    NAME(tr_sampler_expected)(p->chance, p->id, p->rows * p->picks, 1, sampler);
    for (int64_t k = 0; k < p->rows * p->picks; k++)
        p->chance[k] = (T)expected_of((double)p->chance[k], a->num_samples, tries);
}

static bool NAME(is_hit)(const NAME(picked) *p, int64_t row, int64_t k)
{
    const int64_t *id = p->id + row * p->picks;

    for (int64_t truth = 0; truth < p->truths && k >= p->truths; truth++)
        if (id[truth] == id[k])
            return true;
    return false;
}

/* Fluid bounds the logarithms of nothing. */
static T NAME(bounded)(double x)
{
    return (T)(x < -1e20 ? -1e20 : x > 1e20 ? 1e20 : x);
}

static void NAME(put)(const tr_run *io, const NAME(picked) *p)
{
    const attrs *a = io->attrs;
    const T     *logits = io->in[LOGITS]->data;
    T           *out = io->out[SAMPLED_LOGITS]->data;
    int64_t     *label = io->out[SAMPLED_LABELS]->data;

    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t k = 0; k < p->picks; k++) {
            const int64_t at = i * p->picks + k;
            const T       score = logits[i * p->classes + p->id[at]];
            out[at] = score - NAME(bounded)(log((double)p->chance[at])) - (a->remove_accidental_hits && NAME(is_hit)(p, i, k) ? (T)1e20 : 0);
        }
        for (int64_t k = 0; k < p->truths; k++)
            label[i * p->truths + k] = k;
    }
}

static tr_status NAME(check_classes)(const tr_run *io, int slot, int64_t classes)
{
    const tr_tensor *id = io->in[slot];
    const int64_t    bad = tr_rows_check(id->data, tr_tensor_count(id), classes, -1);

    return bad < 0 ? TR_OK : tr_fail(TR_ERANGE, "sample_logits: row %" PRId64 " of '%s' names class %" PRId64 "; there are %" PRId64,
                                     bad / id->shape.dim[1], tr_run_in_name(io, slot, 0), ((const int64_t *)id->data)[bad], classes);
}

static tr_status NAME(sample_logits)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *logits = io->in[LOGITS], *samples = io->out[SAMPLES], *probabilities = io->out[PROBABILITIES];
    NAME(picked)     p = {.rows = logits->shape.dim[0], .classes = logits->shape.dim[1], .truths = io->in[LABELS]->shape.dim[1]};
    const tr_sampler sampler = {.kind = TR_SAMPLER_LOG_UNIFORM, .classes = p.classes};
    const uint64_t   key = a->seed == 0 ? io->random_key : tr_random_key(io->random_key, (uint64_t)(uint32_t)a->seed, 0);
    double          *u = NULL;
    int64_t         *one = NULL, *chosen = NULL;
    uint8_t         *taken = NULL;

    p.picks = p.truths + a->num_samples;
    const size_t count = (size_t)(p.rows * p.picks);
    p.id = samples ? samples->data : NULL;
    p.chance = probabilities ? probabilities->data : NULL;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&p.id, samples ? 0 : count * sizeof *p.id}, {&p.chance, probabilities ? 0 : count * sizeof *p.chance}, {&u, CHUNK * sizeof *u},
        {&one, CHUNK * sizeof *one}, {&chosen, (size_t)a->num_samples * sizeof *chosen}, {&taken, (size_t)(p.classes / 8 + 1)}, {NULL, 0}}));
    TR_TRY(NAME(check_classes)(io, LABELS, p.classes));
    if (a->use_customized_samples) {
        TR_TRY(NAME(check_classes)(io, GIVEN_SAMPLES, p.classes));
        if (count > 0) {
            memcpy(p.id, io->in[GIVEN_SAMPLES]->data, count * sizeof *p.id);
            memcpy(p.chance, io->in[GIVEN_PROBABILITIES]->data, count * sizeof *p.chance);
        }
    } else if (count > 0) {
        NAME(pick)(&p, io, chosen, draw_different(chosen, a->num_samples, taken, u, one, key, &sampler), &sampler);
    }
    NAME(put)(io, &p);
    return TR_OK;
}

static tr_status NAME(sample_logits_grad)(const tr_run *io)
{
    const int64_t    rows = io->in[G_LOGITS]->shape.dim[0], classes = io->in[G_LOGITS]->shape.dim[1], picks = io->in[G_SAMPLES]->shape.dim[1];
    const int64_t   *id = io->in[G_SAMPLES]->data, bad = tr_rows_check(id, rows * picks, classes, -1);
    const T         *dsampled = io->in[G_DSAMPLED]->data;
    T               *dlogits = io->out[G_DLOGITS]->data;

    if (bad >= 0)
        return tr_fail(TR_ERANGE, "sample_logits_grad: '%s' (Samples) names class %" PRId64 "; there are %" PRId64, tr_run_in_name(io, G_SAMPLES, 0),
                       id[bad], classes);
    memset(dlogits, 0, (size_t)(rows * classes) * sizeof *dlogits);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < picks; k++)
            dlogits[i * classes + id[i * picks + k]] += dsampled[i * picks + k];
    return TR_OK;
}

#endif
