/* tensor.h - a typed, shaped view of memory.
 *
 * The memory is a reference-counted buffer, or borrowed (buffer NULL): from the user, from a plan's
 * arena. Sequence offsets (LoD) and row indices (SelectedRows) hang beside the data, reference-counted
 * and never changed while shared, so that handing them on from operator to operator copies nothing.
 *
 * A tensor keeps the block that its own offsets were written into (`own_lod`) while the LoD in force (`lod`) is
 * another tensor's, or none. It writes there again as soon as nobody else has the block in force. So whoever
 * holds a shared LoD for longer than a run makes its owner allocate: LoD is shared among the variables of one
 * frame, which let go before the next run; what leaves the frame (outer and scope variables, elements of arrays,
 * rank tables, results) gets a copy in memory of its own.
 *
 * Reference counts are atomic; the rest of a tensor belongs to one thread at a time. */
#pragma once

#include "framework/base/status.h"
#include "framework/tensors/lod.h"
#include "framework/tensors/shape.h"

typedef struct tr_buffer tr_buffer;

typedef struct tr_rows {
    int      refs;                    /* atomic */
    int64_t  height;                  /* rows of the tensor that these are some of */
    int64_t  count;
    int64_t  capacity;
    int64_t *index;
} tr_rows;

struct tr_tensor {
    tr_dtype   dtype;
    tr_shape   shape;
    void      *data;
    tr_buffer *buffer;                /* owns data; NULL: borrowed or none */
    tr_lod    *lod;                   /* in force, a reference; NULL: no sequences */
    tr_lod    *own_lod;               /* what this tensor writes offsets into, a reference; NULL: nothing yet */
    tr_rows   *rows;                  /* NULL: dense */
    uint32_t   watch;                 /* the number that a watcher gave it (watched.h); 0: nobody watches it */
};

void tr_tensor_init(tr_tensor *tensor);      /* empty: dtype NONE, no memory */
void tr_tensor_deinit(tr_tensor *tensor);

static inline int64_t tr_tensor_count(const tr_tensor *tensor)
{
    return tr_shape_numel(&tensor->shape);
}

/* As tr_tensor_resize, for a tr_shape. Keeps LoD and rows as they are. */
tr_status tr__tensor_reserve(tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape);
/* At least `bytes` of plain memory, a quarter more than asked for when it must grow; the contents are lost then. */
tr_status tr__tensor_grow(tr_tensor *memory, size_t bytes);
/* Point at memory owned by somebody else; drops the tensor's own. */
void tr__tensor_point(tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape, void *data);
/* Empty: no data type, no rows. The memory, and that of the LoD, is kept for the next use. */
void tr__tensor_forget(tr_tensor *tensor);
/* True when nobody else shares the memory. */
bool tr__tensor_is_sole_owner(const tr_tensor *tensor);

/* Take over the LoD of another tensor (shared, not copied); `from` without LoD clears it. */
void tr__tensor_share_lod(tr_tensor *tensor, const tr_tensor *from);
/* The same, in memory of the tensor's own. `from` may be the tensor itself. */
tr_status tr__tensor_copy_lod(tr_tensor *tensor, const tr_tensor *from);
/* No sequences; the memory is kept for the next LoD. */
void tr__tensor_drop_lod(tr_tensor *tensor);
/* Room for `count` row indices, for the caller to fill (data shape is not touched); memory is kept when it
 * is large enough and not shared. */
tr_status tr__tensor_reserve_rows(tr_tensor *tensor, int64_t height, int64_t count, int64_t **index);
void tr__tensor_drop_rows(tr_tensor *tensor);

/* Counts every allocation of tensor memory, for the test that a repeated step makes none. */
int64_t tr__tensor_allocations(void);
/* One more, of memory around tensors that grows as they do: a frame, the list of an array. */
void    tr__tensor_count_allocation(void);
