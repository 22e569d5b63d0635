/* server_rig.c - a store that remembers, and messages by hand. */
#include "tests/support/server_rig.h"

float    param[2][2048], grad[2][2048];
uint64_t applying, committed;
double   compensation;
bool     took_part[2];
int64_t  now;

static bool nothing_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    (void)commit;
    (void)packed;
    (void)bytes;
    return false;
}

static tr_status set_up(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                        bool resume)
{
    (void)policy;
    (void)self;
    (void)packed;
    (void)bytes;
    assert_false(resume);
    assert_int_equal(setup->n_blocks, 2);
    return TR_OK;
}

static void *value_of(void *self, uint32_t index) { (void)self; return param[index]; }
static tr_status ready(void *self) { (void)self; return TR_OK; }

static void begin_apply(void *self, const tr_update *update)
{
    (void)self;
    applying = update->number;
    compensation = update->pulled ? update->compensation : 0;
    memcpy(grad[0], update->grad[0], 16);
    memcpy(grad[1], update->grad[1], 8192);
    for (int i = 0; i < 2; i++)
        took_part[i] = update->takes_part[i];
}

static void commit(void *self, const tr_commit *commit, bool is_update)
{
    (void)self;
    (void)is_update;
    committed = commit->updates;
}

static void go_back(void *self, const tr_commit *commit) { (void)self, (void)commit; }

tr_store plain_store(void)
{
    return (tr_store){.self = NULL,
        .last_commit = nothing_kept, .setup = set_up, .value = value_of, .ready = ready, .go_back = go_back,
        .param = value_of,
        .apply = begin_apply, .commit = commit,
    };
}

void serve_anew(rig *r, const tr_store *store)
{
    tr_server_free(r->server);
    r->server = tr_server_new(r->roster, store);
    r->node = tr_server_node(r->server);
    memset(r->seq, 0, sizeof r->seq);
}

rig make_of(int servers, int trainers, const tr_store *store)
{
    rig r = {.roster = tr_roster_new(SERVER, servers + trainers)};

    memset(param, 0, sizeof param);
    memset(grad, 0xff, sizeof grad);
    applying = 0;
    now = 0;
    for (int i = 0; i < servers + trainers; i++)
        tr_roster_put(r.roster, i, i < servers ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    serve_anew(&r, store);
    return r;
}

rig make(void)
{
    const tr_store store = plain_store();
    return make_of(1, 2, &store);
}

void unmake(rig *r)
{
    tr_server_free(r->server);
    tr_roster_free(r->roster);
}

void lose(rig *r, int rank)
{
    r->roster->rank[rank].is_dead = true;
    r->node.lost(r->node.self, rank, "died");
}

void say(rig *r, int from, tr_wire wire, const void *payload)
{
    uint8_t *copy = aligned_alloc(64, (wire.bytes + 63) / 64 * 64 + 64);

    memcpy(copy, payload ? payload : "", wire.bytes);
    wire.incarnation = wire.incarnation ? wire.incarnation : 1;
    wire.seq = wire.seq ? wire.seq : ++r->seq[from];
    r->node.receive(r->node.self, now, from, &wire, copy, false);
    free(copy);
}

void say_setup_compressed(rig *r, const char *mode, uint32_t dtype, const char *compress)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Block  block[2], *blocks[2] = {&block[0], &block[1]};
    uint8_t                  packed[512];

    for (int i = 0; i < 2; i++) {
        trireme__pserver__block__init(&block[i]);
        block[i].param = (char *)(i ? "w" : "b");
        block[i].grad = (char *)(i ? "w@GRAD" : "b@GRAD");
        block[i].dtype = dtype;
        block[i].bytes = i ? 8192 : 16;
    }
    setup.mode = (char *)(uintptr_t)mode;
    setup.compress = (char *)(uintptr_t)compress;
    setup.chunk_bytes = CHUNK;
    setup.n_blocks = 2;
    setup.blocks = blocks;
    const size_t size = trireme__pserver__setup__pack(&setup, packed);
    say(r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = size}, packed);
}

