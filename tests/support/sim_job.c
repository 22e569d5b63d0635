/* sim_job.c - the ranks' programs, and the sequential run that they are compared with. */
#include "tests/support/sim_job.h"

#include "pserver/mean.h"
#include "proto/pserver.pb-c.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Elements: less than a line, a small one, one above the gathering limit, one of several chunks. */
static const int64_t param_size[SIM_PARAMS] = {3, 700, 4500, 11000};

/* What a server holds; it is there when its rank is not any more. */
typedef struct place {
    sim_job   *job;
    tr_server *server;                /* of who serves here now */
    int        count;                 /* blocks */
    int64_t   *size;
    float    **param[2], **momentum[2];
    int        side;                  /* that counts */
    tr_update  update;
    bool       is_ready;              /* was committed */
    uint64_t   updates, *settled;
    bool      *is_gone;
    uint8_t   *packed;
    uint64_t   packed_bytes;
} place;

typedef enum phase { START, SETUP, FIRST_PULL, PULL, GOODBYE, END } phase;

typedef struct trainer {
    sim_job    *job;
    tr_client  *client;
    int         index, steps, step;
    phase       phase;
    uint64_t    ticket;
    float      *param, *grad;
    double      weight;
    const char *fact;
} trainer;

/* A rank as the scheduler sees it: around its core, what comm.c does to the roster. */
typedef struct sim_rank {
    sim_job   *job;
    int        number;
    tr_roster *roster;
    tr_server *server;                /* a server's core, or a spare's that took a place */
    tr_spare  *spare;
    trainer   *trainer;
} sim_rank;

typedef struct block {
    int     param, server;
    int64_t size, at;                 /* in the vector of all */
} block;

struct sim_job {
    sim_options      options;
    tr_mode          mode;
    tr_sim          *sim;
    int              size, blocks;
    sim_rank        *rank;
    place           *place;
    trainer         *trainer;
    block           *block;
    tr_client_value *first;           /* of each server, room for all blocks */
    bool             is_even, is_slow, ends_failed;
    struct applied  *applied;
};

/* == arithmetic ================================================================================ */

static bool is_whole(const sim_job *job)
{
    return job->mode.kind != TR_MODE_SYNC;
}

static void first_params(const sim_job *job, float *param)
{
    for (int i = 0; i < SIM_TOTAL; i++) {
        const int n = (i * 7919) % 1009;
        param[i] = is_whole(job) ? (float)(n - 504) : (float)n / 1009.0f - 0.5f;
    }
}

/* Over no sample it is no number. */
static void gradient(const sim_job *job, float *grad, const float *param, int who, int step, double weight)
{
    for (int i = 0; i < SIM_TOTAL; i++) {
        const int n = (i * 31 + who * 97 + step * 17) % 263;
        grad[i] = weight == 0 ? NAN : is_whole(job) ? (float)(n - 131) : 0.3f * param[i] + (float)n / 263.0f - 0.5f;
    }
}

static void descend(const sim_job *job, float *to, float *momentum_to, const float *param, const float *momentum,
                    const float *grad, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        momentum_to[i] = is_whole(job) ? 0 : 0.9f * momentum[i] + grad[i];
        to[i] = is_whole(job) ? param[i] - grad[i] : param[i] - 0.1f * momentum_to[i];
    }
}

static double weight_of(const sim_job *job, int who, int step)
{
    return job->is_even || is_whole(job) ? 8.0 : (double)((who * 5 + step * 3) % 7);        /* 0 among them */
}

/* == a server's store ========================================================================== */

static void free_memory(place *p)
{
    for (int i = 0; i < p->count; i++)
        for (int side = 0; side < 2; side++) {
            free(p->param[side][i]);
            free(p->momentum[side][i]);
        }
    for (int side = 0; side < 2; side++) {
        free(p->param[side]);
        free(p->momentum[side]);
    }
    free(p->size);
    free(p->settled);
    free(p->is_gone);
    free(p->packed);
}

