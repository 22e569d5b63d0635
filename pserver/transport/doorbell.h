/* doorbell.h - a word of memory by which ranks of one host wake each other.
 *
 * MPI offers no sleep until a message comes. A rank that wants to nap arms its doorbell, looks for messages once more, and sleeps on the
 * word. A rank that has handed MPI a message for it rings, if the doorbell is armed. This costs one syscall for each sleep that ends,
 * and one load for each other message. The memory is a file without a name. Its maker keeps it open and sends its descriptor's number in
 * the hello; other ranks open it through /proc. Where that is not allowed, and on other hosts, naps end by time alone. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Bits: the threads of the rank that may sleep on the doorbell, and whether acknowledgements (node.h) wake them, too. */
enum { TR_BELL_OWNER = 1, TR_BELL_THREAD = 2, TR_BELL_RECEIPTS = 4 };

typedef struct tr_doorbell {
    atomic_uint rings;                /* the word to sleep on (wake.h) */
    atomic_uint armed;                /* bits: the threads to wake, and for which messages */
    atomic_int  cpu;                  /* the processor on which it was armed */
} tr_doorbell;

/* Make this rank's doorbell. *file: the descriptor that other ranks open, or -1; it stays open until the end of the process. Never NULL. */
tr_doorbell *tr_doorbell_new(int *file);
/* Open the doorbell of another process of this host. NULL: it is not accessible. */
tr_doorbell *tr_doorbell_open(int64_t pid, int file);
/* Close another rank's doorbell. NULL is allowed. */
void         tr_doorbell_close(tr_doorbell *bell);

/* Called by a thread that is about to sleep, on processor `cpu`. */
void tr_doorbell_arm(tr_doorbell *bell, unsigned who, int cpu);
/* Must a message, or an acknowledgement, ring this doorbell? */
bool tr_doorbell_is_armed(const tr_doorbell *bell, bool is_receipt);
/* Would the sleeper wake on this processor, and take it from the caller? */
bool tr_doorbell_is_near(const tr_doorbell *bell, int cpu);
/* Disarm the doorbell and return its bits; 0: it was not armed. The caller must then ring `rings` under these bits; no other rank will.
 * Call it after the message is where its reader looks, and after a fence: the reader arms, then looks. */
unsigned tr_doorbell_disarm(tr_doorbell *bell);
