/* sim_job.c - ranks around their cores, and how a job of them is made and run. */
#include "tests/support/sim_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t param_size[SIM_PARAMS] = {3, 700, 4500, 11000};
/* By then what has been sent is there. */
static const int64_t ARRIVES = 20000;

/* == a rank around its core ==================================================================== */

static tr_node core_of(const sim_rank *r)
{
    return r->trainer   ? tr_client_node(r->trainer->client)
           : r->replica ? tr_replica_node(r->replica)
           : r->server  ? tr_server_node(r->server)
                        : tr_standby_node(r->standby);
}

static void *rank_place(void *self, int peer, const tr_wire *wire)
{
    const tr_node node = core_of(self);
    return wire->kind == TR_WIRE_SERVING ? malloc(wire->bytes) : node.place(node.self, peer, wire);
}

static void rank_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    sim_rank *r = self;

    if (wire->kind == TR_WIRE_BYE) {
        r->roster->rank[peer].has_left = !r->roster->rank[peer].is_dead;
        if (r->roster->rank[peer].has_left && core_of(r).left)
            core_of(r).left(core_of(r).self, peer);
        return;
    }
    if (wire->kind == TR_WIRE_REPLACE_DONE &&
        tr_roster_inherit(r->roster, (int)wire->replace_done.trainer, peer, wire->replace_done.called) && r->trainer &&
        r->trainer->index == (int)wire->replace_done.trainer)
        tr_sim_kill(r->job->sim, r->number, 0);    /* it was thought dead */
    if (wire->kind == TR_WIRE_REPLICA_DONE)
        tr_roster_set_replica(r->roster, (int)wire->server.server, peer);
    if (wire->kind == TR_WIRE_SERVING && r->roster->rank[peer].role == TR_ROLE_STANDBY) {
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

    if (r->roster->rank[peer].has_left)
        return;
    r->roster->rank[peer].is_dead = true;
    const tr_node node = core_of(r);
    node.lost(node.self, peer, how);
}

static int64_t rank_tick(void *self, int64_t now)
{
    const tr_node node = core_of(self);
    return node.tick(node.self, now);
}

static bool is_at_end(const sim_rank *r)
{
    const char *text;

    if (core_of(r).status(core_of(r).self, &text) != TR_OK)
        return false;
    if (r->trainer)
        return r->trainer->phase == SIM_END;
    return r->server ? tr_server_is_done(r->server) : tr_roster_is_over(r->roster);
}

/* Goodbyes are lost to nobody, so they are said where nothing is lost. */
static bool says_goodbyes(const sim_job *job)
{
    return job->options.loss <= 0;
}

/* As comm_thread.c: to everybody, one by one, when there is nothing else to say. */
static bool say_goodbye(sim_rank *r, tr_message *out)
{
    const int size = r->job->size;
    int       peer = (r->first_goodbye + r->goodbyes) % size;

    if (!says_goodbyes(r->job) || r->is_dying || !is_at_end(r) || r->goodbyes == size - 1)
        return false;
    if (r->goodbyes == r->dies_behind) {
        r->is_dying = true;
        tr_sim_kill(r->job->sim, r->number, ARRIVES);       /* what it has said before is heard */
        return false;
    }
    if ((peer - r->first_goodbye + size) % size >= (r->number - r->first_goodbye + size) % size)
        peer = (peer + 1) % size;
    r->goodbyes++;
    r->roster->rank[r->number].has_left = true;
    *out = (tr_message){.peer = peer, .wire = {.kind = TR_WIRE_BYE, .sender = (uint32_t)r->number}};
    return true;
}

static bool rank_next(void *self, tr_message *out)
{
    const tr_node node = core_of(self);
    return node.next(node.self, out) || say_goodbye(self, out);
}

static tr_status rank_status(const void *self, const char **text)
{
    const tr_node node = core_of(self);
    return node.status(node.self, text);
}

static bool rank_awaits_loans(const void *self)
{
    const tr_node node = core_of(self);
    return node.awaits_loans && node.awaits_loans(node.self);
}

