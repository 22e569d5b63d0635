/* test_sim.c - whole jobs under a seeded scheduler, against a sequential oracle.
 *
 * A run: some servers, some trainers with different numbers of steps, blocks of many sizes, messages delayed,
 * lost and doubled. The gradient of a trainer depends on its number, the step and the parameters it pulled, so that a
 * gradient that is lost, taken twice, or summed in another order changes the last bits of what follows. */
#include "pserver/client.h"
#include "pserver/mean.h"
#include "pserver/server.h"
#include "pserver/transport_sim.h"
#include "proto/pserver.pb-c.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMS = 4, SERVERS_MAX = 3, TRAINERS_MAX = 4, BLOCKS_MAX = PARAMS * SERVERS_MAX, STEPS_MAX = 6, CHUNK = 4096 };

/* Elements: less than a line, a small one, one above the gathering limit, one of several chunks. */
static const int64_t param_size[PARAMS] = {3, 700, 4500, 11000};
enum { TOTAL = 3 + 700 + 4500 + 11000 };

typedef struct job job;

/* -- the ranks' programs ---------------------------------------------------------------------- */

typedef struct store {
    job       *job;
    tr_server *server;
    int        count;
    int64_t    size[BLOCKS_MAX];
    float     *param[BLOCKS_MAX], *momentum[BLOCKS_MAX];
    tr_update  update;
    uint64_t   updates;               /* that count */
} store;

typedef enum phase { START, SETUP, FIRST_PULL, PULL, GOODBYE, END } phase;

typedef struct trainer {
    job       *job;
    tr_client *client;
    int        index, steps, step;
    phase      phase;
    const char *seed;
    uint64_t   ticket;
    float      param[TOTAL], grad[TOTAL];
    double     weight;
} trainer;

struct job {
    tr_sim    *sim;
    tr_roster *roster[SERVERS_MAX + TRAINERS_MAX];
    int        servers, trainers;
    bool       is_slow;               /* applying takes time */
    bool       is_mortal;             /* a rank whose job has failed ends */
    int        blocks;
    struct { int param, server; int64_t from, size, at; } block[BLOCKS_MAX];   /* at: in the vector of all */
    store      store[SERVERS_MAX];
    trainer    trainer[TRAINERS_MAX];
    tr_client_value first[SERVERS_MAX][BLOCKS_MAX];
};

static void first_params(float *param)
{
    for (int i = 0; i < TOTAL; i++)
        param[i] = (float)((i * 7919) % 1009) / 1009.0f - 0.5f;
}

/* Over no sample it is no number. */
static void gradient(float *grad, const float *param, int who, int step, double weight)
{
    for (int i = 0; i < TOTAL; i++)
        grad[i] = weight == 0 ? NAN : 0.3f * param[i] + (float)((i * 31 + who * 97 + step * 17) % 263) / 263.0f - 0.5f;
}

static void descend(float *param, float *momentum, const float *grad, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        momentum[i] = 0.9f * momentum[i] + grad[i];
        param[i] -= 0.1f * momentum[i];
    }
}

static double weight_of(int who, int step, bool is_even)
{
    return is_even ? 8.0 : (double)((who * 5 + step * 3) % 7);        /* 0 among them */
}

/* -- a server's store -------------------------------------------------------------------------- */

static bool store_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    (void)commit;
    (void)packed;
    (void)bytes;
    return false;
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    store *s = self;

    assert_true(commit->updates == s->updates + is_update);
    s->updates = commit->updates;
}

static void store_go_back(void *self)
{
    (void)self;
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    store *s = self;

    (void)packed;
    (void)bytes;
    assert_false(resume);

    s->count = (int)setup->n_blocks;
    for (int i = 0; i < s->count; i++) {
        s->size[i] = (int64_t)setup->blocks[i]->bytes / 4;
        s->param[i] = calloc((size_t)s->size[i], 4);
        s->momentum[i] = calloc((size_t)s->size[i], 4);
    }
    return TR_OK;
}

