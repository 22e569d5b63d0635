/* effects.h - work that a core wants its store to do: a queue of effects.
 *
 * A core never calls the store's work functions itself. It puts an effect into this queue, and its boundary (server.c) carries the effects out, in
 * order, when the core is at rest. So the store may report that work is done at once: nothing comes back into a core in the middle of a change.
 * Effects are carried out before the messages behind them are taken: what a message says is committed. */
#ifndef TR_PSERVER_EFFECTS_H
#define TR_PSERVER_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(KIND, name, "what the store does"). */
#define TR_EFFECTS(X)                                                                                         \
    X(PIECE,    piece,    "computes a piece of the next update, whose gradient is whole")                      \
    X(COMMIT,   commit,   "lets what is settled count, and the update that was applied, if there is one")      \
    X(APPLY,    apply,    "computes the update in hand, and reports it by tr_server_applied")                  \
    X(SNAPSHOT, snapshot, "copies the state, reports it by tr_server_snapped, writes it, and reports that")    \
    X(FREEZE,   freeze,   "keeps the state as it is now, and reports it by tr_server_frozen")                  \
    X(THAW,     thaw,     "forgets what it keeps")

typedef enum tr_effect_kind {
#define TR_EFFECT_ENUM(KIND, name, what) TR_EFFECT_##KIND,
    TR_EFFECTS(TR_EFFECT_ENUM)
#undef TR_EFFECT_ENUM
    TR_EFFECT_COUNT
} tr_effect_kind;

typedef struct tr_effect {
    tr_effect_kind kind;
    bool           is_update;         /* COMMIT: the update that was applied counts from here on */
    uint32_t       block;             /* PIECE: of this block, from `offset` on */
    uint64_t       offset, bytes;
    const void    *grad;              /* PIECE: stays as it is until the update is applied */
} tr_effect;

typedef struct tr_effects {
    tr_effect *item;                  /* a ring; capacity is a power of two */
    size_t     first, count, capacity;
} tr_effects;

/* A COMMIT behind a COMMIT is one: the store commits what is settled when the effect is carried out. */
void        tr_effects_put(tr_effects *effects, const tr_effect *effect);
/* The next one; false: there is none. */
bool        tr_effects_take(tr_effects *effects, tr_effect *out);
void        tr_effects_deinit(tr_effects *effects);
const char *tr_effect_name(tr_effect_kind kind);

#endif
