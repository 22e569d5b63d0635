/* server_maker.c - the maker: which trainer begins cuts (server_cut.c).
 *
 * It is the first of those that make steps. Acknowledgements say who that is; a trainer begins when all servers have said that it is the
 * one. Who has made its last step stays in the job until a last cut has everything: the first of those that stay makes it when nobody makes
 * steps any more. */
#include "pserver/core/server_state.h"

bool tr__server_is_there(const tr__trainer *trainer)
{
    return trainer->state != TR_MEMBER_LEFT && trainer->state != TR_MEMBER_LOST;
}

int tr__server_maker(const tr_server *server)
{
    int first = -1;

    for (int i = 0; i < server->trainer_count; i++) {
        if (!tr_membership_is_over(server->trainer[i].state))
            return i;
        if (first < 0 && server->trainer[i].state == TR_MEMBER_DRAINING)
            first = i;
    }
    return first;
}

/* Nobody makes steps any more, and the last cut was made. */
static bool is_over(const tr_server *server)
{
    const int maker = tr__server_maker(server);

    return server->cut.has_last && (maker < 0 || tr_membership_is_over(server->trainer[maker].state));
}

/* Is a cut of another one being written, who is dead? Who begins cuts now begins none meanwhile. */
static bool is_writing_anothers(const tr_server *server, int maker)
{
    const tr__cut *cut = &server->cut;

    return (cut->phase == TR__CUT_TAKING || cut->phase == TR__CUT_WRITING) &&
           (cut->maker != maker || cut->maker_epoch != server->trainer[maker].epoch);
}

uint32_t tr__server_maker_word(const tr_server *server)
{
    const int maker = tr__server_maker(server);

    if (is_over(server))
        return TR_COORDINATOR_OVER;
    return maker < 0 || is_writing_anothers(server, maker) ? TR_COORDINATOR_NONE : (uint32_t)maker;
}

void tr__server_maker_moves(tr_server *server)
{
    const int maker = tr__server_maker(server);

    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        const bool   is_draining = t->state == TR_MEMBER_DRAINING;
        if (is_draining && (is_over(server) || (i == maker && !is_writing_anothers(server, i))))
            t->over_seq = 0;
        t->owes_ack |= is_draining || (i == maker && t->state != TR_MEMBER_VACANT);
    }
    tr__server_try_cut(server);
    tr__server_verdict_moves(server);
}