static void *store_value(void *self, uint32_t index) { return ((store *)self)->param[index]; }

static tr_status store_ready(void *self)
{
    (void)self;
    return TR_OK;
}

static void apply_now(void *payload)
{
    store *s = payload;

    for (int i = 0; i < s->count; i++)
        descend(s->param[i], s->momentum[i], (const float *)s->update.grad[i], s->size[i]);
    tr_server_applied(s->server, TR_OK);
}

static void store_apply(void *self, const tr_update *update)
{
    store *s = self;

    assert_true(update->number == tr_server_step(s->server) + 1);
    s->update = *update;
    if (s->job->is_slow)
        tr_sim_call(s->job->sim, 1 + (int64_t)tr_sim_random(s->job->sim, 3000), apply_now, s);
    else
        apply_now(s);
}

/* -- a trainer's program ------------------------------------------------------------------------ */

static void pack_setup(job *j, int server, const char *seed, bool is_first, tr_client_setup *out)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Join   join = TRIREME__PSERVER__JOIN__INIT;
    Trireme__Pserver__Fact   fact = TRIREME__PSERVER__FACT__INIT, *facts = &fact;
    Trireme__Pserver__Block  block[BLOCKS_MAX], *blocks[BLOCKS_MAX];
    Trireme__Pserver__Value  value[BLOCKS_MAX], *values[BLOCKS_MAX];
    char                     name[BLOCKS_MAX][16];
    size_t                   n = 0;

    fact.key = (char *)"seed";
    fact.value = (char *)seed;
    join.n_facts = 1;
    join.facts = &facts;
    out->join_bytes = trireme__pserver__join__get_packed_size(&join);
    out->join = malloc(out->join_bytes);
    trireme__pserver__join__pack(&join, out->join);
    if (!is_first)
        return;
    for (int i = 0; i < j->blocks; i++) {
        if (j->block[i].server != server)
            continue;
        snprintf(name[n], sizeof name[n], "p%d.%d", j->block[i].param, server);
        trireme__pserver__block__init(&block[n]);
        block[n].param = block[n].grad = name[n];
        block[n].dtype = TR_FP32;
        block[n].bytes = (uint64_t)j->block[i].size * 4;
        trireme__pserver__value__init(&value[n]);
        value[n].name = name[n];
        value[n].dtype = TR_FP32;
        value[n].bytes = block[n].bytes;
        j->first[server][n] = (tr_client_value){&j->trainer[0].param[j->block[i].at], block[n].bytes};
        blocks[n] = &block[n];
        values[n] = &value[n];
        n++;
    }
    setup.mode = (char *)"sync";
    setup.chunk_bytes = CHUNK;
    setup.n_blocks = setup.n_values = n;
    setup.blocks = blocks;
    setup.values = values;
    out->setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    out->setup = malloc(out->setup_bytes);
    trireme__pserver__setup__pack(&setup, out->setup);
    out->value_count = (uint32_t)n;
    out->values = j->first[server];
}

/* When all servers serve. */
static void say_setup(trainer *t, const char *seed)
{
    t->seed = seed;
    t->ticket = 1;
}

static void set_up_servers(trainer *t)
{
    tr_client_setup setups[SERVERS_MAX] = {{0}};
    tr_client_block blocks[BLOCKS_MAX];
    job            *j = t->job;

    for (int i = 0; i < j->blocks; i++)
        blocks[i] = (tr_client_block){j->block[i].server, (uint64_t)j->block[i].size * 4};
    for (int s = 0; s < j->servers; s++)
        pack_setup(j, s, t->seed, t->index == 0, &setups[s]);
    t->ticket = tr_client_setup_all(t->client, setups, (uint32_t)j->blocks, blocks);
}

