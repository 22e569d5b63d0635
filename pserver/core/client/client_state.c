/* client_state.c - the base of a trainer's core: questions about its state that all of its files share, and its failure. */
#include "pserver/core/client/client_state.h"

#include "framework/base/memory.h"

void tr__client_fail(tr_client *client, tr_status status)
{
    if (client->status == TR_OK) {
        client->status = status;
        client->text = tr__must_strdup(tr_error());
    }
}

tr__stream *tr__client_stream_of(tr_client *client, int peer)
{
    const tr_rank *rank = &client->roster->rank[peer];
    return rank->role == TR_ROLE_SERVER ? &client->stream[rank->index] : NULL;
}

bool tr__client_is_set_up(const tr_client *client)
{
    return client->block != NULL;
}

bool tr__client_is_replacement(const tr_client *client)
{
    return client->introduced >= 0;
}

bool tr__client_is_uneven(const tr_client *client)
{
    return tr__client_is_replacement(client) && client->step == client->first_step && !client->is_evened;
}

uint64_t tr__client_everywhere(const tr_client *client)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < client->stream_count; i++)
        least = client->stream[i].settled < least ? client->stream[i].settled : least;
    return least < client->step ? least : client->step;
}
