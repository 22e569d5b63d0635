/* server_store.c - see server_store.h. The functions stand in the order of tr_store. */
#include "pserver/store/server_store.h"

#include "pserver/observe/launcher.h"
#include "pserver/store/frozen.h"
#include "pserver/store/server_memory.h"
#include "pserver/util/wake.h"
#include "storage/table/table_report.h"

#include <stdio.h>

/* == the beginning =============================================================================== */

static bool is_replica(const tr_server_program *sp)
{
    return sp->part.duty == TR_DUTY_REPLICA || sp->part.duty == TR_DUTY_CALLED_REPLICA;
}

static void drop_left_state(tr_server_program *sp)
{
    tr_state_free(sp->left_state, false);
    sp->left_state = NULL;
}

tr_status tr_server_store_attach(tr_server_program *sp, int server)
{
    char name[TR_SEGMENT_NAME];

    sp->part.server = server;
    if (sp->left_state)
        return TR_OK;
    if (!tr__server_program_name(name, sp))
        return tr_fail(TR_ENOTFOUND, "nothing is kept of servers that die: TRIREME_STATE is not set");
    return tr_state_attach(&sp->left_state, name);
}

/* A damaged state counts as none: then the job begins anew, or from its checkpoint. */
static bool last_commit(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    tr_server_program *sp = self;
    const tr_status    status = tr_server_store_attach(sp, sp->part.server);

    if (status == TR_EFORMAT)
        fprintf(stderr, "trireme-pserver: %s; it is not used\n", tr_error());
    if (status != TR_OK)
        return false;
    const int64_t generation = tr_state_generation(sp->left_state);
    const bool    is_old = sp->part.duty == TR_DUTY_SERVER && generation < sp->part.newest;      /* another host has a newer state */
    if (!generation || is_old || tr_state_trainers(sp->left_state) != sp->part.trainers) {
        drop_left_state(sp);                       /* the state was never complete, or belongs to another job */
        return false;
    }
    *commit = tr_state_committed(sp->left_state);
    *packed = tr_state_setup(sp->left_state, bytes);
    return true;
}

/* Keep the part of the checkpoint that was read before if the setup goes on from it. */
static tr_status check_restored(tr_server_program *sp, const Trireme__Pserver__Setup *setup, bool resume)
{
    if (!setup->has_restores || resume || is_replica(sp)) {
        tr_server_program_restore(sp, NULL);
        return TR_OK;
    }
    if (sp->restored && tr_restored_number(sp->restored) == setup->restores)
        return TR_OK;
    return tr_fail(TR_EPEER, "server %d was not asked to read the checkpoint that the job goes on from", sp->part.server);
}

static tr_status set_up(tr_server_program *sp, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed,
                        uint64_t bytes, bool resume)
{
    tr_state *state = sp->left_state;
    char      name[TR_SEGMENT_NAME];

    TR_TRY(check_restored(sp, setup, resume));
    sp->left_state = NULL;
    if (!resume) {
        tr_state_free(state, true);
        TR_TRY(tr_state_create(&state, tr__server_program_name(name, sp), packed, bytes, sp->part.trainers));
    }
    if (!is_replica(sp) && tr_state_generation(state) < sp->part.first_generation)
        tr_state_set_generation(state, sp->part.first_generation);
    if (sp->part.duty == TR_DUTY_SERVER)
        tr_state_set_replica_rank(state, -1);      /* after a restart ranks have other numbers */
    return tr__server_program_setup(sp, setup, policy, state, resume);
}

static tr_status setup(void *self, const Trireme__Pserver__Setup *what, const tr_policy *policy, const void *packed, uint64_t bytes,
                       bool resume)
{
    tr_server_program *sp = self;

    if (is_replica(sp) && !resume)
        tr__server_program_forget(sp);
    const tr_status status = set_up(sp, what, policy, packed, bytes, resume);
    if (status != TR_OK && sp->part.duty == TR_DUTY_CALLED_REPLICA) {
        fprintf(stderr, "trireme-pserver: %s; server %d looks for another replica\n", tr_error(), sp->part.server);
        tr__server_program_forget(sp);
    }
    return status;
}

static void *value(void *self, uint32_t index)
{
    return tr__server_program_value(self, index);
}

static tr_status ready(void *self)
{
    return tr__server_program_ready(self);
}

static void go_back(void *self, const tr_commit *commit)
{
    tr_server_program *sp = self;

    tr_state_go_back(sp->state, commit);
    for (uint32_t i = 0; i < sp->table_count; i++)
        tr_table_go_back(sp->table[i]->table, sp->table[i]->before + tr_state_committed(sp->state).updates);
    if (sp->plan)                                  /* otherwise tr__server_program_ready takes the side from the state */
        tr__server_program_switch(sp);
}

