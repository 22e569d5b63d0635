/* outbox.h - messages that a core wants sent, first in, first out. */
#ifndef TR_PSERVER_OUTBOX_H
#define TR_PSERVER_OUTBOX_H

#include "pserver/node.h"

typedef struct tr_outbox {
    tr_message *item;
    size_t      first, count, capacity;            /* a ring; capacity is a power of two */
} tr_outbox;

void tr_outbox_put(tr_outbox *outbox, const tr_message *message);
bool tr_outbox_take(tr_outbox *outbox, tr_message *out);
/* Free the ring and what was not sent. */
void tr_outbox_deinit(tr_outbox *outbox);

#endif
