/* client.c - one stream of requests for each server; operations that count their requests down. */
#include "pserver/client.h"

#include "pserver/outbox.h"
#include "proto/pserver.pb-c.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct request {
    struct request *next;
    tr_wire         wire;
    const uint8_t  *payload;
    uint8_t        *owned;            /* the payload, when it is the client's */
    bool            is_done;
    bool            is_again;         /* to be sent although it is done: another server has not got it */
    bool            is_flying;        /* counts in in_flight */
    int64_t         sent_at;
    uint32_t        parts;            /* pull: messages of the answer that are here or placed */
    uint64_t        left, size;       /* pull: bytes that are not here, and in all */
    uint8_t        *to;               /* pull of rows: where they go */
    tr_client_pack *pack;             /* read of rows: what they make */
    tr_task        *answer;           /* of a question for a task */
    uint64_t       *op;               /* operations it is part of */
    uint32_t        op_count;
    uint64_t        only_op;          /* the one, when op is NULL */
} request;

/* A small push or a pull that waits for company. */
typedef struct gathered {
    uint32_t    block;
    const void *data;
    uint64_t    op;
} gathered;

typedef struct list {
    gathered *item;
    uint32_t  count, capacity;
    uint64_t  bytes;                  /* of the payload it will make */
} list;

typedef struct stream {
    int       rank;
    uint64_t  last_seq;
    request  *first, **end;           /* all that are not done */
    request  *unsent;                 /* the first that was not sent, or is to be sent again */
    uint64_t  in_flight;              /* pushed bytes, sent and not done */
    list      pushes, pulls;
    double    weight;                 /* of the gathered pushes */
    bool      is_serving, has_state;  /* as the server has said */
    uint64_t  updates, settled;       /* in its state; of them, steps of this trainer */
    bool      is_orphan;              /* the server died, and its place is empty */
    int64_t   orphan_since;
    char     *how;                    /* it died, in words */
    int64_t   asked_at;               /* whether it serves */
    bool      asks;
    tr_client_answer answer;          /* to the last cut; no bytes: it has not come */
} stream;

typedef struct block {
    int      server;
    uint32_t local;                   /* number on its server */
    uint64_t bytes;
    uint8_t *pull_to;
} block;

struct tr_client {
    const tr_roster  *roster;
    tr_client_options options;
    uint32_t          epoch;
    tr_status         status;
    char             *text;
    int64_t           now;
    uint64_t          step;           /* ended */
    bool              survives_trainers;
    int               stream_count, turn;
    stream           *stream;
    uint32_t          block_count;
    block            *block;
    uint32_t        **global;         /* server, number there -> block */
    uint32_t         *local_count;
    uint64_t          op_first, op_count, op_capacity;     /* a ring of operations from op_first on */
    uint32_t         *op_left;        /* requests that are not done, and 1 while it is being made */
    request          *spare;
    uint32_t          cut, cut_wanted;             /* numbers of the last one that was made, and heard of */
    int64_t           cut_asked_at;
    uint8_t *(*pack_place)(void *self, size_t *size, uint64_t step);
    void             *pack_self;
};

static uint64_t op_begin(tr_client *client);

/* == life ===================================================================================== */

tr_client *tr_client_new(const tr_roster *roster, const tr_client_options *options)
{
    tr_client *client = calloc(1, sizeof *client);

    client->roster = roster;
    client->options = *options;
    client->epoch = roster->rank[roster->self].epoch;
    client->op_first = 1;
    client->op_capacity = 256;
    client->op_left = calloc(client->op_capacity, sizeof *client->op_left);
    op_begin(client);                              /* all servers serve */
    client->stream_count = roster->servers;
    client->stream = calloc((size_t)roster->servers, sizeof *client->stream);
    client->global = calloc((size_t)roster->servers, sizeof *client->global);
    client->local_count = calloc((size_t)roster->servers, sizeof *client->local_count);
    for (int i = 0; i < client->stream_count; i++) {
        client->stream[i].rank = roster->server_rank[i];
        client->stream[i].end = &client->stream[i].first;
    }
    return client;
}

static void free_requests(request *r)
{
    while (r) {
        request *next = r->next;
        free(r->owned);
        free(r->op);
        free(r);
        r = next;
    }
}

void tr_client_free(tr_client *client)
{
    if (!client)
        return;
    for (int i = 0; i < client->stream_count; i++) {
        free_requests(client->stream[i].first);
        free(client->stream[i].pushes.item);
        free(client->stream[i].pulls.item);
        free(client->stream[i].answer.bytes);
        free(client->global[i]);
    }
    for (int i = 0; i < client->stream_count; i++)
        free(client->stream[i].how);
    free_requests(client->spare);
    free(client->stream);
    free(client->global);
    free(client->local_count);
    free(client->block);
    free(client->op_left);
    free(client->text);
    free(client);
}

