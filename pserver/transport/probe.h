/* probe.h - measure the ways between the ranks of a job, over the job's own transport: `trireme-pserver --probe`.
 *
 * Rank 0 has each pair measured in turn, so that nothing else is under way: a message goes to the other rank and comes
 * back. The first of each size is compared byte by byte at both ends; of the rest the fastest counts. Rank 0 prints
 *
 *     probe rank 1 host n02 version 0.1.0
 *     probe pair 0 1 latency_us 5.71 small_mbs 1620.3 large_mbs 2910.0
 *
 * one line for each rank, then one for each pair: half of a round trip of 8 bytes, and the speed one way with messages
 * of 256 KiB and 16 MiB, in 10^6 bytes a second.
 *
 * What must stay true: no wait is without a bound, and who it was for is said. */
#ifndef TR_PSERVER_PROBE_H
#define TR_PSERVER_PROBE_H

#include "framework/status.h"

#include <stdio.h>

/* Take part as one of the ranks that mpirun has started, until rank 0 has measured all pairs; it prints to `out`. A rank that
 * does not answer for `timeout` seconds ends it with TR_ETIMEOUT, damaged bytes with TR_EFORMAT. The process is to end
 * by _exit after a failure. */
tr_status tr_probe_run(FILE *out, double timeout);

#endif
