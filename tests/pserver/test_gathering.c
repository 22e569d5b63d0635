/* test_gathering.c - what servers have of something small, gathered by each: on a good network and on bad ones. */
#include "tests/support/expect.h"

#include "pserver/core/base/gathering.h"

#include <stdio.h>
#include <stdlib.h>

enum { SERVERS = 4, ROUNDS = 60, PER_UPDATE = 3, FIRST = 1 << 16 | 1, WAITING = 4096, BYTES = 12 };

typedef struct job {
    tr_roster *roster[SERVERS];
    tr_gather *gather[SERVERS];
    uint8_t    all[SERVERS][SERVERS * BYTES];
    uint64_t   begun[SERVERS], offset[SERVERS];    /* offset: done before this process */
    tr_message waiting[WAITING];
    int        count, sent;
    uint64_t   seed;
} job;

static unsigned draw(job *j, unsigned below)
{
    j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(j->seed >> 33) % below;
}

static void open_job(job *j, uint64_t seed)
{
    *j = (job){.seed = seed};
    for (int s = 0; s < SERVERS; s++) {
        j->roster[s] = tr_roster_new(s, SERVERS + 1);
        for (int i = 0; i <= SERVERS; i++)
            tr_roster_put(j->roster[s], i, i < SERVERS ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
        EXPECT_OK(tr_roster_close(j->roster[s]));
        j->gather[s] = tr_gather_new(j->roster[s], 100);
    }
}

static void close_job(job *j)
{
    for (int i = 0; i < j->count; i++)
        free(j->waiting[i].owned);
    for (int s = 0; s < SERVERS; s++) {
        tr_gather_free(j->gather[s]);
        tr_roster_free(j->roster[s]);
    }
}

static uint64_t done_of(const job *j, int s)
{
    return j->offset[s] + tr_gather_done(j->gather[s]);
}

static void fill(uint8_t out[BYTES], int server, uint64_t number)
{
    snprintf((char *)out, BYTES, "%d of %llu", server, (unsigned long long)number % 1000);
}

/* Every server begins the next as soon as the last is done, and finds in it what all had. */
static void advance(job *j, int s, uint64_t end)
{
    const uint64_t done = done_of(j, s);
    uint8_t        own[BYTES] = {0};

    if (done != j->begun[s])
        return;
    for (int i = 0; i < SERVERS && done > j->offset[s]; i++) {
        uint8_t want[BYTES] = {0};
        fill(want, i, done);
        assert_string_equal((char *)j->all[s] + i * BYTES, (char *)want);
    }
    if (done == end)
        return;
    fill(own, s, ++j->begun[s]);
    memset(j->all[s], 0xff, sizeof j->all[s]);
    const uint64_t update = (j->begun[s] + PER_UPDATE - 1) / PER_UPDATE;
    EXPECT_OK(tr_gather_begin(j->gather[s], update, own, BYTES, j->all[s]));
}

static void collect(job *j, int s)
{
    tr_message m;

    while (tr_gather_next(j->gather[s], &m)) {
        m.wire.sender = (uint32_t)s;
        assert_true(j->count < WAITING);
        j->waiting[j->count++] = m;
        j->sent++;
    }
}

/* Deliver one of the messages, any one if they may overtake each other; lose it, or deliver it twice, sometimes. */
static void deliver(job *j, bool is_bad)
{
    const int        at = is_bad ? (int)draw(j, (unsigned)j->count) : 0;
    const tr_message m = j->waiting[at];
    const int        times = is_bad ? (int)draw(j, 4) : 1;

    memmove(&j->waiting[at], &j->waiting[at + 1], (size_t)(--j->count - at) * sizeof m);
    for (int i = 0; i < (times < 3 ? times : 1); i++)
        EXPECT_OK(tr_gather_receive(j->gather[m.peer], (j->begun[m.peer] + 2) / 3, (int)m.wire.sender, &m.wire, m.payload));
    free(m.owned);
}

static bool is_over(const job *j, uint64_t end)
{
    for (int s = 0; s < SERVERS; s++)
        if (done_of(j, s) < end)
            return false;
    return true;
}

static void run_until(job *j, bool is_bad, uint64_t end)
{
    int64_t now = 0;

    while (!is_over(j, end)) {
        assert_true(now < 1000000);
        for (int s = 0; s < SERVERS; s++) {
            advance(j, s, end);
            tr_gather_tick(j->gather[s], now);
            collect(j, s);
        }
        for (int i = 0; i < 3 && j->count; i++)
            deliver(j, is_bad);
        now += 10;
    }
}

TEST(a_good_network_takes_one_message_for_each_pair)
{
    job j;
    open_job(&j, 1);
    run_until(&j, false, ROUNDS);
    assert_int_equal(j.sent, ROUNDS * SERVERS * (SERVERS - 1));
    close_job(&j);
}

TEST(lost_repeated_and_overtaking_messages_change_nothing)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        job j;
        open_job(&j, seed);
        run_until(&j, true, ROUNDS);
        close_job(&j);
    }
}

