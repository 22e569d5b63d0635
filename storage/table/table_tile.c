#include "storage/table/table_tile.h"

#include "framework/base/memory.h"
#include "framework/programs/program.h"
#include "framework/threads/threadpool.h"

#include <stdlib.h>
#include <string.h>

/* Where there are several crews each computes some tiles in a row, so that to hand them over takes little beside. */
enum { MOST_CREWS = 16, TILES = 32 };

/* What one thread computes tiles with. Plans that run at a time have an executor each. */
typedef struct crew {
    tr_scope    *scope;
    tr_executor *executor;
    tr_plan     *plan;
    tr_tensor   *param, *grad, *state[TR_TABLE_STATES];      /* borrowed from the scope */
    tr_status    status;              /* of the first tile of an update that failed */
    int64_t      failed;              /* its first row */
    char        *failure;             /* malloc'ed: its text, which was left in another thread */
} crew;

struct tr_table_tile {
    tr_program *program;
    int64_t     rows, width;
    int64_t     most;                 /* rows of a round */
    int         states, crew_count;
    crew        crew[MOST_CREWS];
    uint32_t   *slots;                /* of the rows of all crews */
};

static void crew_deinit(crew *c)
{
    tr_executor_free(c->executor);
    tr_scope_free(c->scope);
    free(c->failure);
}

void tr_table_tile_free(tr_table_tile *tile)
{
    if (!tile)
        return;
    for (int i = 0; i < tile->crew_count; i++)
        crew_deinit(&tile->crew[i]);
    tr_program_free(tile->program);
    free(tile->slots);
    free(tile);
}

/* == the program =================================================================================== */

/* Does this variable outlive a run of the operators? Rows do, and numbers from outside. */
static bool is_kept(const tr_table_tile_names *names, const tr_block *from, const tr_var_desc *var)
{
    bool is_state = false;

    for (int i = 0; i < names->states.count; i++)
        is_state |= !strcmp(names->states.item[i], var->name);
    return is_state || var->block != from || !strcmp(var->name, names->param) || !strcmp(var->name, names->grad);
}

/* Declare the operator's variables as they are declared in the block or in a block around it. */
static tr_status declare(tr_table_tile *tile, tr_block *from, const tr_table_tile_names *names, const tr_slot *slots, int count)
{
    tr_block *to = tr_program_block(tile->program, 0);

    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            const char        *name = slots[s].arg[i];
            const tr_var_desc *known = tr_block_find_var_recursive(from, name);
            if (!known)
                return tr_fail(TR_ENOTFOUND, "lookup_sparse_table_update: its block names '%s', which is declared nowhere", name);
            tr_var_desc *var = tr__block_var(to, name);
            tr_var_desc_set_kind(var, TR_KIND_TENSOR);
            tr_var_desc_set_dtype(var, known->dtype);
            TR_TRY(tr_var_desc_set_shape(var, known->shape.rank, known->shape.dim));
            tr_var_desc_set_persistable(var, is_kept(names, from, known));
        }
    return TR_OK;
}

static tr_status copy_ops(tr_table_tile *tile, tr_block *from, const tr_table_tile_names *names)
{
    for (int i = 0; i < from->op_count; i++) {
        const tr_op_desc *op = from->op[i];
        TR_TRY(declare(tile, from, names, op->in, op->in_count));
        TR_TRY(declare(tile, from, names, op->out, op->out_count));
        tr_op_desc *copy = tr__op_desc_clone(op);
        const tr_status status = tr_block_insert_op(tr_program_block(tile->program, 0), -1, copy);
        if (status != TR_OK) {
            tr_op_desc_free(copy);
            return status;
        }
    }
    return TR_OK;
}

/* Variables that outlive a run of the tile have memory in the scope. */
static tr_status make_scope(tr_scope *scope, tr_block *block)
{
    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *var = tr_block_var_at(block, i);
        if (!var->persistable)
            continue;
        tr_tensor *t = tr_var_tensor(tr__scope_var(scope, var->name));
        if (!tr_shape_is_known(&var->shape))
            return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' of its block has no fixed shape", var->name);
        TR_TRY(tr_tensor_resize(t, var->dtype, var->shape.rank, var->shape.dim));
        memset(t->data, 0, (size_t)tr_tensor_bytes(t));
    }
    return TR_OK;
}

