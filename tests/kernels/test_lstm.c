/* lstm and lstmp: sequences of any lengths, first states, peepholes, activations, projections. */
#include "tests/support/op_check.h"

#define RAGGED    OFFSETS(0, 2, 2, 5, 6, 9)
#define MANY      OFFSETS(0, 1, 3, 3, 8, 9, 11, 14, 15, 16, 18, 20, 27, 28, 29, 30, 33, 34, 36, 40, 41, 42, 44, 46, 49, 50, 52, 53, 56, 58, \
                          60, 65, 66, 71, 75)
#define NO_STATE  ABSENT, ABSENT
#define PLAIN     BOOL_ATTR("use_peepholes", 0)
#define REVERSE   BOOL_ATTR("is_reverse", 1)
#define ACT(which, name) STRING_ATTR(which "_activation", name)

/* -- the reference: one sequence after the other, one row after the other ------------------------------------------- */

static double activated(const op_case *c, const char *attr, const char *usual, double x)
{
    const char *name = usual;

    for (int a = 0; a < OP_MAX_ATTRS && c->attr[a].name; a++)
        if (strcmp(c->attr[a].name, attr) == 0)
            name = c->attr[a].text;
    return strcmp(name, "sigmoid") == 0 ? 1 / (1 + exp(-x)) : strcmp(name, "tanh") == 0 ? tanh(x)
         : strcmp(name, "relu") == 0 ? fmax(x, 0) : x;
}

static double clipped(const op_case *c, const char *attr, double x)
{
    const double bound = op_case_number(c, attr, 0);
    return bound > 0 ? fmax(-bound, fmin(bound, x)) : x;
}

/* Where the values of a row are: of lstm, then of lstmp. */
typedef struct {
    const op_values *v;
    const double    *weight, *bias, *projection;
    int64_t          width, narrow;
    double          *fed_back, *cell;     /* the state, updated row by row */
} lstm_row;

/* One row; writes gate [4 width], active and hidden [width]. */
static void reference_row(const lstm_row *s, const double *input, double *gate, double *active, double *hidden)
{
    const op_case *c = s->v->c;
    const bool     peeps = op_case_number(c, "use_peepholes", 1) != 0;
    const int64_t  n = s->width;
    const double  *p = s->bias + 4 * n;

    for (int64_t k = 0; k < 4 * n; k++) {
        gate[k] = input[k] + s->bias[k];
        for (int64_t i = 0; i < s->narrow; i++)
            gate[k] += s->fed_back[i] * s->weight[i * 4 * n + k];
    }
    for (int64_t j = 0; j < n; j++) {
        gate[j] = activated(c, "candidate_activation", "tanh", gate[j]);
        gate[n + j] = activated(c, "gate_activation", "sigmoid", gate[n + j] + (peeps ? p[j] * s->cell[j] : 0));
        gate[2 * n + j] = activated(c, "gate_activation", "sigmoid", gate[2 * n + j] + (peeps ? p[n + j] * s->cell[j] : 0));
        s->cell[j] = clipped(c, "cell_clip", gate[j] * gate[n + j] + s->cell[j] * gate[2 * n + j]);
        gate[3 * n + j] = activated(c, "gate_activation", "sigmoid",
                                    gate[3 * n + j] + (peeps ? p[2 * n + j] * s->cell[j] : 0));
        active[j] = activated(c, "cell_activation", "tanh", s->cell[j]);
        hidden[j] = gate[3 * n + j] * active[j];
    }
}

