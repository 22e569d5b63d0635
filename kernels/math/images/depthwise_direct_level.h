/* depthwise_direct_level.h - the arithmetic of depthwise_direct.c for one level of instructions: LEVEL, TARGET and LANES are as in
 * gemm_packed.c. Sizes, strides and rows of a block are constants where functions are inlined. */

/* -- rows of inputs ------------------------------------------------------------------------------------------------------ */

/* The columns within the plane that the loads of a block of outputs read, which begins at column `left` of the plane. With a stride of 1 a block
 * is up to two vectors, and a vector is loaded for each and one behind them. With a stride of 2 it is one vector, and a pair is loaded for
 * every other tap. */
typedef struct {
    LEVEL(mask) inside[6];
    bool        more;                 /* is there anything in the vector behind them? */
} LEVEL(columns);

INLINE void LEVEL(columns_init)(LEVEL(columns) *c, const int blocks, const int size, const int stride, int64_t left, int64_t width)
{
    const int loads = stride == 1 ? blocks + 1 : size + 1;
    TR_UNROLL for (int k = 0; k < loads; k++) {
        const int64_t column = left + (stride == 1 ? k * LANES : k / 2 * 2 + k % 2 * LANES);
        c->inside[k] = LEVEL(between)(-column, width - column);
    }
    c->more = left + blocks * LANES < width;
}

/* v[b][k] = what tap k of each output of vector b sees of the row whose column `left` is at `from`. */
INLINE void LEVEL(load_taps)(LEVEL(vec) v[2][5], const float *from, const LEVEL(columns) *c, const int blocks, const int size, const int stride)
{
    if (stride == 1) {
        LEVEL(vec) row[3];
        TR_UNROLL for (int b = 0; b < blocks; b++)
            row[b] = LEVEL(load_masked)(from + b * LANES, c->inside[b]);
        row[blocks] = c->more ? LEVEL(load_masked)(from + blocks * LANES, c->inside[blocks]) : LEVEL(zero)();
        TR_UNROLL for (int b = 0; b < blocks; b++)
            TR_UNROLL for (int k = 0; k < size; k++)
                v[b][k] = LEVEL(shifted)(row[b], row[b + 1], k);
        return;
    }
    TR_UNROLL for (int k = 0; k < size; k += 2) {
        const LEVEL(vec) low = LEVEL(load_masked)(from + k, c->inside[k]), high = LEVEL(load_masked)(from + k + LANES, c->inside[k + 1]);
        v[0][k] = LEVEL(evens)(low, high);
        if (k + 1 < size)
            v[0][k + 1] = LEVEL(odds)(low, high);
    }
}

/* -- convolutions ----------------------------------------------------------------------------------------------------------- */

/* Outputs of rows [y, y + rows) and of `blocks` vectors from column `at` on. `whole`: all rows that they see are within the plane. */
INLINE void LEVEL(some_outputs)(const bool whole, const int rows, const int blocks, const int size, const int stride, float *out, const float *x,
                           const LEVEL(vec) *by, float start, bool add, const LEVEL(columns) *c, const planes *g, int64_t y, int64_t at)
{
    const int64_t top = y * stride - g->pad[0], left = at * stride - g->pad[1], width = g->out[1];
    LEVEL(vec)    sum[4][2];
    float        *to = out + y * width + at;

    TR_UNROLL for (int i = 0; i < rows; i++)
        TR_UNROLL for (int b = 0; b < blocks; b++)
            sum[i][b] = add ? LEVEL(load_some)(to + i * width + b * LANES, width - at - b * LANES) : LEVEL(all)(start);
    TR_UNROLL for (int r = 0; r < (rows - 1) * stride + size; r++) {
        LEVEL(vec) v[2][5];
        if (!whole && (top + r < 0 || top + r >= g->in[0]))
            continue;
        LEVEL(load_taps)(v, x + (top + r) * g->in[1] + left, c, blocks, size, stride);
        TR_UNROLL for (int i = 0; i < rows; i++)
            if (r >= i * stride && r < i * stride + size)
                TR_UNROLL for (int k = 0; k < size; k++)
                    TR_UNROLL for (int b = 0; b < blocks; b++)
                        sum[i][b] = LEVEL(fmadd)(by[(r - i * stride) * size + k], v[b][k], sum[i][b]);
    }
    TR_UNROLL for (int i = 0; i < rows; i++)
        TR_UNROLL for (int b = 0; b < blocks; b++)
            if (width - at >= (b + 1) * LANES)
                LEVEL(store)(to + i * width + b * LANES, sum[i][b]);
            else
                LEVEL(store_some)(to + i * width + b * LANES, sum[i][b], width - at - b * LANES);
}

