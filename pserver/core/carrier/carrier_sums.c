/* carrier_sums.c - pushes of all trainers of a group become one sum. */
#include "pserver/core/base/weighted_mean.h"
#include "pserver/core/carrier/carrier_state.h"

#include "framework/base/memory.h"
#include "storage/util/little_endian.h"

#include <string.h>

static bool is_push(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PUSH || wire->kind == TR_WIRE_PUSH_COMPRESSED;
}

/* The first piece of a gradient of rows, which are to be put together. */
static bool is_rows(const tr_carrier *carrier, const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PUSH_ROWS && !wire->push_rows.piece && wire->push_rows.table < carrier->table_count;
}

bool tr__carrier_joins(const tr_carrier *carrier, const tr_wire *wire)
{
    return is_push(wire) || wire->kind == TR_WIRE_PUSH_MANY || is_rows(carrier, wire) ||
           (wire->kind == TR_WIRE_PULL && !wire->pull.remakes);
}

uint32_t tr__carrier_pieces(const tr__queue *queue)
{
    return queue->first->wire.kind == TR_WIRE_PUSH_ROWS ? queue->first->wire.push_rows.pieces : 1;
}

bool tr__carrier_has_all(const tr__queue *queue)
{
    uint32_t left = tr__carrier_pieces(queue);

    for (const tr__load *load = queue->first; left && load; load = load->next)
        left--;
    return !left;
}

/* A part without samples counts in its own way (weighted_mean.h), so it travels by itself. */
static bool match_pushes(const tr_wire *a, const tr_wire *b)
{
    return is_push(b) && a->push.step == b->push.step && a->push.block == b->push.block && a->push.offset == b->push.offset &&
           a->push.weight > 0 && b->push.weight > 0;
}

/* Small gradients of the same blocks. */
static bool match_many(const tr__load *a, const tr__load *b)
{
    const tr_form_push_many *first = &a->wire.push_many, *many = &b->wire.push_many;

    return b->wire.kind == TR_WIRE_PUSH_MANY && many->step == first->step && many->count == first->count &&
           b->wire.bytes == a->wire.bytes && first->weight > 0 && many->weight > 0 &&
           (uint64_t)many->count * TR_WIRE_ENTRY <= b->wire.bytes && !memcmp(a->payload, b->payload, (size_t)many->count * TR_WIRE_ENTRY);
}

/* Are these the pieces of a gradient, and is it of this step and table? */
static bool match_rows(const tr__queue *queue, const tr_form_push_rows *first)
{
    const tr__load *load = queue->first;

    for (uint32_t piece = 0; piece < queue->first->wire.push_rows.pieces; piece++, load = load->next) {
        const tr_form_push_rows *rows = &load->wire.push_rows;
        if (load->wire.kind != TR_WIRE_PUSH_ROWS || rows->piece != piece || rows->step != first->step || rows->table != first->table ||
            !(rows->weight > 0))
            return false;
    }
    return true;
}

static bool match_pulls(const tr__load *a, const tr__load *b)
{
    return b->wire.kind == TR_WIRE_PULL && a->wire.pull.step == b->wire.pull.step && a->wire.bytes == b->wire.bytes &&
           !memcmp(a->payload, b->payload, a->wire.bytes);
}

bool tr__carrier_match(const tr_carrier *carrier, const tr__lane *lane)
{
    const tr__load *a = lane->queue[0].first;

    for (int i = 0; i < carrier->end - carrier->first; i++) {
        const tr__load *b = lane->queue[i].first;
        const bool is_part = is_push(&a->wire)                     ? match_pushes(&a->wire, &b->wire)
                             : a->wire.kind == TR_WIRE_PUSH_MANY ? match_many(a, b)
                             : is_rows(carrier, &a->wire) ? is_rows(carrier, &b->wire) && match_rows(&lane->queue[i], &a->wire.push_rows)
                                                          : match_pulls(a, b);
        if (!is_part)
            return false;
    }
    return true;
}

