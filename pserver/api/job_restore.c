/* job_restore.c - a trainer lets the servers read their parts of a checkpoint, before the setup. */
#include "pserver/api/job_calls.h"

#include "framework/base/memory.h"
#include "pserver/core/base/roster.h"
#include "storage/stores/object_store.h"

#include <stdlib.h>
#include <string.h>

/* Damage counts before other failures: then the trainers look for another checkpoint, and all of them see the same. */
static int worst(const tr_client_restored *restored, int servers)
{
    int found = -1;

    for (int i = 0; i < servers; i++)
        if (restored[i].status != TR_OK && (found < 0 || (restored[found].status != TR_EFORMAT && restored[i].status == TR_EFORMAT)))
            found = i;
    return found;
}

static tr_status outcome(const tr_job *job, const tr_client_restored *restored)
{
    const int        found = worst(restored, tr_job_servers(job));
    const tr_roster *roster = tr_comm_roster(job->rank.comm);

    if (found < 0)
        return TR_OK;
    const tr_client_restored *bad = &restored[found];
    if (bad->status == TR_EFORMAT || bad->status == TR_EIO)
        return tr_fail(TR_EFORMAT, "%s", bad->text);
    const char *name = tr_roster_name(roster, roster->server_rank[found]);
    if (bad->status == TR_ENOTFOUND)
        return tr_fail(TR_ENOTFOUND,
                       "%s: %s. Servers read their parts themselves: the folder of checkpoints must be one that all hosts see", name,
                       bad->text);
    return tr_fail(bad->status, "%s: %s", name, bad->text);
}

tr_status tr_job_restore(tr_job *job, const char *path, uint64_t number)
{
    TR_TRY(tr__job_check_trainer(job, "tr_job_restore"));
    if (job->stage >= TR__JOB_SET_UP)
        return tr_fail(TR_EINVAL, "tr_job_restore: the setup was made before");
    if (!path || (path[0] != '/' && !tr_store_is_uri(path)))
        return tr_fail(TR_EINVAL, "tr_job_restore: the path '%s' is no URI and does not begin with '/'", path ? path : "");
    tr_client_restored *restored = tr__must_array((size_t)tr_job_servers(job), sizeof *restored);
    tr__restore_call    call = {path, number, restored};
    tr_ticket           ticket;

    tr_status status = tr__job_call(job, &(tr__command){.head = {TR__RESTORE, .is_urgent = true}, .restore = &call}, &ticket);
    if (status == TR_OK)
        status = tr_job_wait(job, ticket);
    if (status != TR_OK)
        return status;                             /* the communication thread may still write into the call */
    status = outcome(job, restored);
    for (int i = 0; i < tr_job_servers(job); i++)
        free(restored[i].text);
    free(restored);
    return status;
}
