/* fuzz_server.c - what trainers send to a server, in any order: two trainers of another host, which may send one sum (carrier.h), two
 * blocks and a table, agreed on as they should be; what comes then is the input's. The server refuses or takes it, and its answers point
 * at memory that is there.
 *
 * The input: a mode, then messages of 12 bytes and a payload (see `record`). */
#include "pserver/core/base/outbox.h"
#include "pserver/core/server/server.h"

#include <stdlib.h>
#include <string.h>

enum { SERVER, TRAINERS = 2, CHUNK = 4096, WIDTH = 2, ROW = WIDTH * sizeof(float), RECORD = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const char *const modes[] = {
    "sync", "async", "ssp(1)", "geo(2)", "sync(backups=1)", "sync(degraded)", "async(compensation=0.1)", "average(2)"};

/* A message; sizes are small, so that most are near to what could be. A kind that there is not: an update is applied. */
typedef struct record {
    uint8_t kind;
    uint8_t who;                      /* bit 0: trainer; 1: again, 2: one too early, 3: it died; 4: received directly; 5: what is sent stays
                                       * unsent; 6 and 7: `part`, which comes through the other trainer */
    uint8_t block, part, step, chunk; /* of the offset; 255: none, the next byte alone */
    uint8_t offset, weight;
    uint8_t bytes[2], more[2];
} record;

static float            param[2][2 * CHUNK / sizeof(float)];
static bool             is_applying;
static volatile uint8_t sink;

static bool nothing_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self, (void)commit, (void)packed, (void)bytes;
    return false;
}

static tr_status set_up(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                        bool resume)
{
    (void)policy;
    (void)self, (void)setup, (void)packed, (void)bytes, (void)resume;
    return TR_OK;
}

static void     *param_of(void *self, uint32_t index) { (void)self; return param[index]; }
static tr_status ready(void *self) { (void)self; return TR_OK; }
static void      go_back(void *self, const tr_commit *commit) { (void)self, (void)commit; }

static void look_at(const void *data, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        sink = ((const uint8_t *)data)[i];
}

static void apply(void *self, const tr_update *update)
{
    (void)self;
    look_at(update->grad[0], 16);
    look_at(update->grad[1], 2 * CHUNK);
    for (int64_t i = 0; i < update->rows[0].count; i++) {
        const tr_rows_part *part = &update->rows[0].part[i];
        look_at(part->keys, (uint64_t)part->count * sizeof *part->keys);
        look_at(part->values, (uint64_t)part->count * ROW);
    }
    is_applying = true;
}

static void commit(void *self, const tr_commit *commit, bool is_update)
{
    (void)self, (void)is_update;
    look_at(commit->settled, TRAINERS * sizeof *commit->settled);
}

static tr_status rows_of(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    (void)self, (void)index;
    look_at(keys, (uint64_t)n * sizeof *keys);
    memset(out, 0, (size_t)n * ROW);
    memset(hints, 0, (size_t)n * sizeof *hints);
    return TR_OK;
}

static tr_status expect_rows(void *self, uint32_t index, const int64_t *keys, int64_t n)
{
    (void)self, (void)index;
    look_at(keys, (uint64_t)n * sizeof *keys);
    return TR_OK;
}

static tr_status read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, uint32_t since, void **out, uint64_t *bytes)
{
    (void)self, (void)index, (void)shard, (void)are_candidates, (void)since;
    *out = calloc(1, ROW);
    *bytes = ROW;
    return TR_OK;
}

static tr_status write_rows(void *self, const tr_form_write_rows *what, const void *rows, uint64_t bytes)
{
    (void)self, (void)what;
    look_at(rows, bytes);
    return TR_OK;
}

/* == the server ================================================================================ */

typedef struct rig {
    tr_roster *roster;
    tr_server *server;
    tr_node    node;
    uint64_t   seq[1 + TRAINERS];
    tr_outbox  unsent;
} rig;

static void say(rig *r, int from, tr_wire wire, const void *payload, bool is_direct)
{
    uint8_t header[TR_WIRE_HEADER];
    void   *at = NULL;

    tr_wire_encode(header, &wire);
    const uint32_t carrier = wire.carrier;
    if (tr_wire_decode(&wire, header) != TR_OK)
        return;
    wire.carrier = carrier;
    if (is_direct && wire.bytes && !(at = r->node.receive_buffer(r->node.self, from, &wire)))
        return;
    is_direct = at != NULL;
    if (!is_direct)
        at = aligned_alloc(64, (wire.bytes + 64) & ~(uint64_t)63);
    memcpy(at, payload, wire.bytes);
    r->node.receive(r->node.self, 0, from, &wire, at, is_direct);
    if (!is_direct)
        free(at);
}

static void say_setup(rig *r, const char *mode)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Block  block[2] = {TRIREME__PSERVER__BLOCK__INIT, TRIREME__PSERVER__BLOCK__INIT}, *blocks[2] = {&block[0], &block[1]};
    Trireme__Pserver__Table  table = TRIREME__PSERVER__TABLE__INIT, *tables = &table;
    uint8_t                  packed[512];

    for (int i = 0; i < 2; i++) {
        block[i].param = (char *)(i ? "w" : "b");
        block[i].grad = (char *)(i ? "w@GRAD" : "b@GRAD");
        block[i].dtype = TR_FP32;
        block[i].bytes = i ? 2 * CHUNK : 16;
    }
    table.name = (char *)"t";
    table.dtype = TR_FP32;
    table.width = WIDTH;
    table.shard_count = 1024;
    setup.mode = (char *)(uintptr_t)mode;
    setup.chunk_bytes = CHUNK;
    setup.n_blocks = 2;
    setup.blocks = blocks;
    setup.n_tables = 1;
    setup.tables = &tables;
    const size_t size = trireme__pserver__setup__pack(&setup, packed);
    say(r, 1, (tr_wire){.kind = TR_WIRE_SETUP, .incarnation = 1, .seq = ++r->seq[1], .bytes = size}, packed, false);
    for (int i = 1; i <= TRAINERS; i++)
        say(r, i, (tr_wire){.kind = TR_WIRE_JOIN, .incarnation = 1, .seq = ++r->seq[i]}, "", false);
}

