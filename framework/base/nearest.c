/* nearest.c - see nearest.h. Names longer than LONGEST are compared by their first letters. */
#include "framework/base/nearest.h"

#include <string.h>

enum { LONGEST = 64 };

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int clipped_length(const char *text)
{
    const size_t length = strlen(text);
    return length < LONGEST ? (int)length : LONGEST;
}

/* Edit distance with swaps of neighbours, row by row: `before` and `last` are the two rows above. */
static int distance_of(const char *a, const char *b)
{
    const int m = clipped_length(a), n = clipped_length(b);
    int rows[3][LONGEST + 1];
    int *before = rows[0], *last = rows[1], *row = rows[2];

    for (int j = 0; j <= n; j++)
        last[j] = j;
    for (int i = 1; i <= m; i++) {
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            row[j] = min(min(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = min(row[j], before[j - 2] + 1);
        }
        int *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[n];
}

void tr_nearest_try(tr_nearest *nearest, const char *candidate)
{
    const int distance = distance_of(nearest->wanted, candidate);

    if (!nearest->best || distance < nearest->distance) {
        nearest->best = candidate;
        nearest->distance = distance;
    }
}

bool tr_nearest_is_close(const tr_nearest *nearest)
{
    return nearest->best && nearest->distance <= 1 + (int)strlen(nearest->wanted) / 4;
}
