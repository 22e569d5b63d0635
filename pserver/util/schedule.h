/* schedule.h - what decides when the threads of a rank run. In a job it is the kernel. A transport may bring a schedule of its own.
 *
 * A schedule runs one thread of all ranks at a time, in virtual time and under a seed: a test's (tests/python/jobs/turns.c). Threads
 * that take part are the owner of the job and those of background.h. Each gives its turn back where it waits (wake.h), and nowhere
 * else. Other threads of the process run as the kernel decides.
 *
 * What must stay true: a thread that takes part holds no lock that another one takes while it waits. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

typedef struct tr_schedule {
    /* The calling thread, which has loaded the transport, takes part from here on. */
    void (*begin)(void);
    int64_t (*clock)(void);
    /* Sleep until `word` is not `seen` any more and is rung under one of the bits `who`, or until the time has passed. `word` may be
     * NULL. Any thread may call it. */
    void (*wait)(atomic_uint *word, unsigned who, unsigned seen, int64_t nanoseconds);
    /* The same for a thread that polls the transport: until a message may have come. */
    void (*poll)(int64_t nanoseconds);
    void (*ring)(atomic_uint *word, unsigned who);
    /* A thread is about to be created: its number; -1: it does not take part, because its creator does not. Then it begins, and ends. */
    int  (*announce)(void);
    void (*enter)(int number);
    void (*leave)(void);
} tr_schedule;

/* NULL: the kernel decides. Set once, before the job has threads. */
extern const tr_schedule *tr__schedule;
