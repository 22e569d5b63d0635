/* client_answers.c - the answers of servers to a trainer: acknowledgements, parameters, rows, refusals. */
#include "pserver/core/client/client_answers.h"

#include "framework/base/memory.h"
#include "pserver/core/client/client_board.h"
#include "pserver/core/client/client_move.h"
#include "pserver/core/client/client_requests.h"
#include "pserver/core/client/client_snapshot.h"
#include "pserver/core/client/client_tasks.h"

static void on_ack(tr_client *client, tr__stream *s, uint64_t seq)
{
    for (tr__request *r = tr__client_open(s); r && r->wire.seq <= seq; r = r->next)
        if (!tr__client_is_pull(r) && !r->answer && r->sent_at)
            tr__client_finish(client, s, r);
}

static uint32_t number_of(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_DATA ? wire->data.number : wire->data_many.number;
}

static tr__request *pull_of(tr__stream *s, const tr_wire *wire)
{
    tr__request *r = tr__client_open(s);

    while (r && r->wire.seq != wire->seq)
        r = r->next;
    return r && r->wire.kind == TR_WIRE_PULL && !r->is_done ? r : NULL;
}

/* May this message of an answer be received directly into its final place? Small messages before it are not placed, and may wait to be received. So the
 * message need not be the next one, unless a message was lost. A message that is already being placed is not placed a second time. */
static bool is_to_be_placed(const tr__request *r, uint32_t number)
{
    return (r->has_gap ? number == r->parts : number >= r->parts) && (!r->pending || number >= r->placed);
}

/* The pull of rows that this message answers. NULL: there is none, or its rows are being placed already. */
static tr__request *row_pull_of(tr__stream *s, const tr_wire *wire)
{
    for (tr__request *r = tr__client_open(s); r && r->wire.seq <= wire->seq; r = r->next)
        if (r->wire.seq == wire->seq)
            return !r->is_done && (r->pack || (r->to && r->left == wire->bytes)) ? r : NULL;
    return NULL;
}

/* A part of the answer to a pull of a block: where it is received, and how it is stored. */
typedef struct arrival {
    uint8_t *to;                      /* NULL: the trainer has no pull of this block */
    uint8_t *values;                  /* the part of the parameter, of `bytes` bytes */
    uint64_t bytes;
    bool     is_rounded;
} arrival;

static arrival arrival_of(tr_client *client, const tr__stream *s, uint32_t local, uint64_t offset, uint64_t bytes)
{
    const int server = (int)(s - client->stream);

    if (local >= client->local_count[server])
        return (arrival){0};
    const tr__client_block *b = &client->block[client->global[server][local]];
    const uint64_t          all = tr_rounded_bytes(b->bytes, b->is_rounded);
    if (!b->pull_to || offset > all || bytes > all - offset || (b->is_rounded && (offset | bytes) % 2))
        return (arrival){0};
    if (!b->is_rounded)
        return (arrival){b->pull_to + offset, b->pull_to + offset, bytes, false};
    uint8_t *floats = b->pull_to + 2 * offset;
    return (arrival){tr_rounded_place(floats, 2 * bytes), floats, 2 * bytes, true};
}

static void take_arrival(const arrival *a)
{
    if (a->is_rounded)
        tr_rounded_widen(a->values, a->bytes);
}

/* The memory into which rows of `bytes` bytes are received. */
static uint8_t *rows_place(const tr__request *r, uint64_t bytes)
{
    return r->wire.pull_rows.is_rounded ? tr_rounded_place(r->to, 2 * bytes) : r->to;
}

void *tr__client_place(void *self, int peer, const tr_wire *wire)
{
    tr_client *client = self;
    tr__stream    *s = tr__client_stream_of(client, peer);
    tr__request   *r;

    if (!s || wire->epoch != client->epoch)
        return NULL;
    if (wire->kind == TR_WIRE_DATA_ROWS) {
        r = row_pull_of(s, wire);
        if (!r || r->parts++)
            return NULL;
        return r->pack ? tr__must_bytes(wire->bytes + 1) : rows_place(r, wire->bytes);
    }
    if (wire->kind != TR_WIRE_DATA && wire->kind != TR_WIRE_DATA_MANY)
        return tr__must_bytes(wire->bytes);
    r = pull_of(s, wire);
    if (!r || !is_to_be_placed(r, number_of(wire)))
        return NULL;
    uint8_t *to = wire->kind == TR_WIRE_DATA ? arrival_of(client, s, wire->data.block, wire->data.offset, wire->bytes).to
                                             : tr__must_bytes(wire->bytes);
    if (to) {
        r->placed = number_of(wire) + 1;
        r->pending++;
    }
    return to;
}

