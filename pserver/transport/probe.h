/* probe.h - measures the connections between the ranks of a job, over the job's own transport: `trireme-pserver --probe`.
 *
 * Rank 0 lets the pairs measure one after the other, so that no other messages are under way. A message goes to the other rank and comes
 * back. The first of each size is compared byte by byte at both ends; of the others the fastest counts. Rank 0 prints
 *
 *     probe rank 1 host n02 version 0.1.0
 *     probe pair 0 1 latency_us 5.71 small_mbs 1620.3 large_mbs 2910.0
 *
 * First comes a line for each rank, then a line for each pair: half of a round trip of 8 bytes, and the speed one way with messages of
 * 256 KiB and 16 MiB, in 10^6 bytes a second.
 *
 * What must stay true: every wait has a bound, and its failure names the rank. */
#pragma once

#include "framework/base/status.h"

#include <stdio.h>

/* Take part as one of the ranks that mpirun has started, until rank 0 has measured all pairs. Rank 0 prints to `out`. TR_ETIMEOUT: a
 * rank did not answer for `timeout` seconds. TR_EFORMAT: bytes were damaged. After a failure the process must end by _exit. Exported for
 * trireme-pserver alone (cmake/TriremeLibrary.cmake). */
TR_API tr_status tr_probe_run(FILE *out, double timeout);
