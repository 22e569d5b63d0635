/* test_snapshot.c - snapshots of whole simulated jobs: what all servers copy is one state, in every mode, and nobody waits
 * for ever. The state of a store is how many steps of each trainer it has applied. */
#include "tests/support/snapshot_word.h"

#include "pserver/core/client/client.h"
#include "pserver/core/server/server.h"
#include "tests/support/simulator.h"
#include "proto/pserver.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SERVERS_MAX = 3, TRAINERS_MAX = 4, BLOCKS = 2, STEPS_MAX = 12, CHUNK = 4096 };

/* Elements of the blocks of each server: one travels with others, one in pieces. */
static const int64_t block_size[BLOCKS] = {3, 2500};

typedef struct job job;

typedef struct store {
    job       *job;
    int        index;
    tr_server *server;
    float     *param[BLOCKS];
    uint64_t   applied[TRAINERS_MAX], pending[TRAINERS_MAX];
    bool       is_applying, is_copying, is_over;
    uint64_t   copy[TRAINERS_MAX];
} store;

/* What a trainer asks of its core. */
typedef enum op { OP_SET_UP, OP_PULL, OP_STEP, OP_STAY, OP_GOODBYE, OP_SNAPSHOT } op;

typedef enum phase { START, SETUP, PULL, STAY, LAST, GOODBYE, END } phase;

typedef struct trainer {
    job       *job;
    tr_client *client;
    int        index, steps, step;
    phase      phase;
    uint64_t   ticket;                /* of the last operation that it has asked for */
    bool       takes_snapshot;            /* a snapshot that it has begun is not answered */
    bool       has_answers;           /* the core has begun it: its answers are of this one */
    float      param[SERVERS_MAX][2500], grad[2500];
} trainer;

struct job {
    tr_sim     *sim;
    const char *mode;
    int64_t     retry;
    int         servers, trainers;
    store       store[SERVERS_MAX];
    trainer     trainer[TRAINERS_MAX];
    int         snapshots, snapshots_by[TRAINERS_MAX];
    bool        has_last;             /* a whole snapshot has all that the living have made */
    bool        is_again;             /* servers have a state of an earlier start, */
    uint64_t    settled[SERVERS_MAX][TRAINERS_MAX];   /* one of them a step more of a trainer than another */
    uint8_t     trainer_flags[TRAINERS_MAX];
    uint8_t    *setup;                /* as they were told then */
    size_t      setup_bytes;
};

static tr_policy policy_of(const job *j)
{
    tr_policy policy = {0};

    assert_int_equal(tr_policy_parse(&policy, j->mode), TR_OK);
    return policy;
}

/* -- stores --------------------------------------------------------------------------------------- */

