/* test_replica.c - a replica of one server of two, messages by hand: what is refused. What it computes: test_sim.c. */
#include "tests/support/expect.h"

#include "pserver/core/base/gathering.h"
#include "pserver/core/replica/replica.h"
#include "pserver/core/replica/replica_stream.h"

enum { SERVER, OTHER, TRAINER, REPLICA, OTHERS_REPLICA, RANKS };

typedef struct rig {
    tr_roster  *roster;
    tr_replica *replica;
    tr_node     node;
    uint64_t    seq;
} rig;

/* A state of an earlier process: seven updates, of as many steps. */
typedef struct earlier {
    uint8_t   setup[64];
    size_t    setup_bytes;
    uint64_t  settled;
    uint8_t   flags;
    uint64_t  updates;
} earlier;

static bool kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    earlier *s = self;

    if (!s)
        return false;
    *commit = (tr_commit){.updates = s->updates, .settled = &s->settled, .trainer = &s->flags, .decided = s->updates};
    *packed = s->setup;
    *bytes = s->setup_bytes;
    return true;
}

static tr_status set_up(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                        bool resume)
{
    (void)policy;
    (void)self, (void)setup, (void)packed, (void)bytes;
    assert_true(resume);
    return TR_OK;
}

static tr_status ready(void *self)
{
    (void)self;
    return TR_OK;
}

static void go_back(void *self, const tr_commit *commit)
{
    earlier *s = self;

    s->updates = commit->updates;
    s->settled = commit->settled[0];
    s->flags = commit->trainer[0];
}

static rig make(earlier *with)
{
    static const tr_role  role[RANKS] = {TR_ROLE_SERVER, TR_ROLE_SERVER, TR_ROLE_TRAINER, TR_ROLE_REPLICA,
                                           TR_ROLE_REPLICA};
    const tr_store        store = {.self = with, .worker = with, .last_commit = kept, .setup = set_up, .ready = ready, .go_back = go_back};
    rig                   r = {.roster = tr_roster_new(REPLICA, RANKS)};

    for (int i = 0; i < RANKS; i++)
        tr_roster_put(r.roster, i, role[i], 1, 100 + i, "h", i < REPLICA ? "this one" : "another");
    EXPECT_OK(tr_roster_close(r.roster));
    r.replica = tr_replica_new(r.roster, &store);
    r.node = tr_replica_node(r.replica);
    return r;
}

static void unmake(rig *r)
{
    tr_replica_free(r->replica);
    tr_roster_free(r->roster);
}

static void say(rig *r, tr_wire wire, const void *payload)
{
    uint8_t *copy = malloc(wire.bytes + 1);

    memcpy(copy, payload, wire.bytes);
    wire.seq = ++r->seq;
    wire.incarnation = 1;
    r->node.receive(r->node.self, 0, SERVER, &wire, copy, false);
    free(copy);
}

static tr_status status_of(const rig *r, const char **text)
{
    return r->node.status(r->node.self, text);
}

TEST(a_replicas_gathered_values_have_room)
{
    static uint8_t all[2 * TR_GATHER_MAX + 1];
    const char    *text;
    rig            r = make(NULL);

    say(&r, (tr_wire){.kind = TR_WIRE_REPLICA_SHARES, .bytes = 2 * TR_GATHER_MAX}, all);
    assert_int_equal(status_of(&r, &text), TR_OK);
    say(&r, (tr_wire){.kind = TR_WIRE_REPLICA_SHARES, .bytes = 2 * TR_GATHER_MAX + 1}, all);
    assert_int_equal(status_of(&r, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "2049 bytes as what 2 servers have gathered"));
    unmake(&r);
}

TEST(messages_that_are_not_for_replicas_are_refused)
{
    const char *text;
    rig         r = make(NULL);

    say(&r, (tr_wire){.kind = TR_WIRE_PULL}, "");
    assert_int_equal(status_of(&r, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "is nothing for a replica"));
    unmake(&r);
}

static earlier make_earlier(void)
{
    Trireme__Pserver__Setup setup = TRIREME__PSERVER__SETUP__INIT;
    earlier                 s = {.settled = 7, .updates = 7};

    setup.mode = (char *)"async";
    setup.chunk_bytes = 4096;
    s.setup_bytes = trireme__pserver__setup__get_packed_size(&setup);
    assert_true(s.setup_bytes <= sizeof s.setup);
    trireme__pserver__setup__pack(&setup, s.setup);
    return s;
}

/* What its server, which has one update less, says of the only trainer. */
static size_t pack_update(uint8_t *out, uint64_t settled)
{
    Trireme__Pserver__Update update = TRIREME__PSERVER__UPDATE__INIT;
    protobuf_c_boolean       takes_part = 0;
    uint8_t                  flags = TR_TRAINER_GONE;

    update.updates = update.decided = 6;
    update.n_settled = update.n_takes_part = update.trainer.len = 1;
    update.settled = &settled;
    update.takes_part = &takes_part;
    update.trainer.data = &flags;
    return trireme__pserver__update__pack(&update, out);
}

/* Somebody may take its state over in the next moment, when server and host are lost. */
TEST(a_replica_that_goes_back_by_an_update_has_the_older_commit_at_once)
{
    uint8_t      update[64];
    const size_t size = pack_update(update, 6);
    earlier      s = make_earlier();
    rig          r = make(&s);
    const char  *text;

    say(&r, (tr_wire){.kind = TR_WIRE_COPY_KEEP, .bytes = size, .copy = {.update = 6}}, update);
    assert_int_equal(status_of(&r, &text), TR_OK);
    assert_int_equal(s.updates, 6);
    assert_int_equal(s.settled, 6);
    assert_int_equal(s.flags, TR_TRAINER_GONE);
    unmake(&r);
}

TEST(a_replica_does_not_guess_the_commit_before_an_update)
{
    earlier     s = make_earlier();
    rig         r = make(&s);
    const char *text;

    say(&r, (tr_wire){.kind = TR_WIRE_COPY_KEEP, .copy = {.update = 6}}, "");
    assert_int_equal(status_of(&r, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "the committed steps after update 6 are damaged"));
    assert_int_equal(s.updates, 7);
    unmake(&r);
}

/* It may wait in the loop when the first copy is acknowledged. */
TEST(a_message_sent_again_to_a_replica_outlives_its_acknowledgement)
{
    tr_replica_stream *stream = tr_replica_stream_new(0, 1);
    char              *payload = strdup("state");
    tr_message         first, again;

    tr_replica_stream_set_retry(stream, 100);
    tr_replica_stream_tick(stream, 1000);
    tr_replica_stream_put(stream, &(tr_wire){.kind = TR_WIRE_REPLICA_POST, .bytes = 6}, payload, payload);
    assert_true(tr_replica_stream_next(stream, &first));
    assert_ptr_equal(first.payload, payload);
    assert_null(first.owned);
    tr_replica_stream_tick(stream, 1100);
    assert_true(tr_replica_stream_next(stream, &again));
    tr_replica_stream_acked(stream, 1);
    assert_string_equal(again.payload, "state");
    free(again.owned);
    tr_replica_stream_free(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replicas_gathered_values_have_room),
        cmocka_unit_test(a_replica_that_goes_back_by_an_update_has_the_older_commit_at_once),
        cmocka_unit_test(a_replica_does_not_guess_the_commit_before_an_update),
        cmocka_unit_test(messages_that_are_not_for_replicas_are_refused),
        cmocka_unit_test(a_message_sent_again_to_a_replica_outlives_its_acknowledgement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
