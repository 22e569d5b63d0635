/* op_case.c - see op_case.h. */
#include "tests/support/op_case.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/tensors/dtype.h"
#include "framework/tensors/half.h"

static const op_attr *find_attr(const op_case *c, const char *attr)
{
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        if (strcmp(c->attr[i].name, attr) == 0)
            return &c->attr[i];
    return NULL;
}

double op_case_item(const op_case *c, const char *attr, int i, double otherwise)
{
    const op_attr *a = find_attr(c, attr);

    return a && i < a->count ? a->list[i] : otherwise;
}

bool op_case_says(const op_case *c, const char *attr, const char *text)
{
    const op_attr *a = find_attr(c, attr);

    return a && strcmp(a->text, text) == 0;
}

double op_case_number(const op_case *c, const char *attr, double otherwise)
{
    const op_attr *a = find_attr(c, attr);

    return a ? a->number : otherwise;
}

const op_offsets *op_case_sequences(const op_case *c, int index)
{
    const op_arg *arg = &c->in[index];
    int           level = OP_MAX_LODS - 1;

    while (level > 0 && arg->lod[level].count == 0)
        level--;
    return &arg->lod[level];
}

int64_t op_offsets_batch_row(const op_offsets *offsets, int64_t sequence, int64_t t)
{
    const int64_t length = offsets->item[sequence + 1] - offsets->item[sequence];
    int64_t       row = 0;

    for (int64_t i = 0; i + 1 < offsets->count; i++) {
        const int64_t other = offsets->item[i + 1] - offsets->item[i];
        row += other < t ? other : t;
        row += other > t && (other > length || (other == length && i < sequence));
    }
    return row;
}

int op_case_inputs(const op_case *c)
{
    int count = OP_MAX_ARGS;

    while (count > 0 && c->in[count - 1].rank == 0)
        count--;
    return count;
}

static void set_list(tr_op_desc *op, const op_attr *attr)
{
    int64_t whole[16];

    if (attr->type == TR_ATTR_FLOATS) {
        tr_op_desc_set_floats(op, attr->name, attr->count, attr->list);
        return;
    }
    assert(attr->count <= 16);
    for (int i = 0; i < attr->count; i++)
        whole[i] = (int64_t)attr->list[i];
    tr_op_desc_set_ints(op, attr->name, attr->count, whole, attr->type);
}

/* The words of "a,b". */
static void set_words(tr_op_desc *op, const op_attr *attr)
{
    char       *text = strdup(attr->text), *rest = text;
    const char *words[OP_MAX_ARGS];
    int         count = 0;

    for (char *word; count < OP_MAX_ARGS && (word = strsep(&rest, ","));)
        words[count++] = word;
    tr_op_desc_set_strings(op, attr->name, count, words);
    free(text);
}

void op_case_set_attrs(tr_op_desc *op, const op_case *c)
{
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++) {
        const op_attr *attr = &c->attr[i];
        switch (attr->type) {
        case TR_ATTR_INT:
        case TR_ATTR_LONG:
        case TR_ATTR_BOOL:   tr_op_desc_set_int(op, attr->name, (int64_t)attr->number, attr->type); break;
        case TR_ATTR_FLOAT:  tr_op_desc_set_float(op, attr->name, attr->number); break;
        case TR_ATTR_STRINGS: set_words(op, attr); break;
        case TR_ATTR_STRING: tr_op_desc_set_string(op, attr->name, attr->text, strlen(attr->text)); break;
        default:             set_list(op, attr);
        }
    }
}

/* -- arrays ---------------------------------------------------------------------------------------- */

