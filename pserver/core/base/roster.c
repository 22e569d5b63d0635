/* roster.c - the Hello of a rank, and numbers for the ranks of each role. */
#include "pserver/core/base/roster_state.h"

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "proto/pserver.pb-c.h"
#include "pserver/state/state.h"
#include "pserver/util/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const role_names[TR_ROLE_COUNT] = {"trainer", "server", "standby", "replica"};

tr_roster *tr_roster_new(int self, int size)
{
    tr_roster *roster = tr__must_alloc(sizeof *roster);

    roster->self = self;
    roster->size = size;
    roster->rank = tr__must_array((size_t)size, sizeof *roster->rank);
    roster->server_rank = tr__must_array((size_t)size, sizeof(int));
    roster->trainer_rank = tr__must_array((size_t)size, sizeof(int));
    roster->group_first = tr__must_array((size_t)size, sizeof(int));
    roster->group_end = tr__must_array((size_t)size, sizeof(int));
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
        free(roster->rank[i].found_server);
        free(roster->rank[i].found_generation);
    }
    free(roster->rank);
    free(roster->server_rank);
    free(roster->trainer_rank);
    free(roster->group_first);
    free(roster->group_end);
    free(roster);
}

/* The identity of a host. Two ranks with the same boot of a kernel and the same PID namespace mean the same process by a pid. */
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
        out[0] = '\0';                             /* unknown; it is equal to no other identity */
}

/* List the states that earlier starts of this job have left on this host. */
static void add_found(Trireme__Pserver__Hello *hello)
{
    const char     *prefix = getenv("TRIREME_STATE");
    tr_state_found *state = NULL;
    int             count = 0;

    if (!prefix || !*prefix || tr_state_find(&state, &count, prefix) != TR_OK)
        return;
    Trireme__Pserver__Found *found = tr__must_array((size_t)count + 1, sizeof *found);
    hello->found = tr__must_array((size_t)count + 1, sizeof *hello->found);
    for (int i = 0; i < count; i++) {
        trireme__pserver__found__init(&found[i]);
        found[i].server = state[i].server;
        found[i].generation = state[i].generation;
        hello->found[i] = &found[i];
    }
    hello->n_found = (size_t)count;
    if (!count)
        free(found);
    free(state);
}

tr_status tr_roster_pack_hello(uint8_t **out, size_t *size, tr_role role, uint32_t incarnation, bool can_replace, int doorbell)
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
    hello.incarnation = incarnation;
    hello.has_can_replace = hello.can_replace = can_replace;
    hello.has_doorbell = doorbell >= 0;
    hello.doorbell = doorbell;
    if (role == TR_ROLE_SERVER)
        add_found(&hello);
    *size = trireme__pserver__hello__get_packed_size(&hello);
    *out = tr__must_bytes(*size);
    trireme__pserver__hello__pack(&hello, *out);
    if (hello.n_found)
        free(hello.found[0]);
    free(hello.found);
    return TR_OK;
}

/* The host of this rank has a state of that server, of that generation. */
static void add_found_state(tr_roster *roster, int rank, uint32_t server, uint32_t generation)
{
    tr_rank     *r = &roster->rank[rank];
    const size_t count = (size_t)r->found_count + 1;

    r->found_server = tr__must_realloc(r->found_server, count * sizeof *r->found_server);
    r->found_generation = tr__must_realloc(r->found_generation, count * sizeof *r->found_generation);
    r->found_server[r->found_count] = server;
    r->found_generation[r->found_count++] = generation;
}

tr_status tr_roster_on_hello(tr_roster *roster, int rank, const uint8_t *bytes, size_t size)
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
    else {
        tr_roster_put(roster, rank, (tr_role)hello->role, hello->incarnation, (int64_t)hello->pid, hello->host,
                      hello->host_id);
        roster->rank[rank].can_replace = hello->can_replace;
        roster->rank[rank].doorbell = hello->has_doorbell ? hello->doorbell : -1;
        for (size_t i = 0; i < hello->n_found; i++)
            add_found_state(roster, rank, hello->found[i]->server, hello->found[i]->generation);
    }
    trireme__pserver__hello__free_unpacked(hello, NULL);
    return status;
}