static void reference_rows(op_values *v, lstm_row *s, double *out, double *cell, double *gates, double *actives, double *hiddens)
{
    const op_offsets *o = op_case_sequences(v->c, 0);
    const int64_t     n = s->width, m = s->narrow;
    double            fed_back[16], state[16], gate[64], active[16], hidden[16];

    s->fed_back = fed_back;
    s->cell = state;
    for (int64_t i = 0; i + 1 < o->count; i++)
        for (int64_t t = 0; t < o->item[i + 1] - o->item[i]; t++) {
            const int64_t row = op_case_number(v->c, "is_reverse", 0) != 0 ? o->item[i + 1] - 1 - t : o->item[i] + t;
            const int64_t at = op_offsets_batch_row(o, i, t);
            for (int64_t j = 0; j < m && t == 0; j++)
                fed_back[j] = v->in[1].rank ? v->in[1].data[i * m + j] : 0;
            for (int64_t j = 0; j < n && t == 0; j++)
                state[j] = v->in[2].rank ? v->in[2].data[i * n + j] : 0;
            reference_row(s, v->in[0].data + row * 4 * n, gate, active, hidden);
            for (int64_t k = 0; k < m; k++) {
                double sum = 0;
                for (int64_t j = 0; j < n && s->projection; j++)
                    sum += hidden[j] * s->projection[j * m + k];
                fed_back[k] = s->projection ? clipped(v->c, "proj_clip", activated(v->c, "proj_activation", "tanh", sum)) : hidden[k];
            }
            memcpy(out + row * m, fed_back, (size_t)m * sizeof *out);
            memcpy(cell + row * n, state, (size_t)n * sizeof *cell);
            memcpy(gates + row * 4 * n, gate, (size_t)(4 * n) * sizeof *gate);
            memcpy(actives + at * n, active, (size_t)n * sizeof *active);
            if (hiddens)
                memcpy(hiddens + at * n, hidden, (size_t)n * sizeof *hidden);
        }
}

/* -- lstm --------------------------------------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)}, .out = {SEQUENCES(RAGGED, 9, 3), SEQUENCES(RAGGED, 9, 3)}},
    {"no peepholes", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 12)}, {PLAIN}},
    {"reverse", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)}, {REVERSE}},
    {"first states", {SEQUENCES(RAGGED, 9, 8), DIMS(5, 2), DIMS(5, 2), DIMS(2, 8), DIMS(1, 14)}},
    {"first states in reverse", {SEQUENCES(RAGGED, 9, 8), DIMS(5, 2), DIMS(5, 2), DIMS(2, 8), DIMS(1, 8)}, {PLAIN, REVERSE}},
    {"sigmoids", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)},
     {ACT("gate", "tanh"), ACT("cell", "sigmoid"), ACT("candidate", "sigmoid")}},
    {"no activation", {SEQUENCES(RAGGED, 9, 8), DIMS(5, 2), DIMS(5, 2), DIMS(2, 8), DIMS(1, 14)},
     {ACT("gate", "identity"), ACT("cell", "identity"), ACT("candidate", "identity")}},
    {"relu", {SEQUENCES(OFFSETS(0, 3, 4), 4, 8), NO_STATE, DIMS(2, 8), DIMS(1, 8)},
     {PLAIN, ACT("cell", "relu"), ACT("candidate", "relu")}},
    {"one row", {SEQUENCES(OFFSETS(0, 1), 1, 4), NO_STATE, DIMS(1, 4), DIMS(1, 7)}},
    {"two levels", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 4), 4, 4), NO_STATE, DIMS(1, 4), DIMS(1, 7)},
     .out = {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 4), 4, 1)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0, 0), 0, 8), DIMS(2, 2), DIMS(2, 2), DIMS(2, 8), DIMS(1, 14)}},
    {"groups of sequences", {SEQUENCES(MANY, 75, 32), DIMS(34, 8), DIMS(34, 8), DIMS(8, 32), DIMS(1, 56)}},
    {"groups in reverse", {SEQUENCES(MANY, 75, 32), NO_STATE, DIMS(8, 32), DIMS(1, 32)}, {PLAIN, REVERSE}},
};

static void reference(op_values *v)
{
    lstm_row s = {.v = v, .weight = v->in[3].data, .bias = v->in[4].data, .width = v->in[3].dims[0], .narrow = v->in[3].dims[0]};
    reference_rows(v, &s, v->out[0].data, v->out[1].data, v->out[2].data, v->out[3].data, NULL);
}

TEST(lstm_matches_reference)   { EACH(c) check_forward("lstm", c, reference, 2e-6); }
TEST(lstm_gradient_is_numeric) { EACH(c) check_gradient("lstm", c, 1e-5, 1e-7); }

/* Slices of rows by several threads, and the steps' products, on a size that has them. */
static const op_case wide = {"wide", {SEQUENCES(OFFSETS(0, 2, 5, 6, 20, 21, 25), 25, 1024), NO_STATE,
                                      FLOATS(-0.05, 0.05, 256, 1024), DIMS(1, 1792)}};

TEST(lstm_of_a_wide_cell_is_repeatable) { check_forward("lstm", &wide, NULL, 0); }

