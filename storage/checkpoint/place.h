/* place.h - this process's places in folders of checkpoints: the run that it writes for (run.h), and whether it holds the folder's lock.
 *
 * A folder is known by device and number, whatever its name. It stays known until the process ends. Any thread may call these functions. */
#ifndef TR_STORAGE_CHECKPOINT_PLACE_H
#define TR_STORAGE_CHECKPOINT_PLACE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

typedef struct tr__place {
    uint64_t number;                  /* of the run; 0: this process has no place there */
    int64_t  began;
    bool     is_settled;              /* false: a checkpoint was read there, and none was written yet */
} tr__place;

tr__place tr__place_in(const char *folder);
void      tr__place_set(const char *folder, tr__place place);

/* The file that holds the lock stays open until the process ends. */
bool      tr__place_is_locked(const struct stat *folder);
void      tr__place_note_lock(const struct stat *folder);

#endif
