/* run.c - see run.h. */
#include "storage/checkpoint/base.h"
#include "storage/checkpoint/run.h"

#include "storage/checkpoint/own_run.h"

#include <errno.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"

static tr_fork_lock      lock = TR_FORK_LOCK_INIT;
static tr_checkpoint_run own;         /* of this process, once it is known; `command` is malloc'ed or NULL */

/* == the run of this process ====================================================================== */

/* The launcher draws the number for all ranks and for all starts of its job. */
static uint64_t draw(void)
{
    const char *given = getenv("TRIREME_RUN");
    const uint64_t number = given ? strtoull(given, NULL, 16) : 0;

    return number ? number : tr_checkpoint_new_number() | 1;
}

static tr__own_run process_run(void)
{
    tr__fork_lock_take(&lock);
    if (!own.number) {
        own.number = draw();
        own.began = (int64_t)time(NULL);
    }
    const tr__own_run mine = {own.number, own.began, true};
    tr__fork_lock_release(&lock);
    return mine;
}

/* This process goes on with a run: what it writes elsewhere belongs to that run, too. */
static void become(tr__own_run mine)
{
    tr__fork_lock_take(&lock);
    own.number = mine.number;
    own.began = mine.began;
    tr__fork_lock_release(&lock);
}

static void set_command(const char *command)
{
    tr__fork_lock_take(&lock);
    if (!own.command)                 /* a process has one, and another thread may read it at any time */
        own.command = tr__must_format("%.4000s", command);
    tr__fork_lock_release(&lock);
}

/* == texts ======================================================================================== */

/* A time, with these texts between the parts of its date and of its clock. malloc'ed. */
static char *time_text(int64_t seconds, const char *in_date, const char *between, const char *in_clock)
{
    const time_t time = (time_t)seconds;
    struct tm    t;

    if (!localtime_r(&time, &t))
        return tr__must_strdup("?");
    return tr__must_format("%04d%s%02d%s%02d%s%02d%s%02d%s%02d", t.tm_year + 1900, in_date, t.tm_mon + 1, in_date, t.tm_mday, between, t.tm_hour,
                           in_clock, t.tm_min, in_clock, t.tm_sec);
}

/* "step 900, written 2026-11-28 21:15:00 by 'train.py --steps 900'"; malloc'ed. */
static char *describe(const tr_folder_item *item)
{
    const tr_checkpoint_run run = tr_folder_run(item);

    if (!item->manifest)
        return tr__must_format("step %lld, which is damaged", (long long)item->step);
    char *written = time_text((int64_t)item->manifest->created, "-", " ", ":");
    char *text = *run.command ? tr__must_format("step %lld, written %s by '%.300s'", (long long)item->step, written, run.command)
                              : tr__must_format("step %lld, written %s", (long long)item->step, written);
    free(written);
    return text;
}

static tr_status refuse_begin(const char *folder, const tr_folder_item *newest)
{
    char *text = describe(newest);

    tr_fail(TR_EEXIST, "checkpoint: the folder '%s' holds checkpoints of another run: %s. Go on from there with --resume (resume=True), "
            "name another folder, or begin with --anew (anew=True), which moves these into '%s/aside-...'", folder, text, folder);
    free(text);
    return TR_EEXIST;
}

static tr_status refuse_command(const char *folder, const tr_folder_item *newest, const char *command)
{
    char *text = describe(newest);

    tr_fail(TR_EEXIST, "checkpoint: the folder '%s' does not hold checkpoints of '%.300s': %s. Name another folder, go on from there "
            "nevertheless with --resume, or begin with --anew, which moves these into '%s/aside-...'", folder, command, text, folder);
    free(text);
    return TR_EEXIST;
}

static tr_status refuse_several(const char *folder, const tr_folder_item *a, const tr_folder_item *b)
{
    char *one = describe(a), *two = describe(b);

    tr_fail(TR_EINVAL, "checkpoint: the folder '%s' holds checkpoints of more than one run: %s; %s. Move those of one run into a folder of their own",
            folder, one, two);
    free(one);
    free(two);
    return TR_EINVAL;
}

/* == whose checkpoints are these? ================================================================== */

/* A checkpoint of an older version has no run. It belongs to the run that goes on from it. */
static bool is_foreign(const tr_folder_item *item, uint64_t number, bool takes_unnamed)
{
    const uint64_t its = tr_folder_run(item).number;

    return item->has_manifest && (its ? its != number : !takes_unnamed);
}

static const tr_folder_item *find_foreign(const tr_folder *all, uint64_t number, bool takes_unnamed)
{
    for (int i = 0; i < all->count; i++)
        if (is_foreign(&all->item[i], number, takes_unnamed))
            return &all->item[i];
    return NULL;
}

