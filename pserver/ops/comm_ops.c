/* comm_ops.c - the operators by which a program talks to the servers: send, send_barrier, recv, fetch_barrier, and listen_and_serv, which
 * is a server's whole program.
 *
 * They use the job in which their run takes part (tr_executor_set_job), and name blocks as tr_job_setup was told. `send` pushes and
 * returns; `send_barrier` ends the step. `recv` asks and returns. `fetch_barrier` waits; or it lets the program return, and then the next
 * run has a `recv_wait` before the first reader of each parameter. Operators in between overlap with the transfer. Fluid's endpoints are
 * accepted and ignored, because blocks know their servers.
 *
 * What must stay true: `send` copies a gradient unless the program promises, by zero_copy, not to touch its memory until the servers have
 * applied the step. That is until a waiting send_barrier or fetch_barrier lists the gradient in X. A persistable gradient stays untouched
 * until it is written after a recv_wait. */
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_compress.h"
#include "pserver/api/job_fetched.h"
#include "pserver/api/job_finite.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_send.h"
#include "pserver/api/job_sets.h"
#include "pserver/ops/comm_ops.h"

#include <pthread.h>

/* == names to blocks =========================================================================== */

tr_status tr__comm_find_job(tr_job **out, const tr_run *io)
{
    *out = tr_run_job(io);
    return *out ? TR_OK
                : tr_fail(TR_EINVAL,
                          "%s: this run takes part in no job: trireme launch starts one, and in C tr_job_start, tr_executor_set_job",
                          tr_run_op_type(io));
}

typedef struct notes {
    const tr_job *job;
    int           number[];
} notes;

tr_status tr__comm_begin(tr_job **out, const int **numbers, const tr_run *io, int count, const char *const *names,
                         int (*find)(const tr_job *job, const char *name))
{
    notes *noted;

    TR_TRY(tr__comm_find_job(out, io));
    TR_TRY(tr_run_notes((void **)&noted, io, sizeof *noted + (size_t)count * sizeof *noted->number));
    for (int i = 0; noted->job != *out && i < count; i++)
        if ((noted->number[i] = find(*out, names[i])) < 0)
            return tr_fail(TR_ENOTFOUND, "%s: no server has a %s '%s'", tr_run_op_type(io), find == tr_job_find_table ? "table" : "block",
                           names[i]);
    noted->job = *out;
    *numbers = noted->number;
    return TR_OK;
}

tr_status tr__comm_each_block(const tr_run *io, tr_job *job, const tr_tensor *whole, int64_t count, const int *blocks, tr__slice_fn act)
{
    const int64_t size = tr_tensor_bytes(whole);
    int64_t       at = 0;

    for (int i = 0; i < count; i++) {
        const tr__slice slice = {whole, blocks[i], i, (char *)whole->data + at, tr_job_block_bytes(job, blocks[i])};
        if (slice.bytes > size - at)
            return tr_fail(TR_ESHAPE, "%s: block '%s' has %lld bytes, but only %lld of %lld are left of the tensor", tr_run_op_type(io),
                           job->blocks.item[blocks[i]].param, (long long)slice.bytes, (long long)(size - at), (long long)size);
        at += slice.bytes;
        TR_TRY(act(io, job, &slice));
    }
    return at == size ? TR_OK
                      : tr_fail(TR_ESHAPE, "%s: a tensor has %lld bytes, its blocks, from '%s' on, %lld", tr_run_op_type(io),
                                (long long)size, count ? job->blocks.item[blocks[0]].param : "none", (long long)at);
}

tr_status tr__comm_pull(const tr_run *io, tr_job *job, const tr__slice *slice)
{
    void *to = slice->memory;

    (void)io;
    return tr_job_pull(job, 1, &slice->block, &to, NULL);
}

/* == send ======================================================================================= */

enum { X };                           /* the slot of the inputs, the same in all operators of this file */
enum { OUT };

/* One tensor may be cut into the blocks of several names. */
static int parts_of(const tr_args *tensors, const tr_strings *names)
{
    return tensors->count == 1 && names->count > 1 ? names->count : 1;
}

/* Begin with the blocks of the first slot's tensors: those of the operator's names, or else of the tensors' names. */
static tr_status begin_with_blocks(tr_job **job, const int **blocks, const tr_run *io, const tr_args *tensors, const tr_strings *names,
                                   const char *(*name_of)(const tr_run *io, int slot, int index))
{
    const int count = tensors->count * parts_of(tensors, names);
    void     *own = NULL;

    if (names->count && names->count != count)
        return tr_fail(TR_EINVAL, "%s: %d names for %d tensors", tr_run_op_type(io), names->count, tensors->count);
    if (names->count)
        return tr__comm_begin(job, blocks, io, count, names->item, tr_job_find_block);
    TR_TRY(tr_run_scratch(&own, io, (size_t)count * sizeof(char *)));
    for (int i = 0; i < count; i++)
        ((const char **)own)[i] = name_of(io, 0, i);
    return tr__comm_begin(job, blocks, io, count, own, tr_job_find_block);
}

