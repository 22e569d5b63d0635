/* server_members.h - which process each trainer is: the processes that died, the replacements, and the trainers that are out for good
 * (docs/protocol.md, "Decisions", and "A trainer's death and replacement").
 *
 * Servers hear of a death at different moments, and some never do. So server 0 decides for all (server_decisions.h). A server that has lost a
 * trainer, or that has heard the trainer's goodbye and settled all of its steps, tells server 0: MEMBER. Server 0 decides one of three things:
 *   - a process that has died is replaced: a standby is called to become this trainer, with a new epoch;
 *   - the trainer is lost: no standby is left, and the mode survives that;
 *   - the trainer is out: every server has its goodbye and all of its steps.
 * A server, server 0 too, changes a trainer's state for a death only when this is decided. A trainer that is dead for one server is
 * replaced, or lost, for all.
 *
 * The standby that is called sends REPLACE_DONE to every rank before anything else. It becomes the trainer on a server when both are there: the
 * decision and its REPLACE_DONE. Epochs (tr_roster_next_epoch) distinguish a replacement from the process before it, and from another standby
 * that was called before and died on the way. What a death and a replacement mean for the other protocols is in server_deaths.c. */
#ifndef TR_PSERVER_SERVER_MEMBERS_H
#define TR_PSERVER_SERVER_MEMBERS_H

#include "pserver/core/server_state.h"

void         tr__members_new(tr_server *server);
void         tr__members_free(tr_server *server);
/* Could the trainer get a replacement? */
bool         tr__members_are_replaceable(const tr_server *server, const tr__trainer *trainer);
/* Has the trainer's process died, for all that this server knows, without a decision about that? */
bool         tr__members_has_died(const tr_server *server, const tr__trainer *trainer);

/* == deciding (server 0) == */
/* MEMBER of server number `from`. */
tr_status    tr__members_on_news(tr_server *server, int from, const tr_form_member *news);
/* Forget what that server has said: another process serves in its place. */
void         tr__members_forget(tr_server *server, int from);
/* Decide about the trainers of which there is news. Returns whether anything was decided. *hopeless: a trainer that can be neither replaced nor
 * done without; else it stays as it is. */
bool         tr__members_decide(tr_server *server, const tr__trainer **hopeless);
/* Call the standbys that have not come. Returns when to look again. */
int64_t      tr__members_tick(tr_server *server, int64_t now);

/* == reporting (other servers) == */
/* Tell server 0 what it has not decided: what was not said yet, or (`again`) all of it. Returns whether there is any. */
bool         tr__members_report(tr_server *server, bool again);

/* == carrying out == */
/* REPLACE_DONE of a standby that has become a trainer: keep it until that is decided. */
void         tr__members_on_done(tr_server *server, const tr_form_replace_done *done);
/* A trainer whose present process is decided to be dead, and that counts here yet. NULL: there is none. */
tr__trainer *tr__members_next_vacant(tr_server *server);
/* A trainer whose replacement is decided and has come. NULL: there is none. *done: what it has said. */
tr__trainer *tr__members_next_arrived(tr_server *server, tr_form_replace_done *done);

#endif
