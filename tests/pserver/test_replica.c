/* test_replica.c - a replica of one server of two, messages by hand: what is refused. What it computes: test_sim.c. */
#include "tests/support/expect.h"

#include "pserver/gather.h"
#include "pserver/replica.h"

enum { SERVER, OTHER, TRAINER, REPLICA, OTHERS_REPLICA, RANKS };

typedef struct rig {
    tr_roster  *roster;
    tr_replica *replica;
    tr_node     node;
    uint64_t    seq;
} rig;

static rig make(void)
{
    static const tr_role  role[RANKS] = {TR_ROLE_SERVER, TR_ROLE_SERVER, TR_ROLE_TRAINER, TR_ROLE_REPLICA,
                                           TR_ROLE_REPLICA};
    static const tr_store store;
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
    wire.epoch = 1;
    r->node.receive(r->node.self, 0, SERVER, &wire, copy, false);
    free(copy);
}

static tr_status status_of(const rig *r, const char **text)
{
    return r->node.status(r->node.self, text);
}

TEST(what_servers_gather_has_room)
{
    static uint8_t all[2 * TR_GATHER_MAX + 1];
    const char    *text;
    rig            r = make();

    say(&r, (tr_wire){.kind = TR_WIRE_UPDATE, .part = 2, .bytes = 2 * TR_GATHER_MAX}, all);
    assert_int_equal(status_of(&r, &text), TR_OK);
    say(&r, (tr_wire){.kind = TR_WIRE_UPDATE, .part = 2, .bytes = 2 * TR_GATHER_MAX + 1}, all);
    assert_int_equal(status_of(&r, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "2049 bytes as what 2 servers have gathered"));
    unmake(&r);
}

TEST(what_is_nothing_for_a_replica_is_refused)
{
    const char *text;
    rig         r = make();

    say(&r, (tr_wire){.kind = TR_WIRE_PULL}, "");
    assert_int_equal(status_of(&r, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "is nothing for a replica"));
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_servers_gather_has_room),
        cmocka_unit_test(what_is_nothing_for_a_replica_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
