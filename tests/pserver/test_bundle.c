/* test_bundle.c - small messages of a rank travel in one. Cores of a few lines send them over real event loops, in the simulator; the
 * receiver gets the same messages in the same order. Damaged bundles fail the job, and say why. */
#include "tests/support/expect.h"
#include "tests/support/simulator.h"

#include "framework/base/memory.h"
#include "pserver/core/base/outbox.h"
#include "pserver/wire/bundle.h"

#include <stdio.h>

enum { SERVER, TRAINER, RANKS, MOST = 32, LARGE = TR_BUNDLED_MOST + 1 };

/* A core sends the messages of its list, and keeps those that come. */
typedef struct core {
    tr_message out[MOST];
    int        count, at;
    tr_wire    heard[MOST];
    uint8_t   *payload[MOST];
    int        heard_count;
    bool       has_worked;
} core;

typedef struct job {
    core    core[RANKS];
    tr_sim *sim;
    int     sent[TR_WIRE_KIND_COUNT];              /* by the server; messages in bundles count, too */
    int     in_bundle[MOST], bundles;              /* messages in each bundle */
} job;

/* == the cores ================================================================================== */

static bool next(void *self, tr_message *out)
{
    core *c = self;

    if (c->at == c->count)
        return false;
    *out = c->out[c->at++];
    return true;
}

static void *receive_buffer(void *self, int peer, const tr_wire *wire)
{
    (void)self;
    (void)peer;
    return malloc(wire->bytes);
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    core *c = self;

    (void)now;
    (void)peer;
    assert_true(c->heard_count < MOST);
    assert_int_equal((uintptr_t)payload % 8, 0);
    c->payload[c->heard_count] = is_direct ? payload : memcpy(malloc(wire->bytes + 1), payload, wire->bytes);
    c->heard[c->heard_count++] = *wire;
}

static tr_status is_well(const void *self, const char **text)
{
    (void)self;
    *text = "";
    return TR_OK;
}

static void waits_for_nothing(const void *self, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "nothing");
}

static tr_node make(void *self, const tr_roster *roster)
{
    (void)roster;
    return (tr_node){.self = self, .next = next, .receive_buffer = receive_buffer, .receive = receive, .status = is_well,
                     .describe = waits_for_nothing};
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

static uint64_t none_done(void *self)
{
    (void)self;
    return 0;
}

static tr_sim_plan go_on(void *self)
{
    core      *c = self;
    const bool is_over = c->has_worked;

    c->has_worked = true;
    return is_over ? (tr_sim_plan){TR_SIM_LEAVE, 0} : (tr_sim_plan){TR_SIM_WORK, 10000000};
}

/* == the job ==================================================================================== */

static void watch(void *payload, int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire)
{
    job *j = payload;

    (void)now;
    (void)peer;
    if (!is_sent || rank != SERVER)
        return;
    j->sent[wire->kind]++;
    if (wire->kind == TR_WIRE_BUNDLE)
        j->in_bundle[j->bundles++] = (int)wire->bundle.count;
}

static void run(job *j, uint64_t seed)
{
    const tr_sim_options options = {.seed = seed, .delay = 1000, .turn = 1000, .notice = 5000, .watch = watch, .payload = j};

    j->sim = tr_sim_new(RANKS, &options);
    for (int i = 0; i < RANKS; i++) {
        const tr_sim_program program = {.core = {&j->core[i], make, no_command, no_flush, none_done}, .incarnation = 1, .go_on = go_on,
                                        .role = i == SERVER ? TR_ROLE_SERVER : TR_ROLE_TRAINER, .host = seed % 2 && i ? "there" : "here"};
        tr_sim_attach(j->sim, i, &program);
    }
    assert_true(tr_sim_run(j->sim, 60000000000));
}

static void end(job *j)
{
    tr_sim_free(j->sim);
    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < j->core[i].heard_count; k++)
            free(j->core[i].payload[k]);
}

/* The server sends the trainer another message, of so many bytes. */
static tr_message *send_bytes(job *j, uint64_t bytes)
{
    core       *c = &j->core[SERVER];
    tr_message *message = &c->out[c->count];
    uint8_t    *payload = tr__must_bytes(bytes + 1);

    for (uint64_t i = 0; i < bytes; i++)
        payload[i] = (uint8_t)(i * 7 + (uint64_t)c->count);
    *message = (tr_message){.peer = TRAINER, .payload = payload, .owned = payload,
                            .wire = {.kind = TR_WIRE_DATA_ROWS, .incarnation = 1, .seq = (uint64_t)++c->count, .bytes = bytes}};
    return message;
}

static void check_heard(const job *j)
{
    const core *c = &j->core[TRAINER];

    assert_int_equal(c->heard_count, j->core[SERVER].count);
    for (int i = 0; i < c->heard_count; i++) {
        assert_int_equal(c->heard[i].seq, i + 1);
        assert_int_equal(c->heard[i].bytes, j->core[SERVER].out[i].wire.bytes);
        for (uint64_t k = 0; k < c->heard[i].bytes; k++)
            assert_int_equal(c->payload[i][k], (uint8_t)(k * 7 + (uint64_t)i));
    }
}

/* == whole ones ================================================================================= */

