/* guard.h - reads of mapped files that somebody may cut meanwhile.
 *
 * The kernel answers a read of a page that the file no longer has by SIGBUS, which ends a process. In a guarded call of a thread the read ends the
 * call instead. A SIGBUS anywhere else goes to the handler that was there before (docs/adr/0047). */
#pragma once

#include <stdbool.h>

/* Call `read(payload)`. Return false if it read memory that the kernel could not give; then it was left in the middle. So it may hold no lock and
 * own no memory while it reads mapped files. Calls do not nest. */
bool tr_guard_call(void (*read)(void *payload), void *payload);
