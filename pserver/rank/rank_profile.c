#include "pserver/rank/rank_profile.h"

#include "framework/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *folder(void)
{
    const char *asked = getenv("TRIREME_PROFILE");
    return asked && *asked ? asked : NULL;
}

void tr__rank_profile_begin(void)
{
    if (folder())
        tr_profiler_start();
}

void tr__rank_profile_end(const tr__rank *rank)
{
    static const char *const roles[] = {"trainer", "server"};
    const tr_roster         *roster = tr_comm_roster(rank->comm);

    if (!folder() || rank->role > TR_ROLE_SERVER)        /* the other roles run no operators */
        return;
    (void)mkdir(folder(), 0777);                       /* another rank may have made the folder */
    char *path = tr__must_format("%s/%s-%d.json", folder(), roles[rank->role], roster->rank[roster->self].index);
    if (tr_profiler_stop(path) != TR_OK)
        fprintf(stderr, "trireme: %s\n", tr_error());
    free(path);
}
