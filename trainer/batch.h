/* batch.h - lines put together to be fed. */
#ifndef TR_TRAINER_BATCH_H
#define TR_TRAINER_BATCH_H

#include "trainer/columns.h"

struct tr_batch {
    tr_columns columns;
    bool       is_open;               /* lines are still being added: the wait for the next ones was too long */
    int64_t    samples;
    int64_t    task;                  /* where tasks are leased: the id of the piece that the lines are from */
    bool       ends_task;             /* and there are no more of it */
    int        feed_count;
    tr_feed   *feed;
    int       *slot;                  /* of each feed */
    int64_t  (*dims)[TR_MAX_RANK];
    int64_t  **offset;                /* LoD of each feed, or NULL */
    int64_t   *offset_count;
    int64_t    offset_capacity;
};

/* NULL: no memory. `spec` outlives it. */
tr_batch *tr__batch_new(const tr_data_spec *spec);
/* Let the feeds show lines [begin, end) of the added ones. False: no memory. */
bool tr__batch_show(tr_batch *batch, int64_t begin, int64_t end);

#endif
