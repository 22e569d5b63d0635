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

/* A chunk, which is too large to travel with others. */
static const int64_t LARGE = SIM_CHUNK / sizeof(float);
/* By then what has been sent is there. */
static const int64_t ARRIVES = 20000;
/* When a job does not end: virtual nanoseconds. */
static const int64_t LONG = 60000000000;

static tr_node core_of(const sim_rank *r)
{
    return r->trainer   ? tr_carrier_node(r->trainer->carrier)
           : r->replica ? tr_replica_node(r->replica)
           : r->server  ? tr_server_node(r->server)
                        : tr_standby_node(r->standby);
}

/* Is it held against a bound how long trainers wait? Then nothing makes them wait by chance. */
static bool waits_count(const sim_job *job)
{
    return job->options.replacements_late || job->options.disk || job->options.is_scripted;
}

/* == what a standby becomes: as rank_core.c ======================================================= */

/* Now and then the dead process holds its memory a moment longer. */
static tr_status take_place(void *self, int server, int dead)
{
    sim_rank *r = self;
    tr_comm  *comm = tr_sim_comm(r->job->sim, r->number);

    tr_comm_kill(comm, dead);
    if (!waits_count(r->job) && tr_sim_random(r->job->sim, 4) == 0)
        return tr_fail(TR_EEXIST, "rank %d holds the memory of server %d", dead, server);
    if (!r->job->place[server].is_ready)
        return tr_fail(TR_ENOTFOUND, "server %d had committed nothing", server);
    tr_comm_take_place(comm, server);
    tr_server *core = sim__server_new(r, server);
    tr_comm_set_core(comm, core_of(r));
    const tr_status status = tr_server_take_over(core);
    if (status == TR_OK)
        tr_comm_tell_losses(comm);
    return status;
}

static tr_client_options client_options(const sim_job *job)
{
    const int64_t patience = job->options.is_scripted ? 3000000000 : 1000000;

    return (tr_client_options){SIM_CHUNK, 3 * SIM_CHUNK, job->options.loss > 0 ? 20000 : 0, patience};
}

/* What was the trainer's is its corpse's from here on. */
static void inherit(void *self, int trainer, uint32_t incarnation)
{
    sim_rank                *r = self, *dead = &r->job->rank[r->job->trainer[trainer].rank];
    sim_trainer             *t = &r->job->trainer[trainer];
    tr_comm                 *comm = tr_sim_comm(r->job->sim, r->number);
    const tr_client_options  options = client_options(r->job);

    tr_comm_kill(comm, r->roster->trainer_rank[trainer]);
    if (!tr_comm_replace_trainer(comm, trainer, incarnation))
        return;
    dead->corpse = malloc(sizeof *dead->corpse);
    *dead->corpse = *t;
    dead->trainer = dead->corpse;
    sim__trainer_init(t, r->job, trainer, r->number);
    t->steps = r->job->options.tasks ? SIM_MOST_STEPS : dead->corpse->steps;
    t->fact = dead->corpse->fact;
    t->client = tr_client_new_replacement(r->roster, &options);
    t->carrier = tr_carrier_new(r->roster, tr_client_node(t->client), SIM_CHUNK);
    tr_client_set_place(t->client, sim__pack_place, t);
    memset(t->seen, 0, sizeof t->seen);
    r->trainer = t;
    tr_comm_set_core(comm, core_of(r));
    r->job->replacements++;
    sim__trainer_sleep(t);
    tr_sim_wake(r->job->sim, r->number);
}

static void replicate(void *self, int server)
{
    sim_rank *r = self;
    tr_comm  *comm = tr_sim_comm(r->job->sim, r->number);

    if (!tr_comm_replica_rank(comm, server))
        return;
    sim__replica_new_called(r, server);
    tr_comm_set_core(comm, core_of(r));
}

/* == a rank in its loop ========================================================================== */

