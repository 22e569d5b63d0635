/* test_sim_many.c - how many messages a rank sends in a job of many ranks. The start and the end of a job cost each rank a few messages for
 * each other rank. In a step trainers and servers talk to each other, and servers among themselves in a few words. */
#include "tests/support/sim_seeds.h"

enum { SERVERS = 4, FEW = 12, MANY = 44, SHORT = 2, LONG = 6, RANKS = SERVERS + MANY, WORDS = 600 };

static const sim_cluster cluster = {.latency = 20000, .bandwidth = 1.25, .computing = 2000000, .straggling = 2000000};

/* Messages of whole runs. */
typedef struct counts {
    int     trainers;
    int64_t sent[RANKS];              /* by each rank, also of its event loop: hellos, goodbyes */
    int64_t between[RANKS];           /* servers: by each server to others, to their cores */
} counts;

static void hear(void *self, int64_t now, int from, int to, const tr_wire *wire, bool is_lost)
{
    counts *c = self;

    (void)now;
    (void)is_lost;
    if (tr_wire_is_of_loop(wire->kind))
        return;
    if (from >= SERVERS && to >= SERVERS && from < SERVERS + c->trainers && to < SERVERS + c->trainers)
        fail_msg("trainer %d sends a message of kind %d to trainer %d", from - SERVERS, wire->kind, to - SERVERS);
    if (from >= SERVERS || to >= SERVERS)
        return;
    c->between[from]++;
    assert_true(TR_WIRE_HEADER + wire->bytes <= WORDS);
}

static counts count(const char *mode, int trainers, int steps)
{
    counts      c = {.trainers = trainers};
    sim_watch   watch = {.payload = &c, .message = hear};
    sim_options options = {.seed = 5, .servers = SERVERS, .trainers = trainers, .mode = mode, .steps = steps, .cluster = &cluster,
                           .watch = &watch};
    sim_job    *job = sim_job_new(&options);

    sim_run_seed(job, options.seed);
    assert_true(sim_job_is_good(job));
    for (int i = 0; i < SERVERS + trainers; i++) {
        const tr_traffic *sent, *received;
        tr_comm_traffic(tr_sim_comm(sim_job_sim(job), i), &sent, &received);
        c.sent[i] = tr_traffic_messages(sent);
    }
    sim_job_free(job);
    return c;
}

/* Messages that a rank sends in each step. */
static double in_a_step(const counts *more, const counts *less, int rank)
{
    return (double)(more->sent[rank] - less->sent[rank]) / (LONG - SHORT);
}

/* `most_between`: messages between all servers in a step. */
static void check_mode(const char *mode, double most_between)
{
    const counts few[] = {count(mode, FEW, SHORT), count(mode, FEW, LONG)}, many[] = {count(mode, MANY, SHORT), count(mode, MANY, LONG)};
    const double few_of_server = in_a_step(&few[1], &few[0], 1), many_of_server = in_a_step(&many[1], &many[0], 1);
    double       trainer = 0, between = 0;

    for (int i = SERVERS; i < RANKS; i++) {
        const double mine = in_a_step(&many[1], &many[0], i);
        trainer = mine > trainer ? mine : trainer;
    }
    for (int i = 0; i < SERVERS; i++)
        between += (double)(many[1].between[i] - many[0].between[i]) / (LONG - SHORT);
    print_message("%-16s start and end: a trainer %lld, a server %lld for %d ranks; a step: a trainer %.1f, a server %.1f (%.1f for %d "
                  "trainers), between servers %.1f\n", mode, (long long)many[0].sent[SERVERS], (long long)many[0].sent[1], RANKS, trainer,
                  many_of_server, few_of_server, FEW, between);
    assert_true(trainer <= 8 * SERVERS);
    assert_true(many_of_server <= 1.25 * few_of_server * MANY / FEW);
    assert_true(between <= most_between);
    for (int i = 0; i < RANKS; i++) {              /* hellos, goodbyes, the first and the last values */
        const double outside = (double)many[0].sent[i] - SHORT * in_a_step(&many[1], &many[0], i);
        assert_true(outside <= (i < SERVERS ? 18 : 3) * RANKS);
    }
}

TEST(in_sync_messages_of_a_rank_grow_with_the_ranks)
{
    check_mode("sync", SERVERS * SERVERS);
}

/* Each server tells server 0 of each trainer that is ready. */
TEST(where_server_0_decides_servers_talk_in_a_few_words)
{
    check_mode("sync(backups=1)", SERVERS * (MANY + SERVERS));
}

TEST(in_async_messages_of_a_rank_grow_with_the_ranks)
{
    check_mode("async", SERVERS * SERVERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_sync_messages_of_a_rank_grow_with_the_ranks),
        cmocka_unit_test(where_server_0_decides_servers_talk_in_a_few_words),
        cmocka_unit_test(in_async_messages_of_a_rank_grow_with_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
