/* transport_mpi_begin.c - see transport_mpi_begin.h. It also makes MPI wait and yield as suits ranks that share processors. */
#include "pserver/transport/transport_mpi_begin.h"

#include "framework/base/memory.h"

#include <mpi.h>

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { ADDRESSES = 320 << 20 };     /* that Open MPI takes at its start, about */

/* Find the version of the mpirun that started this process: Open MPI 5 sets OMPI_VERSION, version 4 its orte settings. */
static int launcher_major(void)
{
    const char *version = getenv("OMPI_VERSION");
    if (version)
        return atoi(version);
    return getenv("OMPI_MCA_orte_hnp_uri") ? 4 : 0;
}

static bool is_mixture(char *error, size_t size)
{
    char    version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int     length, major = 0;
    Dl_info info = {0};

    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",")] = '\0';
    const int launcher = launcher_major();
    if (sscanf(version, "Open MPI v%d", &major) != 1 || !launcher || launcher == major)
        return false;
    /* The mpirun of version 5 without ft starts programs of 4.1 as single processes. Both mixtures end in a silent hang at best. */
    dladdr((void *)(uintptr_t)MPI_Init_thread, &info);
    snprintf(error, size, "mpirun is Open MPI %d, but the library that was loaded is %s (%s): use the mpirun that belongs "
             "to it, or set LD_LIBRARY_PATH to the libraries of that mpirun", launcher, version,
             info.dli_fname ? info.dli_fname : "?");
    return true;
}

/* If ranks exceed processors, Open MPI yields after every poll that finds nothing. comm.c knows better when to yield. The call belongs
 * to the library's inside: where it is missing, Open MPI keeps its own behaviour. */
static void set_yielding(bool yields)
{
    void (*set)(bool) = (void (*)(bool))(uintptr_t)dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
    if (set)
        set(yields);
}

/* While MPI starts and ends, its ranks wait for each other: each one looks every 100 us. Where a processor has many ranks, these looks take
 * all of its time, and the last rank comes late. So the kernel may let this thread sleep longer, by LOOK for each rank of a processor, and
 * by SHORTEST at least: also a rank alone waits for ranks of other hosts. */
static int let_sleep_long(void)
{
    enum { LOOK = 60000, SHORTEST = 500000, LONGEST = 10000000 };
    const char  *ranks = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const int    before = prctl(PR_GET_TIMERSLACK);
    cpu_set_t    set;
    const int    cpus = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    const double slack = (double)LOOK * (ranks ? atoi(ranks) : 1) / (cpus > 0 ? cpus : 1);

    const double bounded = slack > LONGEST ? LONGEST : slack < SHORTEST ? SHORTEST : slack;
    prctl(PR_SET_TIMERSLACK, (unsigned long)bounded);
    return before;
}

bool tr__mpi_begin(char *error, size_t size)
{
    int provided, is_initialized;

    if (is_mixture(error, size) || tr__lacks_addresses(error, size, "Open MPI", ADDRESSES))
        return false;
    MPI_Initialized(&is_initialized);
    if (is_initialized) {
        snprintf(error, size, "MPI was started by somebody else in this process");
        return false;
    }
    signal(SIGPIPE, SIG_IGN);                      /* btl tcp writes to dead peers, which raises SIGPIPE */
    setenv("HOME", "/tmp", 0);                     /* MPI's daemons need a home folder */
    const int slack = let_sleep_long();
    const int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    if (rc != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED) {
        snprintf(error, size, "MPI_Init_thread failed (thread support %d)", provided);
        return false;
    }
    set_yielding(false);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return true;
}

void tr__mpi_end(void)
{
    let_sleep_long();
    set_yielding(true);                            /* MPI's end polls without a pause */
    MPI_Finalize();
}
