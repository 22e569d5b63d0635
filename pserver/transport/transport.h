/* transport.h - what moves the messages of one process: a table of functions.
 *
 * `trireme_mpi.so` exports one symbol, tr_transport_mpi, which is such a table; it depends on nothing of ours, so
 * that a process that needs no MPI loads none. The simulator (tests/support/simulator.h) has such a table, too.
 *
 * A message is a header of 64 bytes and a payload. Small ones travel in one piece. The payload of a larger one
 * follows its header, so that the receiver can say where it goes.
 *
 * What must stay true: one thread at a time is in here, `start` and `stop` are one thread's; nothing waits for a peer. Messages
 * of one pair arrive in order. What is sent stays as it is until it is given back by `sent`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TR_TRANSPORT_VERSION = 3, TR_TRANSPORT_HEADER = 64 };

typedef struct tr_transport tr_transport;
struct tr_machine;
struct tr_schedule;

/* Callbacks of `poll` and `send`. */
typedef struct tr_transport_events {
    void *self;
    /* The header of a large message is here. Return the bytes of its payload, and set *to to the memory for it; *to = NULL: the payload
     * is thrown away. Negative: the header is invalid, and the peer is dropped. */
    int64_t (*receive_buffer)(void *self, int peer, const uint8_t *header, void **to);
    /* A whole message is here. A payload that has no memory of its own is gone after the call. */
    void (*receive)(void *self, int peer, const uint8_t *header, void *payload, int64_t bytes, bool is_direct);
    /* The memory of a message is no longer needed. */
    void (*sent)(void *self, void *token);
    /* MPI reports that the peer is dead. No more messages come from it. */
    void (*dead)(void *self, int peer);
} tr_transport_events;

typedef struct tr_transport_table {
    int         version;              /* TR_TRANSPORT_VERSION */
    const char *name;
    /* Start in this thread. NULL: the reason is in `error`. */
    tr_transport *(*start)(const tr_transport_events *events, char *error, size_t error_size);
    int  (*rank)(const tr_transport *transport);
    int  (*size)(const tr_transport *transport);
    /* Send a message. False: too many messages to this peer are under way; try again later. A message to a dead peer is dropped. */
    bool (*send)(tr_transport *transport, int peer, const uint8_t *header, const void *payload, int64_t bytes,
                 void *token);
    /* Send a header alone, as a sign of life, while the thread that drives works elsewhere: between `receive_buffer` or `receive` and their
     * return, or between two calls. It makes no callback. Not sent if the last one is still under way, or if there is news of a death for
     * `poll`. */
    void (*beat)(tr_transport *transport, int peer, const uint8_t *header);
    /* Move messages. Returns the number of messages that arrived or were sent. */
    int  (*poll)(tr_transport *transport);
    /* Stop all traffic with a peer. */
    void (*drop)(tr_transport *transport, int peer);
    /* The number of messages under way to living peers. */
    int  (*unsent)(const tr_transport *transport);
    /* Stop. `is_clean`: all peers are alive and stop, too, and no message is under way. Otherwise MPI is not finalized, and the process
     * must end by _exit. */
    void (*stop)(tr_transport *transport, bool is_clean);
    /* What decides when this rank's threads run (schedule.h); NULL: the kernel. */
    const struct tr_schedule *schedule;
    /* Replace services of the real machine (machine.h) by others; or NULL. */
    void (*adapt)(struct tr_machine *machine);
} tr_transport_table;

/* The path of trireme_mpi.so: `path`, else TRIREME_TRANSPORT, else the file that belongs to this code. */
void                      tr_transport_find(char *out, size_t size, const char *given);
/* Load the table of the transport at this path, and begin its schedule, if it has one. NULL: the reason is in `error`. */
const tr_transport_table *tr_transport_load(const char *path, char *error, size_t size);