static tr_node rank_make(void *self, const tr_roster *roster)
{
    sim_rank *r = self;
    sim_job  *job = r->job;
    const tr_rank *own = &roster->rank[r->number];

    r->roster = roster;
    if (own->role == TR_ROLE_SERVER) {
        sim__server_new(r, own->index);
    } else if (own->role == TR_ROLE_TRAINER) {
        const tr_client_options options = client_options(job);
        sim_trainer            *t = &job->trainer[own->index];
        t->client = tr_client_new(roster, &options);
        t->carrier = tr_carrier_new(roster, tr_client_node(t->client), SIM_CHUNK);
        tr_client_set_place(t->client, sim__pack_place, t);
        memset(t->seen, 0, sizeof t->seen);
        r->trainer = t;
    } else if (own->role == TR_ROLE_REPLICA && own->index < roster->servers) {
        sim__replica_new(r, own->index);
    } else {
        r->standby = tr_standby_new(roster, take_place, inherit, replicate, r);
    }
    return core_of(r);
}

static void rank_command(void *self, const tr_command *command)
{
    sim_rank *r = self;
    sim__trainer_command(r->trainer, command);
}

static void rank_flush(void *self, bool owner_waits)
{
    sim_rank *r = self;

    if (r->trainer && owner_waits)
        tr_client_flush(r->trainer->client);
    else if (r->trainer)
        tr_client_flush_midway(r->trainer->client);
}

static uint64_t rank_done(void *self)
{
    sim_rank *r = self;

    if (r->trainer) {
        sim__see_snapshot(r->trainer);
        return tr_client_done(r->trainer->client);
    }
    const bool is_over = r->server ? tr_server_is_done(r->server) : tr_roster_is_over(r->roster);
    if (is_over && !r->is_over) {
        r->is_over = true;
        tr_sim_wake(r->job->sim, r->number);
    }
    return 0;
}

static tr_sim_plan rank_go_on(void *self)
{
    sim_rank *r = self;

    if (r->trainer)
        return r->job->options.is_scripted ? sim__scripted_go_on(r->trainer) : sim__trainer_go_on(r->trainer);
    return (tr_sim_plan){r->is_over ? TR_SIM_LEAVE : TR_SIM_IDLE};
}

/* Who is to die between its goodbyes has said the later ones to nobody, and what it has said before is heard. */
static bool lose(void *payload, int rank, int peer, const tr_wire *wire)
{
    sim_job  *job = payload;
    sim_rank *r = &job->rank[rank];

    const sim_watch *watch = job->options.watch;
    if (watch && watch->lose && watch->lose(watch->payload, rank, peer, wire)) {
        watch->message(watch->payload, tr_sim_now(job->sim), rank, peer, wire, true);
        return true;
    }
    if (wire->kind != TR_WIRE_BYE || r->dies_behind < 0)
        return false;
    if (!r->is_dying)
        tr_sim_kill(job->sim, rank, ARRIVES);
    r->is_dying = true;
    const int before = (peer - r->first_goodbye + job->size) % job->size, own = (rank - r->first_goodbye + job->size) % job->size;
    return before - (before > own) >= r->dies_behind;
}

/* == jobs ====================================================================================== */

static int parameter_count(const sim_job *job)
{
    return !job->options.is_scripted ? SIM_PARAMS : job->options.parameters ? job->options.parameters : 1;
}

