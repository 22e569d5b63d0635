/* rounded_params.h - a server's large parameters, rounded to bfloat16: each update's parameters are rounded once, for all trainers.
 *
 * Messages are sent from this memory, so it has two buffers as the parameters themselves have. The buffer of update n is that of update n - 2.
 * What must stay true: a buffer is written only when nobody reads it. The rules for loans of parameters ensure that (server_pulls.h): an update
 * waits until nobody reads the buffer of the update before, and this memory is written after that update. */
#ifndef TR_PSERVER_ROUNDED_PARAMS_H
#define TR_PSERVER_ROUNDED_PARAMS_H

#include "pserver/wire/rounded.h"

typedef struct tr__rounded_params tr__rounded_params;

/* For `count` blocks. A block has memory from its first answer on. */
tr__rounded_params *tr__rounded_params_new(uint32_t count);
void                tr__rounded_params_free(tr__rounded_params *params);
/* Block `index` as it is behind update `update`, of which `floats` has `bytes` bytes. */
uint8_t            *tr__rounded_params_get(tr__rounded_params *params, uint32_t index, uint64_t update, const uint8_t *floats, uint64_t bytes);

#endif
