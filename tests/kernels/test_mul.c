/* Products of matrices: mul, matmul, fc. */
#include "tests/support/op_check.h"

static int64_t product(const op_array *a, int from, int to)
{
    int64_t result = 1;

    for (int i = from; i < to; i++)
        result *= a->dims[i];
    return result;
}

/* -- mul ------------------------------------------------------------------------------------------- */

static const op_case mul_cases[] = {
    {"one element",  {DIMS(1, 1), DIMS(1, 1)}},
    {"ragged",       {DIMS(3, 17), DIMS(17, 5)}, .out = {DIMS(3, 5)}},
    {"square",       {DIMS(6, 6), DIMS(6, 6)}},
    {"flattened X",  {DIMS(2, 3, 4), DIMS(12, 5)}, .out = {DIMS(2, 5)}},
    {"two rows dims", {DIMS(2, 3, 4), DIMS(4, 5)}, {INT_ATTR("x_num_col_dims", 2)}, {DIMS(2, 3, 5)}},
    {"flattened Y",  {DIMS(2, 12), DIMS(3, 4, 5, 2)}, {INT_ATTR("y_num_col_dims", 2)}, {DIMS(2, 5, 2)}},
    {"empty batch",  {DIMS(0, 4), DIMS(4, 3)}, .out = {DIMS(0, 3)}},
    {"nothing inside", {DIMS(2, 0), DIMS(0, 3)}, .out = {DIMS(2, 3)}},
    {"sequences",    {SEQUENCES(OFFSETS(0, 1, 4), 4, 3), DIMS(3, 2)}, .out = {SEQUENCES(OFFSETS(0, 1, 4), 4, 2)}},
};

static void multiply(double *out, const double *x, const double *y, int64_t m, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += x[i * k + l] * y[l * n + j];
            out[i * n + j] = sum;
        }
}

static void mul_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const int       rows = (int)op_case_number(v->c, "y_num_col_dims", 1);
    const int64_t   k = product(y, 0, rows), n = product(y, rows, y->rank);
    const int64_t   m = product(x, 0, (int)op_case_number(v->c, "x_num_col_dims", 1));

    multiply(v->out[0].data, x->data, y->data, m, n, k);
}

TEST(mul_matches_reference) { EACH_OF(c, mul_cases) check_forward("mul", c, mul_reference, 1e-5); }
TEST(mul_gradient_is_numeric) { EACH_OF(c, mul_cases) check_gradient("mul", c, 1e-5, 1e-7); }

/* -- mul_grad_sgd: X, Y, Out@GRAD, LearningRate ------------------------------------------------------ */

#define RATE {SIZE(1), .values = LIST(0.25)}

static const op_case update_cases[] = {
    {"ragged", {DIMS(3, 17), DIMS(17, 5), DIMS(3, 5), RATE}},
    {"flattened", {DIMS(2, 3, 4), DIMS(2, 2, 5), DIMS(2, 3, 5), RATE}, {INT_ATTR("x_num_col_dims", 2), INT_ATTR("y_num_col_dims", 2)}},
    {"one sum", {DIMS(70, 260), DIMS(260, 300), DIMS(70, 300), RATE}},
    {"sums in parts", {DIMS(1030, 40), DIMS(40, 48), DIMS(1030, 48), RATE}},
    {"empty batch", {DIMS(0, 4), DIMS(4, 3), DIMS(0, 3), RATE}},
};

static void update_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1], *d = &v->in[2];
    const int64_t   k = product(y, 0, (int)op_case_number(v->c, "y_num_col_dims", 1)), n = k > 0 ? y->count / k : 0;
    const int64_t   m = product(x, 0, (int)op_case_number(v->c, "x_num_col_dims", 1));

    for (int64_t i = 0; i < m * k; i++)
        v->out[0].data[i] = 0;
    for (int64_t l = 0; l < k; l++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t i = 0; i < m; i++) {
                sum += x->data[i * k + l] * d->data[i * n + j];
                v->out[0].data[i * k + l] += d->data[i * n + j] * y->data[l * n + j];
            }
            v->out[1].data[l * n + j] = y->data[l * n + j] - v->in[3].data[0] * sum;
        }
}

