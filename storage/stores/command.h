/* command.h - a shell command that reads one file and writes lines, and how it ended.
 *
 * A process may ignore SIGCHLD, or collect all of its children in a handler. Then nobody learns from the kernel how a child ended. So a
 * small process stands between us and the shell. It waits for the shell, and writes the shell's status into our memory, which it shares.
 * See docs/adr/0050.
 *
 * trireme_store.h declares tr_command_start, tr_command_kill and tr_command_end. */
#pragma once

#include "framework/base/status.h"
#include "storage/trireme_store.h"

/* Let commands that start from now on get the present environment. Call it in the main thread, before other threads compute. */
void         tr_command_keep_environment(void);
/* The environment of commands that start now, with a NULL behind the last line. It stays as it is until this process ends. NULL: it was not
 * kept yet. */
char *const *tr_command_environment(void);
