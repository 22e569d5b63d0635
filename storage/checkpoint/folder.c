/* folder.c - see folder.h. */
#include "storage/checkpoint/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "storage/checkpoint/place.h"

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

static void add_step(void *payload, const char *name)
{
    tr_folder *f = payload;
    int64_t    step;

    if (!parse_step(&step, name))
        return;
    if ((f->count & (f->count - 1)) == 0)          /* at a power of two the list is full: double it */
        f->item = tr__must_realloc(f->item, (size_t)(f->count ? 2 * f->count : 1) * sizeof *f->item);
    f->item[f->count++] = (tr_folder_item){.step = step};
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

/* A manifest that is damaged counts as one that is there. A failure: the store does not answer. */
static tr_status read_item(tr_folder_item *item, const char *dir)
{
    char     *path = tr_checkpoint_path(dir, item->step);
    tr_status status = tr__manifest_find(&item->manifest, path);

    item->has_manifest = status != TR_ENOTFOUND;
    if (item->manifest)
        item->order = item->manifest->has_order ? item->manifest->order : 0;
    else if (tr_place_of(dir)->has_folders || status == TR_EFORMAT || status == TR_ENOTFOUND)
        status = TR_OK;
    free(path);
    return status;
}

tr_status tr_folder_scan(tr_folder *out, const char *dir)
{
    *out = (tr_folder){0};
    tr_status status = tr_place_of(dir)->list(dir, add_step, out);
    for (int i = 0; status == TR_OK && i < out->count; i++)
        status = read_item(&out->item[i], dir);
    if (status != TR_OK)
        tr_folder_free(out);
    else
        sort(out);
    return status;
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

    if (tr_folder_scan(&all, folder) != TR_OK)
        return -1;
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

typedef struct cleaning {
    const char     *folder, *dir;
    const tr_place *place;
    int             part_count;
    tr_part *const *parts;
    tr_folder       all;              /* the checkpoints of `dir`, when they were read: seldom, where one takes the place of another one */
    bool            is_read;
    tr_status       status;
} cleaning;

/* Does a checkpoint build on this file? The names of files have random numbers, so they alone say which one is meant. */
static bool is_needed(cleaning *c, const char *name)
{
    if (!c->is_read)
        c->status = tr_folder_scan(&c->all, c->dir);
    c->is_read = true;
    for (int i = 0; c->status == TR_OK && i < c->all.count; i++) {
        const tr_manifest *m = c->all.item[i].manifest;
        if (m && is_named(name, (int)m->n_parts, m->parts))
            return true;
    }
    return c->status != TR_OK;
}

static void clean_one(void *payload, const char *name)
{
    cleaning *c = payload;

    if (!is_ours(name) || is_named(name, c->part_count, c->parts) || (c->dir && is_needed(c, name)))
        return;
    char *path = tr__must_format("%s/%s", c->folder, name);
    c->place->remove(path);
    free(path);
}

void tr__checkpoint_clean(const char *folder, const char *dir, int part_count, tr_part *const *parts)
{
    cleaning c = {.folder = folder, .dir = dir, .place = tr_place_of(folder), .part_count = part_count, .parts = parts};

    c.place->list(folder, clean_one, &c);
    tr_folder_free(&c.all);
}

void tr__checkpoint_remove(const char *folder)
{
    const tr_place *place = tr_place_of(folder);
    char           *manifest = tr__must_format("%s/manifest", folder);

    place->remove(manifest);          /* from here on the folder is no checkpoint */
    tr__checkpoint_clean(folder, NULL, 0, NULL);
    if (place->has_folders)
        place->remove(folder);        /* fails if the folder has other files, which stay */
    free(manifest);
}
