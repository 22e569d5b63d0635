/* job_own_part.c - see job_own_part.h. */
#include "pserver/job/job_own_part.h"

#include "framework/memory.h"
#include "framework/path.h"
#include "pserver/checkpoint/checkpoint_file.h"
#include "pserver/checkpoint/own_values.h"
#include "pserver/checkpoint/snapshot.h"
#include "pserver/job/job.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* So long the initiator waits for the others' parts: a trainer may have died, and another one come in its place. Nanoseconds. */
static const int64_t PATIENCE = 120000000000, NAP = 5000000;
/* Of a manifest that another trainer has written. */
static const uint64_t MANIFEST_MOST = 64 << 20;
/* What stands in the place of the mode where there is no part: why not stands in the place of the digest. */
static const char LOST[] = "lost", FAILED[] = "failed";

struct tr__own_part {
    tr_job          *job;
    int              count;           /* 0: trainers leave no parts */
    tr_checkpoint_item *item;         /* with the names that they have in the checkpoint */
    char           **name;            /* in the program */
    char            *folder;          /* FOLDER/.own-TRAINER; NULL: the job keeps no checkpoints */
    _Atomic(tr_trainer_vars *) kept;
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

void tr__own_part_free(tr__own_part *o)
{
    if (!o)
        return;
    tr_background_join(&o->background);
    if (o->folder)
        tr__checkpoint_remove(o->folder);
    tr_snapshot_free(o->snapshot);
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

tr_status tr__own_part_set_up(tr__own_part *o, const tr_job_spec *spec)
{
    const tr_policy *p = &o->job->policy;

    if (!spec->own_count || tr_job_trainers(o->job) == 1)
        return TR_OK;
    if (spec->checkpoints && (!p->is_lockstep || p->survives_trainers))
        return tr_fail(TR_EUNSUPPORTED, "each of the %d trainers accumulates gradients of its own in '%s' and others (DGCMomentumOptimizer), and in mode '%s' there is no "
                       "step at which a checkpoint could have all of them: train in mode sync, or leave out --checkpoint", tr_job_trainers(o->job),
                       spec->own[0].name, spec->mode);
    keep_items(o, spec);
    if (spec->checkpoints) {
        o->folder = folder_of(o->job, tr_job_index(o->job));
        tr__checkpoint_remove(o->folder);          /* what an earlier process has left is of another snapshot */
    }
    return TR_OK;
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

static uint64_t bytes_of(const tr_checkpoint_item *item)
{
    uint64_t bytes = (uint64_t)tr_dtype_size(item->dtype);

    for (int i = 0; i < item->rank; i++)
        bytes *= (uint64_t)item->dims[i];
    return bytes;
}

/* The memory of a copy that the step after the next is overwriting is that of no step: then there is none. */
static bool take(tr__own_part *o)
{
    const tr_trainer_vars *kept = atomic_load(&o->kept);
    tr_trainer_var         var;

    for (int i = 0; i < o->count; i++) {
        if (!kept || !find(&var, kept, o->step, o->name[i]) || var.bytes != bytes_of(&o->item[i]))
            return false;
        o->item[i].data = var.data;
    }
    return tr_snapshot_take(o->snapshot, o->count, o->item) == TR_OK && tr_trainer_vars_find(&var, kept, o->step, 0);
}

/* == writing it ==================================================================================== */

static void say(const tr__own_part *o, const char *mode, const char *why, int count, tr_part *const *parts)
{
    const tr_checkpoint_facts facts = {.step = (int64_t)o->step, .mode = mode, .digest = why};

    if (tr_manifest_write(o->folder, &facts, o->seen, count, parts) != TR_OK)
        fprintf(stderr, "trireme: trainer %d: what it has of a checkpoint is not told: %s\n", tr_job_index(o->job), tr_error());
}

static void say_lost(const tr__own_part *o)
{
    char *why = tr__must_format("it has no copy of its accumulators behind step %llu", (unsigned long long)o->step);

    say(o, LOST, why, 0, NULL);
    free(why);
}

static void write_part(tr__own_part *o)
{
    char    *name = tr__must_format("part-own-%05d.%016llx.data", tr_job_index(o->job), (unsigned long long)tr_checkpoint_new_number());
    tr_part *part = NULL;

    if (tr_snapshot_write(&part, o->snapshot, o->folder, name) == TR_OK)
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

void tr__own_part_poll(tr__own_part *o, const tr_client *client)
{
    uint32_t number;
    uint64_t step;

    if (!o->folder || !tr_client_sees_snapshot(&number, &step, client) || number == o->seen || tr_background_is_under_way(&o->background))
        return;
    tr_background_join(&o->background);
    o->seen = number;
    o->step = step;
    o->is_taken = take(o);
    tr_background_begin(&o->background, run, o, "write a part of a checkpoint");
}

/* == all of them =================================================================================== */

tr_status tr__own_parts_check(const tr__own_part *o)
{
    if (!o->count || o->folder)
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED, "a checkpoint must have what each of the %d trainers has accumulated in '%s' and others (DGCMomentumOptimizer), and they have no folder to "
                   "leave it in: start the job with --checkpoint FOLDER, which may be another folder", tr_job_trainers(o->job), o->name[0]);
}

/* What this trainer has written last; NULL: nothing that can be read. */
static tr_manifest *read_manifest(const char *folder)
{
    char        *path = tr__must_format("%s/manifest", folder);
    tr_manifest *manifest = NULL;
    uint8_t     *bytes;
    size_t       size;

    if (tr_path_read(&bytes, &size, path, MANIFEST_MOST) == TR_OK) {
        if (tr_manifest_parse(&manifest, bytes, size, path) != TR_OK)
            manifest = NULL;
        free(bytes);
    }
    free(path);
    return manifest;
}

static tr_status await_manifest(tr_manifest **out, const tr_job *job, const char *folder, uint32_t number, int64_t deadline)
{
    for (;;) {
        *out = read_manifest(folder);
        if (*out && (*out)->snapshot == number)
            return TR_OK;
        tr_manifest_free(*out);
        *out = NULL;
        TR_TRY(tr_comm_status(job->shared.comm));
        if (tr__clock() > deadline)
            return tr_fail(TR_ETIMEOUT, "its part did not come to '%s' within %lld s", folder, (long long)(PATIENCE / 1000000000));
        nanosleep(&(struct timespec){0, NAP}, NULL);
    }
}

static tr_status move(const tr_part *part, const char *from, const char *to)
{
    char *old = tr__must_format("%s/%s", from, part->file), *new = tr__must_format("%s/%s", to, part->file);
    tr_status status = TR_OK;

    if (rename(old, new) != 0)
        status = tr_fail(TR_EIO, "cannot move '%s' to '%s': %s", old, new, strerror(errno));
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

static tr_status collect(tr__parts *parts, bool *is_lost, const tr_job *job, int trainer, const char *folder, uint32_t number, int64_t deadline)
{
    char        *from = folder_of(job, trainer);
    tr_manifest *manifest = NULL;
    tr_status    status = await_manifest(&manifest, job, from, number, deadline);

    if (status == TR_OK)
        status = take_from(parts, is_lost, manifest, from, folder);
    if (manifest)
        tr__checkpoint_remove(from);               /* the trainer makes it again for its next part */
    if (status != TR_OK)
        tr_context(status, "trainer %d", trainer);
    tr_manifest_free(manifest);
    free(from);
    return status;
}

tr_status tr__own_parts_collect(tr__parts *parts, bool *is_lost, tr__own_part *o, const char *folder, uint32_t number)
{
    const int64_t deadline = tr__clock() + PATIENCE;

    *is_lost = false;
    if (!o->count)
        return TR_OK;
    for (int i = 0; i < tr_job_trainers(o->job); i++)
        TR_TRY(collect(parts, is_lost, o->job, i, folder, number, deadline));
    return tr_checkpoint_sync_folder(folder);
}
