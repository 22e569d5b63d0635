/* lease.h - keeps the bytes of a mapped file when somebody is about to write over it.
 *
 * The kernel lets the owner of a file lease it: a process that opens the file for writing, or cuts it, then waits until the lease is given back, 45 seconds at
 * most (/proc/sys/fs/lease-break-time). Meanwhile the file is copied, and the copy is mapped in the place of the file. So whoever reads the mapping sees the same bytes
 * at the same addresses, at any moment. The copy is a file without a name in the same folder, or lies in memory where that cannot be. It goes with its mapping.
 *
 * A lease costs nothing until a writer comes. There is none for a file of another user (unless this process has CAP_LEASE), on most network file systems, and where
 * the file is open for writing. Then nothing is kept.
 *
 * One thread for all leases of a process looks every few milliseconds for writers that wait. In a forked child the first look at a lease makes its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_lease tr_lease;

/* Lease the file `path`, which is open as `fd` and mapped at `data`. NULL: it cannot be leased. The descriptor and the mapping stay the caller's. */
tr_lease *tr_lease_take(const char *path, int fd, void *data, uint64_t bytes);
/* Give the lease back before the mapping goes. NULL is allowed. */
void      tr_lease_free(tr_lease *lease);
/* Does the mapping have the bytes of a copy now, whatever becomes of the file? */
bool      tr_lease_has_copy(tr_lease *lease);
