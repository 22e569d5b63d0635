/* conv_winograd_level.h - the arithmetic of conv_winograd.c for one level of instructions: read once for each, in terms of
 *   LEVEL(x)      x_avx512, x_avx2
 *   INLINE        how functions of the level are declared, TARGET the attribute alone
 *   LANES, MR     floats of a vector, rows of a register tile of a product
 *   MR_GRAD       rows of a tile of the filter's gradient
 *
 * Vectors hold LANES channels of one place. What a chunk of tiles has at the points lies as [point][block of channels][tile][lane],
 * filters as [point][pair of blocks of outputs][input][2 lanes], so that products read both from end to end. */

/* -- six points in one direction ------------------------------------------------------------------------------------------- */

/* The values of six inputs at the points, times what makes collect and spread simple. */
INLINE void LEVEL(to_points)(LEVEL(vec) o[POINTS], const LEVEL(vec) d[POINTS])
{
    const LEVEL(vec) sum = LEVEL(all)(-2.5f), half = LEVEL(all)(-0.5f), two = LEVEL(all)(-2.0f);
    const LEVEL(vec) a = LEVEL(all)(ROOT_HALF), b = LEVEL(all)(ROOT_TWO);
    const LEVEL(vec) even_a = LEVEL(fmadd)(two, d[2], d[4]), even_b = LEVEL(fmadd)(half, d[2], d[4]);
    const LEVEL(vec) odd_a = LEVEL(sub)(LEVEL(mul)(a, d[3]), LEVEL(mul)(b, d[1]));
    const LEVEL(vec) odd_b = LEVEL(sub)(LEVEL(mul)(b, d[3]), LEVEL(mul)(a, d[1]));
    o[0] = LEVEL(fmadd)(sum, d[2], LEVEL(add)(d[0], d[4]));
    o[1] = LEVEL(add)(even_a, odd_a);
    o[2] = LEVEL(sub)(even_a, odd_a);
    o[3] = LEVEL(add)(even_b, odd_b);
    o[4] = LEVEL(sub)(even_b, odd_b);
    o[5] = LEVEL(fmadd)(sum, d[3], LEVEL(add)(d[1], d[5]));
}

/* The values of the polynomial y[0] + y[1] t + ... + y[n-1] t^(n-1) at the points; at +-sqrt(1/2) and +-sqrt(2) times scale. */
INLINE void LEVEL(spread)(LEVEL(vec) o[POINTS], const LEVEL(vec) *y, const int n, const float scale_a, const float scale_b)
{
    static const float power[2][5] = {{1, ROOT_HALF, 0.5f, ROOT_HALF / 2, 0.25f}, {1, ROOT_TWO, 2, 2 * ROOT_TWO, 4}};
    o[0] = y[0];
    TR_UNROLL for (int p = 0; p < 2; p++) {
        const float scale = p == 0 ? scale_a : scale_b;
        LEVEL(vec)  even = LEVEL(mul)(LEVEL(all)(scale), y[0]), odd = LEVEL(mul)(LEVEL(all)(scale * power[p][1]), y[1]);
        TR_UNROLL for (int i = 2; i < n; i++) {
            const LEVEL(vec) by = LEVEL(all)(scale * power[p][i]);
            if (i % 2 == 0)
                even = LEVEL(fmadd)(by, y[i], even);
            else
                odd = LEVEL(fmadd)(by, y[i], odd);
        }
        o[1 + 2 * p] = LEVEL(add)(even, odd);
        o[2 + 2 * p] = LEVEL(sub)(even, odd);
    }
    o[5] = y[n - 1];
}

/* The adjoint of spread. */
INLINE void LEVEL(collect)(LEVEL(vec) *y, const LEVEL(vec) u[POINTS], const int n, const float scale_a, const float scale_b)
{
    static const float power[2][5] = {{1, ROOT_HALF, 0.5f, ROOT_HALF / 2, 0.25f}, {1, ROOT_TWO, 2, 2 * ROOT_TWO, 4}};
    const LEVEL(vec) sum_a = LEVEL(add)(u[1], u[2]), sum_b = LEVEL(add)(u[3], u[4]);
    const LEVEL(vec) less_a = LEVEL(sub)(u[1], u[2]), less_b = LEVEL(sub)(u[3], u[4]);
    TR_UNROLL for (int i = 0; i < n; i++) {
        const LEVEL(vec) by_a = LEVEL(all)(scale_a * power[0][i]), by_b = LEVEL(all)(scale_b * power[1][i]);
        LEVEL(vec)       all = LEVEL(mul)(by_a, i % 2 == 0 ? sum_a : less_a);
        all = LEVEL(fmadd)(by_b, i % 2 == 0 ? sum_b : less_b, all);
        if (i == 0)
            all = LEVEL(add)(all, u[0]);
        if (i == n - 1)
            all = LEVEL(add)(all, u[5]);
        y[i] = all;
    }
}

