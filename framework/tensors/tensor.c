/* tensor.c - see tensor.h. */
#include "framework/tensors/tensor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/size.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/pending_value.h"
#include "framework/tensors/watched.h"

enum { ALIGNMENT = 64 };                     /* a cache line, and the widest vector */

struct tr_buffer {
    atomic_int refs;
    size_t     capacity;
    void      *data;
};

static atomic_llong allocations;

int64_t tr__tensor_allocations(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

void tr__tensor_count_allocation(void)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

static void *counted_alloc(size_t size)
{
    tr__tensor_count_allocation();
    return malloc(size ? size : 1);
}

/* -- buffers -------------------------------------------------------------------------------- */

static tr_buffer *buffer_new(size_t size)
{
    tr_buffer *buffer = counted_alloc(sizeof *buffer);
    const size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;      /* size is an int64_t's at most */

    if (!buffer)
        return NULL;
    buffer->capacity = rounded ? rounded : ALIGNMENT;
    buffer->data = tr__array_alloc(buffer->capacity);
    if (!buffer->data) {
        free(buffer);
        return NULL;
    }
    atomic_init(&buffer->refs, 1);
    return buffer;
}

static void buffer_unref(tr_buffer *buffer)
{
    if (buffer && atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1) {
        (void)tr__pending_wait(buffer->data, (int64_t)buffer->capacity);      /* it failed: nothing comes any more */
        free(buffer->data);
        free(buffer);
    }
}

static tr_buffer *buffer_ref(tr_buffer *buffer)
{
    if (buffer)
        atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
    return buffer;
}

static void rows_unref(tr_rows *rows)
{
    if (rows && __atomic_fetch_sub(&rows->refs, 1, __ATOMIC_ACQ_REL) == 1) {
        free(rows->index);
        free(rows);
    }
}

/* Let go of the LoD in force, for another one (NULL: none). */
static void put_in_force(tr_tensor *tensor, tr_lod *lod)
{
    if (tensor->lod == lod)
        return;
    tr__lod_ref(lod);
    tr__lod_unref(tensor->lod);
    tensor->lod = lod;
}

/* -- life ----------------------------------------------------------------------------------- */

void tr_tensor_init(tr_tensor *tensor)
{
    *tensor = (tr_tensor){.dtype = TR_DTYPE_NONE};
}

void tr_tensor_deinit(tr_tensor *tensor)
{
    tr__tell_written(tensor->watch);
    buffer_unref(tensor->buffer);
    tr__lod_unref(tensor->lod);
    tr__lod_unref(tensor->own_lod);
    rows_unref(tensor->rows);
    *tensor = (tr_tensor){.dtype = TR_DTYPE_NONE, .watch = tensor->watch};
}

tr_tensor *tr_tensor_new(void)
{
    tr_tensor *tensor = malloc(sizeof *tensor);
    if (tensor)
        tr_tensor_init(tensor);
    return tensor;
}

void tr_tensor_free(tr_tensor *tensor)
{
    if (!tensor)
        return;
    tr_tensor_deinit(tensor);
    free(tensor);
}

/* -- memory --------------------------------------------------------------------------------- */

static tr_status check_type_and_shape(tr_dtype dtype, int rank, const int64_t *dims)
{
    int64_t bytes = tr_dtype_size(dtype);

    if (!tr_dtype_is_valid(dtype))
        return tr_fail(TR_EDTYPE, "tensor: %d is no data type", (int)dtype);
    if (rank < 0 || rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "tensor: rank must be 0..%d, got %d", TR_MAX_RANK, rank);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return tr_fail(TR_ESHAPE, "tensor: dimension %d is %lld", i, (long long)dims[i]);
        bytes = tr_size_mul(bytes, dims[i] > 0 ? dims[i] : 1);        /* every product of some of them can be computed */
    }
    if (bytes > TR_MAX_BYTES)
        return tr_fail(TR_ENOMEM, "tensor: more bytes than a process can address");
    return TR_OK;
}

