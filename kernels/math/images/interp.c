/* interp.c - see interp.h.
 *
 * Where the elements of an axis come from is a table. A row of the output mixes some lines of the source (1, 2, 4 or 16 of them), which are the
 * same for all of its elements, and of each line as many elements as an element has taps. Rows are the slices; of the gradient, planes, as rows of
 * the output share rows of the source. */
#ifndef T
#include "kernels/math/images/interp.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

#include <math.h>
#include <string.h>

enum {
    MAX_TAPS = 4,                     /* along an axis */
    MAX_LINES = 4,
    MIN_ELEMENTS = 8192               /* of a slice */
};

/* A place is `low` and a share of the way to the next element. */
typedef struct place {
    int64_t low;
    double  share;
} place;

static bool is_whole(const tr_interp *s)
{
    return s->method == TR_INTERP_NEAREST || (s->method == TR_INTERP_LINEAR && s->align_mode == 1);
}

static place quotient(int64_t over, int64_t under)
{
    const int64_t low = over >= 0 ? over / under : -((under - 1 - over) / under);
    return (place){low, (double)(over - low * under) / (double)under};
}

/* A scale that has left a fraction of an element. */
static place scaled_place(const tr_interp *s, int64_t k, int64_t in, double scale)
{
    double at = is_whole(s) ? (double)k / scale : ((double)k + 0.5) / scale - 0.5;

    at = at < (double)in ? at : (double)in;
    at = at > -1 ? at : -1;
    const double low = floor(at);
    return (place){(int64_t)low, at - low};
}

static place place_of(const tr_interp *s, int axis, int64_t k)
{
    const int64_t in = s->in[axis], out = s->out[axis];
    const double  scale = s->scale[axis];
    place         p;

    if (s->align_corners || out == 1)
        p = s->align_corners || s->method != TR_INTERP_CUBIC ? quotient(out > 1 ? k * (in - 1) : 0, out > 1 ? out - 1 : 1) : (place){-1, 0.5};
    else if (scale > 0 && (double)in * scale != (double)out)
        p = scaled_place(s, k, in, scale);
    else
        p = is_whole(s) ? quotient(k * in, out) : quotient((2 * k + 1) * in - out, 2 * out);
    return p.low < 0 && s->method != TR_INTERP_CUBIC ? (place){0, 0} : p;
}