static void cut_blocks(sim_job *job)
{
    const int servers = job->options.servers;
    int64_t   at = 0;

    job->block = calloc((size_t)(SIM_PARAMS * servers), sizeof *job->block);
    for (int p = 0; p < parameter_count(job); p++)
        for (int s = 0; s < servers; s++) {
            const int64_t all = job->options.is_large ? servers * LARGE : param_size[p];
            const int64_t size = all * (s + 1) / servers - all * s / servers;
            if (size == 0)
                continue;
            job->block[job->blocks++] = (sim_block){p, (s + p) % servers, size, at};
            at += size;
        }
    assert_true(at == SIM_TOTAL || job->options.is_scripted);
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

/* Replicas, and in some jobs some standbys, are on another host than all others. In one of five jobs the trainers are elsewhere. In another
 * one they are on two hosts, with some standbys, which may become trainers there. */
static const char *host_of(const sim_job *job, int i)
{
    const int     index = i - job->options.servers;
    const tr_role role = role_of(job, i);

    if (job->options.cluster)
        return job->rank[i].host;
    if (job->options.is_elsewhere && (role == TR_ROLE_TRAINER || role == TR_ROLE_STANDBY))
        return "elsewhere";
    if (job->options.seed % 5 == 2 && !waits_count(job) && role == TR_ROLE_TRAINER)
        return "elsewhere";
    const bool    may_move = role == TR_ROLE_TRAINER || (role == TR_ROLE_STANDBY && i % 3 == 0 && !job->options.replicas);
    if (job->options.seed % 5 == 3 && !waits_count(job) && may_move)
        return 2 * index < job->options.trainers ? "elsewhere" : "yonder";
    const bool is_standby_there = role_of(job, i) == TR_ROLE_STANDBY && job->options.standbys_there && i % 2;
    return role_of(job, i) == TR_ROLE_REPLICA || is_standby_there ? "there" : "here";
}

bool sim__begins_group(const sim_job *job, int trainer)
{
    const int rank = job->options.servers + trainer;

    return trainer == 0 || strcmp(host_of(job, rank), host_of(job, rank - 1)) != 0;
}

static void make_rank(sim_job *job, int number)
{
    sim_rank *r = &job->rank[number];

    *r = (sim_rank){.job = job, .number = number, .dies_behind = -1};
    snprintf(r->host, sizeof r->host, "host%d", number);
    const tr_sim_program program = {.core = {r, rank_make, rank_command, rank_flush, rank_done},
                                    .role = role_of(job, number), .incarnation = (uint32_t)job->start, .can_replace = job->options.replacements,
                                    .host = host_of(job, number), .go_on = rank_go_on};
    tr_sim_attach(job->sim, number, &program);
}

/* With TRIREME_SIM_TRACE: every message, and what ranks tell. */
static void watch(void *payload, int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire)
{
    const sim_job *job = payload;
    char           text[256];

    if (job->options.watch) {
        if (!is_sent)
            job->options.watch->message(job->options.watch->payload, now, peer, rank, wire, false);
        return;
    }
    tr_wire_print(text, sizeof text, wire);
    print_message("%10.3f us  rank %d %s rank %d: %s\n", (double)now / 1e3, rank, is_sent ? "to" : "from", peer, text);
}

static void hear(void *payload, int64_t now, int rank, const char *what, int about, const char *text)
{
    sim_job *job = payload;

    char     line[512];

    job->speakers += !strcmp(what, "says");
    if (strcmp(what, "says") == 0)
        snprintf(line, sizeof line, "says: %s", text);
    else
        snprintf(line, sizeof line, "tells the launcher: %s, rank %d%s%s", what, about, text ? ", " : "", text ? text : "");
    if (job->options.watch && job->options.watch->line)
        job->options.watch->line(job->options.watch->payload, now, rank, line);
    if (getenv("TRIREME_SIM_TRACE"))
        print_message("%10.3f us  rank %d: %s %d %s\n", (double)now / 1e3, rank, what, about, text ? text : "");
}

/* With what earlier ones have left, which it takes, or nothing. */
static sim_job *make_job(const sim_options *options, sim_place *left, int start)
{
    sim_job             *job = calloc(1, sizeof *job);
    const sim_cluster   *cluster = options->cluster;
    const tr_sim_options sim = {.seed = options->seed, .delay = cluster ? cluster->latency : 1000, .bandwidth = cluster ? cluster->bandwidth : 0, .turn = 1000, .drop = options->loss, .duplicate = options->loss,
                                .notice = options->unreported ? -1 : 5000, .depth = options->seed % 4 ? 0 : 2, .lose = lose, .watch = options->watch || getenv("TRIREME_SIM_TRACE") ? watch : NULL,
                                .is_steady = options->is_scripted || cluster,
                                .hear = hear, .payload = job};

    job->options = *options;
    assert_int_equal(tr_policy_parse(&job->policy, options->mode), TR_OK);
    assert_int_equal(tr_compress_parse(&job->compress, options->compress ? options->compress : "none"), TR_OK);
    job->size = options->servers * (1 + options->replicas) + options->trainers + options->standbys;
    job->sim = tr_sim_new(job->size, &sim);
    job->is_slow = tr_sim_random(job->sim, 2) && !options->is_scripted && !cluster;
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
        if (options->tasks || options->is_scripted)
            t->steps = SIM_MOST_STEPS;                 /* until all are done */
        if (cluster)
            t->steps = options->steps;
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
    tr_sim_free(job->sim);                         /* first: messages on their way have loans of cores */
    for (int i = 0; i < job->size; i++) {
        tr_server_free(job->rank[i].server);
        tr_standby_free(job->rank[i].standby);
        tr_replica_free(job->rank[i].replica);
        if (job->rank[i].trainer) {
            tr_carrier_free(job->rank[i].trainer->carrier);
            tr_client_free(job->rank[i].trainer->client);
        }
        if (job->rank[i].corpse)
            sim__trainer_deinit(job->rank[i].corpse);
        free(job->rank[i].corpse);
    }
    for (int s = 0; s < 2 * job->options.servers; s++)
        sim__place_free(&job->place[s]);
    for (int i = 0; i < job->options.trainers; i++)
        sim__trainer_deinit(&job->trainer[i]);
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

void sim_job_sums(const sim_job *job, uint64_t *chunks, uint64_t *rows)
{
    *chunks = *rows = 0;
    for (int i = 0; i < sim_job_size(job); i++) {
        const tr_carrier *carrier = job->rank[i].trainer ? job->rank[i].trainer->carrier : NULL;
        *chunks += carrier ? tr_carrier_chunk_sums(carrier) : 0;
        *rows += carrier ? tr_carrier_row_sums(carrier) : 0;
    }
}

uint64_t sim_job_awaited_answers(const sim_job *job)
{
    uint64_t count = 0;

    for (int i = 0; i < sim_job_size(job); i++)
        count += job->rank[i].trainer ? tr_carrier_awaited_answers(job->rank[i].trainer->carrier) : 0;
    return count;
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

void sim_job_stop(sim_job *job, int rank, int64_t after, int64_t duration)
{
    tr_sim_stop(job->sim, rank, after, duration);
}

int sim_job_speakers(const sim_job *job)
{
    return job->speakers;
}

void sim_job_kill_leaving(sim_job *job, int rank, int first, int goodbyes)
{
    job->rank[rank].first_goodbye = first;
    job->rank[rank].dies_behind = goodbyes;
}

tr_status sim_job_status(const sim_job *job, int rank, const char **text)
{
    return tr_sim_status(job->sim, rank, text);
}

/* -- running ------------------------------------------------------------------------------------- */

void sim__tell(const sim_place *p, const char *format, ...)
{
    const sim_watch *watch_ = p->job->options.watch;
    char             text[256];
    va_list          args;

    if (!watch_ || !watch_->line)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    watch_->line(watch_->payload, tr_sim_now(p->job->sim), sim__place_rank(p), text);
}

bool sim_job_pass(sim_job *job, int64_t nanoseconds)
{
    return tr_sim_run(job->sim, tr_sim_now(job->sim) + nanoseconds);
}

bool sim_job_run(sim_job *job)
{
    char        waiting[256];
    const char *text;

    if (tr_sim_run(job->sim, LONG)) {
        sim__check_agreement(job);
        return true;
    }
    for (int i = 0; i < job->size; i++) {
        waiting[0] = '\0';
        if (job->rank[i].roster) {
            const tr_node node = core_of(&job->rank[i]);
            node.describe(node.self, waiting, sizeof waiting);
        }
        const tr_status status = sim_job_status(job, i, &text);
        const bool      is_dead = tr_sim_is_dead(job->sim, i);
        print_message("rank %d%s waits for \"%s\", status %s %s\n", i, is_dead ? " (dead)" : tr_sim_has_ended(job->sim, i) ? " (ended)" : "",
                      waiting, tr_status_name(status), text ? text : "");
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
