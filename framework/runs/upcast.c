/* upcast.c - kernels of float32 for tensors that are stored in 16 bits (docs/adr/0030).
 *
 * bfloat16 and float16 are types of storage: nothing is computed in them. tr__run_upcast stands in the tables of kernels
 * for both (op.h). It hands the float32 kernel stand-ins for the arguments of 16 bits: floats that were read from them, and
 * floats that become them. So each operator has one arithmetic, and each result is rounded once. Arguments of other types are
 * handed on as they are. Products round to bfloat16 what they multiply where the key is bfloat16: such factors stay as they are.
 *
 * An operator that works element by element (`is_itemwise`) is run on blocks that stay in the first cache. Of any other one,
 * whole arguments are upcast, into memory that the executor keeps.
 *
 * An output that is a copy of an input (`copies`) gets its bits, and the kernel is not asked for it: widening and rounding would change none.
 *
 * What must stay true: the step's arguments are changed only where the kernel has changed their stand-ins (sequences, rows, a shape
 * that depends on data), and a stand-in of an output is taken back even when the kernel fails. A variable that is input and
 * output has one stand-in. */
#include <assert.h>
#include <string.h>

#include "framework/operators/kernel.h"
#include "framework/runs/frame.h"
#include "framework/tensors/half.h"
#include "framework/threads/precision.h"
#include "framework/threads/threadpool.h"

enum { SLICE_ITEMS = 16384 };         /* numbers that a slice converts at least */

/* -- conversion ------------------------------------------------------------------------------------------------------ */

typedef struct conversion {
    float    *wide;
    uint16_t *narrow;
    tr_dtype  half;
} conversion;

static void upcast_range(void *payload, int64_t begin, int64_t end)
{
    const conversion *c = payload;
    tr__floats_of_half(c->wide + begin, c->narrow + begin, c->half, end - begin);
}

static void downcast_range(void *payload, int64_t begin, int64_t end)
{
    const conversion *c = payload;
    tr__half_of_floats(c->narrow + begin, c->wide + begin, c->half, end - begin);
}

static void upcast(float *out, const uint16_t *x, tr_dtype half, int64_t n)
{
    conversion c = {out, (uint16_t *)(uintptr_t)x, half};
    tr_parallel_range(n, SLICE_ITEMS, upcast_range, &c);
}

static void downcast(uint16_t *out, const float *x, tr_dtype half, int64_t n)
{
    conversion c = {(float *)(uintptr_t)x, out, half};
    tr_parallel_range(n, SLICE_ITEMS, downcast_range, &c);
}

/* -- element by element, in blocks ---------------------------------------------------------------------------------------- */

enum { BLOCK = 2048, MAX_ARGS = 8 };                       /* numbers of a block; arguments of an operator that is run so */

typedef struct blocks {
    const tr_run    *io;
    tr_kernel_fn     kernel;
    tr_tensor *const *arg;
    bool             reads[MAX_ARGS];
} blocks;

/* The same number of elements everywhere, none of them rows of something larger. */
static bool is_cut_anywhere(const tr_run *io, tr_tensor *const *arg)
{
    const tr_step *step = io->step;

    if (!step->op->is_itemwise || step->arg_count > MAX_ARGS || step->in_slots + step->out_slots > MAX_ARGS)
        return false;
    for (int a = 0; a < step->arg_count; a++)
        if (arg[a] && (arg[a]->rows || tr_tensor_count(arg[a]) != tr_tensor_count(arg[0])))
            return false;
    return arg[0] != NULL;
}

/* A block of an argument: a tensor of its rank, so that axes keep their meaning. */
static void init_block(tr_tensor *block, const tr_tensor *whole, float *memory)
{
    tr_tensor_init(block);
    block->shape.rank = whole->shape.rank;
    for (int d = 0; d < whole->shape.rank; d++)
        block->shape.dim[d] = 1;
    block->dtype = tr_dtype_is_half(whole->dtype) ? TR_FP32 : whole->dtype;
    block->data = memory;
}

