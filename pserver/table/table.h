/* table.h - a sparse table: int64 key -> row of values and optimizer state, on one server or in one process.
 *
 * A row is made at its first update. A key without a row still has a first value: a pure function of (random key, key, column), the same as
 * element key * width + column of a dense parameter. So it changes no bit where rows live or when they are made. Looking up changes
 * nothing.
 *
 * An update: begin(step); take the slots of its keys, which makes rows; for tiles of rows gather, compute, scatter. The next begin, or an
 * eviction, makes the update final. A table in named segments (segment.h) is consistent after a kill at any instruction. Attaching rolls
 * back the updates beyond a given step (undo.h); rows that those made stay, with their first values.
 *
 * Admission: a key gets a row when updates have touched it `entry_count` times (the update that completes the count is not applied). Only a
 * share `entry_probability` of all keys gets one, chosen by a hash. Other keys read zeros then. Eviction goes through one virtual shard a
 * step. Neither depends on the number of servers.
 *
 * What must stay true: one thread updates, and no thread looks up meanwhile. Any number of threads may look up at the same time. */
#ifndef TR_PSERVER_TABLE_H
#define TR_PSERVER_TABLE_H

#include "pserver/table/slots.h"

/* How first values are drawn: a and b are the value; min and max; mean and standard deviation. */
typedef enum tr_table_init {
    TR_TABLE_CONSTANT,
    TR_TABLE_UNIFORM,
    TR_TABLE_NORMAL,
    TR_TABLE_TRUNCATED_NORMAL,
    TR_TABLE_INIT_COUNT
} tr_table_init;

enum { TR_TABLE_STATES = 8 };         /* the most that an optimizer keeps for each element */

/* How often a row was updated is counted up to this; the part of its mark that is the table's. */
#define TR__TOUCHES (TR_SLOT_LIVES - 1)

/* The configuration, which all servers of a table share. */
typedef struct tr_table_config {
    tr_dtype      dtype;              /* of the values: TR_FP32, TR_FP16 or TR_BF16 */
    int64_t       width;              /* values of a row */
    int           states;             /* each of them `width` float32 */
    float         state_value[TR_TABLE_STATES];      /* first values of the states */
    tr_table_init init;
    double        a, b;
    uint64_t      random_key;
    uint32_t      entry_count;        /* 0 and 1: the first update makes the row */
    double        entry_probability;  /* 0: as 1 */
    uint32_t      max_age;            /* rows untouched for more steps go; 0: none does */
    uint32_t      keep_count;         /* but not those that were touched so often; 0: no matter how often */
    uint64_t      max_rows;           /* in the whole table; the longest untouched go first. 0: no limit */
} tr_table_config;

/* Which part of it is here. */
typedef struct tr_table_place {
    const char *name;                 /* of the segments; NULL: anonymous memory */
    uint32_t    first_shard, shard_count;
    uint64_t    max_bytes;            /* of rows; 0: as much as the machine has */
    bool        logs_when_set;        /* an update is many scatters of rows that tr_table_set_values has given values in it: what they were
                                         is logged then, once */
} tr_table_place;

typedef struct tr_table tr_table;

tr_status tr_table_check_config(const tr_table_config *config);
tr_status tr_table_create(tr_table **out, const tr_table_config *config, const tr_table_place *place);
/* Roll back the updates after step `step`. TR_EFORMAT: this is another table. */
tr_status tr_table_attach(tr_table **out, const tr_table_config *config, const tr_table_place *place, uint64_t step);
/* Roll back the last update if it is of a later step; nothing was updated since. */
void      tr_table_go_back(tr_table *table, uint64_t step);
void      tr_table_free(tr_table *table);
/* The segments of this name. */
void      tr_table_remove(const char *name);
const tr_table_config *tr_table_get_config(const tr_table *table);
/* The virtual shards that are here. */
void      tr_table_range(const tr_table *table, uint32_t *first_shard, uint32_t *shard_count);
/* Bytes of a packed row, with its header and states. */
uint64_t  tr_table_stride(const tr_table_config *config);
/* Bytes of a row's values. */
int64_t   tr_table_row_bytes(const tr_table_config *config);

/* -- looking up -------------------------------------------------------------------------------------- */

/* The values of `n` keys one behind the other, in the table's type. */
void tr_table_pull(const tr_table *table, void *out, const int64_t *keys, int64_t n);
/* The same, and their slots: hints for an update of these keys. */
void tr_table_pull_places(const tr_table *table, void *out, uint32_t *slots, const int64_t *keys, int64_t n);
/* The same as it was before the last update, of different keys. Rows that this update made have their first values. */
tr_status tr_table_pull_before(const tr_table *table, void *out, const int64_t *keys, int64_t n);
/* The first value of a key, as float32 [width]. */
void tr_table_first_value(const tr_table_config *config, float *out, int64_t key);

