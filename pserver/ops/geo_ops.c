/* geo_ops.c - the operator of the modes in which trainers update their own copies of the parameters. Every few steps each trainer sends
 * its change to the servers and takes their parameters back. In geo a trainer divides its change by the number of trainers, and a server
 * adds each change by itself. In average the server adds the mean of all trainers' changes. Of sparse tables a trainer sends the changed
 * rows, and takes new rows when they are needed (geo_rows.h).
 *
 * What must stay true: between two exchanges Base holds the parameters as the servers sent them. During an exchange it holds the change,
 * which is sent from there. */
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/tensors/tensor.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_fetched.h"
#include "pserver/api/job_rows.h"
#include "pserver/api/job_tables.h"
#include "pserver/ops/comm_ops.h"
#include "pserver/util/wake.h"

#include <string.h>

enum { PARAM, BASE, COUNT };
enum { PARAM_OUT, BASE_OUT, COUNT_OUT };

typedef struct attrs {
    int64_t    period;
    tr_strings blocks;
    tr_longs   parts;
} attrs;

static const tr_op_proto proto = {
    .doc = "Counts its runs; in every period-th it adds its share of Param - Base to the servers' blocks, and sets Param and "
           "Base to what is there then; the same of the job's sparse tables, row by row. With Count at 0 it does nothing: all steps were "
           "exchanged.",
    .in = TR_SLOTS({"Param", "[...] float", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                   {"Base", "like Param", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}, {"Count", "[1] int64, runs since the last exchange"}),
    .out = TR_SLOTS({"ParamOut", "the same variables as Param", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                    {"BaseOut", "the same variables as Base", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                    {"CountOut", "the same variable as Count"}),
    .attr = TR_ATTRS(TR_ATTR(attrs, period, LONG, "runs from one exchange to the next; 0: exchange now if Count is not 0", .number = 1,
                             .range = TR_AT_LEAST(0)),
                     TR_ATTR(attrs, blocks, STRINGS, "names of the blocks of all parameters, in order"),
                     TR_ATTR(attrs, parts, LONGS, "how many of them are each parameter's")),
    .attrs_size = sizeof(attrs),
};

/* -- one parameter ------------------------------------------------------------------------------- */

#define TR_MAKE_CHANGE(name, T)                                                                      \
    static void name(T *restrict base, const T *restrict param, int64_t count, int share)          \
    {                                                                                                 \
        for (int64_t i = 0; i < count; i++)                                                           \
            base[i] = (param[i] - base[i]) / (T)share;                                             \
    }
TR_MAKE_CHANGE(change_f32, float)
TR_MAKE_CHANGE(change_f64, double)

static tr_status check_pair(const tr_tensor *param, const tr_tensor *base, const char *name)
{
    if (param->dtype != base->dtype || tr_tensor_bytes(param) != tr_tensor_bytes(base))
        return tr_fail(TR_ESHAPE, "exchange_deltas: '%s' has %lld bytes of %s, its Base %lld of %s", name,
                       (long long)tr_tensor_bytes(param), tr_dtype_name(param->dtype), (long long)tr_tensor_bytes(base),
                       tr_dtype_name(base->dtype));
    if (param->dtype != TR_FP32 && param->dtype != TR_FP64)
        return tr_fail(TR_EDTYPE, "exchange_deltas: '%s' is %s; float32 and float64 travel", name,
                       tr_dtype_name(param->dtype));
    return TR_OK;
}

static tr_status push(const tr_run *io, tr_job *job, const tr__slice *slice)
{
    (void)io;
    return tr_job_push(job, slice->block, slice->memory, slice->bytes, 1, NULL);
}

/* -- all of them ----------------------------------------------------------------------------------- */

static tr_status each_param(tr_job *job, const tr_run *io, const tr_args *tensors, const int *block, tr__slice_fn act)
{
    const attrs *a = io->attrs;
    int64_t      first = 0;

    for (int i = 0; i < tensors->count; i++) {
        const int64_t count = i < a->parts.count ? a->parts.item[i] : 0;
        if (count < 0 || first + count > a->blocks.count)
            return tr_fail(TR_EINVAL, "exchange_deltas: parts counts %lld blocks and more, there are %d",
                           (long long)(first + count), a->blocks.count);
        TR_TRY(tr__comm_each_block(io, job, tensors->item[i], count, block + first, act));
        first += count;
    }
    return TR_OK;
}

static tr_status exchange(tr_job *job, const tr_run *io, const int *block)
{
    const tr_args *params = &io->outs[PARAM_OUT], *bases = &io->outs[BASE_OUT];
    const int      share = tr__job_change_share(job);
    tr_ticket      ticket = 0;

    for (int i = 0; i < params->count; i++) {
        tr_tensor *param = params->item[i], *base = bases->item[i];
        TR_TRY(check_pair(param, base, tr_run_in_name(io, PARAM, i)));
        if (param->dtype == TR_FP32)
            change_f32(base->data, param->data, tr_tensor_count(param), share);
        else
            change_f64(base->data, param->data, tr_tensor_count(param), share);
    }
    TR_TRY(each_param(job, io, bases, block, push));
    TR_TRY(tr__job_push_changes(job));
    TR_TRY(tr_job_step_end(job, &ticket));
    TR_TRY(tr_job_wait(job, ticket));
    TR_TRY(each_param(job, io, params, block, tr__comm_pull));
    TR_TRY(tr_job_wait(job, tr_job_last_ticket(job)));
    for (int i = 0; i < params->count; i++)
        memcpy(bases->item[i]->data, params->item[i]->data, (size_t)tr_tensor_bytes(params->item[i]));
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const attrs *a = io->attrs;
    int64_t     *count = io->out[COUNT_OUT]->data;
    const int   *block = NULL;
    tr_job      *job;

    TR_TRY(tr__comm_begin(&job, &block, io, a->blocks.count, a->blocks.item, tr_job_find_block));
    if (io->outs[PARAM_OUT].count != io->outs[BASE_OUT].count)
        return tr_fail(TR_EINVAL, "exchange_deltas: %d parameters and %d Base", io->outs[PARAM_OUT].count,
                       io->outs[BASE_OUT].count);
    if (a->period == 0 ? *count == 0 : ++*count < a->period) {
        tr_trainer_meter_pause(job->rank.meter, tr__clock());
        return TR_OK;
    }
    *count = 0;
    TR_TRY(tr__job_note_fetched(job, io, tr__job_step_now(job)));
    return exchange(job, io, block);
}

TR_REGISTER_OP(exchange_deltas, .proto = &proto, .run = run, .has_effect = true, .io = TR_IO_PEERS, .updates = true);
