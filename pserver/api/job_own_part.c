/* job_own_part.c - see job_own_part.h. */
#include "pserver/api/job_own_part.h"

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "pserver/api/job.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/checkpoint_file.h"
#include "storage/checkpoint/folder.h"
#include "storage/checkpoint/own_values.h"
#include "storage/checkpoint/place.h"
#include "storage/checkpoint/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* So long the initiator waits for the others' parts: a trainer may have died, and another one come in its place. Nanoseconds. */
static const int64_t PATIENCE = 120000000000, NAP = 5000000;
/* Of a manifest that another trainer has written. */
/* What stands in the place of the mode where there is no part: why not stands in the place of the digest. */
static const char LOST[] = "lost", FAILED[] = "failed";

struct tr__own_part {
    tr_job          *job;
    int              count;           /* 0: trainers leave no parts */
    tr_checkpoint_item *item;         /* with the names that they have in the checkpoint */
    char           **name;            /* in the program */
    char            *folder;          /* FOLDER/.own-TRAINER; NULL: the job keeps no checkpoints */
    _Atomic(tr_trainer_vars *) kept;
    _Atomic(void **) first;           /* the values before the first step of this process; NULL: unknown, or not needed any more */
    uint64_t         first_step;      /* they are of this step */
    _Atomic bool     is_collecting;
    _Atomic bool    *is_gone;         /* trainer by trainer, while parts are collected: it is dead or has left */
    int             *rank;            /* the rank that was each trainer when `seen` was begun */
    uint32_t         seen;            /* the newest snapshot that was taken here, or missed, */
    uint64_t         step;            /* of this step */
    bool             is_taken;
    tr_snapshot     *snapshot;
    tr_background    background;
};

static char *folder_of(const tr_job *job, int trainer)
{
    return tr__must_format("%s/.own-%d", job->checkpoints, trainer);
}

/* == life ========================================================================================= */

tr__own_part *tr__own_part_new(tr_job *job)
{
    tr__own_part *o = tr__must_alloc(sizeof *o);

    o->job = job;
    o->snapshot = tr_snapshot_new();
    return o;
}

static void forget_first(tr__own_part *o)
{
    void **first = atomic_exchange(&o->first, NULL);

    for (int i = 0; first && i < o->count; i++)
        free(first[i]);
    free(first);
}

void tr__own_part_free(tr__own_part *o)
{
    if (!o)
        return;
    tr_background_join(&o->background);
    if (o->folder)
        tr__checkpoint_remove(o->folder);
    tr_snapshot_free(o->snapshot);
    forget_first(o);
    free((void *)o->is_gone);
    free(o->rank);
    for (int i = 0; i < o->count; i++) {
        free(o->name[i]);
        free((void *)(uintptr_t)o->item[i].name);
        free((void *)(uintptr_t)o->item[i].param);
        free((void *)(uintptr_t)o->item[i].dims);
    }
    free(o->item);
    free(o->name);
    free(o->folder);
    free(o);
}

static void keep_items(tr__own_part *o, const tr_job_spec *spec)
{
    o->count = spec->own_count;
    o->item = tr__must_array((size_t)o->count, sizeof *o->item);
    o->name = tr__must_array((size_t)o->count, sizeof *o->name);
    for (int i = 0; i < o->count; i++) {
        const tr_checkpoint_item *from = &spec->own[i];
        o->item[i] = *from;
        o->item[i].data = NULL;
        o->item[i].name = tr_own_value_name(from->name, tr_job_index(o->job));
        o->item[i].param = from->param ? tr__must_strdup(from->param) : NULL;
        o->item[i].dims = (int64_t *)tr__must_copy(from->dims, (size_t)from->rank * sizeof(int64_t));
        o->name[i] = tr__must_strdup(from->name);
    }
}

static uint64_t bytes_of(const tr_checkpoint_item *item)
{
    uint64_t bytes = (uint64_t)tr_dtype_size(item->dtype);

    for (int i = 0; i < item->rank; i++)
        bytes *= (uint64_t)item->dims[i];
    return bytes;
}

/* No copy is made before the first step, and a trainer may have no step to make. */
static void keep_first(tr__own_part *o, const tr_checkpoint_item *values)
{
    void **first = tr__must_array((size_t)o->count, sizeof *first);

    for (int i = 0; i < o->count; i++)
        first[i] = tr__must_copy(values[i].data, bytes_of(&o->item[i]));
    o->first_step = (uint64_t)o->job->step;
    atomic_store(&o->first, first);
}