static void fail(tr_client *client, tr_status status)
{
    if (client->status == TR_OK) {
        client->status = status;
        client->text = strdup(tr_error());
    }
}

/* == operations =============================================================================== */

static uint32_t *op_at(tr_client *client, uint64_t op)
{
    return &client->op_left[op & (client->op_capacity - 1)];
}

static void grow_ops(tr_client *client)
{
    const uint64_t capacity = 2 * client->op_capacity;
    uint32_t      *left = calloc(capacity, sizeof *left);

    for (uint64_t op = client->op_first; op < client->op_first + client->op_count; op++)
        left[op & (capacity - 1)] = *op_at(client, op);
    free(client->op_left);
    client->op_left = left;
    client->op_capacity = capacity;
}

static uint64_t op_begin(tr_client *client)
{
    if (client->op_count == client->op_capacity)
        grow_ops(client);
    const uint64_t op = client->op_first + client->op_count++;
    *op_at(client, op) = 1;
    return op;
}

static void op_count_down(tr_client *client, uint64_t op)
{
    assert(*op_at(client, op) > 0);
    --*op_at(client, op);
    while (client->op_count && *op_at(client, client->op_first) == 0) {
        client->op_first++;
        client->op_count--;
    }
}

uint64_t tr_client_done(const tr_client *client)
{
    return client->op_first - 1;
}

uint64_t tr_client_step(const tr_client *client)
{
    return client->step;
}

/* == requests ================================================================================= */

static request *add_request(tr_client *client, stream *s, tr_wire_kind kind, uint64_t op, const void *payload,
                            uint64_t bytes)
{
    request *r = client->spare;

    if (r)
        client->spare = r->next;
    else
        r = malloc(sizeof *r);
    *r = (request){
        .payload = payload, .only_op = op,
        .wire = {.kind = kind, .epoch = client->epoch, .sender = (uint32_t)client->roster->self, .seq = ++s->last_seq,
                 .step = client->step, .bytes = bytes}};
    *s->end = r;
    s->end = &r->next;
    if (!s->unsent)
        s->unsent = r;
    if (op)
        ++*op_at(client, op);
    return r;
}

static bool is_push(const request *r)
{
    return r->wire.kind == TR_WIRE_PUSH || r->wire.kind == TR_WIRE_PUSH_MANY || r->wire.kind == TR_WIRE_PUSH_ROWS;
}

static bool is_pull(const request *r)
{
    return r->wire.kind == TR_WIRE_PULL || r->wire.kind == TR_WIRE_PULL_ROWS || r->wire.kind == TR_WIRE_READ_ROWS;
}

static void land(stream *s, request *r)
{
    if (r->is_flying)
        s->in_flight -= r->wire.bytes;
    r->is_flying = false;
}

/* Mark it done and tell its operations. It leaves its stream by `reap`. */
static void finish(tr_client *client, stream *s, request *r)
{
    land(s, r);
    if (r->is_done)
        return;
    r->is_done = true;
    if (r->wire.kind == TR_WIRE_STEP_END)
        s->settled = r->wire.step;
    if (r->op)
        for (uint32_t i = 0; i < r->op_count; i++)
            op_count_down(client, r->op[i]);
    else if (r->only_op)
        op_count_down(client, r->only_op);
}

/* Will nobody ask for it again? */
static bool is_over(const stream *s, const request *r)
{
    return r->is_done && (!is_push(r) || r->wire.step <= s->settled);
}

/* Take what is over off the head of the stream. */
static void reap(tr_client *client, stream *s)
{
    while (s->first && is_over(s, s->first) && s->first != s->unsent) {
        request *gone = s->first;
        s->first = gone->next;
        if (!s->first)
            s->end = &s->first;
        free(gone->owned);
        free(gone->op);
        gone->owned = NULL;
        gone->op = NULL;
        gone->next = client->spare;
        client->spare = gone;
    }
}

/* == gathering ================================================================================ */

static void gather(list *l, uint32_t index, const void *data, uint64_t op, uint64_t bytes)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 16;
        l->item = realloc(l->item, l->capacity * sizeof *l->item);
    }
    l->item[l->count++] = (gathered){index, data, op};
    l->bytes += bytes;
}

/* The operations of a list move to its request. */
static void take_ops(request *r, const list *l)
{
    r->op = malloc(l->count * sizeof *r->op);
    r->op_count = l->count;
    for (uint32_t i = 0; i < l->count; i++)
        r->op[i] = l->item[i].op;
}

static void flush_pushes(tr_client *client, stream *s)
{
    list    *l = &s->pushes;
    uint64_t cursor = (uint64_t)l->count * TR_WIRE_ENTRY;

    if (!l->count)
        return;
    uint8_t *payload = malloc(l->bytes);
    for (uint32_t i = 0; i < l->count; i++) {
        const block *b = &client->block[l->item[i].block];
        memcpy(tr_wire_entry_put(payload, i, &cursor, b->local, b->bytes), l->item[i].data, b->bytes);
    }
    request *r = add_request(client, s, TR_WIRE_PUSH_MANY, 0, payload, l->bytes);
    r->owned = payload;
    r->wire.step = client->step + 1;
    r->wire.block = l->count;
    r->wire.weight = s->weight;
    take_ops(r, l);
    l->count = 0;
    l->bytes = 0;
}

