/* bad_transport.c - the MPI transport with a fault: from rank 1 on, a byte of each large message is damaged (DAMAGE), or the
 * process dies when it sends the first (DIE); or rank LAST dies when all have said goodbye; or rank STUCK turns for ever inside MPI once
 * the file FLAG is there, at the first start of the job; or server 0 has said to all that it serves when the job is started again, hears no
 * answer, and dies a second later (DEAF). REAL is the path of trireme_mpi.so. */
#include "pserver/transport/transport.h"
#include "pserver/wire/wire.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const tr_transport_table *real;

#ifdef LAST
static void stop_badly(tr_transport *t, bool is_well)
{
    if (real->rank(t) == LAST)
        raise(SIGKILL);
    real->stop(t, is_well);
}
#elif defined STUCK
static int poll_badly(tr_transport *t)
{
    const char *attempt = getenv("TRIREME_ATTEMPT");

    while (real->rank(t) == STUCK && attempt && !atoi(attempt) && access(FLAG, F_OK) == 0)
        continue;
    return real->poll(t);
}
#elif defined(DEAF)
static int    told;
static time_t deaf_since;

static int poll_badly(tr_transport *t)
{
    if (told < real->size(t) - 1)
        return real->poll(t);
    if (!deaf_since)
        deaf_since = time(NULL);
    if (time(NULL) > deaf_since + 1)
        raise(SIGKILL);
    return 0;
}

static bool send_badly(tr_transport *t, int peer, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    const char *attempt = getenv("TRIREME_ATTEMPT");

    told += real->rank(t) == 0 && attempt && atoi(attempt) == 1 && header[4] == TR_WIRE_SERVING;
    return real->send(t, peer, header, payload, bytes, token);
}
#else
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
#endif

extern tr_transport_table tr_transport_mpi;
tr_transport_table tr_transport_mpi;

__attribute__((constructor)) static void take(void)
{
    void *library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    real = library ? dlsym(library, "tr_transport_mpi") : NULL;
    if (!real)
        abort();
    tr_transport_mpi = *real;
#if defined(LAST)
    tr_transport_mpi.stop = stop_badly;
#elif defined(STUCK)
    tr_transport_mpi.poll = poll_badly;
#elif defined(DEAF)
    tr_transport_mpi.poll = poll_badly;
    tr_transport_mpi.send = send_badly;
#else
    tr_transport_mpi.send = send_badly;
#endif
}