static bool store_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    const place *p = self;

    *commit = (tr_commit){p->updates, p->settled, p->is_gone};
    *packed = p->packed;
    *bytes = p->packed_bytes;
    return p->is_ready;
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    place       *p = self;
    const size_t trainers = (size_t)p->job->options.trainers;

    if (resume)
        return TR_OK;
    p->count = (int)setup->n_blocks;
    p->packed = memcpy(malloc(bytes), packed, bytes);
    p->packed_bytes = bytes;
    p->size = calloc((size_t)p->count + 1, sizeof *p->size);
    p->settled = calloc(trainers, sizeof *p->settled);
    p->is_gone = calloc(trainers, sizeof *p->is_gone);
    for (int side = 0; side < 2; side++) {
        p->param[side] = calloc((size_t)p->count + 1, sizeof(float *));
        p->momentum[side] = calloc((size_t)p->count + 1, sizeof(float *));
        for (int i = 0; i < p->count; i++) {
            p->size[i] = (int64_t)setup->blocks[i]->bytes / 4;
            p->param[side][i] = calloc((size_t)p->size[i] + 1, 4);
            p->momentum[side][i] = calloc((size_t)p->size[i] + 1, 4);
        }
    }
    return TR_OK;
}

static void *store_param(void *self, uint32_t index)
{
    place *p = self;
    return p->param[p->side][index];
}

static tr_status store_ready(void *self)
{
    (void)self;
    return TR_OK;
}

/* An apply that takes time ends in a rank that may be dead by then, or replaced. */
typedef struct applied {
    struct applied *next;             /* of the job's, which frees them: a run may end before they happen */
    place     *place;
    tr_server *server;
    int        rank;
} applied;

static void apply_now(void *payload)
{
    applied *a = payload;
    place   *p = a->place;

    if (p->server == a->server && !tr_sim_is_dead(p->job->sim, a->rank)) {
        const int from = p->side, to = 1 - from;
        for (int i = 0; i < p->count; i++)
            descend(p->job, p->param[to][i], p->momentum[to][i], p->param[from][i], p->momentum[from][i],
                    (const float *)p->update.grad[i], p->size[i]);
        tr_server_applied(p->server, TR_OK);
    }
}

static int rank_of(const place *p)
{
    for (int i = 0; i < p->job->size; i++)
        if (p->job->rank[i].server == p->server)
            return i;
    return -1;
}

static void store_apply(void *self, const tr_update *update)
{
    place   *p = self;
    applied *a = malloc(sizeof *a);

    assert_true(update->number == p->updates + 1);
    p->update = *update;
    *a = (applied){p->job->applied, p, p->server, rank_of(p)};
    p->job->applied = a;
    if (p->job->is_slow)
        tr_sim_call(p->job->sim, 1 + (int64_t)tr_sim_random(p->job->sim, 3000), apply_now, a);
    else
        apply_now(a);
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    place *p = self;

    assert_true(commit->updates == p->updates + is_update);
    p->updates = commit->updates;
    p->side ^= is_update;
    for (int i = 0; i < p->job->options.trainers; i++) {
        assert_true(commit->settled[i] >= p->settled[i]);
        p->settled[i] = commit->settled[i];
        p->is_gone[i] = commit->is_gone[i];
    }
    p->is_ready = true;
}

static void store_go_back(void *self)
{
    (void)self;
    fail_msg("nobody goes back while the trainers live");
}

static tr_server *make_server(sim_rank *r, int index)
{
    place         *p = &r->job->place[index];
    const tr_store store = {p, store_kept, store_setup, store_param, store_ready, store_param, store_apply, store_commit,
                            store_go_back, NULL};

    return p->server = r->server = tr_server_new(r->roster, &store);
}

/* == a rank around its core ==================================================================== */

static tr_node core_of(const sim_rank *r)
{
    return r->trainer ? tr_client_node(r->trainer->client) : r->server ? tr_server_node(r->server) : tr_spare_node(r->spare);
}

static void *rank_place(void *self, int peer, const tr_wire *wire)
{
    const tr_node node = core_of(self);
    return wire->kind == TR_WIRE_SERVING ? malloc(wire->bytes) : node.place(node.self, peer, wire);
}

static void rank_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    sim_rank *r = self;

    if (wire->kind == TR_WIRE_SERVING && wire->bytes && r->roster->rank[peer].role == TR_ROLE_SPARE) {
        Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, wire->bytes, payload);
        tr_roster_replace(r->roster, (int)serving->server, peer);
        trireme__pserver__serving__free_unpacked(serving, NULL);
    }
    const tr_node node = core_of(r);
    const bool    is_ours = is_placed && wire->kind == TR_WIRE_SERVING;
    node.receive(node.self, now, peer, wire, payload, is_placed && !is_ours);
    if (is_ours)
        free(payload);
}

