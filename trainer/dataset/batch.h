/* batch.h - lines that are fed together. */
#pragma once

#include "trainer/formats/columns.h"

struct tr_batch {
    tr_columns columns;
    bool       is_open;               /* the batch is not full: the wait for further lines was too long, and the next call goes on */
    int64_t    samples;
    int64_t    task;                  /* with leased tasks: the id of the piece that the lines are from */
    bool       ends_task;             /* the last lines of that piece are in this batch */
    int        feed_count;
    tr_feed   *feed;
    int       *slot;                  /* of each feed */
    int64_t  (*dims)[TR_MAX_RANK];
    int64_t  **offset;                /* LoD of each feed, or NULL */
    int64_t   *offset_count;
    int64_t    offset_capacity;
};

/* Returns NULL if there is no memory. `spec` must outlive the batch. */
tr_batch *tr__batch_new(const tr_data_spec *spec);
/* Let the feeds refer to lines [begin, end) of the batch. False: no memory. */
bool tr__batch_show(tr_batch *batch, int64_t begin, int64_t end);
