/* conv_winograd_tiles.h - how conv_winograd.c cuts a convolution into tiles; read by it alone.
 *
 * With a stride of 2 a filter of 3 (5) taps is two filters in each direction: taps 0 and 2 (and 4) see the places of one phase, tap 1 (and 3) those of
 * the other. Each phase of an input is an input of its own, with a filter of 2 (3) taps and a stride of 1. In the gradient of the
 * input the phases are outputs. */
#pragma once

#include "framework/threads/threadpool.h"
#include "kernels/math/images/conv_shape.h"

enum {
    POINTS = 6,
    ALL_POINTS = POINTS * POINTS,
    PHASED_PRODUCTS = 121             /* of four phases at all points: (6 + 5)^2 are not 0 */
};

/* A convolution of one group at the points. A stride of 2 makes four of every input or, in the gradient, of every output: one for each phase. */
typedef struct conv {
    int64_t batch, inputs, outputs;
    int64_t in[2], out[2];
    int64_t pad[2], out_pad[2];       /* places of the first tile that lie before the extent */
    int     apart, out_apart;         /* places from an element of a tile to the next: 2 where there are phases */
    int     size;                     /* of the filter in one direction */
    int     taps, stride;             /* of a phase's filter in one direction; outputs of a tile in one direction */
    int64_t down, across;             /* tiles of an image */
} conv;

static bool has_phases(const conv *c)
{
    return c->apart > 1 || c->out_apart > 1;
}

static void set_tiles(conv *c, int64_t height, int64_t width)
{
    c->down = (height + c->stride - 1) / c->stride;
    c->across = (width + c->stride - 1) / c->stride;
}

/* Of a shape that is wanted. */
static conv conv_of(const tr_conv_shape *s)
{
    const int apart = (int)s->stride[1], size = (int)s->kernel[1], taps = apart == 2 ? (size + 1) / 2 : size;
    conv      c = {s->batch, s->in_channels, s->out_channels, {s->in[1], s->in[2]}, {s->out[1], s->out[2]}, {s->pad[1], s->pad[2]}, {0, 0},
                   apart, 1, size, taps, POINTS + 1 - taps, 0, 0};
    set_tiles(&c, c.out[0], c.out[1]);
    return c;
}

/* The convolution that gives the input's gradient. */
static conv turned_conv_of(const tr_conv_shape *s)
{
    const conv c = conv_of(s);
    conv       t = c;
    t.inputs = c.outputs;
    t.outputs = c.inputs;
    t.apart = 1;
    t.out_apart = c.apart;
    for (int a = 0; a < 2; a++) {
        t.in[a] = c.out[a];
        t.out[a] = c.in[a];
        t.pad[a] = has_phases(&c) ? c.taps - 1 : c.taps - 1 - c.pad[a];
        t.out_pad[a] = has_phases(&c) ? c.pad[a] : 0;
    }
    if (has_phases(&c))
        set_tiles(&t, c.out[0] + c.taps - 1, c.out[1] + c.taps - 1);
    else
        set_tiles(&t, t.out[0], t.out[1]);
    return t;
}

/* Places of a phase begin at this one, down and across. Where a phase has one tap less than others, its products at one point are 0; at each point the
 * phases with others are neighbours. */
static const int64_t phases[4][2] = {{0, 1}, {0, 0}, {1, 0}, {1, 1}};
enum { NO_PHASE = 1 };                /* all places, from the first one on */

static int phases_of(int apart)
{
    return apart * apart;
}

/* The phases [first, first + count) whose products at point p are not 0. That point is `zero` in its direction. */
typedef struct phase_range {
    int first, count;
} phase_range;

static phase_range phases_at(int64_t p, int zero, int apart)
{
    const bool down = p / POINTS == zero, across = p % POINTS == zero;
    if (apart == 1)
        return (phase_range){0, 1};
    return down && across ? (phase_range){1, 1} : down ? (phase_range){0, 2} : across ? (phase_range){1, 2} : (phase_range){0, 4};
}

static int64_t blocks_of(int64_t channels, int lanes)
{
    return (channels + lanes - 1) / lanes;
}

static int64_t between(int64_t least, int64_t x, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* Rows of tiles of a chunk of about so many tiles: whole images where some fit. `rows` of them are cut by the number of threads. */
static int64_t chunk_rows(const conv *c, int64_t rows, int64_t tiles)
{
    const int64_t threads = tr_num_threads();
    int64_t       chunk = between(1, tiles / c->across, rows);
    if (chunk > c->down)
        chunk = chunk / c->down * c->down;
    const int64_t chunks = (rows + chunk - 1) / chunk, even = (chunks + threads - 1) / threads * threads;
    return chunks < 4 * threads ? (rows + even - 1) / even : chunk;
}

/* Rows of the extent that rows [top, top + rows) of tiles read or write: [first, last). */
static void rows_read(int64_t *first, int64_t *last, const conv *c, int64_t top, int64_t rows)
{
    *first = between(0, top * c->stride * c->apart - c->pad[0], c->in[0]);
    *last = between(*first, ((top + rows - 1) * c->stride + POINTS) * c->apart - c->pad[0], c->in[0]);
}

static void rows_written(int64_t *first, int64_t *last, const conv *c, int64_t top, int64_t rows)
{
    *first = between(0, top * c->stride * c->out_apart - c->out_pad[0], c->out[0]);
    *last = between(*first, (top + rows) * c->stride * c->out_apart - c->out_pad[0], c->out[0]);
}

/* The part of an image in rows [begin, end) of tiles, counted through the batch; `at`: tiles before it. */
typedef struct part {
    int64_t image, top, rows, at;
} part;

static bool next_part(part *p, const conv *c, int64_t begin, int64_t end)
{
    const int64_t row = p->rows == 0 ? begin : p->image * c->down + p->top + p->rows;
    if (row >= end)
        return false;
    p->at = (row - begin) * c->across;
    p->image = row / c->down;
    p->top = row % c->down;
    p->rows = c->down - p->top < end - row ? c->down - p->top : end - row;
    return true;
}
