/* sim_trainer.c - a trainer's program: set up, steps, goodbye. */
#include "tests/support/sim_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make_coders(sim_trainer *t)
{
    const size_t blocks = (size_t)t->job->blocks;

    if (t->job->compress.kind == TR_COMPRESS_NONE)
        return;
    t->residual = calloc(SIM_TOTAL, sizeof *t->residual);
    t->payload = aligned_alloc(64, (SIM_TOTAL * sizeof(float) / SIM_CHUNK + 1 + blocks) * 2 * SIM_CHUNK);
    t->pieces = calloc(blocks, sizeof *t->pieces);
    for (size_t i = 0; i < blocks; i++)
        t->pieces[i].bytes = calloc((size_t)t->job->block[i].size * sizeof(float) / SIM_CHUNK + 1, sizeof(uint64_t));
}

static void free_coders(sim_trainer *t)
{
    for (int i = 0; t->pieces && i < t->job->blocks; i++)
        free((void *)(uintptr_t)t->pieces[i].bytes);
    free(t->residual);
    free(t->payload);
    free(t->pieces);
}

void sim__trainer_init(sim_trainer *t, sim_job *job, int index, int rank)
{
    *t = (sim_trainer){.job = job, .index = index, .rank = rank, .ticket = 1, .posted = 1, .made = 1, .fact = "90"};
    t->param = calloc(SIM_TOTAL, sizeof *t->param);
    t->grad = calloc(SIM_TOTAL, sizeof *t->grad);
    t->momentum = calloc(SIM_TOTAL, sizeof *t->momentum);
    t->pulled = calloc(1, sizeof *t->pulled);
    t->pushed = calloc(1, sizeof *t->pushed);
    make_coders(t);
    sim__first_params(job, t->param);
}

void sim__trainer_deinit(sim_trainer *t)
{
    free(t->param);
    free(t->grad);
    free(t->momentum);
    free(t->pulled);
    free(t->pushed);
    free_coders(t);
    sim__meet_deinit(t);
}

bool sim__trainer_is_dead(const sim_job *job, int index)
{
    return tr_sim_is_dead(job->sim, job->trainer[index].rank);
}

static void pack_join(const sim_trainer *t, tr_client_setup *out)
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
    static const float        zero[SIM_TOTAL];
    const size_t              most = 2 * (size_t)job->blocks;
    Trireme__Pserver__Block  *b = calloc(most, sizeof *b), **blocks = calloc(most, sizeof *blocks);
    Trireme__Pserver__Value  *v = calloc(most, sizeof *v), **values = calloc(most, sizeof *values);
    char                    (*name)[16] = calloc(most, sizeof *name);
    tr_client_value          *first = job->first + (size_t)server * most;
    size_t                    n = 0;
    Trireme__Pserver__Table   table, *tables = &table;

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
    for (size_t i = 0; i < n; i++) {               /* and its momentum */
        trireme__pserver__value__init(&v[n + i]);
        v[n + i].name = (char *)"m";
        v[n + i].dtype = TR_FP32;
        v[n + i].bytes = v[i].bytes;
        first[n + i] = (tr_client_value){zero, v[i].bytes};
        values[n + i] = &v[n + i];
    }
    setup.mode = (char *)(uintptr_t)job->options.mode;
    setup.compress = (char *)(uintptr_t)job->options.compress;
    setup.chunk_bytes = SIM_CHUNK;
    setup.has_keeps = true;
    setup.keeps = job->options.snapshots;
    setup.n_blocks = n;
    setup.n_values = 2 * n;
    setup.blocks = blocks;
    setup.values = values;
    trireme__pserver__table__init(&table);
    table.name = (char *)"rows";
    table.dtype = TR_FP32;
    table.width = SIM_WIDTH;
    table.shard_count = 1;
    setup.n_tables = !job->options.is_scripted || job->options.has_rows;
    setup.tables = &tables;
    uint64_t step;
    setup.has_restores = job->options.restores && !tr_client_resumes(job->trainer[0].client, &step);
    setup.restores = 1;
    setup.has_tasks = server == 0 && job->options.from && job->options.from->tasks;
    setup.tasks.data = setup.has_tasks ? job->options.from->tasks : NULL;
    setup.tasks.len = setup.has_tasks ? job->options.from->tasks_size : 0;
    out->setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    out->setup = malloc(out->setup_bytes);
    trireme__pserver__setup__pack(&setup, out->setup);
    out->value_count = (uint32_t)(2 * n);
    out->values = first;
    free(b);
    free(blocks);
    free(v);
    free(values);
    free(name);
}

