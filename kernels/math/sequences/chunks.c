/* chunks.c - see chunks.h. */
#include "kernels/math/sequences/chunks.h"

const tr_chunk_scheme tr_chunk_schemes[TR_CHUNK_COUNT] = {
    [TR_CHUNK_IOB] = {"IOB", 2, 1u << 0, 0},                                 /* B, I */
    [TR_CHUNK_IOE] = {"IOE", 2, 0, 1u << 1},                                 /* I, E */
    [TR_CHUNK_IOBES] = {"IOBES", 4, 1u << 0 | 1u << 3, 1u << 2 | 1u << 3},   /* B, I, E, S */
    [TR_CHUNK_PLAIN] = {"plain", 1, 0, 0},
};

/* Whether a chunk ends with the first of two neighbours, or begins with the second. */
static bool is_cut(const tr_chunk_scheme *s, int64_t before, int64_t after)
{
    return before / s->tags != after / s->tags || s->ends >> before % s->tags & 1 || s->begins >> after % s->tags & 1;
}

static bool is_counted(const tr_chunk_rules *r, int64_t type)
{
    for (int i = 0; i < r->excluded_count; i++)
        if (r->excluded[i] == type)
            return false;
    return type < r->types;
}

void tr_chunks_count(tr_chunk_counts *counts, const int64_t *found, const int64_t *real, int64_t rows, const tr_chunk_rules *r)
{
    const tr_chunk_scheme *s = r->scheme;
    int64_t                found_first = 0, real_first = 0;

    for (int64_t t = 0; t < rows; t++) {
        const int64_t found_type = found[t] / s->tags, real_type = real[t] / s->tags;
        const bool    found_ends = t + 1 == rows || is_cut(s, found[t], found[t + 1]);
        const bool    real_ends = t + 1 == rows || is_cut(s, real[t], real[t + 1]);
        const bool    is_found = found_ends && is_counted(r, found_type), is_real = real_ends && is_counted(r, real_type);

        counts->found += is_found;
        counts->real += is_real;
        counts->right += is_found && is_real && found_first == real_first && found_type == real_type;
        found_first = found_ends ? t + 1 : found_first;
        real_first = real_ends ? t + 1 : real_first;
    }
}