tr_status tr__own_part_set_up(tr__own_part *o, const tr_job_spec *spec)
{
    const tr_policy *p = &o->job->policy;

    if (!spec->own_count || tr_job_trainers(o->job) == 1)
        return TR_OK;
    if (spec->checkpoints && p->survives_trainers && !p->snapshots_all)
        return tr_fail(TR_EUNSUPPORTED,
                       "each of the %d trainers accumulates gradients of its own in '%s' and others (DGCMomentumOptimizer). In mode '%s' "
                       "one trainer alone takes part in a checkpoint, and it cannot tell a trainer that has died from one whose "
                       "accumulators come late: train in another mode, or leave out --checkpoint",
                       tr_job_trainers(o->job), spec->own[0].name, spec->mode);
    keep_items(o, spec);
    if (spec->checkpoints) {
        o->is_gone = tr__must_alloc((size_t)tr_job_trainers(o->job) * sizeof *o->is_gone);
        o->rank = tr__must_array((size_t)tr_job_trainers(o->job), sizeof *o->rank);
        if (o->job->step == 0)
            keep_first(o, spec->own);
        o->folder = folder_of(o->job, tr_job_index(o->job));
        tr__checkpoint_remove(o->folder);          /* what an earlier process has left is of another snapshot */
    }
    return TR_OK;
}

void tr__own_part_begin(tr__own_part *o, const tr_scope *scope)
{
    tr_checkpoint_item *now = tr__must_array((size_t)o->count + 1, sizeof *now);
    bool                are_there = o->folder && !atomic_load(&o->first);

    for (int i = 0; are_there && i < o->count; i++) {
        const tr_var *var = tr_scope_find(scope, o->name[i]);
        are_there = var && var->tensor.data && (uint64_t)tr_tensor_bytes(&var->tensor) == bytes_of(&o->item[i]);
        now[i].data = are_there ? var->tensor.data : NULL;
    }
    if (are_there)
        keep_first(o, now);
    free(now);
}

bool tr__own_part_wants_copies(const tr__own_part *o)
{
    return o->folder != NULL;
}

void tr__own_part_show(tr__own_part *o, tr_trainer_vars *kept)
{
    atomic_store(&o->kept, kept);
}

bool tr__own_part_has(const tr__own_part *o, const char *name)
{
    for (int i = 0; i < o->count; i++)
        if (!strcmp(o->name[i], name))
            return true;
    return false;
}

/* == taking it ===================================================================================== */

static bool find(tr_trainer_var *out, const tr_trainer_vars *kept, uint64_t step, const char *name)
{
    const int count = tr_trainer_vars_count(kept);

    for (int i = 0; i < count; i++)
        if (tr_trainer_vars_find(out, kept, step, i) && !strcmp(out->name, name))
            return true;
    return false;
}

static bool find_copies(tr__own_part *o, const tr_trainer_vars *kept)
{
    tr_trainer_var var;

    for (int i = 0; i < o->count; i++) {
        if (!kept || !find(&var, kept, o->step, o->name[i]) || var.bytes != bytes_of(&o->item[i]))
            return false;
        o->item[i].data = var.data;
    }
    return true;
}

static bool find_first(tr__own_part *o)
{
    void **first = atomic_load(&o->first);

    for (int i = 0; first && i < o->count; i++)
        o->item[i].data = first[i];
    return first && o->step == o->first_step;
}

/* The memory of a copy that the step after the next is overwriting is that of no step: then there is none. */
static bool take(tr__own_part *o)
{
    const tr_trainer_vars *kept = atomic_load(&o->kept);
    tr_trainer_var         var;

    if (find_copies(o, kept))
        return tr_snapshot_take(o->snapshot, o->count, o->item, 0, 0) == TR_OK && tr_trainer_vars_find(&var, kept, o->step, 0);
    return find_first(o) && tr_snapshot_take(o->snapshot, o->count, o->item, 0, 0) == TR_OK;
}

/* == writing it ==================================================================================== */

static void say(const tr__own_part *o, const char *mode, const char *why, int count, tr_part *const *parts)
{
    const tr_checkpoint_facts facts = {.step = (int64_t)o->step, .mode = mode, .digest = why};

    if (tr_manifest_write(NULL, o->folder, &facts, NULL, o->seen, count, parts) != TR_OK)
        fprintf(stderr, "trireme: trainer %d: what it has of a checkpoint is not told: %s\n", tr_job_index(o->job), tr_error());
}

