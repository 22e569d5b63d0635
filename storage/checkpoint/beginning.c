/* beginning.c - the place where a launch of a job began: a line for each trainer, in a file beside the checkpoints.
 *
 * The launcher may start a job again. Then the servers still hold the steps since the first start, and they count from the place where
 * the launch began. A trainer must know that place; the newest checkpoint may be a later one. */
#include "storage/checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"
#include "storage/checkpoint/run.h"

static const char PREFIX[] = ".began-";

/* Path of the file, malloc'ed. NULL: no launcher would start this job again. */
static char *path_in(const char *folder)
{
    const char *state = getenv("TRIREME_STATE");
    const char *name = state ? strrchr(state, '/') : NULL;

    name = name ? name + 1 : state;
    return name && *name ? tr__must_format("%s/%s%s", folder, PREFIX, name) : NULL;
}

/* Remove the file of another launch. */
static void remove_one(void *payload, const char *name)
{
    const char *folder = payload;

    if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0)
        return;
    char *path = tr__must_format("%s/%s", folder, name);
    tr_place_of(path)->remove(path);
    free(path);
}

static void write_places(FILE *out, const tr_checkpoint *from)
{
    tr_trainer_state place;

    for (int i = 0; i < tr_checkpoint_trainers(from); i++) {
        tr_checkpoint_trainer(&place, from, i);
        fprintf(out, "%d %lld %lld\n", place.index, (long long)place.steps, (long long)place.runs);
    }
    tr_checkpoint_place(&place, from, -1);         /* the line for trainers that the checkpoint does not know */
    fprintf(out, "-1 %lld %lld\n", (long long)place.steps, (long long)place.runs);
}

void tr_beginning_write(const char *folder, const tr_checkpoint *from)
{
    char  *path = path_in(folder), *text = NULL;
    size_t size = 0;
    FILE  *out = path ? open_memstream(&text, &size) : NULL;

    if (out) {
        (void)tr_place_of(folder)->list(folder, remove_one, (void *)(uintptr_t)folder);
        if (from)
            write_places(out, from);
        fclose(out);
        (void)tr_place_put(path, text, size);      /* if this fails, a restarted job begins at the beginning */
    }
    free(text);
    free(path);
}

void tr_beginning_read(tr_trainer_state *out, const char *folder, int index)
{
    enum { MOST = 1 << 26 };
    char     *path = path_in(folder);
    uint8_t  *text = NULL;
    size_t    size;
    int       known = -1;

    *out = (tr_trainer_state){.index = index};
    const bool is_there = path && tr_place_of(path)->get(&text, &size, path, MOST) == TR_OK;
    for (char *line = (char *)text; is_there && known != index && *line;) {
        char *const   begin = line;
        const int     at = (int)strtoll(line, &line, 10);
        const int64_t steps = strtoll(line, &line, 10), runs = strtoll(line, &line, 10);
        if (at == index || at == -1) {
            known = at;
            out->steps = steps;
            out->runs = runs;
        }
        if (line == begin)                         /* these are no numbers */
            break;
        line += strspn(line, "\n");
    }
    free(text);
    free(path);
}

/* Seconds since the file was written, or `so_far` if that is less or there is no file. */
static double age_of(const char *path, double so_far)
{
    struct timespec now;
    double          written;

    if (!path || tr_place_of(path)->look(NULL, &written, path) != TR_OK)
        return so_far;
    clock_gettime(CLOCK_REALTIME, &now);
    const double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - written;
    const double seen = age > 0 ? age : 0;         /* another host's clock may be ahead */
    return so_far < 0 || seen < so_far ? seen : so_far;
}

double tr_checkpoint_age(const char *folder)
{
    char   *began = path_in(folder);
    int64_t step;
    double  age = age_of(began, -1);

    free(began);
    if (tr_checkpoint_list(&step, 1, folder) > 0) {
        char *newest = tr_checkpoint_path(folder, step), *manifest = tr__must_format("%s/manifest", newest);
        age = age_of(manifest, age);
        free(manifest);
        tr_free(newest);
    }
    return age;
}

void tr__beginning_remove(const char *folder)
{
    char *path = path_in(folder);

    if (path)
        tr_place_of(path)->remove(path);
    free(path);
    tr__claim_end(folder);
}
