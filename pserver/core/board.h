/* board.h - the board of a job: collectives and notices that trainers post for each other, on server 0.
 *
 * A collective has a number, which each trainer counts by itself; a notice has a name. Either one is an item: at most one post of each
 * trainer. A collective is complete when all trainers have posted that have not left; from then on its posts are fixed.
 *
 * Why posts are kept: a trainer that takes a dead one's place, or is started again, runs its script from the beginning, where fetched
 * values are none. It posts again, and gets what was posted first. So the board outlives its process (durable_board.h), and a replica has one
 * that is alike. Complete collectives and notices are forgotten, the oldest first, when the board has more than its limit.
 *
 * What must stay true: posts are added and never changed. */
#ifndef TR_PSERVER_BOARD_H
#define TR_PSERVER_BOARD_H

#include "pserver/core/durable_board.h"
#include "proto/pserver.pb-c.h"

/* Bytes that one trainer posts at most; and that are kept of what is complete. */
enum { TR_BOARD_POST = 1 << 18, TR_BOARD_LIMIT = 1 << 23 };

typedef Trireme__Pserver__Post tr_post;

typedef struct tr_board_item {
    struct tr_board_item *next;       /* in the order in which they came */
    struct tr_board_item *chain;      /* of the same hash */
    uint64_t              number;     /* 0: a notice */
    char                 *name;
    bool                  is_complete;
    uint64_t              bytes;
    tr_post             **post;       /* of each trainer; NULL: none */
} tr_board_item;

typedef struct tr_board tr_board;

/* Over the memory of a store. `resumes`: with all that an earlier process has kept there; otherwise that is removed. */
tr_board *tr_board_new(const tr_store *store, int trainers, bool resumes);
void      tr_board_free(tr_board *board);

/* The item of this number or (0) of this name; NULL: there is none. */
const tr_board_item *tr_board_find(const tr_board *board, uint64_t number, const char *name);
/* Was there a collective of this number, which is forgotten? */
bool      tr_board_has_forgotten(const tr_board *board, uint64_t number);
/* The highest number of a training that a notice asks to end; 0: there is none. */
uint32_t  tr_board_stops(const tr_board *board);
/* The first post of an item, whose call all others must have; NULL: nobody has posted. */
const tr_post *tr_board_first(const tr_board *board, const tr_board_item *item);
/* Add a packed Post, or the mark that a collective is complete. False: the item has one of this trainer, or is complete: nothing is
 * changed. TR_EFORMAT: it is damaged. */
tr_status tr_board_put(bool *is_new, tr_board *board, const uint8_t *packed, size_t size);
/* All that is on the board, packed as it was put there, in an order that puts it there again. */
void      tr_board_each(const tr_board *board, void (*visit)(void *self, uint8_t *packed, size_t size), void *self);
/* One malloc. */
uint8_t  *tr_board_pack(const tr_post *post, size_t *size);

#endif