/* -- between planes of channels and vectors of channels ---------------------------------------------------------------------- */

/* places[p - begin] = the channels at place p of their planes, p in [begin, end). Up to LANES - 1 vectors behind are written, too. */
TARGET static void LEVEL(gather)(float *places, const float *planes, int64_t channels, int64_t plane, int64_t begin, int64_t end)
{
    for (int64_t p = begin; p < end; p += LANES, places += LANES * LANES) {
        LEVEL(vec) r[LANES];
        TR_UNROLL for (int i = 0; i < LANES; i++)
            r[i] = i >= channels ? LEVEL(zero)() : LEVEL(load_some)(planes + i * plane + p, end - p);
        LEVEL(transpose)(r);
        TR_UNROLL for (int i = 0; i < LANES; i++)
            LEVEL(store)(places + i * LANES, r[i]);
    }
}

/* The other way. Up to LANES - 1 vectors behind are read and not used. */
TARGET static void LEVEL(scatter)(float *planes, const float *places, int64_t channels, int64_t plane, int64_t begin, int64_t end)
{
    for (int64_t p = begin; p < end; p += LANES, places += LANES * LANES) {
        LEVEL(vec) r[LANES];
        TR_UNROLL for (int i = 0; i < LANES; i++)
            r[i] = LEVEL(load)(places + i * LANES);
        LEVEL(transpose)(r);
        TR_UNROLL for (int i = 0; i < LANES; i++)
            if (i < channels)
                LEVEL(store_some)(planes + i * plane + p, r[i], end - p);
    }
}

/* -- tiles to points and back --------------------------------------------------------------------------------------------------- */

/* A square of n x n places from (y, x) on, so many apart; what lies outside of the extent counts as 0. `places` begins at row `first`. */
INLINE void LEVEL(fetch)(LEVEL(vec) *d, const int n, const int apart, const float *places, int64_t first, const int64_t extent[2], int64_t y,
                         int64_t x)
{
    const float *from = places + ((y - first) * extent[1] + x) * LANES;
    LEVEL(mask)  column[POINTS];
    TR_UNROLL for (int j = 0; j < n; j++)
        column[j] = LEVEL(lanes)(x + j * apart >= 0 && x + j * apart < extent[1] ? LANES : 0);
    TR_UNROLL for (int i = 0; i < n; i++) {
        const bool inside = y + i * apart >= 0 && y + i * apart < extent[0];
        TR_UNROLL for (int j = 0; j < n; j++)
            d[i * n + j] = inside ? LEVEL(load_masked)(from + (i * extent[1] + j) * apart * LANES, column[j]) : LEVEL(zero)();
    }
}

/* The same where all of it lies inside. */
INLINE void LEVEL(fetch_inside)(LEVEL(vec) *d, const int n, const int apart, const float *places, int64_t first, const int64_t extent[2],
                                int64_t y, int64_t x)
{
    const float *from = places + ((y - first) * extent[1] + x) * LANES;
    TR_UNROLL for (int i = 0; i < n; i++)
        TR_UNROLL for (int j = 0; j < n; j++)
            d[i * n + j] = LEVEL(load)(from + (i * extent[1] + j) * apart * LANES);
}

/* One tile of n x n places to all 36 points, a point every `step` floats. */
INLINE void LEVEL(tile_to_points)(float *to, int64_t step, const LEVEL(vec) *d, const int n)
{
    LEVEL(vec) half[POINTS][POINTS];
    for (int j = 0; j < n; j++) {
        LEVEL(vec) in[POINTS], out[POINTS];
        TR_UNROLL for (int i = 0; i < n; i++)
            in[i] = d[i * n + j];
        if (n == POINTS)
            LEVEL(to_points)(out, in);
        else
            LEVEL(spread)(out, in, n, 1, 1);
        TR_UNROLL for (int i = 0; i < POINTS; i++)
            half[i][j] = out[i];
    }
    for (int i = 0; i < POINTS; i++) {
        LEVEL(vec) out[POINTS];
        if (n == POINTS)
            LEVEL(to_points)(out, half[i]);
        else
            LEVEL(spread)(out, half[i], n, 1, 1);
        TR_UNROLL for (int j = 0; j < POINTS; j++)
            LEVEL(store)(to + (i * POINTS + j) * step, out[j]);
    }
}

