/* tensor_io.c - see tensor_io.h.
 *
 * Reading is in two parts: the beginning of a record, up to where the data starts, is parsed and checked against
 * the bytes that the file has left; then the data is read to where it will stay. All numbers are little-endian,
 * as on every machine that we run on. */
#include "framework/tensors/tensor_io.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/number.h"
#include "framework/base/path.h"
#include "framework/tensors/beside.h"
#include "framework/tensors/dtype.h"
#include "proto/framework.pb-c.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie in memory");

typedef Paddle__Framework__Proto__VarType__TensorDesc pb_tensor;

enum { VERSION = 0, MAX_LEVELS = 64, MAX_DESC = 4096 };

/* -- writing ---------------------------------------------------------------------------------- */

typedef struct writer {
    FILE *out;
    bool  failed;
} writer;

static void put(writer *w, const void *data, size_t size)
{
    if (size > 0 && !w->failed)
        w->failed = fwrite(data, 1, size, w->out) != size;
}

static void put_u32(writer *w, uint32_t value) { put(w, &value, sizeof value); }
static void put_u64(writer *w, uint64_t value) { put(w, &value, sizeof value); }

static void put_lod(writer *w, const tr_tensor *tensor)
{
    const int levels = tr_tensor_lod_levels(tensor);

    put_u64(w, (uint64_t)levels);
    for (int l = 0; l < levels; l++) {
        const size_t size = (size_t)tr_tensor_lod_count(tensor, l) * sizeof(int64_t);
        put_u64(w, size);
        put(w, tr_tensor_lod_offsets(tensor, l), size);
    }
}

static void put_rows(writer *w, const tr_rows *rows)
{
    put_u64(w, (uint64_t)rows->count);
    put(w, rows->index, (size_t)rows->count * sizeof *rows->index);
    put_u64(w, (uint64_t)rows->height);
}

static void put_array(writer *w, const tr_tensor *tensor)
{
    uint8_t   bytes[MAX_DESC];
    pb_tensor desc = PADDLE__FRAMEWORK__PROTO__VAR_TYPE__TENSOR_DESC__INIT;

    desc.data_type = (Paddle__Framework__Proto__VarType__Type)tensor->dtype;
    desc.n_dims = (size_t)tensor->shape.rank;
    desc.dims = (int64_t *)tensor->shape.dim;
    const size_t size = protobuf_c_message_pack(&desc.base, bytes);
    put_u32(w, VERSION);
    put_u32(w, (uint32_t)size);
    put(w, bytes, size);
    put(w, tensor->data, (size_t)tr_tensor_bytes(tensor));
}

tr_status tr_tensor_write(FILE *out, const tr_tensor *tensor)
{
    writer w = {out, false};

    if (tensor->dtype == TR_DTYPE_NONE)
        return tr_fail(TR_EINVAL, "a tensor that has no value cannot be written");
    TR_TRY(tr_tensor_await(tensor));
    put_u32(&w, VERSION);
    if (tensor->rows)
        put_rows(&w, tensor->rows);
    else
        put_lod(&w, tensor);
    put_array(&w, tensor);
    return w.failed ? tr_fail(TR_EIO, "cannot write a tensor of %lld bytes: %s", (long long)tr_tensor_bytes(tensor), strerror(errno)) : TR_OK;
}

/* -- reading: the beginning of a record --------------------------------------------------------- */

typedef struct reader {
    FILE   *in;
    int64_t at, end;                      /* position in the file; its size */
} reader;

/* The header before the data. */
typedef struct header {
    int64_t  levels;
    int64_t *offset[MAX_LEVELS];          /* NULL: none */
    int64_t  count[MAX_LEVELS];
    bool     has_rows;
    int64_t *rows;
    int64_t  row_count, height;
    bool     is_described;                /* a tensor's description stood where it should */
    tr_dtype dtype;
    tr_shape shape;
    int64_t  bytes;                       /* of the data */
} header;

