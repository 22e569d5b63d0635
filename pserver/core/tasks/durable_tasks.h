/* durable_tasks.h - the state of leased tasks in memory that outlives its process: a server's (server_tasks.h), or that of its replica.
 *
 * The memory has two copies of the state and a counter that says which copy is valid. So a kill at any instruction leaves either the old
 * state or the new one. One number of each trainer changes with every step; it lies beside the copies and is written by a single store. */
#pragma once

#include "pserver/core/base/store.h"

typedef struct tr_durable_tasks {
    uint8_t *memory;                  /* borrowed from the store; NULL: the state is not stored */
} tr_durable_tasks;

/* Attach to the state that an earlier process stored. False: there is none. */
bool           tr_durable_tasks_attach(tr_durable_tasks *durable, const tr_store *store);
/* Allocate memory for states of `size` bytes and for a number of each of `trainers`, if the store has memory. */
void           tr_durable_tasks_create(tr_durable_tasks *durable, const tr_store *store, size_t size, int trainers);
/* The size of a state. 0: there is no memory. */
size_t         tr_durable_tasks_capacity(const tr_durable_tasks *durable);
/* Write this state and make it the valid one. A state of another size than the capacity is not stored. */
void           tr_durable_tasks_put(const tr_durable_tasks *durable, const void *state, size_t size);
/* The number of a trainer's steps that all servers have settled. 0: none was stored. */
void           tr_durable_tasks_set_everywhere(const tr_durable_tasks *durable, int trainer, uint64_t steps);
uint64_t       tr_durable_tasks_everywhere(const tr_durable_tasks *durable, int trainer);
/* The valid state. NULL: there is none yet. */
const uint8_t *tr_durable_tasks_get(const tr_durable_tasks *durable, size_t *size);
