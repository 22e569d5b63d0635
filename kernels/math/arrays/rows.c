/* rows.c - gathers copy rows; scatter-add lets each slice own some rows of the table.
 *
 * Every slice of a scatter-add adds the values of its own rows, in the order of the list: no
 * sorting, no atomics, and the same sums for any number of slices. Which slice owns a row is a hash of the row, so that
 * a skewed list balances. The list is dealt out to its owners first, so that each walks its own part and asks for what
 * comes next some rows ahead. */
#ifndef T
#include "kernels/math/arrays/rows.h"

#include "framework/base/compiler.h"
#include "framework/tensors/random.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/wrap.h"

#include <string.h>

enum { MIN_BYTES = 32768, MIN_ITEMS = 16384, MAX_OWNERS = 8 };

int64_t tr_rows_check(const int64_t *ids, int64_t count, int64_t height, int64_t padding)
{
    for (int64_t i = 0; i < count; i++)
        if ((ids[i] < 0 || ids[i] >= height) && (ids[i] != padding || padding == -1))
            return i;
    return -1;
}

int64_t tr_rows_place(const int64_t *numbers, int64_t count, int64_t number)
{
    int64_t low = 0, high = count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (numbers[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct copy_job {
    char          *to;
    const char    *from;
    const int64_t *ids;
    int64_t        count, bytes, padding;
} copy_job;

/* Rows of a large table are rarely in cache: ask for them some rows ahead. */
static void gather_range(void *payload, int64_t begin, int64_t end)
{
    const copy_job *j = payload;
    const int64_t   ahead = tr__rows_ahead(j->bytes);
    for (int64_t i = begin; i < end; i++) {
        char *row = j->to + i * j->bytes;
        if (i + ahead < end)
            tr__fetch_row(j->from + j->ids[i + ahead] * j->bytes, j->bytes);
        if (j->padding != -1 && j->ids[i] == j->padding)
            memset(row, 0, (size_t)j->bytes);
        else
            memcpy(row, j->from + j->ids[i] * j->bytes, (size_t)j->bytes);
    }
}

void tr_rows_gather(void *out, const void *table, const int64_t *ids, int64_t count, int64_t row_bytes, int64_t padding)
{
    copy_job j = {out, table, ids, count, row_bytes, padding};
    if (row_bytes > 0)
        tr_parallel_range(count, 1 + MIN_BYTES / row_bytes, gather_range, &j);
}

void tr_rows_scatter(void *table, const int64_t *ids, const void *values, int64_t count, int64_t row_bytes)
{
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)table + ids[i] * row_bytes, (const char *)values + i * row_bytes, (size_t)row_bytes);
}

/* -- grouping: a radix sort of (id, position) --------------------------------------------------------------------------- */

/* A longer list pays for larger digits, which need fewer passes. */
enum { SHORT_BITS = 8, LONG_BITS = 11, LONG_LIST = 4096 };

/* One pass, stable; both arrays move together. */
static void sort_by_digit(int64_t *to_id, int64_t *to_at, const int64_t *id, const int64_t *at, int64_t count, int shift,
                          int bits)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    int64_t        start[(1 << LONG_BITS) + 1];

    memset(start, 0, (mask + 2) * sizeof *start);
    for (int64_t i = 0; i < count; i++)
        start[((uint64_t)id[i] >> shift & mask) + 1]++;
    for (uint64_t d = 0; d <= mask; d++)
        start[d + 1] += start[d];
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = start[(uint64_t)id[i] >> shift & mask]++;
        to_id[place] = id[i];
        to_at[place] = at[i];
    }
}

/* Ids are not negative, so the digits of the bits order them. Digits that are the same in all need no pass. */
int64_t tr_rows_group(int64_t *unique, int64_t *first, int64_t *order, int64_t *work, const int64_t *ids, int64_t count)
{
    const int bits = count < LONG_LIST ? SHORT_BITS : LONG_BITS;
    int64_t  *id = unique, *at = order, *other_id = work, *other_at = work + count, groups = 0;
    uint64_t  differing = 0;

    for (int64_t i = 0; i < count; i++) {
        id[i] = ids[i];
        at[i] = i;
        differing |= (uint64_t)(ids[i] ^ ids[0]);
    }
    for (int shift = 0; shift < 64 && differing >> shift != 0; shift += bits)
        if ((differing >> shift & (((uint64_t)1 << bits) - 1)) != 0) {
            sort_by_digit(other_id, other_at, id, at, count, shift, bits);
            int64_t *swap = id;
            id = other_id, other_id = swap;
            swap = at, at = other_at, other_at = swap;
        }
    for (int64_t i = 0; i < count; i++)                       /* groups <= i: what is read is not yet overwritten */
        if (i == 0 || id[i] != unique[groups - 1]) {
            first[groups] = i;
            unique[groups++] = id[i];
        }
    first[groups] = count;
    if (at != order)
        memcpy(order, at, (size_t)count * sizeof *order);
    return groups;
}

