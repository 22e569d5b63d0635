/* op_write.c - operators of one text, at the end of a block: the other way round of op_read.c.
 *
 * A writer of many operators (the transpiler) says them all in one call. The text may be damaged: each number and each word is
 * checked before it is used. An operator enters the block as by tr_block_insert_op. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "framework/programs/attr.h"

typedef struct words {
    const char *at, *end;
    bool        is_damaged;
} words;

static const char *next_word(words *w)
{
    const char *word = w->at;
    const char *zero = w->is_damaged ? NULL : memchr(word, '\0', (size_t)(w->end - word));

    if (!zero) {
        w->is_damaged = true;
        return "";
    }
    w->at = zero + 1;
    return word;
}

static int64_t next_number(words *w)
{
    const char *word = next_word(w);
    char       *end;

    errno = 0;
    const int64_t number = strtoll(word, &end, 10);
    w->is_damaged = w->is_damaged || end == word || *end != '\0' || errno != 0;
    return w->is_damaged ? 0 : number;
}

static double next_float(words *w)
{
    const char  *word = next_word(w);
    char        *end;
    const double number = tr__strtod(word, &end);

    w->is_damaged = w->is_damaged || end == word || *end != '\0';
    return number;
}

/* How many words follow. Each has a byte at least, so a number beyond the text is damage. */
static int next_count(words *w)
{
    const int64_t count = next_number(w);

    w->is_damaged = w->is_damaged || count < 0 || count > w->end - w->at;
    return w->is_damaged ? 0 : (int)count;
}

/* The next `count` words, to be freed. */
static const char **next_words(words *w, int count)
{
    const char **list = tr__must_alloc(((size_t)count + 1) * sizeof *list);

    for (int i = 0; i < count; i++)
        list[i] = next_word(w);
    return list;
}

static void read_slots(tr_op_desc *op, words *w, bool output)
{
    for (int left = next_count(w); left > 0; left--) {
        const char  *slot = next_word(w);
        const int    count = next_count(w);
        const char **names = next_words(w, count);
        if (!w->is_damaged)
            (output ? tr_op_desc_set_output : tr_op_desc_set_input)(op, slot, count, names);
        free(names);
    }
}

static void read_list(tr_op_desc *op, words *w, const char *name, tr_attr_type type, int count)
{
    const tr_attr_type element = tr_attr_type_element(type);

    if (element == TR_ATTR_STRING) {
        const char **strings = next_words(w, count);
        tr_op_desc_set_strings(op, name, count, strings);
        free(strings);
    } else if (element == TR_ATTR_FLOAT) {
        double *floats = tr__must_alloc(((size_t)count + 1) * sizeof *floats);
        for (int i = 0; i < count; i++)
            floats[i] = next_float(w);
        tr_op_desc_set_floats(op, name, count, floats);
        free(floats);
    } else {
        int64_t *numbers = tr__must_alloc(((size_t)count + 1) * sizeof *numbers);
        for (int i = 0; i < count; i++)
            numbers[i] = next_number(w);
        tr_op_desc_set_ints(op, name, count, numbers, type);
        free(numbers);
    }
}

static void read_attr(tr_op_desc *op, words *w)
{
    const char   *name = next_word(w);
    const int64_t type = next_number(w);
    const int     count = next_count(w);

    w->is_damaged = w->is_damaged || type < 0 || type > INT32_MAX || !tr_attr_type_is_valid((int)type) ||
                    (!tr_attr_type_is_list((tr_attr_type)type) && count != 1);
    if (w->is_damaged)
        return;
    if (tr_attr_type_is_list((tr_attr_type)type)) {
        read_list(op, w, name, (tr_attr_type)type, count);
    } else if (type == TR_ATTR_FLOAT) {
        tr_op_desc_set_float(op, name, next_float(w));
    } else if (type == TR_ATTR_STRING) {
        const char *string = next_word(w);
        tr_op_desc_set_string(op, name, string, strlen(string));
    } else {
        tr_op_desc_set_int(op, name, next_number(w), (tr_attr_type)type);
    }
}

tr_status tr_block_append_ops(tr_block *block, const void *bytes, size_t size)
{
    words       w = {.at = bytes, .end = (const char *)bytes + size};
    tr_op_desc *op = NULL;
    tr_status   status = TR_OK;

    while (status == TR_OK && w.at < w.end) {
        op = tr_op_desc_new(next_word(&w));
        read_slots(op, &w, false);
        read_slots(op, &w, true);
        for (int left = next_count(&w); left > 0; left--)
            read_attr(op, &w);
        status = w.is_damaged ? tr_fail(TR_EFORMAT, "the text of operators is damaged at byte %zu of %zu",
                                        (size_t)(w.at - (const char *)bytes), size)
                              : tr_block_insert_op(block, -1, op);
    }
    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}
