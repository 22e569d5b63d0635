/* server_waits.c - see server_waits.h. */
#include "pserver/core/members/server_waits.h"

#include "framework/base/memory.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/updates/server_contributions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Do trainers wait for each other's steps in this mode? Where server 0 decides about updates, it leaves out a trainer that waits for
 * posts. */
static bool steps_are_awaited(const tr_policy *policy)
{
    return policy->lead >= 0 || (policy->is_lockstep && !policy->gathers_per_trainer);
}

/* The last step that `other` has ended, or, where all make it together, begun: its end may stay behind gradients whose turn does not
 * come. */
static uint64_t last_step_of(const tr_server *server, const tr__trainer *other)
{
    return other->ended + (server->policy.is_lockstep && tr__contributions_begun(server, other) > 0);
}

/* Does `other` wait for the JOIN or for a step of `trainer`, which waits for a post? */
static bool awaits_step_of(const tr_server *server, const tr__trainer *other, const tr__trainer *trainer)
{
    if (tr__board_is_before_join(server, trainer))
        return other->has_joined || server->is_running;
    return server->is_running && steps_are_awaited(&server->policy) && tr__board_is_before(server, trainer, last_step_of(server, other));
}

static bool is_awaited(const tr_server *server, const tr__trainer *trainer)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *other = &server->trainer[i];
        if (tr__board_awaits_post_of(server, trainer, other) && awaits_step_of(server, other, trainer))
            return true;
    }
    return false;
}

/* Follow the trainers that wait for posts from `at`, depth first. Returns whether `to` is reached; then `path` lists the way. */
static bool reaches(const tr_server *server, int at, int to, bool *seen, int *path, int *length)
{
    path[(*length)++] = at;
    for (int next = 0; next < server->trainer_count; next++) {
        if (!tr__board_awaits_post_of(server, &server->trainer[at], &server->trainer[next]))
            continue;
        if (next == to)
            return true;
        if (!seen[next]) {
            seen[next] = true;
            if (reaches(server, next, to, seen, path, length))
                return true;
        }
    }
    --*length;
    return false;
}

static tr_status fail_ring(const tr_server *server, const int *path, int length)
{
    char   text[4096];
    size_t used = 0;

    for (int i = 0; i < length && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%strainer %d waits in %s for trainer %d", i ? ", " : "", path[i],
                                 tr__board_call(server, &server->trainer[path[i]]), path[(i + 1) % length]);
    return tr_fail(TR_EPEER, "%s: none of them can go on. All trainers are to make the same calls in the same order", text);
}

static void look_for_ring(tr_server *server)
{
    const size_t count = (size_t)server->trainer_count;
    bool        *seen = tr__must_array(count, sizeof *seen);
    int         *path = tr__must_array(count, sizeof *path), length = 0;

    for (int i = 0; server->status == TR_OK && i < server->trainer_count; i++) {
        memset(seen, 0, count * sizeof *seen);
        if (reaches(server, i, i, seen, path, &length))
            tr__server_fail(server, fail_ring(server, path, length));
    }
    free(seen);
    free(path);
}

void tr__waits_resolve(tr_server *server)
{
    int waiting = 0;

    for (int i = 0; server->status == TR_OK && i < server->trainer_count; i++) {
        const tr__trainer *trainer = &server->trainer[i];
        if (is_awaited(server, trainer))
            tr__board_put_off(server, trainer);
        else
            waiting += tr__board_awaits_posts(server, trainer);
    }
    if (server->status == TR_OK && waiting > 1)
        look_for_ring(server);
}
