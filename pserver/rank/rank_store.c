/* rank_store.c - the store of a server's or a replica's core (tr_store): the program from the setup, its memory that outlives the
 * process, and the thread that runs it. */
#include "pserver/rank/rank_store.h"

#include "pserver/observe/launcher.h"
#include "pserver/rank/rank_driver.h"
#include "pserver/rank/rank_options.h"
#include "pserver/rank/rank_saving.h"
#include "pserver/store/frozen.h"
#include "pserver/util/wake.h"
#include "storage/memory/segment.h"

#include <stdio.h>
#include <stdlib.h>

bool tr__rank_state_name(char *out, size_t size, const tr__rank *rank)
{
    const char *prefix = getenv("TRIREME_STATE");

    return prefix && *prefix && tr_state_name(out, size, prefix, rank->server_index);
}

/* Find the state of an earlier process. A damaged state counts as none: then the job begins anew, or from its checkpoint. */
static bool store_last_commit(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    tr__driver *d = self;
    char    name[TR_SEGMENT_NAME];

    if (!d->left_state && !tr__rank_state_name(name, sizeof name, d->rank))
        return false;
    const tr_status status = d->left_state ? TR_OK : tr_state_attach(&d->left_state, name);
    if (status == TR_EFORMAT)
        fprintf(stderr, "trireme-pserver: %s; it is not used\n", tr_error());
    if (status != TR_OK)
        return false;
    const int64_t generation = tr_state_generation(d->left_state);
    const bool    is_old = d->rank->role == TR_ROLE_SERVER && generation < d->newest;     /* another host has a newer state */
    if (!generation || is_old || tr_state_trainers(d->left_state) != d->rank->trainer_count) {
        tr_state_free(d->left_state, false);           /* the state was never complete, or belongs to another job */
        d->left_state = NULL;
        return false;
    }
    *commit = tr_state_committed(d->left_state);
    *packed = tr_state_setup(d->left_state, bytes);
    return true;
}

/* The first state generation of this start of the job. It is higher than all generations of earlier starts. */
static uint32_t first_generation(void)
{
    return tr__rank_epoch_of_start() << 16;
}

static tr_status setup_program(tr__driver *d, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed,
                               uint64_t bytes, bool resume)
{
    tr_state   *state = d->left_state;
    char        text[TR_SEGMENT_NAME];
    const char *name = tr__rank_state_name(text, sizeof text, d->rank) ? text : NULL;

    d->left_state = NULL;
    if (!resume) {
        tr_state_free(state, true);
        TR_TRY(tr_state_create(&state, name, packed, bytes, d->rank->trainer_count));
    }
    if (!d->replica && tr_state_generation(state) < first_generation())
        tr_state_set_generation(state, first_generation());
    if (d->rank->role == TR_ROLE_SERVER)
        tr_state_set_replica_rank(state, -1);            /* after a restart ranks have other numbers */
    return tr_server_program_setup(d->rank->program, setup, policy, state, name, resume);
}

/* A replica may get the whole state a second time: forget the first. */
static void forget_program(tr__driver *d)
{
    tr_server_program_over(d->rank->program);
    tr_server_program_free(d->rank->program);
    d->rank->program = tr_server_program_new(d->rank->job);
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                             bool resume)
{
    tr__driver *d = self;

    if (d->replica && !resume)
        forget_program(d);
    const tr_status status = setup_program(d, setup, policy, packed, bytes, resume);
    if (status != TR_OK && d->replica && d->standby) {
        fprintf(stderr, "trireme-pserver: %s; server %d looks for another replica\n", tr_error(), d->rank->server_index);
        forget_program(d);
    }
    if (status == TR_OK && setup->keeps && !d->replica)
        tr__saving_expect(d->rank->saving);
    return status;
}

static void *store_value(void *self, uint32_t index)
{
    return tr_server_program_value(((tr__driver *)self)->rank->program, index);
}

static tr_status store_ready(void *self)
{
    return tr_server_program_ready(((tr__driver *)self)->rank->program);
}

static void *store_param(void *self, uint32_t index)
{
    return tr_server_program_param(((tr__driver *)self)->rank->program, index);
}

/* The time of an update includes the time of its pieces. */
tr_status tr__rank_run_update(tr__rank *rank)
{
    const int64_t   from = tr__clock();
    const tr_status status = tr_server_program_run(rank->program, &rank->update);

    tr_times_add(&rank->applied, tr__clock() - from + rank->in_pieces);
    rank->in_pieces = 0;
    return status;
}

static void store_rows(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    tr_server_program_rows(((tr__driver *)self)->rank->program, index, keys, n, out, hints);
}

static tr_status store_read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    return tr_server_program_read_rows(((tr__driver *)self)->rank->program, index, shard, are_candidates, out, bytes);
}

static tr_status store_write_rows(void *self, const tr_form_write_rows *what, const void *rows, uint64_t bytes)
{
    return tr_server_program_write_rows(((tr__driver *)self)->rank->program, what, rows, bytes);
}

