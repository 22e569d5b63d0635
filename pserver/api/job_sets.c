/* job_sets.c - see job_sets.h. */
#include "pserver/api/job_sets.h"

#include "framework/base/memory.h"
#include "framework/tensors/scope.h"
#include "framework/tensors/watched.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_pull.h"
#include "pserver/rank/rank_commands.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one server has of a variable. */
typedef struct part {
    struct part *next;
    int          server, entry;       /* entry: among the blocks and values of the job, for a pull */
    uint32_t     value;               /* number in the Setup of the server */
    int64_t      begin, bytes;        /* the bytes of the trainers' variable */
} part;

/* A variable of which the servers have the value. */
typedef struct owned {
    char     *name;
    tr_dtype  dtype;
    int64_t   bytes;                  /* of the whole variable */
    part     *parts;
    tr_var   *var;                    /* in the scope; NULL: it is not there any more */
    bool      is_pulled;              /* a parameter: each step brings the servers' value */
    bool      is_remote;              /* updates change it, and no step brings it: it is fetched when it is read */
    bool      is_wanted;              /* it is about to be read */
    uint64_t  version;                /* of a remote one: that of the value here */
    bool      is_written, is_touched; /* since the last step; touched: written, or lent */
    uint64_t  digest;                 /* if it is touched: of the value before that */
} owned;

struct tr__job_sets {
    pthread_mutex_t lock;             /* for all that follows: any thread may write a variable */
    tr_scope       *scope;            /* NULL: nobody watches yet */
    tr_watcher      watcher;
    atomic_bool     is_touched;       /* a variable is */
    int             count;
    owned          *var;
    atomic_int      wanted_count;     /* variables that are wanted, by their places in `var` */
    int            *wanted;
    int            *entry;            /* of a pull of them, with the memory for each */
    void          **to;
    tr_map          number_of;        /* name -> place in `var`, plus 1 */
    bool            has_said;         /* a trainer whose values do not count has said so */
};

/* == which variables ============================================================================== */

static owned *variable_of(tr__job_sets *sets, const tr_job *job, const tr_job_value *value)
{
    const intptr_t known = (intptr_t)tr_map_find(&sets->number_of, value->source);

    if (known)
        return &sets->var[known - 1];
    owned *var = &sets->var[sets->count++];
    *var = (owned){
        .name = tr__must_strdup(value->source), .dtype = value->dtype, .is_pulled = tr_map_find(&job->blocks.of, value->name) != NULL};
    tr_map_put(&sets->number_of, var->name, (void *)(intptr_t)sets->count);
    return var;
}

static void add_part(owned *var, const tr_job_value *value, int entry, uint32_t number)
{
    part   *p = tr__must_alloc(sizeof *p);
    int64_t row = tr_dtype_size(value->dtype);

    for (int i = 1; i < value->rank; i++)
        row *= value->dims[i];
    const int64_t rows = value->rank ? value->dims[0] : 1;
    *p = (part){.next = var->parts, .server = value->server, .entry = entry, .value = number, .begin = value->rows ? value->row * row : 0,
                .bytes = rows * row};
    var->parts = p;
    var->bytes = value->rows ? value->rows * row : rows * row;
}

tr_status tr__job_sets_keep(tr_job *job, const tr_job_spec *spec)
{
    tr__job_sets *sets = job->sets = tr__must_alloc(sizeof *sets);
    uint32_t     *number = tr__must_array((size_t)tr_job_servers(job), sizeof *number);       /* of the next value of each server */

    pthread_mutex_init(&sets->lock, NULL);
    sets->var = tr__must_array((size_t)spec->value_count + 1, sizeof *sets->var);
    sets->wanted = tr__must_array((size_t)spec->value_count + 1, sizeof *sets->wanted);
    sets->entry = tr__must_array((size_t)spec->value_count + 1, sizeof *sets->entry);
    sets->to = tr__must_array((size_t)spec->value_count + 1, sizeof *sets->to);
    for (int i = 0; i < spec->value_count; i++) {
        const tr_job_value *value = &spec->values[i];
        if (value->source && !value->for_trainers)
            add_part(variable_of(sets, job, value), value, spec->block_count + i, number[value->server]);
        number[value->server]++;
    }
    free(number);
    return TR_OK;
}

static void free_variable(owned *var)
{
    while (var->parts) {
        part *next = var->parts->next;
        free(var->parts);
        var->parts = next;
    }
    free(var->name);
}