/* == chunks ======================================================================================= */

/* The bytes of a chunk; 0: there is no such chunk. */
static uint64_t chunk_bytes(const tr_carrier *carrier, int server, const tr_form_push *push)
{
    if (push->block >= carrier->block_count[server])
        return 0;
    const uint64_t all = carrier->block[server][push->block].bytes;
    const uint64_t left = push->offset < all ? all - push->offset : 0;
    return left < carrier->chunk_bytes ? left : carrier->chunk_bytes;
}

static tr_dtype dtype_of(const tr_carrier *carrier, int server, uint32_t block)
{
    return block < carrier->block_count[server] && carrier->block[server][block].is_double ? TR_FP64 : TR_FP32;
}

/* The floats of a compressed part; NULL: it is damaged. */
static const uint8_t *decode(const tr_carrier *carrier, const tr__load *load, uint64_t bytes)
{
    const int64_t count = (int64_t)(bytes / sizeof(float));

    if (tr_compress_check(&carrier->compress, load->payload, load->wire.bytes, count) != TR_OK)
        return NULL;
    tr_compress_decode(&carrier->compress, carrier->decoded, load->payload, count);
    return (const uint8_t *)carrier->decoded;
}

static const uint8_t *values_of(const tr_carrier *carrier, const tr__load *load, uint64_t bytes)
{
    if (load->wire.kind == TR_WIRE_PUSH_COMPRESSED)
        return carrier->decoded ? decode(carrier, load, bytes) : NULL;
    return load->wire.bytes == bytes ? load->payload : NULL;
}

/* One array of each trainer, `at` bytes behind its values. */
typedef struct arrays {
    const tr_carrier *carrier;
    const tr__lane   *lane;
    uint64_t          at, bytes;
    tr_dtype          dtype;
} arrays;

/* Add up the arrays. False: an array does not have these bytes. */
static bool add_up(const arrays *a, uint8_t *out)
{
    tr_mean mean = {0};

    for (int i = 0; i < a->carrier->end - a->carrier->first; i++) {
        const tr__load *load = a->lane->queue[i].first;
        const uint8_t  *values = load->wire.kind == TR_WIRE_PUSH_MANY ? load->payload : values_of(a->carrier, load, a->bytes);
        if (!values)
            return false;
        tr_mean_add(&mean, a->dtype, out, values + a->at, (int64_t)a->bytes / tr_dtype_size(a->dtype), load->wire.push.weight);
    }
    return true;
}

static tr__sum given_up(tr__cargo *sum)
{
    sum->loan.readers--;
    return (tr__sum){0};
}

static tr__sum sum_chunks(tr_carrier *carrier, const tr__lane *lane)
{
    const int           server = carrier->roster->rank[lane->rank].index;
    const tr_form_push *push = &lane->queue[0].first->wire.push;
    const uint64_t      bytes = chunk_bytes(carrier, server, push);

    if (!bytes)
        return (tr__sum){0};
    const arrays a = {carrier, lane, 0, bytes, dtype_of(carrier, server, push->block)};
    tr__cargo   *sum = tr__cargo_new(carrier, bytes);
    return add_up(&a, sum->payload) ? (tr__sum){sum, bytes} : given_up(sum);
}

/* The heads of these entries, without data. */
static tr__cargo *heads_of(tr_carrier *carrier, const tr__load *load)
{
    const uint32_t count = load->wire.push_many.count;
    tr__cargo     *heads = tr__cargo_new(carrier, (uint64_t)count * TR_WIRE_ENTRY);

    for (uint64_t at = 0; at < (uint64_t)count * TR_WIRE_ENTRY; at += TR_WIRE_ENTRY) {
        memcpy(heads->payload + at, load->payload + at, 4);
        tr_put_u32(heads->payload + at + 4, 0);
    }
    return heads;
}

