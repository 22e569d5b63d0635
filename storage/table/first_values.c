/* first_values.c - see first_values.h. */
#include "storage/table/first_values.h"

#include "framework/tensors/random.h"
#include "kernels/math/tools/cast.h"

/* An endless tensor of first values and the index of an element in it. */
typedef struct place {
    uint64_t random_key, element;
} place;

/* Where a key's first values lie: element key * width. Keys from 0 to 2^62 / width have those of a dense parameter. A tensor has 2^62
 * elements; the bits of the product above them choose another tensor. */
static place place_of(const tr_table_config *c, int64_t key)
{
    const unsigned __int128 element = (unsigned __int128)(uint64_t)key * (uint64_t)c->width;
    const uint64_t          above = (uint64_t)(element >> 62);

    return (place){above ? tr_hash_u64(c->random_key + above) : c->random_key, (uint64_t)element & (((uint64_t)1 << 62) - 1)};
}

/* Draw elements from a place on. */
static void draw(const tr_table_config *c, float *out, int64_t n, place from)
{
    const float a = (float)c->a, b = (float)c->b;

    switch (c->init) {
    case TR_TABLE_UNIFORM:
        tr_random_uniform_f32(out, n, from.random_key, from.element, a, b);
        break;
    case TR_TABLE_NORMAL:
        tr_random_normal_f32(out, n, from.random_key, from.element, a, b);
        break;
    case TR_TABLE_TRUNCATED_NORMAL:
        tr_random_truncated_normal_f32(out, n, from.random_key, from.element, a, b);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = a;
    }
}

void tr__table_put_first_value(const tr_table_config *config, char *out, int64_t key)
{
    enum { PIECE = 256 };
    float         some[PIECE];
    const int64_t width = config->width;
    place         from = place_of(config, key);

    for (int64_t at = 0; at < width; at += PIECE, from.element += PIECE) {
        const int64_t n = width - at < PIECE ? width - at : PIECE;
        draw(config, some, n, from);
        tr_cast(out + at * tr_dtype_size(config->dtype), config->dtype, some, TR_FP32, n);
    }
}
