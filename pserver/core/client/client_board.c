/* client_board.c - a trainer's posts on server 0's board, for other trainers.
 *
 * A trainer that waits for others' posts still takes part in snapshots, because the others may wait for a snapshot. A post that was not
 * answered is sent again to the successor of server 0. The successor has all posts that were answered. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"
#include "pserver/core/board/board.h"

static tr_status take_answer(tr_client_post *post, const tr_wire *wire, const uint8_t *payload)
{
    tr_wire_entries entries;
    uint32_t        trainer;
    const uint8_t  *data;
    uint64_t        bytes;

    TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->posted.count));
    for (tr_wire_entries each = entries; tr_wire_entries_next(&each, &trainer, &data, &bytes);)
        if (bytes < TR_BOARD_STEP)
            return tr_fail(TR_EFORMAT, "a post of trainer %u has no step", trainer);
    post->is_awaited = wire->posted.is_awaited;
    post->is_forgotten = wire->posted.is_forgotten;
    post->is_lost = wire->posted.is_lost;
    post->count = wire->posted.count;
    post->answer_size = wire->bytes;
    post->answer = tr__must_alloc(wire->bytes);
    if (wire->bytes)
        memcpy(post->answer, payload, wire->bytes);
    return TR_OK;
}

static void take(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    (void)is_direct;
    if (wire->kind != TR_WIRE_POSTED)
        return;
    const tr_status status = take_answer(r->post, wire, payload);
    if (status != TR_OK) {
        tr__client_fail(client, status);
        return;
    }
    client->board.is_waiting = false;
    tr__client_finish(client, s, r);
}

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    (void)wire;
    (void)server;
    snprintf(out, size, "the other trainers in a collective");
}

static const tr__ask of_post = {.is_question = true, .describe = describe, .take = take};

uint64_t tr_client_post_request(tr_client *client, tr_client_post *post)
{
    const uint64_t op = tr__client_op_begin(client);
    uint64_t       step;

    tr_client_flush(client);
    const bool    resumes = tr_client_resumes(client, &step);
    const tr_wire message = {.kind = TR_WIRE_POST, .post = {.step = client->step, .until = post->until, .trainer = post->of,
                                                           .has_joined = tr__client_is_set_up(client), .resumes = resumes}};
    tr__request  *r = tr__client_add(client, &client->stream[0], &of_post, &message, op, post->packed, post->size);
    r->owned = post->packed;
    r->post = post;
    client->board.is_waiting = post->until != TR_UNTIL_NOW;
    if (client->board.is_waiting) {
        tr_client_send_even(client);
        tr_client_rest(client);
    }
    tr__client_op_count_down(client, op);
    return op;
}

void tr__client_on_ack_of_posts(tr_client *client, const tr_form_ack *ack)
{
    client->board.stops = ack->stops > client->board.stops ? ack->stops : client->board.stops;
    if (client->board.is_waiting)
        tr_client_rest(client);
}

uint32_t tr_client_stops(const tr_client *client)
{
    return client->board.stops;
}