static void pull_all(trainer *t)
{
    int   blocks[BLOCKS_MAX];
    void *to[BLOCKS_MAX];

    for (int i = 0; i < t->job->blocks; i++) {
        blocks[i] = i;
        to[i] = &t->param[t->job->block[i].at];
    }
    t->ticket = tr_client_pull(t->client, (uint32_t)t->job->blocks, blocks, to);
}

static void push_all(trainer *t)
{
    const int n = t->job->blocks, start = (int)tr_sim_random(t->job->sim, (uint64_t)n);

    gradient(t->grad, t->param, t->index, t->step, t->weight);
    for (int i = 0; i < n; i++) {                  /* in an order of its own */
        const int b = (start + i) % n;
        tr_client_push(t->client, (uint32_t)b, &t->grad[t->job->block[b].at], t->weight);
        if (tr_sim_random(t->job->sim, 8) == 0)
            tr_client_flush(t->client);
    }
    tr_client_step_end(t->client);
}

static bool go_on(trainer *t, bool is_even)
{
    if (t->phase == END || tr_client_done(t->client) < t->ticket)
        return t->phase == END;
    if (t->phase == START) {
        set_up_servers(t);
        t->phase = SETUP;
    } else if (t->phase == SETUP) {
        memset(t->param, 0, sizeof t->param);
        pull_all(t);
        t->phase = FIRST_PULL;
    } else if (t->phase == GOODBYE) {
        t->phase = END;
    } else if (t->step == t->steps) {
        t->ticket = tr_client_goodbye(t->client);
        t->phase = GOODBYE;
    } else {
        t->step++;
        t->weight = weight_of(t->index, t->step, is_even);
        push_all(t);
        pull_all(t);
        t->phase = PULL;
    }
    tr_client_flush(t->client);
    return t->phase == END;
}

/* -- jobs ---------------------------------------------------------------------------------------- */

static void cut_blocks(job *j)
{
    int64_t at = 0;

    for (int p = 0; p < PARAMS; p++)
        for (int s = 0; s < j->servers; s++) {
            const int64_t from = param_size[p] * s / j->servers, to = param_size[p] * (s + 1) / j->servers;
            j->block[j->blocks].param = p;
            j->block[j->blocks].server = (s + p) % j->servers;
            j->block[j->blocks].from = from;
            j->block[j->blocks].size = to - from;
            j->block[j->blocks++].at = at;
            at += to - from;
        }
    assert_true(at == TOTAL);
}

