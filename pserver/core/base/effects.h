/* effects.h - work that a core wants its store to do: a queue of effects.
 *
 * A core never calls the store's work functions itself. The core puts an effect into this queue. Its boundary (server.c, replica.c) carries
 * the effects out, in order, when no handler of the core is running. So the store may report at once that work is done: a report never
 * enters the core in the middle of a change. All effects are carried out before the driver takes the next message. So what a message says
 * is committed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kinds of work that a store does for a core. */
typedef enum tr_effect_kind {
    TR_EFFECT_PIECE,                  /* compute a piece of the next update, whose gradient is complete */
    TR_EFFECT_COMMIT,                 /* commit the settled steps, and the applied update if there is one */
    TR_EFFECT_APPLY,                  /* compute the current update, and report it by tr_server_applied */
    TR_EFFECT_SNAPSHOT,               /* copy the state, report it by tr_server_snapped, write the copy, report it by tr_server_written */
    TR_EFFECT_FREEZE,                 /* keep the state as it is now, and report it by tr_server_frozen */
    TR_EFFECT_THAW,                   /* free the frozen state */
} tr_effect_kind;

typedef struct tr_effect {
    tr_effect_kind kind;
    bool           is_update;         /* COMMIT: the applied update is committed, too */
    uint32_t       block;             /* PIECE: the block's number; the piece begins at `offset` and has `bytes` bytes */
    uint64_t       offset, bytes;
    const void    *grad;              /* PIECE: the core does not change this memory until the update is applied */
} tr_effect;

typedef struct tr_effects {
    tr_effect *item;                  /* a ring; capacity is a power of two */
    size_t     first, count, capacity;
} tr_effects;

/* Queue an effect. The caller fills in the fields that this kind has; they are 0. */
tr_effect       *tr_effects_add(tr_effects *effects, tr_effect_kind kind);
/* Queue a COMMIT. It is merged with a COMMIT directly before it, because the store commits all steps that are settled when it runs. */
void             tr_effects_commit(tr_effects *effects, bool is_update);
/* Take the oldest effect out of the queue. NULL: the queue is empty. The effect is valid until the next one is added. */
const tr_effect *tr_effects_take(tr_effects *effects);
void             tr_effects_deinit(tr_effects *effects);
