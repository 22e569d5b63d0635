/* trace.h - a rank's events as CSV lines on standard error, when TRIREME_TRACE asks for them (docs/env.md).
 *
 * TRIREME_TRACE is a comma-separated list of kinds of events. The kinds are `messages` and `members`. */
#pragma once

#include "pserver/wire/membership.h"
#include "pserver/wire/wire.h"

/* Read TRIREME_TRACE, before the communication thread starts. TR_EINVAL names a word that is no kind of event. */
tr_status tr_trace_prepare(void);
bool      tr_trace_has_messages(void);
/* Set a function that is called for each change of a trainer's state, instead of a print; NULL: none. For programs that simulate. */
typedef void (*tr_trace_membership_fn)(void *payload, int64_t now, int rank, int trainer, tr_membership from, tr_membership to);
void      tr_trace_watch_members(tr_trace_membership_fn watch, void *payload);
/* With `members`: print "trace,SECONDS,RANK,moves trainer,NUMBER,FROM to TO". */
void      tr_trace_membership(int64_t now, int rank, int trainer, tr_membership from, tr_membership to);
/* Print "trace,SECONDS,RANK,sent to,PEER,MESSAGE" (or "received from"), where SECONDS is the monotonic clock's `now` in nanoseconds /
 * 1e9. */
void      tr_trace_message(int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire);