/* The newest checkpoint that can be read, or NULL. */
static const tr_folder_item *find_newest(const tr_folder *all)
{
    for (int i = 0; i < all->count; i++)
        if (all->item[i].manifest)
            return &all->item[i];
    return NULL;
}

/* May this process take or remove a checkpoint of run `number` in this folder? A process without a run there may. */
static bool owns(const char *folder, uint64_t number)
{
    const tr__own_run mine = tr__own_run_in(folder);

    return !mine.number || !number || number == mine.number;
}

/* A process without a run in a folder reads it: TR_EINVAL if the folder holds checkpoints of several runs. */
static tr_status check_one(const char *folder, const tr_folder *all)
{
    const int first = tr__own_run_in(folder).number ? -1 : tr_folder_find_other(all, 0);
    const int other = first >= 0 ? tr_folder_find_other(all, tr_folder_run(&all->item[first]).number) : -1;

    return other < 0 ? TR_OK : refuse_several(folder, &all->item[first], &all->item[other]);
}

/* Under plain mpirun nobody draws a number for all ranks. The folder held no other run's checkpoints when this process claimed it, and the
 * lock keeps other jobs out. So another number that stands there now is that of a trainer of this job that writes in this one's place, or in
 * whose run this one writes for. */
static tr__own_run agreed_run(tr__own_run mine, const char *folder, const tr_folder *all)
{
    const tr_folder_item *other = getenv("TRIREME_RUN") ? NULL : find_foreign(all, mine.number, true);
    const tr_checkpoint_run its = other ? tr_folder_run(other) : (tr_checkpoint_run){0};

    if (!its.number)
        return mine;
    mine = (tr__own_run){its.number, its.began, true};
    become(mine);
    tr__own_run_set(folder, mine);
    return mine;
}

tr_status tr__run_stamp_next(tr__run_stamp *out, const char *folder, int64_t step)
{
    tr__own_run mine = tr__own_run_in(folder);
    tr_status status = TR_OK;
    tr_folder all;

    *out = (tr__run_stamp){0};
    if (!mine.number)
        return TR_OK;
    TR_TRY(tr_folder_scan(&all, folder));
    mine = agreed_run(mine, folder, &all);
    for (int i = 0; i < all.count; i++) {
        const tr_folder_item *item = &all.item[i];
        if (item->manifest && item->order >= out->order)
            out->order = item->order;
        if (item->step == step && !owns(folder, tr_folder_run(item).number)) {
            char *text = describe(item);
            status = tr_fail(TR_EEXIST, "checkpoint: the folder '%s' has a checkpoint of another run with this name: %s", folder, text);
            free(text);
        }
    }
    tr_folder_free(&all);
    out->order++;
    out->run = (tr_checkpoint_run){mine.number, mine.began, own.command ? own.command : ""};
    return status;
}

/* == aside ========================================================================================= */

/* Make an empty folder 'DIR/aside-20261128-211500'; malloc'ed. NULL: it cannot be made. */
static char *make_aside(const char *folder)
{
    char *now = time_text((int64_t)time(NULL), "", "-", ""), *path = NULL;
    bool  is_taken = true;

    for (int i = 1; is_taken && i < 1000; i++) {
        free(path);
        path = i == 1 ? tr__must_format("%s/aside-%s", folder, now) : tr__must_format("%s/aside-%s-%d", folder, now, i);
        const bool is_made = mkdir(path, 0777) == 0;
        is_taken = !is_made && errno == EEXIST;
        if (!is_made && !is_taken) {
            free(path);
            path = NULL;
        }
    }
    free(now);
    return path;
}

static tr_status move_into(const char *aside, const char *folder, const char *name)
{
    char     *from = tr__must_format("%s/%s", folder, name), *to = tr__must_format("%s/%s", aside, name);
    tr_status status = TR_OK;

    if (rename(from, to) != 0)
        status = tr_fail(TR_EIO, "cannot move '%s' to '%s': %s", from, to, strerror(errno));
    free(from);
    free(to);
    return status;
}

/* What a training leaves beside its checkpoints: the values that its steps fetched. */
static tr_status move_left(const char *aside, const char *folder)
{
    DIR      *all = opendir(folder);
    tr_status status = TR_OK;

    for (struct dirent *entry; status == TR_OK && all && (entry = readdir(all));)
        if (!strncmp(entry->d_name, ".fetched-", 9))
            status = move_into(aside, folder, entry->d_name);
    if (all)
        closedir(all);
    return status;
}

