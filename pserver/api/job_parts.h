/* job_parts.h - the parts of a checkpoint that is being made: the servers' answers, and the manifest of all parts.
 *
 * What must stay true: only the thread that writes the checkpoint uses it. */
#pragma once

#include "pserver/core/client/client.h"
#include "pserver/core/snapshots/places.h"
#include "storage/checkpoint/checkpoint.h"

typedef struct tr__parts {
    tr_part **item;
    int       count;
    Trireme__Pserver__SnapshotDone **answer;
    int       answers, servers;
} tr__parts;

void      tr__parts_init(tr__parts *parts, int servers, int trainers);
void      tr__parts_deinit(tr__parts *parts);
/* Add a part that a trainer has written (or NULL). `parts` owns it. */
void      tr__parts_add(tr__parts *parts, tr_part *own);
/* Take the answers of all servers from the client. */
tr_status tr__parts_hear(tr__parts *parts, const tr_client *client);
/* Take the parts from the answers. Fails if a part is missing. */
tr_status tr__parts_take(tr__parts *parts);
/* Write the manifest. `facts` is without trainers and tasks: these come from the answers. groups: as tr_manifest_write has them. */
tr_status tr__parts_write_manifest(const tr__parts *parts, const char *dir, const char *folder, tr_checkpoint_facts facts,
                                   const char *groups, uint64_t snapshot, const tr_places *places);
int64_t   tr__parts_bytes(const tr__parts *parts);
/* The longest time, in seconds, in which a server applied no update because of the snapshot. */
double    tr__parts_pause(const tr__parts *parts);