typedef struct send_attrs {
    tr_strings send_varnames;
    tr_longs   sections;
    bool       zero_copy;
} send_attrs;

static const tr_op_proto send_proto = {
    .doc = "Pushes gradients to the servers, each under its block's name. One X and several names: X is cut into the "
           "blocks, in order. Returns before the data has left; send_barrier ends the step.",
    .in = TR_SLOTS({"X", "[...] float; the gradients", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .out = TR_SLOTS({"Out", "orders operators; never written", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(send_attrs, send_varnames, STRINGS, "blocks; none: those of the names of X"),
                     TR_ATTR(send_attrs, sections, LONGS, "rows of each block, for a check; none: as the servers know"),
                     TR_ATTR(send_attrs, zero_copy, BOOL, "X stays untouched until the servers have applied the step, so it is not copied"),
                     TR_ATTR_IGNORED("epmap", STRINGS), TR_ATTR_IGNORED("sync_mode", INT),
                     TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("num", INT)),
    .attrs_size = sizeof(send_attrs),
};

static tr_status push(const tr_run *io, tr_job *job, const tr__slice *slice)
{
    const send_attrs *a = io->attrs;
    const int64_t rows = slice->whole->shape.rank ? slice->whole->shape.dim[0] : 0, row = rows ? tr_tensor_bytes(slice->whole) / rows : 0;
    char             *from = slice->memory;

    if (slice->part < a->sections.count && a->sections.item[slice->part] * row != slice->bytes)
        return tr_fail(TR_ESHAPE, "send: section %d of %lld rows has %lld bytes, block '%s' %lld", slice->part,
                       (long long)a->sections.item[slice->part], (long long)(a->sections.item[slice->part] * row),
                       job->blocks.item[slice->block].param, (long long)slice->bytes);
    /* Compression reads a gradient at once. */
    if (!a->zero_copy && (!tr__job_compresses(job, slice->block) || tr__job_holds_gradients(job)))
        TR_TRY(tr__job_stage(&from, job, slice->block, from));
    return tr_job_push(job, slice->block, from, slice->bytes, tr_job_weight(job), NULL);
}

static tr_status run_send(const tr_run *io)
{
    const send_attrs *a = io->attrs;
    const tr_args    *x = &io->ins[X];
    const int        *block = NULL;
    tr_job           *job;

    TR_TRY(begin_with_blocks(&job, &block, io, x, &a->send_varnames, tr_run_in_name));
    for (int i = 0; i < x->count; i++) {
        if (x->item[i]->rows)
            return tr_fail(TR_EUNSUPPORTED, "send: '%s' has selected rows; the servers take dense gradients", tr_run_in_name(io, X, i));
        TR_TRY(tr__comm_each_block(io, job, x->item[i], parts_of(x, &a->send_varnames), block + i, push));
    }
    return TR_OK;
}

/* == recv ======================================================================================= */

typedef struct recv_attrs {
    tr_strings recv_varnames;
    bool       with_barrier, do_not_run;
} recv_attrs;

static const tr_op_proto recv_proto = {
    .doc = "Fetches parameters from the servers into Out, as they are after the last step. One Out and several names: the "
           "blocks lie in Out one after the other.",
    .in = TR_SLOTS({"X", "orders operators; not read", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "[...] float; the parameters, with their shapes", TR_SLOT_REPEATED}),
    .attr = TR_ATTRS(TR_ATTR(recv_attrs, recv_varnames, STRINGS, "blocks; none: those of the names of Out"),
                     TR_ATTR(recv_attrs, with_barrier, BOOL, "a fetch_barrier follows, which waits", .number = 1),
                     TR_ATTR(recv_attrs, do_not_run, BOOL, "do nothing"),
                     TR_ATTR_IGNORED("varnames", STRINGS), TR_ATTR_IGNORED("epmap", STRINGS),
                     TR_ATTR_IGNORED("sync_mode", INT), TR_ATTR_IGNORED("trainer_id", INT)),
    .attrs_size = sizeof(recv_attrs),
};

static tr_status run_recv(const tr_run *io)
{
    const recv_attrs *a = io->attrs;
    const tr_args    *out = &io->outs[OUT];
    const int        *block = NULL;
    tr_job           *job;

    if (a->do_not_run)
        return TR_OK;
    TR_TRY(begin_with_blocks(&job, &block, io, out, &a->recv_varnames, tr_run_out_name));
    for (int i = 0; i < out->count; i++) {
        if (!out->item[i]->data)
            return tr_fail(TR_EINVAL, "recv: '%s' has no memory yet: run the startup program first", tr_run_out_name(io, OUT, i));
        TR_TRY(tr__comm_each_block(io, job, out->item[i], parts_of(out, &a->recv_varnames), block + i, tr__comm_pull));
    }
    return a->with_barrier ? TR_OK : tr_job_wait(job, tr_job_last_ticket(job));
}

/* == barriers =================================================================================== */

typedef struct send_barrier_attrs {
    bool waits;
} send_barrier_attrs;

static const tr_op_proto send_barrier_proto = {
    .doc = "Ends the step: all gradients were pushed. Returns when the servers have applied this trainer's.",
    .in = TR_SLOTS({"X", "any; kept untouched until here", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "orders operators; never written", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(send_barrier_attrs, waits, BOOL, "false: return at once; a fetch_barrier follows, which lists X, too",
                             .number = 1),
                     TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("endpoints", STRINGS)),
    .attrs_size = sizeof(send_barrier_attrs),
};

static tr_status run_send_barrier(const tr_run *io)
{
    const send_barrier_attrs *a = io->attrs;
    tr_job                   *job;
    tr_ticket                 ticket = 0;

    TR_TRY(tr__comm_find_job(&job, io));
    TR_TRY(tr__job_note_fetched(job, io, tr__job_step_now(job)));
    TR_TRY(tr_job_step_end(job, &ticket));
    return a->waits ? tr_job_wait(job, ticket) : TR_OK;
}

typedef struct fetch_barrier_attrs {
    bool waits;
} fetch_barrier_attrs;

static const tr_op_proto fetch_barrier_proto = {
    .doc = "Returns when all that recv asked for is here.",
    .in = TR_SLOTS({"X", "any; kept untouched until here", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "the parameters; orders operators", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(fetch_barrier_attrs, waits, BOOL, "false: return at once, if nobody else looks at the memory of Out; a "
                             "recv_wait stands before each first reader", .number = 1),
                     TR_ATTR_IGNORED("trainer_id", INT), TR_ATTR_IGNORED("endpoints", STRINGS)),
    .attrs_size = sizeof(fetch_barrier_attrs),
};

/* Does another object share the memory of an output, such as an array of NumPy? Such an object reads the memory without a wait. */
static bool is_looked_at(const tr_args *out)
{
    for (int i = 0; i < out->count; i++)
        if (!tr__tensor_is_sole_owner(out->item[i]))
            return true;
    return false;
}

static tr_status run_fetch_barrier(const tr_run *io)
{
    const fetch_barrier_attrs *a = io->attrs;
    tr_job                    *job;

    TR_TRY(tr__comm_find_job(&job, io));
    if (!a->waits && !is_looked_at(&io->outs[OUT])) {
        TR_TRY(tr_job_flush(job));
        return tr__job_sets_renew(job);
    }
    TR_TRY(tr_job_wait(job, tr_job_last_ticket(job)));
    TR_TRY(tr__job_sets_renew(job));
    tr__job_sets_arrived(job);
    return TR_OK;
}

/* == recv_wait ==================================================================================== */

typedef struct recv_wait_attrs {
    tr_strings recv_varnames;
} recv_wait_attrs;

static const tr_op_proto recv_wait_proto = {
    .doc = "Returns when these parameters, which recv has asked for in the run before, are here.",
    .in = TR_SLOTS({"X", "the parameters; their readers come after this operator", TR_SLOT_REPEATED | TR_SLOT_ROWS}),
    .attr = TR_ATTRS(TR_ATTR(recv_wait_attrs, recv_varnames, STRINGS, "all blocks of X")),
    .attrs_size = sizeof(recv_wait_attrs),
};

static tr_status run_recv_wait(const tr_run *io)
{
    const recv_wait_attrs *a = io->attrs;
    const int             *block = NULL;
    tr_job                *job;

    TR_TRY(tr__comm_begin(&job, &block, io, a->recv_varnames.count, a->recv_varnames.item, tr_job_find_block));
    for (int i = 0; i < a->recv_varnames.count; i++)
        TR_TRY(tr__job_await_block(job, block[i]));
    return TR_OK;
}

/* == send_sets ==================================================================================== */

static const tr_op_proto send_sets_proto = {
    .doc = "Begins a step: sends the servers what the script has set since the step before, such as a learning rate or a parameter.",
};

static tr_status run_send_sets(const tr_run *io)
{
    tr_job *job;

    TR_TRY(tr__comm_find_job(&job, io));
    return tr__job_sets_send(job);
}

/* == listen_and_serv ============================================================================= */

static const tr_op_proto listen_proto = {
    .doc = "Serves until every trainer has said goodbye. What is to be done comes from the trainers, as for trireme-pserver; "
           "the attributes by which Fluid says it are accepted and have no effect.",
    .in = TR_SLOTS({"X", "not read", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    .attr = TR_ATTRS(TR_ATTR_IGNORED("endpoint", STRING), TR_ATTR_IGNORED("grad_to_block_id", STRINGS),
                     TR_ATTR_IGNORED("sync_mode", BOOL, .number = 1),
                     TR_ATTR_ONLY("dc_asgd", BOOL, "start the job in mode async(compensation=...)"),
                     TR_ATTR_IGNORED("optimize_blocks", BLOCKS), TR_ATTR_IGNORED("prefetch_var_name_to_block_id", STRINGS),
                     TR_ATTR_IGNORED("sparse_grad_to_param", STRINGS), TR_ATTR_IGNORED("Fanin", INT, .number = 1),
                     TR_ATTR_IGNORED("checkpint_block_id", INT, .number = -1)),
};

static tr_status run_listen(const tr_run *io)
{
    tr_job *job = tr_run_job(io);

    if (!job)
        TR_TRY(tr_job_start(&job, TR_ROLE_SERVER, NULL));
    const tr_status served = tr_job_serve(job);
    const tr_status left = tr_job_free(job);
    return served != TR_OK ? served : left;
}

/* == registration ================================================================================ */

TR_REGISTER_OP(send, .proto = &send_proto, .run = run_send, .has_effect = true, .io = TR_IO_PEERS, .updates = true);
TR_REGISTER_OP(recv, .proto = &recv_proto, .run = run_recv, .has_effect = true, .io = TR_IO_PEERS, .updates = true);
TR_REGISTER_OP(send_barrier, .proto = &send_barrier_proto, .run = run_send_barrier, .has_effect = true, .io = TR_IO_PEERS, .updates = true);
TR_REGISTER_OP(fetch_barrier, .proto = &fetch_barrier_proto, .run = run_fetch_barrier, .has_effect = true, .io = TR_IO_PEERS,
               .updates = true);
TR_REGISTER_OP(recv_wait, .proto = &recv_wait_proto, .run = run_recv_wait, .has_effect = true, .io = TR_IO_PEERS, .awaits = true,
               .updates = true);
TR_REGISTER_OP(send_sets, .proto = &send_sets_proto, .run = run_send_sets, .has_effect = true, .io = TR_IO_PEERS, .awaits = true);
TR_REGISTER_OP(listen_and_serv, .proto = &listen_proto, .run = run_listen, .has_effect = true, .io = TR_IO_PEERS);

TR_DECLARE_OP(exchange_deltas);
TR_DECLARE_OP(expect_rows);
TR_DECLARE_OP(exchange_squares);
TR_DECLARE_OP(keep_variables);
TR_DECLARE_OP(lookup_sparse_table_init);
TR_DECLARE_OP(lookup_sparse_table);
TR_DECLARE_OP(lookup_sparse_table_grad);
TR_DECLARE_OP(lookup_sparse_table_update);
TR_DECLARE_OP(prefetch);
TR_DECLARE_OP(pull_sparse);
TR_DECLARE_OP(push_sparse);
TR_DECLARE_OP(pushed_rows);

static void register_operators(void)
{
    static const tr_op *const records[] = {
        &tr_op_record_send, &tr_op_record_recv, &tr_op_record_send_barrier, &tr_op_record_fetch_barrier, &tr_op_record_recv_wait,
        &tr_op_record_send_sets, &tr_op_record_listen_and_serv, &tr_op_record_exchange_deltas,
        &tr_op_record_exchange_squares, &tr_op_record_expect_rows, &tr_op_record_keep_variables,
        &tr_op_record_lookup_sparse_table_init, &tr_op_record_lookup_sparse_table, &tr_op_record_lookup_sparse_table_grad,
        &tr_op_record_lookup_sparse_table_update, &tr_op_record_prefetch, &tr_op_record_pull_sparse, &tr_op_record_push_sparse,
        &tr_op_record_pushed_rows,
    };
    tr_registry_add(records, (int)(sizeof records / sizeof *records));
}

tr_status tr_dist_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    TR_TRY(tr_init());
    pthread_once(&once, register_operators);
    return TR_OK;
}