/* An argument that is not read may have no memory any more. */
static void place_block(tr_tensor *block, const tr_tensor *whole, int64_t at, int64_t size, bool is_input, bool reads)
{
    block->shape.dim[0] = size;
    if (!tr_dtype_is_half(whole->dtype) && (reads || !is_input))
        block->data = (char *)whole->data + at * tr_dtype_size(whole->dtype);
    else if (is_input && reads)
        tr__floats_of_half(block->data, (const uint16_t *)whole->data + at, whole->dtype, size);
}

static void run_blocks(void *payload, int64_t begin, int64_t end)
{
    const blocks  *b = payload;
    const tr_step *step = b->io->step;
    _Alignas(64) float memory[MAX_ARGS][BLOCK];
    tr_tensor      block[MAX_ARGS], *item[MAX_ARGS], *first[MAX_ARGS];
    tr_args        args[MAX_ARGS];
    int            a = 0;

    for (int i = 0; i < step->arg_count; i++) {
        item[i] = b->arg[i] ? &block[i] : NULL;
        if (b->arg[i])
            init_block(&block[i], b->arg[i], memory[i]);
    }
    for (int s = 0; s < step->in_slots + step->out_slots; a += step->count[s++]) {
        args[s] = (tr_args){step->count[s], item + a};
        first[s] = step->count[s] > 0 ? item[a] : NULL;
    }
    tr_run io = *b->io;
    io.in = first;
    io.out = first + step->in_slots;
    io.ins = args;
    io.outs = args + step->in_slots;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t size = end - at < BLOCK ? end - at : BLOCK;
        for (int i = 0; i < step->arg_count; i++)
            if (b->arg[i])
                place_block(&block[i], b->arg[i], at, size, i < step->in_args, b->reads[i]);
        const tr_status status = b->kernel(&io);
        assert(status == TR_OK && "an operator that works element by element does not fail");
        (void)status;
        for (int i = step->in_args; i < step->arg_count; i++)
            if (b->arg[i] && tr_dtype_is_half(b->arg[i]->dtype))
                tr__half_of_floats((uint16_t *)b->arg[i]->data + at, block[i].data, b->arg[i]->dtype, size);
    }
}

/* -- whole arguments ------------------------------------------------------------------------------------------------------ */

/* The arguments of the float32 kernel. The arrays lie in one piece of memory, before the floats. */
typedef struct upcast_call {
    tr_tensor  *stand;                /* of each argument of 16 bits */
    tr_tensor **item, **first;
    tr_args    *args;
    char       *floats;
} upcast_call;

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static bool is_dynamic(const tr_run *io)
{
    const tr_layout *layout = io->frame->layout;
    return !layout || layout->dynamic[io->step - io->frame->plan->step];
}

/* An output whose shape the kernel sets: its stand-in takes its memory, where floats come to lie first. */
static bool is_sized_late(const tr_run *io, int a)
{
    return a >= io->step->in_args && is_dynamic(io) && !tr_shape_is_known(&io->step->infer->meta[a].shape);
}

static size_t floats_of(const tr_run *io, tr_tensor *const *arg, int a)
{
    if (!arg[a] || !tr_dtype_is_half(arg[a]->dtype) || is_sized_late(io, a))
        return 0;
    return round_up((size_t)tr_tensor_count(arg[a]) * sizeof(float));
}

static tr_status get_memory(upcast_call *w, const tr_run *io, tr_tensor *const *arg)
{
    const tr_step *step = io->step;
    const size_t   slots = (size_t)(step->in_slots + step->out_slots), args = (size_t)step->arg_count;
    const size_t   stands = round_up(args * sizeof *w->stand), items = round_up(args * sizeof *w->item);
    const size_t   firsts = round_up(slots * sizeof *w->first), lists = round_up(slots * sizeof *w->args);
    tr_tensor     *memory = &io->frame->plan->workspace->upcast;
    size_t         floats = 0;

    for (int a = 0; a < step->arg_count; a++)
        floats += floats_of(io, arg, a);
    TR_TRY(tr__tensor_grow(memory, stands + items + firsts + lists + floats));
    char *at = memory->data;
    w->stand = (tr_tensor *)(void *)at;
    w->item = (tr_tensor **)(void *)(at += stands);
    w->first = (tr_tensor **)(void *)(at += items);
    w->args = (tr_args *)(void *)(at += firsts);
    w->floats = at + lists;
    return TR_OK;
}

