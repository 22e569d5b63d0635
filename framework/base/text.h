/* text.h - a text that grows at its end. A failed allocation is remembered and reported once, by tr_text_take,
 * so that printing code need not check every line. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_text {                  /* zeroed: empty */
    char  *data;                          /* NULL while empty; ends with a 0 */
    size_t size, capacity;
    bool   failed;
} tr_text;

void tr_text_add(tr_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tr_text_add_bytes(tr_text *text, const char *bytes, size_t size);
/* The text is the caller's, to be freed by tr_free; `text` is empty again. */
tr_status tr_text_take(char **out, tr_text *text);
void      tr_text_deinit(tr_text *text);
