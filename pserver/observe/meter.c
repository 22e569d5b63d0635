/* meter.c - see meter.h. */
#include "pserver/observe/meter.h"

#include "framework/base/memory.h"

#include <stdlib.h>

/* == times ===================================================================================== */

/* Each doubling has eight bins: the three bits after the highest bit choose one. */
static int bin_of(int64_t nanoseconds)
{
    const uint64_t us = nanoseconds > 0 ? (uint64_t)nanoseconds / 1000 : 0;

    if (us < 8)
        return (int)us;
    const int exponent = 63 - __builtin_clzll(us);
    const int bin = 8 * (exponent - 2) + (int)(us >> (exponent - 3) & 7);
    return bin < TR_TIMES_BINS ? bin : TR_TIMES_BINS - 1;
}

/* Return the middle of a bin. */
static int64_t value_of(int bin)
{
    if (bin < 8)
        return 1000 * bin + 500;
    const int exponent = bin / 8 + 2;
    return ((int64_t)(8 + bin % 8) * 1000 << (exponent - 3)) + ((int64_t)500 << (exponent - 3));
}

void tr_times_add(tr_times *times, int64_t nanoseconds)
{
    atomic_uint *bin = &times->bin[bin_of(nanoseconds)];

    tr_counter_add(&times->sum, nanoseconds);
    tr_counter_add(&times->count, 1);
    if (nanoseconds > tr_counter_get(&times->longest))
        tr_counter_set(&times->longest, nanoseconds);
    atomic_store_explicit(bin, atomic_load_explicit(bin, memory_order_relaxed) + 1, memory_order_relaxed);
}

int64_t tr_times_median(const tr_times *times)
{
    uint64_t all = 0, below = 0;

    for (int i = 0; i < TR_TIMES_BINS; i++)
        all += atomic_load_explicit(&times->bin[i], memory_order_relaxed);
    for (int i = 0; i < TR_TIMES_BINS; i++) {
        below += atomic_load_explicit(&times->bin[i], memory_order_relaxed);
        if (2 * below > all)
            return value_of(i);
    }
    return 0;
}

/* == a trainer ================================================================================= */

tr_trainer_meter *tr_trainer_meter_new(int servers)
{
    tr_trainer_meter *meter = tr__must_alloc(sizeof *meter);

    meter->servers = servers;
    meter->wait_by_server = tr__must_alloc((size_t)servers * sizeof *meter->wait_by_server);
    return meter;
}

void tr_trainer_meter_free(tr_trainer_meter *meter)
{
    if (meter)
        free(meter->wait_by_server);
    free(meter);
}

void tr_trainer_meter_start(tr_trainer_meter *meter, int64_t now, int64_t resumed)
{
    tr_counter_set(&meter->resumed, resumed);
    tr_counter_set(&meter->ended, resumed);
    tr_counter_set(&meter->ended_at, now);
    tr_trainer_meter_does(meter, TR_DOES_COMPUTE);
    meter->waited = meter->scripted = meter->encoded = meter->tested = meter->quiet_at = 0;
}

/* After a step's end and the waits that follow it, the program has no work. The time until the next step is the script's. */
void tr_trainer_meter_begin(tr_trainer_meter *meter, int64_t now)
{
    tr_counter_add(&meter->begun, 1);
    tr_trainer_meter_does(meter, TR_DOES_COMPUTE);
    if (meter->quiet_at)
        meter->scripted += now - meter->quiet_at;
    meter->quiet_at = 0;
}

void tr_trainer_meter_other_run(tr_trainer_meter *meter, int64_t now)
{
    if (meter->quiet_at)
        meter->tested = meter->scripted + now - meter->quiet_at;
}

const char *tr_trainer_does_name(tr_trainer_does does)
{
    static const char *const names[TR_DOES_COUNT] = {
#define NAME(name, text) [TR_DOES_##name] = #text,
        TR_TRAINER_DOES(NAME)
#undef NAME
    };
    return names[does];
}

void tr_trainer_meter_does(tr_trainer_meter *meter, tr_trainer_does does)
{
    tr_counter_set(&meter->doing, does);
}

tr_trainer_does tr_trainer_meter_waits(tr_trainer_meter *meter)
{
    const tr_trainer_does before = (tr_trainer_does)tr_counter_get(&meter->doing);

    tr_trainer_meter_does(meter, TR_DOES_WAIT);
    return before;
}

/* Between two steps, the time before the wait was the script's. */
void tr_trainer_meter_wait(tr_trainer_meter *meter, int64_t from, int64_t to, int server)
{
    meter->waited += to - from;
    tr_counter_add(&meter->waited_all, to - from);
    if (meter->quiet_at) {
        meter->scripted += from - meter->quiet_at;
        meter->quiet_at = to;
    }
    if (server >= 0 && server < meter->servers)
        tr_counter_add(&meter->wait_by_server[server], to - from);
}

void tr_trainer_meter_encode(tr_trainer_meter *meter, int64_t nanoseconds)
{
    meter->encoded += nanoseconds;
}

void tr_trainer_meter_pause(tr_trainer_meter *meter, int64_t now)
{
    meter->quiet_at = now;
    tr_trainer_meter_does(meter, TR_DOES_SCRIPT);
}

void tr_trainer_meter_end(tr_trainer_meter *meter, int64_t now)
{
    const int64_t step = now - tr_counter_get(&meter->ended_at), compute = step - meter->waited - meter->scripted - meter->encoded;

    tr_times_add(&meter->step, step);
    tr_times_add(&meter->wait, meter->waited);
    tr_times_add(&meter->script, meter->scripted);
    tr_counter_add(&meter->other_runs, meter->tested);
    tr_times_add(&meter->encode, meter->encoded);
    tr_times_add(&meter->compute, compute > 0 ? compute : 0);
    tr_counter_add(&meter->ended, 1);
    tr_counter_set(&meter->ended_at, now);
    tr_trainer_meter_pause(meter, now);
    meter->waited = meter->scripted = meter->encoded = meter->tested = 0;
}
