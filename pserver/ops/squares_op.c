/* squares_op.c - sum_of_squares in a server's program: the sum over the blocks of all servers.
 *
 * Each server sums its own values exactly. All servers exchange their sums, and each rounds the total. So all servers get the same
 * number, and it is the number that one process with all blocks computes. In mode sync all servers apply the same updates in the same
 * order, so all of them run this operator. The wait ends when a server dies or the job's time is up. */
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/tensors/tensor.h"
#include "kernels/base/check.h"
#include "kernels/math/arrays/exact.h"
#include "pserver/api/job.h"
#include "pserver/core/base/gathering.h"
#include "pserver/ops/comm_ops.h"
#include "pserver/rank/rank_serve.h"
#include "storage/util/little_endian.h"

enum { X };
enum { OUT };

typedef struct attrs {
    int32_t dtype;
} attrs;

static const tr_op_proto proto = {
    .doc = "In a parameter server: sum_of_squares over the X of all servers of the job, which wait for each other.",
    .in = TR_SLOTS({"X", "the server's own blocks, float, of one type; a server may have none",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "[1], the same in all servers"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, dtype, INT, "the type of X and Out", .number = TR_FP32)),
    .attrs_size = sizeof(attrs),
};

static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    if (a->dtype != TR_FP32 && a->dtype != TR_FP64)
        return tr_fail(TR_EDTYPE, "exchange_squares: dtype is %s; float32 and float64 are possible",
                       tr_dtype_name((tr_dtype)a->dtype));
    TR_TRY(tr__check_dense_list(io, "X", &io->ins[X]));
    if (io->ins[X].count)
        TR_TRY(tr__check_dtype(io, "X", &io->ins[X].item[0], (tr_dtype)a->dtype));
    io->out[OUT] = tr_meta_dense((tr_dtype)a->dtype, TR_SHAPE(1));
    return TR_OK;
}

enum { BYTES = 4 * TR_EXACT_WORDS };
_Static_assert((int)BYTES <= (int)TR_GATHER_MAX, "a sum fits into one message");

static void pack(uint8_t out[BYTES], tr_exact *sum)
{
    uint32_t words[TR_EXACT_WORDS];

    tr_exact_pack(words, sum);
    for (int i = 0; i < TR_EXACT_WORDS; i++)
        tr_put_u32(out + 4 * i, words[i]);
}

static void add_packed(tr_exact *sum, const uint8_t in[BYTES])
{
    uint32_t words[TR_EXACT_WORDS];

    for (int i = 0; i < TR_EXACT_WORDS; i++)
        words[i] = tr_get_u32(in + 4 * i);
    tr_exact_add_packed(sum, words);
}

static tr_status run(const tr_run *io)
{
    const tr_args *x = &io->ins[X];
    tr_tensor     *out = io->out[OUT];
    tr_exact       own = {0}, sum = {0};
    uint8_t        packed[BYTES];
    const uint8_t *all;
    tr_job        *job;

    TR_TRY(tr__comm_find_job(&job, io));
    for (int i = 0; i < x->count; i++)
        if (x->item[i]->dtype == TR_FP32)
            tr_exact_add_squares_f32(&own, x->item[i]->data, tr_tensor_count(x->item[i]));
        else
            tr_exact_add_squares_f64(&own, x->item[i]->data, tr_tensor_count(x->item[i]));
    pack(packed, &own);
    TR_TRY(tr__rank_share(&all, &job->rank, packed, BYTES));
    for (int s = 0; s < tr_job_servers(job); s++)
        add_packed(&sum, all + (size_t)s * BYTES);
    if (out->dtype == TR_FP32)
        *(float *)out->data = tr_exact_round_f32(&sum);
    else
        *(double *)out->data = tr_exact_round_f64(&sum);
    return TR_OK;
}

TR_REGISTER_OP(exchange_squares, .proto = &proto, .infer = infer, .run = run, .has_effect = true, .io = TR_IO_PEERS);
