/* gemm_bf16_blocks.h - the bfloat16 product in terms of gemm_bf16_units.h, which is included before: functions of the file that
 * includes it (gemm_bf16.c, and tests with the model of the instructions).
 *
 * Operands are rounded while they are packed. A block of A (up to BLOCK_ROWS rows, KC deep) keeps its rows, as pairs of
 * neighbouring k, ROW_WORDS words apart: an odd number of cache lines, known to the compiler. A block of B becomes panels of
 * 32 columns, a row of 32 words for each pair of k. Tiles and vectors read both as they are. What is missing to 32 of k is 0.
 *
 * An element is summed in the order of k, in blocks of KC that depend on k alone, and where a sum begins in C, on beta and
 * alpha alone. So a product may be cut anywhere between rows and columns without a change of its bits. */
#pragma once

#include "framework/threads/threadpool.h"
#include "kernels/math/products/gemm_bf16_product.h"
#include "kernels/math/tools/fetch.h"

enum {
    KC = TR_BF16_DEPTH,
    ROW_WORDS = KC / 2 + 16,
    VECTOR_ROWS = 14,                      /* rows x 2 vectors of sums: 28 of 32 registers */
    TILE_SIDE = 32,                        /* rows and columns of a block of 2 x 2 tiles */
    BLOCK_ROWS = 20 * VECTOR_ROWS, BLOCK_COLS = 1024,
    AHEAD_A = 4, AHEAD_B = 8               /* rows that are asked for before they are packed */
};

/* Words from a panel of B to the next, of so many pairs: an odd number of cache lines, so that panels that are written side by side
 * do not share sets of the cache. */