static bool store_last_commit(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    const store *s = self;
    const job   *j = s->job;
    uint64_t     updates = 0;

    if (!j->is_again)
        return false;
    for (int i = 0; i < j->trainers; i++)
        updates += j->settled[s->index][i];
    *commit = (tr_commit){updates, j->settled[s->index], j->trainer_flags, updates, 0, 1, NULL, {0}};
    *packed = j->setup;
    *bytes = j->setup_bytes;
    return true;
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed,
                             uint64_t bytes, bool resume)
{
    (void)policy;
    store *s = self;

    (void)packed, (void)bytes;
    assert_int_equal(resume, s->job->is_again);
    assert_int_equal(setup->n_blocks, BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        s->param[i] = calloc((size_t)block_size[i], 4);
    memcpy(s->applied, s->job->settled[s->index], sizeof s->applied);
    return TR_OK;
}

static void *store_param(void *self, uint32_t index) { return ((store *)self)->param[index]; }

static tr_status store_ready(void *self)
{
    (void)self;
    return TR_OK;
}

static void end_update(void *payload)
{
    store *s = payload;

    s->is_applying = false;
    tr_server_applied(s->server, TR_OK);
}

static void store_apply(void *self, const tr_update *update)
{
    store *s = self;

    assert_false(s->is_applying || s->is_copying);
    s->is_applying = true;
    for (int i = 0; i < s->job->trainers; i++)
        s->pending[i] = update->takes_part[i];
    tr_sim_call(s->job->sim, s->index, 1 + (int64_t)tr_sim_random(s->job->sim, 2000), end_update, s);
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    store *s = self;

    (void)commit;
    for (int i = 0; is_update && i < s->job->trainers; i++)
        s->applied[i] += s->pending[i];
}

static void store_go_back(void *self, const tr_commit *commit)
{
    (void)self;
    (void)commit;
    fail();
}

static void end_writing(void *payload)
{
    store *s = payload;
    tr_server_written(s->server, (const uint8_t *)s->copy, sizeof s->copy, NULL);
}

static void end_copying(void *payload)
{
    store *s = payload;

    s->is_copying = false;
    tr_server_snapped(s->server, tr_sim_now(s->job->sim));
    tr_sim_call(s->job->sim, s->index, 1 + (int64_t)tr_sim_random(s->job->sim, 20000), end_writing, s);
}

static void store_snapshot(void *self, const Trireme__Pserver__SnapshotTarget *target)
{
    store *s = self;

    assert_string_equal(target->file, "part");
    assert_false(s->is_applying || s->is_copying);
    s->is_copying = true;
    memcpy(s->copy, s->applied, sizeof s->copy);
    tr_sim_call(s->job->sim, s->index, 1 + (int64_t)tr_sim_random(s->job->sim, 3000), end_copying, s);
}

/* -- trainers -------------------------------------------------------------------------------------- */

static uint8_t *pack_place(void *self, size_t *size, uint64_t step)
{
    const trainer *t = self;

    assert_int_equal(step, t->step);
    return pack_snapshot(t->index, step, false, size);
}

static uint8_t *pack_work(const job *j, size_t *size)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Block  block[BLOCKS], *blocks[BLOCKS];
    static char              name[BLOCKS][8] = {"a", "b"};

    for (int i = 0; i < BLOCKS; i++) {
        trireme__pserver__block__init(&block[i]);
        block[i].param = block[i].grad = name[i];
        block[i].dtype = TR_FP32;
        block[i].bytes = (uint64_t)block_size[i] * 4;
        blocks[i] = &block[i];
    }
    setup.mode = (char *)(uintptr_t)j->mode;
    setup.chunk_bytes = CHUNK;
    setup.has_keeps = setup.keeps = true;
    setup.n_blocks = BLOCKS;
    setup.blocks = blocks;
    *size = trireme__pserver__setup__get_packed_size(&setup);
    uint8_t *bytes = malloc(*size);
    trireme__pserver__setup__pack(&setup, bytes);
    return bytes;
}

static void pack_setup(const job *j, bool is_first, tr_client_setup *out)
{
    Trireme__Pserver__Join join = TRIREME__PSERVER__JOIN__INIT;

    out->join_bytes = trireme__pserver__join__get_packed_size(&join);
    out->join = malloc(out->join_bytes + 1);
    trireme__pserver__join__pack(&join, out->join);
    if (is_first)
        out->setup = pack_work(j, &out->setup_bytes);
}

static void set_up(trainer *t)
{
    tr_client_setup setups[SERVERS_MAX] = {{0}};
    tr_client_block blocks[SERVERS_MAX * BLOCKS];
    const job      *j = t->job;

    for (int s = 0; s < j->servers; s++) {
        pack_setup(j, t->index == 0, &setups[s]);
        for (int i = 0; i < BLOCKS; i++)
            blocks[s * BLOCKS + i] = (tr_client_block){s, (uint64_t)block_size[i] * 4};
    }
    tr_policy policy = policy_of(j);
    policy.is_lockstep = !j->is_again;
    tr_client_setup_all(t->client, setups, (uint32_t)(j->servers * BLOCKS), blocks, &policy, true);
    uint64_t resumed = 0;
    if (tr_client_resumes(t->client, &resumed))
        t->step = (int)resumed;
}