static void header_deinit(header *h)
{
    for (int l = 0; l < MAX_LEVELS; l++)
        free(h->offset[l]);
    free(h->rows);
    *h = (header){0};
}

static tr_status bad(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

static tr_status bad(const reader *r, const char *format, ...)
{
    char    what[256];
    va_list args;

    va_start(args, format);
    tr__vformat(what, sizeof what, format, args);
    va_end(args);
    return tr_fail(TR_EFORMAT, "tensor file, byte %lld of %lld: %s", (long long)r->at, (long long)r->end, what);
}

static tr_status get(reader *r, void *to, int64_t size, const char *what)
{
    if (size > r->end - r->at)
        return bad(r, "expected %s of %lld bytes, but the file ends", what, (long long)size);
    if (size > 0 && fread(to, 1, (size_t)size, r->in) != (size_t)size)
        return tr_fail(TR_EIO, "tensor file, byte %lld: cannot read %s: %s", (long long)r->at, what, strerror(errno));
    r->at += size;
    return TR_OK;
}

static tr_status get_version(reader *r, const char *what)
{
    uint32_t version;

    TR_TRY(get(r, &version, sizeof version, what));
    if (version == VERSION)
        return TR_OK;
    r->at -= (int64_t)sizeof version;
    return bad(r, "expected %s 0, found %u", what, (unsigned)version);
}

/* `count` numbers, after it is clear that the file has them. */
static tr_status get_numbers(reader *r, int64_t **out, uint64_t count, const char *what)
{
    if (count > (uint64_t)(r->end - r->at) / sizeof **out)
        return bad(r, "expected %llu %s, but the file ends", (unsigned long long)count, what);
    *out = malloc((size_t)count * sizeof **out + 1);
    if (!*out)
        return tr_fail(TR_ENOMEM, "no memory for %llu %s", (unsigned long long)count, what);
    return get(r, *out, (int64_t)(count * sizeof **out), what);
}

static tr_status get_lod(reader *r, header *h)
{
    uint64_t levels, size;

    TR_TRY(get(r, &levels, sizeof levels, "the number of LoD levels"));
    if (levels > MAX_LEVELS)
        return bad(r, "expected at most %d LoD levels, found %llu", MAX_LEVELS, (unsigned long long)levels);
    h->levels = (int64_t)levels;
    for (uint64_t l = 0; l < levels; l++) {
        TR_TRY(get(r, &size, sizeof size, "the size of a LoD level"));
        if (size % sizeof(int64_t) != 0 || size == 0)
            return bad(r, "expected the size of LoD level %llu to be a multiple of 8, found %llu",
                       (unsigned long long)l, (unsigned long long)size);
        h->count[l] = (int64_t)(size / sizeof(int64_t));
        TR_TRY(get_numbers(r, &h->offset[l], size / sizeof(int64_t), "LoD offsets"));
    }
    return TR_OK;
}

static tr_status get_rows(reader *r, header *h)
{
    uint64_t count;

    TR_TRY(get(r, &count, sizeof count, "the number of rows"));
    TR_TRY(get_numbers(r, &h->rows, count, "row indices"));
    h->has_rows = true;
    h->row_count = (int64_t)count;
    return get(r, &h->height, sizeof h->height, "the height");
}

static tr_status check_desc(const reader *r, header *h, const pb_tensor *desc)
{
    int64_t bytes = tr_dtype_size((tr_dtype)desc->data_type);

    if (!tr_dtype_is_valid((tr_dtype)desc->data_type))
        return bad(r, "the tensor's data type is the unknown %d", (int)desc->data_type);
    if (desc->n_dims > TR_MAX_RANK)
        return bad(r, "expected a rank of at most %d, found %zu", TR_MAX_RANK, desc->n_dims);
    for (size_t i = 0; i < desc->n_dims; i++)
        if (desc->dims[i] < 0)
            return bad(r, "expected a size for dimension %zu, found %lld", i, (long long)desc->dims[i]);
    h->dtype = (tr_dtype)desc->data_type;
    h->shape = tr_shape_of((int)desc->n_dims, desc->dims);
    for (size_t i = 0; i < desc->n_dims; i++)
        if (__builtin_mul_overflow(bytes, desc->dims[i], &bytes))
            return bad(r, "a tensor %s is larger than any memory", TR_SHAPE_STR(h->shape));
    h->bytes = bytes;
    if (bytes > r->end - r->at)
        return bad(r, "expected %lld bytes of a %s tensor %s, but %lld are left", (long long)bytes,
                   tr_dtype_name(h->dtype), TR_SHAPE_STR(h->shape), (long long)(r->end - r->at));
    return TR_OK;
}

static tr_status get_desc(reader *r, header *h)
{
    uint8_t bytes[MAX_DESC];
    int32_t size;

    TR_TRY(get_version(r, "tensor version"));
    TR_TRY(get(r, &size, sizeof size, "the size of the tensor's description"));
    if (size < 1 || size > MAX_DESC)
        return bad(r, "expected a tensor's description of 1 to %d bytes, found %d", MAX_DESC, (int)size);
    TR_TRY(get(r, bytes, size, "the tensor's description"));
    pb_tensor *desc = (pb_tensor *)protobuf_c_message_unpack(
        &paddle__framework__proto__var_type__tensor_desc__descriptor, NULL, (size_t)size, bytes);
    if (!desc)
        return bad(r, "the %d bytes before are no description of a tensor", (int)size);
    h->is_described = true;
    const tr_status status = check_desc(r, h, desc);
    protobuf_c_message_free_unpacked(&desc->base, NULL);
    return status;
}

static tr_status check_rows(const reader *r, const header *h)
{
    if (h->shape.rank < 1 || h->shape.dim[0] != h->row_count)
        return bad(r, "there are %lld row indices for a tensor %s", (long long)h->row_count, TR_SHAPE_STR(h->shape));
    for (int64_t i = 0; i < h->row_count; i++)
        if (h->rows[i] < 0 || h->rows[i] >= h->height)
            return bad(r, "row index %lld is %lld, but the height is %lld", (long long)i, (long long)h->rows[i],
                       (long long)h->height);
    return TR_OK;
}

static tr_status get_header(reader *r, header *h, bool has_rows)
{
    TR_TRY(get_version(r, "record version"));
    if (has_rows)
        TR_TRY(get_rows(r, h));
    else
        TR_TRY(get_lod(r, h));
    TR_TRY(get_desc(r, h));
    return has_rows ? check_rows(r, h) : TR_OK;
}

/* -- reading: the record ------------------------------------------------------------------------ */

static tr_status seek(reader *r, int64_t at)
{
    r->at = at;
    if (fseeko(r->in, at, SEEK_SET) != 0)
        return tr_fail(TR_EIO, "cannot position a tensor file: %s", strerror(errno));
    return TR_OK;
}

static tr_status reader_init(reader *r, FILE *in)
{
    *r = (reader){.in = in, .at = ftello(in)};
    if (r->at < 0 || fseeko(in, 0, SEEK_END) != 0 || (r->end = ftello(in)) < 0)
        return tr_fail(TR_EIO, "a tensor is read from something that cannot be positioned: %s", strerror(errno));
    return seek(r, r->at);
}

/* As a LoDTensor; if that makes no sense, as SelectedRows. If neither does, the message is about a LoDTensor, unless
 * the record was recognised as SelectedRows by the description of its tensor. */
static tr_status get_any_header(reader *r, header *h)
{
    const int64_t start = r->at;
    char          as_tensor[512];

    const tr_status status = get_header(r, h, false);
    if (status != TR_EFORMAT)
        return status;
    snprintf(as_tensor, sizeof as_tensor, "%s", tr_error());
    header_deinit(h);
    TR_TRY(seek(r, start));
    const tr_status again = get_header(r, h, true);
    if (again == TR_EFORMAT && !h->is_described)
        return tr_fail(TR_EFORMAT, "%s", as_tensor);
    return again;
}

static tr_status attach(tr_tensor *tensor, const header *h, const reader *r)
{
    if (h->has_rows)
        return tr_tensor_set_rows(tensor, h->height, h->row_count, h->rows);
    if (tr_tensor_set_lod(tensor, (int)h->levels, h->count, (const int64_t *const *)h->offset) == TR_EINVAL) {
        char what[200];
        snprintf(what, sizeof what, "%s", tr_error());
        return bad(r, "%s", what);
    }
    return TR_OK;
}

/* Read the beginning of a record, all that can be wrong with it, into a tensor without memory. */
static tr_status get_form(reader *r, header *h, tr_tensor *form)
{
    TR_TRY(get_any_header(r, h));
    tr_tensor_deinit(form);
    tr__tensor_point(form, h->dtype, &h->shape, NULL);
    return attach(form, h, r);
}

/* The data go to where they will stay: into the tensor's own memory, if it is large enough and nobody shares it. */
static tr_status get_values(reader *r, const header *h, tr_tensor *tensor)
{
    TR_TRY(tr_tensor_resize(tensor, h->dtype, h->shape.rank, h->shape.dim));
    TR_TRY(attach(tensor, h, r));
    const tr_status status = get(r, tensor->data, h->bytes, "the tensor's data");
    if (status != TR_OK)
        tr_tensor_deinit(tensor);                  /* not half of it */
    return status;
}

tr_status tr_tensor_read(FILE *in, tr_tensor *tensor)
{
    tr_status status;
    reader    r;
    header    h = {0};
    tr_tensor form;

    tr_tensor_init(&form);
    TR_TRY_GOTO(done, reader_init(&r, in));
    TR_TRY_GOTO(done, get_form(&r, &h, &form));
    TR_TRY_GOTO(done, get_values(&r, &h, tensor));
done:
    header_deinit(&h);
    tr_tensor_deinit(&form);
    return status;
}

static tr_status scan(tr_tensor *form, FILE *in)
{
    header    h = {0};
    reader    r;
    tr_status status = reader_init(&r, in);

    if (status == TR_OK)
        status = get_form(&r, &h, form);
    if (status == TR_OK)
        status = seek(&r, r.at + h.bytes);
    header_deinit(&h);
    return status;
}

tr_status tr_tensor_scan(tr_tensor *const *forms, int count, const char *path)
{
    tr_status status = TR_OK;
    FILE     *in;

    TR_TRY(tr_path_fopen(&in, NULL, path));
    for (int i = 0; i < count && status == TR_OK; i++) {
        status = scan(forms[i], in);
        if (status != TR_OK && count > 1)
            tr_context(status, "in record %d of %d", i + 1, count);
    }
    if (status == TR_OK && fgetc(in) != EOF)
        status = tr_fail(TR_EFORMAT, "tensor file: there are more bytes after record %d, which ends at %lld", count,
                         (long long)ftello(in) - 1);
    fclose(in);
    return status == TR_OK ? TR_OK : tr_context(status, "while loading '%s'", path);
}

/* -- whole files ---------------------------------------------------------------------------------- */

tr_status tr_tensor_save(const tr_tensor *tensor, const char *path)
{
    tr_beside file;

    TR_TRY(tr_beside_open(&file, path));
    const tr_status status = tr_beside_close(&file, tr_tensor_write(file.out, tensor));
    return status == TR_OK ? TR_OK : tr_context(status, "while saving '%s'", path);
}

tr_status tr_tensor_load(tr_tensor *tensor, const char *path)
{
    FILE *in;

    TR_TRY(tr_path_fopen(&in, NULL, path));
    tr_status status = tr_tensor_read(in, tensor);
    if (status == TR_OK && fgetc(in) != EOF)
        status = tr_fail(TR_EFORMAT, "tensor file: there are more bytes after the tensor, which ends at %lld",
                         (long long)ftello(in) - 1);
    fclose(in);
    return status == TR_OK ? TR_OK : tr_context(status, "while loading '%s'", path);
}
