/* effects.c - see effects.h. */
#include "pserver/core/effects.h"

#include "framework/memory.h"

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

void tr_effects_put(tr_effects *effects, const tr_effect *effect)
{
    tr_effect *last = effects->count ? at(effects, effects->count - 1) : NULL;

    if (last && last->kind == TR_EFFECT_COMMIT && effect->kind == TR_EFFECT_COMMIT) {
        last->is_update |= effect->is_update;
        return;
    }
    if (effects->count == effects->capacity)
        grow(effects);
    *at(effects, effects->count++) = *effect;
}

bool tr_effects_take(tr_effects *effects, tr_effect *out)
{
    if (!effects->count)
        return false;
    *out = *at(effects, 0);
    effects->count--;
    effects->first = effects->count ? (effects->first + 1) & (effects->capacity - 1) : 0;         /* an empty queue begins where the cache has it */
    return true;
}

void tr_effects_deinit(tr_effects *effects)
{
    free(effects->item);
    *effects = (tr_effects){0};
}