static void pull(trainer *t)
{
    int   blocks[SERVERS_MAX];
    void *to[SERVERS_MAX];

    for (int s = 0; s < t->job->servers; s++) {
        blocks[s] = s * BLOCKS + 1;
        to[s] = t->param[s];
    }
    tr_client_pull(t->client, (uint32_t)t->job->servers, blocks, to);
}

static void snapshot(trainer *t, uint64_t step)
{
    uint8_t *payload[SERVERS_MAX];
    size_t   size[SERVERS_MAX];

    for (int s = 0; s < t->job->servers; s++)
        payload[s] = pack_snapshot(t->index, step, true, &size[s]);
    tr_client_snapshot(t->client, payload, size);
    t->has_answers = true;
}

/* -- what must hold of a snapshot -------------------------------------------------------------------------- */

static bool is_apart(const job *j) { return policy_of(j).snapshots_all; }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Where those are of whom nothing is said: where one cuts alone, all that make steps are at the same. */
static uint64_t most_steps(const Trireme__Pserver__SnapshotDone *done)
{
    uint64_t most = 0;

    for (size_t p = 0; p < done->n_places; p++)
        most = done->places[p]->steps > most ? done->places[p]->steps : most;
    return most;
}

/* What the state must have of trainer i, by what it says of itself. */
static void check_trainer(const job *j, const Trireme__Pserver__SnapshotDone *done, const uint64_t *copy, int i)
{
    const Trireme__Pserver__Place *place = NULL;

    for (size_t p = 0; p < done->n_places; p++)
        if (done->places[p]->index == (uint32_t)i)
            place = done->places[p];
    if (strstr(j->mode, "backups")) {                  /* some steps are dropped */
        assert_true(!place || copy[i] <= place->steps);
        return;
    }
    assert_true(!place || copy[i] == place->steps);
    if (is_apart(j)) {
        assert_non_null(place);                        /* of who has left, too */
        return;
    }
    assert_int_equal(copy[i], least(most_steps(done), (uint64_t)j->trainer[i].steps));
}

/* Where nobody dies every snapshot is whole. */
static bool is_whole(const trainer *t)
{
    const job *j = t->job;
    bool       is_whole = true, has_lost = false;

    for (int s = 0; s < j->servers; s++) {
        const tr_client_answer    *answer = tr_client_snapshot_answer(t->client, s);
        Trireme__Pserver__SnapshotDone *done = trireme__pserver__snapshot_done__unpack(NULL, answer->size, answer->bytes);
        assert_non_null(done);
        is_whole &= done->has_part;
        trireme__pserver__snapshot_done__free_unpacked(done, NULL);
    }
    for (int i = 0; i < j->trainers; i++)
        has_lost |= tr_sim_is_dead(j->sim, j->servers + i);
    assert_true(is_whole || has_lost);
    return is_whole;
}

static void check_snapshot(trainer *t)
{
    uint64_t first[TRAINERS_MAX] = {0};
    job     *j = t->job;
    bool     is_last = true;

    t->takes_snapshot = false;
    if (!is_whole(t))
        return;
    for (int s = 0; s < j->servers; s++) {
        const tr_client_answer    *answer = tr_client_snapshot_answer(t->client, s);
        Trireme__Pserver__SnapshotDone *done = trireme__pserver__snapshot_done__unpack(NULL, answer->size, answer->bytes);
        assert_non_null(done);
        assert_true(done->has_part);
        assert_int_equal(done->part.len, sizeof first);
        const uint64_t *copy = (const uint64_t *)(void *)done->part.data;
        if (s == 0)
            memcpy(first, copy, sizeof first);
        for (int i = 0; i < j->trainers; i++) {
            if (tr_sim_is_dead(j->sim, j->servers + i))
                continue;                              /* what it had sent last is lost to some */
            check_trainer(j, done, copy, i);
            assert_int_equal(copy[i], first[i]);       /* all servers have the same of everybody */
            is_last &= strstr(j->mode, "backups") || copy[i] == (uint64_t)j->trainer[i].steps;
        }
        trireme__pserver__snapshot_done__free_unpacked(done, NULL);
    }
    j->snapshots++;
    j->snapshots_by[t->index]++;
    j->has_last |= is_last;
}

