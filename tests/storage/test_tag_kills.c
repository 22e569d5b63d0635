/* test_tag_kills.c - an index without rows whose process is killed after any instruction: each entry is there or not. */
#include "tests/support/expect.h"
#include "tests/support/instructions.h"

#include "framework/tensors/random.h"
#include "storage/slots/slots_state.h"
#include "storage/slots/tag_index.h"

#include <stdio.h>
#include <unistd.h>

enum { KEYS = 3000, ROUNDS = 250, NONE = -1 };
enum { PUT, TAKE, MOVE };
#ifdef TR_SANITIZE                    /* a change takes more instructions */
enum { LONGER = 3000 };
#else
enum { LONGER = 300 };
#endif

static char     name[64];
static int64_t  record[KEYS];         /* of each key; NONE: it has no entry */
static uint32_t next_record;

static int64_t key_at(int i)
{
    return (int64_t)i * 7919 - 100;
}

typedef struct change {
    int      what, key;
    uint32_t from, to;
} change;

/* More keys come than go, so that the index grows time and again. */
static change choose(uint64_t seed)
{
    const int    key = (int)tr_random_below(seed, 0, KEYS);
    const change c = {record[key] == NONE ? PUT : tr_random_below(seed, 1, 3) ? MOVE : TAKE, key, (uint32_t)record[key], next_record};

    next_record++;
    return c;
}

static tr_status run(tr_tag_index *index, const change *c)
{
    const int64_t key = key_at(c->key);

    if (c->what == PUT)
        return tr_tag_index_put(index, key, c->to);
    if (c->what == TAKE)
        tr_tag_index_take(index, key, c->from);
    else
        tr_tag_index_move(index, key, c->from, c->to);
    return TR_OK;
}

static void note(const change *c)
{
    record[c->key] = c->what == TAKE ? NONE : (int64_t)c->to;
}

static tr_tag_index *attach(void)
{
    tr_tag_index *index = NULL;

    EXPECT_OK(tr_tag_index_attach(&index, name, 0, TR_SHARDS));
    return index;
}

/* Was the last process killed while entries moved? */
static bool is_marked(void)
{
    tr_segment *segment = NULL;
    char        rows[80];

    snprintf(rows, sizeof rows, "%s.rows", name);
    EXPECT_OK(tr_segment_attach(&segment, rows, "rows", 4, (uint64_t)1 << 30));
    const bool is = ((const tr__slots_head *)tr_segment_base(segment))->is_moving;
    tr_segment_free(segment);
    return is;
}

static tr_tag_index *child_index;

static bool attach_child(void *payload)
{
    (void)payload;
    return tr_tag_index_attach(&child_index, name, 0, TR_SHARDS) == TR_OK;
}

static bool run_child(void *payload)
{
    return run(child_index, payload) == TR_OK;
}

/* All other keys have what they had; the changed one has what it had or what it got. Returns whether it got it. */
static bool check(const tr_tag_index *index, const change *c)
{
    uint64_t count = 0;
    bool     is_done = false;

    for (int i = 0; i < KEYS; i++) {
        const bool has = record[i] != NONE && tr_tag_index_has(index, key_at(i), (uint32_t)record[i]);
        if (i == c->key) {
            is_done = c->what == TAKE ? !has : tr_tag_index_has(index, key_at(i), c->to);
            assert_true(has + is_done == 1 || (c->what == PUT && !has && !is_done));
        } else {
            assert_int_equal(has, record[i] != NONE);
        }
        count += i != c->key ? record[i] != NONE : is_done ? c->what != TAKE : record[i] != NONE;
    }
    assert_int_equal(tr_tag_index_count(index), count);
    return is_done;
}

/* Many changes without a kill, to come to another place of the growth. */
static void change_many(tr_tag_index *index, uint64_t seed, int n)
{
    for (int i = 0; i < n; i++) {
        const change c = choose(seed * 100 + (uint64_t)i);
        EXPECT_OK(run(index, &c));
        note(&c);
    }
}

TEST(a_kill_after_any_instruction_leaves_each_entry_there_or_not)
{
    tr_tag_index *index = NULL;
    uint64_t      length = LONGER + 100;
    int           done = 0, marked = 0;

    for (int i = 0; i < KEYS; i++)
        record[i] = NONE;
    EXPECT_OK(tr_tag_index_create(&index, name, 0, TR_SHARDS));
    change_many(index, 1, 700);
    tr_tag_index_free(index);
    for (uint64_t round = 2; round < ROUNDS; round++) {
        change c = choose(round * 1000003);
        length = tr_kill_after(attach_child, run_child, &c, tr_random_below(round, 2, length)) + LONGER;
        marked += is_marked();
        index = attach();
        if (check(index, &c)) {
            note(&c);
            done++;
        }
        change_many(index, round, (int)(round % 11));
        tr_tag_index_free(index);
    }
    print_message("%d of %d changes were done, %d were cut off while entries moved, %d entries at the end\n", done, ROUNDS, marked,
                  (int)next_record);
    assert_true(done > 10 && done < ROUNDS - 10 && marked > 10);
    tr_slots_remove(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_after_any_instruction_leaves_each_entry_there_or_not),
    };

    snprintf(name, sizeof name, "trireme-test-%d-tags", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
