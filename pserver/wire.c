/* wire.c - bytes are taken apart by shifts, so that neither alignment nor the machine's order matters. */
#include "pserver/wire.h"

#include <math.h>
#include <string.h>

static const uint32_t MAGIC = 0x314d5254;      /* "TRM1" */

static const struct {
    const char *name;
    uint64_t    limit;
} kinds[TR_WIRE_KIND_COUNT] = {
    [TR_WIRE_NONE] = {"NONE", 0},
#define KIND(name, limit) [TR_WIRE_##name] = {#name, limit},
    TR_WIRE_KINDS(KIND)
#undef KIND
};

uint32_t tr_wire_get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

void tr_wire_put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_u64(const uint8_t *in)
{
    return tr_wire_get_u32(in) | (uint64_t)tr_wire_get_u32(in + 4) << 32;
}

static void put_u64(uint8_t *out, uint64_t value)
{
    tr_wire_put_u32(out, (uint32_t)value);
    tr_wire_put_u32(out + 4, (uint32_t)(value >> 32));
}

const char *tr_wire_kind_name(tr_wire_kind kind)
{
    return (unsigned)kind < TR_WIRE_KIND_COUNT ? kinds[kind].name : "?";
}

void tr_wire_encode(uint8_t out[TR_WIRE_HEADER], const tr_wire *wire)
{
    uint64_t weight;

    memcpy(&weight, &wire->weight, sizeof weight);
    tr_wire_put_u32(out, MAGIC);
    tr_wire_put_u32(out + 4, (uint32_t)wire->kind);
    tr_wire_put_u32(out + 8, wire->epoch);
    tr_wire_put_u32(out + 12, wire->sender);
    put_u64(out + 16, wire->seq);
    put_u64(out + 24, wire->step);
    tr_wire_put_u32(out + 32, wire->block);
    tr_wire_put_u32(out + 36, wire->part);
    put_u64(out + 40, wire->offset);
    put_u64(out + 48, wire->bytes);
    put_u64(out + 56, weight);
}

tr_status tr_wire_decode(tr_wire *out, const uint8_t in[TR_WIRE_HEADER])
{
    const uint32_t kind = tr_wire_get_u32(in + 4);
    const uint64_t weight = get_u64(in + 56);

    if (tr_wire_get_u32(in) != MAGIC)
        return tr_fail(TR_EFORMAT, "message: begins with %08x instead of \"TRM1\"", tr_wire_get_u32(in));
    if (kind == TR_WIRE_NONE || kind >= TR_WIRE_KIND_COUNT)
        return tr_fail(TR_EFORMAT, "message: there is no kind %u", kind);
    *out = (tr_wire){
        .kind = (tr_wire_kind)kind,
        .epoch = tr_wire_get_u32(in + 8),
        .sender = tr_wire_get_u32(in + 12),
        .seq = get_u64(in + 16),
        .step = get_u64(in + 24),
        .block = tr_wire_get_u32(in + 32),
        .part = tr_wire_get_u32(in + 36),
        .offset = get_u64(in + 40),
        .bytes = get_u64(in + 48),
    };
    memcpy(&out->weight, &weight, sizeof weight);
    if (out->bytes > kinds[kind].limit)
        return tr_fail(TR_EFORMAT, "message %s: payload of %llu bytes, at most %llu are allowed", kinds[kind].name,
                       (unsigned long long)out->bytes, (unsigned long long)kinds[kind].limit);
    if (out->offset > INT64_MAX - out->bytes)
        return tr_fail(TR_EFORMAT, "message %s: offset %llu is out of range", kinds[kind].name,
                       (unsigned long long)out->offset);
    if (!isfinite(out->weight) || out->weight < 0)
        return tr_fail(TR_EFORMAT, "message %s: a weight of %g", kinds[kind].name, out->weight);
    return TR_OK;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~(uint64_t)7;
}

bool tr_wire_is_small(uint64_t bytes, uint64_t chunk_bytes)
{
    static const uint64_t LIMIT = 16384;
    return bytes <= LIMIT && tr_wire_entry_size(bytes) <= chunk_bytes;
}

uint64_t tr_wire_entry_size(uint64_t bytes)
{
    return TR_WIRE_ENTRY + padded(bytes);
}

uint8_t *tr_wire_entry_put(uint8_t *payload, uint32_t index, uint64_t *cursor, uint32_t block, uint64_t bytes)
{
    uint8_t *entry = payload + (uint64_t)index * TR_WIRE_ENTRY;
    uint8_t *data = payload + *cursor;

    tr_wire_put_u32(entry, block);
    tr_wire_put_u32(entry + 4, (uint32_t)bytes);
    *cursor += padded(bytes);
    memset(data + bytes, 0, padded(bytes) - bytes);
    return data;
}

tr_status tr_wire_entries_open(tr_wire_entries *out, const uint8_t *payload, uint64_t size, uint32_t count)
{
    uint64_t need = (uint64_t)count * TR_WIRE_ENTRY;

    if (need > size)
        return tr_fail(TR_EFORMAT, "message: %u entries do not fit into %llu bytes", count, (unsigned long long)size);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = tr_wire_get_u32(payload + (uint64_t)i * TR_WIRE_ENTRY + 4);
        if (padded(bytes) > size - need)
            return tr_fail(TR_EFORMAT, "message: entry %u of %u has %llu bytes, which do not fit into %llu", i, count,
                           (unsigned long long)bytes, (unsigned long long)size);
        need += padded(bytes);
    }
    if (need != size)
        return tr_fail(TR_EFORMAT, "message: %u entries take %llu bytes of %llu", count, (unsigned long long)need,
                       (unsigned long long)size);
    *out = (tr_wire_entries){payload, size, (uint64_t)count * TR_WIRE_ENTRY, count, 0};
    return TR_OK;
}

bool tr_wire_entries_next(tr_wire_entries *entries, uint32_t *block, const uint8_t **data, uint64_t *bytes)
{
    const uint8_t *entry = entries->payload + (uint64_t)entries->next * TR_WIRE_ENTRY;

    if (entries->next == entries->count)
        return false;
    entries->next++;
    *block = tr_wire_get_u32(entry);
    *bytes = tr_wire_get_u32(entry + 4);
    *data = entries->payload + entries->cursor;
    entries->cursor += padded(*bytes);
    return true;
}
