/* outbox.c - a ring that doubles when it is full. */
#include "pserver/core/base/outbox.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void grow(tr_outbox *outbox)
{
    const size_t capacity = outbox->capacity ? 2 * outbox->capacity : 64;
    tr_message  *item = tr__must_bytes(capacity * sizeof *item);

    for (size_t i = 0; i < outbox->count; i++)
        item[i] = outbox->item[(outbox->first + i) & (outbox->capacity - 1)];
    free(outbox->item);
    *outbox = (tr_outbox){item, 0, outbox->count, capacity};
}

void tr_outbox_put(tr_outbox *outbox, const tr_message *message)
{
    if (outbox->count == outbox->capacity)
        grow(outbox);
    outbox->item[(outbox->first + outbox->count++) & (outbox->capacity - 1)] = *message;
}

bool tr_outbox_take(tr_outbox *outbox, tr_message *out)
{
    if (!outbox->count)
        return false;
    *out = outbox->item[outbox->first];
    outbox->count--;
    outbox->first = outbox->count ? (outbox->first + 1) & (outbox->capacity - 1) : 0;         /* an empty ring begins where the cache has
                                                                                               * it */
    return true;
}

void tr_outbox_deinit(tr_outbox *outbox)
{
    tr_message message;

    while (tr_outbox_take(outbox, &message))
        tr_message_over(&message);
    free(outbox->item);
}

static void copy_payload(tr_message *message)
{
    message->owned = memcpy(tr__must_bytes(message->wire.bytes + 1), message->payload, message->wire.bytes);
    message->payload = message->owned;
    message->loan->readers--;
    message->loan = NULL;
}

void tr_outbox_give_back(tr_outbox *outbox)
{
    for (size_t i = 0; i < outbox->count; i++) {
        tr_message *message = &outbox->item[(outbox->first + i) & (outbox->capacity - 1)];
        if (message->loan && message->loan->is_wanted)
            copy_payload(message);
    }
}

void tr_message_over(const tr_message *message)
{
    free(message->owned);
    if (message->loan)
        message->loan->readers--;
}
