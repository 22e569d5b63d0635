/* checkpoint_file.h - a file of a checkpoint, which is on the disk when it has its name.
 *
 * A thread of its own writes while the caller puts the next bytes together: pieces wait in a short line, so that the memory is
 * bounded. One thread calls. */
#ifndef TR_PSERVER_CHECKPOINT_FILE_H
#define TR_PSERVER_CHECKPOINT_FILE_H

#include "framework/status.h"

typedef struct tr_checkpoint_file tr_checkpoint_file;

/* `folder`/`name`, and the folders on the way. On failure there is nothing to close. */
tr_status tr_checkpoint_file_open(tr_checkpoint_file **out, const char *folder, const char *name);
/* Memory for the next TR_CHECKPOINT_CHUNK bytes; it belongs to the file again when it is written. */
uint8_t  *tr_checkpoint_file_chunk(tr_checkpoint_file *file);
/* Write the next bytes: the chunk that was taken last, or memory that does not change until the file is closed. The call may report a
 * failure of earlier bytes. */
tr_status tr_checkpoint_file_write(tr_checkpoint_file *file, const uint8_t *data, size_t size);
/* The end: of TR_OK, and when all could be written, the file gets its name; otherwise nothing of it stays. Returns the first failure. */
tr_status tr_checkpoint_file_close(tr_checkpoint_file *file, tr_status status);

/* Flush a folder: its entries survive a loss of power only after this call. */
tr_status tr_checkpoint_sync_folder(const char *path);

#endif
