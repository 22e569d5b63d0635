/* trireme_notice.h - notices about a rank for the launcher that started the job (`trireme launch`), each a file of the folder
 * TRIREME_JOB_FOLDER. docs/launcher.md lists the writer, the text and the effect of each. */
#ifndef TRIREME_NOTICE_H
#define TRIREME_NOTICE_H

#include "framework/trireme.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tr_notice {
    TR_NOTICE_BEGAN = 0,
    TR_NOTICE_JOINS = 1,
    TR_NOTICE_LATE = 2,
    TR_NOTICE_JOINED = 3,
    TR_NOTICE_BEGINS = 4,
    TR_NOTICE_LISTENS = 5,
    TR_NOTICE_ASKED = 6,
    TR_NOTICE_PROGRESS = 7,
    TR_NOTICE_FOLLOWS = 8,
    TR_NOTICE_REPLACEMENT = 9,
    TR_NOTICE_SILENT = 10,
    TR_NOTICE_LOST = 11,
    TR_NOTICE_DIED = 12,
    TR_NOTICE_STARVED = 13,
    TR_NOTICE_LEFT = 14,
    TR_NOTICE_DONE = 15,
    TR_NOTICE_FAILED = 16,
    TR_NOTICE_TOLD = 17,
    TR_NOTICE_COUNT
} tr_notice;

/* The file's name, before the dot and the rank: "began". */
TR_API const char *tr_notice_file(tr_notice what);
/* Tell it of this process. False: no launcher has started this process, or the file could not be written. `text` may be NULL: the file is
 * empty. A reader finds the whole text or no file. */
TR_API bool tr_notice_tell(tr_notice what, const char *text);
/* The name of the signal ("SIGTERM") for which mpirun sends SIGUSR1 to the ranks; the launcher leaves it in the folder. Without it:
 * `or_else`. The name is written into `name`. */
TR_API const char *tr_notice_asked_by(char *name, size_t size, const char *or_else);

#ifdef __cplusplus
}
#endif
#endif