static void set_up_servers(sim_trainer *t)
{
    sim_job         *job = t->job;
    tr_client_setup *setups = calloc((size_t)job->options.servers, sizeof *setups);
    tr_client_block *blocks = calloc(3 * (size_t)job->blocks, sizeof *blocks);

    for (int i = 0; i < 3 * job->blocks; i++) {        /* parameters; then, as values, parameters and momenta */
        const sim_block *b = &job->block[i % job->blocks];
        blocks[i] = (tr_client_block){b->server, (uint64_t)b->size * 4, job->options.rounds && i < job->blocks};
    }
    for (int s = 0; s < job->options.servers; s++) {
        pack_join(t, &setups[s]);
        if (t->index == 0)
            pack_setup(job, s, &setups[s]);
    }
    tr_client_setup_all(t->client, setups, 3 * (uint32_t)job->blocks, blocks, &job->policy, true);
    tr_carrier_set_up(t->carrier, &(tr_carrier_setup){
        .block_count = 3 * (uint32_t)job->blocks, .blocks = blocks, .compress = &job->compress,
        .table_count = !job->options.is_scripted || job->options.has_rows, .width = (int64_t[]){SIM_WIDTH}});
    free(setups);
    free(blocks);
}

static void pull_blocks(sim_trainer *t, sim_part part)
{
    const size_t n = (size_t)t->job->blocks, first = part == SIM_OTHERS ? (size_t)t->job->options.servers : 0;
    int         *blocks = calloc(2 * n, sizeof *blocks);
    void       **to = calloc(2 * n, sizeof *to);

    for (size_t i = 0; i < n; i++) {
        blocks[i] = (int)i;
        to[i] = &t->param[t->job->block[i].at];
        blocks[n + i] = (int)(2 * n + i);
        to[n + i] = &t->momentum[t->job->block[i].at];
    }
    const size_t end = part == SIM_FIRST ? (size_t)t->job->options.servers : sim__is_looked_at(t->job) ? 2 * n : n;
    tr_client_pull(t->client, (uint32_t)(end - first), blocks + first, to + first);
    free(blocks);
    free(to);
}

/* Its payload stays as it is until the step is settled, which is before the next one's. */
static void push_compressed(sim_trainer *t, int index)
{
    enum { PIECE = SIM_CHUNK / sizeof(float), STRIDE = 2 * SIM_CHUNK };
    const sim_block  *b = &t->job->block[index];
    tr_client_pieces *to = &t->pieces[index];
    uint8_t          *payload = t->payload + (size_t)(b->at / PIECE + index) * STRIDE;

    *to = (tr_client_pieces){payload, STRIDE, to->bytes};
    for (int64_t at = 0; at < b->size; at += PIECE, payload += STRIDE) {
        const int64_t  count = b->size - at < PIECE ? b->size - at : PIECE;
        const uint64_t bytes = t->weight > 0 ? tr_compress_encode(&t->job->compress, payload, t->grad + b->at + at,
                                                                  t->residual + b->at + at, count)
                                             : tr_compress_encode_zeros(payload);
        ((uint64_t *)(uintptr_t)to->bytes)[at / PIECE] = bytes;
    }
    sim__ask(t, SIM_OP_PUSH_COMPRESSED, (uint32_t)index);
}