void tr_roster_put(tr_roster *roster, int rank, tr_role role, uint32_t incarnation, int64_t pid, const char *host,
                   const char *host_id)
{
    tr_rank *r = &roster->rank[rank];

    if (r->is_known)
        return;
    *r = (tr_rank){.is_known = true, .role = role, .index = -1, .incarnation = incarnation, .pid = pid, .doorbell = -1,
                   .host = tr__must_strdup(host), .host_id = tr__must_strdup(host_id)};
    roster->known++;
}

/* == numbers ================================================================================== */

/* The generation of the newest state of a server on this rank's host; -1: there is none. */
static int64_t age_at(const tr_rank *r, int server)
{
    int64_t newest = -1;

    for (int i = 0; i < r->found_count; i++)
        if (r->found_server[i] == (uint32_t)server && r->found_generation[i] > newest)
            newest = r->found_generation[i];
    return newest;
}

int64_t tr_roster_newest(const tr_roster *roster, int server)
{
    int64_t newest = -1;

    for (int i = 0; i < roster->size; i++) {
        const int64_t generation = age_at(&roster->rank[i], server);
        newest = generation > newest ? generation : newest;
    }
    return newest;
}

/* Number the servers so that each one is on the host with the newest of its states, if that is possible. `ranks`: the servers' ranks,
 * ascending. */
static void number_servers(tr_roster *roster, const int *ranks)
{
    const int count = roster->servers;
    bool     *may = tr__must_array((size_t)(count * count) + 1, sizeof *may);
    int      *of = tr__must_array((size_t)count + 1, sizeof *of);

    for (int s = 0; s < count; s++) {
        const int64_t newest = tr_roster_newest(roster, s);
        for (int k = 0; k < count; k++)
            may[s * count + k] = newest >= 0 && age_at(&roster->rank[ranks[k]], s) == newest;
    }
    const bool is_found = tr_match(of, count, count, may);
    for (int s = 0; s < count; s++) {
        roster->server_rank[s] = ranks[is_found ? of[s] : s];
        roster->rank[roster->server_rank[s]].index = s;
    }
    free(of);
    free(may);
}

/* Give every server a replica on another host. Replicas that are left over get the numbers after those. */
static tr_status number_replicas(tr_roster *roster, const int *ranks)
{
    const int servers = roster->servers, count = roster->replicas;
    bool     *may = tr__must_array((size_t)(servers * count) + 1, sizeof *may);
    int      *of = tr__must_array((size_t)servers + 1, sizeof *of), next = servers;

    for (int s = 0; s < servers; s++)
        for (int k = 0; k < count; k++)
            may[s * count + k] = strcmp(roster->rank[roster->server_rank[s]].host_id, roster->rank[ranks[k]].host_id);
    const bool is_found = !count || tr_match(of, servers, count, may);
    for (int s = 0; s < servers && count && is_found; s++)
        roster->rank[ranks[of[s]]].index = s;
    for (int k = 0; k < count; k++)
        if (roster->rank[ranks[k]].index < 0)
            roster->rank[ranks[k]].index = next++;
    free(of);
    free(may);
    return is_found ? TR_OK : tr_fail(TR_EPEER, "%d replicas are not enough for %d servers: each must be on another host than its "
                                      "server", count, servers);
}

