/* server_members.h - which process each trainer is: the processes that died, the replacements, and the trainers that are out for good
 * (docs/protocol.md, "Decisions", and "A trainer's death and replacement").
 *
 * Servers learn of a death at different moments, and some never do. So server 0 decides for all (server_decisions.h). A server reports to
 * server 0 (MEMBER) when a trainer has died, or when the trainer has sent GOODBYE and all of its steps are settled. Server 0 decides one of
 * three things:
 *   - a process that has died is replaced: a standby is called to become this trainer, with a new incarnation;
 *   - the trainer is lost: no standby is left, and the mode survives that;
 *   - the trainer is out: every server has its goodbye and all of its steps.
 * A server, server 0 too, changes a trainer's state for a death only when this is decided. A trainer that is dead for one server is
 * replaced, or lost, for all.
 *
 * The standby that is called sends REPLACE_DONE to every rank first. It becomes the trainer on a server when this server has both the
 * decision and the REPLACE_DONE. Incarnations (tr_roster_next_incarnation) distinguish a replacement from the process before it, and from a
 * standby that was called earlier and died. server_deaths.c has the effects of a death and of a replacement on the other protocols. */
#pragma once

#include "pserver/core/updates/server_state.h"

void         tr__members_new(tr_server *server);
void         tr__members_free(tr_server *server);
/* Can the trainer get a replacement: is a standby left, and is the trainer not out? */
bool         tr__members_are_replaceable(const tr_server *server, const tr__trainer *trainer);
/* Does this server know of the death of the trainer's process, while nothing is decided about it? */
bool         tr__members_has_died(const tr_server *server, const tr__trainer *trainer);

/* == deciding (server 0) == */
/* Handle MEMBER, a report of server number `from`. */
tr_status    tr__members_on_news(tr_server *server, int from, const tr_form_member *news);
/* Drop the reports of that server, because another process serves in its place. */
void         tr__members_forget(tr_server *server, int from);
/* Decide about the trainers of which there are reports. Returns whether anything was decided. *hopeless is set when a trainer cannot be
 * replaced and the mode needs it; otherwise it is unchanged. */
bool         tr__members_decide(tr_server *server, const tr__trainer **hopeless);
/* Repeat the calls to standbys that have not answered. Returns the time of the next call. */
int64_t      tr__members_tick(tr_server *server, int64_t now);

/* == reporting (other servers) == */
/* Report to server 0 what it has not decided: only new reports, or (`again`) all of them. Returns whether any report is undecided. */
bool         tr__members_report(tr_server *server, bool again);

/* == carrying out == */
/* REPLACE_DONE of a standby that has become a trainer: store it until the decision arrives. */
void         tr__members_on_done(tr_server *server, const tr_form_replace_done *done);
/* A trainer whose process is decided to be dead, and that is not VACANT here yet. NULL: there is none. */
tr__trainer *tr__members_next_vacant(tr_server *server);
/* A trainer whose replacement is decided and has sent REPLACE_DONE (*done). NULL: there is none. */
tr__trainer *tr__members_next_arrived(tr_server *server, tr_form_replace_done *done);
