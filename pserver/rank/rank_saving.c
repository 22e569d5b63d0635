/* rank_saving.c - see rank_saving.h. */
#include "pserver/rank/rank_saving.h"

#include "framework/base/memory.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/snapshot.h"

#include <signal.h>
#include <stdlib.h>

struct tr__saving {
    tr__rank *rank;
    tr_snapshot *snapshot;
    tr_background    background;
    atomic_bool  is_expected, is_wanted;
    size_t       expected_bytes;
    bool         is_writing;
    char        *folder, *file;       /* folder and name of the wanted part */
    tr_checkpoint_rows rows;
    uint64_t     number, since;       /* of its checkpoint, and of the one whose rows need not be written again */
    tr_part     *part;                /* result of the writing thread: the part, or the error */
    char        *error;
};

tr__saving *tr__saving_new(tr__rank *rank)
{
    tr__saving *s = tr__must_alloc(sizeof *s);

    s->rank = rank;
    s->snapshot = tr_snapshot_new();
    return s;
}

void tr__saving_end(tr__saving *s)
{
    tr_background_join(&s->background);
}

void tr__saving_free(tr__saving *s)
{
    if (!s)
        return;
    tr_snapshot_free(s->snapshot);
    tr_part_free(s->part);
    free(s->folder);
    free(s->file);
    free(s->error);
    free(s);
}

void tr__saving_expect(tr__saving *s)
{
    tr_checkpoint_item *states = tr__must_alloc(tr_server_program_state_capacity(s->rank->program) * sizeof *states + 1);

    signal(SIGTERM, SIG_IGN);
    s->expected_bytes = tr_snapshot_bytes(tr_server_program_states(s->rank->program, states), states);
    free(states);
    atomic_store(&s->is_expected, true);
    tr__bell_ring(&s->rank->bell);
}

void tr__saving_begin(tr__saving *s, const Trireme__Pserver__SnapshotTarget *target)
{
    free(s->folder);
    free(s->file);
    s->folder = tr__must_strdup(target->folder);
    s->file = tr__must_strdup(target->file);
    s->number = target->number;
    s->since = target->since;
    s->rows = (tr_checkpoint_rows)target->rows;
    atomic_store(&s->is_wanted, true);
    tr__bell_ring(&s->rank->bell);
}

bool tr__saving_is_due(const tr__saving *s)
{
    return atomic_load(&s->is_wanted) || atomic_load(&s->is_expected) || (s->is_writing && !tr_background_is_under_way(&s->background));
}

static tr_status begin(tr__saving *s, void *(*run)(void *))
{
    return tr_background_begin(&s->background, run, s, "write a checkpoint");
}

static void end(tr__saving *s)
{
    tr_background_end(&s->background);
    tr__bell_ring(&s->rank->bell);
}

static void *run_reserve(void *self)
{
    tr__saving *s = self;

    tr_snapshot_reserve(s->snapshot, s->expected_bytes);      /* if this fails, the snapshot itself will fail */
    end(s);
    return NULL;
}

static void *run_write(void *self)
{
    tr__saving *s = self;

    if (tr_snapshot_write(&s->part, s->snapshot, s->folder, s->file, s->rows) != TR_OK)
        s->error = tr__must_strdup(tr_error());
    end(s);
    return NULL;
}

static tr_status take(tr__saving *s)
{
    tr_checkpoint_item *states = tr__must_alloc(tr_server_program_state_capacity(s->rank->program) * sizeof *states + 1);

    const tr_status status = tr_snapshot_take(s->snapshot, tr_server_program_states(s->rank->program, states), states, s->number, s->since);
    free(states);
    return status;
}

static tr_status tell_written(tr__saving *s)
{
    tr__command c = {.head = {TR__WRITTEN, .is_urgent = true}, .written = {.error = s->error}};

    if (s->part)
        c.written.part = tr_part_pack(&c.written.size, s->part);
    s->error = NULL;
    tr_part_free(s->part);
    s->part = NULL;
    return tr__rank_post(s->rank, &c);
}

static tr_status copy_and_write(tr__saving *s)
{
    tr_background_join(&s->background);                    /* the thread that reserved memory */
    const tr_status taken = take(s);
    if (taken != TR_OK)
        s->error = tr__must_strdup(tr_error());
    TR_TRY(tr__rank_post(s->rank, &(tr__command){.head = {TR__SNAPPED, .is_urgent = true}}));
    if (taken == TR_OK && begin(s, run_write) == TR_OK) {
        s->is_writing = true;
        return TR_OK;
    }
    tr_snapshot_end(s->snapshot);
    if (!s->error)
        s->error = tr__must_strdup(tr_error());
    return tell_written(s);
}

tr_status tr__saving_serve(tr__saving *s)
{
    if (atomic_exchange(&s->is_expected, false))
        begin(s, run_reserve);                     /* without the reserve the first pause is longer */
    if (s->is_writing && !tr_background_is_under_way(&s->background)) {
        tr_background_join(&s->background);
        tr_snapshot_end(s->snapshot);
        s->is_writing = false;
        TR_TRY(tell_written(s));
    }
    return atomic_exchange(&s->is_wanted, false) ? copy_and_write(s) : TR_OK;
}
