/* outbox.h - messages that a core wants sent, first in, first out. */
#pragma once

#include "pserver/core/base/node.h"

typedef struct tr_outbox {
    tr_message *item;
    size_t      first, count, capacity;            /* a ring; capacity is a power of two */
} tr_outbox;

void tr_outbox_put(tr_outbox *outbox, const tr_message *message);
bool tr_outbox_take(tr_outbox *outbox, tr_message *out);
/* Free the ring and the messages in it. */
void tr_outbox_deinit(tr_outbox *outbox);
/* Copy the payload of every queued message whose loan the core wants back, and end these loans. */
void tr_outbox_give_back(tr_outbox *outbox);

/* A message was sent, or will never be sent: free its own payload, and end its loan. */
void tr_message_over(const tr_message *message);
