/* client_restore.c - a trainer asks all servers to read their parts of a checkpoint that the job may go on from (RESTORE). */
#include "framework/base/memory.h"
#include "pserver/core/client/client_requests.h"

static void take(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    (void)is_direct;
    if (wire->kind != TR_WIRE_RESTORED)
        return;
    r->restored->status = (tr_status)wire->restored.status;
    if (r->restored->status != TR_OK)
        r->restored->text = tr__must_format("%.*s", (int)wire->bytes, (const char *)payload);
    tr__client_finish(client, s, r);
}

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    (void)wire;
    snprintf(out, size, "server %d to read its part of the checkpoint", server);
}

static const tr__ask of_restore = {.is_question = true, .describe = describe, .take = take};

uint64_t tr_client_restore(tr_client *client, const char *path, uint64_t number, tr_client_restored *restored)
{
    const uint64_t op = tr__client_op_begin(client);
    const tr_wire  message = {.kind = TR_WIRE_RESTORE, .restore = {.number = number}};

    for (int i = 0; i < client->stream_count; i++)
        tr__client_add(client, &client->stream[i], &of_restore, &message, op, path, strlen(path))->restored = &restored[i];
    tr__client_op_count_down(client, op);
    return op;
}
