/* test_fused.c - fused operators of saved programs, against plain references and against the operators that they are made of. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define RAGGED OFFSETS(0, 2, 2, 5)

static double act(const char *name, double x)
{
    return strcmp(name, "relu") == 0 ? fmax(x, 0) : strcmp(name, "tanh") == 0 ? tanh(x) : strcmp(name, "sigmoid") == 0 ? 1 / (1 + exp(-x)) : x;
}

/* out [n, m] = a [n, k] b [k, m] */
static void product(double *out, const double *a, const double *b, int64_t n, int64_t k, int64_t m)
{
    for (int64_t i = 0; i < n * m; i++) {
        out[i] = 0;
        for (int64_t t = 0; t < k; t++)
            out[i] += a[i / m * k + t] * b[t * m + i % m];
    }
}

/* -- fused_elemwise_activation ----------------------------------------------------------------------------- */

#define FUNCTIONS(names) {"functor_list", TR_ATTR_STRINGS, .text = names}

static const op_case elemwise_cases[] = {
    {"add of relu", {DIMS(3, 4), DIMS(3, 4)}, {FUNCTIONS("elementwise_add,relu")}, {DIMS(3, 4), DIMS(3, 4)}},
    {"mul of scale", {DIMS(3, 4), DIMS(4)}, {FUNCTIONS("elementwise_mul,scale"), FLOAT_ATTR("scale", 0.5)}, {DIMS(3, 4), DIMS(4)}},
    {"scale of add", {DIMS(2, 3, 4), DIMS(3)}, {FUNCTIONS("scale,elementwise_add"), FLOAT_ATTR("scale", -2), INT_ATTR("axis", 1)}},
    {"tanh of mul", {DIMS(3, 4), DIMS(3, 4)}, {FUNCTIONS("tanh,elementwise_mul")}},
    {"no rows", {DIMS(0, 4), DIMS(4)}, {FUNCTIONS("sigmoid,elementwise_add")}},
    {"X is a row of Y", {DIMS(4), DIMS(3, 4)}, {FUNCTIONS("elementwise_add,tanh")}, {DIMS(3, 4), DIMS(3, 4)}},
    {"X is a column of Y", {DIMS(3), DIMS(3, 4)}, {FUNCTIONS("elementwise_mul,sigmoid"), INT_ATTR("axis", 0)}, {DIMS(3, 4), DIMS(3, 4)}},
    {"X is a channel of Y", {DIMS(3), DIMS(2, 3, 4)}, {FUNCTIONS("relu,elementwise_add"), INT_ATTR("axis", 1)}, {DIMS(2, 3, 4), DIMS(2, 3, 4)}},
    {"X is a plane of Y", {DIMS(3, 4), DIMS(2, 3, 4, 5)}, {FUNCTIONS("scale,elementwise_mul"), FLOAT_ATTR("scale", -2), INT_ATTR("axis", 1)}},
    {"X is one number", {DIMS(1), DIMS(2, 3)}, {FUNCTIONS("tanh,elementwise_mul")}, {DIMS(2, 3), DIMS(2, 3)}},
    {"X is a row of no rows", {DIMS(4), DIMS(0, 4)}, {FUNCTIONS("sigmoid,elementwise_add")}},
};

static double unary(const op_case *c, double x)
{
    const char *list = c->attr[0].text;

    return strstr(list, "scale") ? op_case_number(c, "scale", 0) * x
           : act(strstr(list, "relu") ? "relu" : strstr(list, "tanh") ? "tanh" : "sigmoid", x);
}

/* The element of the smaller one of X and Y that meets element i of the larger one. */
static int64_t partner(const op_values *v, const op_array *large, const op_array *small, int64_t i)
{
    const int axis = (int)op_case_number(v->c, "axis", -1);
    int64_t   post = 1;

    if (axis >= 0 && small->rank < large->rank)
        for (int d = axis + small->rank; d < large->rank; d++)
            post *= large->dims[d];
    return i / post % small->count;
}

static void elemwise_reference(op_values *v)
{
    const char     *list = v->c->attr[0].text;
    const bool      is_add = strstr(list, "elementwise_add"), binary_first = strncmp(list, "elementwise", 11) == 0;
    const op_array *x = &v->in[0], *y = &v->in[1];
    const bool      x_is_large = x->rank >= y->rank;

    for (int64_t i = 0; binary_first && i < y->count; i++)
        v->out[1].data[i] = unary(v->c, y->data[i]);
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t at = partner(v, x_is_large ? x : y, x_is_large ? y : x, i), xi = x_is_large ? i : at, yi = x_is_large ? at : i;
        const double  a = x->data[xi], b = binary_first ? v->out[1].data[yi] : y->data[yi], both = is_add ? a + b : a * b;
        if (!binary_first)
            v->out[1].data[i] = both;
        v->out[0].data[i] = binary_first ? both : unary(v->c, both);
    }
}

