/* server_part.h - which part of a job a server's program has. */
#pragma once

#include "storage/slots/slots.h"

#include <stdint.h>

/* How this rank has come to the state of a server. */
typedef enum tr_server_duty {
    TR_DUTY_SERVER,                   /* a server from the start */
    TR_DUTY_SUCCESSOR,                /* a standby that has taken a dead server's place */
    TR_DUTY_REPLICA,                  /* a replica from the start */
    TR_DUTY_CALLED_REPLICA,           /* a standby, or a replica without a server, that was called to replicate */
} tr_server_duty;

/* The part of a job that a server's program has. */
typedef struct tr_server_part {
    tr_server_duty duty;
    int            server, servers;   /* the server's number, of so many */
    int            trainers;
    int64_t        newest;            /* the highest state generation of this server's states on all hosts; -1: there is none */
    uint32_t       first_generation;  /* the first one of this start of the job: higher than all generations of earlier starts */
} tr_server_part;

/* Shards are spread over servers in equal ranges: the first one of a server. Its last one is before the first one of the next server. */
static inline uint32_t tr_first_shard(int server, int servers)
{
    return (uint32_t)(((uint64_t)server * TR_SHARDS + (uint64_t)servers - 1) / (uint64_t)servers);
}

static inline int tr_server_of_shard(uint32_t shard, int servers)
{
    return (int)((uint64_t)shard * (uint64_t)servers / TR_SHARDS);
}
