/* store_process.h - the process of Python beside this one that reads and writes files of stores (object_store.h). */
#pragma once

#include <stddef.h>

#include "framework/base/status.h"

/* Send a request with two descriptors, copies of which the process gets. The process is started if it is not there, or has ended. `path` is
 * for messages. */
tr_status tr_store_process_send(void *request, size_t size, const int descriptors[2], const char *path);
/* The command that starts it. */
const char *tr_store_command(void);