TEST(lstm_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "lstm: Input is [9, 10]; its width must be 4 times",
                infer_shapes("lstm", {DIMS(9, 10), NO_STATE, DIMS(3, 12), DIMS(1, 21)}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [3, 12], got [12, 3]",
                infer_shapes("lstm", {DIMS(9, 12), NO_STATE, DIMS(12, 3), DIMS(1, 21)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 21], got [1, 12]",
                infer_shapes("lstm", {DIMS(9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 12)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 12], got [1, 21]",
                infer_shapes("lstm", {DIMS(9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)}, {PLAIN}));
    EXPECT_FAIL(TR_EINVAL, "H0 and C0 go together; C0 is missing",
                infer_shapes("lstm", {DIMS(9, 12), DIMS(2, 3), ABSENT, DIMS(3, 12), DIMS(1, 21)}));
    EXPECT_FAIL(TR_EINVAL, "lstm: Input 'x0' has no sequences",
                run_status("lstm", {DIMS(9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)}));
    EXPECT_FAIL(TR_ESHAPE, "H0 'x1' is [2, 3]; it must have one row for each of the 5 sequences",
                run_status("lstm", {SEQUENCES(RAGGED, 9, 12), DIMS(2, 3), DIMS(2, 3), DIMS(3, 12), DIMS(1, 21)}));
    EXPECT_FAIL(TR_ERANGE, "gate_activation",
                infer_shapes("lstm", {DIMS(9, 12), NO_STATE, DIMS(3, 12), DIMS(1, 21)}, {ACT("gate", "gelu")}));
}

/* -- lstmp ---------------------------------------------------------------------------------------------------------- */

static const op_case projected_cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(2, 12), DIMS(3, 2), DIMS(1, 21)},
     .out = {SEQUENCES(RAGGED, 9, 2), SEQUENCES(RAGGED, 9, 3)}},
    {"wider than the cell", {SEQUENCES(RAGGED, 9, 8), DIMS(5, 3), DIMS(5, 2), DIMS(3, 8), DIMS(2, 3), DIMS(1, 8)}, {PLAIN, REVERSE}},
    {"no activation", {SEQUENCES(RAGGED, 9, 8), DIMS(5, 1), DIMS(5, 2), DIMS(1, 8), DIMS(2, 1), DIMS(1, 14)}, {ACT("proj", "identity")}},
    {"clipped", {SEQUENCES(RAGGED, 9, 12), NO_STATE, DIMS(2, 12), DIMS(3, 2), DIMS(1, 21)},
     {FLOAT_ATTR("cell_clip", 0.25), FLOAT_ATTR("proj_clip", 0.125)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0), 0, 12), NO_STATE, DIMS(2, 12), DIMS(3, 2), DIMS(1, 21)}},
};

static void projected_reference(op_values *v)
{
    lstm_row s = {.v = v, .weight = v->in[3].data, .projection = v->in[4].data, .bias = v->in[5].data,
                  .width = v->in[4].dims[0], .narrow = v->in[4].dims[1]};
    reference_rows(v, &s, v->out[0].data, v->out[1].data, v->out[2].data, v->out[3].data, v->out[4].data);
}

TEST(lstmp_matches_reference)   { EACH_OF(c, projected_cases) check_forward("lstmp", c, projected_reference, 2e-6); }
TEST(lstmp_gradient_is_numeric) { EACH_OF(c, projected_cases) check_gradient("lstmp", c, 1e-5, 1e-7); }

TEST(lstmp_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "ProjWeight must be [3, ?], got [2, 2]",
                infer_shapes("lstmp", {DIMS(9, 12), NO_STATE, DIMS(2, 12), DIMS(2, 2), DIMS(1, 21)}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [2, 12], got [3, 12]",
                infer_shapes("lstmp", {DIMS(9, 12), NO_STATE, DIMS(3, 12), DIMS(3, 2), DIMS(1, 21)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_matches_reference),
        cmocka_unit_test(lstm_gradient_is_numeric),
        cmocka_unit_test(lstm_of_a_wide_cell_is_repeatable),
        cmocka_unit_test(lstm_mistakes_are_explained),
        cmocka_unit_test(lstmp_matches_reference),
        cmocka_unit_test(lstmp_gradient_is_numeric),
        cmocka_unit_test(lstmp_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
