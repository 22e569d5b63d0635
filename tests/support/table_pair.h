/* table_pair.h - a table with rows on disk beside one in memory, which get the same calls. */
#pragma once

#include "tests/support/table_rig.h"

enum { DOMAIN = 3000, MOST_KEYS = 200, HOT = 150 };
enum { SHARDS = 8 };

typedef struct pair {
    tr_table *plain, *spilled;
    uint64_t  step;
} pair;

/* For so many rows in memory, and the index of the others; for a single one without it. */
uint64_t memory_for(const tr_table_config *config, uint64_t hot);
/* A place for HOT rows in memory, on a disk that is memory. */
tr_table_segment place_in_memory(const tr_table_config *config);
pair     make_pair(const tr_table_config *config, uint64_t hot);
void     free_pair(pair *p);
/* One of many keys of the first SHARDS shards. */
int64_t  key_of_few_shards(uint64_t i);

/* Update both; the step is the next one. */
void     train(pair *p, const int64_t *keys, int64_t n, uint64_t seed);
/* Look up at most MOST_KEYS keys in both. */
void     look_up(pair *p, const int64_t *keys, int64_t n, uint64_t seed);

/* Packed rows, or keys, are the same in any order. Frees both. */
void     expect_same_packs(void *a, uint64_t a_bytes, void *b, uint64_t b_bytes, uint64_t stride);
/* All rows that an update after `since` touched, and how many there are. */
void     expect_same_rows(pair *p, uint32_t since);