tr_status tr__tensor_reserve(tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape)
{
    TR_TRY(check_type_and_shape(dtype, shape->rank, shape->dim));
    const size_t bytes = (size_t)(tr_shape_numel(shape) * tr_dtype_size(dtype));
    if (!tensor->buffer || tensor->buffer->capacity < bytes || !tr__tensor_is_sole_owner(tensor)) {
        tr_buffer *buffer = buffer_new(bytes);
        if (!buffer)
            return tr_fail(TR_ENOMEM, "no memory for a %s tensor %s (%zu bytes)", tr_dtype_name(dtype), tr_shape_str(shape), bytes);
        buffer_unref(tensor->buffer);
        tensor->buffer = buffer;
    }
    tensor->data = tensor->buffer->data;
    tensor->dtype = dtype;
    tensor->shape = *shape;
    return TR_OK;
}

tr_status tr__tensor_grow(tr_tensor *memory, size_t bytes)
{
    if (memory->dtype != TR_DTYPE_NONE && (size_t)tr_tensor_bytes(memory) >= bytes)
        return TR_OK;
    if (bytes > (size_t)TR_MAX_BYTES)
        return tr_fail(TR_ENOMEM, "no memory for %zu bytes: no process can address them", bytes);
    const tr_shape roomy = TR_SHAPE((int64_t)(bytes + bytes / 4 + 64)), exact = TR_SHAPE((int64_t)bytes);
    if (tr__tensor_reserve(memory, TR_UINT8, &roomy) == TR_OK || tr__tensor_reserve(memory, TR_UINT8, &exact) == TR_OK)
        return TR_OK;
    return tr_fail(TR_ENOMEM, "no memory for %zu bytes", bytes);
}

tr_status tr_tensor_resize(tr_tensor *tensor, tr_dtype dtype, int rank, const int64_t *dims)
{
    if (rank < 0 || rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "tensor: rank must be 0..%d, got %d", TR_MAX_RANK, rank);
    const tr_shape shape = tr_shape_of(rank, dims);
    tr__tell_written(tensor->watch);
    TR_TRY(tr__tensor_reserve(tensor, dtype, &shape));
    tr__tensor_drop_lod(tensor);
    tr__tensor_drop_rows(tensor);
    return TR_OK;
}

void tr__tensor_point(tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape, void *data)
{
    buffer_unref(tensor->buffer);
    tensor->buffer = NULL;
    tensor->data = data;
    tensor->dtype = dtype;
    tensor->shape = *shape;
}

void tr__tensor_forget(tr_tensor *tensor)
{
    tensor->dtype = TR_DTYPE_NONE;
    tensor->shape = (tr_shape){.rank = 0};
    tr__tensor_drop_lod(tensor);
    tr__tensor_drop_rows(tensor);
}

tr_status tr_tensor_borrow(tr_tensor *tensor, tr_dtype dtype, int rank, const int64_t *dims, void *data)
{
    TR_TRY(check_type_and_shape(dtype, rank, dims));
    const tr_shape shape = tr_shape_of(rank, dims);
    tr_tensor_deinit(tensor);
    tr__tensor_point(tensor, dtype, &shape, data);
    return TR_OK;
}

void tr_tensor_share(tr_tensor *to, const tr_tensor *from)
{
    if (to == from)
        return;
    tr_tensor copy = *from;                  /* `from` may live inside what `to` lets go of */
    tr__tell_lent(from->watch);
    copy.own_lod = NULL;
    copy.watch = to->watch;
    buffer_ref(copy.buffer);
    tr__lod_ref(copy.lod);
    if (copy.rows)
        __atomic_fetch_add(&copy.rows->refs, 1, __ATOMIC_RELAXED);
    tr_tensor_deinit(to);
    *to = copy;
}

tr_status tr_tensor_copy(tr_tensor *to, const tr_tensor *from)
{
    int64_t *index;

    if (to == from)
        return TR_OK;
    TR_TRY(tr_tensor_await(from));
    if (from->dtype == TR_DTYPE_NONE) {
        tr_tensor_deinit(to);
        return TR_OK;
    }
    tr__tell_written(to->watch);
    TR_TRY(tr__tensor_reserve(to, from->dtype, &from->shape));
    memcpy(to->data, from->data, (size_t)tr_tensor_bytes(from));
    TR_TRY(tr__tensor_copy_lod(to, from));
    if (from->rows) {
        TR_TRY(tr__tensor_reserve_rows(to, from->rows->height, from->rows->count, &index));
        memcpy(index, from->rows->index, (size_t)from->rows->count * sizeof *index);
    } else {
        tr__tensor_drop_rows(to);
    }
    return TR_OK;
}

