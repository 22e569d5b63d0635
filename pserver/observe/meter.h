/* meter.h - where a rank's time goes: counters that one thread writes and any thread may read at any time.
 *
 * A duration is kept as a sum, a count, a maximum, and a histogram with eight bins to a doubling. A median from the histogram is at most 6
 * % off. Adding a duration costs some nanoseconds: no lock, no allocation.
 *
 * What must stay true: a counter has one writer at a time, so no read-modify-write is needed. All durations are nanoseconds. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

typedef atomic_llong tr_counter;

static inline int64_t tr_counter_get(const tr_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void tr_counter_set(tr_counter *counter, int64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline void tr_counter_add(tr_counter *counter, int64_t value)
{
    tr_counter_set(counter, tr_counter_get(counter) + value);
}

enum { TR_TIMES_BINS = 8 * 36 };      /* the first eight bins are microseconds; the last takes all above */

typedef struct tr_times {
    tr_counter  sum, count, longest;
    atomic_uint bin[TR_TIMES_BINS];
} tr_times;

void    tr_times_add(tr_times *times, int64_t nanoseconds);
/* The median; 0: no duration was added. */
int64_t tr_times_median(const tr_times *times);

/* What a trainer does at this moment. START: its job begins. SCRIPT: it is between two steps. LEFT: it has made its last step. */
#define TR_TRAINER_DOES(X) X(START, start) X(SCRIPT, script) X(COMPUTE, compute) X(WAIT, wait) X(LEFT, left)

typedef enum tr_trainer_does {
#define TR_DOES_ENUM(name, text) TR_DOES_##name,
    TR_TRAINER_DOES(TR_DOES_ENUM)
#undef TR_DOES_ENUM
    TR_DOES_COUNT
} tr_trainer_does;

/* The meter of a trainer, written by its owner. A step lasts from the end of one step to the end of the next. In that time the trainer
 * waits for servers, its script works by itself (reads data), gradients are compressed, or the trainer computes. */
typedef struct tr_trainer_meter {
    tr_times    step, wait, script, encode, compute;
    tr_counter *wait_by_server;       /* the server whose last answer ended the wait */
    int         servers;
    tr_counter  waited_all;           /* waits, those between steps included */
    tr_counter  other_runs;           /* the part of `script` up to the last run that is no step, such as that of a test program */
    tr_counter  begun, resumed, ended;   /* numbers of steps */
    tr_counter  doing;                /* the trainer's activity, a tr_trainer_does */
    tr_counter  ended_at;             /* when the last step ended, or the first began; 0: no step yet */
    tr_counter  loss;                 /* the loss: the bits of a double; 0: unknown */
    /* only the owner uses the fields below */
    int64_t     waited, quiet_at, scripted, encoded;
    int64_t     tested;               /* of `scripted`: up to the last run that is no step */
} tr_trainer_meter;

tr_trainer_meter *tr_trainer_meter_new(int servers);
void              tr_trainer_meter_free(tr_trainer_meter *meter);
/* The servers have their setup and so many steps of this trainer: its own first step begins now. */
void              tr_trainer_meter_start(tr_trainer_meter *meter, int64_t now, int64_t resumed);
/* The script has the data of a step: the step's computing begins. */
void              tr_trainer_meter_begin(tr_trainer_meter *meter, int64_t now);
/* A run that is no step has ended: what the script did since the last step was for it. */
void              tr_trainer_meter_other_run(tr_trainer_meter *meter, int64_t now);
const char       *tr_trainer_does_name(tr_trainer_does does);
void              tr_trainer_meter_does(tr_trainer_meter *meter, tr_trainer_does does);
/* The trainer begins to wait. Returns its activity until now. */
tr_trainer_does   tr_trainer_meter_waits(tr_trainer_meter *meter);
/* The wait is over. `server` is the one that answered last. */
void              tr_trainer_meter_wait(tr_trainer_meter *meter, int64_t from, int64_t to, int server);
/* The trainer has compressed a gradient. */
void              tr_trainer_meter_encode(tr_trainer_meter *meter, int64_t nanoseconds);
/* A step's program has ended without a wait. */
void              tr_trainer_meter_pause(tr_trainer_meter *meter, int64_t now);
void              tr_trainer_meter_end(tr_trainer_meter *meter, int64_t now);

/* A server has such a meter for each trainer, written by the driver. It measures three times. How long after the first gradient of an
 * update did this trainer's gradients come? How long did they wait to be applied? How long did its pulls wait for other trainers? */
typedef struct tr_peer_meter {
    tr_counter steps, late, kept, held;
    /* only the driver uses the fields below */
    int64_t    ended_at, settled_at, waiting_since;
} tr_peer_meter;
