/* name.c - see name.h. */
#include "framework/base/name.h"

#include <stdio.h>
#include <string.h>

int32_t tr__code_point(const uint8_t **at)
{
    static const int32_t least[] = {0, 0x80, 0x800, 0x10000};
    const uint8_t        first = *(*at)++;
    const int            more = first < 0x80 ? 0 : first >> 5 == 0x6 ? 1 : first >> 4 == 0xe ? 2 : first >> 3 == 0x1e ? 3 : -1;

    if (more <= 0)
        return more == 0 ? first : -1;
    int32_t code = first & (0x3f >> more);
    for (int i = 0; i < more; i++) {
        if (**at >> 6 != 2)
            return -1;
        code = code << 6 | (*(*at)++ & 0x3f);
    }
    return code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? -1 : code;
}

int64_t tr__utf8_mistake(const char *text, int64_t size)
{
    enum { LONGEST = 4 };                                  /* bytes of a character */
    uint8_t rest[2 * LONGEST];
    int64_t at = 0;

    while (at < size) {
        const uint8_t *from = (const uint8_t *)text + at;
        if (*from < 0x80) {
            at++;
            continue;
        }
        if (size - at < LONGEST) {                         /* nothing beyond the text is read */
            memset(rest, 0, sizeof rest);
            from = memcpy(rest, from, (size_t)(size - at));
        }
        const uint8_t *p = from;
        if (tr__code_point(&p) < 0)
            return at;
        at += p - from;
    }
    return -1;
}

static bool is_control(int32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

const char *tr__name_show(char *room, const char *text, size_t size)
{
    enum { SHOWN = 80 };
    char *to = room;

    for (size_t i = 0; i < size && i < SHOWN; i++) {
        const uint8_t byte = (uint8_t)text[i];
        if (byte >= 0x20 && byte < 0x7f)
            *to++ = (char)byte;
        else
            to += sprintf(to, "\\x%02x", byte);
    }
    strcpy(to, size > SHOWN ? "..." : "");
    return room;
}

static tr_status refuse(const char *name, size_t size, const char *why)
{
    char shown[TR_NAME_SHOWN];

    return tr_fail(TR_EINVAL, "the name '%s' is not possible: %s", tr__name_show(shown, name, size), why);
}

tr_status tr_name_check(const char *name)
{
    const size_t   size = strnlen(name, TR_NAME_MAX + 1);
    const uint8_t *at = (const uint8_t *)name;

    if (size == 0)
        return tr_fail(TR_EINVAL, "a name must have at least one letter, got ''");
    if (size > TR_NAME_MAX)
        return refuse(name, size, "it is longer than 1024 bytes");
    while (*at) {
        const int32_t code = tr__code_point(&at);
        if (code < 0)
            return refuse(name, size, "it is no valid UTF-8");
        if (is_control(code))
            return refuse(name, size, "it has a control character");
    }
    return TR_OK;
}
