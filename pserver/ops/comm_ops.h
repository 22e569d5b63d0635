/* comm_ops.h - shared by the operators that talk to servers: the job of a run, its numbers for names, and tensors that are cut into
 * blocks. */
#pragma once

#include "framework/operators/op.h"
#include "framework/tensors/tensor.h"
#include "pserver/trireme_dist.h"

/* The job in which a run takes part; it is a mistake if there is none. */
tr_status tr__comm_find_job(tr_job **out, const tr_run *io);
/* The same, and the job's numbers for `count` names that the operator has. They are looked up at its first run in this job, by
 * tr_job_find_block or tr_job_find_table, and noted for the steps after it; a name that no server has is a mistake. */
tr_status tr__comm_begin(tr_job **out, const int **numbers, const tr_run *io, int count, const char *const *names,
                         int (*find)(const tr_job *job, const char *name));

/* A block's part of a tensor. */
typedef struct tr__slice {
    const tr_tensor *whole;
    int              block, part;     /* the job's number of the block, and its number among the blocks of the tensor */
    char            *memory;
    int64_t          bytes;
} tr__slice;

typedef tr_status (*tr__slice_fn)(const tr_run *io, tr_job *job, const tr__slice *slice);
/* Call `act` for the blocks that a tensor is cut into, one after the other. They must be all of it. */
tr_status tr__comm_each_block(const tr_run *io, tr_job *job, const tr_tensor *whole, int64_t count, const int *blocks, tr__slice_fn act);
/* An `act`: ask for the block. */
tr_status tr__comm_pull(const tr_run *io, tr_job *job, const tr__slice *slice);
