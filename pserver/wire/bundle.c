/* bundle.c - see bundle.h. */
#include "pserver/wire/bundle.h"

#include <string.h>

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~(uint64_t)7;
}

bool tr_bundle_takes(const tr_wire *wire)
{
    const bool is_chunk = wire->kind == TR_WIRE_PUSH || wire->kind == TR_WIRE_PUSH_COMPRESSED || wire->kind == TR_WIRE_DATA ||
                          wire->kind == TR_WIRE_REPLICA_PUSH;

    return wire->bytes <= TR_BUNDLED_MOST && !(is_chunk && wire->bytes) && !tr_wire_is_of_loop(wire->kind);
}

uint64_t tr_bundle_size(uint64_t bytes)
{
    return TR_WIRE_HEADER + padded(bytes);
}

uint64_t tr_bundle_put(uint8_t *to, const tr_wire *wire, const void *payload)
{
    uint8_t *data = to + TR_WIRE_HEADER;

    tr_wire_encode(to, wire);
    if (wire->bytes)
        memcpy(data, payload, wire->bytes);
    memset(data + wire->bytes, 0, padded(wire->bytes) - wire->bytes);
    return tr_bundle_size(wire->bytes);
}

tr_bundle_reader tr_bundle_open(const uint8_t *payload, const tr_wire *bundle)
{
    return (tr_bundle_reader){.payload = payload, .size = bundle->bytes, .count = bundle->bundle.count};
}

static tr_status read_next(tr_bundle_reader *reader, tr_wire *wire, const uint8_t **payload)
{
    const uint64_t left = reader->size - reader->at;

    if (left < TR_WIRE_HEADER)
        return tr_fail(TR_EFORMAT, "message BUNDLE: message %u of %u begins at byte %llu of %llu", reader->next, reader->count,
                       (unsigned long long)reader->at, (unsigned long long)reader->size);
    TR_TRY(tr_wire_decode(wire, reader->payload + reader->at));
    if (tr_wire_is_of_loop(wire->kind))
        return tr_fail(TR_EFORMAT, "message BUNDLE: it has a %s, which always travels by itself", tr_wire_kind_name(wire->kind));
    if (padded(wire->bytes) > left - TR_WIRE_HEADER)
        return tr_fail(TR_EFORMAT, "message BUNDLE: a %s has %llu bytes, of which %llu are there", tr_wire_kind_name(wire->kind),
                       (unsigned long long)wire->bytes, (unsigned long long)(left - TR_WIRE_HEADER));
    *payload = reader->payload + reader->at + TR_WIRE_HEADER;
    reader->at += tr_bundle_size(wire->bytes);
    reader->next++;
    return TR_OK;
}

bool tr_bundle_next(tr_bundle_reader *reader, tr_wire *wire, const uint8_t **payload)
{
    if (reader->status != TR_OK)
        return false;
    if (reader->next == reader->count && reader->at != reader->size)
        reader->status = tr_fail(TR_EFORMAT, "message BUNDLE: %u messages take %llu bytes of %llu", reader->count,
                                 (unsigned long long)reader->at, (unsigned long long)reader->size);
    if (reader->next < reader->count)
        reader->status = read_next(reader, wire, payload);
    else
        return false;
    return reader->status == TR_OK;
}
