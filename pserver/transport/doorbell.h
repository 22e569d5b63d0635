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

/* Threads of the rank that may sleep on it, as bits; and whether receipts (node.h) are to wake them, too. */
enum { TR_BELL_OWNER = 1, TR_BELL_THREAD = 2, TR_BELL_RECEIPTS = 4 };

typedef struct tr_doorbell {
    atomic_uint rings;                /* to sleep on (wake.h) */
    atomic_uint armed;                /* who is to be woken, and for what */
    atomic_int  cpu;                  /* where it was armed */
} tr_doorbell;

/* This rank's. *file: for others to open, or -1; it is open until the end of the process. Never NULL. */
tr_doorbell *tr_doorbell_new(int *file);
/* Another rank's, of a process of this host. NULL: it cannot be had. */
tr_doorbell *tr_doorbell_open(int64_t pid, int file);
/* NULL is allowed. */
void         tr_doorbell_close(tr_doorbell *bell);

/* By who is about to sleep, on this processor. */
void tr_doorbell_arm(tr_doorbell *bell, unsigned who, int cpu);
/* Is somebody to be woken by a message, or by a receipt? */
bool tr_doorbell_is_armed(const tr_doorbell *bell, bool is_receipt);
/* Would who sleeps on it wake on this processor, and take it from the caller? */
bool tr_doorbell_is_near(const tr_doorbell *bell, int cpu);
/* Whom it is armed for, 0: nobody. The caller is to wake them, by `rings`, and nobody else will. Call it after the message is where its reader
 * looks, and a fence: its reader arms, then looks. */
unsigned tr_doorbell_disarm(tr_doorbell *bell);

#endif