TEST(elemwise_matches_reference)   { EACH_OF(c, elemwise_cases) check_forward("fused_elemwise_activation", c, elemwise_reference, 1e-6); }
TEST(elemwise_gradient_is_numeric) { EACH_OF(c, elemwise_cases) check_gradient("fused_elemwise_activation", c, 1e-5, 1e-7); }
TEST(elemwise_is_its_parts)        { EACH_OF(c, elemwise_cases) check_expansion("fused_elemwise_activation", c); }

/* -- products --------------------------------------------------------------------------------------------------- */

static const op_case repeated_cases[] = {
    {"three layers", {DIMS(4, 3), DIMS(3, 5), MORE(5, 2), MORE(2, 3), DIMS(5), {SIZE(1, 2), .is_more = true}, MORE(3)}, {}, {}, {2}},
    {"one layer", {DIMS(2, 2, 2), DIMS(4, 3), DIMS(3)}, {}, {}, {-1}},
};
static const op_case squared_cases[] = {
    {"matrices", {DIMS(3, 4), DIMS(4, 2)}, {FLOAT_ATTR("scalar", 0.5)}, {DIMS(3, 4), DIMS(4, 2), DIMS(3, 2), DIMS(3, 2)}},
    {"one", {DIMS(1, 1), DIMS(1, 1)}}, {"no rows", {DIMS(0, 4), DIMS(4, 2)}},
};
static const op_case flatten_cases[] = {
    {"images", {DIMS(2, 3, 2, 2), MORE(2, 1, 3, 2)}, {INTS_ATTR("trans_axis", 0, 2, 3, 1), INT_ATTR("flatten_axis", 1), INT_ATTR("concat_axis", 1)}, {DIMS(2, 18)}},
    {"below", {DIMS(2, 3), MORE(4, 3)}, {INTS_ATTR("trans_axis", 0, 1), INT_ATTR("flatten_axis", 1), INT_ATTR("concat_axis", 0)}, {DIMS(6, 3)}},
};

static void repeated_reference(op_values *v)
{
    const int layers = (v->in_count - 1) / 2;
    double    row[2][64];
    int64_t   width = v->in[0].count / v->in[0].dims[0];

    memcpy(row[0], v->in[0].data, (size_t)v->in[0].count * sizeof(double));
    for (int l = 0; l < layers; l++) {
        const op_array *w = &v->in[1 + l], *b = &v->in[1 + layers + l];
        product(row[1], row[0], w->data, v->in[0].dims[0], width, w->dims[1]);
        width = w->dims[1];
        for (int64_t i = 0; i < v->in[0].dims[0] * width; i++)
            row[0][i] = fmax(row[1][i] + b->data[i % width], 0);
        if (layers == 1)
            memcpy(v->out[v->out_count - 1].data, row[0], (size_t)v->out[v->out_count - 1].count * sizeof(double));
        else
            memcpy(v->out[l].data, row[0], (size_t)v->out[l].count * sizeof(double));
    }
}

static void squared_reference(op_values *v)
{
    const int64_t n = v->in[0].dims[0], k = v->in[0].dims[1], m = v->in[1].dims[1];
    double        squares[64];

    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < v->in[s].count; i++)
            v->out[s].data[i] = v->in[s].data[i] * v->in[s].data[i];
    product(v->out[2].data, v->in[0].data, v->in[1].data, n, k, m);
    product(squares, v->out[0].data, v->out[1].data, n, k, m);
    for (int64_t i = 0; i < n * m; i++) {
        v->out[2].data[i] *= v->out[2].data[i];
        v->out[3].data[i] = op_case_number(v->c, "scalar", 1) * (v->out[2].data[i] - squares[i]);
    }
}

static void flatten_reference(op_values *v)
{
    int64_t at = 0;

    for (int k = 0; k < v->in_count; at += op_case_number(v->c, "concat_axis", 0) == 1 ? v->in[k].count / v->in[k].dims[0] : v->in[k].count, k++) {
        const op_array *x = &v->in[k];
        for (int64_t i = 0; i < x->count; i++) {
            const int64_t width = x->count / x->dims[0], inner = x->rank == 4 ? x->dims[2] * x->dims[3] : 1;
            const int64_t n = i / width, c = i % width / inner, p = i % inner;
            const int64_t to = x->rank == 4 ? p * x->dims[1] + c : i % width;
            v->out[0].data[op_case_number(v->c, "concat_axis", 0) == 1 ? n * v->out[0].dims[1] + at + to : at + i] = x->data[i];
        }
    }
}