static void flush_pulls(tr_client *client, stream *s)
{
    list *l = &s->pulls;

    if (!l->count)
        return;
    uint8_t *payload = malloc(4 * (size_t)l->count);
    uint64_t left = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        const block *b = &client->block[l->item[i].block];
        tr_wire_put_u32(payload + 4 * i, b->local);
        left += b->bytes;
    }
    request *r = add_request(client, s, TR_WIRE_PULL, 0, payload, 4 * (uint64_t)l->count);
    r->owned = payload;
    r->left = r->size = left;
    take_ops(r, l);
    l->count = 0;
    l->bytes = 0;
}

static void flush_stream(tr_client *client, stream *s)
{
    flush_pushes(client, s);
    flush_pulls(client, s);
}

void tr_client_flush(tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        flush_stream(client, &client->stream[i]);
}

/* == calls ==================================================================================== */

static void index_blocks(tr_client *client, uint32_t count, const tr_client_block *blocks)
{
    client->block_count = count;
    client->block = calloc(count + 1, sizeof *client->block);
    for (uint32_t i = 0; i < count; i++) {
        const int s = blocks[i].server;
        client->block[i] = (block){s, client->local_count[s]++, blocks[i].bytes, NULL};
    }
    for (int s = 0; s < client->stream_count; s++)
        client->global[s] = calloc(client->local_count[s] + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < count; i++)
        client->global[client->block[i].server][client->block[i].local] = i;
}

/* The least of what the servers have: what one of them lacks is made again. */
bool tr_client_resumes(const tr_client *client, uint64_t *step)
{
    *step = UINT64_MAX;
    for (int i = 0; i < client->stream_count; i++) {
        const stream *s = &client->stream[i];
        if (!s->has_state)
            return false;
        *step = s->settled < *step ? s->settled : *step;
    }
    return client->stream_count > 0;
}

static uint64_t least_updates(const tr_client *client)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < client->stream_count; i++)
        least = client->stream[i].updates < least ? client->stream[i].updates : least;
    return least;
}

/* Rows come before values: with the last value the server's state is complete. */
static void add_values(tr_client *client, stream *s, const tr_client_setup *setup, uint64_t op)
{
    const uint64_t chunk = client->options.chunk_bytes;

    for (uint32_t i = 0; i < setup->row_count; i++) {
        request *r = add_request(client, s, TR_WIRE_WRITE_ROWS, op, setup->rows[i].data, setup->rows[i].bytes);
        r->wire.block = setup->rows[i].table;
        r->owned = setup->rows[i].data;
    }
    for (uint32_t v = 0; v < setup->value_count; v++) {
        const tr_client_value *value = &setup->values[v];
        for (uint64_t offset = 0; offset < value->bytes; offset += chunk) {
            const uint64_t left = value->bytes - offset;
            request       *r = add_request(client, s, TR_WIRE_VALUE, op, (const uint8_t *)value->data + offset,
                                           left < chunk ? left : chunk);
            r->wire.block = v;
            r->wire.offset = offset;
        }
    }
}

uint64_t tr_client_setup_all(tr_client *client, const tr_client_setup *setups, uint32_t block_count,
                             const tr_client_block *blocks)
{
    const uint64_t op = op_begin(client);

    uint64_t       step;
    const bool     resumes = tr_client_resumes(client, &step);

    assert(!client->block);
    index_blocks(client, block_count, blocks);
    client->step = resumes ? step : 0;
    for (int i = 0; i < client->stream_count; i++)
        client->stream[i].settled = client->step;
    for (int i = 0; i < client->stream_count; i++) {
        const tr_client_setup *setup = &setups[i];
        stream                *s = &client->stream[i];
        if (setup->setup) {
            request *r = add_request(client, s, TR_WIRE_SETUP, op, setup->setup, setup->setup_bytes);
            r->owned = setup->setup;
            r->wire.part = resumes;
            r->wire.step = resumes ? least_updates(client) : 0;
            if (!resumes)
                add_values(client, s, setup, op);
        }
        add_request(client, s, TR_WIRE_JOIN, op, setup->join, setup->join_bytes)->owned = setup->join;
    }
    op_count_down(client, op);
    return op;
}

void tr_client_survive_trainers(tr_client *client)
{
    client->survives_trainers = true;
}

