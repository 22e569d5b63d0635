/* roster.h - what a rank knows of all ranks of its job: role, number within the role, host, process, dead or alive.
 *
 * Each rank fills it from the HELLO of the others and numbers all ranks by the same rules, so all rosters agree without more messages. Ranks of a role have
 * numbers in rank order, with two exceptions. Where an earlier start of the job has left the states of all servers, on other hosts perhaps (replicas), each
 * server gets the number of the state on its host. A replica has the number of a server of another host; one that has a higher number than all servers
 * waits, as standbys do, to follow a server whose replica has died. Nothing here waits or sends.
 *
 * Invariant: a complete roster changes only in which ranks are dead or have left, and which rank is which server or trainer; only the driver (comm.h) changes it.
 * Names and numbers of ranks do not change, and other threads may read them. */
#ifndef TR_PSERVER_ROSTER_H
#define TR_PSERVER_ROSTER_H

#include "pserver/trireme_dist.h"

typedef struct tr_rank {
    bool     is_known, can_replace;
    bool     is_dead, has_left;       /* has_left: it said goodbye to all (BYE), and takes nobody's place from then on; never both */
    tr_role  role;
    int      index;                   /* among the ranks of its role */
    uint32_t epoch;
    int64_t  pid;
    int      doorbell;                /* the number of its file in that process; -1: it has none */
    char    *host, *host_id;
    char    *name;                    /* "rank 1 (server 1, host n03, pid 4711)" */
    int       found_count;            /* of a server: states on its host, of earlier starts of the job */
    uint32_t *found_server, *found_generation;
} tr_rank;

typedef struct tr_roster {
    int      self, size, known;
    int      servers, trainers;
    int      standbys, replicas;
    int     *server_rank, *trainer_rank;          /* index -> rank */
    tr_rank *rank;
} tr_roster;

tr_roster *tr_roster_new(int self, int size);
void       tr_roster_free(tr_roster *roster);

/* What this process is: its Hello, malloc'ed. */
tr_status tr_roster_pack_hello(uint8_t **out, size_t *size, tr_role role, uint32_t epoch, bool can_replace,
                               int doorbell);
/* Take in the Hello of a rank. TR_EPEER when its version is not ours. A second one is ignored. */
tr_status tr_roster_on_hello(tr_roster *roster, int rank, const uint8_t *hello, size_t size);
/* The same by hand, for tests. */
void      tr_roster_put(tr_roster *roster, int rank, tr_role role, uint32_t epoch, int64_t pid, const char *host,
                        const char *host_id);
/* Everyone is known: number them. TR_EPEER when a job of these ranks makes no sense. */
tr_status tr_roster_close(tr_roster *roster);
/* Of any number; before a rank is known "rank 7". The text lives as long as the roster, or until this
 * thread's next call for an unknown rank. */
const char *tr_roster_name(const tr_roster *roster, int rank);
/* The standby that is to take a server's place: the first living one of its host; -1: there is none. */
int       tr_roster_standby_for(const tr_roster *roster, int rank);
/* Neither dead nor has it left, for all that this rank knows. */
bool      tr_roster_is_here(const tr_roster *roster, int rank);
/* The living replica of a server; -1: there is none. */
int       tr_roster_replica_of(const tr_roster *roster, int server);
/* Who may become the replica of a server that has none: a living rank that waits, on another host, and not one of `without` (rank by
 * rank); -1: there is none. */
int       tr_roster_standby_for_replica(const tr_roster *roster, int server, const bool *without);
/* From here on this rank is that server's replica. False: it does not wait, or is the replica of another one. */
bool      tr_roster_set_replica(tr_roster *roster, int server, int rank);
/* The generation of the newest state of a server (tr_state_set_generation) on the hosts of all servers, when the job was started; -1: there was none. */
int64_t   tr_roster_newest(const tr_roster *roster, int server);
/* From here on this rank is that server, and who was it before is nobody. */
void      tr_roster_replace_server(tr_roster *roster, int server, int rank);
/* The standby that is to take a trainer's place: the first living one of its host that can, else of any; -1: there is none. */
int       tr_roster_replacement_for(const tr_roster *roster, int rank);
/* The same, but for `without` (rank by rank). */
int       tr_roster_replacement_without(const tr_roster *roster, int rank, const bool *without);
/* From here on this standby is that trainer, with that epoch, and who was it before is nobody. False: it is no standby, or a newer one has
 * the place. */
bool      tr_roster_replace_trainer(tr_roster *roster, int trainer, int rank, uint32_t epoch);
/* The epoch of the next who takes that trainer's place, chosen by this rank: above all before and that of the last who was called (0: nobody
 * was), which may have taken the place elsewhere; and nobody else's. */
uint32_t  tr_roster_next_epoch(const tr_roster *roster, int trainer, uint32_t called);
/* Of the job, by the epoch of a rank that is no replacement, as servers and replicas are: 1, 2, ... A commit says in which it was made. */
uint32_t  tr_roster_start(const tr_roster *roster);
/* Has a trainer of this epoch taken another one's place? */
bool      tr_roster_is_replacement(uint32_t epoch);
/* May who waits leave: are all trainers out, or all servers, by a goodbye or by a death after which nobody is to take their place? Who
 * leaves is not there for the next that dies, so that a place which may be taken yet, for all that this rank knows, is waited for. A replica
 * stays as long as its server, which would not hear of its death behind its goodbye. */
bool      tr_roster_is_over(const tr_roster *roster);
/* "rank 2, rank 3": who is not known yet; for messages. */
void      tr_roster_missing(const tr_roster *roster, char *out, size_t size);

#endif