TEST(repeated_matches_reference) { EACH_OF(c, repeated_cases) check_forward("fusion_repeated_fc_relu", c, repeated_reference, 2e-6); }
TEST(repeated_is_its_parts)      { EACH_OF(c, repeated_cases) check_expansion("fusion_repeated_fc_relu", c); }
TEST(squared_matches_reference)  { EACH_OF(c, squared_cases) check_forward("fusion_squared_mat_sub", c, squared_reference, 2e-6); }
TEST(squared_is_its_parts)       { EACH_OF(c, squared_cases) check_expansion("fusion_squared_mat_sub", c); }
TEST(flatten_matches_reference)  { EACH_OF(c, flatten_cases) check_forward("fusion_transpose_flatten_concat", c, flatten_reference, 0); }
TEST(flatten_is_its_parts) { EACH_OF(c, flatten_cases) check_expansion("fusion_transpose_flatten_concat", c); }

/* -- conv2d_fusion --------------------------------------------------------------------------------------------------- */

static const op_case conv_cases[] = {
    {"all of it", {DIMS(2, 2, 4, 3), DIMS(4, 2, 3, 3), DIMS(4), DIMS(2, 4, 4, 3)}, {INTS_ATTR("paddings", 1, 1)}, {DIMS(2, 4, 4, 3)}, {0, -1}},
    {"no residual", {DIMS(1, 2, 5, 5), DIMS(2, 1, 3, 3), DIMS(2)}, {INTS_ATTR("strides", 2, 2), INT_ATTR("groups", 2), STRING_ATTR("activation", "tanh")}, {}, {0, -1}},
    {"plain", {DIMS(1, 1, 3, 3), DIMS(2, 1, 2, 2)}, {STRING_ATTR("activation", "identity")}, {}, {0, -1}},
    {"split", {DIMS(1, 1, 3, 3), DIMS(3, 1, 2, 2)}, {STRING_ATTR("activation", "identity"), INTS_ATTR("split_channels", 1, 2)}, {}, {0, 2}},
};

static void conv_reference(op_values *v)
{
    op_case plain = *v->c;
    plain.in[3].rank = 0;
    memset(plain.attr, 0, sizeof plain.attr);
    for (int i = 0, to = 0; i < OP_MAX_ATTRS && v->c->attr[i].name; i++)
        if (strcmp(v->c->attr[i].name, "activation") != 0 && strcmp(v->c->attr[i].name, "split_channels") != 0)
            plain.attr[to++] = v->c->attr[i];
    plain.out_count[1] = 0;
    op_values conv = run_op("conv2d", &plain, TR_FP64);
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const char *name = "relu";
        for (int k = 0; k < OP_MAX_ATTRS && v->c->attr[k].name; k++)
            name = strcmp(v->c->attr[k].name, "activation") == 0 ? v->c->attr[k].text : name;
        v->out[0].data[i] = act(name, conv.out[0].data[i] + (v->in_count > 3 ? v->in[3].data[i] : 0));
    }
    for (int k = 1, from = 0; k < v->out_count; from += (int)v->out[k].count, k++)
        memcpy(v->out[k].data, v->out[0].data + from, (size_t)v->out[k].count * sizeof(double));
    op_values_free(&conv);
}

TEST(conv_matches_reference) { EACH_OF(c, conv_cases) check_forward("conv2d_fusion", c, conv_reference, 2e-6); }
TEST(conv_is_its_parts) { EACH_OF(c, conv_cases) check_expansion("conv2d_fusion", c); }

/* -- sequences ------------------------------------------------------------------------------------------------------------ */

#define IDS(list, n, k) {SIZE(n, k), .values = list, .is_typed = true, .dtype = TR_INT64, .lod = {RAGGED}}

static const op_case embedding_cases[] = {
    {"one id", {DIMS(7, 3), IDS(LIST(6, 0, 2, 2, 5), 5, 1)}, {}, {DIMS(3, 3)}},
    {"two ids", {DIMS(4, 2), IDS(LIST(3, 0, 1, 1, 2, 0, 3, 3, 0, 1), 5, 2)}, {}, {DIMS(3, 4)}},
};
static const op_case sparse_case = {"sparse", {DIMS(7, 3), IDS(LIST(6, 0, 2, 2, 5), 5, 1)}, {BOOL_ATTR("is_sparse", 1)}};
static const op_case pool_cases[] = {
    {"sum", {SEQUENCES(RAGGED, 5, 3), {SIZE(4, 2), .is_more = true, .lod = {OFFSETS(0, 1, 3, 4)}}}, {}, {DIMS(3, 5)}},
    {"average", {SEQUENCES(RAGGED, 5, 3)}, {STRING_ATTR("pooltype", "AVERAGE")}}, {"root", {SEQUENCES(RAGGED, 5, 2)}, {STRING_ATTR("pooltype", "SQRT")}},
};
static const op_case expand_cases[] = {
    {"two", {SEQUENCES(RAGGED, 5, 2), MORE(3, 3), MORE(3, 1), DIMS(6, 4), DIMS(4)}, {STRING_ATTR("fc_activation", "relu")}, {DIMS(5, 4)}, {0, -1}},
    {"no bias", {SEQUENCES(RAGGED, 5, 2), MORE(3, 3), DIMS(5, 2)}, {}, {}, {0, -1}},
};
static const op_case seqconv_cases[] = {
    {"three rows", {SEQUENCES(RAGGED, 5, 2), DIMS(6, 4), DIMS(1, 4)}, {INT_ATTR("contextLength", 3), INT_ATTR("contextStart", -1)}, {DIMS(5, 4)}, {0, -1}},
};

