#include "pserver/job/job_profile.h"

#include "framework/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *folder(void)
{
    const char *asked = getenv("TRIREME_PROFILE");
    return asked && *asked ? asked : NULL;
}

void tr__job_profile_begin(void)
{
    if (folder())
        tr_profiler_start();
}

void tr__job_profile_end(const tr_job *job)
{
    static const char *const roles[] = {"trainer", "server"};

    if (!folder() || tr_job_role(job) > TR_ROLE_SERVER)        /* the other roles run no operators */
        return;
    (void)mkdir(folder(), 0777);                       /* another rank may have made the folder */
    char *path = tr__must_format("%s/%s-%d.json", folder(), roles[tr_job_role(job)], tr_job_index(job));
    if (tr_profiler_stop(path) != TR_OK)
        fprintf(stderr, "trireme: %s\n", tr_error());
    free(path);
}