void tr__job_sets_free(tr__job_sets *sets)
{
    if (!sets)
        return;
    tr__watcher_set(NULL);
    for (int i = 0; i < sets->count; i++)
        free_variable(&sets->var[i]);
    free(sets->var);
    free(sets->wanted);
    free(sets->entry);
    free(sets->to);
    tr_map_deinit(&sets->number_of);
    pthread_mutex_destroy(&sets->lock);
    free(sets);
}

/* == who writes =================================================================================== */

/* Another word gives another result. */
static uint64_t mix(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

/* A digest that tells two values apart: four lanes of eight bytes, as fast as memory is read. */
static uint64_t digest_of(const owned *var)
{
    const tr_tensor *tensor = var->var ? tr_var_tensor(var->var) : NULL;
    const int64_t    bytes = tensor && tensor->data ? tr_tensor_bytes(tensor) : 0;
    uint64_t         lane[4] = {tensor ? (uint64_t)tensor->dtype + 2 : 1, (uint64_t)bytes, 3, 4}, word[4], digest = 0;
    int64_t          done = 0;

    for (; done + 32 <= bytes; done += 32) {
        memcpy(word, (const char *)tensor->data + done, 32);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], word[i]);
    }
    memset(word, 0, sizeof word);
    if (bytes > done)
        memcpy(word, (const char *)tensor->data + done, (size_t)(bytes - done));
    for (int i = 0; i < 4; i++)
        digest = mix(digest, mix(lane[i], word[i]));
    return digest;
}

static void touch(void *payload, uint32_t number, bool is_written)
{
    const tr_job *job = tr__weak_object(payload);

    if (!job)
        return;                                            /* it is over, or this is a forked child */
    tr__job_sets *sets = job->sets;
    owned        *var = &sets->var[number - 1];
    const tr_tensor *tensor = tr_var_tensor(var->var);
    (void)tr__pending_wait(tensor->data, tr_tensor_bytes(tensor));         /* it failed: the next step says so */
    pthread_mutex_lock(&sets->lock);
    if (!var->is_touched)
        var->digest = digest_of(var);
    var->is_touched = true;
    var->is_written |= is_written;
    atomic_store(&sets->is_touched, true);
    pthread_mutex_unlock(&sets->lock);
}

/* Find the variable again: a script may have removed it from the scope, and made another one. */
static void bind(const tr__job_sets *sets, int i)
{
    owned *var = &sets->var[i];

    var->var = tr_scope_find(sets->scope, var->name);
    if (var->var)
        var->var->tensor.watch = (uint32_t)i + 1;
}

/* Has the variable another value than the servers think? Of a parameter this trainer has their value, so a script may write it and put it
 * back. What they have of another variable is not known here: each write counts. */
static bool is_set(const tr__job_sets *sets, int i)
{
    const owned *var = &sets->var[i];

    if (!var->is_touched)
        return false;
    bind(sets, i);
    return (var->is_written && !var->is_pulled) || digest_of(var) != var->digest;
}

/* The places of the variable of this name, or (NULL) of all. */
static void places_of(int *begin, int *end, const tr__job_sets *sets, const char *name)
{
    *end = name ? (int)(intptr_t)tr_map_find(&sets->number_of, name) : sets->count;
    *begin = name && *end ? *end - 1 : 0;
}

bool tr_job_is_set(tr_job *job, const char *name)
{
    tr__job_sets *sets = job->sets;
    bool          found = false;
    int           i, end;

    if (!sets || !atomic_load(&sets->is_touched))
        return false;
    pthread_mutex_lock(&sets->lock);
    places_of(&i, &end, sets, name);
    for (; i < end && !found; i++)
        found = is_set(sets, i);
    pthread_mutex_unlock(&sets->lock);
    return found;
}

/* The variable's present value is the servers'. It stays touched while another object shares its memory, such as an array of NumPy. */
static void forget(const tr__job_sets *sets, int i)
{
    owned *var = &sets->var[i];

    bind(sets, i);
    var->is_written = false;
    var->is_touched &= var->var && !tr__tensor_is_sole_owner(tr_var_tensor(var->var));
    if (var->is_touched)
        var->digest = digest_of(var);
}

static void forget_all(tr__job_sets *sets)
{
    bool is_touched = false;

    for (int i = 0; i < sets->count; i++) {
        if (sets->var[i].is_touched)
            forget(sets, i);
        is_touched |= sets->var[i].is_touched;
    }
    atomic_store(&sets->is_touched, is_touched);
}

