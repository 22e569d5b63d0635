/* The optimizers: each against its formula for one element, with dense gradients and with rows that repeat. */
#include "tests/support/op_check.h"

#define STATE(from, to, ...) {SIZE(__VA_ARGS__), .low = (from), .high = (to)}
#define NUMBER(x)            {SIZE(1), .values = LIST(x)}
#define DENSE                DIMS(5, 3)
/* Row 3 twice, row 0 once; rows 1, 2 and 4 have the gradient 0. */
#define SPARSE               ROWS(5, OFFSETS(3, 0, 3), 3, 3)
#define PARAM                DIMS(5, 3)
#define POSITIVE             STATE(0.1, 1, 5, 3)

static double attr(const op_values *v, const char *name, double otherwise)
{
    return (float)op_case_number(v->c, name, otherwise);
}

/* The whole gradient: rows added up. */
static void dense_gradient(double *g, const op_values *v, int slot)
{
    const op_arg  *arg = &v->c->in[slot];
    const int64_t  count = v->out[0].count, width = count / v->in[0].dims[0];

    for (int64_t i = 0; i < count; i++)
        g[i] = arg->height > 0 ? 0 : v->in[slot].data[i];
    for (int64_t i = 0; arg->height > 0 && i < v->in[slot].count; i++)
        g[arg->rows.item[i / width] * width + i % width] += v->in[slot].data[i];
}

#define EACH_ELEMENT(i, g, slot)                                    \
    double g##_all[4096];                                           \
    dense_gradient(g##_all, v, slot);                               \
    for (int64_t i = 0; i < v->out[0].count; i++)                   \
        for (double g = g##_all[i], once = 1; once == 1; once = 0)

/* -- sgd: Param, LearningRate, Grad ----------------------------------------------------------------- */

static const op_case sgd_cases[] = {
    {"dense", {PARAM, NUMBER(0.25), DENSE}},
    {"rows", {PARAM, NUMBER(0.25), SPARSE}},
    {"ascending rows", {PARAM, NUMBER(0.25), ROWS(5, OFFSETS(1, 2), 2, 3)}},
    {"no rows", {PARAM, NUMBER(0.25), {SIZE(0, 3), .height = 5, .rows = {0, (const int64_t[]){0}}}}},
    {"vector", {DIMS(7), NUMBER(0.5), DIMS(7)}},
    {"large", {DIMS(60, 65), NUMBER(0.5), DIMS(60, 65)}},
};

static void sgd_reference(op_values *v)
{
    EACH_ELEMENT(i, g, 2) v->out[0].data[i] = v->in[0].data[i] - v->in[1].data[0] * g;
}

TEST(sgd_matches_reference) { EACH_OF(c, sgd_cases) check_forward("sgd", c, sgd_reference, 1e-6); }

/* -- momentum: Param, Grad, Velocity, LearningRate ---------------------------------------------------- */

static const op_case momentum_cases[] = {
    {"dense", {PARAM, DENSE, PARAM, NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.9)}},
    {"Nesterov", {PARAM, DENSE, PARAM, NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.9), BOOL_ATTR("use_nesterov", 1)}},
    {"rows", {PARAM, SPARSE, PARAM, NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.9)}},
};

static void momentum_reference(op_values *v)
{
    const double mu = attr(v, "mu", 0), lr = v->in[3].data[0];

    EACH_ELEMENT(i, g, 1) {
        const double velocity = v->out[1].data[i] = mu * v->in[2].data[i] + g;
        v->out[0].data[i] = v->in[0].data[i] - lr * (attr(v, "use_nesterov", 0) != 0 ? g + mu * velocity : velocity);
    }
}

TEST(momentum_matches_reference) { EACH_OF(c, momentum_cases) check_forward("momentum", c, momentum_reference, 1e-6); }

/* -- adagrad: Param, Grad, Moment, LearningRate -------------------------------------------------------- */

