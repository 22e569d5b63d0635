/* shares.h - the values that all servers have gathered (gather.h) in an update, in order, for a replica, which makes the same update at another
 * time.
 *
 * Invariant: an update takes the values in the order in which its server gathered them. */
#ifndef TR_PSERVER_SHARES_H
#define TR_PSERVER_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
typedef struct tr_shares {
    struct tr_share *item;
    size_t           count, taken, capacity;
    size_t           skip;            /* that come again, and were taken */
    uint8_t         *to;              /* somebody waits for the next; NULL: nobody */
    uint64_t         done;            /* were waited for, and came */
} tr_shares;

void tr_shares_deinit(tr_shares *shares);
/* The next one has come; it is copied. */
void tr_shares_put(tr_shares *shares, const void *data, uint64_t bytes);
/* Somebody waits for the next. */
void tr_shares_ask(tr_shares *shares, void *to);
/* The same are told anew, from the update's first on. */
void tr_shares_restart(tr_shares *shares);
/* Who waits gets so many zeros. */
void tr_shares_give_up(tr_shares *shares, uint64_t bytes);
/* The update is over. */
void tr_shares_drop(tr_shares *shares);

#endif