static void rank_lost(void *self, int peer, const char *how)
{
    sim_rank *r = self;

    r->roster->rank[peer].is_dead = true;
    const tr_node node = core_of(r);
    node.lost(node.self, peer, how);
}

static int64_t rank_tick(void *self, int64_t now)
{
    const tr_node node = core_of(self);
    return node.tick(node.self, now);
}

static bool rank_next(void *self, tr_message *out)
{
    const tr_node node = core_of(self);
    return node.next(node.self, out);
}

static tr_status rank_status(const void *self, const char **text)
{
    const tr_node node = core_of(self);
    return node.status(node.self, text);
}

static void rank_describe(const void *self, char *out, size_t size)
{
    const tr_node node = core_of(self);
    node.describe(node.self, out, size);
}

static tr_status take_place(void *self, int server, int dead)
{
    sim_rank *r = self;

    (void)dead;
    if (!r->job->place[server].is_ready)
        return tr_fail(TR_ENOTFOUND, "server %d had committed nothing", server);
    tr_roster_replace(r->roster, server, r->number);
    return tr_server_take_over(make_server(r, server));
}

/* == a trainer's program ======================================================================= */

static void pack_join(const trainer *t, tr_client_setup *out)
{
    Trireme__Pserver__Join join = TRIREME__PSERVER__JOIN__INIT;
    Trireme__Pserver__Fact fact = TRIREME__PSERVER__FACT__INIT, *facts = &fact;

    fact.key = (char *)"seed";
    fact.value = (char *)(uintptr_t)t->fact;
    join.n_facts = 1;
    join.facts = &facts;
    out->join_bytes = trireme__pserver__join__get_packed_size(&join);
    out->join = malloc(out->join_bytes);
    trireme__pserver__join__pack(&join, out->join);
}

static void pack_setup(sim_job *job, int server, tr_client_setup *out)
{
    Trireme__Pserver__Setup   setup = TRIREME__PSERVER__SETUP__INIT;
    const size_t              most = (size_t)job->blocks;
    Trireme__Pserver__Block  *b = calloc(most, sizeof *b), **blocks = calloc(most, sizeof *blocks);
    Trireme__Pserver__Value  *v = calloc(most, sizeof *v), **values = calloc(most, sizeof *values);
    char                    (*name)[16] = calloc(most, sizeof *name);
    tr_client_value          *first = job->first + (size_t)server * most;
    size_t                    n = 0;

    for (int i = 0; i < job->blocks; i++) {
        if (job->block[i].server != server)
            continue;
        snprintf(name[n], sizeof name[n], "p%d.%d", job->block[i].param, server);
        trireme__pserver__block__init(&b[n]);
        b[n].param = b[n].grad = name[n];
        b[n].dtype = TR_FP32;
        b[n].bytes = (uint64_t)job->block[i].size * 4;
        trireme__pserver__value__init(&v[n]);
        v[n].name = name[n];
        v[n].dtype = TR_FP32;
        v[n].bytes = b[n].bytes;
        first[n] = (tr_client_value){&job->trainer[0].param[job->block[i].at], b[n].bytes};
        blocks[n] = &b[n];
        values[n] = &v[n];
        n++;
    }
    setup.mode = (char *)(uintptr_t)job->options.mode;
    setup.chunk_bytes = SIM_CHUNK;
    setup.n_blocks = setup.n_values = n;
    setup.blocks = blocks;
    setup.values = values;
    out->setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    out->setup = malloc(out->setup_bytes);
    trireme__pserver__setup__pack(&setup, out->setup);
    out->value_count = (uint32_t)n;
    out->values = first;
    free(b);
    free(blocks);
    free(v);
    free(values);
    free(name);
}

static void set_up_servers(trainer *t)
{
    sim_job         *job = t->job;
    tr_client_setup *setups = calloc((size_t)job->options.servers, sizeof *setups);
    tr_client_block *blocks = calloc((size_t)job->blocks, sizeof *blocks);

    for (int i = 0; i < job->blocks; i++)
        blocks[i] = (tr_client_block){job->block[i].server, (uint64_t)job->block[i].size * 4};
    for (int s = 0; s < job->options.servers; s++) {
        pack_join(t, &setups[s]);
        if (t->index == 0)
            pack_setup(job, s, &setups[s]);
    }
    t->ticket = tr_client_setup_all(t->client, setups, (uint32_t)job->blocks, blocks);
    if (tr_mode_survives_trainers(&job->mode))
        tr_client_survive_trainers(t->client);
    free(setups);
    free(blocks);
}