static const op_case adagrad_cases[] = {
    {"dense", {PARAM, DENSE, POSITIVE, NUMBER(0.25)}},
    {"own epsilon", {PARAM, DENSE, POSITIVE, NUMBER(0.25)}, {FLOAT_ATTR("epsilon", 0.5)}},
    {"rows", {PARAM, SPARSE, POSITIVE, NUMBER(0.25)}},
};

static void adagrad_reference(op_values *v)
{
    EACH_ELEMENT(i, g, 1) {
        v->out[1].data[i] = v->in[2].data[i] + g * g;
        v->out[0].data[i] = v->in[0].data[i] - v->in[3].data[0] * g / (sqrt(v->out[1].data[i]) + attr(v, "epsilon", 1e-6));
    }
}

TEST(adagrad_matches_reference) { EACH_OF(c, adagrad_cases) check_forward("adagrad", c, adagrad_reference, 2e-6); }

/* -- adam: Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow -------------------------------- */

#define ADAM(grad) {PARAM, grad, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.8125), NUMBER(0.9375)}

/* Row 0 is named, and 0 all the same. */
#define ZERO_ROW {SIZE(2, 3), .height = 5, .rows = OFFSETS(0, 3), .values = LIST(0, 0, 0, 0.5, -0.25, 0.75)}

static const op_case adam_cases[] = {
    {"dense", ADAM(DENSE)},
    {"own betas", ADAM(DENSE), {FLOAT_ATTR("beta1", 0.5), FLOAT_ATTR("beta2", 0.75), FLOAT_ATTR("epsilon", 0.125)}},
    {"rows", ADAM(SPARSE)},
    {"lazy rows", ADAM(SPARSE), {BOOL_ATTR("lazy_mode", 1)}},
    {"lazy rows of zeros", ADAM(ZERO_ROW), {BOOL_ATTR("lazy_mode", 1)}},
    {"lazy, but dense", ADAM(DENSE), {BOOL_ATTR("lazy_mode", 1)}},
};

static void adam_reference(op_values *v)
{
    const double beta1 = attr(v, "beta1", 0.9), beta2 = attr(v, "beta2", 0.999), epsilon = attr(v, "epsilon", 1e-8);
    const double rate = v->in[2].data[0] * sqrt(1 - v->in[6].data[0]) / (1 - v->in[5].data[0]);
    const bool   lazy = attr(v, "lazy_mode", 0) != 0 && v->c->in[1].height > 0;

    EACH_ELEMENT(i, g, 1) {
        const bool   still = lazy && g_all[i / 3 * 3] == 0;
        const double m1 = still ? v->in[3].data[i] : beta1 * v->in[3].data[i] + (1 - beta1) * g;
        const double m2 = still ? v->in[4].data[i] : beta2 * v->in[4].data[i] + (1 - beta2) * g * g;
        v->out[1].data[i] = m1;
        v->out[2].data[i] = m2;
        v->out[0].data[i] = v->in[0].data[i] - (still ? 0 : rate * m1 / (sqrt(m2) + epsilon));
    }
}

TEST(adam_matches_reference) { EACH_OF(c, adam_cases) check_forward("adam", c, adam_reference, 4e-6); }

/* -- adamax: Param, Grad, LearningRate, Moment, InfNorm, Beta1Pow ------------------------------------------- */

static const op_case adamax_cases[] = {
    {"dense", {PARAM, DENSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.8125)}},
    {"rows", {PARAM, SPARSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.8125)}},
};

static void adamax_reference(op_values *v)
{
    const double beta1 = attr(v, "beta1", 0.9), beta2 = attr(v, "beta2", 0.999), epsilon = attr(v, "epsilon", 1e-8);

    EACH_ELEMENT(i, g, 1) {
        const double m = v->out[1].data[i] = beta1 * v->in[3].data[i] + (1 - beta1) * g;
        const double u = v->out[2].data[i] = fmax(fabs(g), beta2 * v->in[4].data[i] + epsilon);
        v->out[0].data[i] = v->in[0].data[i] - v->in[2].data[0] / (1 - v->in[5].data[0]) * m / u;
    }
}

