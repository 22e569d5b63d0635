/* first_values.c - see first_values.h. */
#include "storage/table/first_values.h"

#include "framework/random.h"
#include "kernels/math/cast.h"

/* Draw elements [start, start + n) of an endless tensor of first values. */
static void draw(const tr_table_config *c, float *out, int64_t n, uint64_t start)
{
    const float a = (float)c->a, b = (float)c->b;

    switch (c->init) {
    case TR_TABLE_UNIFORM:
        tr_random_uniform_f32(out, n, c->random_key, start, a, b);
        break;
    case TR_TABLE_NORMAL:
        tr_random_normal_f32(out, n, c->random_key, start, a, b);
        break;
    case TR_TABLE_TRUNCATED_NORMAL:
        tr_random_truncated_normal_f32(out, n, c->random_key, start, a, b);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            out[i] = a;
    }
}

/* The index of a key's first element. For a key from 0 to 2^62 / width it is the element of a dense parameter. */
static uint64_t first_element(const tr_table_config *c, int64_t key)
{
    return (uint64_t)key * (uint64_t)c->width & (((uint64_t)1 << 62) - 1);
}

void tr_table_first_value(const tr_table_config *config, float *out, int64_t key)
{
    draw(config, out, config->width, first_element(config, key));
}

void tr__table_put_first_value(const tr_table_config *config, char *out, int64_t key)
{
    enum { PIECE = 256 };
    float         some[PIECE];
    const int64_t width = config->width;

    for (int64_t from = 0; from < width; from += PIECE) {
        const int64_t n = width - from < PIECE ? width - from : PIECE;
        draw(config, some, n, first_element(config, key) + (uint64_t)from);
        tr_cast(out + from * tr_dtype_size(config->dtype), config->dtype, some, TR_FP32, n);
    }
}