TEST(missing_servers_are_named)
{
    job     j;
    char    text[64];
    uint8_t own[BYTES] = {0};
    open_job(&j, 1);
    assert_false(tr_gather_missing(j.gather[0], text, sizeof text));
    EXPECT_OK(tr_gather_begin(j.gather[0], 1, own, BYTES, j.all[0]));
    EXPECT_OK(tr_gather_receive(j.gather[0], 0, 2, &(tr_wire){.kind = TR_WIRE_SHARE, .bytes = BYTES, .share = {.number = FIRST}}, own));
    assert_true(tr_gather_missing(j.gather[0], text, sizeof text));
    assert_string_equal(text, "server 1, server 3");
    close_job(&j);
}

TEST(shares_that_do_not_fit_are_refused)
{
    job     j;
    uint8_t own[TR_GATHER_MAX] = {0};
    open_job(&j, 1);
    const tr_wire none = {.kind = TR_WIRE_SHARE, .bytes = BYTES, .share = {.number = 0}};
    const tr_wire first = {.kind = TR_WIRE_SHARE, .bytes = BYTES, .share = {.number = FIRST}};
    tr_wire       next = first;
    EXPECT_FAIL(TR_EPEER, "shares 12 bytes of gathering 0", tr_gather_receive(j.gather[0], 0, 1, &none, own));
    EXPECT_FAIL(TR_EPEER, "(trainer 0", tr_gather_receive(j.gather[0], 0, SERVERS, &first, own));
    for (int s = 1; s < SERVERS; s++)
        EXPECT_OK(tr_gather_receive(j.gather[0], 0, s, &first, own));
    next.share.number++;
    EXPECT_OK(tr_gather_receive(j.gather[0], 0, 1, &next, own));
    next.share.number++;
    EXPECT_FAIL(TR_EPEER, "is more than one gathering ahead", tr_gather_receive(j.gather[0], 0, 1, &next, own));
    EXPECT_FAIL(TR_EPEER, "has 12 bytes of update 1 to share", tr_gather_begin(j.gather[0], 1, own, 4, j.all[0]));
    close_job(&j);
}

/* A process that takes server 1's place in update 2 begins it again. */
TEST(standby_in_a_servers_place_hears_what_was_said_before)
{
    job j;
    open_job(&j, 7);
    run_until(&j, false, 4);                       /* all are in update 2, one gathering of it is done */
    tr_gather_free(j.gather[1]);
    j.gather[1] = tr_gather_new(j.roster[1], 100);
    j.begun[1] = 3;
    j.offset[1] = 3;
    run_until(&j, false, ROUNDS);
    close_job(&j);
}

TEST(a_value_that_a_dead_server_had_shared_is_not_invented)
{
    job           j;
    uint8_t       own[BYTES] = {0};
    const tr_wire asks = {.kind = TR_WIRE_SHARE, .bytes = BYTES, .share = {.number = FIRST, .asks = 1}};
    tr_message    m;
    open_job(&j, 1);
    EXPECT_OK(tr_gather_receive(j.gather[0], 0, 1, &asks, own));
    assert_false(tr_gather_next(j.gather[0], &m));                       /* not begun yet: it will be sent */
    EXPECT_FAIL(TR_EPEER, "server 1 asks for the sums of update 1, which only the predecessor of ",
                tr_gather_receive(j.gather[0], 1, 1, &asks, own));
    close_job(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_network_takes_one_message_for_each_pair),
        cmocka_unit_test(lost_repeated_and_overtaking_messages_change_nothing),
        cmocka_unit_test(missing_servers_are_named),
        cmocka_unit_test(shares_that_do_not_fit_are_refused),
        cmocka_unit_test(standby_in_a_servers_place_hears_what_was_said_before),
        cmocka_unit_test(a_value_that_a_dead_server_had_shared_is_not_invented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
