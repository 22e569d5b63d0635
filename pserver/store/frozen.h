/* frozen.h - a frozen state: the variables of a server's program at one moment. A new replica gets this state while updates continue.
 *
 * Dense values are copied. Tables are not: a snapshot of the table gives the rows of that moment while updates change the table (table.h).
 *
 * What must stay true: the thread that computes updates creates and frees a frozen state, between two updates. Another thread may read it
 * meanwhile. */
#pragma once

#include "framework/base/status.h"

#include <stdint.h>

typedef struct tr_server_program tr_server_program;
typedef struct tr_frozen tr_frozen;

tr_status   tr_frozen_take(tr_frozen **out, tr_server_program *sp);
/* Free a frozen state and end its snapshots of tables; NULL is allowed. */
void        tr_frozen_free(tr_frozen *frozen);
const void *tr_frozen_value(const tr_frozen *frozen, uint32_t index);
/* Read a shard of a table as it was frozen, as read_rows of tr_store does. Each shard can be read once. */
tr_status   tr_frozen_rows(const tr_frozen *frozen, uint32_t table, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes);
