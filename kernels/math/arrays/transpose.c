/* transpose.c - a transposition is first simplified, then done as copies of blocks or of tiles.
 *
 * Neighbouring dimensions that stay neighbours are one. What remains either keeps the last dimension, so that whole runs are
 * copied, or swaps planes, which are read and written in tiles of TILE x TILE items, so that every cache line is used whole
 * on both sides. */
#include "kernels/math/arrays/transpose.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/fetch.h"

#include <string.h>

enum { TILE = 16, MIN_BYTES = 65536 };

typedef struct strided {
    char       *to;
    const char *from;
    int         rank;
    int64_t     dims[TR_MAX_RANK], to_strides[TR_MAX_RANK], from_strides[TR_MAX_RANK];     /* in items */
    int64_t     item_size;
    int         row, col;                                    /* the dimensions of a tile */
} strided;

/* -- copying along one or two dimensions --------------------------------------------------------------------------------- */

#define RUN(type)                                                                                       \
    TR_CLONES static void run_##type(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) \
    {                                                                                                   \
        type       *out = (type *)to;                                                                   \
        const type *x = (const type *)from;                                                             \
        TR_IVDEP                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                 \
            out[i * to_step] = x[i * from_step];                                                        \
    }
RUN(uint8_t)
RUN(uint16_t)
RUN(uint32_t)
RUN(uint64_t)
#undef RUN

static void copy_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t item_size)
{
    if (to_step == 1 && from_step == 1) {
        memcpy(to, from, (size_t)(n * item_size));
        return;
    }
    switch (item_size) {
    case 1:  run_uint8_t(to, to_step, from, from_step, n); break;
    case 2:  run_uint16_t(to, to_step, from, from_step, n); break;
    case 4:  run_uint32_t(to, to_step, from, from_step, n); break;
    default: run_uint64_t(to, to_step, from, from_step, n); break;
    }
}

/* Rows of `from` become columns of `to`: rows lie from_row apart, columns to_col apart, items within both are neighbours. */
#define TILES(type)                                                                                                     \
    TR_CLONES static void tiles_##type(char *to, int64_t to_col, const char *from, int64_t from_row, int64_t rows,      \
                                       int64_t cols)                                                                    \
    {                                                                                                                   \
        for (int64_t r = 0; r < rows; r += TILE)                                                                        \
            for (int64_t c = 0; c < cols; c += TILE) {                                                                  \
                const int64_t height = rows - r < TILE ? rows - r : TILE, width = cols - c < TILE ? cols - c : TILE;    \
                type         *out = (type *)to + c * to_col + r;                                                        \
                const type   *x = (const type *)from + r * from_row + c;                                                \
                for (int64_t j = 0; j < width; j++) {                                                                   \
                    TR_IVDEP                                                                                            \
                    for (int64_t i = 0; i < height; i++)                                                                \
                        out[j * to_col + i] = x[i * from_row + j];                                                      \
                }                                                                                                       \
            }                                                                                                           \
    }
TILES(uint8_t)
TILES(uint16_t)
TILES(uint32_t)
TILES(uint64_t)
#undef TILES

static void copy_tiles(char *to, int64_t to_col, const char *from, int64_t from_row, int64_t rows, int64_t cols,
                       int64_t item_size)
{
    switch (item_size) {
    case 1:  tiles_uint8_t(to, to_col, from, from_row, rows, cols); break;
    case 2:  tiles_uint16_t(to, to_col, from, from_row, rows, cols); break;
    case 4:  tiles_uint32_t(to, to_col, from, from_row, rows, cols); break;
    default: tiles_uint64_t(to, to_col, from, from_row, rows, cols); break;
    }
}

/* -- the outer dimensions --------------------------------------------------------------------------------------------------- */

/* Drop dimensions of one item and join neighbours that are contiguous on both sides. */
static void simplify(strided *s)
{
    int rank = 0;
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] == 1)
            continue;
        if (rank > 0 && s->to_strides[rank - 1] == s->dims[i] * s->to_strides[i] &&
            s->from_strides[rank - 1] == s->dims[i] * s->from_strides[i]) {
            s->dims[rank - 1] *= s->dims[i];
        } else {
            s->dims[rank++] = s->dims[i];
        }
        s->to_strides[rank - 1] = s->to_strides[i];
        s->from_strides[rank - 1] = s->from_strides[i];
    }
    s->rank = rank;
}

/* Places of item `index` of the dimensions before the last and other than `skip`. */
static void locate(const strided *s, int64_t index, int inner, int skip, int64_t *to, int64_t *from)
{
    *to = *from = 0;
    for (int i = s->rank - 1; i >= 0; i--) {
        if (i == inner || i == skip)
            continue;
        const int64_t at = index % s->dims[i];
        index /= s->dims[i];
        *to += at * s->to_strides[i];
        *from += at * s->from_strides[i];
    }
}

static void runs_range(void *payload, int64_t begin, int64_t end)
{
    const strided *s = payload;
    const int      last = s->rank - 1;
    for (int64_t i = begin; i < end; i++) {
        int64_t to, from;
        locate(s, i, last, -1, &to, &from);
        copy_run(s->to + to * s->item_size, s->to_strides[last], s->from + from * s->item_size, s->from_strides[last],
                 s->dims[last], s->item_size);
    }
}

