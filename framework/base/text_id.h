/* text_id.h - the id of a text: the 64-bit FNV-1a of its bytes, modulo the number of buckets.
 *
 * A model is trained on these ids. So the reader of training data and the server of a model both take them from here, and the function
 * never changes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "framework/base/compiler.h"

static const uint64_t tr_text_hash_start = 0xcbf29ce484222325u;

TR_INLINE uint64_t tr_text_hash_byte(uint64_t hash, char byte)
{
    return (hash ^ (uint8_t)byte) * 0x100000001b3u;
}

/* `buckets` is above 0. */
TR_INLINE int64_t tr_text_id(const char *text, size_t size, int64_t buckets)
{
    uint64_t hash = tr_text_hash_start;

    for (size_t i = 0; i < size; i++)
        hash = tr_text_hash_byte(hash, text[i]);
    return (int64_t)(hash % (uint64_t)buckets);
}
