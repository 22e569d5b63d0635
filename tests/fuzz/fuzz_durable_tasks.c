/* fuzz_durable_tasks.c - the state of leased tasks that a dead server has left, damaged. The server in its place refuses the state, or goes
 * on from it.
 *
 * The first byte of the input: bit 0: the place of one that died; else the job is started again. The rest damages the memory (damage.h). */
#include "tests/support/durable_store.h"
#include "tests/fuzz/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static damaged left;

static void hear_all(rig *r)
{
    tr_message m;

    while (r->node.next(r->node.self, &m))
        tr_message_over(&m);
    r->node.tick(r->node.self, 0);
}

static void say_small(rig *r, int from, tr_wire wire)
{
    say(r, from, wire, NULL);
    hear_all(r);
}

static void make_steps(rig *r, int from, uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++) {
        push_step(r, from, step, 1);
        hear_all(r);
        tr_server_applied(r->server, TR_OK);
        hear_all(r);
    }
}

/* Two trainers; one has ended a task and is in its second, the other has one. */
static void begin(void)
{
    rig r = make();

    serve_keeping(&r);
    say_setup(&r, "async", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    say_small(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = 4, .passes = 2, .digest = 9, .milliseconds = 10000}});
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK});
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = 1}});
    say_small(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK});
    make_steps(&r, TRAINER1, 1, 2);
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_END, .task_end = {.lease = 1}});
    make_steps(&r, TRAINER1, 3, 3);
    unmake(&r);
    damaged_init(&left, kept.tasks, kept.tasks_bytes);
}

static bool has_begun(rig *r, bool takes_place)
{
    if (takes_place)
        return tr_server_take_over(r->server) == TR_OK;
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_NONE});
    say(r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = kept.setup_bytes, .setup = {.resumes = 1, .updates = 3}}, kept.setup);
    say_join(r, TRAINER0);
    say(r, TRAINER1, (tr_wire){.kind = TR_WIRE_JOIN, .join = {.step = 3, .everywhere = 3}}, NULL);
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = 4, .passes = 2, .digest = 9, .milliseconds = 10000}});
    return true;
}

static void go_on(rig *r, bool takes_place)
{
    if (!has_begun(r, takes_place))
        return;
    for (int from = TRAINER0; from <= TRAINER1; from++)
        for (uint64_t known = 0; known < 4; known++) {
            say_small(r, from, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = known}});
            say_small(r, from, (tr_wire){.kind = TR_WIRE_TASK_END, .task_end = {.lease = known}});
        }
    make_steps(r, TRAINER1, 4, 5);
    r->node.lost(r->node.self, TRAINER1, "died");
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = 4}});
    make_steps(r, TRAINER0, 1, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!left.whole)
        begin();
    if (!size)
        return 0;
    damage(&left, 1, input + 1, size - 1);
    free(kept.tasks);
    kept.tasks = malloc(left.size ? left.size : 1);    /* of just its size: a step outside is seen */
    kept.tasks_bytes = left.size;
    memcpy(kept.tasks, left.bytes, left.size);
    kept.commit = (tr_commit){.updates = 3, .decided = 3};
    kept.settled[0] = 0;
    kept.settled[1] = 3;
    memset(kept.trainer, 0, sizeof kept.trainer);
    rig r = make();
    serve_again(&r);
    go_on(&r, input[0] & 1);
    unmake(&r);
    return 0;
}
