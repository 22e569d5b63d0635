/* mistake.c - see mistake.h. */
#include "trainer/formats/mistake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "framework/base/name.h"
#include "framework/base/number.h"

bool tr_mistake_at(tr_mistake *mistake, const char *at, const char *slot, const char *format, ...)
{
    va_list args;

    mistake->at = at;
    mistake->end = NULL;
    mistake->slot = slot;
    mistake->is_memory = false;
    va_start(args, format);
    tr__vformat(mistake->expected, sizeof mistake->expected, format, args);
    va_end(args);
    return false;
}

bool tr_mistake_memory(tr_mistake *mistake)
{
    mistake->is_memory = true;
    return false;
}

/* == got ====================================================================================== */

/* Characters that a reader would not see, or that would steer a terminal. */
static bool is_invisible(int32_t code)
{
    return code < ' ' || (code >= 0x7f && code <= 0xa0) || code == 0xad || (code >= 0x2000 && code <= 0x200f) ||
           (code >= 0x2028 && code <= 0x202f) || (code >= 0x205f && code <= 0x206f) || code == 0x3000 || code == 0xfeff;
}

/* Write one character of the text to `to`, and return its length there. At most 11 bytes. */
static size_t show_character(char *to, const char **at)
{
    const char   *from = *at;
    const uint8_t byte = (uint8_t)*from;
    const int32_t code = tr__code_point((const uint8_t **)at);

    if (code < 0)
        *at = from + 1;
    if (code == '\t' || code == '\r')
        return (size_t)sprintf(to, "\\%c", code == '\t' ? 't' : 'r');
    if (code < 0 || (code < 0x80 && is_invisible(code)))
        return (size_t)sprintf(to, "\\x%02x", byte);
    if (is_invisible(code))
        return (size_t)sprintf(to, "\\u%04x", (unsigned)code);
    memcpy(to, from, (size_t)(*at - from));
    return (size_t)(*at - from);
}

/* Copy the wrong text, shortened for a message. */
static void describe_got(char *out, size_t size, const char *at, const char *end)
{
    size_t used = 0;

    if (at == end) {
        snprintf(out, size, "%s", *at == '\n' ? "the end of the line" : "an empty field");
        return;
    }
    out[used++] = '\'';
    while (at < end && used < size - 16)
        used += show_character(out + used, &at);
    snprintf(out + used, size - used, at < end ? "...'" : "'");
}

/* == advice =================================================================================== */

typedef struct text_part {
    const char *begin, *end;
} text_part;

static bool has(text_part text, char c)
{
    return memchr(text.begin, c, (size_t)(text.end - text.begin));
}

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static bool begins_with_letter(text_part text)
{
    const char c = text.begin < text.end ? *text.begin | 32 : ' ';
    return c >= 'a' && c <= 'z';
}

/* A number with a point or an exponent: "2.0", "1e3". */
static bool is_fraction(text_part text)
{
    bool is_number = text.begin < text.end && (is_digit(*text.begin) || strchr("+-.", *text.begin));

    for (const char *p = text.begin; p < text.end; p++)
        is_number = is_number && (is_digit(*p) || strchr("+-.eE", *p));
    return is_number && (has(text, '.') || has(text, 'e') || has(text, 'E'));
}

const char *tr_delimiter_advice(const char *begin, const char *end, char delimiter)
{
    const text_part text = {begin, end};
    static const char *const advice[] = {
        "\t; is the delimiter a tab? Say delimiter=\"\\t\"", ";; say delimiter=\";\", if that is the delimiter",
        "|; say delimiter=\"|\", if that is the delimiter", ",; say delimiter=\",\", if that is the delimiter",
        " ; is the delimiter a space? Say delimiter=\" \""};

    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (*advice[i] != delimiter && has(text, *advice[i]))
            return advice[i] + 1;
    return NULL;
}

static const char *advise_csv(const tr_mistake *mistake, const tr_data_spec *spec, text_part line, text_part got, bool is_first)
{
    const bool      is_split = has(line, spec->delimiter);
    const text_part wrong = mistake->slot ? got : line;      /* no slot: the number of fields is wrong */
    const char     *other = tr_delimiter_advice(wrong.begin, wrong.end, spec->delimiter);

    if (is_first && !spec->has_header && begins_with_letter(wrong))
        return "; does the first line name the columns? Say header=True";
    if (mistake->slot && is_split && has(got, ','))
        return "; numbers have a point, and no comma";
    if (other && (mistake->slot || !is_split))
        return other;
    if (mistake->slot && strstr(mistake->expected, "an integer") && begins_with_letter(got))
        return "; for ids of texts give the slot a `hash=`";
    return NULL;
}

static const char *advise_words(const tr_data_spec *spec, text_part line, text_part got)
{
    const bool is_libsvm = spec->format == TR_DATA_LIBSVM;

    if (is_libsvm && got.end - got.begin > 4 && !memcmp(got.begin, "qid:", 4))
        return "; query ids are not read: take them out, with pipe_command=\"sed 's/ qid:[0-9]*//'\"";
    if (!is_libsvm && has(got, ':'))
        return "; is it format=\"libsvm\"?";
    if (has(got, ',') || has(got, ';') || has(got, '"'))
        return is_libsvm && has(line, ':') ? "; a line has one label" : "; is it format=\"csv\"?";
    return NULL;
}

static const char *advise(const tr_mistake *mistake, const tr_data_spec *spec, text_part line, text_part got, bool is_first)
{
    const char *advice;

    if (has(line, '\0'))
        return "; the line has NUL bytes: if it is text in UTF-16, convert it: iconv -f UTF-16 -t UTF-8";
    advice = spec->format == TR_DATA_CSV ? advise_csv(mistake, spec, line, got, is_first) : advise_words(spec, line, got);
    if (!advice && strstr(mistake->expected, "an integer") && is_fraction(got))
        return "; if its values have fractions, make the slot float32";
    return advice ? advice : "";
}

/* == all ====================================================================================== */

tr_status tr_mistake_explain(const tr_mistake *mistake, const tr_data_spec *spec, const tr_block_text *block, const char *begin,
                             int64_t line)
{
    char            shown[80];
    const text_part whole = {begin, rawmemchr(begin, '\n')};
    text_part       got = {mistake->at, mistake->end ? mistake->end : mistake->at};

    if (mistake->is_memory)
        return tr_fail(TR_ENOMEM, "data: no memory for the lines of '%s'", block->piece.path);
    while (!mistake->end && *got.end != '\n' && (got.end == got.begin || !tr_is_space(*got.end)))
        got.end++;
    describe_got(shown, sizeof shown, got.begin, got.end);
    const int64_t number = tr_piece_line_number(&block->piece, block->line + line);
    return tr_fail(TR_EFORMAT, "%s, line %lld, column %lld: %s%s%s%s, got %s%s", block->piece.path, (long long)number,
                   (long long)(mistake->at - begin + 1), mistake->slot ? "slot '" : "", mistake->slot ? mistake->slot : "",
                   mistake->slot ? "': " : "", mistake->expected, shown, advise(mistake, spec, whole, got, number == 1));
}