uint64_t tr_client_push(tr_client *client, uint32_t index, const void *data, double weight)
{
    const block   *b = &client->block[index];
    stream        *s = &client->stream[b->server];
    const uint64_t op = op_begin(client);

    if (tr_wire_is_small(b->bytes, client->options.chunk_bytes)) {
        const uint64_t size = tr_wire_entry_size(b->bytes);
        if (s->pushes.count && (s->weight != weight || s->pushes.bytes + size > client->options.chunk_bytes))
            flush_pushes(client, s);
        s->weight = weight;
        gather(&s->pushes, index, data, op, size);
        return op;                                 /* its count of 1 is counted down by the request */
    }
    for (uint64_t offset = 0; offset < b->bytes; offset += client->options.chunk_bytes) {
        const uint64_t left = b->bytes - offset;
        const uint64_t bytes = left < client->options.chunk_bytes ? left : client->options.chunk_bytes;
        request       *r = add_request(client, s, TR_WIRE_PUSH, op, (const uint8_t *)data + offset, bytes);
        r->wire.step = client->step + 1;
        r->wire.block = b->local;
        r->wire.offset = offset;
        r->wire.weight = weight;
    }
    op_count_down(client, op);
    return op;
}

/* -- cuts -- */

/* Trainer 0, which begins all cuts. */
static bool is_first(const tr_client *client)
{
    return client->roster->rank[client->roster->self].index == 0;
}

static void ask_for_cut(tr_client *client, stream *s, uint8_t *payload, size_t size)
{
    request *r = add_request(client, s, TR_WIRE_CUT, 0, payload, size);

    r->owned = payload;
    r->wire.part = client->cut;
}

void tr_client_cut(tr_client *client, uint8_t *const *payloads, const size_t *sizes)
{
    tr_client_flush(client);
    client->cut++;
    client->cut_asked_at = client->now;
    for (int i = 0; i < client->stream_count; i++) {
        stream *s = &client->stream[i];
        free(s->answer.bytes);
        s->answer = (tr_client_answer){NULL, 0};
        ask_for_cut(client, s, payloads[i], sizes[i]);
    }
}

/* An answer may have been lost. It is written by now, or not yet: then there will be a next time, which is returned. */
static int64_t ask_again_for_answers(tr_client *client)
{
    const int64_t patience = 4 * client->options.retry;

    if (!client->cut || !is_first(client) || tr_client_cut_is_answered(client))
        return INT64_MAX;
    if (client->now - client->cut_asked_at < patience)
        return client->cut_asked_at + patience;
    client->cut_asked_at = client->now;
    for (int i = 0; i < client->stream_count; i++)
        if (!client->stream[i].answer.bytes)
            ask_for_cut(client, &client->stream[i], NULL, 0);
    return client->now + patience;
}

/* Others have begun to cut: this trainer's step is ended, so it cuts, too. */
static void follow_cut(tr_client *client)
{
    client->cut = client->cut_wanted;
    for (int i = 0; i < client->stream_count; i++) {
        size_t   size;
        uint8_t *payload = client->pack_place(client->pack_self, &size, client->step);
        ask_for_cut(client, &client->stream[i], payload, size);
    }
}

bool tr_client_cut_is_answered(const tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        if (!client->stream[i].answer.bytes)
            return false;
    return client->cut > 0;
}

const tr_client_answer *tr_client_cut_answer(const tr_client *client, int server)
{
    return &client->stream[server].answer;
}

void tr_client_set_place(tr_client *client, uint8_t *(*pack)(void *self, size_t *size, uint64_t step), void *self)
{
    client->pack_place = pack;
    client->pack_self = self;
}

uint64_t tr_client_step_end(tr_client *client)
{
    const uint64_t op = op_begin(client);

    tr_client_flush(client);
    client->step++;
    for (int i = 0; i < client->stream_count; i++)
        add_request(client, &client->stream[i], TR_WIRE_STEP_END, op, NULL, 0);
    if (client->cut_wanted > client->cut && client->pack_place && !is_first(client))
        follow_cut(client);
    op_count_down(client, op);
    return op;
}

uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data)
{
    const uint64_t op = op_begin(client);

    for (uint32_t i = 0; i < count; i++) {
        block *b = &client->block[blocks[i]];
        b->pull_to = data[i];
        ++*op_at(client, op);
        gather(&client->stream[b->server].pulls, (uint32_t)blocks[i], NULL, op, 4);
    }
    op_count_down(client, op);
    return op;
}

uint64_t tr_client_goodbye(tr_client *client)
{
    const uint64_t op = op_begin(client);

    tr_client_flush(client);
    for (int i = 0; i < client->stream_count; i++)
        add_request(client, &client->stream[i], TR_WIRE_GOODBYE, op, NULL, 0);
    op_count_down(client, op);
    return op;
}

/* -- rows of sparse tables ------------------------------------------------------------------------- */

uint64_t tr_client_rows_in_piece(const tr_client *client, uint64_t bytes)
{
    return bytes < client->options.chunk_bytes ? client->options.chunk_bytes / bytes : 1;
}