/* The number of an input that is the same variable as argument `a`, or -1. */
static int input_like(const tr_step *step, tr_tensor *const *arg, int a)
{
    for (int i = 0; i < step->in_args; i++)
        if (arg[i] == arg[a])
            return i;
    return -1;
}

/* The memory of inputs follows that of those before; what is not read has none. A stand-in has the argument's sequences and rows:
 * those of an output are handed back by take_back. */
static void stand_in(upcast_call *w, const tr_run *io, tr_tensor *const *arg, int a)
{
    const tr_step *step = io->step;
    const int      twin = a < step->in_args ? -1 : input_like(step, arg, a);
    tr_tensor     *stand = &w->stand[a];

    if (twin >= 0) {
        w->item[a] = w->item[twin];
        return;
    }
    *stand = *arg[a];
    stand->dtype = TR_FP32;
    w->item[a] = stand;
    if (is_sized_late(io, a))
        return;
    stand->buffer = NULL;
    stand->data = w->floats;
    w->floats += floats_of(io, arg, a);
    if (a < step->in_args && tr__step_reads_data(step, a))
        upcast(stand->data, arg[a]->data, arg[a]->dtype, tr_tensor_count(arg[a]));
}

static void fill_tables(upcast_call *w, const tr_run *io, tr_tensor *const *arg)
{
    const tr_step *step = io->step;
    int            a = 0;

    for (int i = 0; i < step->arg_count; i++) {
        w->item[i] = arg[i];
        if (arg[i] && tr_dtype_is_half(arg[i]->dtype))
            stand_in(w, io, arg, i);
    }
    for (int s = 0; s < step->in_slots + step->out_slots; a += step->count[s++]) {
        w->args[s] = (tr_args){step->count[s], w->item + a};
        w->first[s] = step->count[s] > 0 ? w->item[a] : NULL;
    }
}

/* Floats become numbers of 16 bits in the same memory: each block is read before it is written over. */
static void downcast_in_place(void *data, tr_dtype half, int64_t n)
{
    float block[BLOCK];

    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t size = n - at < BLOCK ? n - at : BLOCK;
        memcpy(block, (const float *)data + at, (size_t)size * sizeof *block);
        tr__half_of_floats((uint16_t *)data + at, block, half, size);
    }
}

/* An output has what its stand-in has: the numbers, and what else the kernel has set. */
static void take_back(tr_tensor *out, const tr_tensor *stand, bool is_late, bool is_made)
{
    const tr_dtype half = out->dtype;
    tr_tensor      narrow = *stand;

    if (is_made && is_late)
        downcast_in_place(stand->data, half, tr_tensor_count(stand));
    else if (is_made)
        downcast(out->data, stand->data, half, tr_tensor_count(out));
    if (!is_late) {
        assert(!stand->buffer && "a kernel gives a shape to outputs alone of which inference knew none");
        narrow.buffer = out->buffer;
        narrow.data = out->data;
    }
    *out = narrow;
    out->dtype = half;
}

/* Outputs whose shape depends on data have no type yet, but inference knows it. */
static void set_types(const tr_run *io, tr_tensor *const *arg)
{
    const tr_step *step = io->step;

    for (int a = step->in_args; step->infer && a < step->arg_count; a++) {
        const tr_dtype dtype = step->infer->meta[a].dtype;
        if (arg[a] && tr_dtype_is_half(dtype) && arg[a]->dtype != dtype) {
            tr__tensor_forget(arg[a]);
            arg[a]->dtype = dtype;
            arg[a]->shape = TR_SHAPE(0);
        }
    }
}