bool tr__tensor_is_sole_owner(const tr_tensor *tensor)
{
    return tensor->buffer && atomic_load_explicit(&tensor->buffer->refs, memory_order_acquire) == 1;
}

/* -- getters -------------------------------------------------------------------------------- */

tr_dtype tr_tensor_dtype(const tr_tensor *tensor) { return tensor->dtype; }
int tr_tensor_rank(const tr_tensor *tensor) { return tensor->shape.rank; }
const int64_t *tr_tensor_dims(const tr_tensor *tensor) { return tensor->shape.dim; }
int64_t tr_tensor_numel(const tr_tensor *tensor) { return tr_tensor_count(tensor); }

tr_status tr_tensor_await(const tr_tensor *tensor)
{
    if (tensor->watch) {
        tr__tell_wanted(tensor->watch);
        TR_TRY(tr__watcher_fetch());
    }
    return tr__pending_wait(tensor->data, tr_tensor_bytes(tensor));
}

void *tr_tensor_data(tr_tensor *tensor)
{
    (void)tr_tensor_await(tensor);
    tr__tell_lent(tensor->watch);
    return tensor->data;
}

int64_t tr_tensor_bytes(const tr_tensor *tensor)
{
    return tensor->dtype == TR_DTYPE_NONE ? 0 : tr_tensor_count(tensor) * tr_dtype_size(tensor->dtype);
}

/* -- sequence offsets ------------------------------------------------------------------------- */

/* At which the last level must end. A tensor without a type has no rows yet: its offsets may be any. */
static int64_t rows_of(const tr_tensor *tensor)
{
    return tensor->dtype == TR_DTYPE_NONE ? -1 : tensor->shape.rank ? tensor->shape.dim[0] : 0;
}

/* May the tensor write that many numbers into its own block? */
static bool can_rewrite(const tr_tensor *tensor, int64_t numbers)
{
    tr_lod *own = tensor->own_lod;
    return own && own->capacity >= numbers &&
           __atomic_load_n(&own->refs, __ATOMIC_ACQUIRE) == 1 + (tensor->lod == own);
}

/* A block for that many numbers: the tensor's own, or a new one that grows with it; NULL: no memory. */
static tr_lod *lod_block(const tr_tensor *tensor, int64_t numbers)
{
    if (can_rewrite(tensor, numbers))
        return tensor->own_lod;
    const int64_t had = tensor->own_lod ? tensor->own_lod->capacity : 0;
    const int64_t capacity = numbers <= had ? had : numbers < 2 * had ? 2 * had : numbers;

    tr__tensor_count_allocation();
    return tr__lod_new(capacity);
}

/* Make a block, whose reference is taken over, the tensor's own and the one in force. */
static tr_status put_lod(tr_tensor *tensor, tr_lod *lod, int64_t numbers)
{
    if (!lod)
        return tr_fail(TR_ENOMEM, "no memory for %lld sequence offsets", (long long)numbers);
    if (lod != tensor->own_lod) {
        tr__lod_unref(tensor->own_lod);
        tensor->own_lod = lod;
    }
    put_in_force(tensor, lod);
    return TR_OK;
}

tr_status tr_tensor_set_lod(tr_tensor *tensor, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    TR_TRY(tr__lod_check(levels, counts, offsets, rows_of(tensor)));
    if (levels == 0) {
        tr__tensor_drop_lod(tensor);
        return TR_OK;
    }
    if (!tensor->lod || !tr__lod_is(tensor->lod, levels, counts, offsets)) {      /* else it is perhaps shared by now: nothing to write */
        const int64_t numbers = tr__lod_numbers(levels, counts);
        tr_lod       *lod = lod_block(tensor, numbers);
        if (lod)
            tr__lod_write(lod, levels, counts, offsets);       /* which may be those of a block that is let go */
        TR_TRY(put_lod(tensor, lod, numbers));
    }
    const tr_status status = tr__lod_check_own(tensor->lod, rows_of(tensor));
    if (status != TR_OK)
        tr__tensor_drop_lod(tensor);
    return status;
}