uint64_t tr_client_pull_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = op_begin(client), most = tr_client_rows_in_piece(client, rows->row_bytes);

    for (int i = 0; i < client->stream_count; i++)
        for (uint64_t at = rows->first[i]; at < rows->first[i + 1]; at += most) {
            const uint64_t left = rows->first[i + 1] - at, n = left < most ? left : most;
            request *r = add_request(client, &client->stream[i], TR_WIRE_PULL_ROWS, op, rows->keys + at, n * sizeof(int64_t));
            r->wire.block = rows->table;
            r->to = rows->to + at * rows->row_bytes;
            r->left = r->size = n * rows->row_bytes;
        }
    op_count_down(client, op);
    return op;
}

uint64_t tr_client_read_rows(tr_client *client, int server, uint32_t shard, tr_client_pack *out)
{
    const uint64_t op = op_begin(client);
    request       *r = add_request(client, &client->stream[server], TR_WIRE_READ_ROWS, op, NULL, 0);

    r->wire.block = out->table;
    r->wire.part = shard;
    r->pack = out;
    op_count_down(client, op);
    return op;
}

uint64_t tr_client_push_rows(tr_client *client, const tr_client_rows *rows)
{
    const uint64_t op = op_begin(client), most = tr_client_rows_in_piece(client, rows->push_bytes);

    for (int i = 0; i < client->stream_count; i++) {
        const uint64_t count = rows->first[i + 1] - rows->first[i], pieces = count ? (count + most - 1) / most : 1;
        for (uint64_t piece = 0; piece < pieces; piece++) {
            const uint64_t at = piece * most, n = count - at < most ? count - at : most;
            request *r = add_request(client, &client->stream[i], TR_WIRE_PUSH_ROWS, op,
                                     rows->pieces + (rows->first[i] + at) * rows->push_bytes, n * rows->push_bytes);
            r->wire.step = client->step + 1;
            r->wire.block = rows->table;
            r->wire.part = (uint32_t)piece;
            r->wire.offset = pieces;
            r->wire.weight = rows->weight;
        }
    }
    op_count_down(client, op);
    return op;
}

uint64_t tr_client_task_request(tr_client *client, const tr_client_task *task)
{
    const uint64_t op = op_begin(client);
    request       *r = add_request(client, &client->stream[0], task->wire.kind, op, NULL, 0);

    r->wire.block = task->wire.block;
    r->wire.part = task->wire.part;
    r->wire.offset = task->wire.offset;
    r->wire.weight = task->wire.weight;
    r->answer = task->answer;
    op_count_down(client, op);
    return op;
}

void tr_client_abort(tr_client *client, const char *text)
{
    fail(client, tr_fail(TR_EPEER, "%s", text));
}

/* == answers ================================================================================== */

static stream *stream_of(tr_client *client, int peer)
{
    const tr_rank *rank = &client->roster->rank[peer];
    return rank->role == TR_ROLE_SERVER ? &client->stream[rank->index] : NULL;
}

static void on_ack(tr_client *client, stream *s, uint64_t seq)
{
    for (request *r = s->first; r && r->wire.seq <= seq; r = r->next)
        if (!is_pull(r) && !r->answer && r->sent_at)
            finish(client, s, r);
}

/* The pull that this message answers, if the message is the next of its answer. */
static request *pull_of(stream *s, const tr_wire *wire)
{
    for (request *r = s->first; r && r->wire.seq <= wire->seq; r = r->next)
        if (r->wire.seq == wire->seq)
            return r->wire.kind == TR_WIRE_PULL && !r->is_done && r->parts == wire->part ? r : NULL;
    return NULL;
}

/* The pull of rows that this message answers; one that is placed is not placed again. */
static request *row_pull_of(stream *s, const tr_wire *wire)
{
    for (request *r = s->first; r && r->wire.seq <= wire->seq; r = r->next)
        if (r->wire.seq == wire->seq)
            return !r->is_done && (r->pack || (r->to && r->left == wire->bytes)) ? r : NULL;
    return NULL;
}

static uint8_t *pull_place(tr_client *client, const stream *s, uint32_t local, uint64_t offset, uint64_t bytes)
{
    const int server = (int)(s - client->stream);

    if (local >= client->local_count[server])
        return NULL;
    const block *b = &client->block[client->global[server][local]];
    return b->pull_to && offset <= b->bytes && bytes <= b->bytes - offset ? b->pull_to + offset : NULL;
}

static void *place(void *self, int peer, const tr_wire *wire)
{
    tr_client *client = self;
    stream    *s = stream_of(client, peer);
    request   *r;

    if (!s || wire->epoch != client->epoch)
        return NULL;
    if (wire->kind == TR_WIRE_DATA_ROWS) {
        r = row_pull_of(s, wire);
        if (!r || r->parts++)
            return NULL;
        return r->pack ? malloc(wire->bytes + 1) : r->to;
    }
    if (wire->kind != TR_WIRE_DATA && wire->kind != TR_WIRE_DATA_MANY)
        return malloc(wire->bytes);
    r = pull_of(s, wire);
    if (!r)
        return NULL;
    uint8_t *to = wire->kind == TR_WIRE_DATA ? pull_place(client, s, wire->block, wire->offset, wire->bytes)
                                             : malloc(wire->bytes);
    if (to)
        r->parts++;
    return to;
}

