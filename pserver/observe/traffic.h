/* traffic.h - bytes and messages of a rank by content, so that a log can say which of them a measure would reduce.
 *
 * Compression reduces GRADIENTS alone. A row cache reduces ROWS and KEYS. Mode geo reduces all but OTHERS.
 *
 * What must stay true: a tr_traffic has one writer at a time, the driver (meter.h). */
#pragma once

#include "pserver/observe/meter.h"
#include "pserver/wire/wire.h"

#define TR_TRAFFIC_CLASSES(X)                                                                              \
    X(GRADIENTS,       gradients)       /* dense, uncompressed, in messages of their own */                \
    X(SMALL_GRADIENTS, small_gradients) /* dense, several to a message; never compressed */                \
    X(COMPRESSED,      compressed)      /* dense gradients, compressed */                                  \
    X(PARAMETERS,      parameters)      /* dense */                                                        \
    X(ROW_GRADIENTS,   row_gradients)   /* gradients of sparse tables, with their keys */                  \
    X(ROWS,            rows)            /* rows of sparse tables */                                        \
    X(KEYS,            keys)            /* requests for rows */                                           \
    X(BUNDLES,         bundles)         /* several small messages of any content; the bytes of these count in their own classes */ \
    X(OTHERS,          others)          /* ends of steps, requests, acknowledgements, signs of life */

typedef enum tr_traffic_class {
#define TR_TRAFFIC_ENUM(name, text) TR_TRAFFIC_##name,
    TR_TRAFFIC_CLASSES(TR_TRAFFIC_ENUM)
#undef TR_TRAFFIC_ENUM
    TR_TRAFFIC_COUNT
} tr_traffic_class;

typedef struct tr_traffic {
    tr_counter bytes[TR_TRAFFIC_COUNT];            /* payload and headers */
    tr_counter messages[TR_TRAFFIC_COUNT];
} tr_traffic;

const char *tr_traffic_class_name(tr_traffic_class class);
void        tr_traffic_add(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes);
/* Such a message in a bundle: its bytes count, and it is no message of its own. */
void        tr_traffic_add_bundled(tr_traffic *traffic, tr_wire_kind kind, int64_t bytes);
/* The sum of all classes. */
int64_t     tr_traffic_bytes(const tr_traffic *traffic);
int64_t     tr_traffic_messages(const tr_traffic *traffic);
