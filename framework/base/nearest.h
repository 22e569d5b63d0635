/* nearest.h - "did you mean ...": the candidate that takes the fewest changes of letters to become a name. */
#pragma once

#include <stdbool.h>

typedef struct tr_nearest {
    const char *wanted;
    const char *best;                     /* NULL: there was no candidate */
    int         distance;                 /* letters to insert, drop, replace or swap with a neighbour */
} tr_nearest;

/* tr_nearest n = {.wanted = name};  then one try for each candidate, which must outlive it. */
void tr_nearest_try(tr_nearest *nearest, const char *candidate);
/* Near enough that a slip of the finger explains it. */
bool tr_nearest_is_close(const tr_nearest *nearest);
