/* membership.h - the state of a trainer in the job, as one server sees it: the states, and the legal moves between them.
 *
 * Servers may differ for a while. docs/protocol.md draws the diagram and says which message or event causes each move; a test compares
 * it with this list. */
#pragma once

#include <stdbool.h>

/* X(STATE, name, "meaning"). */
#define TR_MEMBERSHIP_STATES(X)                                                                                  \
    X(ACTIVE,    active,    "makes steps, or has not joined yet at the start of the job")                        \
    X(VACANT,    vacant,    "died; a standby is called to take its place, and the job waits for that")                  \
    X(RETURNING, returning, "its replacement has joined and has made no step yet")                               \
    X(DRAINING,  draining,  "has made its last step, and stays until the last checkpoint is made")               \
    X(LEFT,      left,      "has said goodbye; all that it sent counts")                                         \
    X(LOST,      lost,      "died without a replacement; the job goes on without it")

/* X(FROM, TO, "cause"). */
#define TR_MEMBERSHIP_MOVES(X)                                                                                   \
    X(ACTIVE,    VACANT,    "DECISION: it died, and a standby is called")                                        \
    X(ACTIVE,    DRAINING,  "DRAIN")                                                                             \
    X(ACTIVE,    LEFT,      "GOODBYE")                                                                           \
    X(ACTIVE,    LOST,      "DECISION: it died without a standby, in a mode that survives it")                   \
    X(VACANT,    RETURNING, "JOIN of the replacement, or REPLACE_DONE says that it has joined elsewhere")        \
    X(VACANT,    LOST,      "DECISION: no standby is left, in a mode that survives it")                          \
    X(RETURNING, ACTIVE,    "STEP_END, or REPLACE_DONE says that it has made a step")                            \
    X(RETURNING, VACANT,    "DECISION: the replacement died, and another standby is called")                     \
    X(RETURNING, DRAINING,  "DRAIN")                                                                             \
    X(RETURNING, LEFT,      "GOODBYE")                                                                           \
    X(RETURNING, LOST,      "DECISION: it died without a standby, in a mode that survives it")                   \
    X(DRAINING,  LEFT,      "GOODBYE, death, or the end of its process")                                         \
    X(DRAINING,  VACANT,    "DECISION: another server has lost it before its last step")                         \
    X(LEFT,      DRAINING,  "DRAIN again, to a server that has taken a dead server's place")                     \
    X(LEFT,      VACANT,    "DECISION: another server has lost it before its last step")

typedef enum tr_membership {
#define TR_MEMBERSHIP_ENUM(STATE, name, meaning) TR_MEMBER_##STATE,
    TR_MEMBERSHIP_STATES(TR_MEMBERSHIP_ENUM)
#undef TR_MEMBERSHIP_ENUM
    TR_MEMBERSHIP_COUNT
} tr_membership;

const char *tr_membership_name(tr_membership state);
bool        tr_membership_may_move(tr_membership from, tr_membership to);
/* Will the trainer make no more steps? */
bool        tr_membership_is_over(tr_membership state);
