/* fuzz_compress.c - a compressed gradient as it comes from the network. What passes the check is decoded, into memory of just its
 * size. The input: a method, a share, the number of values, then the payload. */
#include "pserver/wire/compress.h"
#include "pserver/wire/wire.h"
#include "storage/util/little_endian.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < HEAD)
        return 0;
    const tr_compress method = {(tr_compress_kind)(input[0] % TR_COMPRESS_KIND_COUNT), (input[1] + 1) / 256.0};
    const int64_t     count = 1 + tr_get_u32(input + 4) % 200000;
    const uint64_t    bytes = size - HEAD;
    /* Each on its own, so that the sanitizers see a wrong bound. */
    uint8_t          *payload = memcpy(malloc(bytes + 1), input + HEAD, bytes);
    float            *out = malloc((size_t)count * sizeof *out);

    if (tr_compress_check(&method, payload, bytes, count) == TR_OK)
        tr_compress_decode(&method, out, payload, count);
    free(payload);
    free(out);
    return 0;
}