static bool rank_awaits_receipts(const void *self, bool owner_waits)
{
    const tr_node node = core_of(self);
    return !node.awaits_receipts || node.awaits_receipts(node.self, owner_waits);
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
    return tr_server_take_over(sim__server_new(r, server));
}

/* What was the trainer's is its corpse's from here on. */
static void inherit(void *self, int trainer, uint32_t epoch)
{
    sim_rank                *r = self, *dead = &r->job->rank[r->job->trainer[trainer].rank];
    sim_trainer             *t = &r->job->trainer[trainer];
    const tr_client_options  options = {SIM_CHUNK, 3 * SIM_CHUNK, r->job->options.loss > 0 ? 20000 : 0, 1000000};

    if (!tr_roster_inherit(r->roster, trainer, r->number, epoch))
        return;
    assert_true(tr_sim_is_dead(r->job->sim, dead->number));
    dead->corpse = malloc(sizeof *dead->corpse);
    *dead->corpse = *t;
    dead->trainer = dead->corpse;
    sim__trainer_init(t, r->job, trainer, r->number);
    t->steps = r->job->options.tasks ? SIM_MOST_STEPS : dead->corpse->steps;
    t->fact = dead->corpse->fact;
    t->client = tr_client_new_replacement(r->roster, &options);
    tr_client_set_place(t->client, sim__pack_place, t);
    r->trainer = t;
    r->job->replacements++;
    sim__trainer_sleep(t);
}

static void replicate(void *self, int server)
{
    sim_rank *r = self;

    if (tr_roster_set_replica(r->roster, server, r->number))
        sim__replica_new_called(r, server);
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
            job->block[job->blocks++] = (sim_block){p, (s + p) % servers, size, at};
            at += size;
        }
    assert_true(at == SIM_TOTAL);
    job->first = calloc((size_t)(2 * servers * job->blocks), sizeof *job->first);
}

static tr_role role_of(const sim_job *job, int i)
{
    const int trainers = job->options.servers + job->options.trainers;

    return i < job->options.servers             ? TR_ROLE_SERVER
           : i < trainers                       ? TR_ROLE_TRAINER
           : i < trainers + job->options.standbys ? TR_ROLE_STANDBY
                                                : TR_ROLE_REPLICA;
}

/* All are on one host, but for replicas and, perhaps, some standbys. */
static const char *host_of(const sim_job *job, int i)
{
    const bool is_standby_there = role_of(job, i) == TR_ROLE_STANDBY && job->options.standbys_there && i % 2;
    return role_of(job, i) == TR_ROLE_REPLICA || is_standby_there ? "there" : "here";
}

static void make_rank(sim_job *job, int number)
{
    sim_rank *r = &job->rank[number];

    *r = (sim_rank){.job = job, .number = number, .roster = tr_roster_new(number, job->size), .dies_behind = -1};
    for (int i = 0; i < job->size; i++)
        tr_roster_put(r->roster, i, role_of(job, i), (uint32_t)job->start, 100 + i, "h", host_of(job, i));
    for (int i = 0; i < job->size; i++)
        r->roster->rank[i].can_inherit = job->options.replacements;
    assert_int_equal(tr_roster_close(r->roster), TR_OK);
    if (role_of(job, number) == TR_ROLE_SERVER) {
        sim__server_new(r, number);
    } else if (role_of(job, number) == TR_ROLE_STANDBY) {
        r->standby = tr_standby_new(r->roster, take_place, inherit, replicate, r);
    } else if (role_of(job, number) == TR_ROLE_REPLICA) {
        sim__replica_new(r, r->roster->rank[number].index);
    } else {
        const tr_client_options options = {SIM_CHUNK, 3 * SIM_CHUNK, job->options.loss > 0 ? 20000 : 0, 1000000};
        r->trainer = &job->trainer[number - job->options.servers];
        r->trainer->client = tr_client_new(r->roster, &options);
        tr_client_set_place(r->trainer->client, sim__pack_place, r->trainer);
    }
    const tr_node node = {r, rank_place, rank_receive, rank_lost, rank_tick, rank_next, rank_status, rank_describe,
                          rank_awaits_loans, .awaits_receipts = rank_awaits_receipts};
    tr_sim_attach(job->sim, number, &node);
}