static tr_status on_many(tr_client *client, stream *s, const tr_wire *wire, const uint8_t *payload, uint64_t *got)
{
    tr_wire_entries entries;
    uint32_t        local;
    const uint8_t  *data;
    uint64_t        bytes;

    TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->block));
    while (tr_wire_entries_next(&entries, &local, &data, &bytes)) {
        uint8_t *to = pull_place(client, s, local, 0, bytes);
        if (!to)
            return tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled", tr_roster_name(client->roster, s->rank));
        memcpy(to, data, bytes);
        *got += bytes;
    }
    return TR_OK;
}

static void on_data(tr_client *client, stream *s, const tr_wire *wire, const uint8_t *payload, bool is_placed)
{
    uint64_t got = wire->bytes;
    request *r = s->first;

    while (r && r->wire.seq != wire->seq)
        r = r->next;
    if (!r || r->is_done || r->wire.kind != TR_WIRE_PULL || (!is_placed && r->parts != wire->part))
        return;
    r->parts += !is_placed;                        /* a placed one was counted when it was placed */
    if (wire->kind == TR_WIRE_DATA_MANY) {
        got = 0;
        const tr_status status = on_many(client, s, wire, payload, &got);
        if (status != TR_OK) {
            fail(client, status);
            return;
        }
    } else if (!is_placed) {
        uint8_t *to = pull_place(client, s, wire->block, wire->offset, wire->bytes);
        if (!to) {
            fail(client, tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled",
                                 tr_roster_name(client->roster, s->rank)));
            return;
        }
        memcpy(to, payload, wire->bytes);
    }
    r->left -= got < r->left ? got : r->left;
    if (r->left == 0)
        finish(client, s, r);
}

static void on_rows(tr_client *client, stream *s, const tr_wire *wire, const uint8_t *payload, bool is_placed)
{
    request *r = row_pull_of(s, wire);

    if (!r)
        return;                                        /* answered twice */
    if (r->pack) {
        r->pack->data = is_placed ? (void *)(uintptr_t)payload : malloc(wire->bytes + 1);
        r->pack->bytes = wire->bytes;
    }
    if (!is_placed)
        memcpy(r->pack ? r->pack->data : r->to, payload, wire->bytes);
    r->left = 0;
    finish(client, s, r);
}

static void on_task(tr_client *client, stream *s, const tr_wire *wire)
{
    for (request *r = s->first; r && r->wire.seq <= wire->seq; r = r->next) {
        if (r->wire.seq != wire->seq || r->is_done || !r->answer)
            continue;
        if (wire->part >= TR_TASK_ANSWER_COUNT) {
            fail(client, tr_fail(TR_EFORMAT, "%s answers a question for a task by %u", tr_roster_name(client->roster, s->rank),
                                 wire->part));
            return;
        }
        *r->answer = (tr_task){(tr_task_answer)wire->part, wire->block, (uint32_t)wire->step, wire->offset};
        finish(client, s, r);
    }
}

static void on_cut_done(tr_client *client, stream *s, const tr_wire *wire, const uint8_t *payload)
{
    if (!is_first(client) || wire->part != client->cut || s->answer.bytes)
        return;
    s->answer.size = wire->bytes;
    s->answer.bytes = malloc(wire->bytes + 1);
    memcpy(s->answer.bytes, payload, wire->bytes);
}

static void on_refused(tr_client *client, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Refusal *refusal = trireme__pserver__refusal__unpack(NULL, bytes, payload);

    fail(client, tr_fail(TR_EPEER, "%s", refusal ? refusal->text : "a server refused, and its reason is damaged"));
    if (refusal)
        trireme__pserver__refusal__free_unpacked(refusal, NULL);
}

static void hear_serving(tr_client *client, stream *s, const Trireme__Pserver__Serving *serving)
{
    const int self = client->roster->rank[client->roster->self].index;
    bool      is_all = true;

    s->is_serving = true;
    s->has_state = serving->has_updates;
    s->updates = serving->updates;
    s->settled = (size_t)self < serving->n_settled ? serving->settled[self] : 0;
    for (int i = 0; i < client->stream_count; i++)
        is_all &= client->stream[i].is_serving;
    if (is_all)
        op_count_down(client, 1);
}

