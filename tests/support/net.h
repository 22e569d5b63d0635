/* net.h - small programs for tests, written down quickly.
 *
 *     net n;
 *     net_init(&n);
 *     net_var(&n, "x", TR_FP64, 2, -1, 3);
 *     net_op(&n, 0, "mul", "X=x Y=w", "Out=h", "x_num_col_dims=1");
 *     net_feed(&n, "x", x, 2, 5, 3);
 *     net_run(&n, "h w@GRAD");                    // fetched: n.result[0], n.result[1]
 *     net_deinit(&n);
 *
 * A failure anywhere fails the test with tr_error(). */
#pragma once

#include "tests/support/expect.h"

enum { NET_MAX = 16, NET_LODS = 3 };

typedef struct net {
    tr_program  *program;
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;                /* of the last run */
    int          feed_count;
    const char  *feed_name[NET_MAX];
    tr_feed      feed[NET_MAX];
    int64_t      dims[NET_MAX][TR_MAX_RANK];
    int64_t      lod_counts[NET_MAX][NET_LODS];
    const int64_t *lod_offsets[NET_MAX][NET_LODS];
    tr_tensor   *result[NET_MAX];
} net;

void net_init(net *n);
void net_deinit(net *n);
/* Declare a variable of the global block; dimensions are `rank` ints. */
void net_var(net *n, const char *name, tr_dtype dtype, int rank, ...);
void net_var_in(net *n, int block, const char *name, tr_dtype dtype, int rank, ...);
void net_parameter(net *n, const char *name, tr_dtype dtype, int rank, ...);
/* Append an operator to a block. Slots: "X=a,b Y=c". Attributes: "axis=1 scale=0.5 flag=true shape=[2,3] mode=avg
 * sub_block=block:1 states={a,b}": the type is that of the operator's proto. */
tr_status net_try_op(net *n, int block, const char *type, const char *inputs, const char *outputs, const char *attrs);
void      net_op(net *n, int block, const char *type, const char *inputs, const char *outputs, const char *attrs);
int       net_block(net *n, int parent);
/* Feed memory that stays where it is; the type is that of the declared variable. A second call replaces it. */
void net_feed(net *n, const char *name, const void *data, int rank, ...);
/* Give what is fed sequences, level by level: net_feed_lod(n, "x", 2, 3, offsets, 6, offsets_below), an int that says
 * how many offsets, then a pointer to them, which stays where it is. */
void net_feed_lod(net *n, const char *name, int levels, ...);
tr_status net_try_run(net *n, const char *fetches);
void      net_run(net *n, const char *fetches);
/* Fetched result `i`. */
const float   *net_f32(const net *n, int i);
const double  *net_f64(const net *n, int i);
const int64_t *net_i64(const net *n, int i);
/* Element `index` of the tensor array `name` of the global block, after a run; NULL: there is none. */
tr_tensor *net_array_item(const net *n, const char *name, int64_t index);
/* name@GRAD, for the gradient of variable loss ([1], float64), is what differences in the fed `data` say. */
void net_check_gradient(net *n, const char *name, double *data, int count, double tolerance);
/* Does the plan of the last run print this? */
bool net_plan_says(const net *n, const char *text);
