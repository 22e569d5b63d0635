/* server_board.h - server 0 and the board (board.h): trainers' posts come, and who waits for others' posts is answered.
 *
 * A trainer that has left, or is dead for good, takes no part in collectives; one that is dead and will have a replacement is waited for. A
 * trainer that asks for what is complete gets it at once, whether it had a part in that or not. */
#ifndef TR_PSERVER_SERVER_BOARD_H
#define TR_PSERVER_SERVER_BOARD_H

#include "pserver/core/server_state.h"

tr_status tr__server_on_post(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* A post that came again is answered again. */
void      tr__server_post_again(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* A trainer has left: collectives may be complete without it. */
void      tr__server_board_moves(tr_server *server);
/* Does this trainer wait for others' posts? */
bool      tr__server_is_meeting(const tr_server *server, const tr__trainer *trainer);
/* A server in the place of a dead one has what was posted. */
void      tr__server_board_take_over(tr_server *server);
/* The highest number of a training that a notice asks to end, for acknowledgements; 0: there is none. */
uint32_t  tr__server_stops(const tr_server *server);
/* The replica is to have all that is on the board. */
void      tr__server_replicate_board(tr_server *server);
/* Who is waited for in a collective, in words; false: nobody waits. */
bool      tr__server_describe_board(const tr_server *server, char *out, size_t size);
void      tr__server_board_free(tr_server *server);

#endif