TEST(small_messages_of_one_turn_are_one_and_large_ones_go_by_themselves_in_their_order)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        job     j = {0};
        tr_loan loan = {0};
        const uint64_t sizes[] = {5, 0, 4000, TR_BUNDLED_MOST, LARGE, 8, LARGE, 1, 2};

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            send_bytes(&j, sizes[i]);
        tr_message *lent = &j.core[SERVER].out[2];
        uint8_t    *memory = lent->owned;
        lent->owned = NULL;
        lent->loan = &loan;
        loan.readers = 1;
        run(&j, seed);
        check_heard(&j);
        assert_int_equal(j.sent[TR_WIRE_DATA_ROWS], 9);
        assert_int_equal(j.bundles, 2);            /* the message of 8 bytes stays alone */
        assert_int_equal(j.in_bundle[0], 4);
        assert_int_equal(j.in_bundle[1], 2);
        assert_int_equal(loan.readers, 0);
        free(memory);
        end(&j);
    }
}

TEST(a_bundle_that_is_full_is_followed_by_another)
{
    job j = {0};

    for (int i = 0; i < 10; i++)
        send_bytes(&j, TR_BUNDLED_MOST);
    run(&j, 1);
    check_heard(&j);
    assert_int_equal(j.bundles, 3);                /* the last message stays alone */
    assert_int_equal(j.in_bundle[0], TR_LIMIT_BUNDLE / tr_bundle_size(TR_BUNDLED_MOST));
    assert_int_equal(j.in_bundle[0] + j.in_bundle[1] + j.in_bundle[2], 9);
    end(&j);
}

TEST(chunks_of_large_values_go_by_themselves)
{
    job j = {0};

    for (int i = 0; i < 3; i++)
        send_bytes(&j, 100)->wire.kind = i < 2 ? TR_WIRE_DATA : TR_WIRE_DATA_ROWS;
    run(&j, 1);
    check_heard(&j);
    assert_int_equal(j.bundles, 0);
    end(&j);
}

/* == damaged ones =============================================================================== */

typedef struct damaged {
    const char *what, *text;
    uint32_t    count;                             /* that the bundle says it has */
    tr_wire     inside[2];
    int64_t     bytes;                             /* of the payload; 0: as many as the messages have */
    int         heard;
} damaged;

#define GOOD {.kind = TR_WIRE_DATA, .seq = 1, .bytes = 12}

static const damaged bad[] = {
    {"one message too few", "2 messages take", 2, {GOOD, GOOD}, 2 * 80 + 80, 2},
    {"one message too many", "message 2 of 3 begins at byte 160", 3, {GOOD, GOOD}, 0, 2},
    {"a message that is cut", "a DATA has 12 bytes, of which 8 are there", 2, {GOOD, GOOD}, 80 + 72, 1},
    {"a header that is cut", "message 1 of 2 begins at byte 80 of 100", 2, {GOOD, GOOD}, 100, 1},
    {"more bytes than the bundle has", "has 99 bytes, of which", 2, {GOOD, {.kind = TR_WIRE_DATA, .seq = 1, .bytes = 99}}, 80 + 80, 1},
    {"more bytes than the kind may have", "at most 0 are allowed", 2, {GOOD, {.kind = TR_WIRE_ACK, .bytes = 99}}, 80 + 80, 1},
    {"a bundle", "has a BUNDLE, which always", 2, {GOOD, {.kind = TR_WIRE_BUNDLE, .bytes = 12, .bundle = {.count = 1}}}, 0, 1},
    {"a goodbye", "has a BYE, which always", 2, {GOOD, {.kind = TR_WIRE_BYE}}, 0, 1},
    {"no kind", "there is no kind 0", 2, {GOOD, {.kind = TR_WIRE_NONE}}, 0, 1},
    {"a kind that is not there", "there is no kind 9999", 2, {GOOD, {.kind = 9999}}, 0, 1},
};

static void send_damaged(job *j, const damaged *d)
{
    core          *c = &j->core[SERVER];
    uint8_t       *payload = tr__must_alloc(1024);
    const uint8_t  data[99] = {0};
    uint64_t       size = 0;

    for (int i = 0; i < 2; i++)
        size += tr_bundle_put(payload + size, &d->inside[i], data);
    c->out[c->count++] = (tr_message){
        .peer = TRAINER, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_BUNDLE, .incarnation = 1, .bytes = d->bytes ? (uint64_t)d->bytes : size, .bundle = {.count = d->count}}};
}

TEST(a_damaged_bundle_fails_the_job)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        job         j = {0};
        const char *text = "";

        send_damaged(&j, &bad[i]);
        run(&j, i);
        if (tr_sim_status(j.sim, TRAINER, &text) != TR_EFORMAT || !strstr(text, bad[i].text) || j.core[TRAINER].heard_count != bad[i].heard)
            fail_msg("%s: %d messages were heard, and \"%s\"", bad[i].what, j.core[TRAINER].heard_count, text);
        end(&j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_messages_of_one_turn_are_one_and_large_ones_go_by_themselves_in_their_order),
        cmocka_unit_test(a_bundle_that_is_full_is_followed_by_another),
        cmocka_unit_test(chunks_of_large_values_go_by_themselves),
        cmocka_unit_test(a_damaged_bundle_fails_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