static tr_status number_ranks(tr_roster *roster)
{
    int *servers = tr__must_bytes((size_t)roster->size * sizeof *servers),
        *replicas = tr__must_bytes((size_t)roster->size * sizeof *replicas);

    for (int i = 0; i < roster->size; i++) {
        tr_rank *r = &roster->rank[i];
        if (r->role == TR_ROLE_SERVER) {
            servers[roster->servers++] = i;
        } else if (r->role == TR_ROLE_REPLICA) {
            replicas[roster->replicas++] = i;
        } else if (r->role == TR_ROLE_TRAINER) {
            roster->trainer_rank[roster->trainers] = i;
            r->index = roster->trainers++;
        } else {
            r->index = roster->standbys++;
        }
    }
    number_servers(roster, servers);
    const tr_status status = number_replicas(roster, replicas);
    free(servers);
    free(replicas);
    return status;
}

tr_status tr_roster_close(tr_roster *roster)
{
    tr_status status = number_ranks(roster);

    if (status == TR_OK)
        status = tr__roster_form_groups(roster);
    for (int i = 0; i < roster->size; i++) {
        tr_rank *r = &roster->rank[i];
        r->name = tr__must_format("rank %d (%s %d, host %s, pid %lld)", i, role_names[r->role], r->index, r->host, (long long)r->pid);
    }
    if (!roster->servers || !roster->trainers)
        return tr_fail(TR_EPEER, "a job of %d servers and %d trainers makes no sense: start it like "
                       "`mpirun -np 1 trireme-pserver : -np 2 python train.py`", roster->servers, roster->trainers);
    return status;
}

int tr_roster_replica_of(const tr_roster *roster, int server)
{
    for (int i = 0; i < roster->size; i++)
        if (roster->rank[i].role == TR_ROLE_REPLICA && roster->rank[i].index == server && !roster->rank[i].is_dead)
            return i;
    return -1;
}

bool tr_roster_is_here(const tr_roster *roster, int rank)
{
    return !roster->rank[rank].is_dead && !roster->rank[rank].has_left;
}

static bool waits(const tr_roster *roster, int rank)
{
    const tr_rank *r = &roster->rank[rank];
    return tr_roster_is_here(roster, rank) && (r->role == TR_ROLE_STANDBY || (r->role == TR_ROLE_REPLICA && r->index >= roster->servers));
}

/* How unsuitable a rank is as a replica: 2 for each state on its host, which the host's loss would take, and 1 if the host would lose a
 * standby. */
static int burden(const tr_roster *roster, int rank)
{
    int count = roster->rank[rank].role == TR_ROLE_STANDBY;

    for (int i = 0; i < roster->size; i++) {
        const tr_rank *r = &roster->rank[i];
        const bool     has_state = r->role == TR_ROLE_SERVER || (r->role == TR_ROLE_REPLICA && r->index < roster->servers);
        count += 2 * (has_state && !r->is_dead && !strcmp(r->host_id, roster->rank[rank].host_id));
    }
    return count;
}

int tr_roster_standby_for_replica(const tr_roster *roster, int server, const bool *without)
{
    const char *host = roster->rank[roster->server_rank[server]].host_id;
    int         best = -1;

    for (int i = 0; i < roster->size; i++)
        if (waits(roster, i) && !without[i] && strcmp(roster->rank[i].host_id, host) &&
            (best < 0 || burden(roster, i) < burden(roster, best)))
            best = i;
    return best;
}

bool tr_roster_set_replica(tr_roster *roster, int server, int rank)
{
    tr_rank *r = &roster->rank[rank];

    if (r->role == TR_ROLE_REPLICA && r->index == server)
        return true;
    if (!waits(roster, rank))
        return false;
    r->role = TR_ROLE_REPLICA;
    r->index = server;
    return true;
}

int tr_roster_standby_for(const tr_roster *roster, int rank)
{
    const char *host = roster->rank[rank].host_id;

    for (int i = 0; host[0] && i < roster->size; i++)
        if (i != rank && roster->rank[i].role == TR_ROLE_STANDBY && tr_roster_is_here(roster, i) &&
            !strcmp(roster->rank[i].host_id, host))
            return i;
    return -1;
}