static tr_status run_whole(const tr_run *io, tr_kernel_fn kernel, tr_tensor *const *arg)
{
    const tr_step *step = io->step;
    upcast_call        w = {0};
    tr_run         wide = *io;

    TR_TRY(get_memory(&w, io, arg));
    fill_tables(&w, io, arg);
    wide.in = w.first;
    wide.out = w.first + step->in_slots;
    wide.ins = w.args;
    wide.outs = w.args + step->in_slots;
    wide.is_upcast = true;
    const tr_status status = kernel(&wide);
    for (int a = step->in_args; a < step->arg_count; a++)
        if (arg[a] && w.item[a] != arg[a])
            take_back(arg[a], w.item[a], is_sized_late(io, a), status == TR_OK);
    return status;
}

/* -- copies --------------------------------------------------------------------------------------------------------------- */

/* The only argument of a slot, counted over all slots; -1: there is none, or there are several. */
static int only_arg(const tr_step *step, int slot)
{
    int a = 0;

    for (int s = 0; s < slot; s++)
        a += step->count[s];
    return step->count[slot] == 1 ? a : -1;
}

typedef struct bits { char *to; const char *from; } bits;

static void copy_range(void *payload, int64_t begin, int64_t end)
{
    const bits *b = payload;
    memcpy(b->to + begin * 2, b->from + begin * 2, (size_t)(end - begin) * 2);
}

/* Make the outputs that are copies. In `kept`, the arguments that the kernel is to see, they are missing from then on. Return whether any output is left. */
static bool copy_outputs(tr_tensor **kept, const tr_run *io)
{
    const tr_step *step = io->step;
    bool           is_any_left = false;

    for (int k = 0; k < step->op->copy_count && !is_dynamic(io); k++) {
        const int        in = only_arg(step, step->op->copies[k].in), out = only_arg(step, step->in_slots + step->op->copies[k].out);
        const tr_tensor *from = in >= 0 ? kept[in] : NULL, *to = out >= 0 ? kept[out] : NULL;
        if (!from || !to || from->rows || from->dtype != to->dtype || !tr_dtype_is_half(to->dtype) || tr_tensor_count(from) != tr_tensor_count(to))
            continue;
        bits b = {to->data, from->data};
        if (b.to != b.from)
            tr_parallel_range(tr_tensor_count(to), SLICE_ITEMS, copy_range, &b);
        kept[out] = NULL;
    }
    for (int a = step->in_args; a < step->arg_count; a++)
        is_any_left |= kept[a] != NULL;
    return is_any_left;
}

/* -- the kernel ------------------------------------------------------------------------------------------------------------ */

static tr_dtype key_type(const tr_run *io, tr_tensor *const *arg)
{
    int from, to;

    tr__kernel_key_args(&from, &to, io->step->op, io->step->count);
    while (from < to - 1 && !arg[from])
        from++;
    return arg[from]->dtype;
}

tr_status tr__run_upcast(const tr_run *io)
{
    const tr_step      *step = io->step;
    tr_tensor *const   *arg = io->frame->arg + step->first_arg;
    const tr_kernel_fn  kernel = step->op->kernels.of[TR_FP32];
    tr_status           status = TR_OK;
    tr_tensor          *kept[MAX_ARGS];

    set_types(io, arg);
    if (step->op->copy_count > 0 && step->arg_count <= MAX_ARGS) {
        memcpy(kept, arg, (size_t)step->arg_count * sizeof *kept);
        if (!copy_outputs(kept, io))
            return TR_OK;
        arg = kept;
    }
    const tr_precision precision = tr__precision_enter(key_type(io, arg) == TR_BF16 ? TR_PRECISION_BFLOAT16 : TR_PRECISION_FLOAT32);
    if (is_cut_anywhere(io, arg)) {
        blocks b = {io, kernel, arg, {false}};
        for (int a = 0; a < step->in_args; a++)
            b.reads[a] = tr__step_reads_data(step, a);
        tr_parallel_range(tr_tensor_count(arg[0]), SLICE_ITEMS, run_blocks, &b);
    } else {
        status = run_whole(io, kernel, arg);
    }
    tr__precision_enter(precision);
    return status;
}