static void make(rig *r, const char *mode)
{
    const tr_store store = {.last_commit = nothing_kept, .setup = set_up, .value = param_of, .ready = ready, .param = param_of,
                            .apply = apply, .commit = commit, .go_back = go_back, .rows = rows_of, .read_rows = read_rows,
                            .expect_rows = expect_rows, .write_rows = write_rows};

    *r = (rig){.roster = tr_roster_new(SERVER, 1 + TRAINERS)};
    is_applying = false;
    for (int i = 0; i <= TRAINERS; i++)
        tr_roster_put(r->roster, i, i == SERVER ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", i == SERVER ? "here" : "there");
    if (tr_roster_close(r->roster) != TR_OK)
        abort();
    r->server = tr_server_new(r->roster, &store);
    r->node = tr_server_node(r->server);
    say_setup(r, mode);
}

static void send_all(rig *r, bool stays_unsent)
{
    tr_message message;

    if (r->node.awaits_loans(r->node.self))
        tr_outbox_give_back(&r->unsent);
    while (r->node.next(r->node.self, &message)) {
        look_at(message.payload, message.wire.bytes);
        tr_outbox_put(&r->unsent, &message);
    }
    while (!stays_unsent && tr_outbox_take(&r->unsent, &message))
        tr_message_over(&message);
    r->node.tick(r->node.self, 0);
}

/* A field's value, by the name of the field: small numbers, most of which are near to what could be. */
static uint64_t value_of(const char *field, const record *m)
{
    static const char *const numbers[] = {"block", "table", "value", "count", "trainer", "server", "initiator", "rank", "task"};

    if (!strcmp(field, "step") || !strcmp(field, "update") || !strcmp(field, "updates"))
        return m->step;
    if (!strcmp(field, "weight") || !strcmp(field, "seconds"))
        return m->weight;
    if (!strcmp(field, "offset") || !strcmp(field, "everywhere") || !strcmp(field, "before") || !strcmp(field, "pieces"))
        return m->chunk == 255 ? m->offset : (uint64_t)m->chunk * CHUNK + m->offset;
    if (!strcmp(field, "part"))
        return m->who >> 6;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(field, numbers[i]))
            return m->block;
    return m->part;
}

#define FILL(type, name, most, meaning) form->name = (tr_field_##type)value_of(#name, m);
#define FILL_FORM(KIND, form_, ...)                                                                          \
    case TR_WIRE_##KIND: {                                                                                   \
        tr_form_##form_ *form = &wire->form_;                                                                \
        TR_FORM_##form_(FILL) break;                                                                         \
    }
#define FILL_NONE(KIND, ...) case TR_WIRE_##KIND: break;

/* False: no such message passes the decoder. */
static bool fill_in(tr_wire *wire, const record *m)
{
    uint8_t header[TR_WIRE_HEADER];
    tr_wire filled;

    switch (wire->kind) {
        TR_MESSAGES(FILL_FORM, FILL_NONE)
    default:
        break;
    }
    tr_wire_encode(header, wire);
    if (tr_wire_decode(&filled, header) != TR_OK)
        return false;
    *wire = filled;
    return true;
}

static void happen(rig *r, const record *m, const uint8_t *payload, uint64_t bytes)
{
    const int from = 1 + (m->who & 1);
    tr_wire   wire = {.kind = (tr_wire_kind)m->kind, .incarnation = 1, .sender = (uint32_t)from, .bytes = bytes};

    if (m->kind >= TR_WIRE_KIND_COUNT) {
        if (is_applying) {
            is_applying = false;
            tr_server_applied(r->server, TR_OK);
        }
        return;
    }
    if (m->who & 8) {
        r->roster->rank[from].is_dead = true;
        r->node.lost(r->node.self, from, "died");
        return;
    }
    if (tr_wire_is_of_loop(wire.kind))
        return;                                    /* never a core's */
    if (!fill_in(&wire, m))
        return;
    r->seq[from] += !(m->who & 2);
    wire.seq = r->seq[from] + !!(m->who & 4);
    wire.carrier = m->who >> 6 ? (uint32_t)(TRAINERS + 1 - from) + 1 : 0;
    say(r, from, wire, payload, m->who & 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    record m;
    rig    r;

    if (!size)
        return 0;
    make(&r, modes[*input++ % (sizeof modes / sizeof *modes)]);
    for (size--; size >= RECORD; ) {
        memcpy(&m, input, RECORD);
        const uint64_t wanted = (m.bytes[0] | (uint64_t)m.bytes[1] << 8) % (CHUNK + 64), left = size - RECORD;
        const uint64_t bytes = wanted < left ? wanted : left;
        happen(&r, &m, input + RECORD, bytes);
        send_all(&r, m.who & 32);
        input += RECORD + bytes;
        size -= RECORD + bytes;
    }
    tr_outbox_deinit(&r.unsent);
    tr_server_free(r.server);
    tr_roster_free(r.roster);
    return 0;
}
