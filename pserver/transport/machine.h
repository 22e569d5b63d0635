/* machine.h - what an event loop needs of the computer that it runs on: time, wake-ups, processes, words to the launcher.
 *
 * A loop (comm_state.h) calls nothing of the operating system by itself. So two machines are possible: the real one below, and the
 * simulator's (tests/support/simulator.h), where time is virtual and all ranks of a job take turns in one thread.
 *
 * What must stay true: nothing here waits, but `kill`. Where a loop rests it says so, and who runs it waits (tr__rest). */
#pragma once

#include "pserver/transport/doorbell.h"
#include "pserver/transport/transport.h"
#include "pserver/trireme_dist.h"
#include "pserver/trireme_notice.h"
#include "pserver/util/rank_end.h"

typedef struct tr_machine {
    void *self;
    /* Nanoseconds since any origin; never goes back. */
    int64_t (*clock)(void *self);
    /* The number of processors that this process may use; the processor that it is on. */
    int  (*processors)(void *self);
    int  (*processor)(void *self);
    /* Change the word, and wake the threads that sleep on it under one of these bits (wake.h). */
    void (*ring)(void *self, atomic_uint *word, unsigned who);
    tr_doorbell *(*make_doorbell)(void *self, int *file);
    tr_doorbell *(*open_doorbell)(void *self, int64_t pid, int file);
    void (*close_doorbell)(void *self, tr_doorbell *bell);
    /* Make this process's hello for the other ranks (roster.h). */
    tr_status (*pack_hello)(uint8_t **out, size_t *size, void *self, tr_role role, uint32_t incarnation, bool can_replace, int doorbell);

    /* A number that changes while this process makes progress: it uses processor time, or the kernel reads or writes for it. */
    int64_t (*progress)(void *self);

    /* Open a process of this host; -1: it is not accessible. `kill` waits a moment until the process is gone. `is_open`: the descriptor
     * still stands for a process; a script may have closed it. */
    int  (*open_process)(void *self, int64_t pid);
    void (*close_process)(void *self, int process);
    bool (*has_ended)(void *self, int process);
    /* Has any open process ended since the last call? Each end is news once. A look costs the same for any number of processes. */
    bool (*has_any_ended)(void *self);
    bool (*is_open)(void *self, int process);
    void (*kill)(void *self, int process);
    /* May this process read that process's memory? If not, MPI copies large messages piece by piece, and both sides must poll all the
     * time. */
    bool (*can_read)(void *self, int64_t pid);

    /* Tell the launcher (launcher.h). */
    bool (*tell)(void *self, tr_notice what, int rank, const char *text);
    /* May this rank print why the job has failed? At most one rank of a host gets true. */
    bool (*may_explain)(void *self);
    void (*print)(void *self, const char *text);
    /* End this process (rank_end.h). */
    __attribute__((noreturn)) void (*end)(void *self, tr_rank_end how, int code);
} tr_machine;

/* The machine that this process runs on. */
extern const tr_machine tr_machine_real;