static void embedding_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 1);
    const int64_t     k = v->in[1].dims[1], width = v->in[0].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t n = i / (k * width), slot = i / width % k;
        v->out[0].data[i] = 0;
        for (int64_t row = s->item[n]; row < s->item[n + 1]; row++)
            v->out[0].data[i] += v->in[0].data[(int64_t)v->in[1].data[row * k + slot] * width + i % width];
    }
}

static void pool_reference(op_values *v)
{
    int64_t column = 0;

    for (int k = 0; k < v->in_count; column += v->in[k++].dims[1]) {
        const op_offsets *s = op_case_sequences(v->c, k);
        for (int64_t i = 0; i < (s->count - 1) * v->in[k].dims[1]; i++) {
            const int64_t n = i / v->in[k].dims[1], j = i % v->in[k].dims[1], rows = s->item[n + 1] - s->item[n];
            double        sum = 0;
            for (int64_t row = s->item[n]; row < s->item[n + 1]; row++)
                sum += v->in[k].data[row * v->in[k].dims[1] + j];
            v->out[0].data[n * v->out[0].dims[1] + column + j] = rows == 0 || op_case_says(v->c, "pooltype", "SUM") || !v->c->attr[0].name ? sum
                : sum / (op_case_says(v->c, "pooltype", "SQRT") ? sqrt((double)rows) : (double)rows);
        }
    }
}

static void expand_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const bool        has_bias = v->in[v->in_count - 1].rank == 1;
    const int         parts = v->in_count - 1 - has_bias;
    const op_array   *w = &v->in[parts];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t row = i / w->dims[1];
        int64_t       n = 0, at = 0;
        double        sum = has_bias ? v->in[parts + 1].data[i % w->dims[1]] : 0;
        while (s->item[n + 1] <= row)
            n++;
        for (int k = 0; k < parts; k++)
            for (int64_t j = 0; j < v->in[k].dims[1]; j++, at++)
                sum += v->in[k].data[(k == 0 ? row : n) * v->in[k].dims[1] + j] * w->data[at * w->dims[1] + i % w->dims[1]];
        v->out[0].data[i] = has_bias ? fmax(sum, 0) : sum;
    }
}

static void seqconv_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int64_t     width = v->in[0].dims[1], size = v->in[1].dims[1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t row = i / size;
        int64_t       n = 0;
        double        sum = v->in[2].data[i % size];
        while (s->item[n + 1] <= row)
            n++;
        for (int64_t k = 0; k < 3 * width; k++) {
            const int64_t from = row - 1 + k / width;
            sum += from < s->item[n] || from >= s->item[n + 1] ? 0 : v->in[0].data[from * width + k % width] * v->in[1].data[k * size + i % size];
        }
        v->out[0].data[i] = fmax(sum, 0);
    }
}

TEST(embedding_matches_reference)   { EACH_OF(c, embedding_cases) check_forward("fused_embedding_seq_pool", c, embedding_reference, 1e-6); }
TEST(embedding_gradient_is_numeric) { EACH_OF(c, embedding_cases) check_gradient("fused_embedding_seq_pool", c, 1e-5, 1e-7); }
TEST(sparse_gradient_is_its_parts)  { check_expansion("fused_embedding_seq_pool", &sparse_case); }
TEST(embedding_is_its_parts)        { EACH_OF(c, embedding_cases) check_expansion("fused_embedding_seq_pool", c); }
TEST(pool_matches_reference)        { EACH_OF(c, pool_cases) check_forward("fusion_seqpool_concat", c, pool_reference, 1e-6); }
TEST(pool_is_its_parts) { EACH_OF(c, pool_cases) check_expansion("fusion_seqpool_concat", c); }
TEST(expand_matches_reference)      { EACH_OF(c, expand_cases) check_forward("fusion_seqexpand_concat_fc", c, expand_reference, 2e-6); }
TEST(expand_is_its_parts) { EACH_OF(c, expand_cases) check_expansion("fusion_seqexpand_concat_fc", c); }
TEST(seqconv_matches_reference)     { EACH_OF(c, seqconv_cases) check_forward("fusion_seqconv_eltadd_relu", c, seqconv_reference, 2e-6); }
TEST(seqconv_is_its_parts) { EACH_OF(c, seqconv_cases) check_expansion("fusion_seqconv_eltadd_relu", c); }

