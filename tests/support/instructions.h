/* instructions.h - kills a process after a number of its instructions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Start a child that calls `begin`, and then `work`, of which it makes `count` instructions, or all of them. Then it is killed. Returns how
 * many it made. Both return whether they succeeded. */
uint64_t tr_kill_after(bool (*begin)(void *payload), bool (*work)(void *payload), void *payload, uint64_t count);