/* -- an update ---------------------------------------------------------------------------------------- */

/* Steps are numbered from 1 and grow. */
tr_status tr_table_begin(tr_table *table, uint64_t step);
/* The slots of `n` different keys, with new rows where they are due; TR_SLOT_NONE: not admitted (yet). */
tr_status tr_table_take(tr_table *table, uint32_t *slots, const int64_t *keys, int64_t n);
/* The same with slots that the keys had earlier, or TR_SLOT_NONE: a row knows its key, so a hint is never wrong, only of no use. */
tr_status tr_table_take_hinted(tr_table *table, uint32_t *slots, const uint32_t *hints, const int64_t *keys, int64_t n);
/* Values and states of rows, [n, width] each, as float32; of no slot zeros. */
void      tr_table_gather(const tr_table *table, const uint32_t *slots, int64_t n, float *values, float *const *states);
/* Write them back, rounded to the table's type, and count the touch. */
tr_status tr_table_scatter(tr_table *table, const uint32_t *slots, int64_t n, const float *values, const float *const *states);
/* Remove what is due in this step's shard. `*removed` may be NULL. Between updates. */
tr_status tr_table_evict(tr_table *table, uint64_t step, uint64_t *removed);

/* -- rows in and out ----------------------------------------------------------------------------------- */

typedef struct tr_table_row {
    int64_t      key;
    uint32_t     touches, last;       /* updates, and the step of the last */
    const void  *values;              /* in the table's type */
    const float *states;              /* [states, width] */
} tr_table_row;

/* Calls `each` for the rows of a virtual shard until it fails. */
tr_status tr_table_each(const tr_table *table, uint32_t shard, tr_status (*each)(void *payload, const tr_table_row *row),
                        void *payload);
/* Give a row these values, in the table's type, and first states where it is made now; none is made of a key that is not
 * among the share that has rows. Between updates, unless the table logs here. */
tr_status tr_table_set_values(tr_table *table, int64_t key, const void *values);
/* Make or replace a row. Between updates. */
tr_status tr_table_put(tr_table *table, const tr_table_row *row);

/* The rows of a shard as bytes: of each its key (i64), touches, last step (u32), values in the table's type, padded to 4,
 * states (f32), padded to 8: `row_bytes` of the report. `*out` is malloc'ed. */
tr_status tr_table_pack(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
/* Leave of packed rows of `stride` bytes those that an update after `since` touched; 0: all. Returns the bytes that are left. */
uint64_t  tr_table_keep_newer(void *packed, uint64_t bytes, uint64_t stride, uint32_t since);
/* Put rows that were packed by a table of the same type, width and states. TR_EFORMAT: they are none. */
tr_status tr_table_unpack(tr_table *table, const void *rows, uint64_t bytes);
/* The same of keys that are counted and have no row yet: key, touches, last step, 16 bytes each. */
tr_status tr_table_pack_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
tr_status tr_table_unpack_candidates(tr_table *table, const void *rows, uint64_t bytes);

/* -- a snapshot: the table as it is now, read while it goes on (slots_snapshot.h) ---------------------------------- */

/* Between updates. A snapshot before is forgotten. */
tr_status tr_table_snapshot(tr_table *table);
/* The shards as tr_table_pack would have packed them at that moment. In another thread, if need be; each shard once. */
tr_status tr_table_snapshot_read(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
tr_status tr_table_snapshot_read_candidates(const tr_table *table, uint32_t shard, void **out, uint64_t *bytes);
/* Nobody reads any more. Between updates. */
void      tr_table_snapshot_end(tr_table *table);

typedef struct tr_table_report {
    uint64_t rows, candidates;        /* candidates: keys that are not admitted yet */
    uint64_t row_bytes;               /* of one row with its states and header */
    uint64_t bytes;                   /* taken from the machine in all */
    uint64_t index_bytes;             /* of them by indices, of rows and of candidates */
    uint64_t undo_bytes;              /* and by the log of the last update */
} tr_table_report;

void      tr_table_get_report(const tr_table *table, tr_table_report *report);
/* For measuring. */
const tr_slots *tr_table_slots(const tr_table *table);
/* For tests: see tr_slots_check. */
tr_status tr_table_check(const tr_table *table);

#endif