TEST(adamax_matches_reference) { EACH_OF(c, adamax_cases) check_forward("adamax", c, adamax_reference, 2e-6); }

/* -- adadelta: Param, Grad, AvgSquaredGrad, AvgSquaredUpdate -------------------------------------------------- */

static const op_case adadelta_cases[] = {
    {"dense", {PARAM, DENSE, POSITIVE, POSITIVE}},
    {"rows", {PARAM, SPARSE, POSITIVE, POSITIVE}, {FLOAT_ATTR("rho", 0.75), FLOAT_ATTR("epsilon", 0.125)}},
};

static void adadelta_reference(op_values *v)
{
    const double rho = attr(v, "rho", 0.95), epsilon = attr(v, "epsilon", 1e-6);

    EACH_ELEMENT(i, g, 1) {
        const double s = v->out[1].data[i] = rho * v->in[2].data[i] + (1 - rho) * g * g;
        const double step = -sqrt((v->in[3].data[i] + epsilon) / (s + epsilon)) * g;
        v->out[2].data[i] = rho * v->in[3].data[i] + (1 - rho) * step * step;
        v->out[0].data[i] = v->in[0].data[i] + step;
    }
}

TEST(adadelta_matches_reference) { EACH_OF(c, adadelta_cases) check_forward("adadelta", c, adadelta_reference, 2e-6); }

/* -- decayed_adagrad: Param, Grad, Moment, LearningRate ---------------------------------------------------------- */

static const op_case decayed_cases[] = {
    {"dense", {PARAM, DENSE, POSITIVE, NUMBER(0.25)}},
    {"rows", {PARAM, SPARSE, POSITIVE, NUMBER(0.25)}, {FLOAT_ATTR("decay", 0.75), FLOAT_ATTR("epsilon", 0.125)}},
};

static void decayed_reference(op_values *v)
{
    const double decay = attr(v, "decay", 0.95), epsilon = attr(v, "epsilon", 1e-6);

    EACH_ELEMENT(i, g, 1) {
        const double m = v->out[1].data[i] = decay * v->in[2].data[i] + (1 - decay) * g * g;
        v->out[0].data[i] = v->in[0].data[i] - v->in[3].data[0] * g / (sqrt(m) + epsilon);
    }
}

TEST(decayed_adagrad_matches_reference)
{
    EACH_OF(c, decayed_cases) check_forward("decayed_adagrad", c, decayed_reference, 2e-6);
}

/* -- rmsprop: Param, MeanSquare, MeanGrad, LearningRate, Grad, Moment ------------------------------------------------ */

static const op_case rmsprop_cases[] = {
    {"plain", {PARAM, POSITIVE, PARAM, NUMBER(0.25), DENSE, PARAM}, {FLOAT_ATTR("momentum", 0.5)}},
    {"centred", {PARAM, STATE(1, 2, 5, 3), STATE(-0.5, 0.5, 5, 3), NUMBER(0.25), DENSE, PARAM},
     {FLOAT_ATTR("momentum", 0.5), FLOAT_ATTR("epsilon", 0.0625), BOOL_ATTR("centered", 1)}},
    {"rows", {PARAM, POSITIVE, PARAM, NUMBER(0.25), SPARSE, PARAM}},
    {"without MeanGrad", {PARAM, POSITIVE, ABSENT, NUMBER(0.25), DENSE, PARAM}, .out_count = {1, 1, 1, -1}},
};

static void rmsprop_reference(op_values *v)
{
    const double decay = attr(v, "decay", 0.9), epsilon = attr(v, "epsilon", 1e-10);
    const bool   centered = attr(v, "centered", 0) != 0;

    EACH_ELEMENT(i, g, 4) {
        const double ms = v->out[2].data[i] = decay * v->in[1].data[i] + (1 - decay) * g * g;
        const double mg = centered ? decay * v->in[2].data[i] + (1 - decay) * g : 0;
        const double step = attr(v, "momentum", 0) * v->in[5].data[i] + v->in[3].data[0] * g / sqrt(ms - mg * mg + epsilon);
        v->out[1].data[i] = step;
        v->out[0].data[i] = v->in[0].data[i] - step;
        if (v->out_count > 3)
            v->out[3].data[i] = centered ? mg : v->in[2].data[i];
    }
}

