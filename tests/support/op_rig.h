/* op_rig.h - a program around one operator, ready to be run again and again.
 *
 * Each input is fed as feed0, feed1, ... and copied by an assign to x0, x1, ..., which the operator reads; its outputs,
 * out0, out1, ..., are copied to copy0, copy1, ..., which are fetched. So what the operator works on are
 * temporaries, and the plan may let outputs take over the memory of inputs. Of the gradient program, the outputs'
 * gradients are fed as fed_weight0, ... and copied to weight0, ..., and the results are feed0@GRAD, ... */
#pragma once

#include "tests/support/op_case.h"

enum { OP_MAX_NAMES = 4 * OP_MAX_ARGS };       /* of feeds, of fetches */

typedef enum op_rig_flags {
    OP_PLAIN = 0,
    OP_SHAPES_ONLY = 1,               /* no copies: inputs are declared as the case says, -1 included */
    OP_BARE = 4,                      /* the operator alone: no copies, and nothing that spoils memory */
    OP_UNKNOWN_DIMS = 2               /* declare every dimension of every input as unknown */
} op_rig_flags;

typedef struct op_rig {
    const char  *op;
    const op_case *c;
    tr_dtype     dtype;               /* under test */
    tr_dtype     rounded;             /* values are numbers of this type, too; TR_DTYPE_NONE: of any */
    op_rig_flags flags;
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    int          in_count, out_count;
    op_array     in[OP_MAX_ARGS];
    void        *bytes[OP_MAX_ARGS];  /* of in, as fed */
    op_array     weight[OP_MAX_ARGS]; /* rank 0: the output has no gradient */
    void        *weight_bytes[OP_MAX_ARGS];
    int          feed_count, fetch_count, gradient_count, spoiled_count;
    tr_feed      feed[OP_MAX_NAMES];
    const char  *feed_name[OP_MAX_NAMES], *fetch_name[OP_MAX_NAMES];
    tr_tensor   *result[OP_MAX_NAMES];
} op_rig;

/* Build it. On failure the rig is empty and tr_error() says why. */
tr_status op_rig_init(op_rig *rig, const char *op, const op_case *c, tr_dtype dtype, op_rig_flags flags);
/* The same with values that type `rounded` has, too, whatever the type under test. */
tr_status op_rig_init_rounded(op_rig *rig, const char *op, const op_case *c, tr_dtype dtype, tr_dtype rounded);
void      op_rig_deinit(op_rig *rig);
/* Append the gradients of all inputs but constant ones and number `without` (-1: none is left out). The outputs'
 * gradients are random. Needs to know the outputs' shapes: `outputs` are those of a run. */
tr_status op_rig_add_gradients(op_rig *rig, const op_array *outputs, int without);
/* Whether input i is to have a gradient. */
bool      op_rig_has_gradient(const op_rig *rig, int i);

/* What the next runs fetch. */
void      op_rig_fetch_nothing(op_rig *rig);
void      op_rig_fetch(op_rig *rig, const char *format, int index);
void      op_rig_fetch_outputs(op_rig *rig);
/* The gradients that op_rig_add_gradients made, gradient_count of them; then what keeps it honest. */
void      op_rig_fetch_gradients(op_rig *rig, int without);
tr_status op_rig_run(op_rig *rig);

/* Where TRIREME_KEEP_OPS names a folder, keep there a program of the operator, and of its gradient if it has one: for
 * tests/fuzz/corpus/run. The first case in which no input is empty is the one that is kept. */
void      op_rig_keep(const char *op, const op_case *c, bool gradient);