static void pull_all(trainer *t)
{
    const size_t n = (size_t)t->job->blocks;
    int         *blocks = calloc(n, sizeof *blocks);
    void       **to = calloc(n, sizeof *to);

    for (size_t i = 0; i < n; i++) {
        blocks[i] = (int)i;
        to[i] = &t->param[t->job->block[i].at];
    }
    t->ticket = tr_client_pull(t->client, (uint32_t)n, blocks, to);
    free(blocks);
    free(to);
}

static void push_all(trainer *t)
{
    const int n = t->job->blocks, start = (int)tr_sim_random(t->job->sim, (uint64_t)n);

    gradient(t->job, t->grad, t->param, t->index, t->step, t->weight);
    for (int i = 0; i < n; i++) {                  /* in an order of its own */
        const int b = (start + i) % n;
        tr_client_push(t->client, (uint32_t)b, &t->grad[t->job->block[b].at], t->weight);
        if (tr_sim_random(t->job->sim, 8) == 0)
            tr_client_flush(t->client);
    }
    tr_client_step_end(t->client);
}

/* A trainer that begins step n + 1 may be `count` steps ahead of any other that is there. */
static void check_bound(const trainer *t)
{
    const sim_job *job = t->job;

    for (int i = 0; job->mode.kind == TR_MODE_SSP && i < job->options.trainers; i++) {
        bool     is_gone = tr_sim_is_dead(job->sim, job->options.servers + i);
        uint64_t settled = UINT64_MAX;
        for (int s = 0; s < job->options.servers; s++) {
            is_gone |= job->place[s].is_gone[i];
            settled = job->place[s].settled[i] < settled ? job->place[s].settled[i] : settled;
        }
        if (!is_gone && (int64_t)t->step - 1 > (int64_t)settled + job->mode.count)
            fail_msg("trainer %d begins step %d while trainer %d has made %llu: the bound is %lld", t->index, t->step, i,
                     (unsigned long long)settled, (long long)job->mode.count);
    }
}

static bool go_on(trainer *t)
{
    if (t->phase == END || tr_client_done(t->client) < t->ticket)
        return t->phase == END;
    if (t->phase == START) {
        set_up_servers(t);
        t->phase = SETUP;
    } else if (t->phase == SETUP) {
        memset(t->param, 0, SIM_TOTAL * sizeof *t->param);
        pull_all(t);
        t->phase = FIRST_PULL;
    } else if (t->phase == GOODBYE) {
        t->phase = END;
    } else if (t->step == t->steps) {
        t->ticket = tr_client_goodbye(t->client);
        t->phase = GOODBYE;
    } else {
        t->step++;
        check_bound(t);
        t->weight = weight_of(t->job, t->index, t->step);
        push_all(t);
        pull_all(t);
        t->phase = PULL;
    }
    tr_client_flush(t->client);
    return t->phase == END;
}

/* == jobs ====================================================================================== */

static void cut_blocks(sim_job *job)
{
    const int servers = job->options.servers;
    int64_t   at = 0;

    job->block = calloc((size_t)(SIM_PARAMS * servers), sizeof *job->block);
    for (int p = 0; p < SIM_PARAMS; p++)
        for (int s = 0; s < servers; s++) {
            const int64_t size = param_size[p] * (s + 1) / servers - param_size[p] * s / servers;
            if (size == 0)
                continue;
            job->block[job->blocks++] = (block){p, (s + p) % servers, size, at};
            at += size;
        }
    assert_true(at == SIM_TOTAL);
    job->first = calloc((size_t)(servers * job->blocks), sizeof *job->first);
}

static tr_role role_of(const sim_job *job, int i)
{
    return i < job->options.servers                          ? TR_ROLE_SERVER
           : i < job->options.servers + job->options.trainers ? TR_ROLE_TRAINER
                                                              : TR_ROLE_SPARE;
}