/* Tiles of n x n places of one image and block of channels: rows [top, top + rows) of tiles, which begin `stride` places from one another. */
INLINE void LEVEL(tiles_to_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2], const int n,
                                   const int apart, int64_t stride, const int64_t pad[2], int64_t top, int64_t rows, int64_t across)
{
    const int reach = (n - 1) * apart + 1;
    for (int64_t ty = top; ty < top + rows; ty++)
        for (int64_t tx = 0; tx < across; tx++, to += LANES) {
            const int64_t y = ty * stride * apart - pad[0], x = tx * stride * apart - pad[1];
            LEVEL(vec)    d[POINTS * POINTS];
            if (y >= 0 && x >= 0 && y + reach <= extent[0] && x + reach <= extent[1])
                LEVEL(fetch_inside)(d, n, apart, places, first, extent, y, x);
            else
                LEVEL(fetch)(d, n, apart, places, first, extent, y, x);
            LEVEL(tile_to_points)(to, step, d, n);
        }
}

/* The inputs' way: tiles of 6 x 6, `stride` apart, of all places or of every other one. */
TARGET static void LEVEL(input_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2],
                                       int apart, int stride, const int64_t pad[2], int64_t top, int64_t rows, int64_t across)
{
    if (apart == 1)
        LEVEL(tiles_to_points)(to, step, places, first, extent, POINTS, 1, stride, pad, top, rows, across);
    else
        LEVEL(tiles_to_points)(to, step, places, first, extent, POINTS, 2, stride, pad, top, rows, across);
}

/* The way of an output's gradient: tiles of 5 x 5 to 2 x 2 side by side. */
TARGET static void LEVEL(output_points)(float *to, int64_t step, const float *places, int64_t first, const int64_t extent[2],
                                        int stride, int64_t top, int64_t rows, int64_t across)
{
    static const int64_t none[2] = {0, 0};
    if (stride == 5)
        LEVEL(tiles_to_points)(to, step, places, first, extent, 5, 1, 5, none, top, rows, across);
    else if (stride == 4)
        LEVEL(tiles_to_points)(to, step, places, first, extent, 4, 1, 4, none, top, rows, across);
    else if (stride == 3)
        LEVEL(tiles_to_points)(to, step, places, first, extent, 3, 1, 3, none, top, rows, across);
    else
        LEVEL(tiles_to_points)(to, step, places, first, extent, 2, 1, 2, none, top, rows, across);
}

/* n x n places from 36 points, a point every `step` floats. */
INLINE void LEVEL(tile_from_points)(LEVEL(vec) *y, const float *from, int64_t step, const int n, const float scale_a, const float scale_b)
{
    LEVEL(vec) half[5][POINTS];
    for (int j = 0; j < POINTS; j++) {
        LEVEL(vec) in[POINTS], out[5];
        TR_UNROLL for (int i = 0; i < POINTS; i++)
            in[i] = LEVEL(load)(from + (i * POINTS + j) * step);
        LEVEL(collect)(out, in, n, scale_a, scale_b);
        TR_UNROLL for (int i = 0; i < n; i++)
            half[i][j] = out[i];
    }
    for (int i = 0; i < n; i++)
        LEVEL(collect)(y + i * n, half[i], n, scale_a, scale_b);
}

/* A tile of n x n outputs, so many places apart, whose first one is at (y, x), and `more` for each; those outside of the extent are dropped. */
INLINE void LEVEL(put_tile)(float *places, int64_t first, const int64_t extent[2], const LEVEL(vec) *out, LEVEL(vec) more, const int n,
                            const int apart, int64_t y, int64_t x)
{
    float        *to = places + ((y - first) * extent[1] + x) * LANES;
    const int64_t down = extent[0] - y, right = extent[1] - x;
    TR_UNROLL for (int i = 0; i < n; i++)
        TR_UNROLL for (int j = 0; j < n; j++) {
            const bool begins = apart == 1 || (y + i * apart >= 0 && x + j * apart >= 0);       /* without phases no tile begins before it */
            if (begins && i * apart < down && j * apart < right)
                LEVEL(store)(to + (i * extent[1] + j) * apart * LANES, LEVEL(add)(out[i * n + j], more));
        }
}