static void push_all(sim_trainer *t)
{
    const int n = t->job->blocks, chance = (int)tr_sim_random(t->job->sim, (uint64_t)n);
    const int start = tr_sim_random(t->job->sim, 8) && !sim__begins_group(t->job, t->job->options.trainers - 1) ? t->step % n : chance;
    int       set;

    for (int i = 0; i < 2 && sim__set(t->job, t->step, &set, t->param, NULL); i++)
        sim__ask(t, SIM_OP_SET, (uint32_t)(2 * set + i));
    sim__gradient(t->job, t->grad, t->param, t->index, t->step, t->weight);
    for (int i = 0; i < n; i++) {                  /* in an order of its own; trainers of a host mostly in the same one */
        const int b = (start + i) % n;
        if (sim__is_compressed(t->job, t->job->block[b].size))
            push_compressed(t, b);
        else
            sim__ask(t, SIM_OP_PUSH, (uint32_t)b);
        if (tr_sim_random(t->job->sim, 8) == 0)
            sim__ask_now(t, SIM_OP_FLUSH);
    }
    sim__push_rows(t);
    sim__ask(t, SIM_OP_STEP_END, 0);
}

/* Parameters and rows; waiting for `ticket` waits for both. */
static void pull_everything(sim_trainer *t)
{
    const bool is_late = t->job->policy.backups > 0;

    if (!is_late)
        sim__pull_rows(t);
    t->ticket = sim__ask(t, SIM_OP_PULL, 0);
    if (is_late)
        sim__pull_rows(t);
}

/* A trainer that begins step n + 1 may be `count` steps ahead of any other that is there. One that finds itself further ahead of who had died
 * before the job was started again makes a step more, or two, where the other waits for its snapshot. */
static void check_bound(const sim_trainer *t)
{
    const sim_job *job = t->job;

    if (job->options.snapshots && t->step <= t->known + 1)
        return;
    for (int i = 0; job->policy.lead >= 0 && i < job->options.trainers; i++) {
        bool     is_gone = !job->options.replacements && sim__trainer_is_dead(job, i);
        uint64_t settled = UINT64_MAX;
        for (int s = 0; s < job->options.servers; s++) {
            is_gone |= job->place[s].flags[i] & TR_TRAINER_GONE;
            settled = job->place[s].settled[i] < settled ? job->place[s].settled[i] : settled;
        }
        is_gone |= job->options.replacements && settled == (uint64_t)job->trainer[i].steps;
        if (!is_gone && (int64_t)t->step - 1 > (int64_t)settled + sim__bound(job))
            fail_msg("seed %llu: trainer %d begins step %d while trainer %d has made %llu: the bound is %lld",
                     (unsigned long long)job->options.seed, t->index, t->step, i, (unsigned long long)settled,
                     (long long)sim__bound(job));
    }
}

/* Is this step in an update of a server? A late one may have been dropped. */
static bool is_in_update(const sim_place *p, int trainer, int step)
{
    for (uint64_t n = p->updates; n > 0; n--)
        if (p->history[n - 1][trainer])
            return p->history[n - 1][trainer] >= (uint64_t)step;
    return false;
}

/* Does its server tell nobody of a step that this replica has not? The first one of a server that is the first, too, gets the state before
 * all else. */
static bool is_to_have_all(const sim_job *job, int server)
{
    const bool is_first = sim__place_rank(&job->place[server]) == server;
    return sim_job_has_replica(job, server) || (is_first && !tr_sim_is_dead(job->sim, job->size - job->options.servers + server));
}

/* What this trainer was told is settled, replicas have, too. */
static void check_replicas(const sim_trainer *t)
{
    const sim_job *job = t->job;

    for (int s = 0; job->options.replicas && s < job->options.servers && t->step > t->known; s++) {
        const sim_place *p = &job->place[job->options.servers + s];
        if (is_to_have_all(job, s) && is_in_update(&job->place[s], t->index, t->step) &&
            (!p->counts || p->settled[t->index] < (uint64_t)t->step))
            fail_msg("seed %llu: step %d of trainer %d is settled, but not in the replica of server %d",
                     (unsigned long long)job->options.seed, t->step, t->index, s);
    }
}

