/* tensor.c - see tensor.h. */
#include "framework/tensors/tensor.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/size.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/late.h"
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
        (void)tr__late_wait(buffer->data, (int64_t)buffer->capacity);      /* it failed: nothing comes any more */
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

static void lod_unref(tr_lod *lod)
{
    if (lod && __atomic_fetch_sub(&lod->refs, 1, __ATOMIC_ACQ_REL) == 1)
        free(lod);                           /* start and offset lie in the same block */
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
    if (lod)
        __atomic_fetch_add(&lod->refs, 1, __ATOMIC_RELAXED);
    lod_unref(tensor->lod);
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
    lod_unref(tensor->lod);
    lod_unref(tensor->own_lod);
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
    if (copy.lod)
        __atomic_fetch_add(&copy.lod->refs, 1, __ATOMIC_RELAXED);
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
    return tr__late_wait(tensor->data, tr_tensor_bytes(tensor));
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

/* The last level must end at the rows. A tensor without a type has no rows yet: its offsets may be any. */
static tr_status check_lod(const tr_tensor *tensor, int levels, const int64_t *counts,
                           const int64_t *const *offsets)
{
    for (int l = 0; l < levels; l++) {
        if (counts[l] < 1 || offsets[l][0] != 0)
            return tr_fail(TR_EINVAL, "LoD level %d must start with offset 0", l);
        for (int64_t i = 1; i < counts[l]; i++)
            if (offsets[l][i] < offsets[l][i - 1])
                return tr_fail(TR_EINVAL, "LoD level %d falls from %lld to %lld at offset %lld", l,
                               (long long)offsets[l][i - 1], (long long)offsets[l][i], (long long)i);
        const int64_t last = offsets[l][counts[l] - 1];
        if (l + 1 == levels && tensor->dtype == TR_DTYPE_NONE)
            continue;
        const int64_t below = l + 1 < levels ? counts[l + 1] - 1 : tensor->shape.rank ? tensor->shape.dim[0] : 0;
        if (last != below)
            return tr_fail(TR_EINVAL, "LoD level %d ends at %lld, but there are %lld %s", l, (long long)last,
                           (long long)below, l + 1 < levels ? "sequences one level down" : "rows");
    }
    return TR_OK;
}

static bool has_lod(const tr_tensor *tensor, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    if (tr_tensor_lod_levels(tensor) != levels)
        return false;
    for (int l = 0; l < levels; l++)
        if (tr_tensor_lod_count(tensor, l) != counts[l] ||
            memcmp(tr_tensor_lod_offsets(tensor, l), offsets[l], (size_t)counts[l] * sizeof(int64_t)) != 0)
            return false;
    return true;
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
    tr_lod       *lod = counted_alloc(sizeof *lod + (size_t)capacity * sizeof(int64_t));
    if (lod)
        *lod = (tr_lod){.refs = 1, .capacity = capacity, .start = (int64_t *)(lod + 1)};
    return lod;
}

/* The offsets may lie in the block itself. */
static void write_lod(tr_lod *lod, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    int64_t used = 0;

    lod->levels = levels;
    lod->offset = lod->start + levels + 1;
    for (int l = 0; l < levels; l++) {
        lod->start[l] = used;
        memmove(lod->offset + used, offsets[l], (size_t)counts[l] * sizeof(int64_t));
        used += counts[l];
    }
    lod->start[levels] = used;
}

/* Make a block, whose reference is taken over, the tensor's own and the one in force. */
static tr_status put_lod(tr_tensor *tensor, tr_lod *lod, int64_t numbers)
{
    if (!lod)
        return tr_fail(TR_ENOMEM, "no memory for %lld sequence offsets", (long long)numbers);
    if (lod != tensor->own_lod) {
        lod_unref(tensor->own_lod);
        tensor->own_lod = lod;
    }
    put_in_force(tensor, lod);
    return TR_OK;
}

tr_status tr_tensor_set_lod(tr_tensor *tensor, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    TR_TRY(check_lod(tensor, levels, counts, offsets));
    if (levels == 0) {
        tr__tensor_drop_lod(tensor);
        return TR_OK;
    }
    if (has_lod(tensor, levels, counts, offsets))      /* perhaps shared with others by now: nothing to write */
        return TR_OK;
    int64_t numbers = levels + 1;
    for (int l = 0; l < levels; l++)
        numbers += counts[l];
    tr_lod *lod = lod_block(tensor, numbers);
    if (lod)
        write_lod(lod, levels, counts, offsets);       /* which may be those of a block that is let go */
    return put_lod(tensor, lod, numbers);
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
    if (copy) {
        copy->levels = lod->levels;
        copy->offset = copy->start + copy->levels + 1;
        memcpy(copy->start, lod->start, (size_t)numbers * sizeof(int64_t));
    }
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
    return lod && level >= 0 && level < lod->levels ? lod->start[level + 1] - lod->start[level] : 0;
}

const int64_t *tr_tensor_lod_offsets(const tr_tensor *tensor, int level)
{
    const tr_lod *lod = tensor->lod;
    return lod && level >= 0 && level < lod->levels ? lod->offset + lod->start[level] : NULL;
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

tr_status tr_tensor_set_rows(tr_tensor *tensor, int64_t height, int64_t count, const int64_t *rows)
{
    int64_t *index;

    if (tensor->shape.rank < 1 || tensor->shape.dim[0] != count)
        return tr_fail(TR_ESHAPE, "selected rows: %lld indices for a tensor %s", (long long)count,
                       TR_SHAPE_STR(tensor->shape));
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= height)
            return tr_fail(TR_ERANGE, "selected rows: index %lld is %lld, but the height is %lld",
                           (long long)i, (long long)rows[i], (long long)height);
    TR_TRY(tr__tensor_reserve_rows(tensor, height, count, &index));
    if (count > 0)
        memcpy(index, rows, (size_t)count * sizeof *index);
    return TR_OK;
}

bool tr_tensor_has_rows(const tr_tensor *tensor) { return tensor->rows != NULL; }
int64_t tr_tensor_height(const tr_tensor *tensor) { return tensor->rows ? tensor->rows->height : 0; }
const int64_t *tr_tensor_rows(const tr_tensor *tensor) { return tensor->rows ? tensor->rows->index : NULL; }