/* The first tile's first output lies `pad` before the extent. */
INLINE void LEVEL(outputs_of)(float *places, int64_t first, const int64_t extent[2], const float *from, int64_t step, const float *bias,
                              const int n, const int apart, const int64_t pad[2], int64_t top, int64_t rows, int64_t across)
{
    const LEVEL(vec) more = LEVEL(load)(bias);
    for (int64_t ty = top; ty < top + rows; ty++)
        for (int64_t tx = 0; tx < across; tx++, from += LANES) {
            LEVEL(vec) out[25];
            LEVEL(tile_from_points)(out, from, step, n, 1, 1);
            LEVEL(put_tile)(places, first, extent, out, more, n, apart, ty * n * apart - pad[0], tx * n * apart - pad[1]);
        }
}

/* Outputs of the tiles of rows [top, top + rows), of which those outside of the extent are dropped. */
TARGET static void LEVEL(outputs)(float *places, int64_t first, const int64_t extent[2], const float *from, int64_t step,
                                  const float *bias, int apart, int stride, const int64_t pad[2], int64_t top, int64_t rows, int64_t across)
{
    static const int64_t none[2] = {0, 0};
    if (apart == 2 && stride == 5)
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 5, 2, pad, top, rows, across);
    else if (apart == 2)
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 4, 2, pad, top, rows, across);
    else if (stride == 5)
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 5, 1, none, top, rows, across);
    else if (stride == 4)
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 4, 1, none, top, rows, across);
    else if (stride == 3)
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 3, 1, none, top, rows, across);
    else
        LEVEL(outputs_of)(places, first, extent, from, step, bias, 2, 1, none, top, rows, across);
}

/* -- filters ------------------------------------------------------------------------------------------------------------------------ */

/* taps[t] = tap t of `lanes` filters that lie `apart` floats from one another. */
INLINE void LEVEL(fetch_taps)(LEVEL(vec) *taps, const float *from, int64_t apart, int64_t lanes, const int count)
{
    for (int t = 0; t < count; t += LANES) {
        LEVEL(vec) r[LANES];
        TR_UNROLL for (int i = 0; i < LANES; i++)
            r[i] = i < lanes ? LEVEL(load_some)(from + i * apart + t, count - t) : LEVEL(zero)();
        LEVEL(transpose)(r);
        TR_UNROLL for (int i = 0; i < LANES; i++)
            if (t + i < count)
                taps[t + i] = r[i];
    }
}

/* The n x n taps of a phase of filters of size x size: all of them, or every other one from that phase on, and 0 beyond the filter's end. */
INLINE void LEVEL(filter_of)(float *to, int64_t step, const float *from, int64_t apart, int64_t lanes, const int n, const int size,
                             const int64_t phase[2], bool turned)
{
    const int  every = n == size ? 1 : 2;
    LEVEL(vec) taps[25], half[POINTS][5];
    LEVEL(fetch_taps)(taps, from, apart, lanes, size * size);
    for (int j = 0; j < n; j++) {
        LEVEL(vec)    in[5], out[POINTS];
        const int64_t x = (turned ? n - 1 - j : j) * every + phase[1];
        TR_UNROLL for (int i = 0; i < n; i++) {
            const int64_t y = (turned ? n - 1 - i : i) * every + phase[0];
            in[i] = y < size && x < size ? taps[y * size + x] : LEVEL(zero)();
        }
        LEVEL(spread)(out, in, n, SCALE_A, SCALE_B);
        TR_UNROLL for (int i = 0; i < POINTS; i++)
            half[i][j] = out[i];
    }
    for (int i = 0; i < POINTS; i++) {
        LEVEL(vec) out[POINTS];
        LEVEL(spread)(out, half[i], n, SCALE_A, SCALE_B);
        TR_UNROLL for (int j = 0; j < POINTS; j++)
            LEVEL(store)(to + (i * POINTS + j) * step, out[j]);
    }
}

