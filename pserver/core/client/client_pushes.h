/* client_pushes.h - gradients of a trainer's step, for its other protocols. */
#pragma once

#include "pserver/core/client/client_requests.h"

/* How all requests with a step's gradients behave. */
extern const tr__ask tr__ask_push;

void tr__client_describe_step(char *out, size_t size, const tr_wire *wire, int server);