/* Positions of the list by owner, ascending for each; those of owner o are first[o] .. first[o+1]-1 of the result. */
static const int64_t *deal_out(int64_t *first, const int64_t *ids, int64_t count, int64_t owners)
{
    int64_t *order = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)count * (sizeof *order + 1));
    uint8_t *owner = (uint8_t *)(order + count);
    int64_t  next[MAX_OWNERS] = {0};

    for (int64_t i = 0; i < count; i++) {
        owner[i] = (uint8_t)((tr_hash_u64((uint64_t)ids[i]) >> 32) * (uint64_t)owners >> 32);
        next[owner[i]]++;
    }
    first[0] = 0;
    for (int64_t o = 0; o < owners; o++) {
        first[o + 1] = first[o] + next[o];
        next[o] = first[o];
    }
    for (int64_t i = 0; i < count; i++)
        order[next[owner[i]]++] = i;
    return order;
}

#include "kernels/math/tools/each_number.h"
#else

typedef struct {
    T             *to;
    const T       *values;
    const int64_t *ids, *first, *order;
    int64_t        count, width, padding;
} NAME(job);

TR_CLONES static void NAME(add_row)(T *to, const T *x, int64_t width)
{
    TR_IVDEP
    for (int64_t k = 0; k < width; k++)
        to[k] = NAME(tr_plus)(to[k], x[k]);
}

static void NAME(scatter_owner)(void *payload, int64_t owner)
{
    const NAME(job) *j = payload;
    const int64_t    begin = j->first[owner], end = j->first[owner + 1], *at = j->order;
    const int64_t    bytes = j->width * (int64_t)sizeof(T), ahead = tr__rows_ahead(2 * bytes);
    for (int64_t i = begin; i < end; i++) {
        if (i + ahead < end) {
            tr__claim_row(j->to + j->ids[at[i + ahead]] * j->width, bytes);
            tr__fetch_row(j->values + at[i + ahead] * j->width, bytes);
        }
        if (j->padding == -1 || j->ids[at[i]] != j->padding)
            NAME(add_row)(j->to + j->ids[at[i]] * j->width, j->values + at[i] * j->width, j->width);
    }
}

/* The work that one thread does by itself. */
static void NAME(scatter_in_order)(const NAME(job) *j)
{
    for (int64_t i = 0; i < j->count; i++)
        if (j->padding == -1 || j->ids[i] != j->padding)
            NAME(add_row)(j->to + j->ids[i] * j->width, j->values + i * j->width, j->width);
}

void NAME(tr_rows_scatter_add)(T *table, const int64_t *ids, const T *values, int64_t count, int64_t width, int64_t padding)
{
    NAME(job)     j = {.to = table, .values = values, .ids = ids, .count = count, .width = width, .padding = padding};
    const int64_t wanted = tr_slice_count(count * width, MIN_ITEMS), owners = wanted < MAX_OWNERS ? wanted : MAX_OWNERS;
    int64_t       first[MAX_OWNERS + 1];
    if (owners == 1) {
        NAME(scatter_in_order)(&j);
        return;
    }
    j.order = deal_out(first, ids, count, owners);
    j.first = first;
    tr_parallel(owners, NAME(scatter_owner), &j);
}

bool NAME(tr_row_is_zero)(const T *row, int64_t width)
{
    for (int64_t i = 0; i < width; i++)
        if (row[i] != 0)
            return false;
    return true;
}

static void NAME(groups_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t g = begin; g < end; g++) {
        T *to = j->to + g * j->width;
        memcpy(to, j->values + j->order[j->first[g]] * j->width, (size_t)j->width * sizeof(T));
        for (int64_t i = j->first[g] + 1; i < j->first[g + 1]; i++)
            NAME(add_row)(to, j->values + j->order[i] * j->width, j->width);
    }
}

void NAME(tr_rows_sum_groups)(T *out, const T *values, const int64_t *first, const int64_t *order, int64_t groups,
                              int64_t width)
{
    NAME(job) j = {.to = out, .values = values, .first = first, .order = order, .width = width};
    if (width > 0)
        tr_parallel_range(groups, 1 + MIN_ITEMS / 2 / width, NAME(groups_range), &j);
}

#endif