static tr_status find_tile(tr_tensor **out, const tr_table_tile *tile, tr_scope *scope, const char *name)
{
    tr_var *var = tr_scope_find_local(scope, name);

    if (!var)
        return tr_fail(TR_ENOTFOUND, "lookup_sparse_table_update: no operator of its block uses '%s'", name);
    tr_tensor *t = *out = tr_var_tensor(var);
    if (t->dtype != TR_FP32 || t->shape.rank != 2 || t->shape.dim[1] != tile->width || (tile->rows && t->shape.dim[0] != tile->rows))
        return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' is %s %s; float32 [rows, %lld], with equal rows for all, is expected",
                       name, tr_dtype_name(t->dtype), TR_SHAPE_STR(t->shape), (long long)tile->width);
    return TR_OK;
}

static tr_status make_crew(crew *c, tr_table_tile *tile, const tr_table_tile_names *names)
{
    c->scope = tr_scope_new(NULL);
    c->executor = tr_executor_new();
    TR_TRY(make_scope(c->scope, tr_program_block(tile->program, 0)));
    TR_TRY(find_tile(&c->param, tile, c->scope, names->param));
    tile->rows = c->param->shape.dim[0];
    TR_TRY(find_tile(&c->grad, tile, c->scope, names->grad));
    for (int i = 0; i < tile->states; i++)
        TR_TRY(find_tile(&c->state[i], tile, c->scope, names->states.item[i]));
    return tr_executor_prepare(&c->plan, c->executor, tile->program, c->scope, 0, NULL, 0, NULL);
}

static tr_status make(tr_table_tile *tile, tr_block *block, const tr_table_tile_names *names, const tr_table_config *config)
{
    const int threads = tr_num_threads(), crews = threads < MOST_CREWS ? threads : MOST_CREWS;

    tile->program = tr_program_new();
    tile->width = config->width;
    tile->states = config->states;
    if (names->states.count != config->states)
        return tr_fail(TR_EINVAL, "lookup_sparse_table_update: the optimizer of '%s' keeps %d states for each element, the table has room for "
                       "%d: run the startup program after minimize", names->param, names->states.count, config->states);
    TR_TRY(copy_ops(tile, block, names));
    for (int i = 0; i < crews; i++) {
        tile->crew_count++;
        TR_TRY(make_crew(&tile->crew[i], tile, names));
    }
    tile->most = crews > 1 ? tile->rows * TILES * crews : tile->rows;
    tile->slots = malloc((size_t)tile->most * sizeof *tile->slots);
    return tile->slots ? TR_OK : tr_fail(TR_ENOMEM, "lookup_sparse_table_update: no memory for %lld rows", (long long)tile->most);
}

tr_status tr_table_tile_new(tr_table_tile **out, tr_program *program, int block, const tr_table_tile_names *names,
                            const tr_table_config *config)
{
    tr_block *from = tr_program_block(program, block);

    if (!from)
        return tr_fail(TR_EFORMAT, "lookup_sparse_table_update: attribute sub_block names no block");
    tr_table_tile *tile = calloc(1, sizeof *tile);
    if (!tile)
        return tr_fail(TR_ENOMEM, "lookup_sparse_table_update: no memory");
    const tr_status status = make(tile, from, names, config);
    if (status == TR_OK)
        *out = tile;
    else
        tr_table_tile_free(tile);
    return status;
}

static tr_status set_number(tr_scope *scope, const char *name, const tr_tensor *value)
{
    tr_var *var = tr_scope_find_local(scope, name);

    if (!var)
        return TR_OK;                                  /* no operator that is needed reads this number */
    tr_tensor *t = tr_var_tensor(var);
    if (tr_tensor_bytes(t) != tr_tensor_bytes(value) || t->dtype != value->dtype)
        return tr_fail(TR_ESHAPE, "lookup_sparse_table_update: '%s' is %s %s, its block has %s %s", name, tr_dtype_name(value->dtype),
                       TR_SHAPE_STR(value->shape), tr_dtype_name(t->dtype), TR_SHAPE_STR(t->shape));
    memcpy(t->data, value->data, (size_t)tr_tensor_bytes(t));
    return TR_OK;
}