TEST(mul_grad_sgd_matches_reference) { EACH_OF(c, update_cases) check_forward("mul_grad_sgd", c, update_reference, 2e-5); }

TEST(mul_grad_sgd_explains_mistakes)
{
    EXPECT_FAIL(TR_ESHAPE, "Out@GRAD must be [3, 2]",
                infer_shapes("mul_grad_sgd", {DIMS(3, 4), DIMS(4, 2), DIMS(3, 5), DIMS(1)}));
    EXPECT_FAIL(TR_ESHAPE, "LearningRate", infer_shapes("mul_grad_sgd", {DIMS(3, 4), DIMS(4, 2), DIMS(3, 2), DIMS(2)}));
}

TEST(mul_matches_reference_when_threads_share_it)
{
    check_forward("mul", &(op_case){"large", {DIMS(97, 211), DIMS(211, 301)}}, mul_reference, 1e-5);
}

TEST(mul_explains_mistakes)
{
    EXPECT_FAIL(TR_ESHAPE, "Y must have 4 rows; got [5, 2]", infer_shapes("mul", {DIMS(3, 4), DIMS(5, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "none for columns", infer_shapes("mul", {DIMS(3), DIMS(3, 2)}));
    EXPECT_FAIL(TR_ERANGE, "x_num_col_dims",
                infer_shapes("mul", {DIMS(3, 4), DIMS(4, 2)}, {INT_ATTR("x_num_col_dims", 0)}));
    EXPECT_FAIL(TR_EDTYPE, "Y must be float32", infer_shapes("mul", {DIMS(3, 4), INT32S(0, 5, 4, 2)}));
    EXPECT_SHAPE("float32[?, 10]", "mul", {DIMS(-1, 784), DIMS(784, 10)});
}

/* -- matmul ------------------------------------------------------------------------------------------ */

#define TRANSPOSE_X BOOL_ATTR("transpose_X", true)
#define TRANSPOSE_Y BOOL_ATTR("transpose_Y", true)

static const op_case matmul_cases[] = {
    {"matrices",          {DIMS(3, 4), DIMS(4, 5)}, .out = {DIMS(3, 5)}},
    {"square",            {DIMS(6, 6), DIMS(6, 6)}},
    {"X transposed",      {DIMS(4, 3), DIMS(4, 5)}, {TRANSPOSE_X}, {DIMS(3, 5)}},
    {"Y transposed",      {DIMS(3, 4), DIMS(5, 4)}, {TRANSPOSE_Y, FLOAT_ATTR("alpha", 0.5)}, {DIMS(3, 5)}},
    {"both transposed",   {DIMS(4, 3), DIMS(5, 4)}, {TRANSPOSE_X, TRANSPOSE_Y}, {DIMS(3, 5)}},
    {"batches",           {DIMS(2, 3, 4), DIMS(2, 4, 5)}, .out = {DIMS(2, 3, 5)}},
    {"batches of heads",  {DIMS(2, 2, 3, 4), DIMS(2, 2, 5, 4)}, {TRANSPOSE_Y, FLOAT_ATTR("alpha", 0.5)},
                          {DIMS(2, 2, 3, 5)}},
    {"batches, transposed", {DIMS(2, 4, 3), DIMS(2, 5, 4)}, {TRANSPOSE_X, TRANSPOSE_Y}, {DIMS(2, 3, 5)}},
    {"many times one",    {DIMS(2, 3, 4), DIMS(4, 5)}, .out = {DIMS(2, 3, 5)}},
    {"many times one, Y transposed", {DIMS(2, 3, 4), DIMS(5, 4)}, {TRANSPOSE_Y}, {DIMS(2, 3, 5)}},
    {"many times one, X transposed", {DIMS(2, 4, 3), DIMS(4, 5)}, {TRANSPOSE_X}, {DIMS(2, 3, 5)}},
    {"many times one, both",         {DIMS(2, 4, 3), DIMS(5, 4)}, {TRANSPOSE_X, TRANSPOSE_Y}, {DIMS(2, 3, 5)}},
    {"one times many",    {DIMS(3, 4), DIMS(2, 4, 5)}, .out = {DIMS(2, 3, 5)}},
    {"one times many, X transposed", {DIMS(4, 3), DIMS(2, 4, 5)}, {TRANSPOSE_X}, {DIMS(2, 3, 5)}},
    {"one times many, both",         {DIMS(4, 3), DIMS(2, 5, 4)}, {TRANSPOSE_X, TRANSPOSE_Y}, {DIMS(2, 3, 5)}},
    {"vector times matrix", {DIMS(4), DIMS(4, 5)}, .out = {DIMS(5)}},
    {"matrix times vector", {DIMS(3, 4), DIMS(4)}, .out = {DIMS(3)}},
    {"vectors",           {DIMS(4), DIMS(4)}, .out = {DIMS(1)}},
    {"column times row",  {DIMS(3), DIMS(4)}, {TRANSPOSE_X, TRANSPOSE_Y}, {DIMS(3, 4)}},
    {"batches times vector", {DIMS(2, 3, 4), DIMS(4)}, .out = {DIMS(2, 3)}},
    {"vector times batches", {DIMS(4), DIMS(2, 4, 5)}, .out = {DIMS(2, 5)}},
    {"empty batch",       {DIMS(0, 3, 4), DIMS(4, 5)}, .out = {DIMS(0, 3, 5)}},
    {"no matrices",       {DIMS(0, 3, 4), DIMS(0, 4, 5)}, .out = {DIMS(0, 3, 5)}},
    {"no transposed matrices", {DIMS(0, 4, 3), DIMS(4, 5)}, {TRANSPOSE_X}, {DIMS(0, 3, 5)}},
};

static void matmul_reference(op_values *v)
{
    const op_array *x = &v->in[0], *y = &v->in[1];
    const bool      tx = op_case_number(v->c, "transpose_X", 0), ty = op_case_number(v->c, "transpose_Y", 0);
    const double    alpha = op_case_number(v->c, "alpha", 1);
    const int64_t   x_rows = x->rank == 1 ? 1 : x->dims[x->rank - 2], x_cols = x->dims[x->rank - 1];
    const int64_t   y_rows = y->rank == 1 ? y->dims[0] : y->dims[y->rank - 2];
    const int64_t   y_cols = y->rank == 1 ? 1 : y->dims[y->rank - 1];
    const int64_t   m = tx ? x_cols : x_rows, n = ty ? y_rows : y_cols, k = tx ? x_rows : x_cols;

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t col = i % n, row = i / n % m, batch = i / n / m;
        const double *a = x->data + (x->rank > 2 ? batch * x_rows * x_cols : 0);
        const double *b = y->data + (y->rank > 2 ? batch * y_rows * y_cols : 0);
        double        sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += (tx ? a[l * x_cols + row] : a[row * x_cols + l]) * (ty ? b[col * y_cols + l] : b[l * y_cols + col]);
        v->out[0].data[i] = alpha * sum;
    }
}

TEST(matmul_matches_reference) { EACH_OF(c, matmul_cases) check_forward("matmul", c, matmul_reference, 1e-5); }
TEST(matmul_gradient_is_numeric) { EACH_OF(c, matmul_cases) check_gradient("matmul", c, 1e-5, 1e-7); }

TEST(matmul_explains_mistakes)
{
    EXPECT_FAIL(TR_ESHAPE, "Y must have 4 rows; got [5, 2]", infer_shapes("matmul", {DIMS(3, 4), DIMS(5, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "transposed,", infer_shapes("matmul", {DIMS(3, 4), DIMS(4, 2)}, {TRANSPOSE_X}));
    EXPECT_FAIL(TR_ESHAPE, "2 matrices", infer_shapes("matmul", {DIMS(2, 3, 4), DIMS(3, 4, 2)}));
    EXPECT_SHAPE("float32[?, 8, ?, ?]", "matmul", {DIMS(-1, 8, -1, 64), DIMS(-1, 8, -1, 64)}, {TRANSPOSE_Y});
}

/* -- fc ------------------------------------------------------------------------------------------------ */

#define ACT(name) STRING_ATTR("activation_type", name)

static const op_case fc_cases[] = {
    {"without bias",  {DIMS(3, 17), DIMS(17, 5)}, .out = {DIMS(3, 5)}},
    {"square",        {DIMS(6, 6), DIMS(6, 6), DIMS(6)}, {ACT("relu")}},
    {"with bias",     {DIMS(3, 17), DIMS(17, 5), DIMS(5)}},
    {"bias of rank 2", {DIMS(3, 4), DIMS(4, 5), DIMS(1, 5)}},
    {"relu",          {DIMS(3, 4), DIMS(4, 5), DIMS(5)}, {ACT("relu")}},
    {"sigmoid",       {DIMS(3, 4), DIMS(4, 5), DIMS(5)}, {ACT("sigmoid")}},
    {"tanh",          {DIMS(3, 4), DIMS(4, 5)}, {ACT("tanh")}},
    {"rows of two dims", {DIMS(2, 3, 4), DIMS(4, 5), DIMS(5)}, {INT_ATTR("in_num_col_dims", 2), ACT("relu")},
                         {DIMS(2, 3, 5)}},
    {"flattened",     {DIMS(2, 3, 4), DIMS(12, 5)}, .out = {DIMS(2, 5)}},
    {"empty batch",   {DIMS(0, 4), DIMS(4, 5), DIMS(5)}, {ACT("tanh")}, {DIMS(0, 5)}},
};

static double activation(const op_case *c, double x)
{
    const char *name = "";

    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        if (c->attr[i].text)
            name = c->attr[i].text;
    switch (name[0]) {
    case 'r': return fmax(x, 0);
    case 's': return 1 / (1 + exp(-x));
    case 't': return tanh(x);
    default:  return x;
    }
}

static void fc_reference(op_values *v)
{
    const op_array *w = &v->in[1], *bias = &v->in[2];
    const int64_t   k = w->dims[0], n = w->dims[1];
    double         *out = v->out[0].data;

    multiply(out, v->in[0].data, w->data, v->out[0].count / n, n, k);
    for (int64_t i = 0; i < v->out[0].count; i++)
        out[i] = activation(v->c, out[i] + (bias->rank > 0 ? bias->data[i % n] : 0));
}

TEST(fc_matches_reference) { EACH_OF(c, fc_cases) check_forward("fc", c, fc_reference, 1e-5); }
TEST(fc_gradient_is_numeric) { EACH_OF(c, fc_cases) check_gradient("fc", c, 1e-5, 1e-7); }

TEST(fc_explains_mistakes)
{
    EXPECT_FAIL(TR_ESHAPE, "W must be [4, m]; got [5, 2]", infer_shapes("fc", {DIMS(3, 4), DIMS(5, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [2], got [3]", infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2), DIMS(3)}));
    EXPECT_FAIL(TR_ERANGE, "relu", infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2)}, {ACT("swish")}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mul_matches_reference),
        cmocka_unit_test(mul_matches_reference_when_threads_share_it),
        cmocka_unit_test(mul_gradient_is_numeric),
        cmocka_unit_test(mul_grad_sgd_matches_reference),
        cmocka_unit_test(mul_grad_sgd_explains_mistakes),
        cmocka_unit_test(mul_explains_mistakes),
        cmocka_unit_test(matmul_matches_reference),
        cmocka_unit_test(matmul_gradient_is_numeric),
        cmocka_unit_test(matmul_explains_mistakes),
        cmocka_unit_test(fc_matches_reference),
        cmocka_unit_test(fc_gradient_is_numeric),
        cmocka_unit_test(fc_explains_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
