/* place.h - where the files of checkpoints lie: in a folder of this machine, or in a folder of a store, such as s3://bucket/run.
 *
 * A place is a table of functions. The path of a file says which place has it. Nothing here needs a store to rename, to lock, or to
 * change a file: a file gets its name when it is complete, and is read or removed.
 *
 * What must stay true: folders exist in stores only by their files. Making, flushing and removing a folder means nothing there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "framework/base/status.h"

/* A file that is being written. */
typedef struct tr_new_file tr_new_file;
/* Bytes of a file that are being read, one after the other. */
typedef struct tr_range tr_range;

typedef struct tr_place {
    /* Begin a file. Missing folders are made. */
    tr_status (*create)(tr_new_file **out, const char *path);
    tr_status (*write)(tr_new_file *file, const void *bytes, size_t size);
    /* End the file, and free it. If `status` is TR_OK, the file gets its name when all its bytes are safe; otherwise there is no file.
     * Returns the first failure. */
    tr_status (*finish)(tr_new_file *file, tr_status status);
    /* Begin to read the bytes from `begin` to `end`. */
    tr_status (*open)(tr_range **out, const char *path, uint64_t begin, uint64_t end);
    tr_status (*read)(tr_range *range, void *to, size_t size);
    void      (*close)(tr_range *range);
    /* All bytes of a file of at most `most` bytes, malloc'ed, with a zero after them. TR_ENOTFOUND: there is none. */
    tr_status (*get)(uint8_t **bytes, size_t *size, const char *path, uint64_t most);
    /* The size of a regular file, and when it was written (seconds since 1970); each may be NULL. TR_ENOTFOUND: there is none. */
    tr_status (*look)(uint64_t *size, double *written, const char *path);
    /* Call `take` with the name of each file and each folder in this folder. A folder that does not exist has none. */
    tr_status (*list)(const char *folder, void (*take)(void *payload, const char *name), void *payload);
    tr_status (*move)(const char *from, const char *to);
    /* Remove a file, or an empty folder. One that does not exist, or is not empty, stays as it is. */
    void      (*remove)(const char *path);
    bool        has_folders;          /* folders exist without files; they can be renamed and locked */
} tr_place;

extern const tr_place tr__place_local, tr__place_store;

const tr_place *tr_place_of(const char *path);
/* The path of a file in a folder that may come from somebody else; malloc'ed. The name leads nowhere else. */
tr_status tr_place_inside(char **out, const char *folder, const char *name);
/* Write a whole file. */
tr_status tr_place_put(const char *path, const void *bytes, size_t size);
/* Is there a file? A failure: the store does not say. */
tr_status tr_place_has(bool *has, const char *path);
