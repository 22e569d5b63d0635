/* beginning.c - the place where a launch of a job began: a line for each trainer, in a file beside the checkpoints.
 *
 * The launcher may start a job again. Then the servers still hold the steps since the first start, and they count from the place where
 * the launch began. A trainer must know that place; the newest checkpoint may be a later one. */
#include "storage/checkpoint/checkpoint.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "framework/tensors/beside.h"

static const char PREFIX[] = ".began-";

/* Path of the file, malloc'ed. NULL: no launcher would start this job again. */
static char *path_in(const char *folder)
{
    const char *state = getenv("TRIREME_STATE");
    const char *name = state ? strrchr(state, '/') : NULL;

    name = name ? name + 1 : state;
    return name && *name ? tr__must_format("%s/%s%s", folder, PREFIX, name) : NULL;
}

/* Remove the files of other launches. */
static void remove_all(const char *folder)
{
    DIR *all = opendir(folder);

    for (struct dirent *one; all && (one = readdir(all));)
        if (!strncmp(one->d_name, PREFIX, sizeof PREFIX - 1)) {
            char *path = tr__must_format("%s/%s", folder, one->d_name);
            unlink(path);
            free(path);
        }
    if (all)
        closedir(all);
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
    char     *path = path_in(folder);
    tr_beside file;

    if (path)
        remove_all(folder);
    if (path && tr_beside_open(&file, path) == TR_OK) {
        if (from)
            write_places(file.out, from);
        tr_beside_close(&file, TR_OK);             /* if this fails, a restarted job begins at the beginning */
    }
    free(path);
}

void tr_beginning_read(tr_trainer_state *out, const char *folder, int index)
{
    char     *path = path_in(folder);
    FILE     *in = NULL;
    int       known = -1;
    long long steps, runs;

    *out = (tr_trainer_state){.index = index};
    if (path && tr_path_fopen(&in, NULL, path) != TR_OK)
        in = NULL;
    for (int at; in && known != index && fscanf(in, "%d %lld %lld", &at, &steps, &runs) == 3;)
        if (at == index || at == -1) {
            known = at;
            out->steps = steps;
            out->runs = runs;
        }
    if (in)
        fclose(in);
    free(path);
}

/* Seconds since the file was written, or `so_far` if that is less or there is no file. */
static double age_of(const char *path, double so_far)
{
    struct timespec now;
    struct stat     info;

    if (!path || stat(path, &info) != 0)
        return so_far;
    clock_gettime(CLOCK_REALTIME, &now);
    const double age = (double)(now.tv_sec - info.st_mtim.tv_sec) + (double)(now.tv_nsec - info.st_mtim.tv_nsec) / 1e9;
    const double seen = age > 0 ? age : 0;         /* another host's clock may be ahead */
    return so_far < 0 || seen < so_far ? seen : so_far;
}

double tr_checkpoint_age(const char *folder)
{
    char   *began = path_in(folder);
    int64_t step;
    double  age = age_of(began, -1);

    free(began);
    if (tr_checkpoint_list(&step, 1, folder)) {
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
        unlink(path);
    free(path);
}
