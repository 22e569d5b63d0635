/* transport.c - finds and loads the MPI transport. */
#include "pserver/transport/transport.h"

#include "pserver/util/schedule.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path beside the library or program that holds this code, or in the folder above: in a wheel the library lies in trireme/lib, the
 * transport in trireme. Otherwise the name alone, for the loader's search path. */
void tr_transport_find(char *out, size_t size, const char *given)
{
    static const char        name[] = "trireme_mpi.so";
    static const char *const folders[] = {"", "../"};
    Dl_info                  info;

    if (!given)
        given = getenv("TRIREME_TRANSPORT");
    if (given) {
        snprintf(out, size, "%s", given);
        return;
    }
    if (dladdr((const void *)(uintptr_t)tr_transport_find, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
        const int length = (int)(strrchr(info.dli_fname, '/') + 1 - info.dli_fname);
        for (int i = 0; i < 2; i++) {
            snprintf(out, size, "%.*s%s%s", length, info.dli_fname, folders[i], name);
            if (access(out, R_OK) == 0)
                return;
        }
    }
    snprintf(out, size, "%s", name);
}

/* Load libmpi: that of the mpirun that started this process, which is on the loader's path, else that of the environment. A wheel's
 * transport lies in lib/python3.x/site-packages/trireme, and names no library itself. False: the reason is in *error. */
static bool load_mpi(const char *transport, char *error, size_t size)
{
    const char *end = strrchr(transport, '/');
    char        path[4096];

    if (dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL))
        return true;
    snprintf(error, size, "%s", dlerror());
    snprintf(path, sizeof path, "%.*s../../../libmpi.so.40", end ? (int)(end + 1 - transport) : 0, transport);
    return end && dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

const tr_transport_table *tr_transport_load(const char *path, char *error, size_t size)
{
    char       why[512] = "";
    const bool has_mpi = load_mpi(path, why, sizeof why);
    void      *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library) {                                /* a transport that is linked with libmpi has a run path of its own */
        const char *text = dlerror();
        snprintf(error, size, "cannot load the MPI transport: %s", !has_mpi && strstr(text, "undefined symbol") ? why : text);
        return NULL;
    }
    const tr_transport_table *table = dlsym(library, "tr_transport_mpi");
    if (table && table->version == TR_TRANSPORT_VERSION) {
        if (table->schedule) {
            tr__schedule = table->schedule;
            tr__schedule->begin();
        }
        return table;
    }
    snprintf(error, size, "'%s' is not the transport of this version of Trireme", path);
    return NULL;
}
