/* server_describe.c - see server_describe.h. */
#include "pserver/core/members/server_describe.h"

#include "pserver/core/members/server_decisions.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_rounds.h"
#include "pserver/core/updates/server_updates.h"

#include <stdio.h>

/* Is this trainer's part of what the server waits for missing? */
static bool is_awaited(const tr_server *server, const tr__trainer *t)
{
    if (!server->is_running)
        return !t->has_joined;
    return !tr_membership_is_over(t->state) && t->ended < tr__round_of(server, t)->step;
}

static void describe_trainers(const tr_server *server, char *out, size_t size)
{
    const char *before = " ";
    size_t      used;

    if (server->is_running)
        used = (size_t)snprintf(out, size, "the gradients of step %llu of", (unsigned long long)server->updates + 1);
    else
        used = (size_t)snprintf(out, size, "the setup by");
    for (int i = 0; i < server->trainer_count && used < size; i++)
        if (is_awaited(server, &server->trainer[i])) {
            used += (size_t)snprintf(out + used, size - used, "%strainer %d", before, i);
            before = ", ";
        }
}

void tr__describe(const tr_server *server, char *out, size_t size)
{
    char missing[256];

    if (tr_gather_missing(server->gather, missing, sizeof missing))
        snprintf(out, size, "the sums of update %llu of %s", (unsigned long long)server->updates + 1, missing);
    else if (tr__board_describe(server, out, size) || tr__decisions_describe(server, out, size))
        return;
    else if (tr__pulls_await_loans(server))
        tr__pulls_describe_readers(server, out, size);
    else if (tr__updates_queued(server))
        snprintf(out, size, "its optimizers in update %llu", (unsigned long long)server->updates + 1);
    else
        describe_trainers(server, out, size);
}

void tr__describe_failure(tr_server *server, int peer, const char *how)
{
    char waiting[512];

    tr__describe(server, waiting, sizeof waiting);
    tr__server_fail(server, tr_fail(TR_EPEER, "%s %s; %s was waiting for %s", tr_roster_name(server->roster, peer), how,
                                    tr_roster_name(server->roster, server->roster->self), waiting));
}
