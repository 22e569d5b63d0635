/* fuzz_wire.c - whatever comes from the network: a header, then a payload of entries or of messages. Everything an accepted
 * message points at is read, so that the sanitizers see a wrong bound. */
#include "pserver/wire/bundle.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static volatile uint8_t sink;

static void read_entries(const uint8_t *payload, uint64_t size, uint32_t count)
{
    tr_wire_entries entries;
    uint32_t        block;
    const uint8_t  *data;
    uint64_t        bytes;

    if (tr_wire_entries_open(&entries, payload, size, count) != TR_OK)
        return;
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        for (uint64_t i = 0; i < bytes; i++)
            sink = data[i];
}

static void read_bundle(const tr_wire *bundle, const uint8_t *payload, uint64_t size)
{
    tr_bundle_reader reader = tr_bundle_open(payload, bundle);
    tr_wire          inside;
    const uint8_t   *data;

    if (bundle->bytes != size)
        return;                                    /* the event loop refuses it before */
    while (tr_bundle_next(&reader, &inside, &data)) {
        if (tr_wire_is_of_loop(inside.kind))
            abort();
        for (uint64_t i = 0; i < inside.bytes; i++)
            sink = data[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    tr_wire wire;
    uint8_t again[TR_WIRE_HEADER];
    char    text[256];

    if (size < TR_WIRE_HEADER || tr_wire_decode(&wire, input) != TR_OK)
        return 0;
    tr_wire_encode(again, &wire);
    if (memcmp(again, input, TR_WIRE_HEADER))      /* one message, one header */
        abort();
    tr_wire_print(text, sizeof text, &wire);
    sink = (uint8_t)text[0];
    if (wire.kind == TR_WIRE_PUSH_MANY || wire.kind == TR_WIRE_DATA_MANY)
        read_entries(input + TR_WIRE_HEADER, size - TR_WIRE_HEADER,
                     wire.kind == TR_WIRE_PUSH_MANY ? wire.push_many.count : wire.data_many.count);
    if (wire.kind == TR_WIRE_BUNDLE)
        read_bundle(&wire, input + TR_WIRE_HEADER, size - TR_WIRE_HEADER);
    return 0;
}
