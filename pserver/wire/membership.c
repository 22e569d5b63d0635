/* membership.c - see membership.h. */
#include "pserver/wire/membership.h"

static const char *const names[TR_MEMBERSHIP_COUNT] = {
#define NAME(STATE, name, meaning) [TR_MEMBER_##STATE] = #name,
    TR_MEMBERSHIP_STATES(NAME)
#undef NAME
};

static const bool moves[TR_MEMBERSHIP_COUNT][TR_MEMBERSHIP_COUNT] = {
#define MOVE(FROM, TO, cause) [TR_MEMBER_##FROM][TR_MEMBER_##TO] = true,
    TR_MEMBERSHIP_MOVES(MOVE)
#undef MOVE
};

const char *tr_membership_name(tr_membership state)
{
    return (unsigned)state < TR_MEMBERSHIP_COUNT ? names[state] : "?";
}

bool tr_membership_may_move(tr_membership from, tr_membership to)
{
    return moves[from][to];
}

bool tr_membership_is_over(tr_membership state)
{
    return state == TR_MEMBER_DRAINING || state == TR_MEMBER_LEFT || state == TR_MEMBER_LOST;
}
