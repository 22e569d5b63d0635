/* raw_slots.c - see raw_slots.h. */
#include "serving/raw_slots.h"

#include "framework/base/memory.h"
#include "framework/base/name.h"
#include "framework/base/number.h"
#include "framework/base/path.h"
#include "framework/tensors/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

static const char hash_name[] = "fnv1a64";        /* framework/base/text_id.h */

void tr_raw_slots_free(tr_raw_slots *slots)
{
    if (!slots)
        return;
    for (int i = 0; i < slots->count; i++)
        free((void *)(uintptr_t)slots->slot[i].name);
    free(slots->slot);
    free(slots);
}

/* == words of a line ======================================================================== */

/* The next word. "": there is none. */
static const char *take_word(char **line)
{
    char *word = strsep(line, " ");

    return word ? word : "";
}

static bool read_int(int64_t *out, const char *text)
{
    return tr_number_int64(out, &text) && *text == '\0';
}

static bool take_dtype(tr_raw_slot *slot, const char *word)
{
    static const tr_dtype possible[] = {TR_INT64, TR_FP32, TR_FP64};

    for (size_t i = 0; i < sizeof possible / sizeof *possible; i++)
        if (strcmp(word, tr_dtype_name(possible[i])) == 0) {
            slot->dtype = possible[i];
            return true;
        }
    return false;
}

/* Read dimensions such as -1x3x4: the first is the batch, and the others make a row of at most 2^31 - 1 values. */
static bool take_dims(tr_raw_slot *slot, const char *word)
{
    slot->width = 1;
    for (slot->rank = 0; slot->rank < TR_MAX_RANK; word++) {
        int64_t dim;
        if (!tr_number_int64(&dim, &word) || (slot->rank ? dim < 1 : dim != -1))
            return false;
        if (slot->rank && (__builtin_mul_overflow(slot->width, dim, &slot->width) || slot->width > INT32_MAX))
            return false;
        slot->dims[slot->rank++] = dim;
        if (*word != 'x')
            break;
    }
    return *word == '\0';
}

static bool take_rule(tr_raw_slot *slot, const char *rule, char **line)
{
    if (strcmp(rule, "hash") == 0)
        return slot->dtype == TR_INT64 && strcmp(take_word(line), hash_name) == 0 && read_int(&slot->hash_buckets, take_word(line)) &&
               slot->hash_buckets > 0;
    if (strcmp(rule, "missing") != 0 || slot->has_missing)
        return false;
    const char *text = take_word(line);
    slot->has_missing = true;
    return tr_number_double(&slot->missing, &text) && *text == '\0' && tr_dtype_holds(slot->dtype, slot->missing);
}

static bool take_slot(tr_raw_slot *slot, char *line)
{
    int64_t     level;
    const char *word;

    if (strcmp(take_word(&line), "slot") || !take_dtype(slot, take_word(&line)) || !read_int(&level, take_word(&line)) ||
        level < 0 || level > 1 || !take_dims(slot, take_word(&line)))
        return false;
    slot->lod_level = (int)level;
    for (word = take_word(&line); strcmp(word, ":"); word = take_word(&line))
        if (!take_rule(slot, word, &line))
            return false;
    if (!line || tr_name_check(line) != TR_OK)
        return false;
    slot->name = tr__must_strdup(line);
    slot->expected = slot->hash_buckets ? "a text or an integer" : tr_dtype_noun(slot->dtype);
    return true;
}

/* == the file =============================================================================== */

static bool fits(const tr_raw_slot *slot, const tr_var_desc *feed)
{
    const int64_t *dims = tr_var_desc_dims(feed);
    bool           fits = tr_var_desc_dtype(feed) == slot->dtype && tr_var_desc_lod_level(feed) == slot->lod_level &&
                          tr_var_desc_rank(feed) == slot->rank;

    for (int i = 1; fits && i < slot->rank; i++)
        fits = dims[i] < 0 || dims[i] == slot->dims[i];
    return fits;
}

