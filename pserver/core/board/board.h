/* board.h - the board of a job: collectives and notices that trainers post for each other, on server 0.
 *
 * A collective has a number, which each trainer counts by itself. A notice has a name. Both are items: an item has at most one post of each
 * trainer. A collective is complete when every trainer that has not left has posted. From then on its posts are fixed.
 *
 * Why posts are stored: a replacement, or a trainer that is started again, runs its script from the beginning and replays its steps. The
 * trainer then posts a second time, and gets the posts that were stored the first time. So the board outlives its process
 * (durable_board.h), and a replica has an equal board. Complete collectives and notices are deleted, the oldest first, when the board
 * exceeds its limit.
 *
 * What must stay true: posts are added and never changed. */
#pragma once

#include "pserver/core/board/durable_board.h"
#include "proto/pserver.pb-c.h"

/* Limits in bytes: of one post, and of all complete items on the board. */
enum { TR_BOARD_POST = 1 << 18, TR_BOARD_LIMIT = 1 << 23 };
/* In an answer each post is its step, so many bytes, and its data. */
enum { TR_BOARD_STEP = sizeof(uint64_t) };

typedef Trireme__Pserver__Post tr_post;

typedef struct tr_board_item {
    struct tr_board_item *next;       /* the next newer item */
    struct tr_board_item *chain;      /* another item of the same hash */
    uint64_t              number;     /* the number of the collective; 0: the item is a notice */
    char                 *name;
    bool                  is_complete;
    uint64_t              bytes;
    tr_post             **post;       /* trainer by trainer; NULL: this trainer has not posted */
} tr_board_item;

typedef struct tr_board tr_board;

/* A board in the memory of a store. `resumes`: the posts that an earlier process stored there are read; otherwise they are removed. */
tr_board *tr_board_new(const tr_store *store, int trainers, bool resumes);
void      tr_board_free(tr_board *board);

/* The item of this number, or, if the number is 0, of this name. NULL: there is none. */
const tr_board_item *tr_board_find(const tr_board *board, uint64_t number, const char *name);
/* Was a collective of this number deleted? */
bool      tr_board_has_forgotten(const tr_board *board, uint64_t number);
/* The highest number of a training that some notice asks to end. 0: there is no such notice. */
uint32_t  tr_board_stops(const tr_board *board);
/* The post of the lowest trainer in an item. All posts of an item must be of the same call. NULL: the item has no post. */
const tr_post *tr_board_first(const tr_board *board, const tr_board_item *item);
/* Add a packed Post, or the mark that a collective is complete. *is_new false: the item has a post of this trainer already, or is complete,
 * so the board is unchanged. TR_EFORMAT: the bytes are no valid Post. */
tr_status tr_board_put(bool *is_new, tr_board *board, const uint8_t *packed, size_t size);
/* Visit all posts and marks as packed bytes. tr_board_put of these bytes, in this order, makes an equal board. */
void      tr_board_each(const tr_board *board, void (*visit)(void *self, uint8_t *packed, size_t size), void *self);
/* The packed post, and the packed mark that a collective is complete; malloc'ed. */
uint8_t  *tr_board_pack(const tr_post *post, size_t *size);
uint8_t  *tr_board_pack_complete(uint64_t number, char *name, size_t *size);