void tr_job_unset(tr_job *job, const char *name)
{
    tr__job_sets *sets = job->sets;
    int           i, end;

    if (!sets || !atomic_load(&sets->is_touched))
        return;
    pthread_mutex_lock(&sets->lock);
    if (!name)
        forget_all(sets);
    else
        for (places_of(&i, &end, sets, name); i < end; i++)
            forget(sets, i);
    pthread_mutex_unlock(&sets->lock);
}

/* == values that the servers alone have ============================================================ */

static bool is_old(const tr_job *job, const owned *var)
{
    return var->is_remote && var->version != atomic_load(&job->blocks.version);
}

/* The caller holds the lock. */
static void add_wanted(tr__job_sets *sets, int i)
{
    const int count = atomic_load(&sets->wanted_count);

    if (sets->var[i].is_wanted)
        return;
    sets->var[i].is_wanted = true;
    sets->wanted[count] = i;
    atomic_store(&sets->wanted_count, count + 1);
}

static void want(void *payload, uint32_t number)
{
    const tr_job *job = tr__weak_object(payload);

    if (!job)
        return;                                            /* it is over, or this is a forked child */
    tr__job_sets *sets = job->sets;
    if (!is_old(job, &sets->var[number - 1]))
        return;
    pthread_mutex_lock(&sets->lock);
    add_wanted(sets, (int)number - 1);
    pthread_mutex_unlock(&sets->lock);
}

/* Only between two steps the servers have one value, and only the thread that makes the steps talks to them. */
static tr_status check_fetch(const tr_job *job, const owned *var)
{
    if (!pthread_equal(atomic_load(&job->rank.owner), pthread_self()))
        return tr_fail(
            TR_EUNSUPPORTED,
            "the parameter servers have '%s', and the thread that makes the steps gets it from them; read it there, and hand it over",
            var->name);
    if (job->blocks.pushed || job->tables.pushed)
        return tr_fail(
            TR_EUNSUPPORTED,
            "the parameter servers have '%s', and its value is not there to be read in the middle of step %lld; read it between two steps",
            var->name, (long long)job->step + 1);
    return TR_OK;
}

/* Add the parts of a variable to a pull. A number of which each server has a copy is whole in one part. Returns how many parts there are
 * now. */
static int add_parts(tr__job_sets *sets, int count, const owned *var)
{
    char *data = tr_var_tensor(var->var)->data;

    for (const part *p = var->parts; p; p = p->next) {
        sets->entry[count] = p->entry;
        sets->to[count++] = data + p->begin;
        if (p->bytes == var->bytes)
            break;
    }
    return count;
}

static tr_status pull_wanted(tr_job *job)
{
    tr__job_sets *sets = job->sets;
    tr_ticket     ticket;
    int           count = 0;

    for (int k = 0; k < sets->wanted_count; k++) {
        const int        i = sets->wanted[k];
        owned           *var = &sets->var[i];
        const tr_tensor *tensor = var->var ? tr_var_tensor(var->var) : NULL;
        const bool       fits = tensor && tensor->data && tensor->dtype == var->dtype && tr_tensor_bytes(tensor) == var->bytes;
        var->is_wanted &= is_old(job, var) && fits && !is_set(sets, i);
        if (!var->is_wanted)
            continue;
        TR_TRY(check_fetch(job, var));
        count = add_parts(sets, count, var);
    }
    if (!count)
        return TR_OK;
    TR_TRY(tr__job_pull_entries(job, count, sets->entry, sets->to, &ticket));
    return tr_job_wait(job, ticket);
}

static tr_status fetch_wanted(tr_job *job)
{
    tr__job_sets  *sets = job->sets;
    const uint64_t version = atomic_load(&job->blocks.version);
    const tr_status status = pull_wanted(job);

    for (int k = 0; k < sets->wanted_count; k++) {
        owned     *var = &sets->var[sets->wanted[k]];
        const bool has_come = var->is_wanted && status == TR_OK;
        var->is_wanted = false;
        if (has_come)
            var->version = version;
        if (has_come && var->is_touched)
            forget(sets, sets->wanted[k]);
    }
    atomic_store(&sets->wanted_count, 0);
    return status;
}

static tr_status fetch(void *payload)
{
    tr_job *job = tr__weak_object(payload);

    if (!job || !atomic_load(&job->sets->wanted_count))
        return TR_OK;
    pthread_mutex_lock(&job->sets->lock);
    const tr_status status = fetch_wanted(job);
    pthread_mutex_unlock(&job->sets->lock);
    return status;
}

