/* client_rows.c - rows of sparse tables: PULL_ROWS and READ_ROWS, answered by DATA_ROWS; EXPECT_ROWS, PUSH_ROWS and
 * WRITE_ROWS. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* == the answer =================================================================================== */

/* The memory into which rows of `bytes` bytes are received. */
static uint8_t *rows_buffer(const tr__request *r, uint64_t bytes)
{
    return r->wire.pull_rows.is_rounded ? tr_rounded_buffer(r->answer.to, 2 * bytes) : r->answer.to;
}

static bool is_answer(const tr__request *r, const tr_wire *wire)
{
    return wire->kind == TR_WIRE_DATA_ROWS && (r->answer.pack || r->answer.left == wire->bytes);
}

static void *receive_buffer(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire)
{
    (void)client;
    (void)s;
    if (!is_answer(r, wire) || r->answer.parts++)  /* it is on its way already */
        return NULL;
    return r->answer.pack ? tr__must_bytes(wire->bytes + 1) : rows_buffer(r, wire->bytes);
}

static void take(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    tr__answer     *answer = &r->answer;
    tr_client_pack *pack = answer->pack;

    if (!is_answer(r, wire))
        return;
    if (pack) {
        pack->data = is_direct ? (void *)(uintptr_t)payload : tr__must_bytes(wire->bytes + 1);
        pack->bytes = wire->bytes;
    }
    if (!is_direct)
        memcpy(pack ? pack->data : rows_buffer(r, wire->bytes), payload, wire->bytes);
    if (!pack && r->wire.pull_rows.is_rounded)
        tr_rounded_widen(answer->to, 2 * wire->bytes);
    if (answer->clock && wire->data_rows.clock < *answer->clock)
        *answer->clock = wire->data_rows.clock;
    answer->left = 0;
    tr__client_finish(client, s, r);
}

/* == the requests ================================================================================= */

static void describe_pull(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "rows of table %u as of step %llu from server %d", wire->pull_rows.table, (unsigned long long)wire->pull_rows.step,
             server);
}

static void describe_read(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "rows of table %u as of step %llu from server %d", wire->read_rows.table, (unsigned long long)wire->read_rows.step,
             server);
}

static void describe_expect(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "server %d to hear which rows of table %u come next", server, wire->expect_rows.table);
}

static void describe_write(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "server %d to take rows of table %u", server, wire->write_rows.table);
}

/* A pull that was sent ahead, and that the trainer has not waited for, may be a step old. */
static void pull_moved(tr__request *r, uint64_t settled)
{
    if (r->wire.pull_rows.step < settled)
        r->wire.pull_rows.step = settled;
}

static const tr__ask of_pull = {
    .is_question = true, .moved = pull_moved, .describe = describe_pull, .receive_buffer = receive_buffer, .take = take};
static const tr__ask of_read = {.is_question = true, .describe = describe_read, .receive_buffer = receive_buffer, .take = take};
static const tr__ask of_expect = {.describe = describe_expect};
static const tr__ask of_write = {.describe = describe_write};

uint64_t tr_client_rows_in_piece(const tr_client *client, uint64_t bytes)
{
    return bytes < client->options.chunk_bytes ? client->options.chunk_bytes / bytes : 1;
}

/* Requests for several tables are sent together (tr_client_flush). */
static tr__request *gather(tr_client *client, tr__stream *s, const tr__ask *ask, const tr_wire *message, uint64_t op, const void *payload,
                           uint64_t bytes)
{
    tr__request *r = tr__client_add(client, s, ask, message, op, payload, bytes);

    if (!s->gathered_from)
        s->gathered_from = r->wire.seq;
    return r;
}

