/* object_store.h - files of object stores, such as s3://bucket/part-0, and packed files that the core cannot unpack (.zst, .bz2).
 *
 * The clients of stores are libraries of Python. They have threads, connections and much memory; a rank may be a program in C, and may
 * fork. So a process of Python beside this one has the client (python/trireme/stores/serve.py). It starts with the first call, and ends
 * with this process.
 *
 * Each request is one message on a socket that both share. The message brings the other process two ends of sockets: one for the answer,
 * one for the bytes of the file. So requests of several threads need no order.
 *
 * What must stay true: the process bounds its waits for the store (TRIREME_STORE_TIMEOUT). Ours, for the process, are longer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "framework/base/status.h"
#include "storage/trireme_store.h"

/* Does this text name a file of a store: scheme://...? */
bool tr_store_is_uri(const char *path);
/* Does the store's process open this file: one of a store, or one that it unpacks? */
bool tr_store_opens(const char *path);
/* Is the file one that the process unpacks? It is read from its beginning then. */
bool tr_store_unpacks(const char *path);

/* A request under way. */
typedef struct tr_store_call tr_store_call;

/* Read the bytes from `begin` to `end`. *file: where they come from, the caller's to close. The process fetches ahead up to `soon`, and
 * beyond only what is read. At the end of the bytes tr_store_end says whether they are all. */
tr_status tr_store_read(tr_store_call **out, int *file, const char *path, int64_t begin, int64_t end, int64_t soon);
/* Write a new file. *file: where its bytes go; the caller shuts it down after the last (SHUT_WR), and closes it after tr_store_commit. */
tr_status tr_store_write(tr_store_call **out, int *file, const char *path);
/* The file has these bytes: give it its name, and free the call. Without this call there will be no such file. */
tr_status tr_store_commit(tr_store_call *call, uint64_t bytes);
/* Wait for the answer, and free the call. */
tr_status tr_store_end(tr_store_call *call);
/* Give the request up, and free the call. */
void      tr_store_drop(tr_store_call *call);
/* Wait until `file` has bytes, or has ended. A failure: the process is silent. */
tr_status tr_store_await(int file, const char *path);

/* The size of a file, and when it was written, in seconds since 1970; 0: not known. TR_ENOTFOUND: there is none. Each may be NULL. */
tr_status tr_store_size(int64_t *size, double *written, const char *path);
/* All bytes of a file of at most `most` bytes, malloc'ed, with a zero after them. TR_ENOTFOUND: there is none. */
tr_status tr_store_get(uint8_t **bytes, size_t *size, const char *path, uint64_t most);
/* The files in a folder and below it, a line "SIZE NAME" for each, sorted; malloc'ed. A folder that does not exist has none. */
tr_status tr_store_list(char **lines, const char *folder);
/* Remove a file. One that does not exist is no mistake. */
tr_status tr_store_remove(const char *path);
/* The folder of a new save in a folder of a store, malloc'ed (python/trireme/stores/saves.py). The save counts when its folder has the file
 * TR_STORE_SAVED, with the checksums of the others. */
#define TR_STORE_SAVED "__saved__"
tr_status tr_store_new_save(char **out, const char *folder);
/* A save of this folder is complete: remove the files that it has made old. */
tr_status tr_store_remove_old(const char *folder);
