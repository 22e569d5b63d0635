/* roster.c - the Hello of a rank, and numbers for the ranks of each role. */
#include "pserver/roster.h"

#include "framework/status.h"
#include "proto/pserver.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const role_names[TR_ROLE_COUNT] = {"trainer", "server", "spare"};

tr_roster *tr_roster_new(int self, int size)
{
    tr_roster *roster = calloc(1, sizeof *roster);

    roster->self = self;
    roster->size = size;
    roster->rank = calloc((size_t)size, sizeof *roster->rank);
    roster->server_rank = calloc((size_t)size, sizeof(int));
    roster->trainer_rank = calloc((size_t)size, sizeof(int));
    return roster;
}

void tr_roster_free(tr_roster *roster)
{
    if (!roster)
        return;
    for (int i = 0; i < roster->size; i++) {
        free(roster->rank[i].host);
        free(roster->rank[i].host_id);
        free(roster->rank[i].name);
    }
    free(roster->rank);
    free(roster->server_rank);
    free(roster->trainer_rank);
    free(roster);
}

/* A pid means the same process to two ranks when they see the same boot of a kernel and the same namespace. */
static void read_host_id(char *out, size_t size)
{
    char  boot[64] = "", space[64] = "";
    FILE *in = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (in) {
        if (!fgets(boot, sizeof boot, in))
            boot[0] = '\0';
        fclose(in);
    }
    boot[strcspn(boot, "\n")] = '\0';
    const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[length < 0 ? 0 : length] = '\0';
    if (boot[0] && space[0])
        snprintf(out, size, "%s %s", boot, space);
    else
        out[0] = '\0';                             /* not known: equal to nobody's */
}

tr_status tr_roster_pack_hello(uint8_t **out, size_t *size, tr_role role, uint32_t epoch)
{
    Trireme__Pserver__Hello hello = TRIREME__PSERVER__HELLO__INIT;
    char                    host[256] = "?", host_id[192];

    gethostname(host, sizeof host - 1);
    read_host_id(host_id, sizeof host_id);
    hello.version = (char *)tr_version();
    hello.role = (uint32_t)role;
    hello.pid = (uint64_t)getpid();
    hello.host = host;
    hello.host_id = host_id;
    hello.epoch = epoch;
    *size = trireme__pserver__hello__get_packed_size(&hello);
    *out = malloc(*size);
    if (!*out)
        return tr_fail(TR_ENOMEM, "no memory for a hello");
    trireme__pserver__hello__pack(&hello, *out);
    return TR_OK;
}

tr_status tr_roster_hear(tr_roster *roster, int rank, const uint8_t *bytes, size_t size)
{
    Trireme__Pserver__Hello *hello = trireme__pserver__hello__unpack(NULL, size, bytes);
    tr_status                status = TR_OK;

    if (!hello)
        return tr_fail(TR_EFORMAT, "the hello of rank %d is damaged", rank);
    if (hello->role >= TR_ROLE_COUNT)
        status = tr_fail(TR_EFORMAT, "rank %d says it has role %u, which does not exist", rank, hello->role);
    else if (strcmp(hello->version, tr_version()))
        status = tr_fail(TR_EPEER, "rank %d (%s, host %s) runs Trireme %s, rank %d runs %s: install the same version "
                         "everywhere", rank, role_names[hello->role], hello->host, hello->version, roster->self,
                         tr_version());
    else
        tr_roster_put(roster, rank, (tr_role)hello->role, hello->epoch, (int64_t)hello->pid, hello->host,
                      hello->host_id);
    trireme__pserver__hello__free_unpacked(hello, NULL);
    return status;
}

void tr_roster_put(tr_roster *roster, int rank, tr_role role, uint32_t epoch, int64_t pid, const char *host,
                   const char *host_id)
{
    tr_rank *r = &roster->rank[rank];

    if (r->is_known)
        return;
    *r = (tr_rank){true, false, role, -1, epoch, pid, strdup(host), strdup(host_id), NULL};
    roster->known++;
}

static int next_index(tr_roster *roster, int rank)
{
    switch (roster->rank[rank].role) {
    case TR_ROLE_SERVER:
        roster->server_rank[roster->servers] = rank;
        return roster->servers++;
    case TR_ROLE_TRAINER:
        roster->trainer_rank[roster->trainers] = rank;
        return roster->trainers++;
    default:
        return roster->spares++;
    }
}

tr_status tr_roster_close(tr_roster *roster)
{
    for (int i = 0; i < roster->size; i++) {
        tr_rank *r = &roster->rank[i];

        r->index = next_index(roster, i);
        if (asprintf(&r->name, "rank %d (%s %d, host %s, pid %lld)", i, role_names[r->role], r->index, r->host,
                     (long long)r->pid) < 0)
            r->name = NULL;
    }
    if (!roster->servers || !roster->trainers)
        return tr_fail(TR_EPEER, "a job of %d servers and %d trainers makes no sense: start it like "
                       "`mpirun -np 1 trireme-pserver : -np 2 python train.py`", roster->servers, roster->trainers);
    return TR_OK;
}

int tr_roster_spare_for(const tr_roster *roster, int rank)
{
    const char *host = roster->rank[rank].host_id;

    for (int i = 0; host[0] && i < roster->size; i++)
        if (i != rank && roster->rank[i].role == TR_ROLE_SPARE && !roster->rank[i].is_dead &&
            !strcmp(roster->rank[i].host_id, host))
            return i;
    return -1;
}

void tr_roster_replace(tr_roster *roster, int server, int rank)
{
    tr_rank *before = &roster->rank[roster->server_rank[server]];

    before->role = TR_ROLE_SPARE;
    before->index = -1;
    before->is_dead = true;
    roster->rank[rank].role = TR_ROLE_SERVER;
    roster->rank[rank].index = server;
    roster->server_rank[server] = rank;
}

const char *tr_roster_name(const tr_roster *roster, int rank)
{
    static _Thread_local char text[32];

    if (rank >= 0 && rank < roster->size && roster->rank[rank].name)
        return roster->rank[rank].name;
    snprintf(text, sizeof text, "rank %d", rank);
    return text;
}

void tr_roster_missing(const tr_roster *roster, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < roster->size && used < size; i++)
        if (!roster->rank[i].is_known)
            used += (size_t)snprintf(out + used, size - used, "%srank %d", used ? ", " : "", i);
}