static int64_t panel_words(int64_t depth)
{
    return depth / 2 * TR_BF16_COLS + 16;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t round_up(int64_t x, int64_t grain)
{
    return (x + grain - 1) / grain * grain;
}

/* `size` in equal blocks of at most `most`, all but the last of a multiple of `grain`: the size of one. */
static int64_t even_block(int64_t size, int64_t most, int64_t grain)
{
    const int64_t blocks = (size + most - 1) / most;
    return blocks > 0 ? round_up((size + blocks - 1) / blocks, grain) : grain;
}

/* -- packing -------------------------------------------------------------------------------------------------------- */

/* 16 rows of up to 16 pairs become 16 pairs of up to 16 columns, or the other way round; they are stored `step` words apart. */
TR_BF16_INLINE void store_transposed(uint32_t *to, int64_t step, tr_pairs r[16])
{
    tr_transpose_pairs(r);
    TR_UNROLL for (int i = 0; i < 16; i++)
        tr_store_pairs(to + i * step, r[i]);
}

/* Rows i0 .. of A, k from p0 on; packed rows go on to a multiple of 16, which are never looked at. */
TR_BF16_TARGET static void pack_a(uint32_t *to, const tr_bf16_product *g, int64_t i0, int64_t rows, int64_t p0, int64_t depth)
{
    for (int64_t i = 0; i < rows && !g->trans_a; i++)
        for (int64_t p = 0; p < depth; p += 32) {
            const float *from = g->a + (i0 + i) * g->lda + p0 + p;
            tr__fetch(from, AHEAD_A * g->lda);
            tr__fetch(from, AHEAD_A * g->lda + 16);
            tr_store_pairs(to + i * ROW_WORDS + p / 2, tr_round_row(from, depth - p));
        }
    for (int64_t i = 0; i < rows && g->trans_a; i += 16)
        for (int64_t p = 0; p < depth; p += 32) {
            const float *from = g->a + (p0 + p) * g->lda + i0 + i;
            tr_pairs     r[16];
            TR_UNROLL for (int q = 0; q < 16; q++)
                r[q] = tr_round_rows(from + 2 * q * g->lda, g->lda, depth - p - 2 * q, rows - i);
            store_transposed(to + i * ROW_WORDS + p / 2, ROW_WORDS, r);
        }
}

/* Columns j0 .. of B in panels, `step` words apart, k from p0 on. */
TR_BF16_TARGET static void pack_b(uint32_t *to, int64_t step, const tr_bf16_product *g, int64_t j0, int64_t cols, int64_t p0,
                                  int64_t depth)
{
    const int64_t pairs = round_up(depth, 32) / 2, width = round_up(cols, TR_BF16_COLS);

    for (int64_t q = 0; q < pairs && !g->trans_b; q++)
        for (int64_t j = 0; j < width; j += 16) {
            const float *from = g->b + (p0 + 2 * q) * g->ldb + j0 + j;
            tr__fetch(from, AHEAD_B * g->ldb);
            tr__fetch(from, (AHEAD_B + 1) * g->ldb);
            tr_store_pairs(to + j / TR_BF16_COLS * step + q * TR_BF16_COLS + j % TR_BF16_COLS,
                           tr_round_rows(from, g->ldb, depth - 2 * q, cols - j));
        }
    for (int64_t j = 0; j < width && g->trans_b; j += 16)
        for (int64_t q = 0; q < pairs; q += 16) {
            const float *from = g->b + (j0 + j) * g->ldb + p0 + 2 * q;
            tr_pairs     r[16];
            TR_UNROLL for (int x = 0; x < 16; x++) {
                tr__fetch(from, (x + 16) * g->ldb);
                tr__fetch(from, (x + 16) * g->ldb + 16);
                r[x] = j + x < cols ? tr_round_row(from + x * g->ldb, depth - 2 * q) : tr_no_pairs();
            }
            store_transposed(to + j / TR_BF16_COLS * step + q * TR_BF16_COLS + j % TR_BF16_COLS, TR_BF16_COLS, r);
        }
}

/* -- by vectors ------------------------------------------------------------------------------------------------------- */

TR_BF16_INLINE void vector_sums(int rows, int vectors, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c, int64_t ldc,
                                const float by[2], int64_t cols)
{
    tr_floats sum[VECTOR_ROWS][2];
    TR_UNROLL for (int i = 0; i < rows; i++) {
        sum[i][0] = sum[i][1] = tr_no_floats();
        tr__fetch(c, i * ldc);             /* C is read or written when the sums are done */
        tr__fetch(c, i * ldc + 16);
    }
    for (int64_t p = 0; p < pairs; p++, a++, b += TR_BF16_COLS) {
        const tr_pairs b0 = tr_load_pairs(b), b1 = vectors > 1 ? tr_load_pairs(b + 16) : b0;
        TR_UNROLL for (int i = 0; i < rows; i++) {
            const tr_pairs x = tr_all_pairs(a + i * ROW_WORDS);
            sum[i][0] = tr_dot_pairs(sum[i][0], x, b0);
            if (vectors > 1)
                sum[i][1] = tr_dot_pairs(sum[i][1], x, b1);
        }
    }
    TR_UNROLL for (int i = 0; i < rows; i++, c += ldc) {
        tr_update(c, sum[i][0], by[0], by[1], cols);
        if (vectors > 1)
            tr_update(c + 16, sum[i][1], by[0], by[1], cols - 16);
    }
}

/* `by`: alpha and beta, read when the sums are done. */
TR_BF16_TARGET static void by_vectors(int64_t rows, int64_t cols, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c,
                                      int64_t ldc, const float by[2])
{
#define CASE(rows_)                                                       \
    case rows_:                                                           \
        if (cols > 16)                                                    \
            vector_sums(rows_, 2, pairs, a, b, c, ldc, by, cols);         \
        else                                                              \
            vector_sums(rows_, 1, pairs, a, b, c, ldc, by, cols);         \
        break
    switch (rows) {
        CASE(14); CASE(13); CASE(12); CASE(11); CASE(10); CASE(9); CASE(8); CASE(7); CASE(6); CASE(5); CASE(4); CASE(3); CASE(2); CASE(1);
    }
#undef CASE
}

/* -- by tiles: sums in 0 to 3, A in 4 and 5, B in 6 and 7 --------------------------------------------------------------- */

TR_BF16_INLINE void tile_sums(bool two_down, bool two_across, int64_t words, const uint32_t *a, const uint32_t *b)
{
    const int64_t step = ROW_WORDS * (int64_t)sizeof *a, panel = TR_BF16_COLS * (int64_t)sizeof *b;

    for (int64_t p = 0; p < words; p += TR_TILE_WORDS, b += TR_TILE_WORDS * TR_BF16_COLS) {
        TR_TILE_LOAD(6, b, panel);
        TR_TILE_LOAD(4, a + p, step);
        TR_TILE_DOT(0, 4, 6);
        if (two_across) {
            TR_TILE_LOAD(7, b + 16, panel);
            TR_TILE_DOT(1, 4, 7);
        }
        if (two_down) {
            TR_TILE_LOAD(5, a + p + TR_TILE_ROWS * ROW_WORDS, step);
            TR_TILE_DOT(2, 5, 6);
        }
        if (two_down && two_across)
            TR_TILE_DOT(3, 5, 7);
    }
}

/* Begin sums in memory, or at 0; end them there. */
TR_BF16_INLINE void begin_tiles(const float *at, int64_t stride, bool adds)
{
    const int64_t bytes = stride * (int64_t)sizeof *at;

    if (!adds) {
        TR_TILE_ZERO(0);
        TR_TILE_ZERO(1);
        TR_TILE_ZERO(2);
        TR_TILE_ZERO(3);
        return;
    }
    TR_TILE_LOAD(0, at, bytes);
    TR_TILE_LOAD(1, at + 16, bytes);
    TR_TILE_LOAD(2, at + 16 * stride, bytes);
    TR_TILE_LOAD(3, at + 16 * stride + 16, bytes);
}

TR_BF16_INLINE void end_tiles(float *at, int64_t stride)
{
    const int64_t bytes = stride * (int64_t)sizeof *at;

    TR_TILE_STORE(0, at, bytes);
    TR_TILE_STORE(1, at + 16, bytes);
    TR_TILE_STORE(2, at + 16 * stride, bytes);
    TR_TILE_STORE(3, at + 16 * stride + 16, bytes);
}

TR_BF16_INLINE void stage_in(float *stage, const float *c, int64_t ldc, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++) {
        tr_store_floats(stage + i * TILE_SIDE, tr_load_floats(c + i * ldc, cols));
        tr_store_floats(stage + i * TILE_SIDE + 16, tr_load_floats(c + i * ldc + 16, cols - 16));
    }
}