static void say_lost(const tr__own_part *o)
{
    char *why = tr__must_format("it has no copy of its accumulators after step %llu", (unsigned long long)o->step);

    say(o, LOST, why, 0, NULL);
    free(why);
}

static char *part_name(int trainer)
{
    return tr__must_format("part-own-%05d.%016llx.data", trainer, (unsigned long long)tr_checkpoint_new_number());
}

static void write_part(tr__own_part *o)
{
    char    *name = part_name(tr_job_index(o->job));
    tr_part *part = NULL;

    if (tr_snapshot_write(&part, o->snapshot, o->folder, name, TR_ROWS_EXACT) == TR_OK)
        say(o, "sync", "", 1, &part);
    else
        say(o, FAILED, tr_error(), 0, NULL);
    tr_part_free(part);
    free(name);
}

static void *run(void *self)
{
    tr__own_part *o = self;

    if (o->is_taken)
        write_part(o);
    else
        say_lost(o);
    tr_background_end(&o->background);
    return NULL;
}

static void note_ranks(tr__own_part *o)
{
    const tr_roster *roster = tr_comm_roster(o->job->rank.comm);

    memcpy(o->rank, roster->trainer_rank, (size_t)roster->trainers * sizeof *o->rank);
}

/* A job that does not survive the death of a trainer waits for the process in its place. Where all trainers take part in a snapshot, that
 * process took no part in this one, and will leave nothing of it. */
static void look_for_trainers(tr__own_part *o)
{
    const tr_roster *roster = tr_comm_roster(o->job->rank.comm);
    const int       *rank = o->job->policy.snapshots_all ? o->rank : roster->trainer_rank;

    for (int i = 0; o->job->policy.survives_trainers && i < roster->trainers; i++)
        atomic_store(&o->is_gone[i], !tr_roster_is_here(roster, rank[i]));
}

void tr__own_part_poll(tr__own_part *o, const tr_client *client)
{
    uint32_t number;
    uint64_t step;

    if (!o->folder)
        return;
    if (atomic_load_explicit(&o->is_collecting, memory_order_relaxed))
        look_for_trainers(o);
    if (atomic_load_explicit(&o->first, memory_order_relaxed) && tr_client_step(client) > o->first_step + 1)
        forget_first(o);
    if (!tr_client_sees_snapshot(&number, &step, client) || number == o->seen || tr_background_is_under_way(&o->background))
        return;
    tr_background_join(&o->background);
    o->seen = number;
    o->step = step;
    note_ranks(o);
    o->is_taken = take(o);
    tr_background_begin(&o->background, run, o, "write a part of a checkpoint");
}

/* == all of them =================================================================================== */

tr_status tr__own_parts_check(const tr__own_part *o)
{
    if (!o->count || o->folder)
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED,
                   "a checkpoint must have what each of the %d trainers has accumulated in '%s' and others (DGCMomentumOptimizer), and "
                   "they have no folder to leave it in: start the job with --checkpoint FOLDER, which may be another folder",
                   tr_job_trainers(o->job), o->name[0]);
}

/* What this trainer has written last; NULL: nothing that can be read. */
static tr_manifest *read_manifest(const char *folder)
{
    tr_manifest *manifest = NULL;

    return tr_manifest_read(&manifest, folder) == TR_OK ? manifest : NULL;
}

/* *is_gone: the trainer is gone, and has left no part of this snapshot. */
static tr_status await_manifest(tr_manifest **out, bool *is_gone, const tr__own_part *o, int trainer, const char *folder, int64_t deadline)
{
    const uint32_t number = tr_client_own_snapshot(tr__rank_client(&o->job->rank));

    for (;;) {
        *is_gone = atomic_load(&o->is_gone[trainer]);
        *out = read_manifest(folder);
        if ((*out && (*out)->snapshot == number) || *is_gone)
            break;
        tr_manifest_free(*out);
        *out = NULL;
        TR_TRY(tr_comm_status(o->job->rank.comm));
        if (tr__clock() > deadline)
            return tr_fail(TR_ETIMEOUT, "its part did not come to '%s' within %lld s", folder, (long long)(PATIENCE / 1000000000));
        tr__sleep(NAP);
    }
    *is_gone = !*out || (*out)->snapshot != number;
    return TR_OK;
}

static tr_status move(const tr_part *part, const char *from, const char *to)
{
    char *old = tr__must_format("%s/%s", from, part->file), *new = tr__must_format("%s/%s", to, part->file);
    const tr_status status = tr_place_of(old)->move(old, new);

    free(old);
    free(new);
    return status;
}

