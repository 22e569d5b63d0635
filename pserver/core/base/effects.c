/* effects.c - see effects.h. */
#include "pserver/core/base/effects.h"

#include "framework/base/memory.h"

#include <stdlib.h>

static tr_effect *at(const tr_effects *effects, size_t place)
{
    return &effects->item[(effects->first + place) & (effects->capacity - 1)];
}

static void grow(tr_effects *effects)
{
    const size_t capacity = effects->capacity ? 2 * effects->capacity : 16;
    tr_effect   *item = tr__must_array(capacity, sizeof *item);

    for (size_t i = 0; i < effects->count; i++)
        item[i] = *at(effects, i);
    free(effects->item);
    effects->item = item;
    effects->first = 0;
    effects->capacity = capacity;
}

tr_effect *tr_effects_add(tr_effects *effects, tr_effect_kind kind)
{
    if (effects->count == effects->capacity)
        grow(effects);
    tr_effect *effect = at(effects, effects->count++);
    *effect = (tr_effect){.kind = kind};
    return effect;
}

void tr_effects_commit(tr_effects *effects, bool is_update)
{
    tr_effect *last = effects->count ? at(effects, effects->count - 1) : NULL;

    if (!last || last->kind != TR_EFFECT_COMMIT)
        last = tr_effects_add(effects, TR_EFFECT_COMMIT);
    last->is_update |= is_update;
}

const tr_effect *tr_effects_take(tr_effects *effects)
{
    if (!effects->count)
        return NULL;
    const tr_effect *effect = at(effects, 0);
    effects->count--;
    effects->first = effects->count ? (effects->first + 1) & (effects->capacity - 1) : 0;         /* an empty queue begins where the cache
                                                                                                   * has it */
    return effect;
}

void tr_effects_deinit(tr_effects *effects)
{
    free(effects->item);
    *effects = (tr_effects){0};
}