INLINE void LEVEL(outputs)(const int rows, const int blocks, const int size, const int stride, float *out, const float *x,
                           const LEVEL(vec) *by, float start, bool add, const LEVEL(columns) *c, const planes *g, int64_t y, int64_t at)
{
    const int64_t top = y * stride - g->pad[0];
    if (top >= 0 && top + (rows - 1) * stride + size <= g->in[0])
        LEVEL(some_outputs)(true, rows, blocks, size, stride, out, x, by, start, add, c, g, y, at);
    else
        LEVEL(some_outputs)(false, rows, blocks, size, stride, out, x, by, start, add, c, g, y, at);
}

/* The begin of the block that is to begin at `from`: the last one overlaps the one before it, so that all are whole. Not where it would be
 * added twice. */
INLINE int64_t LEVEL(begin_of)(int64_t from, int64_t size, int64_t extent, bool add)
{
    return from + size <= extent || extent < size || add ? from : extent - size;
}

INLINE void LEVEL(plane)(const int blocks, const int size, const int stride, float *out, const float *x, const float *w, float start, bool add,
                         const planes *g)
{
    enum { ROWS = 4 };
    const int64_t height = g->out[0], width = g->out[1];
    LEVEL(vec)    by[MAX_TAPS];

    TR_UNROLL for (int k = 0; k < size * size; k++)
        by[k] = LEVEL(all)(w[k]);
    for (int64_t column = 0; column < width; column += blocks * LANES) {
        const int64_t  at = LEVEL(begin_of)(column, blocks * LANES, width, add);
        LEVEL(columns) c;
        LEVEL(columns_init)(&c, blocks, size, stride, at * stride - g->pad[1], g->in[1]);
        for (int64_t row = 0, rows; row < height; row += rows) {
            const int64_t y = LEVEL(begin_of)(row, ROWS, height, add);
            rows = ROWS;
            if (y + ROWS <= height)
                LEVEL(outputs)(ROWS, blocks, size, stride, out, x, by, start, add, &c, g, y, at);
            else
                for (rows = 0; y + rows < height; rows++)
                    LEVEL(outputs)(1, blocks, size, stride, out, x, by, start, add, &c, g, y + rows, at);
        }
    }
}

TARGET static void LEVEL(convolve)(float *out, const float *x, const float *w, float start, bool add, const planes *g)
{
    const bool narrow = g->out[1] <= LANES;
    if (g->size == 3 && g->stride == 2)
        LEVEL(plane)(1, 3, 2, out, x, w, start, add, g);
    else if (g->stride == 2)
        LEVEL(plane)(1, 5, 2, out, x, w, start, add, g);
    else if (g->size == 3 && narrow)
        LEVEL(plane)(1, 3, 1, out, x, w, start, add, g);
    else if (g->size == 3)
        LEVEL(plane)(2, 3, 1, out, x, w, start, add, g);
    else if (narrow)
        LEVEL(plane)(1, 5, 1, out, x, w, start, add, g);
    else
        LEVEL(plane)(2, 5, 1, out, x, w, start, add, g);
}

/* -- the filter's gradient ------------------------------------------------------------------------------------------------------ */

