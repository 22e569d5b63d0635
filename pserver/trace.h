/* trace.h - what a rank does, one CSV line per event on standard error, when TRIREME_TRACE asks for it (docs/env.md).
 *
 * TRIREME_TRACE is a comma-separated list of kinds of events. There is one kind: `messages`. */
#ifndef TR_PSERVER_TRACE_H
#define TR_PSERVER_TRACE_H

#include "pserver/wire.h"

/* Read TRIREME_TRACE, before the communication thread starts. TR_EINVAL names a word that is no kind of event. */
tr_status tr_trace_prepare(void);
bool      tr_trace_has_messages(void);
/* Print "trace,SECONDS,RANK,sent to,PEER,MESSAGE" (or "received from"), where SECONDS is the monotonic clock's `now` in nanoseconds / 1e9. */
void      tr_trace_message(int64_t now, int rank, bool is_sent, int peer, const tr_wire *wire);

#endif