/* The points of one input's taps for `lanes` outputs: n in one direction, of filters of such a size. */
TARGET static void LEVEL(filter_points)(float *to, int64_t step, const float *from, int64_t apart, int64_t lanes, int n, int size,
                                        const int64_t phase[2], bool turned)
{
    if (n == 2 && size == 3)
        LEVEL(filter_of)(to, step, from, apart, lanes, 2, 3, phase, turned);
    else if (n == 2)
        LEVEL(filter_of)(to, step, from, apart, lanes, 2, 2, phase, turned);
    else if (n == 3 && size == 5)
        LEVEL(filter_of)(to, step, from, apart, lanes, 3, 5, phase, turned);
    else if (n == 3)
        LEVEL(filter_of)(to, step, from, apart, lanes, 3, 3, phase, turned);
    else if (n == 4)
        LEVEL(filter_of)(to, step, from, apart, lanes, 4, 4, phase, turned);
    else
        LEVEL(filter_of)(to, step, from, apart, lanes, 5, 5, phase, turned);
}

INLINE void LEVEL(gradient_of)(float *to, int64_t apart, int64_t lanes, const float *sums, int64_t step, int64_t runs, int64_t run_size,
                               const int n)
{
    float      points[POINTS * POINTS * LANES];
    LEVEL(vec) taps[25 + LANES];
    for (int p = 0; p < POINTS * POINTS; p++) {
        LEVEL(vec) sum = LEVEL(load)(sums + p * step);
        tr__fetch(sums, p * step + AHEAD);
        for (int64_t run = 1; run < runs; run++) {
            sum = LEVEL(add)(sum, LEVEL(load)(sums + run * run_size + p * step));
            tr__fetch(sums, run * run_size + p * step + AHEAD);
        }
        LEVEL(store)(points + p * LANES, sum);
    }
    LEVEL(tile_from_points)(taps, points, LANES, n, SCALE_A, SCALE_B);
    for (int t = 0; t < n * n; t += LANES) {
        LEVEL(vec) r[LANES];
        TR_UNROLL for (int i = 0; i < LANES; i++)
            r[i] = t + i < n * n ? taps[t + i] : LEVEL(zero)();
        LEVEL(transpose)(r);
        TR_UNROLL for (int i = 0; i < LANES; i++)
            if (i < lanes)
                LEVEL(store_some)(to + i * apart + t, r[i], n * n - t);
    }
}

/* The taps' gradients of one input and `lanes` outputs, from the runs' sums at the points. */
TARGET static void LEVEL(gradient_taps)(float *to, int64_t apart, int64_t lanes, const float *sums, int64_t step, int64_t runs,
                                        int64_t run_size, int n)
{
    if (n == 2)
        LEVEL(gradient_of)(to, apart, lanes, sums, step, runs, run_size, 2);
    else if (n == 3)
        LEVEL(gradient_of)(to, apart, lanes, sums, step, runs, run_size, 3);
    else if (n == 4)
        LEVEL(gradient_of)(to, apart, lanes, sums, step, runs, run_size, 4);
    else
        LEVEL(gradient_of)(to, apart, lanes, sums, step, runs, run_size, 5);
}

/* -- products at one point ---------------------------------------------------------------------------------------------------------- */

/* `rows` tiles by 1 or 2 blocks of outputs; `block` floats lie between blocks of both sides. */
INLINE void LEVEL(product_tile)(const int rows, const int vectors, int64_t k, float *out, const float *v, const float *filter, int64_t block)
{
    LEVEL(vec) sum[MR][2];
    TR_UNROLL for (int i = 0; i < rows; i++)
        sum[i][0] = sum[i][1] = LEVEL(zero)();
    for (; k > 0; k -= LANES, v += block) {
        const int count = k < LANES ? (int)k : LANES;
        for (int p = 0; p < count; p++, filter += 2 * LANES) {
            const LEVEL(vec) b0 = LEVEL(load)(filter), b1 = vectors > 1 ? LEVEL(load)(filter + LANES) : b0;
            TR_UNROLL for (int i = 0; i < rows; i++) {
                const LEVEL(vec) x = LEVEL(all)(v[i * LANES + p]);
                sum[i][0] = LEVEL(fmadd)(x, b0, sum[i][0]);
                if (vectors > 1)
                    sum[i][1] = LEVEL(fmadd)(x, b1, sum[i][1]);
            }
        }
    }
    TR_UNROLL for (int i = 0; i < rows; i++) {
        LEVEL(store)(out + i * LANES, sum[i][0]);
        if (vectors > 1)
            LEVEL(store)(out + block + i * LANES, sum[i][1]);
    }
}