tr_status tr__job_sets_renew(tr_job *job)
{
    tr__job_sets *sets = job->sets;

    if (!sets || !atomic_load_explicit(&sets->is_touched, memory_order_relaxed))
        return TR_OK;
    pthread_mutex_lock(&sets->lock);
    for (int i = 0; i < sets->count; i++)
        if (sets->var[i].is_remote && sets->var[i].is_touched)
            add_wanted(sets, i);
    pthread_mutex_unlock(&sets->lock);
    return fetch(job->rank.job);
}

/* == watching ==================================================================================== */

tr_status tr_job_watch(tr_job *job, tr_scope *scope, int remote_count, const char *const *remote)
{
    tr__job_sets *sets = job->sets;

    if (!sets)
        return tr_fail(TR_EINVAL, "tr_job_watch: tr_job_setup comes first");
    sets->scope = scope;
    for (int i = 0; i < sets->count; i++)
        bind(sets, i);
    for (int i = 0; i < remote_count; i++) {
        const intptr_t known = (intptr_t)tr_map_find(&sets->number_of, remote[i]);
        if (known)
            sets->var[known - 1].is_remote = true;
    }
    atomic_fetch_add(&job->blocks.version, 1);         /* none is here yet */
    sets->watcher = (tr_watcher){touch, want, fetch, job->rank.job};
    tr__watcher_set(&sets->watcher);
    return TR_OK;
}

/* == at a step ==================================================================================== */

/* Can the servers take a value in this mode, and is it one of this variable? */
static tr_status check_set(const tr_job *job, const owned *var)
{
    const tr_tensor *tensor = var->var ? tr_var_tensor(var->var) : NULL;

    if (job->policy.backups || job->policy.compensation > 0)
        return tr_fail(
            TR_EUNSUPPORTED,
            "'%s' was set after step %lld; in mode %s the servers take no values that a script sets. Set it before the first step, or "
            "use another mode",
            var->name, (long long)job->step, job->mode);
    if (!tensor || !tensor->data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value any more after step %lld; the servers have one", var->name, (long long)job->step);
    if (tensor->dtype != var->dtype || tr_tensor_bytes(tensor) != var->bytes)
        return tr_fail(TR_ESHAPE, "'%s' was set to %s%s after step %lld; the servers have %lld bytes of %s", var->name,
                       tr_dtype_name(tensor->dtype), TR_SHAPE_STR(tensor->shape), (long long)job->step, (long long)var->bytes,
                       tr_dtype_name(var->dtype));
    return TR_OK;
}

static tr_status send_part(tr_job *job, const owned *var, const part *p)
{
    const tr__set set = {p->server, p->value, tr__array_alloc((size_t)p->bytes), (uint64_t)p->bytes};

    if (!set.bytes)
        return tr_fail(TR_ENOMEM, "no memory to send '%s' of %lld bytes, which was set", var->name, (long long)p->bytes);
    memcpy(set.bytes, (const char *)tr_var_tensor(var->var)->data + p->begin, (size_t)p->bytes);
    const tr_status status = tr__job_call(job, &(tr__command){.head = {TR__SET}, .set = set}, NULL);
    if (status != TR_OK)
        free(set.bytes);
    return status;
}

/* Where trainers do not step together, the first trainer's values count. Say it once. */
static void say_whose(tr_job *job, const owned *var)
{
    if (job->policy.is_lockstep || tr_job_index(job) == 0 || job->sets->has_said)
        return;
    job->sets->has_said = true;
    fprintf(stderr,
            "trireme warning: trainer %d: '%s' was set after step %lld; in mode %s what the script of trainer 0 sets counts: set it there, "
            "too\n",
            tr_job_index(job), var->name, (long long)job->step, job->mode);
}

static tr_status send(tr_job *job, int i)
{
    const owned *var = &job->sets->var[i];

    if (!is_set(job->sets, i))
        return TR_OK;
    TR_TRY(check_set(job, var));
    say_whose(job, var);
    for (const part *p = var->parts; p; p = p->next)
        TR_TRY(send_part(job, var, p));
    return TR_OK;
}

tr_status tr__job_sets_send(tr_job *job)
{
    tr__job_sets *sets = job->sets;
    tr_status     status = TR_OK;

    if (!sets || !atomic_load_explicit(&sets->is_touched, memory_order_relaxed))
        return TR_OK;
    TR_TRY(tr_job_finish_pulls(job));
    pthread_mutex_lock(&sets->lock);
    for (int i = 0; i < sets->count && status == TR_OK; i++)
        status = send(job, i);
    if (status == TR_OK)
        forget_all(sets);
    pthread_mutex_unlock(&sets->lock);
    return status;
}

void tr__job_sets_arrived(tr_job *job)
{
    tr_job_unset(job, NULL);
}
