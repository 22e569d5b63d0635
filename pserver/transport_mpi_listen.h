/* transport_mpi_listen.h - closes the TCP ports that MPI opens in a rank of a job of one host.
 *
 * Ranks of one host talk over shared memory. MPI still needs its TCP part: without it, a rank that dies before all have joined ends the
 * others' MPI_Init with pages of messages. That part listens on all interfaces, and no parameter of Open MPI 4.1 or 5 changes that. Nobody
 * connects to it, so a file that is never ready takes the place of each socket. MPI keeps its descriptors.
 *
 * Until all ranks have joined, while MPI_Init waits for them, the ports are open. */
#ifndef TR_PSERVER_TRANSPORT_MPI_LISTEN_H
#define TR_PSERVER_TRANSPORT_MPI_LISTEN_H

#include <stdbool.h>

enum { TR_LISTENERS_MAX = 1024 };

/* Descriptors below the greatest number that are sockets which listen on all interfaces. */
typedef struct tr_listeners {
    bool is_listening[TR_LISTENERS_MAX];
} tr_listeners;

void tr__listeners_find(tr_listeners *out);
/* Close all that are there now and not in `before`, the script's own. */
void tr__listeners_close_new(const tr_listeners *before);

#endif
