/* match.c - see match.h. */
#include "pserver/util/match.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct match {
    int         right;
    const bool *may;
    int        *of, *taken;           /* the partner of each left item, and of each right item */
    bool       *seen;
} match;

static bool place(match *m, int i)
{
    for (int k = 0; k < m->right; k++) {
        const int j = (i + k) % m->right;
        if (!m->may[i * m->right + j] || m->seen[j])
            continue;
        m->seen[j] = true;
        if (m->taken[j] >= 0 && !place(m, m->taken[j]))
            continue;
        m->taken[j] = i;
        m->of[i] = j;
        return true;
    }
    return false;
}

bool tr_match(int *of, int left, int right, const bool *may)
{
    match m = {right, may, of, tr__must_bytes((size_t)(right + 1) * sizeof(int)), tr__must_bytes((size_t)right + 1)};
    bool  is_whole = true;

    for (int j = 0; j < right; j++)
        m.taken[j] = -1;
    for (int i = 0; i < left && is_whole; i++) {
        memset(m.seen, 0, (size_t)right);
        is_whole = place(&m, i);
    }
    free(m.taken);
    free(m.seen);
    return is_whole;
}
