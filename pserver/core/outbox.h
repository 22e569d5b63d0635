/* outbox.h - messages that a core wants sent, first in, first out. */
#ifndef TR_PSERVER_OUTBOX_H
#define TR_PSERVER_OUTBOX_H

#include "pserver/core/node.h"

typedef struct tr_outbox {
    tr_message *item;
    size_t      first, count, capacity;            /* a ring; capacity is a power of two */
} tr_outbox;

void tr_outbox_put(tr_outbox *outbox, const tr_message *message);
bool tr_outbox_take(tr_outbox *outbox, tr_message *out);
/* Free the ring and what was not sent. */
void tr_outbox_deinit(tr_outbox *outbox);
/* Messages that show memory which its core wants back get copies. */
void tr_outbox_give_back(tr_outbox *outbox);

/* It was sent, or never will be: free what it owns, give back what it shows. */
void tr_message_over(const tr_message *message);
/* The message gets a copy of what it shows, and gives that back. */
void tr_message_keep(tr_message *message);

#endif
