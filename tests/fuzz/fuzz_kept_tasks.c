/* fuzz_kept_tasks.c - the state of leased tasks as a dead server has left it, damaged: who takes its place refuses it, or goes on from it.
 *
 * The first byte of the input: bit 0: the place of one that died; else the job is started again. The rest damages the memory (damage.h). */
#include "tests/support/server_rig.h"
#include "tests/fuzz/damage.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static uint8_t  kept_setup[512];
static size_t   kept_setup_bytes;
static uint64_t kept_settled[2], kept_updates;
static uint8_t  kept_trainer[2];
static uint8_t *memory;
static uint64_t memory_bytes;
static damaged  left;

static bool something_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    *commit = (tr_commit){kept_updates, kept_settled, kept_trainer, kept_updates, 0};
    *packed = kept_setup;
    *bytes = kept_setup_bytes;
    return kept_setup_bytes > 0;
}

static tr_status set_up_kept(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    (void)self, (void)setup, (void)resume;
    memmove(kept_setup, packed, bytes);
    kept_setup_bytes = bytes;
    return TR_OK;
}

static void commit_kept(void *self, const tr_commit *commit, bool is_update)
{
    (void)self, (void)is_update;
    kept_updates = commit->updates;
    memcpy(kept_settled, commit->settled, sizeof kept_settled);
    memcpy(kept_trainer, commit->trainer, sizeof kept_trainer);
}

static void *keep_tasks(void *self, uint64_t *bytes)
{
    (void)self;
    if (*bytes) {
        free(memory);
        memory = calloc(1, *bytes);
        memory_bytes = *bytes;
    }
    *bytes = memory ? memory_bytes : 0;
    return memory;
}

static void renew(rig *r)
{
    tr_store store = plain_store();

    store.kept = something_kept;
    store.setup = set_up_kept;
    store.commit = commit_kept;
    store.tasks = keep_tasks;
    serve_anew(r, &store);
}

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

    kept_setup_bytes = 0;
    renew(&r);
    say_setup(&r, "async", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    say_small(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .block = 4, .part = 2, .offset = 9, .weight = 10});
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK});
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .offset = 1});
    say_small(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK});
    make_steps(&r, TRAINER1, 1, 2);
    say_small(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_END, .offset = 1});
    make_steps(&r, TRAINER1, 3, 3);
    unmake(&r);
    damaged_init(&left, memory, memory_bytes);
}

static bool has_begun(rig *r, bool takes_place)
{
    if (takes_place)
        return tr_server_take_over(r->server) == TR_OK;
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_NONE});
    say(r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = kept_setup_bytes, .part = 1, .step = 3}, kept_setup);
    say_join(r, TRAINER0);
    say(r, TRAINER1, (tr_wire){.kind = TR_WIRE_JOIN, .step = 3, .offset = 3}, NULL);
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .block = 4, .part = 2, .offset = 9, .weight = 10});
    return true;
}

static void go_on(rig *r, bool takes_place)
{
    if (!has_begun(r, takes_place))
        return;
    for (int from = TRAINER0; from <= TRAINER1; from++)
        for (uint64_t known = 0; known < 4; known++) {
            say_small(r, from, (tr_wire){.kind = TR_WIRE_TASK_ASK, .offset = known});
            say_small(r, from, (tr_wire){.kind = TR_WIRE_TASK_END, .offset = known});
        }
    make_steps(r, TRAINER1, 4, 5);
    r->node.lost(r->node.self, TRAINER1, "died");
    say_small(r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .offset = 4});
    make_steps(r, TRAINER0, 1, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!left.whole)
        begin();
    if (!size)
        return 0;
    damage(&left, 1, input + 1, size - 1);
    free(memory);
    memory = malloc(left.size ? left.size : 1);        /* of just its size: a step outside is seen */
    memory_bytes = left.size;
    memcpy(memory, left.bytes, left.size);
    kept_updates = 3;
    kept_settled[0] = 0;
    kept_settled[1] = 3;
    memset(kept_trainer, 0, sizeof kept_trainer);
    rig r = make();
    renew(&r);
    go_on(&r, input[0] & 1);
    unmake(&r);
    return 0;
}
