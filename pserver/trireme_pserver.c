/* trireme_pserver.c - the program of a parameter server: ranks of an MPI job that need no Python.
 *
 *     mpirun -np 2 trireme-pserver : -np 4 python train.py
 *     mpirun -np 3 trireme-pserver --probe */
#include "pserver/transport/probe.h"
#include "pserver/trireme_dist.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: trireme-pserver [options]\n"
    "A parameter server of a Trireme job. Started by mpirun beside the trainers:\n"
    "    mpirun -np 2 trireme-pserver : -np 4 python train.py\n"
    "It gets its work from the trainers and ends when all of them have.\n"
    "  --timeout SECONDS        a rank that is silent for so long is dead      (3)\n"
    "  --heartbeat SECONDS      a sign of life at least this often             (0.5)\n"
    "  --start-timeout SECONDS  all ranks must have said hello by then         (60)\n"
    "  --grace SECONDS          to end by itself after another rank's death    (0.5)\n"
    "  --standby                  wait until a server of this host dies, and take its place\n"
    "  --replica                keep what a server of another host has, and serve nobody\n"
    "  --probe                  serve nobody: measure the ways between the ranks of this job\n"
    "  --help, --version\n";

/* 2, the exit code for a wrong command line. */
static int refuse(const char *what, const char *value)
{
    fprintf(stderr, "trireme-pserver: %s '%s'; see trireme-pserver --help\n", what, value);
    return 2;
}

static int read_seconds(double *out, const char *text)
{
    char *end;

    errno = 0;
    *out = strtod(text, &end);
    return errno || end == text || *end || !(*out > 0) || *out > 1e7 ? -1 : 0;
}

/* Returns 0: go on; 1: there is nothing more to do; 2: the command line is wrong. */
static int read_options(tr_job_options *options, tr_role *role, bool *is_probe, int argc, char **argv)
{
    enum { TIMEOUT = 1, HEARTBEAT, START_TIMEOUT, GRACE, STANDBY, REPLICA, PROBE, HELP, VERSION };
    static const struct option names[] = {
        {"timeout", required_argument, NULL, TIMEOUT}, {"heartbeat", required_argument, NULL, HEARTBEAT},
        {"start-timeout", required_argument, NULL, START_TIMEOUT}, {"grace", required_argument, NULL, GRACE},
        {"standby", no_argument, NULL, STANDBY}, {"replica", no_argument, NULL, REPLICA},
        {"probe", no_argument, NULL, PROBE},
        {"help", no_argument, NULL, HELP}, {"version", no_argument, NULL, VERSION}, {0},
    };
    double *const seconds[] = {NULL, &options->timeout, &options->heartbeat, &options->start_timeout, &options->grace};

    opterr = 0;
    for (int found, at; at = optind, (found = getopt_long(argc, argv, ":", names, NULL)) != -1;) {
        if (found == '?' || found == ':')
            return refuse(found == '?' ? "there is no option" : "a value is missing after", argv[at]);
        if (found == HELP || found == VERSION) {
            printf("%s%s", found == HELP ? usage : tr_version(), found == HELP ? "" : "\n");
            return 1;
        }
        if (found == STANDBY)
            *role = TR_ROLE_STANDBY;
        else if (found == REPLICA)
            *role = TR_ROLE_REPLICA;
        else if (found == PROBE)
            *is_probe = true;
        else if (read_seconds(seconds[found], optarg))
            return refuse("not a number of seconds above 0:", optarg);
    }
    return optind < argc ? refuse("not an option:", argv[optind]) : 0;
}

/* After a failure MPI is not finalized. */
static int probe(double timeout)
{
    if (tr_probe_run(stdout, timeout > 0 ? timeout : 60) == TR_OK)
        return 0;
    fflush(NULL);
    _exit(1);
}

/* Print why this process cannot join. */
static void tell_why_not(tr_status status)
{
    fprintf(stderr, "trireme-pserver: %s\n", tr_error());
    if (status != TR_ETIMEOUT)                     /* after a timeout the launcher itself names the rank that is late */
        tr_job_tell_failure(1, tr_error());
}

/* Keep freed memory in the process. A step's messages, some 100 KB each, are allocated and freed all the time. To get their memory from
 * the kernel anew, page by page and cleared, would cost as much as to fill it. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

int main(int argc, char **argv)
{
    tr_job_options options = {0};
    tr_job        *job = NULL;
    tr_role        role = TR_ROLE_SERVER;
    bool           is_probe = false;
    const int      found = read_options(&options, &role, &is_probe, argc, argv);

    if (found)
        return found == 1 ? 0 : found;
    if (is_probe)
        return probe(options.timeout);
    keep_memory();
    tr_job_prepare();
    tr_status status = tr_dist_init();
    if (status == TR_OK)
        status = tr_job_start(&job, role, &options);
    if (status == TR_OK)
        status = tr_job_serve(job);
    /* The job prints its own failure once. Failures before that are printed here. */
    if (!job && status != TR_EPEER)
        tell_why_not(status);
    const tr_status end = tr_job_free(job);
    const bool is_good = status == TR_OK && end == TR_OK;
    if (is_good && !tr_job_must_exit())
        return 0;
    fflush(NULL);
    _exit(is_good ? 0 : tr_job_exit_code());       /* MPI is not finalized after a death */
}
