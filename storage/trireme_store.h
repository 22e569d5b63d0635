/* trireme_store.h - the C API of what runs beside a process: shell commands, and the process that has the client of object stores. */
#ifndef TRIREME_STORE_H
#define TRIREME_STORE_H

#include "framework/trireme.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == commands =============================================================================== */

/* A shell command that runs beside this process, and how it ended: also where this process ignores SIGCHLD, or collects all its
 * children. */
typedef struct tr_command tr_command;

/* Start a command with the descriptor `input` as its standard input. It owns `input` from now on, also after a failure. *output: the read
 * end of a pipe from the command, the caller's to close. The pipe ends when the command has ended. */
TR_API tr_status tr_command_start(tr_command **out, int *output, int input, const char *text);
/* End the command and its children. Call it from any thread, before tr_command_end. */
TR_API void      tr_command_kill(tr_command *command);
/* Wait for the command's end, and free it. A failure: it did not end with exit code 0. `path` is the file that it read, for the message, or
 * NULL. */
TR_API tr_status tr_command_end(tr_command *command, const char *path);

/* == stores ================================================================================= */

/* The shell command that starts the process for files of stores, s3://... and others. Without this call it is the value of
 * TRIREME_STORE_COMMAND, or "trireme store" on the PATH. The process gets the environment that this one has now, also if it runs already. */
TR_API void      tr_store_set_command(const char *command);

#ifdef __cplusplus
}
#endif
#endif