static void make_rank(sim_job *job, int number)
{
    sim_rank *r = &job->rank[number];

    *r = (sim_rank){.job = job, .number = number, .roster = tr_roster_new(number, job->size)};
    for (int i = 0; i < job->size; i++)
        tr_roster_put(r->roster, i, role_of(job, i), 1, 100 + i, "h", "here");
    assert_int_equal(tr_roster_close(r->roster), TR_OK);
    if (role_of(job, number) == TR_ROLE_SERVER) {
        make_server(r, number);
    } else if (role_of(job, number) == TR_ROLE_SPARE) {
        r->spare = tr_spare_new(r->roster, take_place, r);
    } else {
        const tr_client_options options = {SIM_CHUNK, 3 * SIM_CHUNK, job->options.loss > 0 ? 20000 : 0, 1000000};
        r->trainer = &job->trainer[number - job->options.servers];
        r->trainer->client = tr_client_new(r->roster, &options);
    }
    const tr_node node = {r, rank_place, rank_receive, rank_lost, rank_tick, rank_next, rank_status, rank_describe};
    tr_sim_attach(job->sim, number, &node);
}

sim_job *sim_job_new(const sim_options *options)
{
    const tr_sim_options sim = {.seed = options->seed, .delay = 1000, .drop = options->loss, .duplicate = options->loss,
                                .notice = 5000};
    sim_job             *job = calloc(1, sizeof *job);

    job->options = *options;
    assert_int_equal(tr_mode_parse(&job->mode, options->mode), TR_OK);
    job->size = options->servers + options->trainers + options->spares;
    job->sim = tr_sim_new(job->size, &sim);
    job->is_slow = tr_sim_random(job->sim, 2);
    job->is_even = options->seed % 2;
    cut_blocks(job);
    job->rank = calloc((size_t)job->size, sizeof *job->rank);
    job->place = calloc((size_t)options->servers, sizeof *job->place);
    job->trainer = calloc((size_t)options->trainers, sizeof *job->trainer);
    for (int s = 0; s < options->servers; s++)
        job->place[s].job = job;
    for (int i = 0; i < options->trainers; i++) {
        trainer *t = &job->trainer[i];
        *t = (trainer){.job = job, .index = i, .steps = 1 + (int)tr_sim_random(job->sim, (uint64_t)options->steps),
                       .ticket = 1, .fact = "90"};
        t->param = calloc(SIM_TOTAL, sizeof *t->param);
        t->grad = calloc(SIM_TOTAL, sizeof *t->grad);
        first_params(job, t->param);
    }
    for (int i = 0; i < job->size; i++)
        make_rank(job, i);
    return job;
}

void sim_job_free(sim_job *job)
{
    for (int i = 0; i < job->size; i++) {
        tr_server_free(job->rank[i].server);
        tr_spare_free(job->rank[i].spare);
        if (job->rank[i].trainer)
            tr_client_free(job->rank[i].trainer->client);
        tr_roster_free(job->rank[i].roster);
    }
    for (int s = 0; s < job->options.servers; s++)
        free_memory(&job->place[s]);
    for (int i = 0; i < job->options.trainers; i++) {
        free(job->trainer[i].param);
        free(job->trainer[i].grad);
    }
    tr_sim_free(job->sim);
    while (job->applied) {
        applied *gone = job->applied;
        job->applied = gone->next;
        free(gone);
    }
    free(job->rank);
    free(job->place);
    free(job->trainer);
    free(job->block);
    free(job->first);
    free(job);
}

tr_sim *sim_job_sim(sim_job *job)
{
    return job->sim;
}

void sim_job_set_fact(sim_job *job, int who, const char *fact)
{
    job->trainer[who].fact = fact;
}

void sim_job_kill(sim_job *job, int rank, int64_t after)
{
    tr_sim_kill(job->sim, rank, after);
}

void sim_job_end_failed(sim_job *job)
{
    job->ends_failed = true;
}

tr_status sim_job_status(const sim_job *job, int rank, const char **text)
{
    *text = NULL;
    return rank_status(&job->rank[rank], text);
}

/* -- running ------------------------------------------------------------------------------------- */

static bool is_at_end(const sim_job *job, int i)
{
    const sim_rank *r = &job->rank[i];

    if (r->trainer)
        return r->trainer->phase == END;
    return r->server ? tr_server_is_done(r->server) : true;
}

static bool drive(void *payload)
{
    sim_job    *job = payload;
    const char *text;
    bool        is_over = true;

    for (int i = 0; i < job->size; i++) {
        if (tr_sim_is_dead(job->sim, i))
            continue;
        if (job->rank[i].trainer)
            go_on(job->rank[i].trainer);
        const bool has_failed = sim_job_status(job, i, &text) != TR_OK;
        if (has_failed && job->ends_failed)
            tr_sim_kill(job->sim, i, 0);
        is_over &= has_failed || is_at_end(job, i);
    }
    return is_over;
}

