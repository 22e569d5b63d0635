/* traffic.c - see traffic.h. */
#include "pserver/traffic.h"

static const char *const names[TR_GOODS_COUNT] = {
#define NAME(name, text) [TR_GOODS_##name] = #text,
    TR_GOODS_KINDS(NAME)
#undef NAME
};

const char *tr_goods_name(tr_goods goods)
{
    return names[goods];
}

static tr_goods goods_of(tr_wire_kind kind)
{
    switch (kind) {
    case TR_WIRE_PUSH:            return TR_GOODS_GRADIENTS;
    case TR_WIRE_PUSH_MANY:       return TR_GOODS_SMALL_GRADIENTS;
    case TR_WIRE_PUSH_COMPRESSED: return TR_GOODS_COMPRESSED;
    case TR_WIRE_DATA:
    case TR_WIRE_DATA_MANY:       return TR_GOODS_PARAMETERS;
    case TR_WIRE_PUSH_ROWS:       return TR_GOODS_ROW_GRADIENTS;
    case TR_WIRE_DATA_ROWS:       return TR_GOODS_ROWS;
    case TR_WIRE_PULL_ROWS:       return TR_GOODS_KEYS;
    default:                      return TR_GOODS_OTHERS;
    }
}

void tr_traffic_add(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes)
{
    const tr_goods goods = goods_of(kind);

    tr_counter_add(&traffic->bytes[goods], bytes);
    tr_counter_add(&traffic->messages[goods], 1);
}

static int64_t sum_of(const tr_counter counter[TR_GOODS_COUNT])
{
    int64_t sum = 0;

    for (int i = 0; i < TR_GOODS_COUNT; i++)
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
