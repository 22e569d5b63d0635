/* test_server_heir.c - one server, trainers that die and spares in their places, messages by hand. */
#include "tests/support/server_rig.h"

#include <malloc.h>

enum { HEIRS = 20 };

/* Spares behind the two trainers, each of which may be an heir. */
static rig make_with_spares(const char *mode)
{
    const tr_store store = plain_store();
    rig            r = {.roster = tr_roster_new(SERVER, 3 + HEIRS)};

    for (int i = 0; i < 3 + HEIRS; i++) {
        tr_roster_put(r.roster, i, i == SERVER ? TR_ROLE_SERVER : i <= TRAINER1 ? TR_ROLE_TRAINER : TR_ROLE_SPARE, 1, 100 + i, "h", "");
        r.roster->rank[i].can_inherit = true;
    }
    EXPECT_OK(tr_roster_close(r.roster));
    serve_anew(&r, &store);
    say_setup(&r, mode, TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

/* Messages of an heir, which have its epoch and numbers from 1 on. */
static void say_as(rig *r, int from, uint64_t seq, tr_wire wire, const void *payload)
{
    wire.epoch = r->roster->rank[from].epoch;
    wire.seq = seq;
    say(r, from, wire, payload);
}

/* It dies in the middle of a step, with parts that are summed, parts that wait, and a question; the next one takes its place. */
static void die_and_be_replaced(rig *r, int rank, uint64_t seq)
{
    static const float data[CHUNK / 4] = {1};

    for (int chunk = 1; chunk >= 0; chunk--)
        say_as(r, rank, seq++, (tr_wire){.kind = TR_WIRE_PUSH, .step = 1, .block = 1, .offset = (uint64_t)chunk * CHUNK, .bytes = CHUNK,
                                         .weight = 1}, data);
    r->roster->rank[rank].is_dead = true;
    r->node.lost(r->node.self, rank, "died");
    r->node.tick(r->node.self, ++now);
    take_ack(r, rank, NULL);
    const int      heir = rank + 1;
    const uint32_t epoch = tr_roster_next_epoch(r->roster, 1);
    assert_true(tr_roster_inherit(r->roster, 1, heir, epoch));
    say(r, heir, (tr_wire){.kind = TR_WIRE_HEIR, .seq = epoch, .epoch = epoch, .block = 1, .part = TR_HEIR_IS}, NULL);
    say_as(r, heir, 1, (tr_wire){.kind = TR_WIRE_JOIN}, NULL);
    assert_true(take_ack(r, heir, NULL) == 1);
}

TEST(a_server_does_not_grow_by_trainers_that_die_one_after_the_other)
{
    static const char *const modes[] = {"sync", "async", "ssp(1)", "sync(fewer)"};

    for (int m = 0; m < 4; m++) {
        rig    r = make_with_spares(modes[m]);
        size_t before = 0;
        for (int i = 0; i < HEIRS; i++) {
            die_and_be_replaced(&r, TRAINER1 + i, i ? 2 : r.seq[TRAINER1] + 1);
            if (i == 1)
                before = mallinfo2().uordblks;
        }
        const char *text;
        assert_int_equal(status_of(&r, &text), TR_OK);
        assert_true(mallinfo2().uordblks < before + CHUNK);
        unmake(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_does_not_grow_by_trainers_that_die_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