static tr_status store_piece(void *self, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    tr__driver *d = self;

    if (!tr_server_program_has_pieces(d->rank->program, index))
        return TR_OK;
    const int64_t   from = tr__clock();
    const tr_status status = tr_server_program_piece(d->rank->program, index, offset, bytes, grad);

    d->rank->in_pieces += tr__clock() - from;
    return status;
}

void tr__rank_tell_applied(tr__driver *d, tr_status status)
{
    if (d->replica) {
        tr_replica_applied(d->replica, status);
        return;
    }
    tr_server_tell_time(d->server, tr__clock());
    tr_server_applied(d->server, status);
}

/* Let the main thread run the program, while this thread moves messages and heartbeats. A very short program runs on this thread,
 * because waking the other thread would take as long. */
static void store_apply(void *self, const tr_update *update)
{
    tr__driver *d = self;

    d->rank->update = *update;
    if (tr_server_program_is_quick(d->rank->program) && !update->set_count) {
        tr__rank_tell_applied(d, tr__rank_run_update(d->rank));
        return;
    }
    atomic_store(&d->rank->has_update, true);
    tr__bell_ring(&d->rank->bell);
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    tr_server_program_commit(((tr__driver *)self)->rank->program, commit, is_update);
}

static void store_go_back(void *self, const tr_commit *commit)
{
    tr_server_program_go_back(((tr__driver *)self)->rank->program, commit);
}

static void store_snapshot(void *self, const Trireme__Pserver__SnapshotTarget *target)
{
    tr__saving_begin(((tr__driver *)self)->rank->saving, target);
}

static void *store_tasks(void *self, uint64_t *bytes)
{
    tr__driver *d = self;
    char    name[TR_SEGMENT_NAME];

    return tr_server_program_tasks(d->rank->program, tr__rank_state_name(name, sizeof name, d->rank) ? name : NULL, bytes);
}

static void *store_board(void *self, uint64_t *bytes, bool anew)
{
    tr__driver *d = self;
    char    name[TR_SEGMENT_NAME];

    return tr_server_program_board(d->rank->program, tr__rank_state_name(name, sizeof name, d->rank) ? name : NULL, bytes, anew);
}

static void *store_param_before(void *self, uint32_t index)
{
    return tr_server_program_param_before(((tr__driver *)self)->rank->program, index);
}

static tr_status store_rows_before(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out)
{
    return tr_server_program_rows_before(((tr__driver *)self)->rank->program, index, keys, n, out);
}

/* -- replication ------------------------------------------------------------------------------------ */

static uint32_t store_generation(void *self, bool raise)
{
    tr__driver *d = self;

    if (raise)
        tr_server_program_set_generation(d->rank->program, tr_server_program_generation(d->rank->program) + 1);
    return tr_server_program_generation(d->rank->program);
}

static void store_set_replica_rank(void *self, int rank)
{
    tr_server_program_set_replica_rank(((tr__driver *)self)->rank->program, rank);
}

static int store_replica_rank(void *self)
{
    const tr__driver *d = self;
    return d->left_state ? tr_state_replica_rank(d->left_state) : -1;
}

static void store_counts(void *self, uint32_t generation)
{
    tr__driver *d = self;
    char    text[16];

    tr_server_program_set_generation(d->rank->program, generation);
    snprintf(text, sizeof text, "%d", d->rank->server_index);
    tr_notice_tell(TR_NOTICE_FOLLOWS, text);
}

/* In the owner's thread, as updates. */
static void store_freeze(void *self)
{
    tr__driver *d = self;

    atomic_store(&d->rank->wants_frozen, true);
    tr__bell_ring(&d->rank->bell);
}

static void store_thaw(void *self)
{
    tr__driver *d = self;

    atomic_store(&d->rank->wants_thaw, true);
    tr__bell_ring(&d->rank->bell);
}

static const void *store_frozen_value(void *self, uint32_t index)
{
    return tr_frozen_value(((tr__driver *)self)->rank->frozen, index);
}

static tr_status store_frozen_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    return tr_frozen_rows(((tr__driver *)self)->rank->frozen, index, shard, are_candidates, out, bytes);
}

tr_store tr__rank_store(tr__driver *d, const tr_roster *roster)
{
    d->rank->server_index = roster->rank[roster->self].index;
    d->newest = tr_roster_newest(roster, d->rank->server_index);
    d->rank->trainer_count = roster->trainers;
    return (tr_store){.self = d,
        .last_commit = store_last_commit, .setup = store_setup, .value = store_value, .ready = store_ready, .go_back = store_go_back,
        .param = store_param, .param_before = store_param_before,
        .rows = store_rows, .rows_before = store_rows_before, .read_rows = store_read_rows, .write_rows = store_write_rows,
        .tasks = store_tasks, .board = store_board, .generation = store_generation, .set_replica_rank = store_set_replica_rank,
        .replica_rank = store_replica_rank, .counts = store_counts,
        .piece = store_piece, .apply = store_apply, .commit = store_commit, .snapshot = store_snapshot, .freeze = store_freeze,
        .thaw = store_thaw, .frozen_value = store_frozen_value, .frozen_rows = store_frozen_rows,
    };
}