bool sim_job_run(sim_job *job)
{
    char        waiting[256];
    const char *text;

    for (int i = 0; i <= job->size; i++)           /* who fails when nothing moves any more is killed by the next round */
        if (tr_sim_run(job->sim, 4000000, drive, job))
            return true;
    for (int i = 0; i < job->size; i++) {
        rank_describe(&job->rank[i], waiting, sizeof waiting);
        const tr_status status = sim_job_status(job, i, &text);
        print_message("rank %d%s waits for \"%s\", status %s %s\n", i, tr_sim_is_dead(job->sim, i) ? " (dead)" : "", waiting,
                      tr_status_name(status), text ? text : "");
    }
    return false;
}

bool sim_job_is_good(const sim_job *job)
{
    const char *text;

    for (int i = 0; i < job->size; i++)
        if (sim_job_status(job, i, &text) != TR_OK)
            return false;
    return true;
}

/* -- comparing ----------------------------------------------------------------------------------- */

static void check_last(const sim_job *job, int step, const float *param)
{
    for (int i = 0; i < job->options.trainers; i++)
        if (job->trainer[i].steps == step && memcmp(job->trainer[i].param, param, SIM_TOTAL * sizeof *param))
            fail_msg("seed %llu: trainer %d of %d ends with other parameters (%d servers)",
                     (unsigned long long)job->options.seed, i, job->options.trainers, job->options.servers);
}

/* The same training in one place. */
static void check_sync(const sim_job *job)
{
    static float param[SIM_TOTAL], momentum[SIM_TOTAL], sum[SIM_TOTAL], grad[SIM_TOTAL];

    first_params(job, param);
    memset(momentum, 0, sizeof momentum);
    for (int step = 1; step <= job->options.steps; step++) {
        tr_mean mean = {0};
        for (int i = 0; i < job->options.trainers; i++) {
            if (job->trainer[i].steps < step)
                continue;
            gradient(job, grad, param, i, step, weight_of(job, i, step));
            tr_mean_add(&mean, TR_FP32, sum, grad, SIM_TOTAL, weight_of(job, i, step));
        }
        if (!mean.parts)
            return;
        tr_mean_finish(&mean, TR_FP32, sum, SIM_TOTAL);
        descend(job, param, momentum, param, momentum, sum, SIM_TOTAL);
        check_last(job, step, param);
    }
}

/* Every settled step is in the parameters once, and nothing else is. */
static void check_block(const sim_job *job, const block *b, int local)
{
    static float expected[SIM_TOTAL], grad[SIM_TOTAL];
    const place *p = &job->place[b->server];

    first_params(job, expected);
    for (int i = 0; i < job->options.trainers; i++)
        for (uint64_t step = 1; step <= p->settled[i]; step++) {
            gradient(job, grad, NULL, i, (int)step, 1);
            for (int64_t k = b->at; k < b->at + b->size; k++)
                expected[k] -= grad[k];
        }
    if (memcmp(expected + b->at, p->param[p->side][local], (size_t)b->size * sizeof *expected))
        fail_msg("seed %llu: server %d of %d does not have just what is settled in block %d",
                 (unsigned long long)job->options.seed, b->server, job->options.servers, local);
}

static void check_settled(const sim_job *job)
{
    for (int s = 0; s < job->options.servers; s++)
        for (int i = 0; i < job->options.trainers; i++)
            if (!tr_sim_is_dead(job->sim, job->options.servers + i) &&
                job->place[s].settled[i] != (uint64_t)job->trainer[i].steps)
                fail_msg("seed %llu: server %d has %llu steps of trainer %d instead of %d",
                         (unsigned long long)job->options.seed, s, (unsigned long long)job->place[s].settled[i], i,
                         job->trainer[i].steps);
}

void sim_job_check(const sim_job *job)
{
    int *local = calloc((size_t)job->options.servers, sizeof *local);

    if (!tr_mode_keeps_apart(&job->mode))
        check_sync(job);
    else
        check_settled(job);
    for (int i = 0; is_whole(job) && i < job->blocks; i++)
        check_block(job, &job->block[i], local[job->block[i].server]++);
    free(local);
}