TR_BF16_INLINE void stage_out(float *c, int64_t ldc, const float *stage, int64_t rows, int64_t cols, float alpha, float beta)
{
    for (int64_t i = 0; i < rows; i++) {
        tr_update(c + i * ldc, tr_load_floats(stage + i * TILE_SIDE, 16), alpha, beta, cols);
        tr_update(c + i * ldc + 16, tr_load_floats(stage + i * TILE_SIDE + 16, 16), alpha, beta, cols - 16);
    }
}

/* If alpha and beta are 1, the sums begin with C's values, at an edge by way of a copy: alike for all elements. */
TR_BF16_TARGET static void by_tiles(int64_t rows, int64_t cols, int64_t pairs, const uint32_t *a, const uint32_t *b, float *c,
                                    int64_t ldc, const float by[2])
{
    _Alignas(64) float stage[TILE_SIDE * TILE_SIDE];
    const bool         adds = by[0] == 1 && by[1] == 1;
    const bool         in_place = rows == TILE_SIDE && cols == TILE_SIDE && by[0] == 1 && (adds || by[1] == 0);

    if (adds && !in_place) {
        memset(stage, 0, sizeof stage);
        stage_in(stage, c, ldc, rows, cols);
    }
    begin_tiles(in_place ? c : stage, in_place ? ldc : TILE_SIDE, adds);
    if (rows > 16 && cols > 16)
        tile_sums(true, true, pairs, a, b);
    else if (rows > 16)
        tile_sums(true, false, pairs, a, b);
    else
        tile_sums(false, cols > 16, pairs, a, b);
    end_tiles(in_place ? c : stage, in_place ? ldc : TILE_SIDE);
    if (!in_place)
        stage_out(c, ldc, stage, rows, cols, by[0], adds ? 0 : by[1]);
}

/* -- blocks ----------------------------------------------------------------------------------------------------------- */