/* What the new server does not have is to be sent to it, under numbers from 1 on. */
static void send_again(tr_client *client, stream *s, uint64_t settled)
{
    s->last_seq = 0;
    s->in_flight = 0;
    for (request *r = s->first; r; r = r->next) {
        const bool is_settled = (is_push(r) || r->wire.kind == TR_WIRE_STEP_END) && r->wire.step <= settled;
        const bool is_missed = r->wire.kind == TR_WIRE_CUT && r->wire.step < settled;
        r->is_flying = false;
        if (is_settled || is_missed)
            finish(client, s, r);
        r->is_again = is_push(r) && !is_settled;
        r->sent_at = 0;
        r->parts = 0;
        r->left = r->size;
        if (!r->is_done || r->is_again)
            r->wire.seq = ++s->last_seq;
        else
            r->wire.seq = s->last_seq;             /* it takes no part any more */
    }
    s->unsent = s->first;
}

static bool is_cutting(const stream *s)
{
    for (const request *r = s->first; r; r = r->next)
        if (r->wire.kind == TR_WIRE_CUT && !r->is_done)
            return true;
    return false;
}

/* The state behind the cut went with the server. */
static void give_up_answer(stream *s)
{
    Trireme__Pserver__CutDone done = TRIREME__PSERVER__CUT_DONE__INIT;

    done.error = (char *)"it died before its part was written";
    s->answer.size = trireme__pserver__cut_done__get_packed_size(&done);
    s->answer.bytes = malloc(s->answer.size + 1);
    trireme__pserver__cut_done__pack(&done, s->answer.bytes);
}

/* Another rank serves in the place of one that died, known to be dead or not yet. */
static void move_stream(tr_client *client, stream *s, int peer, const Trireme__Pserver__Serving *serving)
{
    const int self = client->roster->rank[client->roster->self].index;

    if (!serving->has_updates || (size_t)self >= serving->n_settled) {
        fail(client, tr_fail(TR_EPEER, "%s serves in the place of a server that died, without what that had",
                             tr_roster_name(client->roster, peer)));
        return;
    }
    s->rank = peer;
    s->is_orphan = false;
    send_again(client, s, serving->settled[self]);
    if (is_first(client) && !s->answer.bytes && !is_cutting(s))
        give_up_answer(s);
}

static void on_serving(tr_client *client, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, bytes, payload);

    if (!serving || serving->server >= (uint32_t)client->stream_count) {
        fail(client, tr_fail(TR_EFORMAT, "%s says in a damaged message that it serves", tr_roster_name(client->roster, peer)));
    } else {
        stream *s = &client->stream[serving->server];
        if (s->rank != peer)
            move_stream(client, s, peer, serving);
        else if (!s->is_serving)
            hear_serving(client, s, serving);
    }
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_client *client = self;
    stream    *s = stream_of(client, peer);

    client->now = now;
    if (s && wire->epoch == client->epoch) {
        if (wire->kind == TR_WIRE_SERVING)
            on_serving(client, peer, payload, wire->bytes);
        else if (wire->kind == TR_WIRE_ACK) {
            client->cut_wanted = wire->part > client->cut_wanted ? wire->part : client->cut_wanted;
            on_ack(client, s, wire->seq);
        } else if (wire->kind == TR_WIRE_CUT_DONE)
            on_cut_done(client, s, wire, payload);
        else if (wire->kind == TR_WIRE_DATA || wire->kind == TR_WIRE_DATA_MANY)
            on_data(client, s, wire, payload, is_placed);
        else if (wire->kind == TR_WIRE_DATA_ROWS)
            on_rows(client, s, wire, payload, is_placed);
        else if (wire->kind == TR_WIRE_TASK)
            on_task(client, s, wire);
        else if (wire->kind == TR_WIRE_REFUSED)
            on_refused(client, payload, wire->bytes);
        reap(client, s);
    }
    if (is_placed && wire->kind != TR_WIRE_DATA && wire->kind != TR_WIRE_DATA_ROWS)    /* placed where they belong */
        free(payload);
}

/* == sending ================================================================================== */

static bool next_of(tr_client *client, stream *s, tr_message *out)
{
    if (s->asks && !s->is_serving) {
        s->asks = false;
        *out = (tr_message){.peer = s->rank, .wire = {.kind = TR_WIRE_SERVING, .epoch = client->epoch,
                                                      .sender = (uint32_t)client->roster->self}};
        return true;
    }
    while (s->unsent && s->unsent->is_done && !s->unsent->is_again)
        s->unsent = s->unsent->next;
    request *r = s->unsent;
    if (!r || s->is_orphan)
        return false;
    if (is_push(r) && s->in_flight && s->in_flight + r->wire.bytes > client->options.window_bytes)
        return false;
    if (is_push(r)) {
        s->in_flight += r->wire.bytes;
        r->is_flying = true;
    }
    s->unsent = r->next;
    r->is_again = false;
    r->sent_at = client->now ? client->now : 1;
    *out = (tr_message){.peer = s->rank, .wire = r->wire, .payload = r->payload};
    return true;
}

