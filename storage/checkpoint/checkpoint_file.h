/* checkpoint_file.h - writes a file of a checkpoint. The file gets its name when it is on the disk.
 *
 * A thread writes while the caller prepares the next bytes. The queue between them is short, so that the memory is bounded. One thread
 * makes all calls. */
#ifndef TR_STORAGE_CHECKPOINT_FILE_H
#define TR_STORAGE_CHECKPOINT_FILE_H

#include "framework/base/status.h"

typedef struct tr_checkpoint_file tr_checkpoint_file;

/* Open `folder`/`name` for writing; missing folders are made. On failure there is nothing to close. */
tr_status tr_checkpoint_file_open(tr_checkpoint_file **out, const char *folder, const char *name);
/* Get memory for the next TR_CHECKPOINT_CHUNK bytes. After tr_checkpoint_file_write it belongs to the file again. */
uint8_t  *tr_checkpoint_file_chunk(tr_checkpoint_file *file);
/* Write the next bytes: the chunk that was taken last, or memory that does not change until the file is closed. The call may report a
 * failure of earlier bytes. */
tr_status tr_checkpoint_file_write(tr_checkpoint_file *file, const uint8_t *data, size_t size);
/* End the file. If `status` is TR_OK and all bytes were written, the file gets its name; otherwise it is removed. Returns the first
 * failure. */
tr_status tr_checkpoint_file_close(tr_checkpoint_file *file, tr_status status);

/* Flush a folder: its entries survive a loss of power only after this call. */
tr_status tr_checkpoint_sync_folder(const char *path);

#endif
