/* gru, gru_unit and lstm_unit. */
#include "tests/support/op_check.h"

#define RAGGED    OFFSETS(0, 2, 2, 5, 6, 9)
#define ORIGIN    BOOL_ATTR("origin_mode", 1)
#define REVERSE   BOOL_ATTR("is_reverse", 1)

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double activated(const char *name, double x)
{
    return strcmp(name, "sigmoid") == 0 ? sigmoid(x) : strcmp(name, "tanh") == 0 ? tanh(x)
         : strcmp(name, "relu") == 0 ? fmax(x, 0) : x;
}

typedef struct {
    const double *weight, *bias;          /* bias: NULL is none */
    const char   *act, *gate_act;
    bool          origin;
    int64_t       n;
} unit;

/* One row: `state` becomes the next one. */
static void step(const unit *u, const double *input, double *state, double *gate, double *reset)
{
    const int64_t n = u->n;

    for (int64_t k = 0; k < 2 * n; k++) {
        gate[k] = input[k] + (u->bias ? u->bias[k] : 0);
        for (int64_t i = 0; i < n; i++)
            gate[k] += state[i] * u->weight[i * 2 * n + k];
        gate[k] = activated(u->gate_act, gate[k]);
    }
    for (int64_t j = 0; j < n; j++)
        reset[j] = gate[n + j] * state[j];
    for (int64_t j = 0; j < n; j++) {
        double c = input[2 * n + j] + (u->bias ? u->bias[2 * n + j] : 0);
        for (int64_t i = 0; i < n; i++)
            c += reset[i] * u->weight[2 * n * n + i * n + j];
        gate[2 * n + j] = activated(u->act, c);
    }
    for (int64_t j = 0; j < n; j++) {
        const double keep = u->origin ? gate[j] : 1 - gate[j];
        state[j] = keep * state[j] + (1 - keep) * gate[2 * n + j];
    }
}

static const char *text_of(const op_case *c, const char *attr, const char *usual)
{
    for (int a = 0; a < OP_MAX_ATTRS && c->attr[a].name; a++)
        if (strcmp(c->attr[a].name, attr) == 0)
            return c->attr[a].text;
    return usual;
}

/* -- gru --------------------------------------------------------------------------------------------------------- */

static const op_case cases[] = {
    {"ragged", {SEQUENCES(RAGGED, 9, 9), ABSENT, DIMS(3, 9), DIMS(1, 9)}, .out = {[3] = SEQUENCES(RAGGED, 9, 3)}},
    {"origin mode", {SEQUENCES(RAGGED, 9, 9), ABSENT, DIMS(3, 9), DIMS(1, 9)}, {ORIGIN}},
    {"reverse", {SEQUENCES(RAGGED, 9, 9), ABSENT, DIMS(3, 9), DIMS(1, 9)}, {REVERSE}},
    {"first state", {SEQUENCES(RAGGED, 9, 6), DIMS(5, 2), DIMS(2, 6), DIMS(1, 6)}},
    {"first state, origin mode, reverse, no bias", {SEQUENCES(RAGGED, 9, 6), DIMS(5, 2), DIMS(2, 6)}, {ORIGIN, REVERSE}},
    {"other activations", {SEQUENCES(RAGGED, 9, 6), DIMS(5, 2), DIMS(2, 6), DIMS(1, 6)},
     {STRING_ATTR("activation", "identity"), STRING_ATTR("gate_activation", "tanh")}},
    {"relu", {SEQUENCES(OFFSETS(0, 3, 4), 4, 6), ABSENT, DIMS(2, 6), DIMS(1, 6)}, {STRING_ATTR("activation", "relu")}},
    {"two levels", {NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 4), 4, 3), ABSENT, DIMS(1, 3)},
     .out = {[3] = NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 1, 4), 4, 1)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0, 0), 0, 6), DIMS(2, 2), DIMS(2, 6), DIMS(1, 6)}},
};

static void reference(op_values *v)
{
    const op_offsets *o = op_case_sequences(v->c, 0);
    const int64_t     n = v->in[2].dims[0];
    const unit        u = {v->in[2].data, v->in_count > 3 ? v->in[3].data : NULL, text_of(v->c, "activation", "tanh"),
                           text_of(v->c, "gate_activation", "sigmoid"), op_case_number(v->c, "origin_mode", 0) != 0, n};
    double            state[16];

    for (int64_t i = 0; i + 1 < o->count; i++)
        for (int64_t t = 0; t < o->item[i + 1] - o->item[i]; t++) {
            const int64_t row = op_case_number(v->c, "is_reverse", 0) != 0 ? o->item[i + 1] - 1 - t : o->item[i] + t;
            const int64_t at = op_offsets_batch_row(o, i, t);
            for (int64_t j = 0; j < n && t == 0; j++)
                state[j] = v->in[1].rank ? v->in[1].data[i * n + j] : 0;
            step(&u, v->in[0].data + row * 3 * n, state, v->out[0].data + at * 3 * n, v->out[1].data + at * n);
            memcpy(v->out[2].data + at * n, state, (size_t)n * sizeof *state);
            memcpy(v->out[3].data + row * n, state, (size_t)n * sizeof *state);
        }
}

TEST(gru_matches_reference)   { EACH(c) check_forward("gru", c, reference, 2e-6); }
TEST(gru_gradient_is_numeric) { EACH(c) check_gradient("gru", c, 1e-5, 1e-7); }