/* Small gradients: the sum of each entry. */
static tr__sum sum_many(tr_carrier *carrier, const tr__lane *lane)
{
    const int       server = carrier->roster->rank[lane->rank].index;
    const tr__load *first = lane->queue[0].first;
    tr_wire_entries entries;
    uint32_t        block;
    const uint8_t  *data;
    uint64_t        bytes;

    if (tr_wire_entries_open(&entries, first->payload, first->wire.bytes, first->wire.push_many.count) != TR_OK)
        return (tr__sum){0};
    tr__cargo *sum = tr__cargo_new(carrier, first->wire.bytes);
    memcpy(sum->payload, first->payload, first->wire.bytes);
    while (tr_wire_entries_next(&entries, &block, &data, &bytes)) {
        const arrays a = {carrier, lane, (uint64_t)(data - first->payload), bytes, dtype_of(carrier, server, block)};
        if (block >= carrier->block_count[server] || bytes != carrier->block[server][block].bytes || !add_up(&a, sum->payload + a.at))
            return given_up(sum);
    }
    return (tr__sum){sum, first->wire.bytes, heads_of(carrier, first), (uint64_t)first->wire.push_many.count * TR_WIRE_ENTRY};
}

/* == rows ========================================================================================= */

/* List the pieces of all trainers. Returns their number; -1: they are no rows of this table. */
static int list_rows(tr_carrier *carrier, const tr__lane *lane, int64_t width)
{
    const uint64_t row = sizeof(int64_t) + (uint64_t)width * sizeof(float);
    uint64_t       count = 0, at = 0;

    for (int i = 0; i < carrier->end - carrier->first; i++)
        count += tr__carrier_pieces(&lane->queue[i]);
    if (count > carrier->part_capacity) {
        carrier->part = tr__must_realloc(carrier->part, count * sizeof *carrier->part);
        carrier->part_capacity = count;
    }
    for (int i = 0; i < carrier->end - carrier->first; i++) {
        const tr__load *load = lane->queue[i].first;
        for (uint32_t left = tr__carrier_pieces(&lane->queue[i]); left; left--, load = load->next) {
            const uint64_t rows = load->wire.bytes / row;
            const void    *keys = load->payload, *values = rows ? load->payload + rows * sizeof(int64_t) : NULL;
            if (load->wire.bytes % row)
                return -1;
            carrier->part[at++] = (tr_rows_part){i, load->wire.push_rows.weight, (int64_t)rows, keys, values};
        }
    }
    return (int)at;
}

/* The rows of all keys, each with its sum: first the keys, then the values. */
static tr__sum sum_rows(tr_carrier *carrier, const tr__lane *lane)
{
    const int64_t        width = carrier->width[lane->queue[0].first->wire.push_rows.table];
    const tr_rows_update update = {list_rows(carrier, lane, width), carrier->part};
    tr_rows_merge       *merge = &carrier->merge;

    if (update.count < 0 || tr_rows_merge_sum(merge, &update, width) != TR_OK)
        return (tr__sum){0};
    const uint64_t keys = merge->set.count * sizeof(int64_t), values = merge->set.count * (uint64_t)width * sizeof(float);
    if (keys + values > TR_LIMIT_DATA)
        return (tr__sum){0};
    tr__cargo *sum = tr__cargo_new(carrier, keys + values);
    if (keys) {
        memcpy(sum->payload, merge->set.keys, keys);
        memcpy(sum->payload + keys, merge->values, values);
    }
    return (tr__sum){sum, keys + values};
}

tr__sum tr__carrier_sum(tr_carrier *carrier, const tr__lane *lane)
{
    switch (lane->queue[0].first->wire.kind) {
    case TR_WIRE_PUSH_ROWS:
        return sum_rows(carrier, lane);
    case TR_WIRE_PUSH_MANY:
        return sum_many(carrier, lane);
    default:
        return sum_chunks(carrier, lane);
    }
}
