/* match.h - a matching in a bipartite graph: each left item gets an allowed right item of its own. */
#pragma once

#include <stdbool.h>

/* `may[i * right + j]`: left item i may have right item j. Fills in `of[i]`, all different, or returns false: there is no such matching.
 * Item i gets j = i (or the next, cyclically) where that is allowed. Augmenting paths (Kuhn 1955). */
bool tr_match(int *of, int left, int right, const bool *may);
