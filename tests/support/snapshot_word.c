/* snapshot_word.c - one message. */
#include "tests/support/snapshot_word.h"

#include "proto/pserver.pb-c.h"

#include <stdlib.h>

uint8_t *pack_snapshot(int index, uint64_t steps, bool with_target, size_t *size)
{
    Trireme__Pserver__Place place = TRIREME__PSERVER__PLACE__INIT;
    Trireme__Pserver__SnapshotTarget  target = TRIREME__PSERVER__SNAPSHOT_TARGET__INIT;
    Trireme__Pserver__Snapshot   snapshot = TRIREME__PSERVER__SNAPSHOT__INIT;

    place.index = (uint32_t)index;
    place.steps = place.runs = steps;
    target.folder = (char *)"folder";
    target.file = (char *)"part";
    snapshot.place = &place;
    snapshot.target = with_target ? &target : NULL;
    *size = trireme__pserver__snapshot__get_packed_size(&snapshot);
    uint8_t *bytes = malloc(*size);
    trireme__pserver__snapshot__pack(&snapshot, bytes);
    return bytes;
}
