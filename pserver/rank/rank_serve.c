/* rank_serve.c - see rank_serve.h. */
#include "pserver/rank/rank_serve.h"

#include "framework/base/memory.h"
#include "pserver/core/base/gathering.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_moving.h"
#include "pserver/rank/rank_options.h"
#include "pserver/rank/rank_pieces.h"
#include "pserver/rank/rank_restoring.h"
#include "pserver/rank/rank_saving.h"
#include "pserver/util/wake.h"

#include <stdio.h>

static tr_status apply(tr__rank *rank)
{
    tr_status status = tr__pieces_finish(rank->pieces);

    if (status == TR_OK)
        status = tr_server_program_run(rank->program, &rank->update);
    tr__command command = {.head = {TR__APPLIED, .is_urgent = true}, .applied = {.status = status}};
    if (status != TR_OK)
        command.applied.why = tr__must_strdup(tr_error());
    atomic_store(&rank->has_update, false);
    return tr__rank_post(rank, &command);
}

tr_status tr__rank_share(const uint8_t **all, tr__rank *rank, const void *own, uint32_t bytes)
{
    const tr__command command = {.head = {TR__SHARE, .is_urgent = true}, .share = {own, bytes}};
    const tr_roster  *roster = tr_comm_roster(rank->comm);

    if (rank->role == TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "job: servers share what they have in an update; this is %s", tr_roster_name(roster, roster->self));
    if (!rank->share)
        rank->share = tr__must_bytes((size_t)roster->servers * TR_GATHER_MAX);
    TR_TRY(tr__rank_post(rank, &command));
    *all = rank->share;
    return tr_comm_wait(NULL, rank->comm, ++rank->gatherings, tr__seconds(rank->options.wait_timeout));
}

/* Freeze or thaw the state if the core has asked for it. */
static tr_status serve_frozen(tr__rank *rank)
{
    if (atomic_exchange(&rank->wants_thaw, false))
        tr_server_program_thaw(rank->program);
    if (!atomic_exchange(&rank->wants_frozen, false))
        return TR_OK;
    const tr_status status = tr_server_program_freeze(rank->program);
    if (status != TR_OK)
        fprintf(stderr, "trireme-pserver: %s; server %d goes on without a replica\n", tr_error(), rank->server_index);
    return tr__rank_post(rank, &(tr__command){.head = {TR__FROZEN, .is_urgent = true}, .frozen = status});
}

tr_status tr__rank_serve(tr__rank *rank)
{
    for (;;) {
        const unsigned seen = atomic_load(&rank->bell);
        tr__pieces_serve(rank->pieces);
        if (atomic_load(&rank->has_update))
            TR_TRY(apply(rank));
        TR_TRY(serve_frozen(rank));
        TR_TRY(tr__saving_serve(rank->saving));
        TR_TRY(tr__restoring_serve(rank->restoring));
        TR_TRY(tr__moving_serve(rank->moving));
        TR_TRY(tr_comm_status(rank->comm));
        if (atomic_load(&rank->is_replacement) || atomic_load(&rank->is_done))
            return TR_OK;
        if (atomic_load(&rank->has_update) || atomic_load(&rank->wants_frozen) || tr__saving_is_due(rank->saving) ||
            tr__moving_is_due(rank->moving))
            continue;
        const int64_t from = tr__clock();
        tr__bell_wait(&rank->bell, seen, 50000000);
        tr_counter_add(&rank->idle, tr__clock() - from);
    }
}