TARGET static void LEVEL(any_product)(int64_t rows, int vectors, int64_t k, float *out, const float *v, const float *filter, int64_t block)
{
#define CASE(rows_)                                                       \
    case rows_:                                                           \
        if (vectors > 1)                                                  \
            LEVEL(product_tile)(rows_, 2, k, out, v, filter, block);      \
        else                                                              \
            LEVEL(product_tile)(rows_, 1, k, out, v, filter, block);      \
        break
    switch (rows) {
#if MR == 14
        CASE(14); CASE(13); CASE(12); CASE(11); CASE(10); CASE(9); CASE(8); CASE(7);
#endif
        CASE(6); CASE(5); CASE(4); CASE(3); CASE(2); CASE(1);
    }
#undef CASE
}

/* All outputs of `tiles` tiles at one point: out = v filter. The filter's pairs of blocks of outputs lie `pair` floats from one another. */
static void LEVEL(products)(float *out, const float *v, const float *filter, int64_t pair, int64_t tiles, int64_t inputs, int64_t blocks,
                            int64_t block)
{
    const int64_t panels = (tiles + MR - 1) / MR;
    for (int64_t b = 0; b < blocks; b += 2, filter += pair)
        for (int64_t q = 0; q < panels; q++) {
            const int64_t t = tiles * q / panels;
            LEVEL(any_product)(tiles * (q + 1) / panels - t, blocks - b > 1 ? 2 : 1, inputs, out + b * block + t * LANES, v + t * LANES,
                               filter, block);
        }
}

/* sums[input][2 lanes of outputs] (+)= the sum over tiles of v[tile][input] d[tile][output]. */
INLINE void LEVEL(gradient_tile)(const int rows, const int vectors, int64_t tiles, float *sums, const float *v, const float *d,
                                 int64_t block, bool add)
{
    LEVEL(vec) sum[16][2];
    TR_UNROLL for (int i = 0; i < rows; i++) {
        sum[i][0] = add ? LEVEL(load)(sums + i * 2 * LANES) : LEVEL(zero)();
        sum[i][1] = add && vectors > 1 ? LEVEL(load)(sums + i * 2 * LANES + LANES) : LEVEL(zero)();
    }
    for (int64_t t = 0; t < tiles; t++, v += LANES, d += LANES) {
        const LEVEL(vec) b0 = LEVEL(load)(d), b1 = vectors > 1 ? LEVEL(load)(d + block) : b0;
        TR_UNROLL for (int i = 0; i < rows; i++) {
            const LEVEL(vec) x = LEVEL(all)(v[i]);
            sum[i][0] = LEVEL(fmadd)(x, b0, sum[i][0]);
            if (vectors > 1)
                sum[i][1] = LEVEL(fmadd)(x, b1, sum[i][1]);
        }
    }
    TR_UNROLL for (int i = 0; i < rows; i++) {
        LEVEL(store)(sums + i * 2 * LANES, sum[i][0]);
        if (vectors > 1)
            LEVEL(store)(sums + i * 2 * LANES + LANES, sum[i][1]);
    }
}

TARGET static void LEVEL(gradient_block)(int vectors, int64_t tiles, float *sums, const float *v, const float *d, int64_t block, bool add)
{
    for (int i = 0; i < LANES; i += MR_GRAD)
        if (vectors > 1)
            LEVEL(gradient_tile)(MR_GRAD, 2, tiles, sums + i * 2 * LANES, v + i, d, block, add);
        else
            LEVEL(gradient_tile)(MR_GRAD, 1, tiles, sums + i * 2 * LANES, v + i, d, block, add);
}

/* All pairs of inputs and outputs at one point. The sums of pairs of blocks of outputs lie `pair` floats from one another. */
static void LEVEL(gradient_products)(float *sums, int64_t pair, const float *v, const float *d, int64_t tiles, int64_t in_blocks,
                                     int64_t out_blocks, int64_t block, bool add)
{
    for (int64_t o = 0; o < out_blocks; o += 2, sums += pair)
        for (int64_t i = 0; i < in_blocks; i++)
            LEVEL(gradient_block)(out_blocks - o > 1 ? 2 : 1, tiles, sums + i * 2 * LANES * LANES, v + i * block, d + o * block, block, add);
}

static const level LEVEL(arithmetic) = {LANES,  LEVEL(gather),  LEVEL(scatter), LEVEL(input_points),  LEVEL(output_points),
                                        LEVEL(outputs), LEVEL(filter_points), LEVEL(gradient_taps), LEVEL(products), LEVEL(gradient_products)};