/* In every other job who makes checkpoints does not look whether servers would decline. */
static bool may_begin_snapshot_now(const sim_trainer *t)
{
    return t->job->options.seed / 2 % 2 || !tr_client_awaits_replacement(t->client);
}

void sim__trainer_sleep(sim_trainer *t)
{
    if (t->job->options.replacements_late)
        t->asleep_until = tr_sim_now(t->job->sim) + t->job->options.replacements_late;
}

static void note_wait(sim_trainer *t)
{
    const int64_t waited = tr_sim_now(t->job->sim) - t->waits_since;
    t->waited = t->waits_since && waited > t->waited ? waited : t->waited;
    t->waits_since = 0;
}

/* After its last step, and after each thing that it does from there on. */
static void leave(sim_trainer *t)
{
    const bool stays = t->phase == SIM_STAY || t->phase == SIM_LAST;

    if (t->job->options.snapshots && !stays) {
        t->ticket = sim__ask(t, SIM_OP_STAY, 0);
        t->phase = SIM_STAY;
    } else if (stays && !tr_client_is_over(t->client) && (t->phase == SIM_STAY || !t->last_is_whole) && t->tries++ < 3) {
        sim__snapshot(t);
        t->phase = SIM_LAST;
    } else {
        t->ticket = sim__ask(t, SIM_OP_GOODBYE, 0);
        t->phase = SIM_GOODBYE;
    }
}

/* == commands ================================================================================= */

typedef struct request {
    tr_command head;
    uint32_t   of;
} request;

uint64_t sim__ask(sim_trainer *t, sim_op op, uint32_t of)
{
    const request command = {.head = {(int)op}, .of = of};

    t->posted += op < SIM_OP_SNAPSHOT;
    tr_comm_post(tr_sim_comm(t->job->sim, t->rank), &command.head, sizeof command);     /* a failure ends the program, by its loop */
    return t->posted;
}

void sim__ask_now(sim_trainer *t, sim_op op)
{
    const request command = {.head = {(int)op, .is_urgent = true}};
    tr_comm_post(tr_sim_comm(t->job->sim, t->rank), &command.head, sizeof command);
}

/* Send what this trainer has set of a block: the parameter, and (`of` is odd) its momentum. These are values n and n + count of their server. */
static void set_value(sim_trainer *t, int of)
{
    static float     momentum[SIM_TOTAL];
    const sim_job   *job = t->job;
    const sim_block *b = &job->block[of / 2];
    uint32_t         local = 0, count = 0;
    int              block;

    for (int i = 0; i < job->blocks; i++) {
        local += i < of / 2 && job->block[i].server == b->server;
        count += job->block[i].server == b->server;
    }
    sim__set(job, t->step, &block, NULL, momentum);
    tr_client_set(t->client, b->server, local + (of % 2 ? count : 0), (of % 2 ? momentum : t->param) + b->at, (uint64_t)b->size * sizeof *momentum);
}

static void ask_restore(sim_trainer *t)
{
    static const char *const paths[] = {"/checkpoints/step-1", "/checkpoints/step-2"};
    tr_client_restore(t->client, paths[t->checkpoint - 1], t->checkpoint, t->restored);
}

void sim__begin(sim_trainer *t)
{
    uint64_t   step;
    const bool restores = t->job->options.restores && !t->job->rank[t->rank].standby && !tr_client_resumes(t->client, &step);

    t->checkpoint = restores ? 2 : 0;
    t->ticket = sim__ask(t, restores ? SIM_OP_RESTORE : SIM_OP_SET_UP, 0);
    t->phase = restores ? SIM_RESTORE : SIM_SETUP;
}