/* -- recurrent: a product or a look-up, and lstm or gru after it ----------------------------------------------------------------- */

#define LSTM_OUTS {0, 0, 0, -1, -1, -1, -1, -1, -1}

static const op_case lstm_cases[] = {
    {"peepholes", {SEQUENCES(RAGGED, 5, 3), DIMS(3, 8), DIMS(2, 8), DIMS(1, 14)}, {}, {DIMS(5, 2), DIMS(5, 2), DIMS(5, 8)}, LSTM_OUTS},
    {"first states", {SEQUENCES(OFFSETS(0, 3, 5), 5, 1), DIMS(1, 8), DIMS(2, 8), DIMS(1, 8), DIMS(2, 2), DIMS(2, 2)},
     {BOOL_ATTR("use_peepholes", 0), BOOL_ATTR("is_reverse", 1)}, {}, LSTM_OUTS},
};
static const op_case table_cases[] = {
    {"peepholes", {IDS(LIST(6, 0, 2, 2, 5), 5, 1), DIMS(7, 8), DIMS(2, 8), DIMS(1, 14)}, {}, {DIMS(5, 2), DIMS(5, 2), DIMS(5, 8)}, LSTM_OUTS},
    {"none", {IDS(LIST(6, 0, 2, 2, 5), 5, 1), DIMS(7, 8), DIMS(2, 8), DIMS(1, 8)}, {BOOL_ATTR("use_peepholes", 0)}, {}, LSTM_OUTS},
};
static const op_case gru_cases[] = {
    {"bias", {SEQUENCES(RAGGED, 5, 3), ABSENT, DIMS(3, 6), DIMS(2, 6), DIMS(1, 6)}, {}, {}, {-1, 0, -1, -1, 0}},
    {"first state", {SEQUENCES(OFFSETS(0, 3, 5), 5, 3), DIMS(2, 2), DIMS(3, 6), DIMS(2, 6)}, {BOOL_ATTR("is_reverse", 1)}, {}, {-1, 0, -1, -1, 0}},
};

static op_arg given(const op_array *a)
{
    op_arg arg = {.rank = a->rank, .values = a->data};

    memcpy(arg.dims, a->dims, sizeof arg.dims);
    return arg;
}

/* The first `count` outputs are those of `op` at `from` on the sequences of input 0, whose projected input is xx. */
static void rest(op_values *v, const char *op, op_case *c, const double *xx, int64_t width, int first, int from, int count)
{
    c->name = v->c->name;
    c->in[0] = (op_arg){.rank = 2, .dims = {v->in[0].dims[0], width}, .values = xx};
    memcpy(c->in[0].lod, v->c->in[0].lod, sizeof c->in[0].lod);
    memcpy(c->attr, v->c->attr, sizeof c->attr);
    op_values r = run_op(op, c, TR_FP64);
    for (int i = 0; i < count; i++)
        memcpy(v->out[first + i].data, r.out[from + i].data, (size_t)v->out[first + i].count * sizeof(double));
    op_values_free(&r);
}

static void lstm_reference(op_values *v)
{
    double  xx[64];
    op_case c = {.in = {[3] = given(&v->in[2]), [4] = given(&v->in[3])}};

    if (v->in_count > 4) {
        c.in[1] = given(&v->in[4]);
        c.in[2] = given(&v->in[5]);
    }
    product(xx, v->in[0].data, v->in[1].data, v->in[0].dims[0], v->in[0].dims[1], v->in[1].dims[1]);
    memcpy(v->out[2].data, xx, (size_t)v->out[2].count * sizeof(double));
    rest(v, "lstm", &c, xx, v->in[1].dims[1], 0, 0, 2);
}

static void table_reference(op_values *v)
{
    double   xx[64], bias[14];
    op_array zeroed = v->in[3];
    op_case  c = {.in = {[3] = given(&v->in[2])}};

    for (int64_t i = 0; i < zeroed.count; i++)
        bias[i] = i < 8 ? 0 : zeroed.data[i];
    zeroed.data = bias;
    c.in[4] = given(&zeroed);
    for (int64_t i = 0; i < v->out[2].count; i++)
        v->out[2].data[i] = xx[i] = v->in[1].data[(int64_t)v->in[0].data[i / 8] * 8 + i % 8];
    rest(v, "lstm", &c, xx, 8, 0, 0, 2);
}