static tr_roster *make_roster(const job *j, int self)
{
    tr_roster *roster = tr_roster_new(self, j->servers + j->trainers);

    for (int i = 0; i < roster->size; i++)
        tr_roster_put(roster, i, i < j->servers ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
    assert_int_equal(tr_roster_close(roster), TR_OK);
    return roster;
}

static job *make_job(int servers, int trainers, const tr_sim_options *options, int64_t retry)
{
    job *j = calloc(1, sizeof *j);

    j->servers = servers;
    j->trainers = trainers;
    j->sim = tr_sim_new(servers + trainers, options);
    j->is_slow = tr_sim_random(j->sim, 2);
    cut_blocks(j);
    for (int i = 0; i < servers + trainers; i++)
        j->roster[i] = make_roster(j, i);
    for (int s = 0; s < servers; s++) {
        store *st = &j->store[s];
        const tr_store table = {st, store_kept, store_setup, store_value, store_ready, store_value, store_apply,
                                store_commit, store_go_back};
        st->job = j;
        st->server = tr_server_new(j->roster[s], &table);
        tr_node node = tr_server_node(st->server);
        tr_sim_attach(j->sim, s, &node);
    }
    for (int i = 0; i < trainers; i++) {
        trainer *t = &j->trainer[i];
        const tr_client_options client = {CHUNK, 3 * CHUNK, retry, 1000000};
        t->job = j;
        t->index = i;
        t->steps = 1 + (int)tr_sim_random(j->sim, STEPS_MAX);
        t->client = tr_client_new(j->roster[servers + i], &client);
        first_params(t->param);
        tr_node node = tr_client_node(t->client);
        tr_sim_attach(j->sim, servers + i, &node);
    }
    return j;
}

static void free_job(job *j)
{
    for (int s = 0; s < j->servers; s++) {
        tr_server_free(j->store[s].server);
        for (int i = 0; i < j->store[s].count; i++) {
            free(j->store[s].param[i]);
            free(j->store[s].momentum[i]);
        }
    }
    for (int i = 0; i < j->trainers; i++)
        tr_client_free(j->trainer[i].client);
    for (int i = 0; i < j->servers + j->trainers; i++)
        tr_roster_free(j->roster[i]);
    tr_sim_free(j->sim);
    free(j);
}

static bool is_even;

static bool drive(void *payload)
{
    job *j = payload;
    bool is_over = true;

    for (int i = 0; i < j->trainers; i++)
        if (!tr_sim_is_dead(j->sim, j->servers + i))
            is_over &= go_on(&j->trainer[i], is_even);
    for (int s = 0; s < j->servers; s++)
        is_over &= tr_server_is_done(j->store[s].server);
    return is_over;
}

/* The same training in one place; after[who] is what a trainer saw last. */
static void oracle(const job *j, float after[TRAINERS_MAX][TOTAL])
{
    static float param[TOTAL], momentum[TOTAL], sum[TOTAL], grad[TOTAL];

    first_params(param);
    memset(momentum, 0, sizeof momentum);
    for (int step = 1; step <= STEPS_MAX; step++) {
        tr_mean mean = {0};
        for (int i = 0; i < j->trainers; i++) {
            if (j->trainer[i].steps < step)
                continue;
            gradient(grad, param, i, step, weight_of(i, step, is_even));
            tr_mean_add(&mean, TR_FP32, sum, grad, TOTAL, weight_of(i, step, is_even));
        }
        if (!mean.parts)
            return;
        tr_mean_finish(&mean, TR_FP32, sum, TOTAL);
        descend(param, momentum, sum, TOTAL);
        for (int i = 0; i < j->trainers; i++)
            if (j->trainer[i].steps >= step)
                memcpy(after[i], param, sizeof param);
    }
}

/* What everybody waits for, for a run that does not end. */
static void say_state(const job *j)
{
    for (int i = 0; i < j->servers + j->trainers; i++) {
        const tr_node node = i < j->servers ? tr_server_node(j->store[i].server)
                                            : tr_client_node(j->trainer[i - j->servers].client);
        const char   *text = NULL;
        char          waiting[256];
        node.describe(node.self, waiting, sizeof waiting);
        print_message("rank %d waits for \"%s\", status %s %s\n", i, waiting,
                      tr_status_name(node.status(node.self, &text)), text ? text : "");
    }
}

static float expected[TRAINERS_MAX][TOTAL];

static void check_run(uint64_t seed, int servers, int trainers, double loss)
{
    const tr_sim_options options = {.seed = seed, .delay = 1000, .drop = loss, .duplicate = loss, .notice = 5000};
    job                 *j = make_job(servers, trainers, &options, loss > 0 ? 20000 : 0);

    is_even = seed % 2;
    for (int i = 0; i < trainers; i++)
        say_setup(&j->trainer[i], "90");
    if (!tr_sim_run(j->sim, 1000000, drive, j)) {
        say_state(j);
        fail_msg("seed %llu with %d servers and %d trainers does not end", (unsigned long long)seed, servers, trainers);
    }
    oracle(j, expected);
    for (int i = 0; i < trainers; i++)
        if (memcmp(j->trainer[i].param, expected[i], sizeof expected[i]))
            fail_msg("seed %llu: trainer %d of %d ends with other parameters (%d servers)", (unsigned long long)seed, i,
                     trainers, servers);
    free_job(j);
}

/* -- what is promised ------------------------------------------------------------------------------ */

static void parameters_are_bitwise_those_of_one_process_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        for (int servers = 1; servers <= 3; servers++)
            check_run(seed, servers, 1 + (int)(seed % TRAINERS_MAX), 0);
}