void tr_roster_replace_server(tr_roster *roster, int server, int rank)
{
    tr_rank *before = &roster->rank[roster->server_rank[server]];

    before->role = TR_ROLE_STANDBY;
    before->index = -1;
    before->is_dead = true;
    roster->rank[rank].role = TR_ROLE_SERVER;
    roster->rank[rank].index = server;
    roster->server_rank[server] = rank;
}

int tr_roster_replacement_for(const tr_roster *roster, int rank)
{
    return tr_roster_replacement_without(roster, rank, NULL);
}

int tr_roster_replacement_without(const tr_roster *roster, int rank, const bool *without)
{
    const char *host = roster->rank[rank].host_id;
    int         any = -1;

    for (int i = 0; i < roster->size; i++) {
        const tr_rank *r = &roster->rank[i];
        if (r->role != TR_ROLE_STANDBY || !tr_roster_is_here(roster, i) || !r->can_replace || (without && without[i]))
            continue;
        if (host[0] && !strcmp(r->host_id, host))
            return i;
        any = any < 0 ? i : any;
    }
    return any;
}

bool tr_roster_replace_trainer(tr_roster *roster, int trainer, int rank, uint32_t incarnation)
{
    tr_rank *before = &roster->rank[roster->trainer_rank[trainer]], *replacement = &roster->rank[rank];

    if (replacement->role != TR_ROLE_STANDBY || replacement->has_left || incarnation <= before->incarnation)
        return false;
    before->role = TR_ROLE_STANDBY;
    before->index = -1;
    before->is_dead = true;
    replacement->role = TR_ROLE_TRAINER;
    replacement->index = trainer;
    replacement->incarnation = incarnation;
    roster->trainer_rank[trainer] = rank;
    return true;
}

/* The lower bits of an incarnation count the starts of the job, the higher ones the replacements. Server 0 chooses the higher bits, and its
 * successor has a higher rank. */
enum { REPLACEMENT_BITS = 16 };

uint32_t tr_roster_next_incarnation(const tr_roster *roster, int trainer, uint32_t called)
{
    const uint32_t known = roster->rank[roster->trainer_rank[trainer]].incarnation, before = known > called ? known : called;
    return ((before >> REPLACEMENT_BITS) + 1) << REPLACEMENT_BITS | (uint32_t)roster->self;
}

uint32_t tr_roster_start(const tr_roster *roster)
{
    return roster->rank[roster->self].incarnation;
}

bool tr_roster_is_replacement(uint32_t incarnation)
{
    return incarnation >> REPLACEMENT_BITS > 0;
}

static bool is_out(const tr_roster *roster, int rank, int (*follower)(const tr_roster *, int rank))
{
    const tr_rank *r = &roster->rank[rank];
    return r->has_left || (r->is_dead && follower(roster, rank) < 0);
}

static bool are_out(const tr_roster *roster, const int *rank, int count, int (*follower)(const tr_roster *, int rank))
{
    for (int i = 0; i < count; i++)
        if (!is_out(roster, rank[i], follower))
            return false;
    return true;
}

bool tr_roster_is_last_server(const tr_roster *roster, int server)
{
    for (int s = 0; s < roster->servers; s++)
        if (s != server && tr_roster_is_here(roster, roster->server_rank[s]))
            return false;
    return true;
}

/* Is this rank the replica of a server that has not left? Then the server waits for its answers. */
static bool is_wanted_replica(const tr_roster *roster)
{
    for (int s = 0; s < roster->servers; s++)
        if (tr_roster_replica_of(roster, s) == roster->self && !is_out(roster, roster->server_rank[s], tr_roster_standby_for))
            return true;
    return false;
}

bool tr_roster_is_over(const tr_roster *roster)
{
    if (is_wanted_replica(roster))
        return false;
    return are_out(roster, roster->trainer_rank, roster->trainers, tr_roster_replacement_for) ||
           are_out(roster, roster->server_rank, roster->servers, tr_roster_standby_for);
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
