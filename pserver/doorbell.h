/* doorbell.h - a word of memory by which ranks of one host wake each other.
 *
 * MPI has no way to sleep until a message comes. A rank that naps arms its doorbell first, looks once more, and sleeps on the word;
 * who has handed MPI a message for it rings if it is armed: one syscall for each sleep that ends, one load for each message else.
 * The memory is a file without a name, which its maker keeps open and says the number of in its hello; the others open it by
 * /proc. Where that is not allowed, or on other hosts, naps end by themselves. */
#ifndef TR_PSERVER_DOORBELL_H
#define TR_PSERVER_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tr_doorbell {
    atomic_uint rings;                /* to sleep on (wake.h) */
    atomic_uint is_armed;
} tr_doorbell;

/* This rank's. *file: for others to open, or -1; it is open until the end of the process. Never NULL. */
tr_doorbell *tr_doorbell_new(int *file);
/* Another rank's, of a process of this host. NULL: it cannot be had. */
tr_doorbell *tr_doorbell_open(int64_t pid, int file);
/* NULL is allowed. */
void         tr_doorbell_close(tr_doorbell *bell);

/* Wake who sleeps on it, or is about to. */
void tr_doorbell_ring(tr_doorbell *bell);
/* The same if it is armed. Call it after the message is where its reader looks. */
void tr_doorbell_ring_armed(tr_doorbell *bell);

#endif
