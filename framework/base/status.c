/* status.c - the text of a failure lives in one fixed buffer per thread. */
#include "framework/base/status.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"

enum { TEXT_SIZE = 8192 };

static _Thread_local char   text[TEXT_SIZE];
static _Thread_local size_t used;

static void append(const char *format, va_list args)
{
    const int n = tr__vformat(text + used, TEXT_SIZE - used, format, args);
    if (n > 0)
        used += (size_t)n < TEXT_SIZE - used ? (size_t)n : TEXT_SIZE - used - 1;
}

static void append_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append(format, args);
    va_end(args);
}

tr_status tr_fail(tr_status status, const char *format, ...)
{
    /* Formatted aside first: an argument may be the last failure's text itself. */
    char    message[TEXT_SIZE];
    va_list args;
    va_start(args, format);
    tr__vformat(message, sizeof message, format, args);
    va_end(args);
    used = 0;
    append_format("%s", message);
    const unsigned long long limit = status == TR_ENOMEM ? tr__address_limit() / 1024 : 0;
    return limit ? tr_context(status, "of the %llu KiB that this process may have in all (ulimit -v)", limit) : status;
}

tr_status tr_context(tr_status status, const char *format, ...)
{
    va_list args;
    append_format("\n  ");
    va_start(args, format);
    append(format, args);
    va_end(args);
    return status;
}

/* The environment is asked once. Threads may ask at the same time, and find the same. */
static bool shows_frames(void)
{
    static int shows = -1;

    if (__atomic_load_n(&shows, __ATOMIC_RELAXED) < 0) {
        const char *text_of = getenv("TRIREME_BACKTRACE");
        __atomic_store_n(&shows, text_of && *text_of && strcmp(text_of, "0") != 0, __ATOMIC_RELAXED);
    }
    return shows;
}

tr_status tr__trail(tr_status status, const char *function, const char *file, int line)
{
    if (!shows_frames())
        return status;
    append_format("\n  in %s (%s:%d)", function, file, line);
    return status;
}

const char *tr_error(void)
{
    return text;
}

const char *tr_status_name(tr_status status)
{
    static const char *const names[] = {
#define NAME(name, text) [TR_##name] = #name,
        TR_STATUS_LIST(NAME)
#undef NAME
    };
    return status >= 0 && status < TR_STATUS_COUNT ? names[status] : "?";
}

const char *tr_status_text(tr_status status)
{
    static const char *const texts[] = {
#define TEXT(name, text) [TR_##name] = text,
        TR_STATUS_LIST(TEXT)
#undef TEXT
    };
    return status >= 0 && status < TR_STATUS_COUNT ? texts[status] : "unknown status";
}

const char *tr_version(void)
{
    return TR_VERSION;
}
