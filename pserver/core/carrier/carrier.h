/* carrier.h - trainers of one host send one gradient to a server, and get one answer.
 *
 * The trainers of a host group (roster.h) agree, by the same rule, on one of them for each server on another host: its *carrier*
 * (tr_roster_carrier). They send their requests for the server to the carrier, which carries them on in their order. Where all trainers of
 * the group push the same chunk of the same step, the carrier adds them up in the order of their numbers, as the server would, and sends
 * the sum in the place of the first one (TR_PART_FIRST). The others' pushes follow without data (TR_PART_OTHER), because the server takes
 * and acknowledges each trainer's requests one by one. The same is done with the rows that all push of one table: each key leaves the host
 * once. Where all pull the same parameters, one answer comes to the carrier, which hands it to all. Everything else passes through
 * unchanged, and so does what cannot be put together.
 *
 * A carrier is a node around the node of a trainer's own core: messages for other ranks go no further than here. It decides nothing that
 * changes a bit. The server adds up the groups' trainers one by one where no sum comes. So a carrier may put requests together or not.
 *
 * It puts together what is of steps after the first one that it has seen of every trainer of the group. Of that step it may have seen a
 * part, the rest of which went to the server directly, or through a process that died. When a trainer of the group dies or leaves, the
 * count begins anew. A request that waits for those of others is carried on alone after a while. When a carrier dies, the trainers send
 * what is not done to the server itself (client.h).
 *
 * What must stay true: the requests of a trainer to a server leave in the order in which they came. */
#pragma once

#include "pserver/core/client/client.h"
#include "pserver/wire/compress.h"

typedef struct tr_carrier tr_carrier;

/* The roster must outlive the carrier; `inner` is the node of the trainer's own core. */
tr_carrier *tr_carrier_new(const tr_roster *roster, tr_node inner, uint64_t chunk_bytes);
void        tr_carrier_free(tr_carrier *carrier);
tr_node     tr_carrier_node(tr_carrier *carrier);
/* What the trainers push. All of it is copied. */
typedef struct tr_carrier_setup {
    uint32_t               block_count;
    const tr_client_block *blocks;    /* as the client has them (tr_client_setup_all) */
    const tr_compress     *compress;  /* how gradients are compressed */
    uint32_t               table_count;
    const int64_t         *width;     /* of the rows of each table */
} tr_carrier_setup;

/* Until then nothing is put together. */
void        tr_carrier_set_up(tr_carrier *carrier, const tr_carrier_setup *setup);
/* Sums that were sent so far: of chunks, and of the rows of tables. */
uint64_t    tr_carrier_chunk_sums(const tr_carrier *carrier);
uint64_t    tr_carrier_row_sums(const tr_carrier *carrier);
/* Answers for all trainers of the group that have not come. */
uint64_t    tr_carrier_awaited_answers(const tr_carrier *carrier);