tr_status tr_table_tile_set(tr_table_tile *tile, const char *name, const tr_tensor *value)
{
    for (int i = 0; i < tile->crew_count; i++)
        TR_TRY(set_number(tile->crew[i].scope, name, value));
    return TR_OK;
}

/* == an update ===================================================================================== */

/* Tiles that crews compute at the same time. Their keys differ, so no two of them have a row in common. */
typedef struct round {
    tr_table_tile *tile;
    tr_table      *table;
    const float   *grads;
    int64_t        first;             /* row of the update */
    int64_t        count, share;      /* rows of all crews, and of each but the last */
} round;

static tr_status run_tile(const tr_table_tile *tile, const crew *c, tr_table *table, const uint32_t *slots, const float *grads, int64_t n)
{
    const size_t row = (size_t)tile->width * sizeof(float);
    float       *state[TR_TABLE_STATES];
    float       *grad = c->grad->data;

    for (int i = 0; i < tile->states; i++)
        state[i] = c->state[i]->data;
    tr_table_gather(table, slots, n, c->param->data, state);
    memcpy(grad, grads, (size_t)n * row);
    memset(grad + n * tile->width, 0, (size_t)(tile->rows - n) * row);
    TR_TRY(tr_plan_run(c->plan, NULL, NULL));
    for (int i = 0; i < tile->states; i++)
        state[i] = c->state[i]->data;
    tr_table_scatter(table, slots, n, c->param->data, (const float *const *)state);
    return TR_OK;
}

static void run_share(void *payload, int64_t number)
{
    const round         *r = payload;
    const tr_table_tile *tile = r->tile;
    crew                *c = &r->tile->crew[number];
    const int64_t        begin = number * r->share, end = begin + r->share < r->count ? begin + r->share : r->count;

    for (int64_t at = begin; at < end; at += tile->rows) {
        const int64_t   n = end - at < tile->rows ? end - at : tile->rows;
        const tr_status status = run_tile(tile, c, r->table, tile->slots + at, r->grads + at * tile->width, n);
        if (status != TR_OK && c->status == TR_OK) {
            c->status = status;
            c->failed = r->first + at;
            c->failure = tr__must_strdup(tr_error());
        }
    }
}

static void run_round(round *r)
{
    const int64_t tiles = (r->count + r->tile->rows - 1) / r->tile->rows, crews = r->tile->crew_count;
    const int64_t each = (tiles + crews - 1) / crews, used = (tiles + each - 1) / each;

    r->share = each * r->tile->rows;
    tr_parallel(used, run_share, r);
}

static void forget_failures(tr_table_tile *tile)
{
    for (int i = 0; i < tile->crew_count; i++) {
        free(tile->crew[i].failure);
        tile->crew[i].failure = NULL;
        tile->crew[i].status = TR_OK;
    }
}

static tr_status first_failure(const tr_table_tile *tile)
{
    const crew *first = NULL;

    for (int i = 0; i < tile->crew_count; i++) {
        const crew *c = &tile->crew[i];
        if (c->status != TR_OK && (!first || c->failed < first->failed))
            first = c;
    }
    return first ? tr_fail(first->status, "%s", first->failure) : TR_OK;
}

tr_status tr_table_tile_begin(tr_table *table, uint64_t step)
{
    TR_TRY(tr_table_evict(table, step - 1, NULL));
    return tr_table_begin(table, step);
}

/* One round at a time, first find the places, then read the values: the second access finds the rows in the cache. A tile that fails keeps
 * its rows as they were, and the others are computed all the same: what a failed update leaves depends on no number of threads. */
tr_status tr_table_tile_run(tr_table_tile *tile, tr_table *table, const int64_t *keys, const uint32_t *hints, const float *grads,
                            int64_t n)
{
    forget_failures(tile);
    for (int64_t at = 0; at < n; at += tile->most) {
        round now = {tile, table, grads + at * tile->width, at, n - at < tile->most ? n - at : tile->most, 0};
        TR_TRY(hints ? tr_table_take_hinted(table, tile->slots, hints + at, keys + at, now.count)
                     : tr_table_take(table, tile->slots, keys + at, now.count));
        TR_TRY(tr_table_keep(table, tile->slots, now.count));
        run_round(&now);
    }
    return first_failure(tile);
}
