/* folder.c - see folder.h. */
#include "storage/checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/memory.h"

/* == the list =================================================================================== */

static bool parse_step(int64_t *step, const char *name)
{
    char *end;

    if (strncmp(name, "step-", 5) || strlen(name) < 14 || strspn(name + 5, "0123456789") != strlen(name + 5))
        return false;
    errno = 0;
    *step = strtoll(name + 5, &end, 10);
    return errno == 0 && *end == '\0';
}

static bool has_manifest(int dir, const char *name)
{
    char path[300];

    return (size_t)snprintf(path, sizeof path, "%s/manifest", name) < sizeof path && faccessat(dir, path, F_OK, 0) == 0;
}

static void list_all(tr_folder *f, const char *dir)
{
    DIR    *all = opendir(dir);
    int     capacity = 0;
    int64_t step;

    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (!parse_step(&step, entry->d_name))
            continue;
        if (f->count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            f->item = tr__must_realloc(f->item, (size_t)capacity * sizeof *f->item);
        }
        f->item[f->count++] = (tr_folder_item){.step = step, .has_manifest = has_manifest(dirfd(all), entry->d_name)};
    }
    if (all)
        closedir(all);
}

static int by_step(const void *left, const void *right)
{
    const int64_t a = ((const tr_folder_item *)left)->step, b = ((const tr_folder_item *)right)->step;
    return (a > b) - (a < b);
}

static int newest_first(const void *left, const void *right)
{
    const tr_folder_item *a = left, *b = right;
    return a->order != b->order ? (a->order < b->order) - (a->order > b->order) : by_step(right, left);
}

/* A checkpoint that cannot be read was written at an unknown time: it takes its place by its step. */
static void sort(tr_folder *f)
{
    uint64_t highest = 0;

    if (!f->count)
        return;
    qsort(f->item, (size_t)f->count, sizeof *f->item, by_step);
    for (int i = 0; i < f->count; i++) {
        tr_folder_item *item = &f->item[i];
        if (!item->manifest)
            item->order = highest;
        else if (item->order > highest)
            highest = item->order;
    }
    qsort(f->item, (size_t)f->count, sizeof *f->item, newest_first);
}

void tr_folder_scan(tr_folder *out, const char *dir)
{
    *out = (tr_folder){0};
    list_all(out, dir);
    for (int i = 0; i < out->count; i++) {
        tr_folder_item *item = &out->item[i];
        char           *path = tr_checkpoint_path(dir, item->step);
        if (item->has_manifest && tr_manifest_read(&item->manifest, path) == TR_OK)
            item->order = item->manifest->has_order ? item->manifest->order : 0;
        free(path);
    }
    sort(out);
}

void tr_folder_free(tr_folder *folder)
{
    for (int i = 0; i < folder->count; i++)
        tr_manifest_free(folder->item[i].manifest);
    free(folder->item);
    *folder = (tr_folder){0};
}

tr_checkpoint_run tr_folder_run(const tr_folder_item *item)
{
    return item->manifest ? tr__run_of_manifest(item->manifest) : (tr_checkpoint_run){.command = ""};
}

int tr_folder_find_other(const tr_folder *folder, uint64_t except)
{
    for (int i = 0; i < folder->count; i++) {
        const uint64_t number = tr_folder_run(&folder->item[i]).number;
        if (number && number != except)
            return i;
    }
    return -1;
}

int tr_checkpoint_list(int64_t *steps, int room, const char *folder)
{
    tr_folder all;
    int       count = 0;

    tr_folder_scan(&all, folder);
    for (int i = 0; i < all.count; i++)
        if (all.item[i].has_manifest && count++ < room)
            steps[count - 1] = all.item[i].step;
    tr_folder_free(&all);
    return count;
}

/* == what is removed ============================================================================= */

static bool ends_with(const char *text, const char *end)
{
    const size_t size = strlen(text), length = strlen(end);
    return size >= length && !strcmp(text + size - length, end);
}

static bool is_ours(const char *name)
{
    return (!strncmp(name, "part-", 5) && (ends_with(name, ".data") || ends_with(name, ".tmp"))) ||
           (!strncmp(name, "manifest.", 9) && ends_with(name, ".tmp"));
}

static bool is_named(const char *name, int part_count, tr_part *const *parts)
{
    for (int i = 0; i < part_count; i++)
        if (!strcmp(name, parts[i]->file))
            return true;
    return false;
}

void tr__checkpoint_clean(const char *folder, int part_count, tr_part *const *parts)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_ours(entry->d_name) || is_named(entry->d_name, part_count, parts))
            continue;
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

void tr__checkpoint_remove(const char *folder)
{
    char *manifest = tr__must_format("%s/manifest", folder);

    unlink(manifest);                 /* from here on the folder is no checkpoint */
    tr__checkpoint_clean(folder, 0, NULL);
    rmdir(folder);                    /* fails if the folder has other files, which stay */
    free(manifest);
}
