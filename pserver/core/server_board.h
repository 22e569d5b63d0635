/* server_board.h - server 0 and the board (board.h): posts of trainers come, and questions about posts are answered.
 *
 * A trainer that has left, or is lost, takes no part in collectives. A trainer that is dead and will have a replacement is waited for. A
 * question about a complete collective is answered at once, whether its trainer had a part in that collective or not. */
#ifndef TR_PSERVER_SERVER_BOARD_H
#define TR_PSERVER_SERVER_BOARD_H

#include "pserver/core/server_state.h"

/* POST; and one that was taken before and has come again. */
tr_status tr__board_on_post(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
void      tr__board_on_post_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* Answer the questions whose time has come: all have posted, or a trainer has left and they are complete without it. */
void      tr__board_answer(tr_server *server);
/* Does this trainer wait for others' posts? */
bool      tr__board_awaits_posts(const tr_server *server, const tr__trainer *trainer);
/* A server in the place of a dead one has what was posted. */
void      tr__board_take_over(tr_server *server);
/* The highest number of a training that a notice asks to end, for acknowledgements; 0: there is none. */
uint32_t  tr__board_stops(const tr_server *server);
/* The replica is to have all that is on the board. */
void      tr__board_replicate(tr_server *server);
/* The trainers that are waited for in a collective, in words; false: nobody waits. */
bool      tr__board_describe(const tr_server *server, char *out, size_t size);
void      tr__board_free(tr_server *server);

#endif
