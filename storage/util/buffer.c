/* buffer.c - memory grows to a fourth more than requested, so that steps of similar size seldom grow it. */
#include "storage/util/buffer.h"

#include <stdlib.h>
#include <string.h>

tr_status tr_buffer_reserve(void *memory, uint64_t *capacity, uint64_t count, size_t item)
{
    void *at;

    if (count <= *capacity)
        return TR_OK;
    const uint64_t more = count + count / 4 + 64;
    memcpy(&at, memory, sizeof at);                    /* a pointer of any type */
    void *grown = realloc(at, more * item);
    if (!grown)
        return tr_fail(TR_ENOMEM, "no memory for %llu bytes of rows", (unsigned long long)(more * item));
    memcpy(memory, &grown, sizeof grown);
    *capacity = more;
    return TR_OK;
}