static tr_status put_aside(char **said, const char *folder, const tr_folder *all, uint64_t number, bool takes_unnamed)
{
    const tr_folder_item *newest = find_foreign(all, number, takes_unnamed);
    char                 *aside = make_aside(folder), *text = describe(newest);
    tr_status             status = aside ? TR_OK : tr_fail(TR_EIO, "cannot make a folder in '%s': %s", folder, strerror(errno));
    int                   count = 0;

    for (int i = 0; status == TR_OK && i < all->count; i++)
        if (is_foreign(&all->item[i], number, takes_unnamed)) {
            char *path = tr_checkpoint_path(folder, all->item[i].step);
            status = move_into(aside, folder, strrchr(path, '/') + 1);
            count++;
            free(path);
        }
    if (status == TR_OK)
        status = move_left(aside, folder);
    if (status == TR_OK)
        *said = tr__must_format("the folder '%s' held %d checkpoint%s of another run (%s); %s '%s' now", folder, count, count > 1 ? "s" : "", text,
                                count > 1 ? "they lie in" : "it lies in", aside);
    free(aside);
    free(text);
    return status;
}

/* == entering a folder ============================================================================= */

/* The length of "train.py" in "train.py --steps 900". */
static size_t script_size(const char *command)
{
    return *command == '\'' ? strcspn(command + 1, "'") + 2 : strcspn(command, " ");
}

static bool is_same(const char *a, const char *b, tr_checkpoint_entry entry)
{
    const size_t size = script_size(a);

    if (entry == TR_ENTRY_RESUME || !*a || !*b)        /* not asked, or not known */
        return true;
    return entry == TR_ENTRY_RESUME_COMMAND ? !strcmp(a, b) : size == script_size(b) && !strncmp(a, b, size);
}

static tr_status go_on(tr__own_run *mine, const char *folder, const tr_folder *all, tr_checkpoint_entry entry, const char *command)
{
    const tr_folder_item *newest = find_newest(all);
    const int             run = tr_folder_find_other(all, 0);

    *mine = process_run();
    if (run < 0)
        return TR_OK;
    const tr_checkpoint_run its = tr_folder_run(&all->item[run]);
    const int               other = tr_folder_find_other(all, its.number);
    if (other >= 0)
        return refuse_several(folder, &all->item[run], &all->item[other]);
    if (!is_same(its.command, command ? command : "", entry))
        return refuse_command(folder, newest, command);
    *mine = (tr__own_run){its.number, its.began, true};
    become(*mine);
    return TR_OK;
}

/* A rank that was started again, or takes over from another one, finds the run's checkpoints. */
static void join(tr__own_run *mine, const tr_folder *all)
{
    const int run = tr_folder_find_other(all, 0);

    *mine = process_run();
    if (run < 0)
        return;
    const tr_checkpoint_run its = tr_folder_run(&all->item[run]);
    *mine = (tr__own_run){its.number, its.began, true};
    become(*mine);
}

static tr_status enter(char **said, tr__own_run *mine, const char *folder, tr_checkpoint_entry entry, const char *command, const tr_folder *all)
{
    if (entry == TR_ENTRY_JOIN) {
        join(mine, all);
        return TR_OK;
    }
    if (entry == TR_ENTRY_RESUME || entry == TR_ENTRY_RESUME_SCRIPT || entry == TR_ENTRY_RESUME_COMMAND)
        return go_on(mine, folder, all, entry, command);
    const tr__own_run before = *mine;                 /* a checkpoint of the folder was loaded */
    const bool      takes_unnamed = before.number != 0;
    if (!before.number)
        *mine = process_run();
    const tr_folder_item *foreign = find_foreign(all, mine->number, takes_unnamed);
    if (!foreign)
        return TR_OK;
    if (entry == TR_ENTRY_ANEW && !tr_place_of(folder)->has_folders)
        return tr_fail(TR_EUNSUPPORTED, "checkpoint: the folder '%s' holds checkpoints of another run, which a store cannot move", folder);
    return entry == TR_ENTRY_ANEW ? put_aside(said, folder, all, mine->number, takes_unnamed) : refuse_begin(folder, foreign);
}

tr_status tr__run_enter(char **said, const char *folder, tr_checkpoint_entry entry, const char *command)
{
    tr__own_run mine = tr__own_run_in(folder);
    tr_folder all;

    *said = NULL;
    if (command)
        set_command(command);
    if (mine.is_settled)
        return TR_OK;
    TR_TRY(tr_folder_scan(&all, folder));
    const tr_status status = enter(said, &mine, folder, entry, command, &all);
    tr_folder_free(&all);
    mine.is_settled = true;
    if (status == TR_OK)
        tr__own_run_set(folder, mine);
    return status;
}

tr_status tr_checkpoint_check(const char *folder, tr_checkpoint_entry entry, const char *command)
{
    tr__own_run mine = tr__own_run_in(folder);
    char     *said = NULL;
    tr_folder all;

    if (entry == TR_ENTRY_ANEW)
        return TR_OK;
    TR_TRY(tr_folder_scan(&all, folder));
    const tr_status status = enter(&said, &mine, folder, entry, command, &all);
    tr_folder_free(&all);
    return status;
}