static void gru_reference(op_values *v)
{
    double     xx[64];
    const bool has_state = v->in[1].rank == 2 && v->in[1].dims[0] == 2;
    const int  first = has_state ? 2 : v->in[1].rank == 0 ? 2 : 1;
    op_case    c = {.in = {[2] = given(&v->in[first + 1])}};

    if (has_state)
        c.in[1] = given(&v->in[1]);
    if (v->in_count > first + 2)
        c.in[3] = given(&v->in[first + 2]);
    product(xx, v->in[0].data, v->in[first].data, 5, 3, 6);
    memcpy(v->out[0].data, xx, (size_t)v->out[0].count * sizeof(double));
    rest(v, "gru", &c, xx, 6, 1, 3, 1);
}

TEST(lstm_matches_reference)  { EACH_OF(c, lstm_cases) check_forward("fusion_lstm", c, lstm_reference, 1e-5); }
TEST(lstm_is_its_parts) { EACH_OF(c, lstm_cases) check_expansion("fusion_lstm", c); }
TEST(table_matches_reference) { EACH_OF(c, table_cases) check_forward("fused_embedding_fc_lstm", c, table_reference, 1e-5); }
TEST(table_is_its_parts) { EACH_OF(c, table_cases) check_expansion("fused_embedding_fc_lstm", c); }
TEST(gru_matches_reference)   { EACH_OF(c, gru_cases) check_forward("fusion_gru", c, gru_reference, 1e-5); }
TEST(gru_is_its_parts) { EACH_OF(c, gru_cases) check_expansion("fusion_gru", c); }

/* -- attention_lstm ------------------------------------------------------------------------------------------------------------------ */

#define ATTENTION_OUTS {0, 0, -1, -1, -1, -1}

static const op_case attention_cases[] = {
    {"all of it", {SEQUENCES(RAGGED, 5, 3), DIMS(3, 2), DIMS(3, 2), DIMS(5, 1), DIMS(1, 1), DIMS(1, 1), DIMS(1, 1), DIMS(5, 8), DIMS(1, 8)},
     {}, {DIMS(5, 2), DIMS(5, 2)}, ATTENTION_OUTS},
    {"least of it", {SEQUENCES(OFFSETS(0, 4), 4, 2), DIMS(1, 3), ABSENT, DIMS(5, 1), ABSENT, ABSENT, ABSENT, DIMS(5, 12), DIMS(1, 12)},
     {STRING_ATTR("cell_activation", "relu")}, {}, ATTENTION_OUTS},
};

static void attention_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const bool        full = v->c->in[2].rank > 0;
    const op_array   *x = &v->in[0], *c0 = &v->in[1], *w = &v->in[3], *lw = &v->in[7], *lb = &v->in[8];
    const int64_t     in = x->dims[1], width = c0->dims[1];

    for (int64_t n = 0; n + 1 < s->count; n++) {
        double cell[4], hidden[4];
        for (int64_t i = 0; i < width; i++) {
            cell[i] = c0->data[n * width + i];
            hidden[i] = full ? v->in[2].data[n * width + i] : 0;
        }
        for (int64_t t = s->item[n]; t < s->item[n + 1]; t++) {
            double score[8], mixture[4] = {0}, gate[16], total = 0;
            for (int64_t r = s->item[n]; r < s->item[n + 1]; r++) {
                double sum = full ? v->in[4].data[0] : 0;
                for (int64_t j = 0; j < in + width; j++)
                    sum += w->data[j] * (j < in ? x->data[r * in + j] : cell[j - in]);
                sum = fmax(sum, 0);
                sum = full ? fmax(sum * v->in[5].data[0] + v->in[6].data[0], 0) : sum;
                total += score[r - s->item[n]] = exp(sum);
            }
            for (int64_t r = s->item[n]; r < s->item[n + 1]; r++)
                for (int64_t j = 0; j < in; j++)
                    mixture[j] += score[r - s->item[n]] / total * x->data[r * in + j];
            for (int64_t g = 0; g < 4 * width; g++) {
                gate[g] = lb->data[g];
                for (int64_t j = 0; j < width + in; j++)
                    gate[g] += lw->data[j * 4 * width + g] * (j < width ? hidden[j] : mixture[j - width]);
                gate[g] = act(g < 3 * width ? "sigmoid" : "tanh", gate[g]);
            }
            for (int64_t i = 0; i < width; i++) {
                cell[i] = gate[i] * cell[i] + gate[width + i] * gate[3 * width + i];
                hidden[i] = gate[2 * width + i] * act(full ? "tanh" : "relu", cell[i]);
                v->out[0].data[t * width + i] = hidden[i];
                v->out[1].data[t * width + i] = cell[i];
            }
        }
    }
}

