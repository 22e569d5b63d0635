/* server_initiator.h - which trainer begins snapshots, and when trainers that drain may leave.
 *
 * The initiator is the first trainer that makes steps (tr__server_initiator). Acknowledgements name it, and a trainer begins a snapshot
 * when all servers name this trainer. A trainer that has made its last step stays in the job until a last snapshot has all steps. When no
 * trainer makes steps any more, the first of those that stay makes this last snapshot. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* The field `initiator` of acknowledgements: TR_INITIATOR_NONE, TR_INITIATOR_OVER, or the number of the trainer. */
uint32_t tr__initiator_code(const tr_server *server);
/* Set whether the job's last checkpoint is made or was tried. False: a trainer makes steps again, so another one will be needed. */
void     tr__initiator_set_last(tr_server *server, bool has_last);
/* The initiator has changed, or a snapshot is over: let draining trainers leave, or let one begin the last snapshot. */
void     tr__initiator_release_draining(tr_server *server);
