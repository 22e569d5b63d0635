/* table_config.h - what a sparse table is: its rows, their first values, and which keys have rows. */
#pragma once

#include "framework/tensors/dtype.h"

#include <stdint.h>

/* How first values are drawn: a and b are the value; min and max; mean and standard deviation. */
typedef enum tr_table_init {
    TR_TABLE_CONSTANT,
    TR_TABLE_UNIFORM,
    TR_TABLE_NORMAL,
    TR_TABLE_TRUNCATED_NORMAL,
    TR_TABLE_INIT_COUNT
} tr_table_init;

enum { TR_TABLE_STATES = 8 };         /* the most numbers that an optimizer keeps for each element */

/* The configuration, the same on all servers of a table. */
typedef struct tr_table_config {
    tr_dtype      dtype;              /* type of the values: TR_FP32, TR_FP16 or TR_BF16 */
    int64_t       width;              /* values of a row */
    int           states;             /* states of a row, each of them `width` float32 */
    float         state_value[TR_TABLE_STATES];      /* first values of the states */
    tr_table_init init;
    double        a, b;
    uint64_t      random_key;
    uint32_t      entry_count;        /* 0 and 1: the first update makes the row */
    double        entry_probability;  /* 0: as 1 */
    uint32_t      max_age;            /* rows that no update has touched for more steps are removed; 0: none is */
    uint32_t      keep_count;         /* except rows that so many updates touched; 0: no exception */
    uint64_t      max_rows;           /* rows in the whole table: those untouched for the longest time are removed. 0: no limit */
} tr_table_config;