TEST(rmsprop_matches_reference) { EACH_OF(c, rmsprop_cases) check_forward("rmsprop", c, rmsprop_reference, 4e-6); }

/* -- ftrl: Param, SquaredAccumulator, LinearAccumulator, Grad, LearningRate ------------------------------------------- */

static const op_case ftrl_cases[] = {
    {"plain", {PARAM, POSITIVE, PARAM, DENSE, NUMBER(0.25)}},
    {"l1 and l2", {PARAM, POSITIVE, PARAM, DENSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.25), FLOAT_ATTR("l2", 0.125)}},
    {"another power", {PARAM, POSITIVE, PARAM, DENSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.25), FLOAT_ATTR("lr_power", -0.25)}},
    {"rows", {PARAM, POSITIVE, PARAM, SPARSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.25)}},
};

static void ftrl_reference(op_values *v)
{
    const double l1 = attr(v, "l1", 0), l2 = attr(v, "l2", 0), power = attr(v, "lr_power", -0.5), lr = v->in[4].data[0];

    EACH_ELEMENT(i, g, 3) {
        const double p = v->in[0].data[i], old = v->in[1].data[i], now = old + g * g;
        const double linear = v->in[2].data[i] + g - (pow(now, -power) - pow(old, -power)) / lr * p;
        const double pull = (linear > 0 ? l1 : -l1) - linear;
        v->out[1].data[i] = now;
        v->out[2].data[i] = linear;
        v->out[0].data[i] = fabs(linear) > l1 ? pull / (pow(now, -power) / lr + 2 * l2) : 0;
    }
}

TEST(ftrl_matches_reference) { EACH_OF(c, ftrl_cases) check_forward("ftrl", c, ftrl_reference, 1e-5); }

/* -- lars_momentum: Param, Grad, Velocity, LearningRate ------------------------------------------------------------------ */

static const op_case lars_cases[] = {
    {"dense", {PARAM, DENSE, PARAM, NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.5)}},
    {"own coefficients", {PARAM, DENSE, PARAM, NUMBER(0.25)},
     {FLOAT_ATTR("mu", 0.5), FLOAT_ATTR("lars_coeff", 0.25), FLOAT_ATTR("lars_weight_decay", 0.125)}},
    {"no gradient", {DIMS(2), VALUES(LIST(0, 0), 2), DIMS(2), NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.5)}},
    {"rows", {PARAM, SPARSE, PARAM, NUMBER(0.25)}, {FLOAT_ATTR("mu", 0.5), FLOAT_ATTR("lars_coeff", 0.25)}},
    {"each row for itself", {PARAM, DENSE, PARAM, NUMBER(0.25)},
     {FLOAT_ATTR("mu", 0.5), FLOAT_ATTR("lars_coeff", 0.25), BOOL_ATTR("per_row", 1)}},
};

