/* rounded_params.h - a server's large parameters, rounded to bfloat16: each update's parameters are rounded once, for all trainers.
 *
 * Messages are sent from this memory without a copy. So it is a double buffer, as the parameters are: update n uses the buffer of update n
 * - 2. What must stay true: a buffer is written only when no message reads it. The rules for loans of parameters ensure that
 * (server_pulls.h): an update
 * waits for the readers of the buffer that it writes, and this memory is written after that update. */
#pragma once

#include "pserver/wire/rounded.h"

typedef struct tr__rounded_params tr__rounded_params;

/* Rounded parameters for `count` blocks. A block's memory is allocated when it is first asked for. */
tr__rounded_params *tr__rounded_params_new(uint32_t count);
void                tr__rounded_params_free(tr__rounded_params *params);
/* The rounded values of block `index` after update `update`. `floats`: the block's `bytes` bytes of float32. */
uint8_t *tr__rounded_params_get(tr__rounded_params *params, uint32_t index, uint64_t update, const uint8_t *floats, uint64_t bytes);
