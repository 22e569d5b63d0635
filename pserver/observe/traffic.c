/* traffic.c - see traffic.h. */
#include "pserver/observe/traffic.h"

static const char *const names[TR_TRAFFIC_COUNT] = {
#define NAME(name, text) [TR_TRAFFIC_##name] = #text,
    TR_TRAFFIC_CLASSES(NAME)
#undef NAME
};

const char *tr_traffic_class_name(tr_traffic_class class)
{
    return names[class];
}

static tr_traffic_class class_of(tr_wire_kind kind)
{
    switch (kind) {
    case TR_WIRE_PUSH:            return TR_TRAFFIC_GRADIENTS;
    case TR_WIRE_PUSH_MANY:       return TR_TRAFFIC_SMALL_GRADIENTS;
    case TR_WIRE_PUSH_COMPRESSED: return TR_TRAFFIC_COMPRESSED;
    case TR_WIRE_DATA:
    case TR_WIRE_DATA_MANY:       return TR_TRAFFIC_PARAMETERS;
    case TR_WIRE_PUSH_ROWS:       return TR_TRAFFIC_ROW_GRADIENTS;
    case TR_WIRE_DATA_ROWS:       return TR_TRAFFIC_ROWS;
    case TR_WIRE_PULL_ROWS:
    case TR_WIRE_EXPECT_ROWS:     return TR_TRAFFIC_KEYS;
    case TR_WIRE_BUNDLE:          return TR_TRAFFIC_BUNDLES;
    default:                      return TR_TRAFFIC_OTHERS;
    }
}

void tr_traffic_add(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes)
{
    const tr_traffic_class class = class_of(kind);

    tr_counter_add(&traffic->bytes[class], bytes);
    tr_counter_add(&traffic->messages[class], 1);
}

void tr_traffic_add_bundled(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes)
{
    tr_counter_add(&traffic->bytes[class_of(kind)], bytes);
}

static int64_t sum_of(const tr_counter counter[TR_TRAFFIC_COUNT])
{
    int64_t sum = 0;

    for (int i = 0; i < TR_TRAFFIC_COUNT; i++)
        sum += tr_counter_get(&counter[i]);
    return sum;
}

int64_t tr_traffic_bytes(const tr_traffic *traffic)
{
    return sum_of(traffic->bytes);
}

int64_t tr_traffic_messages(const tr_traffic *traffic)
{
    return sum_of(traffic->messages);
}