TEST(attention_matches_reference) { EACH_OF(c, attention_cases) check_forward("attention_lstm", c, attention_reference, 1e-5); }

/* -- nothing: no images, no rows, sequences of no rows ------------------------------------------------------------------------------------- */

#define NO_ROWS   OFFSETS(0, 0, 0)
#define NO_IDS    {SIZE(0, 1), .is_typed = true, .dtype = TR_INT64, .low = 0, .high = 7, .lod = {NO_ROWS}}

static const struct {
    const char *op;
    op_case     c;
} nothing[] = {
    {"fused_elemwise_activation", {"", {DIMS(0, 4), DIMS(4)}, {FUNCTIONS("relu,elementwise_add")}, {DIMS(0, 4)}}},
    {"fusion_repeated_fc_relu", {"", {DIMS(0, 3), DIMS(3, 5), MORE(5, 2), DIMS(5), MORE(2)}, {}, {}, {1}}},
    {"fusion_transpose_flatten_concat", {"", {DIMS(0, 3, 2, 2), MORE(0, 1, 3, 2)},
                                         {INTS_ATTR("trans_axis", 0, 2, 3, 1), INT_ATTR("flatten_axis", 1), INT_ATTR("concat_axis", 1)}, {DIMS(0, 18)}}},
    {"conv2d_fusion", {"", {DIMS(0, 2, 4, 3), DIMS(4, 2, 3, 3), DIMS(4), DIMS(0, 4, 2, 1)}, {}, {DIMS(0, 4, 2, 1)}, {0, -1}}},
    {"fused_embedding_seq_pool", {"", {DIMS(7, 3), NO_IDS}, {}, {DIMS(2, 3)}}},
    {"fusion_seqpool_concat", {"", {SEQUENCES(NO_ROWS, 0, 3), {SIZE(0, 2), .is_more = true, .lod = {NO_ROWS}}}, {}, {DIMS(2, 5)}}},
    {"fusion_seqexpand_concat_fc", {"", {SEQUENCES(NO_ROWS, 0, 2), MORE(2, 3), DIMS(5, 4), DIMS(4)}, {}, {DIMS(0, 4)}, {0, -1}}},
    {"fusion_seqconv_eltadd_relu", {"", {SEQUENCES(NO_ROWS, 0, 2), DIMS(6, 4), DIMS(1, 4)}, {INT_ATTR("contextLength", 3)}, {DIMS(0, 4)}, {0, -1}}},
    {"fusion_lstm", {"", {SEQUENCES(NO_ROWS, 0, 3), DIMS(3, 8), DIMS(2, 8), DIMS(1, 14)}, {}, {DIMS(0, 2), DIMS(0, 2), DIMS(0, 8)}, LSTM_OUTS}},
    {"fused_embedding_fc_lstm", {"", {NO_IDS, DIMS(7, 8), DIMS(2, 8), DIMS(1, 14)}, {}, {DIMS(0, 2), DIMS(0, 2), DIMS(0, 8)}, LSTM_OUTS}},
    {"fusion_gru", {"", {SEQUENCES(NO_ROWS, 0, 3), ABSENT, DIMS(3, 6), DIMS(2, 6)}, {}, {}, {-1, 0, -1, -1, 0}}},
};

static void zeros(op_values *v)
{
    for (int k = 0; k < v->out_count; k++)
        for (int64_t i = 0; i < v->out[k].count; i++)
            v->out[k].data[i] = 0;
}

TEST(an_empty_input_gives_an_empty_output_or_zeros)
{
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        check_forward(nothing[i].op, &nothing[i].c, zeros, 0);
        check_expansion(nothing[i].op, &nothing[i].c);
        if (tr_op_has_grad(tr_op_find(nothing[i].op)))
            check_gradient(nothing[i].op, &nothing[i].c, 1e-5, 1e-7);
    }
}

