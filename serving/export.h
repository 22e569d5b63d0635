/* export.h - the folder that a training exports to: which model in it is the newest, and of what it is made.
 *
 * The file `current` says so, in lines of words. It is replaced as a whole, so that a reader sees one export or the next:
 *
 *     trireme-export 2
 *     version 7
 *     step 1200
 *     full full-000000005 8f3a90c1
 *     delta delta-000000006 02be47d5
 *     delta delta-000000007 c4d1f60e
 *     end 5d0a93b2
 *
 * `full` is a folder with a whole model, each `delta` one with the parameters, and the rows of tables that changed since the one before.
 * The number after a folder is the checksum of its file `__checksums__`, which has those of its files (storage/checkpoint/checksums.h).
 * `end` has the checksum of the lines before. An export of version 1 has no checksums. */
#pragma once

#include "storage/checkpoint/checksums.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_EXPORT_PARTS = 1024 };

typedef struct tr_export {
    int64_t version, step;
    int     count;                    /* of the folders; the first is the full one */
    char   *part[TR_EXPORT_PARTS];    /* their paths */
    tr_checksums *sums[TR_EXPORT_PARTS]; /* their checksums; NULL: there are none */
    bool    has_sums;                 /* all parts have */
} tr_export;

/* Whether the folder is one of exports. */
bool      tr_export_is(const char *folder);
/* Read `current`, and the checksums of the folders. TR_EFORMAT: something is damaged. */
tr_status tr_export_read(tr_export *out, const char *folder);
/* The folder is one saved model, whose program lies in `model_file`. */
tr_status tr_export_lone(tr_export *out, const char *folder, const char *model_file);
void      tr_export_deinit(tr_export *export);
