/* kept_table.h - a sparse table with rows and keys that wait for one, in checkpoints. */
#pragma once

#include "storage/checkpoint/checkpoint.h"
#include "storage/table/table_var.h"

enum { KEPT_WIDTH = 3, KEPT_KEYS = 5000 };

/* The keys of kept_touch; kept_filled makes them. */
extern int64_t kept_key[KEPT_KEYS];

tr_table_config kept_config_of(uint32_t entry_count);
void            kept_touch(tr_table *t, uint64_t step, int64_t first, int64_t n);
tr_table       *kept_make(const tr_table_config *config, uint32_t first_shard, uint32_t shards);
tr_job_table    kept_about(const tr_table *t, const char *name, int64_t updates);
tr_table       *kept_filled(uint32_t entry_count);
void            kept_expect_same(const tr_table *a, const tr_table *b);
tr_checkpoint  *kept_open_in(const char *folder, int64_t step);
tr_table_var   *kept_var(tr_scope *scope, const char *name);