/* Planes are cut into bands of TILE rows: of `from`, rows lie along dimension `row`. */
static void planes_range(void *payload, int64_t begin, int64_t end)
{
    const strided *s = payload;
    const int64_t  rows = s->dims[s->row], bands = (rows + TILE - 1) / TILE;
    for (int64_t i = begin; i < end; i++) {
        const int64_t top = i % bands * TILE;
        int64_t       to, from;
        locate(s, i / bands, s->col, s->row, &to, &from);
        to += top * s->to_strides[s->row];
        from += top * s->from_strides[s->row];
        copy_tiles(s->to + to * s->item_size, s->to_strides[s->col], s->from + from * s->item_size, s->from_strides[s->row],
                   rows - top < TILE ? rows - top : TILE, s->dims[s->col], s->item_size);
    }
}

static int64_t count_of(const strided *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->rank; i++)
        count *= s->dims[i];
    return count;
}

static int unit_dimension(const int64_t *strides, int rank)
{
    for (int i = 0; i < rank; i++)
        if (strides[i] == 1)
            return i;
    return -1;
}

static void copy(strided *s)
{
    const int64_t count = count_of(s);
    if (count == 0)
        return;
    simplify(s);
    if (s->rank == 0) {
        memcpy(s->to, s->from, (size_t)s->item_size);
        return;
    }
    s->row = unit_dimension(s->to_strides, s->rank);         /* along it, `to` is contiguous */
    s->col = unit_dimension(s->from_strides, s->rank);
    if (s->row >= 0 && s->col >= 0 && s->row != s->col) {
        const int64_t bands = (s->dims[s->row] + TILE - 1) / TILE, planes = count / s->dims[s->row] / s->dims[s->col];
        tr_parallel_range(planes * bands, 1 + MIN_BYTES / (TILE * s->dims[s->col] * s->item_size), planes_range, s);
    } else {
        const int64_t length = s->dims[s->rank - 1];
        tr_parallel_range(count / length, 1 + MIN_BYTES / (length * s->item_size), runs_range, s);
    }
}

/* -- the functions ------------------------------------------------------------------------------------------------------------- */

void tr_copy_strided(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, int rank,
                     const int64_t *dims, int64_t item_size)
{
    strided s = {.to = to, .from = from, .rank = rank, .item_size = item_size};
    for (int i = 0; i < rank; i++) {
        s.dims[i] = dims[i];
        s.to_strides[i] = to_strides[i];
        s.from_strides[i] = from_strides[i];
    }
    copy(&s);
}

void tr_transpose(void *out, const void *x, int rank, const int64_t *dims, const int *perm, int64_t item_size)
{
    strided s = {.to = out, .from = x, .rank = rank, .item_size = item_size};
    int64_t x_strides[TR_MAX_RANK], stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[i--])
        x_strides[i] = stride;
    stride = 1;
    for (int i = rank - 1; i >= 0; stride *= dims[perm[i--]]) {
        s.dims[i] = dims[perm[i]];
        s.to_strides[i] = stride;
        s.from_strides[i] = x_strides[perm[i]];
    }
    copy(&s);
}

typedef struct blocks_job {
    char       *to;
    const char *from;
    int64_t     to_stride, from_stride, bytes;
} blocks_job;

/* Whole lines with the widest vectors, each asked for ahead: the library's memcpy took up to half as long again for blocks of some KiB that lie in the
 * third cache or in memory. */
TR_INLINE void copy_lines(char *to, const char *from, int64_t bytes)
{
    enum { AHEAD = 4096 };
    for (int64_t at = 0; at < bytes; at += TR_CACHE_LINE) {
        const int64_t begin = at + TR_CACHE_LINE <= bytes ? at : bytes - TR_CACHE_LINE;
        tr__fetch_bytes(from, at + AHEAD);
        memcpy(to + begin, from + begin, TR_CACHE_LINE);
    }
}

TR_CLONES static void copy_blocks(const blocks_job *j, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        copy_lines(j->to + i * j->to_stride, j->from + i * j->from_stride, j->bytes);
}

static void blocks_range(void *payload, int64_t begin, int64_t end)
{
    const blocks_job *j = payload;
    if (j->bytes >= 2 * TR_CACHE_LINE)
        copy_blocks(j, begin, end);
    else
        for (int64_t i = begin; i < end; i++)
            memcpy(j->to + i * j->to_stride, j->from + i * j->from_stride, (size_t)j->bytes);
}

void tr_copy_blocks(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t blocks, int64_t bytes)
{
    blocks_job j = {to, from, to_stride, from_stride, bytes};
    if (blocks == 1 && bytes >= 2 * MIN_BYTES) {                /* threads share it */
        const int64_t pieces = bytes / MIN_BYTES, done = pieces * MIN_BYTES;
        tr_copy_blocks(to, MIN_BYTES, from, MIN_BYTES, pieces, MIN_BYTES);
        tr_copy_blocks((char *)to + done, 0, (const char *)from + done, 0, 1, bytes - done);
    } else if (bytes > 0) {
        tr_parallel_range(blocks, 1 + MIN_BYTES / bytes, blocks_range, &j);
    }
}