/* Adds the shares of `rows` rows of outputs to the sums of `lines` rows of taps, of which the first is row `line` of the filter. */
INLINE void LEVEL(some_shares)(const bool whole, const int rows, const int lines, const int blocks, const int size, const int stride,
                               LEVEL(vec) *sum, const float *d, const float *x, const LEVEL(columns) *c, const planes *g, int line,
                               int64_t y, int64_t at)
{
    const int64_t top = y * stride - g->pad[0] + line, left = at * stride - g->pad[1], width = g->out[1];
    LEVEL(vec)    by[4][2];

    TR_UNROLL for (int i = 0; i < rows; i++)
        TR_UNROLL for (int b = 0; b < blocks; b++)
            by[i][b] = LEVEL(load_some)(d + (y + i) * width + at + b * LANES, width - at - b * LANES);
    TR_UNROLL for (int r = 0; r < (rows - 1) * stride + lines; r++) {
        LEVEL(vec) v[2][5];
        if (!whole && (top + r < 0 || top + r >= g->in[0]))
            continue;
        LEVEL(load_taps)(v, x + (top + r) * g->in[1] + left, c, blocks, size, stride);
        TR_UNROLL for (int i = 0; i < rows; i++)
            if (r >= i * stride && r < i * stride + lines)
                TR_UNROLL for (int k = 0; k < size; k++)
                    TR_UNROLL for (int b = 0; b < blocks; b++)
                        sum[(r - i * stride) * size + k] = LEVEL(fmadd)(by[i][b], v[b][k], sum[(r - i * stride) * size + k]);
    }
}

INLINE void LEVEL(shares)(const int rows, const int lines, const int blocks, const int size, const int stride, LEVEL(vec) *sum, const float *d,
                          const float *x, const LEVEL(columns) *c, const planes *g, int line, int64_t y, int64_t at)
{
    const int64_t top = y * stride - g->pad[0] + line;
    if (top >= 0 && top + (rows - 1) * stride + lines <= g->in[0])
        LEVEL(some_shares)(true, rows, lines, blocks, size, stride, sum, d, x, c, g, line, y, at);
    else
        LEVEL(some_shares)(false, rows, lines, blocks, size, stride, sum, d, x, c, g, line, y, at);
}

/* The sums of rows [line, line + lines) of the filter. */
INLINE void LEVEL(dot_lines)(const int lines, const int blocks, const int size, const int stride, float *sums, const float *d, const float *x,
                             const planes *g, int line)
{
    enum { ROWS = 4 };
    LEVEL(vec) sum[9];

    TR_UNROLL for (int k = 0; k < lines * size; k++)
        sum[k] = LEVEL(load)(sums + (line * size + k) * LANES);
    for (int64_t at = 0; at < g->out[1]; at += blocks * LANES) {
        LEVEL(columns) c;
        int64_t        y = 0;
        LEVEL(columns_init)(&c, blocks, size, stride, at * stride - g->pad[1], g->in[1]);
        for (; y + ROWS <= g->out[0]; y += ROWS)
            LEVEL(shares)(ROWS, lines, blocks, size, stride, sum, d, x, &c, g, line, y, at);
        for (; y < g->out[0]; y++)
            LEVEL(shares)(1, lines, blocks, size, stride, sum, d, x, &c, g, line, y, at);
    }
    TR_UNROLL for (int k = 0; k < lines * size; k++)
        LEVEL(store)(sums + (line * size + k) * LANES, sum[k]);
}

/* All taps of 3x3 are summed at once. Those of 5x5 would not stay in registers: one row of them at a time. */
INLINE void LEVEL(dot_plane)(const int blocks, const int size, const int stride, float *sums, const float *d, const float *x, const planes *g)
{
    if (size == 3)
        LEVEL(dot_lines)(3, blocks, 3, stride, sums, d, x, g, 0);
    else
        for (int line = 0; line < size; line++)
            LEVEL(dot_lines)(1, blocks, 5, stride, sums, d, x, g, line);
}

TARGET static void LEVEL(dot)(float *sums, const float *d, const float *x, const planes *g)
{
    const bool narrow = g->out[1] <= LANES;
    if (g->size == 3 && g->stride == 2)
        LEVEL(dot_plane)(1, 3, 2, sums, d, x, g);
    else if (g->stride == 2)
        LEVEL(dot_plane)(1, 5, 2, sums, d, x, g);
    else if (g->size == 3 && narrow)
        LEVEL(dot_plane)(1, 3, 1, sums, d, x, g);
    else if (g->size == 3)
        LEVEL(dot_plane)(2, 3, 1, sums, d, x, g);
    else if (narrow)
        LEVEL(dot_plane)(1, 5, 1, sums, d, x, g);
    else
        LEVEL(dot_plane)(2, 5, 1, sums, d, x, g);
}

static const level LEVEL(planes) = {LANES, LEVEL(convolve), LEVEL(dot)};