bool sim__has_restored(sim_trainer *t)
{
    bool is_whole = true;

    for (int i = 0; i < t->job->options.servers; i++) {
        is_whole &= t->restored[i].status == TR_OK;
        free(t->restored[i].text);
        t->restored[i].text = NULL;
    }
    assert_true(is_whole == (t->checkpoint == 1));     /* all trainers hear the same */
    t->checkpoint--;
    t->ticket = sim__ask(t, is_whole ? SIM_OP_SET_UP : SIM_OP_RESTORE, 0);
    t->phase = is_whole ? SIM_SETUP : SIM_RESTORE;
    return is_whole;
}

static void make_request(sim_trainer *t, sim_op op, uint32_t of)
{
    tr_client *client = t->client;

    switch (op) {
    case SIM_OP_SET_UP:          set_up_servers(t); break;
    case SIM_OP_SET:             set_value(t, (int)of); break;
    case SIM_OP_PUSH:            tr_client_push(client, of, &t->grad[t->job->block[of].at], t->weight); break;
    case SIM_OP_PUSH_COMPRESSED: tr_client_push_compressed(client, of, &t->pieces[of], t->weight); break;
    case SIM_OP_PUSH_ROWS:       tr_client_push_rows(client, &t->pushed->call); break;
    case SIM_OP_STEP_END:        tr_client_step_end(client); break;
    case SIM_OP_STEP_IDLE:       tr_client_step_idle(client); break;
    case SIM_OP_PULL:            pull_blocks(t, (sim_part)of); break;
    case SIM_OP_EXPECT_ROWS:     sim__expect_rows(t); break;
    case SIM_OP_PULL_ROWS:       tr_client_pull_rows(client, &t->pulled->call); break;
    case SIM_OP_STAY:            tr_client_drain(client); break;
    case SIM_OP_GOODBYE:         tr_client_goodbye(client); break;
    case SIM_OP_TASKS:
    case SIM_OP_TASK_ASK:
    case SIM_OP_TASK_END:        sim__tasks_command(t, op, of); break;
    case SIM_OP_POST:            sim__meet_command(t); break;
    case SIM_OP_RESTORE:         ask_restore(t); break;
    case SIM_OP_SNAPSHOT:        sim__snapshot_command(t, of); break;
    case SIM_OP_REST:            tr_client_rest(client); break;
    case SIM_OP_FLUSH:           tr_client_flush(client); break;
    }
}

void sim__trainer_command(sim_trainer *t, const tr_command *command)
{
    make_request(t, (sim_op)command->kind, ((const request *)(const void *)command)->of);
    t->made += command->kind < SIM_OP_SNAPSHOT;
}

/* == the program ================================================================================ */

/* A step, after the one that has its parameters here. */
static void make_step(sim_trainer *t)
{
    if (t->job->options.snapshots && tr_client_is_initiator(t->client) && !t->takes_snapshot && tr_client_may_begin_snapshot(t->client) &&
        (tr_sim_random(t->job->sim, 3) == 0 || t->wants_snapshot) && may_begin_snapshot_now(t))
        sim__snapshot(t);
    t->step++;
    check_bound(t);
    t->weight = sim__weight(t->job, t->index, t->step);
    if (t->job->options.tasks)
        sim__tasks_make_step(t);
    push_all(t);
    pull_everything(t);
    t->waits_since = tr_sim_now(t->job->sim);
    t->phase = SIM_PULL;
}

static void begin_training(sim_trainer *t)
{
    memset(t->param, 0, SIM_TOTAL * sizeof *t->param);
    t->step = (int)tr_client_step(t->client);      /* not 0 when the job was started again */
    t->was_over = t->step == t->steps;
    t->known = t->job->start > 1 ? t->step + 1 : 0;
    pull_everything(t);
    t->phase = SIM_FIRST_PULL;
    if (t->job->rank[t->rank].standby)
        sim__trainer_sleep(t);
}

/* What has come with what it has waited for. */
static void take_in(sim_trainer *t)
{
    if (t->phase == SIM_PULL || t->phase == SIM_FIRST_PULL)
        sim__check_pulled(t);
    if (t->phase == SIM_PULL)
        sim__check_clock(t);
    if (t->phase == SIM_PULL)
        check_replicas(t);
    note_wait(t);
}