void tr_checkpoint_follow(const tr_checkpoint *checkpoint)
{
    tr_checkpoint_run run;
    char             *folder = tr__must_strdup(tr_checkpoint_folder(checkpoint)), *end;

    for (end = folder + strlen(folder); end > folder + 1 && end[-1] == '/';)
        *--end = '\0';
    end = strrchr(folder, '/');
    if (end)
        *end = '\0';
    tr_checkpoint_run_of(&run, checkpoint);
    const char     *dir = !end ? "." : *folder ? folder : "/";
    const tr__own_run mine = tr__own_run_in(dir), unnamed = process_run();
    if (!mine.is_settled)
        tr__own_run_set(dir, run.number ? (tr__own_run){run.number, run.began, false} : (tr__own_run){unnamed.number, unnamed.began, false});
    free(folder);
}

/* == older checkpoints =========================================================================== */

void tr_checkpoint_prune(const char *dir, int keep)
{
    tr_folder all;
    int       kept = 0, first = -1;

    if (tr_folder_scan(&all, dir) != TR_OK)
        return;
    bool *stays = tr__must_array((size_t)all.count + 1, sizeof *stays);
    for (int i = 0; i < all.count; i++) {
        char *folder = tr_checkpoint_path(dir, all.item[i].step);
        if (!owns(dir, tr_folder_run(&all.item[i]).number)) {
            stays[i] = true;                           /* another run's checkpoint is not ours to remove */
        } else if (kept < keep) {
            tr_checkpoint  *checkpoint = NULL;
            const tr_status status = tr_checkpoint_open(&checkpoint, folder);
            stays[i] = status != TR_EFORMAT;        /* of one that cannot be read now it is not known what it is */
            if (status == TR_OK) {
                tr__base_mark(stays, &all, all.item[i].manifest);
                first = kept++ ? first : i;
                tr_checkpoint_free(checkpoint);
            }
        }
        free(folder);
    }
    for (int i = first; kept && i < all.count; i++) {
        char *folder = tr_checkpoint_path(dir, all.item[i].step);
        if (!stays[i])
            tr__checkpoint_remove(folder);
        free(folder);
    }
    free(stays);
    tr_folder_free(&all);
}

/* == the newest valid one ======================================================================== */

static void add_line(char **text, const char *line)
{
    const int length = (int)strcspn(line, "\n");       /* the first line of the error, without its trail */
    char     *more = *text ? tr__must_format("%s\n%.*s", *text, length, line) : tr__must_format("%.*s", length, line);

    free(*text);
    *text = more;
}

typedef tr_status (*check_checkpoint)(const tr_checkpoint *checkpoint, void *payload);

/* *out is NULL where the checkpoint is damaged. */
static tr_status open_valid(tr_checkpoint **out, char **refused, const char *path, check_checkpoint check, void *payload)
{
    tr_status  status = tr_checkpoint_open(out, path);
    const bool is_open = status == TR_OK;

    if (is_open)
        status = check ? check(*out, payload) : tr_checkpoint_verify(*out);
    if (status == TR_OK)
        return TR_OK;
    tr_checkpoint_free(*out);
    *out = NULL;
    if (is_open && status != TR_EFORMAT && status != TR_EIO)
        return status;
    add_line(refused, tr_error());
    return TR_OK;
}

tr_status tr_checkpoint_open_newest(tr_checkpoint **out, char **refused, const char *folder)
{
    return tr_checkpoint_open_newest_by(out, refused, folder, NULL, NULL);
}

tr_status tr_checkpoint_open_newest_by(tr_checkpoint **out, char **refused, const char *folder, check_checkpoint check, void *payload)
{
    tr_checkpoint *found = NULL;
    tr_folder      all;

    *refused = NULL;
    TR_TRY(tr_folder_scan(&all, folder));
    tr_status status = check_one(folder, &all);
    for (int i = 0; status == TR_OK && !found && i < all.count; i++) {
        char *path = tr_checkpoint_path(folder, all.item[i].step);
        if (all.item[i].has_manifest && owns(folder, tr_folder_run(&all.item[i]).number))
            status = open_valid(&found, refused, path, check, payload);
        free(path);
    }
    tr_folder_free(&all);
    *out = found;
    if (status == TR_OK && !found)
        status = tr_fail(TR_ENOTFOUND, "there is no checkpoint in '%s' that can be used%s%.2000s", folder, *refused ? ":\n" : "",
                         *refused ? *refused : "");
    if (status != TR_OK) {
        free(*refused);
        *refused = NULL;
    }
    return status;
}
