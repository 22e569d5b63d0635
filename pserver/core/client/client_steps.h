/* client_steps.h - the end of a trainer's step, for its other protocols. */
#pragma once

#include "pserver/core/client/client_requests.h"

/* Tell this server that a step has ended. `is_idle`: the step has no gradient. */
void tr__client_send_step_end(tr_client *client, tr__stream *s, uint64_t op, uint64_t step, bool is_idle);