/* -- a trainer's program -------------------------------------------------------------------------------- */

typedef struct request {
    tr_command head;
    int        step;
} request;

/* `operations`: how many the core makes of it. */
static void ask(trainer *t, op what, int operations)
{
    const request command = {{(int)what}, t->step};

    t->ticket += (uint64_t)operations;
    tr_comm_post(tr_sim_comm(t->job->sim, t->job->servers + t->index), &command.head, sizeof command);
}

static void push_and_pull(trainer *t)
{
    for (int b = 0; b < t->job->servers * BLOCKS; b++)
        tr_client_push(t->client, (uint32_t)b, t->grad, 1);
    tr_client_step_end(t->client);
    pull(t);
}

static void trainer_command(void *self, const tr_command *command)
{
    trainer *t = self;

    switch ((op)command->kind) {
    case OP_SET_UP:   set_up(t); break;
    case OP_PULL:     pull(t); break;
    case OP_STEP:     push_and_pull(t); break;
    case OP_STAY:     tr_client_drain(t->client); break;
    case OP_GOODBYE:  tr_client_goodbye(t->client); break;
    case OP_SNAPSHOT: snapshot(t, (uint64_t)((const request *)(const void *)command)->step); break;
    }
}

static void begin_snapshot(trainer *t)
{
    t->takes_snapshot = true;
    t->has_answers = false;
    ask(t, OP_SNAPSHOT, 0);
}

static void step(trainer *t)
{
    if (tr_client_is_initiator(t->client) && !t->takes_snapshot && tr_client_may_begin_snapshot(t->client) &&
        tr_sim_random(t->job->sim, 3) == 0)
        begin_snapshot(t);
    t->step++;
    ask(t, OP_STEP, t->job->servers * BLOCKS + 2);
}

static tr_sim_plan go_on(void *self)
{
    trainer *t = self;

    if (t->takes_snapshot && t->has_answers && tr_client_snapshot_is_answered(t->client))
        check_snapshot(t);
    if (tr_client_done(t->client) < t->ticket)
        return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
    if (t->phase == START) {
        ask(t, OP_SET_UP, 1);
        t->phase = SETUP;
    } else if (t->phase == SETUP) {
        ask(t, OP_PULL, 1);
        t->phase = PULL;
    } else if (t->phase == GOODBYE) {
        t->phase = END;
        return (tr_sim_plan){TR_SIM_LEAVE};
    } else if (t->step < t->steps) {
        step(t);
    } else if (t->takes_snapshot) {                        /* it leaves when its snapshot is whole */
        return (tr_sim_plan){TR_SIM_WORK, 2000};
    } else if (t->phase == PULL) {
        ask(t, OP_STAY, 1);
        t->phase = STAY;
    } else if (t->phase == STAY && !tr_client_is_over(t->client)) {
        assert_true(tr_client_is_initiator(t->client));
        begin_snapshot(t);
        t->phase = LAST;
    } else {
        ask(t, OP_GOODBYE, 1);
        t->phase = GOODBYE;
    }
    return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
}

/* -- jobs --------------------------------------------------------------------------------------------- */

static tr_node make_server(void *self, const tr_roster *roster)
{
    store         *s = self;
    const tr_store table = {.self = s, .worker = s, .last_commit = store_last_commit, .setup = store_setup, .value = store_param,
                            .ready = store_ready, .param = store_param, .apply = store_apply, .commit = store_commit,
                            .go_back = store_go_back, .snapshot = store_snapshot};

    s->server = tr_server_new(roster, &table);
    return tr_server_node(s->server);
}

static tr_node make_client(void *self, const tr_roster *roster)
{
    trainer                *t = self;
    const tr_client_options options = {CHUNK, 3 * CHUNK, t->job->retry, 1000000, .is_apart = true};

    t->client = tr_client_new(roster, &options);
    tr_client_set_place(t->client, pack_place, t);
    return tr_client_node(t->client);
}