static tr_status take_from(tr__parts *parts, bool *is_lost, tr_manifest *manifest, const char *from, const char *to)
{
    if (manifest->n_parts != 1) {
        *is_lost = !strcmp(manifest->mode, LOST);
        return tr_fail(TR_EIO, "%s", manifest->digest);
    }
    TR_TRY(move(manifest->parts[0], from, to));
    tr__parts_add(parts, manifest->parts[0]);
    manifest->n_parts = 0;
    return TR_OK;
}

/* -- trainers that are gone ---------------------------------------------------------------------- */

static bool has_place(const tr_places *places, int trainer)
{
    for (int i = 0; i < places->count; i++)
        if (places->place[i]->index == (uint32_t)trainer)
            return true;
    return false;
}

/* Had it left before this snapshot, for all servers that know? */
static bool had_left(const tr__parts *parts, int trainer)
{
    for (int s = 0; s < parts->answers; s++)
        for (size_t i = 0; i < parts->answer[s]->n_left; i++)
            if (parts->answer[s]->left[i] == (uint32_t)trainer)
                return true;
    return false;
}

/* What a trainer that is gone had accumulated is lost. Zeros say so to those that read the checkpoint, one in its place or another number
 * of trainers. */
static tr_status write_zeros(tr__parts *parts, const tr__own_part *o, int trainer, const char *folder)
{
    char               *name = part_name(trainer);
    tr_checkpoint_item *item = tr__must_array((size_t)o->count, sizeof *item);
    tr_snapshot        *snapshot = tr_snapshot_new();
    tr_part            *part = NULL;

    for (int i = 0; i < o->count; i++) {
        const tr_checkpoint_item *from = &o->item[i];
        item[i] = (tr_checkpoint_item){.name = tr_own_value_name(o->name[i], trainer), .param = from->param, .kind = from->kind,
                                       .dtype = from->dtype, .rank = from->rank, .dims = from->dims,
                                       .data = tr__must_alloc(bytes_of(from))};
    }
    tr_status status = tr_snapshot_take(snapshot, o->count, item, 0, 0);
    if (status == TR_OK)
        status = tr_snapshot_write(&part, snapshot, folder, name, TR_ROWS_EXACT);
    tr__parts_add(parts, part);
    for (int i = 0; i < o->count; i++) {
        free((void *)(uintptr_t)item[i].name);
        free((void *)(uintptr_t)item[i].data);
    }
    tr_snapshot_free(snapshot);
    free(item);
    free(name);
    return status;
}

static tr_status collect_from(tr__parts *parts, bool *is_lost, const tr__own_part *o, int trainer, const char *from, const char *to,
                              const tr_places *places, int64_t deadline)
{
    const bool   is_apart = o->job->policy.snapshots_all && !has_place(places, trainer);
    tr_manifest *manifest = NULL;
    bool         is_gone = is_apart;

    if (!is_apart)
        TR_TRY(await_manifest(&manifest, &is_gone, o, trainer, from, deadline));
    if (is_gone && !is_apart && !had_left(parts, trainer)) {
        *is_lost = true;
        return tr_fail(TR_EPEER, "it died before its part was written");
    }
    const tr_status status = is_gone ? write_zeros(parts, o, trainer, to) : take_from(parts, is_lost, manifest, from, to);
    if (manifest)
        tr__checkpoint_remove(from);               /* the trainer makes it again for its next part */
    tr_manifest_free(manifest);
    return status;
}

tr_status tr__own_parts_collect(tr__parts *parts, bool *is_lost, tr__own_part *o, const char *folder, const tr_places *places)
{
    const int64_t deadline = tr__clock() + PATIENCE;
    tr_status     status = TR_OK;

    *is_lost = false;
    if (!o->count)
        return TR_OK;
    for (int i = 0; i < tr_job_trainers(o->job); i++)
        atomic_store(&o->is_gone[i], false);
    atomic_store(&o->is_collecting, true);
    for (int i = 0; i < tr_job_trainers(o->job) && status == TR_OK; i++) {
        char *from = folder_of(o->job, i);
        status = collect_from(parts, is_lost, o, i, from, folder, places, deadline);
        if (status != TR_OK)
            tr_context(status, "trainer %d", i);
        free(from);
    }
    atomic_store(&o->is_collecting, false);
    return status == TR_OK ? tr_checkpoint_sync_folder(folder) : status;
}
