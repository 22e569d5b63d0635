/* node.h - a protocol core as its driver sees it: messages in, messages and times out.
 *
 * The server core and the client core have this form. A driver moves the messages: the event loop (comm.h),
 * over MPI or in the simulator.
 *
 * What must stay true: a core never blocks, never reads a clock, never calls MPI; times are nanoseconds of any
 * origin. Calls come from one thread. A core that has failed or is done still answers. */
#pragma once

#include "pserver/wire/wire.h"

/* A core lends a buffer to messages, which are sent from it without a copy. The core must not change the buffer while it has readers. */
typedef struct tr_loan {
    uint32_t readers;                 /* messages from this buffer that were not sent yet */
    bool     is_wanted;               /* the core waits for the end of the loan */
    bool     is_void;                 /* the peer is dead, so the core ignores the messages that the driver still has */
} tr_loan;

/* A message to send. The driver frees `owned` after sending. Without `owned` the payload is the core's memory: the core does not change it
 * until the peer has acknowledged the message, or, with `loan`, until the driver has sent the message and has ended the loan
 * (tr_message_over). */
typedef struct tr_message {
    int         peer;
    tr_wire     wire;
    const void *payload;
    void       *owned;                /* the payload, malloc'ed; or NULL */
    tr_loan    *loan;                 /* the payload is a reader of this loan; or NULL */
    bool        is_receipt;           /* a mere acknowledgement without other news: see awaits_receipts */
} tr_message;

/* A core leaves out (NULL) what it never does: it wants no payloads, ignores deaths, has no times, sends nothing, has no loans. */
typedef struct tr_node {
    void *self;
    /* Return the memory into which the driver receives this message's payload. NULL: the core does not want the message. The driver calls
     * `receive` for every message that has a buffer of its own, in order, and does not call it for an unwanted one. */
    void *(*receive_buffer)(void *self, int peer, const tr_wire *wire);
    /* A message has arrived. `is_direct`: the payload lies where `receive_buffer` said. Otherwise the payload is a buffer of the driver,
     * aligned to 8 bytes, and valid during the call. */
    void (*receive)(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct);
    /* A peer is dead. `how` says why the driver thinks so: "died", "was silent for 3.0 s". */
    void (*lost)(void *self, int peer, const char *how);
    /* Do everything that is due at this time. Returns the time of the next call; INT64_MAX: never. */
    int64_t (*tick)(void *self, int64_t now);
    /* Take the next message to send; false: there is none now. Sent messages of one pair stay in order. */
    bool (*next)(void *self, tr_message *out);
    /* TR_OK, or the failure of this core; *text is the failure's message. */
    tr_status (*status)(const void *self, const char **text);
    /* Describe what the core waits for: "the parameters of step 17"; "" for nothing. */
    void (*describe)(const void *self, char *out, size_t size);
    /* Does the core wait for the end of loans? Then the driver copies the payloads of wanted loans that it has not begun to send
     * (tr_outbox_give_back). */
    bool (*awaits_loans)(const void *self);
    /* A peer has sent BYE: it does nothing more, and takes nobody's place. */
    void (*left)(void *self, int peer);
    /* Could a receipt let this core send more, or (`owner_waits`) end the wait of the core's owner? If not, a sender of a receipt does not
     * wake this rank, and the receipt is read with the next message. NULL: the answer is always yes. */
    bool (*awaits_receipts)(const void *self, bool owner_waits);
} tr_node;
