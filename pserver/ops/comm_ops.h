/* comm_ops.h - shared by the operators that talk to servers: finds blocks of the process's job by name. */
#ifndef TR_PSERVER_COMM_OPS_H
#define TR_PSERVER_COMM_OPS_H

#include "framework/tensors/tensor.h"
#include "pserver/trireme_dist.h"

/* Find the job of this process, or a block of it. `op` is the operator's type, for messages. */
tr_status tr__comm_find_job(tr_job **out, const char *op);
tr_status tr__comm_find_block(int *out, const tr_job *job, const char *op, const char *name);
/* Take the next `bytes` bytes of a tensor that is cut into blocks; *at moves on. */
tr_status tr__comm_take_slice(char **out, const tr_tensor *t, int64_t *at, int64_t bytes, const char *op, const char *name);
/* Check that the blocks were all of the tensor. */
tr_status tr__comm_check_taken(const tr_tensor *t, int64_t at, const char *op, const char *name);

#endif