/* With what earlier ones have left, which it takes, or nothing. */
static sim_job *make_job(const sim_options *options, sim_place *left, int start)
{
    const tr_sim_options sim = {.seed = options->seed, .delay = 1000, .drop = options->loss, .duplicate = options->loss,
                                .notice = 5000};
    sim_job             *job = calloc(1, sizeof *job);

    job->options = *options;
    assert_int_equal(tr_policy_parse(&job->policy, options->mode), TR_OK);
    assert_int_equal(tr_compress_parse(&job->compress, options->compress ? options->compress : "none"), TR_OK);
    job->size = options->servers * (1 + options->replicas) + options->trainers + options->standbys;
    job->sim = tr_sim_new(job->size, &sim);
    job->is_slow = tr_sim_random(job->sim, 2);
    job->is_even = options->seed % 2;
    job->start = start;
    cut_blocks(job);
    job->rank = calloc((size_t)job->size, sizeof *job->rank);
    job->left_out = calloc((size_t)(options->servers * options->trainers) * SIM_MOST_STEPS, sizeof *job->left_out);
    job->place = calloc(2 * (size_t)options->servers, sizeof *job->place);
    job->trainer = calloc((size_t)options->trainers, sizeof *job->trainer);
    for (int s = 0; s < 2 * options->servers; s++) {
        if (left)
            job->place[s] = left[s];
        job->place[s].job = job;
        job->place[s].server = NULL;
        job->place[s].replica = NULL;
        job->place[s].counts = false;
        job->place[s].replica_rank = 0;
        job->place[s].may_fall |= left && job->policy.decides;
    }
    for (int i = 0; i < options->trainers; i++) {
        sim_trainer *t = &job->trainer[i];
        sim__trainer_init(t, job, i, options->servers + i);
        t->steps = options->from ? options->from->left[i] : 1 + (int)tr_sim_random(job->sim, (uint64_t)options->steps);
        if (options->tasks)
            t->steps = SIM_MOST_STEPS;                 /* until all are done */
    }
    for (int i = 0; i < job->size; i++)
        make_rank(job, i);
    return job;
}

sim_job *sim_job_new(const sim_options *options)
{
    return make_job(options, NULL, 1);
}

sim_job *sim_job_again(sim_job *old, int lost)
{
    const int servers = old->options.servers;
    sim_job  *job;

    if (lost >= 0) {
        sim__place_free(&old->place[lost]);
        old->place[lost] = old->place[servers + lost];
        old->place[servers + lost] = (sim_place){0};
    }
    job = make_job(&old->options, old->place, old->start + 1);
    memcpy(job->left_out, old->left_out,
           (size_t)(servers * job->options.trainers) * SIM_MOST_STEPS * sizeof *job->left_out);
    if (lost != 0) {
        memcpy(job->meeting, old->meeting, sizeof job->meeting);
        memset(old->meeting, 0, sizeof old->meeting);
    }
    job->called = old->called;
    job->losses = sim__losses(old) + job->options.trainers;
    memset(old->place, 0, 2 * (size_t)servers * sizeof *old->place);
    return job;
}

void sim_job_free(sim_job *job)
{
    for (int i = 0; i < job->size; i++) {
        tr_server_free(job->rank[i].server);
        tr_standby_free(job->rank[i].standby);
        tr_replica_free(job->rank[i].replica);
        if (job->rank[i].trainer)
            tr_client_free(job->rank[i].trainer->client);
        if (job->rank[i].corpse)
            sim__trainer_deinit(job->rank[i].corpse);
        free(job->rank[i].corpse);
        tr_roster_free(job->rank[i].roster);
    }
    for (int s = 0; s < 2 * job->options.servers; s++)
        sim__place_free(&job->place[s]);
    for (int i = 0; i < job->options.trainers; i++)
        sim__trainer_deinit(&job->trainer[i]);
    tr_sim_free(job->sim);
    sim__snapshots_free(job);
    sim__meetings_forget(job);
    while (job->applied) {
        sim_applied *gone = job->applied;
        job->applied = gone->next;
        free(gone->bytes);
        free(gone);
    }
    free(job->left_out);
    free(job->rank);
    free(job->place);
    free(job->trainer);
    free(job->block);
    free(job->first);
    free(job);
}

