/* roster.h - a rank's list of all ranks of its job: role, number within the role, host, process, dead or alive.
 *
 * Each rank fills its roster from the HELLOs of the others and numbers all ranks by the same rules. So all rosters agree without more
 * messages. Ranks of a role have numbers in rank order, with two exceptions. First, when an earlier start of the job has left the states of
 * all servers, each server gets the number of the state on its host. Second, a replica has the number of a server of another host. A
 * replica whose number is higher than those of all servers waits, as a standby does, to become the replica of a server whose replica has
 * died. Functions of a roster neither wait nor send.
 *
 * A *host group* is a sequence of trainers, one number after the other, which are on one host when the job begins. It stays a group when
 * one of them dies and is replaced on another host, because the order in which gradients are added follows from it.
 *
 * Invariant: only two things of a complete roster change: which ranks are dead or have left, and which rank is which server or trainer.
 * Only the driver (comm.h) changes them. Names and numbers of ranks do not change, and other threads may read them. */
#pragma once

#include "pserver/trireme_dist.h"

typedef struct tr_rank {
    bool     is_known, can_replace;
    bool     is_dead, has_left;       /* has_left: it sent BYE to all, and takes nobody's place after that. Never both */
    tr_role  role;
    int      index;                   /* the number of the rank within its role */
    uint32_t incarnation;
    int64_t  pid;
    int      doorbell;                /* the file descriptor of its doorbell in that process; -1: it has none */
    char    *host, *host_id;
    char    *name;                    /* "rank 1 (server 1, host n03, pid 4711)" */
    int       found_count;            /* of a server: states that earlier starts of the job left on its host */
    uint32_t *found_server, *found_generation;
} tr_rank;

typedef struct tr_roster {
    int      self, size, known;
    int      servers, trainers;
    int      standbys, replicas;
    int     *server_rank, *trainer_rank;          /* the rank of each server, of each trainer */
    int     *group_first, *group_end;             /* of each trainer: the first one of its host group, and the number after the last one */
    tr_rank *rank;
} tr_roster;

tr_roster *tr_roster_new(int self, int size);
void       tr_roster_free(tr_roster *roster);

/* Pack the Hello of this process; malloc'ed. */
tr_status tr_roster_pack_hello(uint8_t **out, size_t *size, tr_role role, uint32_t incarnation, bool can_replace,
                               int doorbell);
/* Enter the Hello of a rank. TR_EPEER: the rank runs another version of Trireme. A second Hello of a rank is ignored. */
tr_status tr_roster_on_hello(tr_roster *roster, int rank, const uint8_t *hello, size_t size);
/* Enter a rank without a Hello, for tests. */
void      tr_roster_put(tr_roster *roster, int rank, tr_role role, uint32_t incarnation, int64_t pid, const char *host,
                        const char *host_id);
/* All ranks are known: number them. TR_EPEER: no job can run on these ranks, for example because there is no server. */
tr_status tr_roster_close(tr_roster *roster);
/* The sizes of the host groups, "4,4,2", as TRIREME_HOST_GROUPS says them; malloc'ed. */
char     *tr_roster_groups(const tr_roster *roster);
/* Are all trainers of the group alive, and on this rank's host? */
bool      tr_roster_is_group_here(const tr_roster *roster, int trainer);
/* The trainer of this rank's host group that carries its requests for a server (carrier.h): its rank. -1: there is none, because this
 * trainer is alone, or the server is on this host, or a trainer of the group is not. */
int       tr_roster_carrier(const tr_roster *roster, int server);
/* Are these two ranks on one host? */
bool      tr_roster_share_host(const tr_roster *roster, int rank, int other);
/* The name of a rank for messages; "rank 7" while the rank is unknown. The text lives as long as the roster; the text of an unknown rank,
 * until this thread's next call for an unknown rank. */
const char *tr_roster_name(const tr_roster *roster, int rank);
/* The standby that takes the place of a dead server: the first living standby of its host. -1: there is none. */
int       tr_roster_standby_for(const tr_roster *roster, int rank);
/* Is this rank neither dead nor gone, as far as this process knows? */
bool      tr_roster_is_here(const tr_roster *roster, int rank);
/* The living replica of a server; -1: there is none. */
int       tr_roster_replica_of(const tr_roster *roster, int server);
/* A rank that may become the replica of a server: a living standby, or replica without a server, on another host. `without`: rank by rank,
 * true excludes the rank. -1: there is none. */
int       tr_roster_standby_for_replica(const tr_roster *roster, int server, const bool *without);
/* Make this rank the replica of that server. False: the rank is no standby, or is the replica of another server. */
bool      tr_roster_set_replica(tr_roster *roster, int server, int rank);
/* The generation of the newest state of a server (tr_state_set_generation) on the hosts of all servers, when the job was started; -1: there
 * was none. */
int64_t   tr_roster_newest(const tr_roster *roster, int server);
/* Make this rank that server. The rank that was this server before loses the place. */
void      tr_roster_replace_server(tr_roster *roster, int server, int rank);
/* The standby that takes the place of a dead trainer: the first living standby that can, on the same host if possible. -1: there is
 * none. */
int       tr_roster_replacement_for(const tr_roster *roster, int rank);
/* The same, where `without` excludes ranks (rank by rank). */
int       tr_roster_replacement_without(const tr_roster *roster, int rank, const bool *without);
/* Make this standby that trainer, with that incarnation. The rank that was this trainer before loses the place. False: the rank is no
 * standby, or a replacement with a higher incarnation has the place. */
bool      tr_roster_replace_trainer(tr_roster *roster, int trainer, int rank, uint32_t incarnation);
/* The incarnation for the next replacement of that trainer, chosen by this rank. It is higher than the trainer's incarnation and than
 * `called`, the incarnation of the last standby that was called (0: none was). Another rank never chooses the same incarnation. */
uint32_t  tr_roster_next_incarnation(const tr_roster *roster, int trainer, uint32_t called);
/* The number of this start of the job: 1, 2, ... It follows from the incarnation of a rank that is no replacement. A commit contains the
 * number. */
uint32_t  tr_roster_start(const tr_roster *roster);
/* Does this incarnation belong to a replacement? */
bool      tr_roster_is_replacement(uint32_t incarnation);
/* May a standby or replica leave? It may when all trainers, or all servers, have left or died without a successor. It stays while any place
 * may still be taken, because it may be the rank that takes it. A replica also stays as long as its server: after the replica's BYE the
 * server would not notice its death. */
bool      tr_roster_is_over(const tr_roster *roster);
/* Has every server but number `server` left, or died? */
bool      tr_roster_is_last_server(const tr_roster *roster, int server);
/* List the ranks that are not known yet, for messages: "rank 2, rank 3". */
void      tr_roster_missing(const tr_roster *roster, char *out, size_t size);