/* Rows i0 .. of C, columns j0 ..: panels of B from `b` on, `step` words apart. One stays in the first cache while all rows pass. */
static void multiply_block(const tr_bf16_product *g, const uint32_t *a, const uint32_t *b, int64_t step, int64_t i0, int64_t rows,
                           int64_t j0, int64_t cols, int64_t depth, float beta)
{
    const int64_t words = round_up(depth, 32) / 2, most = g->by_tiles ? TILE_SIDE : VECTOR_ROWS, parts = (rows + most - 1) / most;
    const float   by[2] = {g->alpha, beta};

    for (int64_t j = 0; j < cols; j += TR_BF16_COLS, b += step)
        for (int64_t q = 0; q < parts; q++) {
            const int64_t i = g->by_tiles ? q * TILE_SIDE : rows * q / parts;
            const int64_t end = g->by_tiles ? least(i + TILE_SIDE, rows) : rows * (q + 1) / parts;
            float        *c = g->c + (i0 + i) * g->ldc + j0 + j;
            if (g->by_tiles)
                by_tiles(end - i, least(cols - j, TR_BF16_COLS), words, a + i * ROW_WORDS, b, c, g->ldc, by);
            else
                by_vectors(end - i, least(cols - j, TR_BF16_COLS), (depth + 1) / 2, a + i * ROW_WORDS, b, c, g->ldc, by);
        }
}

/* Words of memory for a block of A. A tile reads whole tiles of rows. */
static int64_t block_words(int64_t rows)
{
    return round_up(rows, TILE_SIDE) * ROW_WORDS;
}

static void multiply(int64_t m, int64_t n, int64_t k, const tr_bf16_product *g)
{
    const int64_t kc = even_block(k, KC, 32), mc = even_block(m, BLOCK_ROWS, TILE_SIDE), nc = least(n, BLOCK_COLS), step = panel_words(kc);
    const int64_t b_words = round_up(nc, TR_BF16_COLS) / TR_BF16_COLS * step;
    uint32_t     *b = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(b_words + block_words(mc)) * sizeof *b), *a = b + b_words;

    if (g->by_tiles)
        TR_TILES_BEGIN();
    for (int64_t j = 0; j < n; j += nc)
        for (int64_t p = 0; p < k; p += kc) {
            const int64_t depth = least(kc, k - p);
            pack_b(b, step, g, j, least(nc, n - j), p, depth);
            for (int64_t i = 0; i < m; i += mc) {
                pack_a(a, g, i, least(mc, m - i), p, depth);
                multiply_block(g, a, b, step, i, least(mc, m - i), j, least(nc, n - j), depth, p == 0 ? g->beta : 1);
            }
        }
    if (g->by_tiles)
        TR_TILES_END();
}

/* -- a B that many products share --------------------------------------------------------------------------------------- */

/* Words of the panels of one block of k. */
static int64_t panels_block(int64_t n, int64_t kc)
{
    return round_up(n, TR_BF16_COLS) / TR_BF16_COLS * panel_words(kc);
}

static int64_t panels_words(int64_t n, int64_t k)
{
    const int64_t kc = even_block(k, KC, 32);
    return (k + kc - 1) / kc * panels_block(n, kc);
}

static void pack_panels(uint32_t *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    const int64_t         kc = even_block(k, KC, 32);
    const tr_bf16_product g = {.trans_b = trans_b, .ldb = ldb, .b = b};

    for (int64_t p = 0; p < k; p += kc, panels += panels_block(n, kc))
        pack_b(panels, panel_words(kc), &g, 0, n, p, least(kc, k - p));
}

static void multiply_panels(int64_t m, int64_t n, int64_t k, const tr_bf16_product *g, const uint32_t *panels, int64_t left,
                            int64_t cols)
{
    const int64_t kc = even_block(k, KC, 32), mc = even_block(m, BLOCK_ROWS, TILE_SIDE), step = panel_words(kc);
    uint32_t     *a = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)block_words(mc) * sizeof *a);

    if (g->by_tiles)
        TR_TILES_BEGIN();
    panels += left / TR_BF16_COLS * step;
    for (int64_t p = 0; p < k; p += kc, panels += panels_block(n, kc)) {
        const int64_t depth = least(kc, k - p);
        for (int64_t i = 0; i < m; i += mc) {
            pack_a(a, g, i, least(mc, m - i), p, depth);
            multiply_block(g, a, panels, step, i, least(mc, m - i), left, cols, depth, p == 0 ? g->beta : 1);
        }
    }
    if (g->by_tiles)
        TR_TILES_END();
}
