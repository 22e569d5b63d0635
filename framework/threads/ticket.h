/* ticket.h - the number of a job of the thread pool, and which of its slices nobody has claimed yet, in one word. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Job number, first unclaimed slice, the one behind the last. */
typedef uint64_t tr_ticket;

enum { TR_TICKET_BITS = 18, TR_TICKET_SLICES = (1 << TR_TICKET_BITS) - 1 };     /* for each of the two; that a job can have */

static inline int64_t tr__ticket_first(tr_ticket ticket) { return (int64_t)(ticket >> TR_TICKET_BITS & TR_TICKET_SLICES); }
static inline int64_t tr__ticket_end(tr_ticket ticket) { return (int64_t)(ticket & TR_TICKET_SLICES); }
static inline bool    tr__ticket_has_slices(tr_ticket ticket) { return tr__ticket_first(ticket) < tr__ticket_end(ticket); }

/* With the first slice claimed, or the last. */
static inline tr_ticket tr__ticket_without_first(tr_ticket ticket) { return ticket + ((tr_ticket)1 << TR_TICKET_BITS); }
static inline tr_ticket tr__ticket_without_last(tr_ticket ticket) { return ticket - 1; }

/* Of the next job, with so many slices. */
static inline tr_ticket tr__ticket_next(tr_ticket ticket, int64_t slices)
{
    return ((ticket >> 2 * TR_TICKET_BITS) + 1) << 2 * TR_TICKET_BITS | (tr_ticket)slices;
}