static double norm(const double *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* The rate of the parameter, or of the row, that has element i. */
static double lars_rate(const op_values *v, const double *grads, int64_t i)
{
    const int64_t n = attr(v, "per_row", 0) != 0 ? v->in[0].dims[1] : v->in[0].count, first = i / n * n;
    const double  p = norm(v->in[0].data + first, n), g = norm(grads + first, n), decay = attr(v, "lars_weight_decay", 0.0005);
    const double  ratio = p > 0 && g > 0 ? attr(v, "lars_coeff", 0.001) * p / (g + decay * p) : 1;

    return ratio * v->in[3].data[0];
}

static void lars_reference(op_values *v)
{
    const double decay = attr(v, "lars_weight_decay", 0.0005);

    EACH_ELEMENT(i, g, 1) {
        const double rate = lars_rate(v, g_all, i);
        v->out[1].data[i] = attr(v, "mu", 0) * v->in[2].data[i] + rate * (g + decay * v->in[0].data[i]);
        v->out[0].data[i] = v->in[0].data[i] - v->out[1].data[i];
    }
}

TEST(lars_momentum_matches_reference) { EACH_OF(c, lars_cases) check_forward("lars_momentum", c, lars_reference, 2e-6); }

/* -- lamb: Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow ------------------------------------------------ */

static const op_case lamb_cases[] = {
    {"dense", {PARAM, DENSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.5), NUMBER(0.75)}},
    {"own coefficients", {PARAM, DENSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.5), NUMBER(0.75)},
     {FLOAT_ATTR("weight_decay", 0.25), FLOAT_ATTR("beta1", 0.5), FLOAT_ATTR("beta2", 0.75), FLOAT_ATTR("epsilon", 0.125)}},
    {"rows", {PARAM, SPARSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.5), NUMBER(0.75)}},
    {"each row for itself", {PARAM, DENSE, NUMBER(0.25), PARAM, POSITIVE, NUMBER(0.5), NUMBER(0.75)}, {BOOL_ATTR("per_row", 1)}},
    {"a parameter of zeros", {VALUES(LIST(0, 0), 2), DIMS(2), NUMBER(0.25), DIMS(2), STATE(0.1, 1, 2), NUMBER(0.5), NUMBER(0.75)}},
};

static void lamb_reference(op_values *v)
{
    const double  beta1 = attr(v, "beta1", 0.9), beta2 = attr(v, "beta2", 0.999);
    const int64_t n = attr(v, "per_row", 0) != 0 ? v->in[0].dims[1] : v->in[0].count;
    double        step[64];

    EACH_ELEMENT(i, g, 1) {
        v->out[1].data[i] = beta1 * v->in[3].data[i] + (1 - beta1) * g;
        v->out[2].data[i] = beta2 * v->in[4].data[i] + (1 - beta2) * g * g;
        step[i] = v->out[1].data[i] / (1 - v->in[5].data[0]) /
                      (sqrt(v->out[2].data[i] / (1 - v->in[6].data[0])) + attr(v, "epsilon", 1e-6)) +
                  attr(v, "weight_decay", 0.01) * v->in[0].data[i];
    }
    for (int64_t i = 0; i < v->in[0].count; i++) {
        const double p = norm(v->in[0].data + i / n * n, n), s = norm(step + i / n * n, n);
        v->out[0].data[i] = v->in[0].data[i] - v->in[2].data[0] * (p > 0 && s > 0 ? p / s : 1) * step[i];
    }
}

TEST(lamb_matches_reference) { EACH_OF(c, lamb_cases) check_forward("lamb", c, lamb_reference, 4e-6); }

/* -- average_accumulates: param, three sums, three numbers -------------------------------------------------------------------- */

#define COUNT(x)  {SIZE(1), .values = LIST(x), .is_typed = true, .dtype = TR_INT64}
#define WINDOW(a, b) {LONG_ATTR("min_average_window", a), LONG_ATTR("max_average_window", b), FLOAT_ATTR("average_window", 0.5)}

static const op_case average_cases[] = {
    {"one more", {PARAM, PARAM, PARAM, PARAM, COUNT(2), COUNT(4), COUNT(9)}, WINDOW(4, 20)},
    {"a full window", {PARAM, PARAM, PARAM, PARAM, COUNT(5), COUNT(4), COUNT(9)}, WINDOW(4, 20)},
    {"the longest window", {PARAM, PARAM, PARAM, PARAM, COUNT(7), COUNT(4), COUNT(99)}, WINDOW(4, 8)},
    {"many values", {PARAM, PARAM, PARAM, PARAM, COUNT(2), COUNT(4), COUNT(16383)}, WINDOW(4, 20)},
};

