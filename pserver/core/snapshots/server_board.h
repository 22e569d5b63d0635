/* server_board.h - server 0's side of the board (board.h): it receives posts of trainers, and answers questions about posts.
 *
 * A trainer that has left, or is lost, takes no part in collectives. A trainer that is dead and will have a replacement is waited for. A
 * question about a complete collective is answered at once, whether its trainer had a part in that collective or not. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* POST. */
extern const tr__handler tr__board_handlers[];
/* Answer every question that can be answered now: its collective is complete, or its trainer has posted or left. */
void      tr__board_answer(tr_server *server);
/* Does this trainer wait for others' posts? */
bool      tr__board_awaits_posts(const tr_server *server, const tr__trainer *trainer);
/* Does this trainer wait for a post of trainer `of`? */
bool      tr__board_awaits_post_of(const tr_server *server, const tr__trainer *trainer, const tr__trainer *of);
/* Did this trainer begin to wait before it had ended `step`; before it had joined? */
bool      tr__board_is_before(const tr_server *server, const tr__trainer *trainer, uint64_t step);
bool      tr__board_is_before_join(const tr_server *server, const tr__trainer *trainer);
/* The call in which a waiting trainer waits: "barrier() at train.py:41". */
const char *tr__board_call(const tr_server *server, const tr__trainer *trainer);
/* Tell a waiting trainer that others wait for it: it joins or makes a step, and then asks again. */
void      tr__board_put_off(tr_server *server, const tr__trainer *trainer);
/* A trainer has joined or ended a step: look again who waits for whom. */
void      tr__board_look(tr_server *server);
/* Failover: read the posts that the dead server stored. */
void      tr__board_take_over(tr_server *server);
/* The highest number of a training that a notice asks to end; acknowledgements contain it. 0: there is none. */
uint32_t  tr__board_stops(const tr_server *server);
/* Send all posts of the board to the replica. */
void      tr__board_replicate(tr_server *server);
/* Describe the trainers for which a collective waits. False: no trainer waits in a collective. */
bool      tr__board_describe(const tr_server *server, char *out, size_t size);
void      tr__board_free(tr_server *server);
