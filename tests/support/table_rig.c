/* table_rig.c - what tests of tables do with one. */
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"

tr_table_config config_of(tr_dtype dtype)
{
    return (tr_table_config){.dtype = dtype, .width = WIDTH, .states = 2, .state_value = {0, 0.5f}, .init = TR_TABLE_UNIFORM,
                             .a = -1, .b = 1, .random_key = 77};
}

int64_t key_of(uint64_t i)
{
    switch (i % 4) {
    case 0:  return (int64_t)i;
    case 1:  return -(int64_t)i;
    case 2:  return INT64_MAX - (int64_t)i;
    default: return (int64_t)tr_hash_u64(i);
    }
}

uint64_t tr_inverse(uint64_t factor)
{
    uint64_t inverse = factor;

    for (int i = 0; i < 6; i++)
        inverse *= 2 - factor * inverse;               /* Newton's steps: twice as many right bits with each */
    return inverse;
}

int64_t key_of_hash(uint64_t hash)
{
    const uint64_t inverse = tr_inverse(0xD6E8FEB86659FD93u);

    hash = (hash ^ hash >> 32) * inverse;
    hash = (hash ^ hash >> 32) * inverse;
    return (int64_t)(hash ^ hash >> 32);
}

void update(tr_table *t, uint64_t step, const int64_t *keys, int64_t n, float amount)
{
    uint32_t *slots = malloc((size_t)n * sizeof *slots + 1);
    float    *values = malloc((size_t)n * WIDTH * sizeof *values + 1);
    float    *states[2] = {malloc((size_t)n * WIDTH * sizeof(float) + 1), malloc((size_t)n * WIDTH * sizeof(float) + 1)};

    EXPECT_OK(tr_table_begin(t, step));
    EXPECT_OK(tr_table_take(t, slots, keys, n));
    tr_table_gather(t, slots, n, values, states);
    for (int64_t i = 0; i < n * WIDTH; i++) {
        values[i] += amount;
        states[0][i] += 1;
        states[1][i] = amount;
    }
    EXPECT_OK(tr_table_keep(t, slots, n));
    tr_table_scatter(t, slots, n, values, (const float *const *)states);
    free(slots);
    free(values);
    free(states[0]);
    free(states[1]);
}