static void no_command(void *self, const tr_command *command)
{
    (void)self;
    (void)command;
}

static void no_flush(void *self, bool owner_waits)
{
    (void)owner_waits;
    (void)self;
}

static void flush(void *self, bool owner_waits)
{
    (void)owner_waits;
    tr_client_flush(((trainer *)self)->client);
}

static uint64_t server_done(void *self)
{
    store *s = self;

    if (tr_server_is_done(s->server) && !s->is_over) {
        s->is_over = true;
        tr_sim_wake(s->job->sim, s->index);
    }
    return 0;
}

static uint64_t client_done(void *self)
{
    return tr_client_done(((trainer *)self)->client);
}

static tr_sim_plan serve(void *self)
{
    return (tr_sim_plan){((store *)self)->is_over ? TR_SIM_LEAVE : TR_SIM_IDLE};
}

/* Each server has the last step of each trainer, or not yet. */
static void make_uneven(job *j)
{
    j->setup = pack_work(j, &j->setup_bytes);
    for (int i = 0; i < j->trainers; i++) {
        const uint64_t steps = tr_sim_random(j->sim, 5);
        for (int s = 0; s < j->servers; s++)
            j->settled[s][i] = steps + tr_sim_random(j->sim, 2);
    }
}

static void make_job(job *j, const char *mode, const tr_sim_options *options, int64_t retry, bool is_again)
{
    *j = (job){.mode = mode, .is_again = is_again, .retry = retry};
    tr_sim *dice = tr_sim_new(1, options);             /* sizes are of the seed, too */
    j->servers = 1 + (int)tr_sim_random(dice, SERVERS_MAX);
    j->trainers = 1 + (int)tr_sim_random(dice, TRAINERS_MAX);
    tr_sim_free(dice);
    j->sim = tr_sim_new(j->servers + j->trainers, options);
    if (is_again)
        make_uneven(j);
    for (int s = 0; s < j->servers; s++) {
        store *st = &j->store[s];
        st->job = j;
        st->index = s;
        const tr_sim_program program = {.core = {st, make_server, no_command, no_flush, server_done}, .role = TR_ROLE_SERVER,
                                        .incarnation = 1, .host = "here", .go_on = serve};
        tr_sim_attach(j->sim, s, &program);
    }
    for (int i = 0; i < j->trainers; i++) {
        trainer *t = &j->trainer[i];
        t->job = j;
        t->index = i;
        t->steps = (is_again ? 6 : 1) + (int)tr_sim_random(j->sim, STEPS_MAX);
        t->ticket = 1;
        const tr_sim_program program = {.core = {t, make_client, trainer_command, flush, client_done}, .role = TR_ROLE_TRAINER,
                                        .incarnation = 1, .host = options->seed % 3 ? "here" : "there", .go_on = go_on};
        tr_sim_attach(j->sim, j->servers + i, &program);
    }
}

static void free_job(job *j)
{
    tr_sim_free(j->sim);                               /* first: messages on their way have loans of cores */
    for (int s = 0; s < j->servers; s++) {
        tr_server_free(j->store[s].server);
        for (int i = 0; i < BLOCKS; i++)
            free(j->store[s].param[i]);
    }
    for (int i = 0; i < j->trainers; i++)
        tr_client_free(j->trainer[i].client);
    free(j->setup);
}

static void say_state(const job *j, uint64_t seed)
{
    print_message("mode %s, seed %llu, %d servers\n", j->mode, (unsigned long long)seed, j->servers);
    for (int i = 0; i < j->servers + j->trainers; i++) {
        const tr_node node = i < j->servers ? tr_server_node(j->store[i].server)
                                            : tr_client_node(j->trainer[i - j->servers].client);
        const char   *text = NULL;
        char          waiting[256];
        node.describe(node.self, waiting, sizeof waiting);
        print_message("rank %d waits for \"%s\", status %s %s\n", i, waiting,
                      tr_status_name(tr_sim_status(j->sim, i, &text)), text ? text : "");
    }
}

