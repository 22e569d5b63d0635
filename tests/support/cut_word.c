/* cut_word.c - one message. */
#include "tests/support/cut_word.h"

#include "proto/pserver.pb-c.h"

#include <stdlib.h>

uint8_t *pack_cut(int index, uint64_t steps, bool with_wish, size_t *size)
{
    Trireme__Pserver__Place place = TRIREME__PSERVER__PLACE__INIT;
    Trireme__Pserver__Wish  wish = TRIREME__PSERVER__WISH__INIT;
    Trireme__Pserver__Cut   cut = TRIREME__PSERVER__CUT__INIT;

    place.index = (uint32_t)index;
    place.steps = place.runs = steps;
    wish.folder = (char *)"folder";
    wish.file = (char *)"part";
    cut.place = &place;
    cut.wish = with_wish ? &wish : NULL;
    *size = trireme__pserver__cut__get_packed_size(&cut);
    uint8_t *bytes = malloc(*size);
    trireme__pserver__cut__pack(&cut, bytes);
    return bytes;
}
