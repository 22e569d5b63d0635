/* durable_store.h - the store of server_rig.h whose state outlives its server: the next one over it finds what was settled, and its tasks.
 *
 * Of two trainers, and but one such state in a program. */
#pragma once

#include "tests/support/server_rig.h"

enum { KEPT_TRAINERS = 2 };

typedef struct durable_state {
    uint8_t   setup[512];
    size_t    setup_bytes;            /* 0: nothing is kept */
    tr_commit commit;                 /* of the two below */
    uint64_t  settled[KEPT_TRAINERS];
    uint8_t   trainer[KEPT_TRAINERS];
    tr_member member[KEPT_TRAINERS];
    uint8_t  *tasks;
    uint64_t  tasks_bytes;
    uint8_t  *board;
    uint64_t  board_bytes;
} durable_state;

extern durable_state kept;

tr_store durable_store(void);
/* Another server in the place of this one: nothing is kept yet; over what is kept. */
void     serve_keeping(rig *r);
void     serve_again(rig *r);