static void lost_and_doubled_messages_change_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++)
        for (int servers = 1; servers <= 3; servers++)
            check_run(seed, servers, 1 + (int)(seed % TRAINERS_MAX), 0.05);
}

static tr_status status_of(const job *j, int rank, const char **text)
{
    const tr_node node = rank < j->servers ? tr_server_node(j->store[rank].server)
                                           : tr_client_node(j->trainer[rank - j->servers].client);
    return node.status(node.self, text);
}

/* Everybody is dead, done, or knows that the job has failed. */
static bool all_know(void *payload)
{
    job        *j = payload;
    const char *text;
    bool        is_over = true;

    drive(payload);
    for (int i = 0; i < j->servers + j->trainers; i++) {
        const bool is_done = i < j->servers ? tr_server_is_done(j->store[i].server)
                                            : j->trainer[i - j->servers].phase == END;
        if (tr_sim_is_dead(j->sim, i))
            continue;
        if (j->is_mortal && status_of(j, i, &text) != TR_OK)
            tr_sim_kill(j->sim, i, 0);
        is_over &= is_done || status_of(j, i, &text) != TR_OK;
    }
    return is_over;
}

static void a_killed_rank_ends_every_run_and_is_named(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        const tr_sim_options options = {.seed = seed, .delay = 1000, .notice = 5000};
        const int            servers = 1 + (int)(seed % 3), trainers = 1 + (int)(seed / 3 % TRAINERS_MAX);
        job                 *j = make_job(servers, trainers, &options, 0);
        const int            victim = (int)tr_sim_random(j->sim, (uint64_t)(servers + trainers));
        int                  failed = 0, named = 0;
        char                 name[96];
        const char          *text;

        j->is_mortal = true;
        for (int i = 0; i < trainers; i++)
            say_setup(&j->trainer[i], "90");
        tr_sim_kill(j->sim, victim, 1 + (int64_t)tr_sim_random(j->sim, 60000));
        if (!tr_sim_run(j->sim, 1000000, all_know, j)) {
            say_state(j);
            fail_msg("seed %llu: somebody waits for ever for dead rank %d", (unsigned long long)seed, victim);
        }
        snprintf(name, sizeof name, "rank %d (%s %d, host h, pid %d) died; rank ", victim,
                 victim < servers ? "server" : "trainer", victim < servers ? victim : victim - servers, 100 + victim);
        for (int i = 0; i < servers + trainers; i++)
            if (i != victim && status_of(j, i, &text) != TR_OK) {
                failed++;
                named += strstr(text, name) != NULL;
            }
        if (failed && !named)
            fail_msg("seed %llu: nobody says \"%s\"", (unsigned long long)seed, name);
        free_job(j);
    }
}

static void disagreement_is_refused_with_a_diff(void **state)
{
    const tr_sim_options options = {.seed = 5, .delay = 1000, .notice = 5000};
    job                 *j = make_job(2, 2, &options, 0);
    const char          *text;

    (void)state;
    say_setup(&j->trainer[0], "90");
    say_setup(&j->trainer[1], "91");
    assert_true(tr_sim_run(j->sim, 100000, all_know, j));
    for (int i = 0; i < 2; i++) {
        const tr_node node = tr_client_node(j->trainer[i].client);
        assert_int_equal(node.status(node.self, &text), TR_EPEER);
        assert_non_null(strstr(text, "seed: \"90\" here, \"91\" there"));
        assert_non_null(strstr(text, "rank 3 (trainer 1, host h, pid 103)"));
    }
    free_job(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_bitwise_those_of_one_process_in_any_order),
        cmocka_unit_test(lost_and_doubled_messages_change_nothing),
        cmocka_unit_test(a_killed_rank_ends_every_run_and_is_named),
        cmocka_unit_test(disagreement_is_refused_with_a_diff),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
