/* bad_transport.c - the MPI transport with a fault: from rank 1 on, a byte of each large message is damaged (DAMAGE), or the
 * process dies when it sends the first (DIE). REAL is the path of trireme_mpi.so. */
#include "pserver/transport.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static const tr_transport_table *real;

static bool send_badly(tr_transport *t, int peer, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    if (real->rank(t) > 0 && bytes > 100000) {
#ifdef DIE
        _exit(7);
#else
        ((uint8_t *)(uintptr_t)payload)[bytes / 2] ^= 4;
#endif
    }
    return real->send(t, peer, header, payload, bytes, token);
}

extern tr_transport_table tr_transport_mpi;
tr_transport_table tr_transport_mpi;

__attribute__((constructor)) static void take(void)
{
    void *library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    real = library ? dlsym(library, "tr_transport_mpi") : NULL;
    if (!real)
        abort();
    tr_transport_mpi = *real;
    tr_transport_mpi.send = send_badly;
}