uint64_t tr_client_pull_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = tr__client_op_begin(client), most = tr_client_rows_in_piece(client, rows->row_bytes);

    for (int i = 0; i < client->stream_count; i++)
        for (uint64_t at = rows->first[i]; at < rows->first[i + 1]; at += most) {
            const uint64_t left = rows->first[i + 1] - at, n = left < most ? left : most;
            const uint64_t step = tr__client_step_of(client, &client->stream[i]);
            const tr_wire  pull = {.kind = TR_WIRE_PULL_ROWS,
                                   .pull_rows = {.step = step, .before = at - rows->first[i], .table = rows->table,
                                                 .remakes = (uint32_t)(step - client->step), .is_rounded = rows->is_rounded}};
            tr__request   *r = gather(client, &client->stream[i], &of_pull, &pull, op, rows->keys + at, n * sizeof(int64_t));
            r->answer.to = rows->to + at * rows->row_bytes;
            r->answer.clock = rows->clock;
            r->answer.left = r->answer.size = tr_rounded_bytes(n * rows->row_bytes, rows->is_rounded);
        }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_expect_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = tr__client_op_begin(client), most = tr_client_rows_in_piece(client, sizeof(int64_t));

    for (int i = 0; i < client->stream_count; i++)
        for (uint64_t at = rows->first[i], end = rows->first[i + 1], n; at < end; at += n) {
            const tr_wire expect = {.kind = TR_WIRE_EXPECT_ROWS, .expect_rows = {.table = rows->table}};
            n = end - at < most ? end - at : most;
            gather(client, &client->stream[i], &of_expect, &expect, op, rows->keys + at, n * sizeof(int64_t));
        }
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, uint32_t since, tr_client_pack *out)
{
    const uint64_t op = tr__client_op_begin(client);
    tr__stream    *s = &client->stream[server];
    const tr_wire  read = {.kind = TR_WIRE_READ_ROWS,
                           .read_rows = {.step = tr__client_step_of(client, s), .table = out->table, .shard = shard,
                                         .since = since}};

    tr__client_add(client, s, &of_read, &read, op, NULL, 0)->answer.pack = out;
    tr__client_op_count_down(client, op);
    return op;
}

void tr__client_write_first_rows(tr_client *client, tr__stream *s, const tr_client_pack *rows, uint64_t op)
{
    const tr_wire write = {.kind = TR_WIRE_WRITE_ROWS, .write_rows = {.table = rows->table, .has_candidates = rows->has_candidates}};

    tr__client_add(client, s, &of_write, &write, op, rows->data, rows->bytes)->owned = rows->data;
}

uint64_t tr_client_write_rows(tr_client *client, int server, const tr_client_pack *rows, bool clears, uint64_t clock)
{
    const uint64_t op = tr__client_op_begin(client);
    const tr_wire  write = {
        .kind = TR_WIRE_WRITE_ROWS,
        .write_rows = {
            .step = client->step, .clock = clock, .table = rows->table, .has_candidates = rows->has_candidates, .clears = clears}};

    tr__client_add(client, &client->stream[server], &of_write, &write, op, rows->data, rows->bytes)->owned = rows->data;
    tr__client_op_count_down(client, op);
    return op;
}

static void take_file(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    (void)is_direct;
    if (wire->kind != TR_WIRE_ROWS_FILE)
        return;
    r->move->answer = wire->rows_file;
    if (wire->rows_file.status != TR_OK)
        r->move->text = tr__must_format("%.*s", (int)wire->bytes, (const char *)payload);
    tr__client_finish(client, s, r);
}

static void describe_move(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "server %d to %s", server, wire->kind == TR_WIRE_SAVE_ROWS ? "write rows into a file" : "take rows from a file");
}

static const tr__ask of_move = {.is_question = true, .describe = describe_move, .take = take_file};

uint64_t tr_client_move_rows(tr_client *client, tr_client_move *move)
{
    const uint64_t op = tr__client_op_begin(client);
    tr__stream    *s = &client->stream[move->server];

    if (move->wire.kind == TR_WIRE_SAVE_ROWS)
        move->wire.save_rows.step = tr__client_step_of(client, s);
    else
        move->wire.load_rows.step = client->step;
    tr__request *r = tr__client_add(client, s, &of_move, &move->wire, op, move->packed, move->size);
    r->move = move;
    r->owned = move->packed;
    tr__client_op_count_down(client, op);
    return op;
}

uint64_t tr_client_push_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = tr__client_op_begin(client), most = tr_client_rows_in_piece(client, rows->push_bytes);

    for (int i = 0; i < client->stream_count; i++) {
        if (tr__client_has_step(client, &client->stream[i]))
            continue;
        const uint64_t count = rows->first[i + 1] - rows->first[i], pieces = count ? (count + most - 1) / most : 1;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            const uint64_t at = piece * most, n = count - at < most ? count - at : most;
            const tr_wire  push = {.kind = TR_WIRE_PUSH_ROWS,
                                   .push_rows = {.step = client->step + 1, .weight = rows->weight, .table = rows->table,
                                                 .piece = (uint32_t)piece, .pieces = (uint32_t)pieces}};
            gather(client, &client->stream[i], &tr__ask_push, &push, op, rows->pieces + (rows->first[i] + at) * rows->push_bytes,
                   n * rows->push_bytes);
        }
    }
    tr__client_op_count_down(client, op);
    return op;
}