/* A finalizer of splitmix64: any two streams differ. */
double op_random(uint64_t stream, uint64_t index)
{
    uint64_t z = (stream + 1) * 0x9e3779b97f4a7c15u + (index + 1) * 0xd1342543de82ef95u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

double op_round(tr_dtype dtype, double x)
{
    switch (dtype) {
    case TR_FP32: return (double)(float)x;
    case TR_BF16: return tr_f32_of_bf16(tr_bf16_of_f32((float)x));
    case TR_FP16: return tr_f32_of_fp16(tr_fp16_of_f32((float)x));
    default:      return x;
    }
}

void op_array_round(op_array *array, tr_dtype dtype)
{
    for (int64_t i = 0; i < array->count; i++)
        array->data[i] = op_round(dtype, array->data[i]);
}

static op_array array_new(int rank, const int64_t *dims, tr_dtype dtype)
{
    op_array array = {.rank = rank, .count = 1, .dtype = dtype};

    for (int i = 0; i < rank; i++) {
        array.dims[i] = dims[i];
        array.count *= dims[i];
    }
    array.data = calloc((size_t)array.count + 1, sizeof *array.data);
    assert(array.data);
    return array;
}

void op_array_free(op_array *array)
{
    free(array->data);
    free(array->rows);
    *array = (op_array){.rank = 0};
}

tr_dtype op_case_dtype(const op_case *c, int index, tr_dtype tested)
{
    return c->in[index].is_typed ? c->in[index].dtype : tested;
}

op_array op_array_of_input(const op_case *c, int index, tr_dtype tested)
{
    const op_arg *arg = &c->in[index];
    op_array      array = array_new(arg->rank, arg->dims, op_case_dtype(c, index, tested));
    const bool    is_whole = arg->is_typed && !tr_dtype_is_float(arg->dtype);
    const bool    is_default = arg->low == 0 && arg->high == 0;
    const double  low = is_default ? -1 : arg->low, high = is_default ? 1 : arg->high;

    if (arg->rank == 0)
        array.count = 0;
    for (int64_t i = 0; i < array.count; i++) {
        const double x = arg->values ? arg->values[i] : low + (high - low) * op_random((uint64_t)index, (uint64_t)i);
        array.data[i] = is_whole ? floor(x) : op_round(array.dtype, x);
    }
    return array;
}

#define SAME(x) (x)
#define BF16(x) tr_bf16_of_f32((float)(x))
#define FP16(x) tr_fp16_of_f32((float)(x))
#define EACH_DTYPE(X) \
    X(TR_BOOL, uint8_t, SAME, SAME) X(TR_UINT8, uint8_t, SAME, SAME) X(TR_INT32, int32_t, SAME, SAME) \
    X(TR_INT64, int64_t, SAME, SAME) X(TR_FP32, float, SAME, SAME) X(TR_FP64, double, SAME, SAME) \
    X(TR_BF16, uint16_t, BF16, tr_f32_of_bf16) X(TR_FP16, uint16_t, FP16, tr_f32_of_fp16)

void *op_array_encode(const op_array *array)
{
    void *bytes = malloc((size_t)(array->count + 1) * sizeof(double));

    assert(bytes);
    switch (array->dtype) {
#define ENCODE(dtype, type, to, from)                                                                          \
    case dtype:                                                                                      \
        for (int64_t i = 0; i < array->count; i++)                                                   \
            ((type *)bytes)[i] = (type)to(array->data[i]);                                               \
        break;
        EACH_DTYPE(ENCODE)
#undef ENCODE
    default: assert(!"a data type that op_case.c does not know");
    }
    return bytes;
}

op_array op_array_of_tensor(tr_tensor *tensor)
{
    op_array    array = array_new(tr_tensor_rank(tensor), tr_tensor_dims(tensor), tr_tensor_dtype(tensor));
    const void *bytes = tr_tensor_data(tensor);

    switch (array.dtype) {
#define DECODE(dtype, type, to, from)                                                                          \
    case dtype:                                                                                      \
        for (int64_t i = 0; i < array.count; i++)                                                    \
            array.data[i] = (double)from(((const type *)bytes)[i]);                                        \
        break;
        EACH_DTYPE(DECODE)
#undef DECODE
    default: assert(!"a data type that op_case.c does not know");
    }
    if (tr_tensor_has_rows(tensor)) {
        array.row_count = tr_tensor_dims(tensor)[0];
        array.height = tr_tensor_height(tensor);
        array.rows = malloc((size_t)(array.row_count + 1) * sizeof *array.rows);
        assert(array.rows);
        memcpy(array.rows, tr_tensor_rows(tensor), (size_t)array.row_count * sizeof *array.rows);
    }
    return array;
}