/* In a cluster: let the time pass in which a trainer computes its gradients. False: it has passed. */
static bool compute(sim_trainer *t)
{
    const sim_cluster *cluster = t->job->options.cluster;
    const int64_t      now = tr_sim_now(t->job->sim);

    t->has_computed = cluster && !t->has_computed;
    if (t->has_computed)
        t->asleep_until = now + (t->index + 1 == t->job->options.trainers ? cluster->straggling : cluster->computing);
    if (t->step == 0 && !t->first_step_at)
        t->first_step_at = now;
    return t->has_computed;
}

int64_t sim_job_step_time(const sim_job *job, int trainer)
{
    const sim_trainer *t = &job->trainer[trainer];
    return (t->last_step_at - t->first_step_at) / t->steps;
}

/* After a step. False: there is nothing to do yet. */
static bool go_on_training(sim_trainer *t)
{
    if (t->phase < SIM_STAY && sim__meet_makes_step(t)) {
        pull_everything(t);
        t->phase = SIM_PULL;
    } else if (t->phase < SIM_STAY && (sim__stop(t) || sim__meet(t))) {
        t->phase = SIM_MEET;
    } else if (t->phase < SIM_STAY && t->job->options.tasks && !sim__tasks_have_batch(t)) {
        if (!sim__tasks_idle(t))
            return false;
        check_bound(t);
        pull_everything(t);
        t->phase = SIM_PULL;
    } else if (t->step == t->steps && t->takes_snapshot) {
        return false;                              /* it leaves when its snapshot is answered */
    } else if (t->step == t->steps) {
        t->last_step_at = t->last_step_at ? t->last_step_at : tr_sim_now(t->job->sim);
        leave(t);
    } else if (!compute(t)) {
        make_step(t);
    }
    return true;
}

static tr_sim_plan wait_a_while(sim_trainer *t)
{
    sim__ask_now(t, SIM_OP_FLUSH);
    if (t->takes_snapshot)                         /* its answers are no operation */
        return (tr_sim_plan){TR_SIM_WORK, 500 + tr_sim_random(t->job->sim, 3000)};
    return sim__tasks_wait(t);
}

tr_sim_plan sim__trainer_go_on(sim_trainer *t)
{
    const int64_t now = tr_sim_now(t->job->sim);

    if (t->takes_snapshot && t->has_answers && tr_client_snapshot_is_answered(t->client))
        sim__take_answers(t);
    if (now < t->asleep_until)
        return (tr_sim_plan){TR_SIM_WORK, (uint64_t)(t->asleep_until - now)};
    if (tr_client_done(t->client) < t->ticket || t->made < t->posted)
        return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
    take_in(t);
    if (t->phase == SIM_START) {
        sim__begin(t);
    } else if (t->phase == SIM_RESTORE) {
        sim__has_restored(t);
    } else if (t->phase == SIM_SETUP && t->job->options.tasks) {
        sim__tasks_begin(t);                       /* which may say that it begins behind more steps */
        t->phase = SIM_TOLD_TASKS;
    } else if (t->phase == SIM_SETUP || t->phase == SIM_TOLD_TASKS) {
        begin_training(t);
    } else if (t->phase == SIM_GOODBYE || t->phase == SIM_END) {
        t->phase = SIM_END;
        return (tr_sim_plan){TR_SIM_LEAVE};
    } else if (!go_on_training(t)) {
        return wait_a_while(t);
    }
    if (t->has_computed)
        return (tr_sim_plan){TR_SIM_WORK, (uint64_t)(t->asleep_until - now)};
    if (!t->job->options.cluster && tr_sim_random(t->job->sim, 4) == 0)        /* it computes, and its thread drives */
        return (tr_sim_plan){TR_SIM_WORK, tr_sim_random(t->job->sim, 2000)};
    return (tr_sim_plan){TR_SIM_WAIT, t->ticket};
}
