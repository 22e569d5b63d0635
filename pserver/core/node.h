/* node.h - a protocol core as its driver sees it: messages in, messages and times out.
 *
 * The server core and the client core have this form. A driver moves the messages: the event loop (comm.h),
 * over MPI or in the simulator.
 *
 * What must stay true: a core never blocks, never reads a clock, never calls MPI; times are nanoseconds of any
 * origin. Calls come from one thread. A core that has failed or is done still answers. */
#ifndef TR_PSERVER_NODE_H
#define TR_PSERVER_NODE_H

#include "pserver/wire/wire.h"

/* Memory of a core that messages show and that is to change one day: the core waits with that until nobody reads it. */
typedef struct tr_loan {
    uint32_t readers;                 /* messages that were not sent yet */
    bool     is_wanted;               /* the core waits */
    bool     is_void;                 /* the peer is dead: what the driver still has of it counts no more */
} tr_loan;

/* A message to send. The driver frees `owned` when it was sent; without it the payload is memory that stays as it is until the
 * peer says that it has the message, or, with `loan`, until the driver has sent it, which it says there (outbox.h). */
typedef struct tr_message {
    int         peer;
    tr_wire     wire;
    const void *payload;
    void       *owned;                /* the payload, malloc'ed; or NULL */
    tr_loan    *loan;                 /* whose reader it is; or NULL */
    bool        is_receipt;           /* it says what has come, and nothing else: see awaits_receipts */
} tr_message;

typedef struct tr_node {
    void *self;
    /* Where the payload of a message goes that does not lie in memory yet; NULL: nobody wants it. Every
     * placed message is received after it, in order; only an unwanted one is not. */
    void *(*place)(void *self, int peer, const tr_wire *wire);
    /* A message is here. `is_placed`: its payload lies where `place` said; otherwise it is the driver's, aligned
     * to 8, and gone after the call. */
    void (*receive)(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed);
    /* A peer is dead, and how that is known: "died", "was silent for 3.0 s". */
    void (*lost)(void *self, int peer, const char *how);
    /* Do what time demands. Returns when it wants to be called again; INT64_MAX: never. */
    int64_t (*tick)(void *self, int64_t now);
    /* Take the next message to send; false: there is none now. Sent messages of one pair stay in order. */
    bool (*next)(void *self, tr_message *out);
    /* TR_OK, or why this core has failed; the text is in *text then. */
    tr_status (*status)(const void *self, const char **text);
    /* What it waits for now: "the parameters of step 17"; "" for nothing. */
    void (*describe)(const void *self, char *out, size_t size);
    /* Does it wait for loans? Then the driver copies what it has not begun to send of those that are wanted
     * (tr_outbox_give_back). NULL: it lends nothing. */
    bool (*awaits_loans)(const void *self);
    /* A peer has said goodbye: it does no more, and takes nobody's place. NULL: that is nothing to this core. */
    void (*left)(void *self, int peer);
    /* Does a receipt let it send more, or (`owner_waits`) end what its owner waits for? Else whoever sends one need not wake this
     * rank: it is read with the next message. NULL: always. */
    bool (*awaits_receipts)(const void *self, bool owner_waits);
} tr_node;

#endif
