/* fuzz_checkpoint.c - manifests from outside: whatever passes the checks is packed and parsed again. The checksum is made
 * to fit, so that what lies after it is tried, too. */
#include "pserver/wire/wire.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/util/crc32c.h"
#include "storage/util/little_endian.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void pack_and_parse(const tr_manifest *manifest)
{
    tr_manifest *again = NULL;
    size_t       size;
    uint8_t     *bytes = tr_manifest_pack(&size, manifest);

    must(tr_manifest_parse(&again, bytes, size, "again") == TR_OK);
    must(again->n_parts == manifest->n_parts && again->step == manifest->step);
    tr_manifest_free(again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    tr_manifest *manifest = NULL;
    uint8_t     *bytes = malloc(size + 1);

    memcpy(bytes, input, size);
    for (int round = 0; round < 2; round++) {
        if (tr_manifest_parse(&manifest, bytes, size, "input") == TR_OK) {
            pack_and_parse(manifest);
            tr_manifest_free(manifest);
        }
        if (size < TR_MANIFEST_HEADER)
            break;
        tr_put_u32(bytes + 12, tr_crc32c(0, bytes + TR_MANIFEST_HEADER, size - TR_MANIFEST_HEADER));
    }
    free(bytes);
    return 0;
}