static void average_reference(op_values *v)
{
    const double updates = v->in[6].data[0] + 1, count = v->in[4].data[0] + 1;
    const bool   is_long = updates == 16384;
    const bool   is_full = count >= op_case_number(v->c, "min_average_window", 0) &&
                         count >= fmin(op_case_number(v->c, "max_average_window", 0), updates / 2);

    for (int64_t i = 0; i < v->in[0].count; i++) {
        const double first = v->in[0].data[i] + v->in[1].data[i], both = first + v->in[2].data[i];
        v->out[0].data[i] = is_full || is_long ? 0 : first;
        v->out[1].data[i] = is_full ? 0 : is_long ? both : v->in[2].data[i];
        v->out[2].data[i] = is_full ? both : v->in[3].data[i];
    }
    v->out[3].data[0] = is_full ? 0 : count;
    v->out[4].data[0] = is_full ? count : v->in[5].data[0];
    v->out[5].data[0] = updates;
}

TEST(averages_match_reference) { EACH_OF(c, average_cases) check_forward("average_accumulates", c, average_reference, 1e-6); }

TEST(wrong_windows_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "above max_average_window",
                infer_shapes("average_accumulates", {PARAM, PARAM, PARAM, PARAM, COUNT(0), COUNT(0), COUNT(0)}, WINDOW(9, 8)));
    EXPECT_FAIL(TR_EDTYPE, "in_num_updates",
                infer_shapes("average_accumulates", {PARAM, PARAM, PARAM, PARAM, COUNT(0), COUNT(0), NUMBER(0)}, WINDOW(1, 8)));
}

/* -- proximal_gd: Param, Grad, LearningRate; proximal_adagrad: Param, Moment, Grad, LearningRate ------------------------------ */

static const op_case proximal_gd_cases[] = {
    {"plain", {PARAM, DENSE, NUMBER(0.25)}},
    {"l1 and l2", {PARAM, DENSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.75), FLOAT_ATTR("l2", 0.5)}},
    {"rows", {PARAM, SPARSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.75)}},
};
static const op_case proximal_adagrad_cases[] = {
    {"plain", {PARAM, POSITIVE, DENSE, NUMBER(0.25)}},
    {"l1 and l2", {PARAM, POSITIVE, DENSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.75), FLOAT_ATTR("l2", 0.5)}},
    {"rows", {PARAM, POSITIVE, SPARSE, NUMBER(0.25)}, {FLOAT_ATTR("l1", 0.75)}},
};

static double shrunk(const op_values *v, double q, double lr)
{
    return copysign(fmax(fabs(q) - lr * attr(v, "l1", 0), 0), q) / (1 + lr * attr(v, "l2", 0));
}

static void proximal_gd_reference(op_values *v)
{
    const double lr = v->in[2].data[0];

    EACH_ELEMENT(i, g, 1) v->out[0].data[i] = shrunk(v, v->in[0].data[i] - lr * g, lr);
}

static void proximal_adagrad_reference(op_values *v)
{
    const double lr = v->in[3].data[0];

    EACH_ELEMENT(i, g, 2) {
        v->out[1].data[i] = v->in[1].data[i] + g * g;
        v->out[0].data[i] = shrunk(v, v->in[0].data[i] - lr * g / sqrt(v->out[1].data[i]), lr);
    }
}

TEST(proximal_gd_matches_reference)
{
    EACH_OF(c, proximal_gd_cases) check_forward("proximal_gd", c, proximal_gd_reference, 1e-6);
}

TEST(proximal_adagrad_matches_reference)
{
    EACH_OF(c, proximal_adagrad_cases) check_forward("proximal_adagrad", c, proximal_adagrad_reference, 2e-6);
}

/* -- what holds for all ------------------------------------------------------------------------------------------------ */

