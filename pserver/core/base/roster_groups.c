/* roster_groups.c - host groups: which trainers' gradients are added up first, and which of them carries the requests of all (roster.h). */
#include "pserver/core/base/roster_state.h"

#include "framework/base/memory.h"
#include "framework/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_roster_share_host(const tr_roster *roster, int rank, int other)
{
    const char *host = roster->rank[rank].host_id;
    return host && host[0] && roster->rank[other].host_id && !strcmp(host, roster->rank[other].host_id);
}

static void form_groups_by_hosts(tr_roster *roster)
{
    for (int i = roster->trainers - 1; i >= 0; i--) {
        const bool goes_on = i + 1 < roster->trainers && tr_roster_share_host(roster, roster->trainer_rank[i], roster->trainer_rank[i + 1]);
        roster->group_end[i] = goes_on ? roster->group_end[i + 1] : i + 1;
    }
}

/* Form groups of these sizes: "4,4,2". False: these are not the sizes of groups of all trainers. */
static bool form_groups_of(tr_roster *roster, const char *sizes)
{
    int first = 0;

    while (first < roster->trainers) {
        char      *end;
        const long size = strtol(sizes, &end, 10);
        if (end == sizes || size < 1 || size > roster->trainers - first)
            return false;
        for (int i = first; i < first + (int)size; i++)
            roster->group_end[i] = first + (int)size;
        first += (int)size;
        sizes = *end == ',' && first < roster->trainers ? end + 1 : end;
    }
    return !*sizes;
}

/* A run keeps its groups when it goes on on other hosts, because the order in which gradients are added belongs to its results. */
tr_status tr__roster_form_groups(tr_roster *roster)
{
    const char *sizes = getenv("TRIREME_HOST_GROUPS");

    form_groups_by_hosts(roster);
    if (sizes && *sizes && !form_groups_of(roster, sizes))
        return tr_fail(TR_EINVAL, "TRIREME_HOST_GROUPS='%s' in the environment: sizes of groups that are %d trainers in all are possible, "
                       "such as %d", sizes, roster->trainers, roster->trainers);
    for (int i = 0; i < roster->trainers; i++)
        roster->group_first[i] = i && roster->group_end[i - 1] > i ? roster->group_first[i - 1] : i;
    return TR_OK;
}

char *tr_roster_groups(const tr_roster *roster)
{
    char *text = tr__must_bytes((size_t)roster->trainers * 12 + 1), *at = text;

    *at = '\0';
    for (int first = 0; first < roster->trainers; first = roster->group_end[first])
        at += sprintf(at, first ? ",%d" : "%d", roster->group_end[first] - first);
    return text;
}

bool tr_roster_is_group_here(const tr_roster *roster, int trainer)
{
    for (int i = roster->group_first[trainer]; i < roster->group_end[trainer]; i++) {
        const int rank = roster->trainer_rank[i];
        if (!tr_roster_is_here(roster, rank) || (rank != roster->self && !tr_roster_share_host(roster, rank, roster->self)))
            return false;
    }
    return true;
}

int tr_roster_carrier(const tr_roster *roster, int server)
{
    const int index = roster->rank[roster->self].index, first = roster->group_first[index];
    const int count = roster->group_end[index] - first;

    if (count < 2 || tr_roster_share_host(roster, roster->server_rank[server], roster->self) || !tr_roster_is_group_here(roster, index))
        return -1;
    return roster->trainer_rank[first + server % count];
}
