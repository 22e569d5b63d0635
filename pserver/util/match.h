/* match.h - give each of some things one of some others that it may have. */
#ifndef TR_PSERVER_MATCH_H
#define TR_PSERVER_MATCH_H

#include <stdbool.h>

/* `may[i * right + j]`: thing i may have j. Fills in `of[i]`, all different, or returns false: there is no way. Thing i has j = i
 * (cyclically the next) where nothing is against it. Augmenting paths (Kuhn 1955). */
bool tr_match(int *of, int left, int right, const bool *may);

#endif