/* Of elements that lie 1 + t, t, 1 - t and 2 - t away. */
static void cubic_weights(double *weight, double t)
{
    const double a = -0.75;

    for (int i = 0; i < MAX_TAPS; i++) {
        const double d = fabs(t + 1 - i);
        weight[i] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
}

static int taps_along(const tr_interp *s, int axis)
{
    static const int taps[] = {[TR_INTERP_NEAREST] = 1, [TR_INTERP_LINEAR] = 2, [TR_INTERP_CUBIC] = 4};
    return s->in[axis] == 1 && s->out[axis] == 1 ? 1 : taps[s->method];
}

/* Elements that lie anywhere are not gathered into vectors: on plain x86-64 that takes twice as long. */
#if defined(__GNUC__) && !defined(__clang__)
#define ONE_BY_ONE  __attribute__((optimize("no-tree-vectorize")))
#define FOUR_TIMES  _Pragma("GCC unroll 4")
#define EIGHT_TIMES _Pragma("GCC unroll 8")
#else
#define ONE_BY_ONE
#define FOUR_TIMES
#define EIGHT_TIMES
#endif

/* A row of the output. */
typedef struct row {
    int64_t plane, z, y;
} row;

static row row_at(const tr_interp *s, int64_t r)
{
    const int64_t rows = s->out[0] * s->out[1];
    return (row){r / rows, r % rows / s->out[1], r % rows % s->out[1]};
}

static void next_row(row *at, const tr_interp *s)
{
    if (++at->y < s->out[1])
        return;
    at->y = 0;
    if (++at->z < s->out[0])
        return;
    at->z = 0;
    at->plane++;
}

/* -- the rest: once for each type ------------------------------------------------------------------ */
#include "kernels/math/tools/each_float.h"

#define T uint8_t
#define NAME(x) x##_u8
#define FORWARD_ALONE
#include "kernels/math/images/interp.c"
#undef FORWARD_ALONE
#undef NAME
#undef T

#else

#ifdef FORWARD_ALONE
typedef float NAME(real);

static T NAME(stored)(NAME(real) value)
{
    return (T)(value < 0 ? 0 : value > UINT8_MAX ? UINT8_MAX : value);
}
#else
typedef T NAME(real);

static T NAME(stored)(NAME(real) value)
{
    return value;
}
#endif

/* The sources of elements along one axis: `count` places and weights for each. */
typedef struct {
    int         count;
    int64_t    *at;
    NAME(real) *weight;
} NAME(taps);

typedef struct {
    const tr_interp *s;
    T               *to;
    const T         *from;
    NAME(taps)       taps[3];
} NAME(job);

/* Some lines of a plane of the source, and what each counts for. */
typedef struct {
    int64_t    at[MAX_LINES * MAX_TAPS];
    NAME(real) weight[MAX_LINES * MAX_TAPS];
} NAME(lines);

/* Of element k; there is no other weight than 1 where one place counts. */
static void NAME(fill_tap)(NAME(taps) *t, const tr_interp *s, int axis, int64_t k)
{
    const place      p = place_of(s, axis, k);
    const bool       is_up = s->method == TR_INTERP_NEAREST && s->align_corners && p.share >= 0.5;
    const int64_t    first = p.low + (is_up ? 1 : t->count == MAX_TAPS ? -1 : 0), in = s->in[axis];
    const NAME(real) share = (NAME(real))p.share;
    double           cubic[MAX_TAPS];

    for (int i = 0; i < t->count; i++)
        t->at[k * t->count + i] = first + i < 0 ? 0 : first + i < in ? first + i : in - 1;
    NAME(real) *weight = t->weight + k * t->count;
    cubic_weights(cubic, p.share);
    for (int i = 0; i < t->count; i++)
        weight[i] = t->count == 1 ? 1 : t->count == MAX_TAPS ? (NAME(real))cubic[i] : i == 0 ? 1 - share : share;
}

static NAME(job) NAME(job_of)(const tr_interp *s)
{
    NAME(job) j = {.s = s};
    int64_t   count = 0;

    for (int a = 0; a < 3; a++) {
        j.taps[a].count = taps_along(s, a);
        count += s->out[a] * j.taps[a].count;
    }
    int64_t    *at = tr_thread_scratch(TR_SCRATCH_PACK, (size_t)count * (sizeof *at + sizeof(NAME(real))));
    NAME(real) *weight = (NAME(real) *)(at + count);
    for (int a = 0; a < 3; a++) {
        j.taps[a].at = at;
        j.taps[a].weight = weight;
        for (int64_t k = 0; k < s->out[a]; k++)
            NAME(fill_tap)(&j.taps[a], s, a, k);
        at += s->out[a] * j.taps[a].count;
        weight += s->out[a] * j.taps[a].count;
    }
    return j;
}

/* Those of a row of the output. Returns how many there are. */
TR_INLINE int NAME(lines_of)(NAME(lines) *l, const NAME(job) *j, const row *r)
{
    const NAME(taps) *depth = &j->taps[0], *height = &j->taps[1];
    const int64_t     z = r->z * depth->count, y = r->y * height->count;
    int               count = 0;

    for (int a = 0; a < depth->count; a++)
        for (int b = 0; b < height->count; b++, count++) {
            l->at[count] = (depth->at[z + a] * j->s->in[1] + height->at[y + b]) * j->s->in[2];
            l->weight[count] = depth->weight[z + a] * height->weight[y + b];
        }
    return count;
}

TR_INLINE void NAME(take_row)(const int lines, const int taps, T *to, const T *plane, const NAME(lines) *l, const NAME(taps) *x, int64_t width)
{
    const int64_t    *at = x->at;
    const NAME(real) *weight = x->weight;
    const NAME(lines) own = *l;                    /* which no element that is written can change */

    FOUR_TIMES
    for (int64_t k = 0; k < width; k++, at += taps, weight += taps) {
        NAME(real) sum = 0;
        for (int i = 0; i < lines; i++) {
            const T   *line = plane + own.at[i];
            NAME(real) mix = weight[0] * line[at[0]];
            for (int t = 1; t < taps; t++)
                mix += weight[t] * line[at[t]];
            sum = i == 0 ? own.weight[0] * mix : sum + own.weight[i] * mix;
        }
        to[k] = NAME(stored)(sum);
    }
}

ONE_BY_ONE static void NAME(pick_row)(T *to, const T *line, const int64_t *at, int64_t width)
{
    EIGHT_TIMES
    for (int64_t k = 0; k < width; k++)
        to[k] = line[at[k]];
}

static void NAME(take_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const tr_interp *s = j->s;
    const int64_t    width = s->out[2], plane = s->in[0] * s->in[1] * s->in[2];
    const NAME(taps) *x = &j->taps[2];
    NAME(lines)      l;
    row              at = row_at(s, begin);

    for (int64_t r = begin; r < end; r++, next_row(&at, s)) {
        const int count = NAME(lines_of)(&l, j, &at), taps = x->count;
        const T  *from = j->from + at.plane * plane;
        T        *to = j->to + r * width;
        if (count == 1 && taps == 1)
            NAME(pick_row)(to, from + l.at[0], x->at, width);
        else if (count == 2 && taps == 2)
            NAME(take_row)(2, 2, to, from, &l, x, width);
        else if (count == 4 && taps == 4)
            NAME(take_row)(4, 4, to, from, &l, x, width);
        else
            NAME(take_row)(count, taps, to, from, &l, x, width);
    }
}

void NAME(tr_interp)(T *out, const T *x, const tr_interp *s)
{
    NAME(job) j = NAME(job_of)(s);

    j.to = out;
    j.from = x;
    tr_parallel_range(s->planes * s->out[0] * s->out[1], 1 + MIN_ELEMENTS / s->out[2], NAME(take_range), &j);
}

#ifndef FORWARD_ALONE
TR_INLINE void NAME(give_row)(const int lines, const int taps, T *plane, const T *d, const NAME(lines) *l, const NAME(taps) *x, int64_t width)
{
    const int64_t    *at = x->at;
    const T          *weight = x->weight;
    const NAME(lines) own = *l;

    FOUR_TIMES
    for (int64_t k = 0; k < width; k++, at += taps, weight += taps) {
        const T given = d[k];
        T       share[MAX_TAPS];
        for (int t = 0; t < taps; t++)
            share[t] = weight[t];
        for (int i = 0; i < lines; i++)
            for (int t = 0; t < taps; t++)
                plane[own.at[i] + at[t]] += own.weight[i] * share[t] * given;
    }
}

ONE_BY_ONE static void NAME(add_row)(T *line, const T *d, const int64_t *at, int64_t width)
{
    EIGHT_TIMES
    for (int64_t k = 0; k < width; k++)
        line[at[k]] += d[k];
}

static void NAME(give_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const tr_interp *s = j->s;
    const int64_t    rows = s->out[0] * s->out[1], width = s->out[2], plane = s->in[0] * s->in[1] * s->in[2];
    const NAME(taps) *x = &j->taps[2];
    NAME(lines)      l;
    row              at = {begin, 0, 0};

    memset(j->to + begin * plane, 0, (size_t)((end - begin) * plane) * sizeof(T));
    for (int64_t r = begin * rows; r < end * rows; r++, next_row(&at, s)) {
        const int count = NAME(lines_of)(&l, j, &at), taps = x->count;
        T        *to = j->to + at.plane * plane;
        const T  *d = j->from + r * width;
        if (count == 1 && taps == 1)
            NAME(add_row)(to + l.at[0], d, x->at, width);
        else if (count == 2 && taps == 2)
            NAME(give_row)(2, 2, to, d, &l, x, width);
        else
            NAME(give_row)(count, taps, to, d, &l, x, width);
    }
}

void NAME(tr_interp_grad)(T *dx, const T *dout, const tr_interp *s)
{
    NAME(job) j = NAME(job_of)(s);

    j.to = dx;
    j.from = dout;
    tr_parallel_range(s->planes, 1 + MIN_ELEMENTS / (s->out[0] * s->out[1] * s->out[2]), NAME(give_range), &j);
}
#endif

#endif