static bool next(void *self, tr_message *out)
{
    tr_client *client = self;

    if (client->status != TR_OK)
        return false;
    for (int i = 0; i < client->stream_count; i++) {
        const int at = (client->turn + i) % client->stream_count;
        if (next_of(client, &client->stream[at], out)) {
            client->turn = (at + 1) % client->stream_count;
            return true;
        }
    }
    return false;
}

/* Send again all that is not done. */
static void rewind_stream(stream *s)
{
    s->unsent = s->first;
    s->in_flight = 0;
    for (request *r = s->first; r; r = r->next)
        r->is_flying = false;
}

static void fail_orphan(tr_client *client, const stream *s, const char *why)
{
    fail(client, tr_fail(TR_EPEER, "%s %s, and %s", tr_roster_name(client->roster, s->rank), s->how, why));
}

static void watch_orphans(tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++) {
        const stream *s = &client->stream[i];
        if (!s->is_orphan)
            continue;
        if (tr_roster_spare_for(client->roster, s->rank) < 0)
            fail_orphan(client, s, "so did the spare that was to take its place");
        else if (client->now - s->orphan_since > client->options.patience)
            fail_orphan(client, s, "no spare took its place in time");
    }
}

static int64_t tick(void *self, int64_t now)
{
    tr_client *client = self;
    int64_t    at = INT64_MAX;

    client->now = now;
    watch_orphans(client);
    if (!client->options.retry)
        return at;
    at = ask_again_for_answers(client);
    for (int i = 0; i < client->stream_count; i++) {
        stream  *s = &client->stream[i];
        if (!s->is_serving) {                      /* what it said was lost */
            if (now - s->asked_at >= client->options.retry) {
                s->asks = s->asked_at != 0;
                s->asked_at = now ? now : 1;
            }
            at = s->asked_at + client->options.retry < at ? s->asked_at + client->options.retry : at;
        }
        request *r = s->first;
        while (r && r->is_done)
            r = r->next;
        if (!r || !r->sent_at || r == s->unsent)
            continue;
        if (now - r->sent_at >= client->options.retry)
            rewind_stream(s);
        else if (r->sent_at + client->options.retry < at)
            at = r->sent_at + client->options.retry;
    }
    return at;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_client *client = self;
    *text = client->text;
    return client->status;
}

/* The oldest thing that is not done says it best. */
static void describe(const void *self, char *out, size_t size)
{
    const tr_client *client = self;

    out[0] = '\0';
    for (int i = 0; i < client->stream_count; i++) {
        const request *r = client->stream[i].first;
        while (r && r->is_done)
            r = r->next;
        if (!r)
            continue;
        const unsigned long long step = (unsigned long long)r->wire.step;
        switch (r->wire.kind) {
        case TR_WIRE_PULL:
            snprintf(out, size, "its parameters of step %llu from server %d", step, i);
            return;
        case TR_WIRE_PULL_ROWS:
        case TR_WIRE_READ_ROWS:
            snprintf(out, size, "rows of table %u as of step %llu from server %d", r->wire.block, step, i);
            return;
        case TR_WIRE_PUSH:
        case TR_WIRE_PUSH_MANY:
        case TR_WIRE_PUSH_ROWS:
        case TR_WIRE_STEP_END:
            snprintf(out, size, "server %d to take its gradients of step %llu", i, step);
            return;
        case TR_WIRE_CUT:
            snprintf(out, size, "server %d to cut behind step %llu", i, step);
            return;
        case TR_WIRE_GOODBYE:
            snprintf(out, size, "server %d to let it go after step %llu", i, step);
            return;
        case TR_WIRE_TASKS:
        case TR_WIRE_TASK_ASK:
        case TR_WIRE_TASK_END:
            snprintf(out, size, "a task from server %d", i);
            return;
        default:
            snprintf(out, size, "the setup by server %d", i);
            return;
        }
    }
}

static void lost(void *self, int peer, const char *how)
{
    tr_client *client = self;
    char       waiting[256];

    stream    *s = stream_of(client, peer);

    if (client->status != TR_OK || (client->survives_trainers && !s) ||
        client->roster->rank[peer].role == TR_ROLE_SPARE)
        return;
    if (s && client->block && tr_roster_spare_for(client->roster, peer) >= 0) {
        s->is_orphan = true;
        s->orphan_since = client->now;
        free(s->how);
        s->how = strdup(how);
        return;
    }
    const char *self_name = tr_roster_name(client->roster, client->roster->self);
    describe(client, waiting, sizeof waiting);
    if (waiting[0])
        tr_fail(TR_EPEER, "%s %s; %s was waiting for %s", tr_roster_name(client->roster, peer), how, self_name, waiting);
    else
        tr_fail(TR_EPEER, "%s %s; %s had ended step %llu", tr_roster_name(client->roster, peer), how, self_name,
                (unsigned long long)client->step);
    fail(client, TR_EPEER);
}

tr_node tr_client_node(tr_client *client)
{
    return (tr_node){client, place, receive, lost, tick, next, status_of, describe};
}
