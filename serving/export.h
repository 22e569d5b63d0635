/* export.h - the folder that a training exports to: which model in it is the newest, and of what it is made.
 *
 * The file `current` says so, in lines of words. It is replaced as a whole, so that a reader sees one export or the next:
 *
 *     trireme-export 1
 *     version 7
 *     step 1200
 *     full full-000000005
 *     delta delta-000000006
 *     delta delta-000000007
 *
 * `full` is a folder with a whole model, each `delta` one with the parameters, and the rows of tables that changed since the one before. */
#ifndef TR_SERVING_EXPORT_H
#define TR_SERVING_EXPORT_H

#include "framework/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_EXPORT_PARTS = 1024 };

typedef struct tr_export {
    int64_t version, step;
    int     count;                    /* of the folders; the first is the full one */
    char   *part[TR_EXPORT_PARTS];    /* their paths */
} tr_export;

/* Whether the folder is one of exports. */
bool      tr_export_is(const char *folder);
/* Read `current`. TR_EFORMAT: it is damaged. */
tr_status tr_export_read(tr_export *out, const char *folder);
void      tr_export_deinit(tr_export *export);

#endif
