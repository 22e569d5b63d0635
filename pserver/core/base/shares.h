/* shares.h - gathered values (gathering.h) of an update, which a replica gets from its server and uses when it computes the same update.
 *
 * Invariant: an update takes the values in the order in which its server gathered them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed one is empty. */
typedef struct tr_shares {
    struct tr_share *item;
    size_t           count, taken, capacity;
    size_t           skip;            /* values that are sent a second time and were taken already */
    uint8_t         *to;              /* the next value goes to this memory; NULL: no one waits for it */
    uint64_t         done;            /* number of values that were written to a waiting caller */
} tr_shares;

void tr_shares_deinit(tr_shares *shares);
/* The next value has arrived; it is copied. */
void tr_shares_put(tr_shares *shares, const void *data, uint64_t bytes);
/* Write the next value to `to`, now or when it arrives. */
void tr_shares_ask(tr_shares *shares, void *to);
/* The values will be sent again, beginning with the first value of the update: skip those that were taken. */
void tr_shares_restart(tr_shares *shares);
/* No value will arrive: write `bytes` zeros to the caller that waits. */
void tr_shares_give_up(tr_shares *shares, uint64_t bytes);
/* The update is over: drop its values. */
void tr_shares_drop(tr_shares *shares);