bool sim_job_has_replica(const sim_job *job, int server)
{
    const sim_place *p = &job->place[job->options.servers + server];
    return job->options.replicas && p->replica && p->counts && !tr_sim_is_dead(job->sim, sim__place_rank(p));
}

int sim_job_called(const sim_job *job)
{
    return job->called;
}

int sim_job_size(const sim_job *job)
{
    return job->size;
}

tr_sim *sim_job_sim(sim_job *job)
{
    return job->sim;
}

void sim_job_set_fact(sim_job *job, int who, const char *fact)
{
    job->trainer[who].fact = fact;
}

int sim_job_replacements(const sim_job *job)
{
    return job->replacements;
}

int64_t sim_job_longest_wait(const sim_job *job)
{
    int64_t longest = 0;

    for (int i = 0; i < job->options.trainers; i++) {
        const sim_trainer *t = &job->trainer[i];
        const bool         was_there = t->rank == job->options.servers + i && !tr_sim_is_dead(job->sim, t->rank);
        longest = was_there && t->waited > longest ? t->waited : longest;
    }
    return longest;
}

bool sim_job_is_over(const sim_job *job)
{
    bool has_trainers = false;

    for (int i = 0; i < job->options.trainers; i++) {
        const bool is_dead = sim__trainer_is_dead(job, i);
        has_trainers |= !is_dead;
        if (is_dead && job->trainer[i].phase != SIM_END && !job->policy.survives_trainers)
            return false;
    }
    return sim_job_is_good(job) && (has_trainers || !job->options.tasks);
}

void sim_job_kill(sim_job *job, int rank, int64_t after)
{
    tr_sim_kill(job->sim, rank, after);
}

void sim_job_kill_leaving(sim_job *job, int rank, int first, int goodbyes)
{
    job->rank[rank].first_goodbye = first;
    job->rank[rank].dies_behind = goodbyes;
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

/* It has left, and has everybody's goodbye. Where they are not said a standby is not waited for. */
static bool has_ended(const sim_rank *r)
{
    bool has_all = r->goodbyes == r->job->size - 1;

    for (int i = 0; i < r->job->size; i++)
        has_all &= i == r->number || r->roster->rank[i].has_left || r->roster->rank[i].is_dead;
    if (says_goodbyes(r->job))
        return has_all;
    return (!r->trainer && !r->server) || is_at_end(r);
}

/* Has it still to hear that somebody died? Who had left before is dead to nobody. */
static bool is_ignorant(const sim_job *job, const sim_rank *rank)
{
    for (int i = 0; i < job->size; i++) {
        const tr_rank *r = &rank->roster->rank[i];
        if (tr_sim_is_dead(job->sim, i) && !r->is_dead && !r->has_left)
            return true;
    }
    return false;
}

/* A trainer has died in the middle, and a rank that waits may come yet: it has not heard of all deaths. */
static bool has_successors(const sim_job *job)
{
    bool is_missed = false, may_come = false;

    for (int i = 0; i < job->size; i++) {
        const sim_rank *r = &job->rank[i];
        const bool      is_dead = tr_sim_is_dead(job->sim, i), is_standby = r->standby && !r->server && !r->trainer && !r->replica;
        is_missed |= is_dead && r->trainer && !r->corpse && r->trainer->phase != SIM_END;
        may_come |= !is_dead && is_standby && is_ignorant(job, r);
    }
    return job->options.replacements && is_missed && may_come;
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
            sim__trainer_go_on(job->rank[i].trainer);
        const bool has_failed = sim_job_status(job, i, &text) != TR_OK;
        if (has_failed && job->ends_failed)
            tr_sim_kill(job->sim, i, 0);
        is_over &= has_failed || has_ended(&job->rank[i]);
    }
    return is_over && !has_successors(job);
}

bool sim_job_run(sim_job *job)
{
    char        waiting[256];
    const char *text;

    for (int i = 0; i <= job->size; i++)           /* who fails when nothing moves any more is killed by the next round */
        if (tr_sim_run(job->sim, 4000000, drive, job)) {
            sim__check_agreement(job);
            return true;
        }
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