void tr__tensor_share_lod(tr_tensor *tensor, const tr_tensor *from)
{
    put_in_force(tensor, from->lod);
}

tr_status tr__tensor_copy_lod(tr_tensor *tensor, const tr_tensor *from)
{
    const tr_lod *lod = from->lod;

    if (!lod) {
        tr__tensor_drop_lod(tensor);
        return TR_OK;
    }
    if (tensor == from && lod == tensor->own_lod)
        return TR_OK;
    const int64_t numbers = lod->levels + 1 + lod->start[lod->levels];
    tr_lod       *copy = lod_block(tensor, numbers);
    if (copy)
        tr__lod_copy(copy, lod);
    return put_lod(tensor, copy, numbers);
}

void tr__tensor_drop_lod(tr_tensor *tensor)
{
    put_in_force(tensor, NULL);
}

int tr_tensor_lod_levels(const tr_tensor *tensor)
{
    return tensor->lod ? tensor->lod->levels : 0;
}

int64_t tr_tensor_lod_count(const tr_tensor *tensor, int level)
{
    const tr_lod *lod = tensor->lod;
    return lod && level >= 0 && level < lod->levels ? tr__lod_count(lod, level) : 0;
}

const int64_t *tr_tensor_lod_offsets(const tr_tensor *tensor, int level)
{
    const tr_lod *lod = tensor->lod;
    return lod && level >= 0 && level < lod->levels ? tr__lod_offsets(lod, level) : NULL;
}

/* -- rows ------------------------------------------------------------------------------------- */

void tr__tensor_drop_rows(tr_tensor *tensor)
{
    rows_unref(tensor->rows);
    tensor->rows = NULL;
}

static tr_rows *rows_new(int64_t capacity)
{
    tr_rows *rows = counted_alloc(sizeof *rows);
    if (!rows)
        return NULL;
    *rows = (tr_rows){.refs = 1, .capacity = capacity};
    rows->index = malloc((size_t)(capacity ? capacity : 1) * sizeof(int64_t));
    if (!rows->index) {
        free(rows);
        return NULL;
    }
    return rows;
}

tr_status tr__tensor_reserve_rows(tr_tensor *tensor, int64_t height, int64_t count, int64_t **index)
{
    tr_rows *rows = tensor->rows;

    if (!rows || rows->capacity < count || __atomic_load_n(&rows->refs, __ATOMIC_ACQUIRE) != 1) {
        rows = rows_new(count);
        if (!rows)
            return tr_fail(TR_ENOMEM, "no memory for %lld row indices", (long long)count);
        tr__tensor_drop_rows(tensor);
        tensor->rows = rows;
    }
    rows->height = height;
    rows->count = count;
    *index = rows->index;
    return TR_OK;
}

static tr_status check_rows(int64_t height, int64_t count, const int64_t *rows)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= height)
            return tr_fail(TR_ERANGE, "selected rows: index %lld is %lld, but the height is %lld",
                           (long long)i, (long long)rows[i], (long long)height);
    return TR_OK;
}

tr_status tr_tensor_set_rows(tr_tensor *tensor, int64_t height, int64_t count, const int64_t *rows)
{
    int64_t *index;

    if (tensor->shape.rank < 1 || tensor->shape.dim[0] != count)
        return tr_fail(TR_ESHAPE, "selected rows: %lld indices for a tensor %s", (long long)count,
                       TR_SHAPE_STR(tensor->shape));
    TR_TRY(check_rows(height, count, rows));
    TR_TRY(tr__tensor_reserve_rows(tensor, height, count, &index));
    if (count > 0)
        memcpy(index, rows, (size_t)count * sizeof *index);
    const tr_status status = check_rows(height, count, index);       /* another thread may have changed the caller's meanwhile */
    if (status != TR_OK)
        tr__tensor_drop_rows(tensor);
    return status;
}

bool tr_tensor_has_rows(const tr_tensor *tensor) { return tensor->rows != NULL; }
int64_t tr_tensor_height(const tr_tensor *tensor) { return tensor->rows ? tensor->rows->height : 0; }
const int64_t *tr_tensor_rows(const tr_tensor *tensor) { return tensor->rows ? tensor->rows->index : NULL; }
