/* call.c - see call.h. */
#include "framework/runs/call.h"

#include <stdatomic.h>
#include <string.h>

#include "framework/base/status.h"
#include "framework/operators/infer.h"
#include "framework/runs/frame.h"

struct tr_call {
    const tr_run *io;
    int64_t       number;
    int           in, like, out;
    bool         *filled;             /* per output */
    tr_status     refused;            /* what tr_call_output has returned last */
};

static _Atomic(tr_call_fn) call_fn;
static _Thread_local bool  is_running;

void tr_set_call_fn(tr_call_fn fn)
{
    atomic_store(&call_fn, fn);
}

bool tr__call_is_running(void)
{
    return is_running;
}

tr_status tr_call_fail(const char *text)
{
    return tr_fail(TR_EINVAL, "%s", text);
}

tr_status tr_call_refused(const tr_call *call, const char *line)
{
    return tr_context(call->refused, "%s", line);
}

/* -- what the function asks ------------------------------------------------------------------------------- */

int64_t tr_call_number(const tr_call *call)        { return call->number; }
int     tr_call_input_count(const tr_call *call)   { return call->io->ins[call->in].count; }
int     tr_call_output_count(const tr_call *call)  { return call->io->outs[call->out].count; }

const tr_tensor *tr_call_input(const tr_call *call, int index)
{
    return call->io->ins[call->in].item[index];
}

bool tr_call_wants(const tr_call *call, int index)
{
    return call->io->outs[call->out].item[index] != NULL;
}

/* An output as the program declares it. */
static tr_meta declared(const tr_call *call, int index)
{
    const tr_args *like = &call->io->ins[call->like];

    if (like->count > 0)
        return tr_meta_dense(like->item[index]->dtype, like->item[index]->shape);
    const tr_step *step = call->io->step;
    int            at = step->in_args;
    for (int slot = 0; slot < call->out; slot++)
        at += step->count[step->in_slots + slot];
    const tr_var_desc *desc = call->io->frame->plan->var[step->arg[at + index]].desc;
    return desc ? tr__meta_of_desc(desc) : tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
}

tr_dtype tr_call_output_dtype(const tr_call *call, int index)
{
    return tr_call_wants(call, index) ? declared(call, index).dtype : TR_DTYPE_NONE;
}

static tr_status check_result(const tr_call *call, int index, tr_dtype dtype, const tr_shape *shape)
{
    const char   *type = call->io->step->op->type, *name = tr_run_out_name(call->io, call->out, index);
    const tr_meta want = declared(call, index);

    if (want.dtype != TR_DTYPE_NONE && dtype != want.dtype)
        return tr_fail(TR_EDTYPE, "%s: output %d ('%s') must be %s, as the program declares it; the function has returned %s %s", type, index,
                       name, tr_dtype_name(want.dtype), tr_dtype_name(dtype), TR_SHAPE_STR(*shape));
    if (want.shape.rank > 0 && !tr_shape_fits(&want.shape, shape))
        return tr_fail(TR_ESHAPE, "%s: output %d ('%s') must be %s, as the program declares it; the function has returned %s", type, index,
                       name, TR_SHAPE_STR(want.shape), TR_SHAPE_STR(*shape));
    return TR_OK;
}

static tr_status give_output(tr_tensor **out, tr_call *call, int index, tr_dtype dtype, int rank, const int64_t *dims)
{
    const char *type = call->io->step->op->type;
    tr_shape    shape = {.rank = rank};

    if (index < 0 || index >= tr_call_output_count(call) || !tr_call_wants(call, index))
        return tr_fail(TR_EINVAL, "%s: there is no output %d to fill", type, index);
    if (rank < 1 || rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: the function has returned an array of %d dimensions for output %d; 1 to %d are possible", type, rank,
                       index, TR_MAX_RANK);
    for (int i = 0; i < rank; i++)
        shape.dim[i] = dims[i];
    TR_TRY(check_result(call, index, dtype, &shape));
    tr_tensor *tensor = call->io->outs[call->out].item[index];
    if (!tensor->data || tensor->dtype != dtype || !tr_shape_equal(&tensor->shape, &shape))
        TR_TRY(tr_run_resize(call->io, call->out, index, dtype, &shape));
    call->filled[index] = true;
    *out = tensor;
    return TR_OK;
}

tr_status tr_call_output(tr_tensor **out, tr_call *call, int index, tr_dtype dtype, int rank, const int64_t *dims)
{
    return call->refused = give_output(out, call, index, dtype, rank, dims);
}

/* -- the call --------------------------------------------------------------------------------------------------- */

/* An output like an input is a gradient: nothing is zeros. */
static tr_status fill_zeros(tr_call *call, int index)
{
    const tr_meta want = declared(call, index);
    tr_tensor    *out;

    TR_TRY(tr_call_output(&out, call, index, want.dtype, want.shape.rank, want.shape.dim));
    memset(out->data, 0, (size_t)tr_tensor_bytes(out));
    return TR_OK;
}

static tr_status fill_others(tr_call *call)
{
    for (int i = 0; i < tr_call_output_count(call); i++)
        if (!tr_call_wants(call, i) || call->filled[i])
            continue;
        else if (call->io->ins[call->like].count > 0)
            TR_TRY(fill_zeros(call, i));
        else
            return tr_fail(TR_EINVAL, "%s: the function has returned nothing for output %d ('%s')", call->io->step->op->type, i,
                           tr_run_out_name(call->io, call->out, i));
    return TR_OK;
}

tr_status tr__call_run(const tr_run *io, int64_t number, int in, int like, int out)
{
    const tr_call_fn fn = atomic_load(&call_fn);
    tr_call          call = {.io = io, .number = number, .in = in, .like = like, .out = out};

    if (!fn)
        return tr_fail(TR_EUNSUPPORTED, "%s: it calls function %lld of the process that has made the program; this process has none", io->step->op->type,
                       (long long)number);
    TR_TRY(tr_run_scratch((void **)&call.filled, io, (size_t)io->outs[out].count + 1));
    for (int i = 0; i < io->outs[out].count; i++)
        call.filled[i] = false;
    is_running = true;
    const tr_status status = fn(&call);
    is_running = false;
    TR_TRY(status);
    return fill_others(&call);
}
