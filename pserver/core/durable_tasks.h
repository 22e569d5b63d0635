/* durable_tasks.h - the state of leased tasks in memory that outlives its process: a server's (server_tasks.h), or that of its replica.
 *
 * There are two places for it, of one size, and a number that says which of them counts: a kill at any instruction leaves the
 * state before or the one after. What changes with every step lies beside them: a number of each trainer, written by one store. */
#ifndef TR_PSERVER_DURABLE_TASKS_H
#define TR_PSERVER_DURABLE_TASKS_H

#include "pserver/core/store.h"

typedef struct tr_durable_tasks {
    uint8_t *memory;                  /* the store's; NULL: nothing is kept */
} tr_durable_tasks;

/* What an earlier process has kept; false: nothing. */
bool           tr_durable_tasks_attach(tr_durable_tasks *durable, const tr_store *store);
/* Room for states of `size` bytes and a number of each of `trainers`, where the store has some. */
void           tr_durable_tasks_create(tr_durable_tasks *durable, const tr_store *store, size_t size, int trainers);
/* The size of a state; 0: there is no room. */
size_t         tr_durable_tasks_capacity(const tr_durable_tasks *durable);
/* Let this state count. It has the size that there is room for, or is not durable. */
void           tr_durable_tasks_put(const tr_durable_tasks *durable, const void *state, size_t size);
/* Steps of a trainer that all servers have settled; 0: none are noted. */
void           tr_durable_tasks_set_everywhere(const tr_durable_tasks *durable, int trainer, uint64_t steps);
uint64_t       tr_durable_tasks_everywhere(const tr_durable_tasks *durable, int trainer);
/* The one that counts; NULL: none yet. */
const uint8_t *tr_durable_tasks_get(const tr_durable_tasks *durable, size_t *size);

#endif