static tr_status take_line(tr_raw_slots *slots, char *line, int number, tr_raw_feeds feeds)
{
    char              *copy = tr__must_strdup(line);
    tr_raw_slot       *slot = &slots->slot[slots->count];
    const tr_var_desc *feed = tr_block_find_var(feeds.block, feeds.name[slots->count]);
    const bool         is_good = take_slot(slot, line);
    tr_status          status = TR_OK;

    slots->count += slot->name != NULL;
    if (!is_good)
        status = tr_fail(TR_EFORMAT, "line %d is no slot, or one of a newer version: '%.200s'", number, copy);
    else if (!feed || strcmp(slot->name, feeds.name[slots->count - 1]) || !fits(slot, feed))
        status = tr_fail(TR_EFORMAT, "line %d: the slot '%s' does not fit feed %d of the program, '%s'", number, slot->name,
                         slots->count - 1, feeds.name[slots->count - 1]);
    free(copy);
    return status;
}

static tr_status take_lines(tr_raw_slots *slots, char *text, size_t size, tr_raw_feeds feeds)
{
    const bool is_text = strlen(text) == size;
    char      *rest = NULL, *line = strtok_r(text, "\n", &rest);
    int        number = 1;

    if (!is_text || !line || strcmp(line, "trireme-slots 1"))
        return tr_fail(TR_EFORMAT, "the first line is not 'trireme-slots 1': a newer version has written it");
    while ((line = strtok_r(NULL, "\n", &rest)) && slots->count < feeds.count)
        TR_TRY(take_line(slots, line, ++number, feeds));
    if (line || slots->count < feeds.count)
        return tr_fail(TR_EFORMAT, "the program has %d feeds; there must be so many slots", feeds.count);
    return TR_OK;
}

tr_status tr_raw_slots_parse(tr_raw_slots **out, char *text, size_t size, tr_raw_feeds feeds)
{
    tr_raw_slots *slots = tr__must_alloc(sizeof *slots);

    slots->slot = tr__must_array((size_t)feeds.count + 1, sizeof *slots->slot);
    const tr_status status = take_lines(slots, text, size, feeds);
    if (status == TR_OK)
        *out = slots;
    else
        tr_raw_slots_free(slots);
    return status;
}

tr_status tr_raw_slots_load(tr_raw_slots **out, const tr_export *from, const char *model_file, tr_raw_feeds feeds)
{
    char     *name = tr__must_format("%s.slots", model_file), *path = NULL;
    uint8_t  *text = NULL;
    size_t    size = 0;
    tr_status status = TR_OK;

    *out = NULL;
    if (!tr_checksums_has(from->sums[0], name))
        goto done;
    TR_TRY_GOTO(done, tr_checksums_check(from->sums[0], name));
    TR_TRY_GOTO(done, tr_path_inside(&path, from->part[0], name));
    TR_TRY_GOTO(done, tr_path_read(&text, &size, path, MOST_BYTES));
    TR_TRY_GOTO(done, tr_raw_slots_parse(out, (char *)text, size, feeds));
done:
    if (status != TR_OK)
        tr_context(status, "in the slots of the model, '%s'", name);
    free(text);
    tr_free(path);
    free(name);
    return status;
}

static bool is_equal(const tr_raw_slot *a, const tr_raw_slot *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank && a->lod_level == b->lod_level &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0 && a->hash_buckets == b->hash_buckets &&
           a->has_missing == b->has_missing && !(a->missing < b->missing) && !(a->missing > b->missing);
}

bool tr_raw_slots_equal(const tr_raw_slots *a, const tr_raw_slots *b)
{
    bool equal = a && b ? a->count == b->count : a == b;

    for (int i = 0; equal && a && i < a->count; i++)
        equal = is_equal(&a->slot[i], &b->slot[i]);
    return equal;
}
