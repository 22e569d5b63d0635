/* comm_ops.h - shared by the operators that talk to servers: the job, and its numbers for the names that an operator has. */
#ifndef TR_PSERVER_COMM_OPS_H
#define TR_PSERVER_COMM_OPS_H

#include "framework/operators/op.h"
#include "framework/tensors/tensor.h"
#include "pserver/trireme_dist.h"

/* The job in which a run takes part; it is a mistake if there is none. */
tr_status tr__comm_find_job(tr_job **out, const tr_run *io);

/* The name of thing `index` that an operator speaks of, and the job's number for it. The latter two fail where no server has such a block or table. */
typedef const char *(*tr__name_fn)(const tr_run *io, int index);
typedef tr_status (*tr__number_fn)(int *out, const tr_run *io, const tr_job *job, const char *name);
tr_status tr__comm_block_number(int *out, const tr_run *io, const tr_job *job, const char *name);
tr_status tr__comm_table_number(int *out, const tr_run *io, const tr_job *job, const char *name);
/* The numbers of `count` things: they are looked up at the operator's first run in this job, and noted for the steps after it. */
tr_status tr__comm_numbers(const int **out, const tr_run *io, const tr_job *job, int count, tr__name_fn name, tr__number_fn number);

/* Take the next `bytes` bytes of a tensor that is cut into blocks; *at moves on. */
tr_status tr__comm_take_slice(char **out, const tr_tensor *t, int64_t *at, int64_t bytes, const char *op, const char *name);
/* Check that the blocks were all of the tensor. */
tr_status tr__comm_check_taken(const tr_tensor *t, int64_t at, const char *op, const char *name);

#endif
