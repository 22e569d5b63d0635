/* traffic.h - bytes and messages of a rank by what they carry, so that a log can say which of them a measure would touch.
 *
 * Compression touches GRADIENTS alone; a row cache touches ROWS and KEYS; mode geo touches all but OTHERS.
 *
 * What must stay true: a tr_traffic has one writer at a time, the driver (meter.h). */
#ifndef TR_PSERVER_TRAFFIC_H
#define TR_PSERVER_TRAFFIC_H

#include "pserver/meter.h"
#include "pserver/wire.h"

#define TR_GOODS_KINDS(X)                                                                                   \
    X(GRADIENTS,       gradients)       /* dense, uncompressed, in messages of their own */                \
    X(SMALL_GRADIENTS, small_gradients) /* dense, several to a message; never compressed */                \
    X(COMPRESSED,      compressed)      /* dense gradients, compressed */                                  \
    X(PARAMETERS,      parameters)      /* dense */                                                        \
    X(ROW_GRADIENTS,   row_gradients)   /* gradients of sparse tables, with their keys */                  \
    X(ROWS,            rows)            /* rows of sparse tables */                                        \
    X(KEYS,            keys)            /* questions for rows */                                           \
    X(OTHERS,          others)          /* ends of steps, questions, receipts, signs of life */

typedef enum tr_goods {
#define TR_GOODS_ENUM(name, text) TR_GOODS_##name,
    TR_GOODS_KINDS(TR_GOODS_ENUM)
#undef TR_GOODS_ENUM
    TR_GOODS_COUNT
} tr_goods;

typedef struct tr_traffic {
    tr_counter bytes[TR_GOODS_COUNT];              /* payload and headers */
    tr_counter messages[TR_GOODS_COUNT];
} tr_traffic;

const char *tr_goods_name(tr_goods goods);
void        tr_traffic_add(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes);
/* Of all goods. */
int64_t     tr_traffic_bytes(const tr_traffic *traffic);
int64_t     tr_traffic_messages(const tr_traffic *traffic);

#endif