static tr_status on_many(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, uint64_t *got)
{
    tr_wire_entries entries;
    uint32_t        local;
    const uint8_t  *data;
    uint64_t        bytes;

    TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->data_many.count));
    while (tr_wire_entries_next(&entries, &local, &data, &bytes)) {
        const arrival a = arrival_of(client, s, local, 0, bytes);
        if (!a.to)
            return tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled",
                           tr_roster_name(client->roster, s->rank));
        memcpy(a.to, data, bytes);
        take_arrival(&a);
        *got += bytes;
    }
    return TR_OK;
}

static void on_data(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, bool is_placed)
{
    uint64_t     got = wire->bytes;
    tr__request *r = pull_of(s, wire);

    if (!r)
        return;
    r->pending -= is_placed && r->pending;
    r->has_gap = number_of(wire) > r->parts || (r->has_gap && number_of(wire) < r->parts);
    if (r->parts != number_of(wire))
        return;                                    /* or the message is a repetition */
    r->parts++;
    if (wire->kind == TR_WIRE_DATA_MANY) {
        got = 0;
        const tr_status status = on_many(client, s, wire, payload, &got);
        if (status != TR_OK) {
            tr__client_fail(client, status);
            return;
        }
    } else {
        const arrival a = arrival_of(client, s, wire->data.block, wire->data.offset, wire->bytes);
        if (!a.to) {
            tr__client_fail(client, tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled",
                                            tr_roster_name(client->roster, s->rank)));
            return;
        }
        if (!is_placed)
            memcpy(a.to, payload, wire->bytes);
        take_arrival(&a);
    }
    r->left -= got < r->left ? got : r->left;
    if (r->left == 0)
        tr__client_finish(client, s, r);
}

static void on_rows(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, bool is_placed)
{
    tr__request *r = row_pull_of(s, wire);

    if (!r)
        return;                                        /* a second answer to a repeated request */
    if (r->pack) {
        r->pack->data = is_placed ? (void *)(uintptr_t)payload : tr__must_bytes(wire->bytes + 1);
        r->pack->bytes = wire->bytes;
    }
    if (!is_placed)
        memcpy(r->pack ? r->pack->data : rows_place(r, wire->bytes), payload, wire->bytes);
    if (!r->pack && r->wire.pull_rows.is_rounded)
        tr_rounded_widen(r->to, 2 * wire->bytes);
    if (r->clock && wire->data_rows.clock < *r->clock)
        *r->clock = wire->data_rows.clock;
    r->left = 0;
    tr__client_finish(client, s, r);
}

static void on_task(tr_client *client, tr__stream *s, const tr_wire *wire)
{
    for (tr__request *r = tr__client_open(s); r && r->wire.seq <= wire->seq; r = r->next) {
        if (r->wire.seq != wire->seq || r->is_done || !r->answer)
            continue;
        const tr_form_task *task = &wire->task;
        *r->answer = (tr_task){(tr_task_answer)task->answer, task->task, task->pass, task->lease, task->steps};
        if (task->answer == TR_TASK_GIVEN)
            client->last_lease = task->lease;
        tr__client_finish(client, s, r);
    }
}

static void on_refused(tr_client *client, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Refusal *refusal = trireme__pserver__refusal__unpack(NULL, bytes, payload);

    tr__client_fail(client, tr_fail(TR_EPEER, "%s", refusal ? refusal->text : "a server refused, and its reason is damaged"));
    if (refusal)
        trireme__pserver__refusal__free_unpacked(refusal, NULL);
}

void tr__client_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_client *client = self;
    tr__stream    *s = tr__client_stream_of(client, peer);

    client->now = now;
    if (s && wire->epoch == client->epoch) {
        if (wire->kind == TR_WIRE_SERVING)
            tr__client_on_serving(client, peer, payload, wire->bytes);
        else if (wire->kind == TR_WIRE_ACK) {
            tr__client_on_ack_of_snapshots(client, s, &wire->ack);
            s->awaits_replacement = wire->ack.declines;
            if (client->is_in_collective)
                tr_client_rest(client);
            on_ack(client, s, wire->seq);
        } else if (wire->kind == TR_WIRE_SNAPSHOT_DONE)
            tr__client_on_snapshot_done(client, s, wire, payload);
        else if (wire->kind == TR_WIRE_DATA || wire->kind == TR_WIRE_DATA_MANY)
            on_data(client, s, wire, payload, is_placed);
        else if (wire->kind == TR_WIRE_DATA_ROWS)
            on_rows(client, s, wire, payload, is_placed);
        else if (wire->kind == TR_WIRE_TASK)
            on_task(client, s, wire);
        else if (wire->kind == TR_WIRE_POSTED)
            tr__client_on_posted(client, s, wire, payload);
        else if (wire->kind == TR_WIRE_REFUSED || wire->kind == TR_WIRE_REPLACED)
            on_refused(client, payload, wire->bytes);
        tr__client_reap(client, s);
        if (client->has_tasks)
            tr__client_send_tasks(client);
    }
    if (is_placed && wire->kind != TR_WIRE_DATA && wire->kind != TR_WIRE_DATA_ROWS)    /* other placed payloads were malloc'ed by `place` */
        free(payload);
}
