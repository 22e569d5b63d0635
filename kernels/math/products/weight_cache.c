/* weight_cache.c - see weight_cache.h. Each named memory has a list of its packed forms, mostly of one or two. A list only grows: threads read it without the lock, and add
 * to it with the lock. */
#include "kernels/math/products/weight_cache.h"

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"
#include "framework/threads/precision.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct packed {
    tr_factor_f32  factor;
    tr_precision   precision;
    float         *memory;            /* NULL: there was none; each product packs for itself */
    struct packed *next;
} packed;

typedef struct range {
    const char       *begin, *end;
    _Atomic(packed *) first;
} range;

struct tr_weight_cache {
    range          *ranges;           /* in the order of `begin` */
    int             count;
    tr_fork_lock    lock;             /* not of a set within the caller's memory, which one thread has */
    char           *room;             /* of a set within the caller's memory: what is left of it; NULL: the set allocates */
    size_t          left;
};

enum { LINE = 64 };

static _Thread_local tr_weight_cache *now;

tr_weight_cache *tr__weight_cache_new(void)
{
    tr_weight_cache *cache = tr__must_alloc(sizeof *cache);
    tr__fork_lock_init(&cache->lock);
    return cache;
}

void tr__weight_cache_free(tr_weight_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++)
        for (packed *p = atomic_load(&cache->ranges[i].first), *next; p; p = next) {
            next = p->next;
            free(p->memory);
            free(p);
        }
    tr__fork_lock_deinit(&cache->lock);
    free(cache->ranges);
    free(cache);
}

/* -- within the caller's memory --------------------------------------------------------------------------------------- */

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

size_t tr__weight_cache_room(int64_t floats)
{
    return floats > 0 ? lines(sizeof(packed)) + lines((size_t)floats * sizeof(float)) : 0;
}

size_t tr__weight_cache_bytes(int ranges, size_t room)
{
    return lines(sizeof(tr_weight_cache)) + lines((size_t)ranges * sizeof(range)) + room;
}

tr_weight_cache *tr__weight_cache_new_in(void *memory, int ranges, size_t room)
{
    tr_weight_cache *cache = memory;

    *cache = (tr_weight_cache){.ranges = (range *)((char *)memory + lines(sizeof *cache)), .left = room};
    cache->room = (char *)cache->ranges + lines((size_t)ranges * sizeof(range));
    return cache;
}

/* NULL: the room is used up. */
static void *take(tr_weight_cache *cache, size_t bytes)
{
    void *at = cache->room;

    if (lines(bytes) > cache->left)
        return NULL;
    cache->room += lines(bytes);
    cache->left -= lines(bytes);
    return at;
}

/* -- ranges ------------------------------------------------------------------------------------------------------------ */

void tr__weight_cache_add(tr_weight_cache *cache, const void *memory, size_t bytes)
{
    int i = cache->count++;

    if (!cache->room)
        cache->ranges = tr__must_realloc(cache->ranges, (size_t)cache->count * sizeof *cache->ranges);
    for (; i > 0 && cache->ranges[i - 1].begin > (const char *)memory; i--)
        cache->ranges[i] = cache->ranges[i - 1];
    cache->ranges[i] = (range){memory, (const char *)memory + bytes};
}

/* -- a factor -------------------------------------------------------------------------------------------------------- */

/* The named memory in which all of this matrix lies; NULL: none. */
static range *range_of(const tr_weight_cache *cache, const float *b, int64_t rows, int64_t cols, int64_t ld)
{
    const char *begin = (const char *)b, *end = (const char *)(b + (rows - 1) * ld + cols);
    int         low = 0, high = cache->count;

    while (low < high) {              /* the last range that begins at `begin` or before */
        const int middle = (low + high) / 2;
        if (cache->ranges[middle].begin <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && end <= cache->ranges[low - 1].end ? &cache->ranges[low - 1] : NULL;
}

static const packed *find(range *in, const tr_factor_f32 *wanted, tr_precision precision)
{
    for (const packed *p = atomic_load_explicit(&in->first, memory_order_acquire); p; p = p->next)
        if (p->factor.b == wanted->b && p->factor.trans == wanted->trans && p->factor.n == wanted->n && p->factor.k == wanted->k &&
            p->factor.ldb == wanted->ldb && p->precision == precision)
            return p;
    return NULL;
}

/* NULL: there is no room for it. */
static const packed *pack(tr_weight_cache *cache, range *in, const tr_factor_f32 *wanted, tr_precision precision)
{
    const size_t bytes = (size_t)tr_factor_size_f32(wanted->n, wanted->k, TR_FACTOR_MOST_ROWS) * sizeof(float);
    packed      *p = cache->room ? take(cache, sizeof *p) : tr__must_alloc(sizeof *p);

    if (!p)
        return NULL;
    p->factor = *wanted;
    p->precision = precision;
    p->memory = cache->room ? take(cache, bytes) : tr__array_alloc(bytes);
    if (p->memory)
        tr_factor_init_f32(&p->factor, wanted->trans, wanted->n, wanted->k, wanted->b, wanted->ldb, TR_FACTOR_MOST_ROWS, p->memory);
    p->next = atomic_load_explicit(&in->first, memory_order_relaxed);
    atomic_store_explicit(&in->first, p, memory_order_release);
    return p;
}

static const packed *pack_once(tr_weight_cache *cache, range *in, const tr_factor_f32 *wanted, tr_precision precision)
{
    tr__fork_lock_take(&cache->lock);
    const packed *found = find(in, wanted, precision);        /* another thread may have packed it meanwhile */
    if (!found)
        found = pack(cache, in, wanted, precision);
    tr__fork_lock_release(&cache->lock);
    return found;
}

const tr_factor_f32 *tr__weight_cache_factor(tr_weight_cache *cache, bool trans, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    const tr_factor_f32 wanted = {trans, n, k, ldb, b, NULL};
    const tr_precision  precision = tr__precision_now();

    range *in = tr_factor_size_f32(n, k, TR_FACTOR_MOST_ROWS) == 0 ? NULL : range_of(cache, b, trans ? n : k, trans ? k : n, ldb);
    if (!in)
        return NULL;
    const packed *found = find(in, &wanted, precision);
    if (!found)
        found = cache->room ? pack(cache, in, &wanted, precision) : pack_once(cache, in, &wanted, precision);
    return found && found->memory ? &found->factor : NULL;
}

static const tr_factor_f32 *find_packed(void *cache, bool trans, int64_t n, int64_t k, const float *b, int64_t ldb)
{
    return tr__weight_cache_factor(cache, trans, n, k, b, ldb);
}

bool tr__weight_cache_is_entered(void)
{
    return now;
}

tr_weight_cache *tr__weight_cache_enter(tr_weight_cache *cache)
{
    tr_weight_cache *before = now;

    now = cache;
    tr__gemm_ask(cache ? find_packed : NULL, cache);
    return before;
}
