/* text.c - see text.h. */
#include "framework/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/number.h"

/* Room for `more` bytes and the 0. */
static bool reserve(tr_text *text, size_t more)
{
    size_t capacity = text->capacity ? text->capacity : 128;

    if (text->failed)
        return false;
    if (text->data && text->capacity - text->size > more)
        return true;
    while (capacity - text->size <= more)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void tr_text_add_bytes(tr_text *text, const char *bytes, size_t size)
{
    if (!reserve(text, size))
        return;
    if (size > 0)
        memcpy(text->data + text->size, bytes, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void tr_text_add(tr_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = tr__vformat(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve(text, (size_t)length)) {
        tr__vformat(text->data + text->size, (size_t)length + 1, format, again);
        text->size += (size_t)length;
    }
    va_end(again);
}

tr_status tr_text_take(char **out, tr_text *text)
{
    tr_text_add_bytes(text, "", 0);                       /* an empty text is "" */
    if (text->failed) {
        const size_t size = text->size;
        tr_text_deinit(text);
        return tr_fail(TR_ENOMEM, "no memory for a text of more than %zu bytes", size);
    }
    *out = text->data;
    *text = (tr_text){0};
    return TR_OK;
}

void tr_text_deinit(tr_text *text)
{
    free(text->data);
    *text = (tr_text){0};
}