/* -- mistakes ---------------------------------------------------------------------------------------------------------------------------- */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "got 2 names: relu, tanh", infer_shapes("fused_elemwise_activation", {DIMS(2), DIMS(2)}, {FUNCTIONS("relu,tanh")}));
    EXPECT_FAIL(TR_ERANGE, "as many W as Bias", infer_shapes("fusion_repeated_fc_relu", {DIMS(2, 2), DIMS(2, 2), MORE(2, 2), DIMS(2)}));
    EXPECT_FAIL(TR_ESHAPE, "fused_embedding_seq_pool: W must have rank 2", infer_shapes("fused_embedding_seq_pool", {DIMS(7), IDS(LIST(6, 0, 2, 2, 5), 5, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Embeddings must be [?, 12], got [7, 8]",
                infer_shapes("fused_embedding_fc_lstm", {IDS(LIST(6, 0, 2, 2, 5), 5, 1), DIMS(7, 8), DIMS(3, 8), DIMS(1, 8)}, {BOOL_ATTR("use_peepholes", 0)}));
    EXPECT_FAIL(TR_ESHAPE, "Filter must be [6, ?], got [4, 4]",
                infer_shapes("fusion_seqconv_eltadd_relu", {SEQUENCES(RAGGED, 5, 2), DIMS(4, 4), DIMS(1, 4)}, {INT_ATTR("contextLength", 3)}));
    EXPECT_FAIL(TR_ERANGE, "'pooltype'", infer_shapes("fusion_seqpool_concat", {SEQUENCES(RAGGED, 5, 3)}, {STRING_ATTR("pooltype", "MAX")}));
    EXPECT_FAIL(TR_ESHAPE, "W must be [2, ?], got [3, 2]", infer_shapes("fusion_repeated_fc_relu", {DIMS(2, 2), DIMS(3, 2), DIMS(2)}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [3, ?]", infer_shapes("fusion_squared_mat_sub", {DIMS(2, 3), DIMS(2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "each of the 2 dimensions", infer_shapes("fusion_transpose_flatten_concat", {DIMS(2, 3)},
                {INTS_ATTR("trans_axis", 0, 0), INT_ATTR("flatten_axis", 1), INT_ATTR("concat_axis", 1)}));
    EXPECT_FAIL(TR_ESHAPE, "ResidualData must be [1, 2, 2, 2]", infer_shapes("conv2d_fusion", {DIMS(1, 1, 3, 3), DIMS(2, 1, 2, 2), DIMS(2), DIMS(1, 2, 3, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "FCWeight must be [5, ?]", infer_shapes("fusion_seqexpand_concat_fc", {SEQUENCES(RAGGED, 5, 2), MORE(3, 3), DIMS(4, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 14]", infer_shapes("fusion_lstm", {SEQUENCES(RAGGED, 5, 3), DIMS(3, 8), DIMS(2, 8), DIMS(1, 8)}));
    EXPECT_FAIL(TR_ESHAPE, "WeightX must be [3, 6]", infer_shapes("fusion_gru", {SEQUENCES(RAGGED, 5, 3), ABSENT, DIMS(3, 8), DIMS(2, 6)}));
    EXPECT_FAIL(TR_ESHAPE, "AttentionWeight must be [5, 1]",
                infer_shapes("attention_lstm", {SEQUENCES(RAGGED, 5, 3), DIMS(3, 2), ABSENT, DIMS(3, 1), ABSENT, ABSENT, ABSENT, DIMS(5, 8), DIMS(1, 8)}));
    EXPECT_FAIL(TR_ESHAPE, "has 2 rows, but X", run_status("attention_lstm",
                {SEQUENCES(RAGGED, 5, 3), DIMS(2, 2), ABSENT, DIMS(5, 1), ABSENT, ABSENT, ABSENT, DIMS(5, 8), DIMS(1, 8)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elemwise_matches_reference),  cmocka_unit_test(elemwise_gradient_is_numeric), cmocka_unit_test(elemwise_is_its_parts),
        cmocka_unit_test(repeated_matches_reference),  cmocka_unit_test(repeated_is_its_parts),
        cmocka_unit_test(squared_matches_reference),   cmocka_unit_test(squared_is_its_parts),
        cmocka_unit_test(flatten_matches_reference), cmocka_unit_test(flatten_is_its_parts),   cmocka_unit_test(conv_matches_reference), cmocka_unit_test(conv_is_its_parts),
        cmocka_unit_test(embedding_matches_reference), cmocka_unit_test(embedding_gradient_is_numeric),
        cmocka_unit_test(sparse_gradient_is_its_parts),  cmocka_unit_test(embedding_is_its_parts),
        cmocka_unit_test(pool_matches_reference), cmocka_unit_test(pool_is_its_parts),      cmocka_unit_test(expand_matches_reference), cmocka_unit_test(expand_is_its_parts),
        cmocka_unit_test(seqconv_matches_reference), cmocka_unit_test(seqconv_is_its_parts),   cmocka_unit_test(lstm_matches_reference), cmocka_unit_test(lstm_is_its_parts),
        cmocka_unit_test(table_matches_reference), cmocka_unit_test(table_is_its_parts),     cmocka_unit_test(gru_matches_reference), cmocka_unit_test(gru_is_its_parts),
        cmocka_unit_test(attention_matches_reference), cmocka_unit_test(an_empty_input_gives_an_empty_output_or_zeros), cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
