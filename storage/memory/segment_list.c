/* segment_list.c - the names of segments that exist. */
#include "framework/base/memory.h"
#include "storage/memory/segment.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char FOLDER[] = "/dev/shm";

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct names {
    char  *text;                      /* one after the other */
    size_t bytes, capacity;
    int    count;
} names;

static bool names_put(names *all, const char *name)
{
    const size_t size = strlen(name) + 1;

    if (all->bytes + size > all->capacity) {
        const size_t capacity = 2 * all->capacity + size + 256;
        char        *text = realloc(all->text, capacity);
        if (!text)
            return false;
        all->text = text;
        all->capacity = capacity;
    }
    memcpy(all->text + all->bytes, name, size);
    all->bytes += size;
    all->count++;
    return true;
}

static tr_status collect(names *all, const char *prefix)
{
    DIR *folder = opendir(FOLDER);

    if (!folder)
        return tr_fail(TR_EIO, "cannot list %s: %s", FOLDER, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix)) && !names_put(all, entry->d_name)) {
            closedir(folder);
            return tr_fail(TR_ENOMEM, "no memory for the names of segments");
        }
    closedir(folder);
    return TR_OK;
}

tr_status tr_segment_list(char ***out, int *count, const char *prefix)
{
    names           all = {0};
    const tr_status status = collect(&all, prefix);
    const size_t    pointers = ((size_t)all.count + 1) * sizeof(char *);
    char          **list = status == TR_OK ? tr__must_bytes(pointers + all.bytes) : NULL;

    if (list) {
        char *text = (char *)list + pointers;
        if (all.bytes)
            memcpy(text, all.text, all.bytes);
        for (int i = 0; i < all.count; i++, text += strlen(text) + 1)
            list[i] = text;
        list[all.count] = NULL;
        qsort(list, (size_t)all.count, sizeof *list, by_name);
        *out = list;
        *count = all.count;
    }
    free(all.text);
    return status;
}