void say_setup(rig *r, const char *mode, uint32_t dtype)
{
    say_setup_compressed(r, mode, dtype, NULL);
}

void say_join(rig *r, int from)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_JOIN}, NULL);
}

static tr_status set_up_table(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                              bool resume)
{
    (void)self;
    (void)policy;
    (void)packed;
    (void)bytes;
    (void)resume;
    assert_int_equal(setup->n_tables, 1);
    return TR_OK;
}

rig make_with_table(const tr_store *store, const char *mode)
{
    tr_store                with_table = *store;
    Trireme__Pserver__Setup setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Table table = TRIREME__PSERVER__TABLE__INIT, *tables = &table;
    uint8_t                 packed[512];

    with_table.setup = set_up_table;
    rig r = make_of(1, 2, &with_table);
    table.name = (char *)"t";
    table.dtype = TR_FP32;
    table.width = TABLE_WIDTH;
    table.shard_count = TABLE_SHARDS;
    setup.mode = (char *)(uintptr_t)mode;
    setup.chunk_bytes = CHUNK;
    setup.n_tables = 1;
    setup.tables = &tables;
    const size_t size = trireme__pserver__setup__pack(&setup, packed);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = size}, packed);
    return r;
}

static rig make_running_of(int trainers, const char *mode)
{
    const tr_store store = plain_store();
    rig            r = make_of(1, trainers, &store);

    say_setup(&r, mode, TR_FP32);
    for (int i = 0; i < trainers; i++)
        say_join(&r, TRAINER0 + i);
    return r;
}

rig make_running_as(const char *mode)
{
    return make_running_of(2, mode);
}

rig make_running_with_three(const char *mode)
{
    return make_running_of(3, mode);
}

rig make_running(void)
{
    return make_running_as("sync");
}

void push_large(rig *r, int from, uint64_t step, int chunk, float value)
{
    float data[CHUNK / 4];
    for (int i = 0; i < CHUNK / 4; i++)
        data[i] = value;
    say(r, from,
        (tr_wire){.kind = TR_WIRE_PUSH, .bytes = CHUNK, .push = {.step = step, .block = 1, .offset = (uint64_t)chunk * CHUNK, .weight = 1}},
        data);
}

void push_small(rig *r, int from, uint64_t step, float value)
{
    const float data[4] = {value, value, value, value};
    uint8_t     payload[64];
    uint64_t    cursor = TR_WIRE_ENTRY;

    memcpy(tr_wire_entry_put(payload, 0, &cursor, 0, 16), data, 16);
    say(r, from, (tr_wire){.kind = TR_WIRE_PUSH_MANY, .bytes = cursor, .push_many = {.step = step, .count = 1, .weight = 1}}, payload);
}

void push_step(rig *r, int from, uint64_t step, float value)
{
    push_large(r, from, step, 1, value);
    push_small(r, from, step, value);
    push_large(r, from, step, 0, value);
    say(r, from, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = step}}, NULL);
}

tr_status status_of(const rig *r, const char **text)
{
    return r->node.status(r->node.self, text);
}

int64_t take_ack(rig *r, int to, int *data)
{
    tr_message m;
    int64_t    seq = -1;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_ACK)
            seq = (int64_t)m.wire.seq;
        if (data && m.peer == to && (m.wire.kind == TR_WIRE_DATA || m.wire.kind == TR_WIRE_DATA_MANY))
            ++*data;
        tr_message_over(&m);
    }
    return seq;
}

void pull(rig *r, int from, uint64_t step)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_PULL, .bytes = 8, .pull = {.step = step}}, "\1\0\0\0\0\0\0\0");
}

int answers(rig *r, int to)
{
    int data = 0;
    take_ack(r, to, &data);
    return data;
}

void end_step(rig *r, int from, uint64_t step)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = step}}, NULL);
}