/* A table larger than one range of a sweep, with rows at both ends of ranges. */
TEST(sweep_over_a_large_table_meets_every_row)
{
    enum { HEIGHT = 1300, WIDTH = 120 };              /* a range is 546 rows */
    static const int64_t touched[] = {1299, 0, 545, 546, 0, 1092, 1091};
    const op_case        c = {"large", {DIMS(HEIGHT, WIDTH), ROWS(HEIGHT, OFFSETS(1299, 0, 545, 546, 0, 1092, 1091), 7, WIDTH),
                                        STATE(0, 0.5, HEIGHT, WIDTH), NUMBER(1)}, {FLOAT_ATTR("mu", 0.5)}};
    op_values            v = run_op("momentum", &c, TR_FP64);

    for (int64_t i = 0; i < HEIGHT * WIDTH; i++) {
        double velocity = 0.5 * v.in[2].data[i];
        for (int64_t r = 0; r < 7; r++)
            velocity += touched[r] == i / WIDTH ? v.in[1].data[r * WIDTH + i % WIDTH] : 0;
        if (fabs(v.out[1].data[i] - velocity) > 1e-14)
            fail_msg("element %lld of row %lld: velocity %g, expected %g", (long long)(i % WIDTH),
                     (long long)(i / WIDTH), v.out[1].data[i], velocity);
    }
    op_values_free(&v);
}

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Grad is [3, 5], but Param is [5, 3]", infer_shapes("sgd", {PARAM, NUMBER(1), DIMS(3, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Grad is rows of [6, 3], but Param is [5, 3]",
                infer_shapes("sgd", {PARAM, NUMBER(1), ROWS(6, OFFSETS(0), 1, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "LearningRate must hold one element", infer_shapes("sgd", {PARAM, DIMS(2), DENSE}));
    EXPECT_FAIL(TR_ESHAPE, "Velocity is [5, 4]",
                infer_shapes("momentum", {PARAM, DENSE, DIMS(5, 4), NUMBER(1)}, {FLOAT_ATTR("mu", 0.9)}));
    EXPECT_FAIL(TR_ESHAPE, "Moment is [5, 4]", infer_shapes("adagrad", {PARAM, DENSE, DIMS(5, 4), NUMBER(1)}));
    EXPECT_FAIL(TR_ESHAPE, "Moment2 is [3, 5]",
                infer_shapes("adam", {PARAM, DENSE, NUMBER(1), PARAM, DIMS(3, 5), NUMBER(0.5), NUMBER(0.5)}));
    EXPECT_FAIL(TR_ESHAPE, "Beta1Pow must hold one element",
                infer_shapes("adam", {PARAM, DENSE, NUMBER(1), PARAM, PARAM, DIMS(2), NUMBER(0.5)}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "Grad must be a dense tensor, got selected rows",
                infer_shapes("lars_momentum", {PARAM, SPARSE, PARAM, NUMBER(1)}, {FLOAT_ATTR("mu", 0.9), BOOL_ATTR("per_row", 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Moment1 is [3, 5]",
                infer_shapes("lamb", {PARAM, DENSE, NUMBER(1), DIMS(3, 5), PARAM, NUMBER(0.5), NUMBER(0.5)}));
    EXPECT_FAIL(TR_EINVAL, "mu", infer_shapes("momentum", {PARAM, DENSE, PARAM, NUMBER(1)}));
    EXPECT_FAIL(TR_EINVAL, "centered needs MeanGrad",
                op_run_status("rmsprop", &(op_case){"", {PARAM, POSITIVE, ABSENT, NUMBER(0.25), DENSE, PARAM},
                                                    {BOOL_ATTR("centered", 1)}, .out_count = {1, 1, 1, -1}}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_matches_reference),
        cmocka_unit_test(momentum_matches_reference),
        cmocka_unit_test(adagrad_matches_reference),
        cmocka_unit_test(adam_matches_reference),
        cmocka_unit_test(adamax_matches_reference),
        cmocka_unit_test(adadelta_matches_reference),
        cmocka_unit_test(decayed_adagrad_matches_reference),
        cmocka_unit_test(rmsprop_matches_reference),
        cmocka_unit_test(ftrl_matches_reference),
        cmocka_unit_test(lars_momentum_matches_reference),
        cmocka_unit_test(lamb_matches_reference),
        cmocka_unit_test(averages_match_reference),
        cmocka_unit_test(wrong_windows_are_explained),
        cmocka_unit_test(proximal_gd_matches_reference),
        cmocka_unit_test(proximal_adagrad_matches_reference),
        cmocka_unit_test(sweep_over_a_large_table_meets_every_row),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
