/* own_run.h - this process's runs in folders of checkpoints (run.h), and whether it holds the folder's lock.
 *
 * A folder is known by device and number, whatever its name. It stays known until the process ends. Any thread may call these functions. */
#ifndef TR_STORAGE_CHECKPOINT_OWN_RUN_H
#define TR_STORAGE_CHECKPOINT_OWN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct tr__own_run {
    uint64_t number;                  /* of the run; 0: this process writes for none there */
    int64_t  began;
    bool     is_settled;              /* false: a checkpoint was read there, and none was written yet */
} tr__own_run;

tr__own_run tr__own_run_in(const char *folder);
void        tr__own_run_set(const char *folder, tr__own_run mine);

/* What a folder is known by. False: there is none. */
bool      tr__folder_identity(struct stat *out, const char *folder);
/* The file that holds the lock stays open until the process ends. */
bool      tr__folder_is_locked(const struct stat *folder);
void      tr__folder_note_lock(const struct stat *folder);

#endif
