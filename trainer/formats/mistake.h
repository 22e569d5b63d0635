/* mistake.h - a mistake in a line of text, and its message: file, line, column, expected, got, what to do. */
#pragma once

#include "framework/base/compiler.h"
#include "trainer/files/data_spec.h"
#include "trainer/files/source.h"

typedef struct tr_mistake {
    const char *at;                   /* place in the line */
    const char *end;                  /* end of the wrong text; NULL: the next space or the end of the line */
    const char *slot;                 /* name of the slot; NULL: the mistake is in no slot */
    char        expected[192];        /* "expected an integer"; the text that was found is added */
    bool        is_memory;            /* there was no memory; the line itself is good */
} tr_mistake;

/* Returns false, for `return tr_mistake_at(...)`. */
bool tr_mistake_at(tr_mistake *mistake, const char *at, const char *slot, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
bool tr_mistake_memory(tr_mistake *mistake);
/* A failure that explains the mistake in line `line` of a block, which begins at `begin`. */
tr_status tr_mistake_explain(const tr_mistake *mistake, const tr_data_spec *spec, const tr_block_text *block, const char *begin,
                             int64_t line);

/* What to say where a text has another delimiter than the one that was given; NULL: it has none. */
const char *tr_delimiter_advice(const char *begin, const char *end, char delimiter);

TR_INLINE bool tr_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

TR_INLINE const char *tr_skip_spaces(const char *at)
{
    while (tr_is_space(*at))
        at++;
    return at;
}
