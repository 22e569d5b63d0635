/* call.h - how an operator calls a function of the program's owner (tr_set_call_fn in trireme.h): py_func.
 *
 * What must stay true:
 *   - The function's outputs are checked here, against what the program declares, before memory is written.
 *   - A function runs no program: the run that has called it holds the executor's memory. tr_plan_run asks tr__call_is_running. */
#pragma once

#include "framework/operators/op.h"

/* Call function `number` with the arguments of input slot `in`. It fills those of output slot `out`. An output has the type and shape of the
 * argument of input slot `like` at its place; where that slot is empty, those that the program declares. */
tr_status tr__call_run(const tr_run *io, int64_t number, int in, int like, int out);
/* Is this thread within a function that tr__call_run has called? */
bool      tr__call_is_running(void);
