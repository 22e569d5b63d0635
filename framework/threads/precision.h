/* precision.h - how exact the products of float32 matrices are: one setting of the process, one of each executor.
 *
 * A run enters the precision of its executor; the calling thread has it until the run ends, and the pool hands it to the
 * threads that compute slices. So a kernel that multiplies asks its own thread, and no signature carries the setting. A
 * thread that runs no program has float32. */
#pragma once

#include "framework/base/status.h"

/* The precision of the calling thread's products. */
tr_precision tr__precision_now(void);
/* Change it; returns what it was, to be given back by another call. */
tr_precision tr__precision_enter(tr_precision precision);