/* == parameters and tables ======================================================================= */

static void *param(void *self, uint32_t index)
{
    const tr_server_program *sp = self;
    return sp->param_memory[sp->side][index];
}

static void *param_before(void *self, uint32_t index)
{
    const tr_server_program *sp = self;
    return sp->param_memory[!sp->side][index];
}

static void *value_before(void *self, uint32_t index)
{
    const tr_server_program *sp = self;
    return sp->value_memory[!sp->side][index];
}

static tr_table *table(const void *self, uint32_t index)
{
    return ((const tr_server_program *)self)->table[index]->table;
}

/* A table has one copy, so this reads what an update would change. */
static tr_status rows(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    return tr_table_pull_places(table(self, index), out, hints, keys, n);
}

static tr_status expect_rows(void *self, uint32_t index, const int64_t *keys, int64_t n)
{
    return tr_table_expect(table(self, index), keys, n);
}

static tr_status rows_before(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out)
{
    return tr_table_pull_before(table(self, index), out, keys, n);
}

static tr_status read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, uint32_t since, void **out, uint64_t *bytes)
{
    if (are_candidates)
        return tr_table_pack_candidates(table(self, index), shard, out, bytes);
    if (shard == TR_SHARDS)
        return tr_table_part_pack(table(self, index), out, bytes);
    if (shard == TR_SHARDS + 1)
        return tr_table_disk_pack(table(self, index), out, bytes);
    return tr_table_pack_newer(table(self, index), shard, since, out, bytes);
}

static tr_status write_rows(void *self, const tr_form_write_rows *what, const void *bytes, uint64_t count)
{
    const tr_server_program *sp = self;
    const tr_table_var      *tv = sp->table[what->table];

    if (what->clears)
        tr_table_clear(tv->table, tv->before + tr_state_committed(sp->state).updates, what->clock);
    else
        tr_table_make_final(tv->table);
    return (what->has_candidates ? tr_table_unpack_candidates : tr_table_unpack)(tv->table, bytes, count);
}

/* == generations, for replicas =================================================================== */

static void set_generation(tr_server_program *sp, uint32_t number)
{
    if (sp->state)
        tr_state_set_generation(sp->state, number);
}

static uint32_t generation(void *self, bool raise)
{
    tr_server_program *sp = self;

    if (raise && sp->state)
        set_generation(sp, tr_state_generation(sp->state) + 1);
    return sp->state ? tr_state_generation(sp->state) : 0;
}

static void set_replica_rank(void *self, int rank)
{
    const tr_server_program *sp = self;

    if (sp->state)
        tr_state_set_replica_rank(sp->state, rank);
}

static int replica_rank(void *self)
{
    const tr_server_program *sp = self;
    return sp->left_state ? tr_state_replica_rank(sp->left_state) : -1;
}

static void counts(void *self, uint32_t number)
{
    tr_server_program *sp = self;
    char               text[16];

    set_generation(sp, number);
    snprintf(text, sizeof text, "%d", sp->part.server);
    tr_notice_tell(TR_NOTICE_FOLLOWS, text);
}

/* == work ======================================================================================== */

static void commit(void *self, const tr_commit *what, bool is_update)
{
    tr_server_program *sp = self;

    tr_state_commit(sp->state, what, is_update);
    tr_state_ready(sp->state);                     /* the state is complete from now on */
    if (is_update)
        tr__server_program_switch(sp);
}

static const void *frozen_value(void *self, uint32_t index)
{
    return tr_frozen_value(((tr_server_program *)self)->frozen, index);
}

static tr_status frozen_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    return tr_frozen_rows(((tr_server_program *)self)->frozen, index, shard, are_candidates, out, bytes);
}

tr_store tr_server_store(tr_server_program *sp, const tr_server_part *part)
{
    sp->part = *part;
    if (part->duty == TR_DUTY_CALLED_REPLICA)
        drop_left_state(sp);
    return (tr_store){
        .self = sp,
        .last_commit = last_commit,
        .setup = setup,
        .value = value,
        .ready = ready,
        .go_back = go_back,
        .param = param,
        .param_before = param_before,
        .value_before = value_before,
        .rows = rows,
        .expect_rows = expect_rows,
        .rows_before = rows_before,
        .read_rows = read_rows,
        .write_rows = write_rows,
        .tasks = tr__server_memory_tasks,
        .board = tr__server_memory_board,
        .generation = generation,
        .set_replica_rank = set_replica_rank,
        .replica_rank = replica_rank,
        .counts = counts,
        .commit = commit,
        .frozen_value = frozen_value,
        .frozen_rows = frozen_rows,
    };
}
