/* roster.h - who is who in a job: role, number among its role, host, process of every rank.
 *
 * Ranks learn it from each other's Hello; ranks of a role are numbered in rank order, so that all of them
 * come to the same numbers without asking anybody. Nothing here waits or sends.
 *
 * What must stay true: once complete, a roster does not change; threads may read it at the same time. */
#ifndef TR_PSERVER_ROSTER_H
#define TR_PSERVER_ROSTER_H

#include "pserver/trireme_dist.h"

typedef struct tr_rank {
    bool     is_known;
    tr_role  role;
    int      index;                   /* among the ranks of its role */
    uint32_t epoch;
    int64_t  pid;
    char    *host, *host_id;
    char    *name;                    /* "rank 1 (server 1, host n03, pid 4711)" */
} tr_rank;

typedef struct tr_roster {
    int      self, size, known;
    int      servers, trainers;
    int     *server_rank, *trainer_rank;          /* index -> rank */
    tr_rank *rank;
} tr_roster;

tr_roster *tr_roster_new(int self, int size);
void       tr_roster_free(tr_roster *roster);

/* What this process is: its Hello, malloc'ed. */
tr_status tr_roster_pack_hello(uint8_t **out, size_t *size, tr_role role, uint32_t epoch);
/* Take in the Hello of a rank. TR_EPEER when its version is not ours. A second one is ignored. */
tr_status tr_roster_hear(tr_roster *roster, int rank, const uint8_t *hello, size_t size);
/* The same by hand, for tests. */
void      tr_roster_put(tr_roster *roster, int rank, tr_role role, uint32_t epoch, int64_t pid, const char *host,
                        const char *host_id);
/* Everyone is known: number them. TR_EPEER when a job of these ranks makes no sense. */
tr_status tr_roster_close(tr_roster *roster);
/* Of any number; before a rank is known "rank 7". The text lives as long as the roster, or until this
 * thread's next call for an unknown rank. */
const char *tr_roster_name(const tr_roster *roster, int rank);
/* "rank 2, rank 3": who is not known yet; for messages. */
void      tr_roster_missing(const tr_roster *roster, char *out, size_t size);

#endif
