/* table_rig.h - tables of rows of five values and two states, keys of all kinds, and an update whose result is known. */
#pragma once

#include "tests/support/expect.h"

#include "storage/table/table.h"

enum { WIDTH = 5 };

tr_table_config config_of(tr_dtype dtype);
/* Key number i: small, negative, huge ones. */
int64_t         key_of(uint64_t i);
/* The key whose hash this is: tr_hash_u64 undone. And the inverse of an odd factor. */
int64_t         key_of_hash(uint64_t hash);
uint64_t        tr_inverse(uint64_t factor);
/* values += amount; states 0 and 1 count the updates and keep the amount. */
void            update(tr_table *t, uint64_t step, const int64_t *keys, int64_t n, float amount);
