/* restored.h - a server's part of a checkpoint that the job goes on from, before the setup is known: the rows of its shards, in tables.
 *
 * All servers read at the same time, each its own shards and its share of the rest, with checksums (rows_ahead.h). The setup takes the
 * tables (tr_restored_take), and then the values, whose places only the setup knows (tr_restored_value). The number of servers that
 * wrote the checkpoint does not matter.
 *
 * What must stay true: one thread at a time uses it. tr_restored_read and tr_restored_value take long. */
#pragma once

#include "pserver/store/server_part.h"
#include "storage/table/table.h"
#include "proto/pserver.pb-c.h"

typedef struct tr_restored tr_restored;

/* Read this server's part of the checkpoint in the folder `path`, whose number (tr_checkpoint_number) must be `number`. segments: name of
 * the server's segments, in which the tables lie; NULL: anonymous memory. TR_ENOTFOUND: this host does not have that checkpoint.
 * TR_EFORMAT, TR_EIO: it is damaged; the text names file and chunk. */
tr_status tr_restored_read(tr_restored **out, const char *path, uint64_t number, const tr_server_part *part, const char *segments);
/* Free it, and remove the tables that no setup has taken. NULL: nothing happens. */
void      tr_restored_free(tr_restored *restored);
uint64_t  tr_restored_number(const tr_restored *restored);

/* Take a table, which belongs to the caller then, with the configuration of the setup. TR_ENOTFOUND, TR_ESHAPE: the checkpoint has no such
 * table, or another one. */
tr_status tr_restored_take(tr_table **out, tr_restored *restored, const char *name, const tr_table_config *config,
                           const tr_table_segment *place);
/* Read the first value of a variable that the checkpoint has. */
tr_status tr_restored_value(const tr_restored *restored, const Trireme__Pserver__Value *value, void *to);

/* The name of the segments of a server's table; `segments` is that of the server's. NULL: none. */
const char *tr_server_table_name(char out[TR_SEGMENT_NAME], const char *segments, const char *table);