static const char *const modes[] = {"sync", "async", "ssp(0)", "ssp(2)", "geo(2)", "sync(backups=1)", "sync(degraded)", "average(2)"};
enum { MODES = sizeof modes / sizeof *modes };
static const int64_t LONG = 20000000000;   /* virtual nanoseconds */

static int snapshots_of_others;            /* than trainer 0 */

/* Runs `count` jobs of each mode; returns how many snapshots were whole. */
static int run_jobs(int count, double drop, int killed)
{
    static job j;
    int        snapshots = 0;

    for (int m = killed >= 0; m < MODES; m++)
        for (int seed = 1; seed <= count; seed++) {
            const tr_sim_options options = {.seed = (uint64_t)(seed * 31 + m), .delay = 1000, .turn = 1000, .drop = drop, .duplicate = drop,
                                            .notice = 5000};
            make_job(&j, modes[m], &options, drop > 0 ? 20000 : 0, false);
            if (killed >= 0 && killed < j.trainers && j.trainers > 1)
                tr_sim_kill(j.sim, j.servers + killed, (int64_t)tr_sim_random(j.sim, 60000) + 60000);
            if (!tr_sim_run(j.sim, LONG)) {
                say_state(&j, options.seed);
                fail_msg("the job does not end");
            }
            snapshots += j.snapshots;
            if (killed == 0 && j.trainers > 1)
                snapshots_of_others += j.snapshots - j.snapshots_by[0];
            for (int i = 1; killed < 0 && i < j.trainers; i++)
                snapshots_of_others += j.snapshots_by[i];
            if (!j.has_last && killed < 0)
                fail_msg("%s, seed %d: no checkpoint has everything", modes[m], seed);
            free_job(&j);
        }
    return snapshots;
}

static void every_snapshot_is_one_state(void **state)
{
    (void)state;
    assert_true(run_jobs(150, 0, -1) > 1000);
    print_message("%d snapshots of others than trainer 0\n", snapshots_of_others);
    assert_true(snapshots_of_others > 200);                 /* its data ends before that of others */
}

static void so_it_is_when_messages_are_lost_and_come_twice(void **state)
{
    (void)state;
    assert_true(run_jobs(40, 0.03, -1) > 200);
}

static void a_trainer_that_dies_holds_up_no_snapshot(void **state)
{
    (void)state;
    assert_true(run_jobs(60, 0, 1) > 200);
}

static void without_trainer_0_another_makes_snapshots(void **state)
{
    (void)state;
    snapshots_of_others = 0;
    run_jobs(60, 0, 0);
    assert_true(snapshots_of_others > 200);
}

/* A job that is started again from servers one of which had died after a step that the others had not. */
static void servers_become_even_before_a_snapshot(void **state)
{
    static job j;
    int        snapshots = 0;

    (void)state;
    for (int m = 0; m < MODES; m++)
        for (int seed = 1; seed <= 60 && (!strcmp(modes[m], "async") || !strncmp(modes[m], "ssp", 3) || !strncmp(modes[m], "geo", 3));
             seed++) {
            const tr_sim_options options = {.seed = (uint64_t)(seed * 31 + m), .delay = 1000, .turn = 1000};
            make_job(&j, modes[m], &options, 0, true);
            if (!tr_sim_run(j.sim, LONG)) {
                say_state(&j, options.seed);
                fail_msg("the job does not end");
            }
            snapshots += j.snapshots;
            free_job(&j);
        }
    assert_true(snapshots > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_snapshot_is_one_state),
        cmocka_unit_test(so_it_is_when_messages_are_lost_and_come_twice),
        cmocka_unit_test(a_trainer_that_dies_holds_up_no_snapshot),
        cmocka_unit_test(without_trainer_0_another_makes_snapshots),
        cmocka_unit_test(servers_become_even_before_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
