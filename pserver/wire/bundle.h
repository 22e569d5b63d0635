/* bundle.h - the payload of BUNDLE: several small messages of one rank to another, which travel as one.
 *
 * Each message is its header and its payload, padded with zeros to 8 bytes. The receiver's core gets one after the other, as if each had
 * come by itself. It does not know of the bundle.
 *
 * What must stay true: reading trusts nothing. A bundle holds whole messages of cores: no message of an event loop, and no bundle. */
#pragma once

#include "pserver/wire/wire.h"

/* Larger payloads travel by themselves, without a copy. */
enum { TR_BUNDLED_MOST = 16384 };

/* May this message travel with others? Chunks of large values do not, even if they are small: the receiver works on one while the next is
 * on its way. */
bool     tr_bundle_takes(const tr_wire *wire);
/* The bytes that a message with this payload takes in a bundle. */
uint64_t tr_bundle_size(uint64_t bytes);
/* Write a message to `to`, which has room for it. Returns its size in the bundle. */
uint64_t tr_bundle_put(uint8_t *to, const tr_wire *wire, const void *payload);

typedef struct tr_bundle_reader {
    const uint8_t *payload;
    uint64_t       size, at;
    uint32_t       count, next;
    tr_status      status;            /* TR_EFORMAT: the bundle is damaged from here on (text in tr_error()) */
} tr_bundle_reader;

tr_bundle_reader tr_bundle_open(const uint8_t *payload, const tr_wire *bundle);
/* Read the next message; false: there is none, or `status` says why not. `payload` is aligned to 8 if the bundle is. */
bool             tr_bundle_next(tr_bundle_reader *reader, tr_wire *wire, const uint8_t **payload);