TEST(gru_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "gru: Input is [9, 10]; its width must be 3 times",
                infer_shapes("gru", {DIMS(9, 10), ABSENT, DIMS(3, 9)}));
    EXPECT_FAIL(TR_ESHAPE, "Weight must be [3, 9], got [3, 12]", infer_shapes("gru", {DIMS(9, 9), ABSENT, DIMS(3, 12)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 9], got [1, 3]",
                infer_shapes("gru", {DIMS(9, 9), ABSENT, DIMS(3, 9), DIMS(1, 3)}));
    EXPECT_FAIL(TR_EINVAL, "gru: Input 'x0' has no sequences", run_status("gru", {DIMS(9, 9), ABSENT, DIMS(3, 9)}));
    EXPECT_FAIL(TR_ESHAPE, "H0 'x1' is [2, 3]; it must have one row for each of the 5 sequences",
                run_status("gru", {SEQUENCES(RAGGED, 9, 9), DIMS(2, 3), DIMS(3, 9)}));
}

/* -- gru_unit ------------------------------------------------------------------------------------------------------ */

static const op_case unit_cases[] = {
    {"usual", {DIMS(4, 9), DIMS(4, 3), DIMS(3, 9), DIMS(1, 9)}},
    {"origin mode, no bias", {DIMS(4, 9), DIMS(4, 3), DIMS(3, 9)}, {ORIGIN}},
    {"other activations", {DIMS(4, 6), DIMS(4, 2), DIMS(2, 6), DIMS(1, 6)}, {INT_ATTR("activation", 0), INT_ATTR("gate_activation", 2)}},
    {"relu", {DIMS(2, 6), DIMS(2, 2), DIMS(2, 6), DIMS(1, 6)}, {INT_ATTR("activation", 3)}},
    {"empty batch", {DIMS(0, 6), DIMS(0, 2), DIMS(2, 6), DIMS(1, 6)}},
};

static void unit_reference(op_values *v)
{
    static const char *const names[] = {"identity", "sigmoid", "tanh", "relu"};
    const int64_t n = v->in[2].dims[0];
    const unit    u = {v->in[2].data, v->in_count > 3 ? v->in[3].data : NULL, names[(int)op_case_number(v->c, "activation", 2)],
                       names[(int)op_case_number(v->c, "gate_activation", 1)], op_case_number(v->c, "origin_mode", 0) != 0, n};

    memcpy(v->out[2].data, v->in[1].data, (size_t)v->in[1].count * sizeof *v->in[1].data);
    for (int64_t i = 0; i < v->in[0].dims[0]; i++)
        step(&u, v->in[0].data + i * 3 * n, v->out[2].data + i * n, v->out[0].data + i * 3 * n, v->out[1].data + i * n);
}

TEST(gru_unit_matches_reference)   { EACH_OF(c, unit_cases) check_forward("gru_unit", c, unit_reference, 2e-6); }
TEST(gru_unit_gradient_is_numeric) { EACH_OF(c, unit_cases) check_gradient("gru_unit", c, 1e-5, 1e-7); }

TEST(gru_unit_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "HiddenPrev must be [4, 3], got [5, 3]", infer_shapes("gru_unit", {DIMS(4, 9), DIMS(5, 3), DIMS(3, 9)}));
    EXPECT_FAIL(TR_ERANGE, "activation",
                infer_shapes("gru_unit", {DIMS(4, 9), DIMS(4, 3), DIMS(3, 9)}, {INT_ATTR("activation", 4)}));
}

/* -- lstm_unit ------------------------------------------------------------------------------------------------------- */

static const op_case lstm_cases[] = {
    {"usual", {FLOATS(-3, 3, 4, 12), DIMS(4, 3)}},
    {"remembers", {FLOATS(-3, 3, 2, 40), DIMS(2, 10)}, {FLOAT_ATTR("forget_bias", 1.5)}},
    {"empty batch", {DIMS(0, 8), DIMS(0, 2)}},
};

static void lstm_reference(op_values *v)
{
    const int64_t n = v->in[1].dims[1];
    const double  bias = op_case_number(v->c, "forget_bias", 0);

    for (int64_t i = 0; i < v->in[1].count; i++) {
        const double *x = v->in[0].data + i / n * 4 * n + i % n;
        v->out[0].data[i] = v->in[1].data[i] * sigmoid(x[n] + bias) + sigmoid(x[0]) * tanh(x[3 * n]);
        v->out[1].data[i] = tanh(v->out[0].data[i]) * sigmoid(x[2 * n]);
    }
}

TEST(lstm_unit_matches_reference)   { EACH_OF(c, lstm_cases) check_forward("lstm_unit", c, lstm_reference, 1e-6); }
TEST(lstm_unit_gradient_is_numeric) { EACH_OF(c, lstm_cases) check_gradient("lstm_unit", c, 1e-5, 1e-7); }

TEST(lstm_unit_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "X must be [4, 12], got [4, 9]", infer_shapes("lstm_unit", {DIMS(4, 9), DIMS(4, 3)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gru_matches_reference),
        cmocka_unit_test(gru_gradient_is_numeric),
        cmocka_unit_test(gru_mistakes_are_explained),
        cmocka_unit_test(gru_unit_matches_reference),
        cmocka_unit_test(gru_unit_gradient_is_numeric),
        cmocka_unit_test(gru_unit_mistakes_are_explained),
        cmocka_unit_test(lstm_unit_matches_reference),
        cmocka_unit_test(lstm_unit_gradient_is_numeric),
        cmocka_unit_test(lstm_unit_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
