/* transport.c - finding and loading the MPI transport. */
#include "pserver/transport/transport.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the library or program that this code is in; else wherever its run path leads. */
void tr_transport_find(char *out, size_t size, const char *given)
{
    static const char name[] = "trireme_mpi.so";
    Dl_info           info;

    if (!given)
        given = getenv("TRIREME_TRANSPORT");
    if (given) {
        snprintf(out, size, "%s", given);
        return;
    }
    if (dladdr((const void *)(uintptr_t)tr_transport_find, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
        snprintf(out, size, "%.*s/%s", (int)(strrchr(info.dli_fname, '/') - info.dli_fname), info.dli_fname, name);
        if (access(out, R_OK) == 0)
            return;
    }
    snprintf(out, size, "%s", name);
}

const tr_transport_table *tr_transport_load(const char *path, char *error, size_t size)
{
    /* The library of the mpirun that started us comes first; the transport's own run path is for when there is
     * none on the loader's path. */
    dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(error, size, "cannot load the MPI transport: %s", dlerror());
        return NULL;
    }
    const tr_transport_table *table = dlsym(library, "tr_transport_mpi");
    if (table && table->version == TR_TRANSPORT_VERSION)
        return table;
    snprintf(error, size, "'%s' is not the transport of this version of Trireme", path);
    return NULL;
}
