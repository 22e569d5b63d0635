/* server_rig.h - one server core and two or three trainers whose messages are made by hand.
 *
 * The server has two blocks of float32: 0, small, of 4 values; 1 of two chunks. Its store applies nothing: it remembers what it
 * was asked to apply, and the test calls tr_server_applied. */
#pragma once

#include "tests/support/expect.h"

#include "pserver/core/base/outbox.h"
#include "pserver/core/server/server.h"

enum { SERVER, TRAINER0, TRAINER1, TRAINER2, RANKS, CHUNK = 4096, TABLE_WIDTH = 2, TABLE_SHARDS = 1024 };

/* Of the store: the blocks, the gradients of the last update, its number and that of the last commit. */
extern float    param[2][2048], grad[2][2048];
extern uint64_t applying, committed;
extern double   compensation;
extern bool     took_part[2];
extern int64_t  now;                  /* of the messages that come */

typedef struct rig {
    tr_roster *roster;
    tr_server *server;
    tr_node    node;
    uint64_t   seq[RANKS];
} rig;

/* -- life ------------------------------------------------------------------------------------------ */

tr_store  plain_store(void);
rig       make(void);
/* Ours is the first server. */
rig       make_of(int servers, int trainers, const tr_store *store);
/* Set up, and all trainers have joined: two of them, but where it is said. */
rig       make_running(void);
rig       make_running_as(const char *mode);
rig       make_running_with_three(const char *mode);
/* Two trainers, and instead of the blocks a table of TABLE_WIDTH float32 a row, with all shards. The setup is there; nobody has joined. */
rig       make_with_table(const tr_store *store, const char *mode);
/* Another server in the place of this one, over this store. */
void      serve_anew(rig *r, const tr_store *store);
void      unmake(rig *r);
/* The rank dies: the roster says so, and the server hears of it. */
void      lose(rig *r, int rank);

/* -- what trainers say ----------------------------------------------------------------------------- */

/* Incarnation and number are filled in unless they are given. */
void      say(rig *r, int from, tr_wire wire, const void *payload);
void      say_setup(rig *r, const char *mode, uint32_t dtype);
void      say_setup_compressed(rig *r, const char *mode, uint32_t dtype, const char *compress);
void      say_join(rig *r, int from);
/* Chunk `chunk` of block 1, all of it `value`; block 0 in a PUSH_MANY; all of a step. */
void      push_large(rig *r, int from, uint64_t step, int chunk, float value);
void      push_small(rig *r, int from, uint64_t step, float value);
void      push_step(rig *r, int from, uint64_t step, float value);
void      end_step(rig *r, int from, uint64_t step);
void      pull(rig *r, int from, uint64_t step);

/* -- what the server says -------------------------------------------------------------------------- */

/* The last acknowledgement that a trainer gets now; -1: none. Answers to its pulls are counted in `data` unless that is NULL. */
int64_t   take_ack(rig *r, int to, int *data);
/* Just those. */
int       answers(rig *r, int to);
tr_status status_of(const rig *r, const char **text);

#define EXPECT_REFUSED(rig_, text_)                                  \
    do {                                                             \
        const char *why = NULL;                                      \
        assert_int_not_equal(status_of(rig_, &why), TR_OK);          \
        if (!strstr(why, text_))                                     \
            fail_msg("\"%s\" does not say \"%s\"", why, text_);      \
    } while (0)
