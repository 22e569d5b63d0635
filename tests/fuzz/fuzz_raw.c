/* fuzz_raw.c - what a server of raw rows reads from others: a model's file of slots, and texts of the network. The first byte chooses.
 * Slots that are accepted take rows; texts that are accepted are all there. */
#include "framework/programs/program.h"
#include "serving/raw_rows.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static char         user[] = "user", tags[] = "tags", price[] = "price", *names[] = {user, tags, price};
static tr_raw_feeds feeds;

static void make_feeds(void)
{
    static const int64_t one[] = {-1, 1}, three[] = {-1, -1};
    tr_block            *block = tr_program_block(tr_program_new(), 0);

    for (int i = 0; i < 3; i++) {
        tr_var_desc *var = tr_block_create_var(block, names[i]);
        tr_var_desc_set_dtype(var, i == 2 ? TR_FP32 : TR_INT64);
        tr_var_desc_set_shape(var, 2, i == 2 ? three : one);
        tr_var_desc_set_lod_level(var, i == 1);
    }
    feeds = (tr_raw_feeds){block, 3, names};
}

/* Two rows of values that any slots may take or refuse. */
static void fill(const tr_raw_slots *slots)
{
    static const tr_raw_text texts[] = {{"Oslo", 4}, {NULL, 0}};
    static const int64_t     offsets[] = {0, 0, 2};
    static const double      numbers[2 * 64] = {1.5, 1e39};
    tr_raw_rows             *rows = NULL;
    tr_raw_values            values[] = {{.slot = "user", .kind = TR_RAW_TEXTS, .texts = texts},
                                         {.slot = "tags", .kind = TR_RAW_TEXTS, .texts = texts, .offsets = offsets},
                                         {.slot = "price", .kind = TR_RAW_NUMBERS, .numbers = numbers}};
    volatile int64_t         sink = 0;

    if (slots->slot[2].width > 64 || tr__raw_rows_new(&rows, slots, "model") != TR_OK)
        return;
    if (tr_raw_rows_fill(rows, 2, 3, values) == TR_OK)
        for (int64_t i = 0; i < 2; i++)
            sink += ((const int64_t *)tr_raw_rows_feeds(rows)[1].data)[i] + tr_raw_rows_feeds(rows)[1].lod_offsets[0][i];
    (void)sink;
    tr_raw_rows_free(rows);
}

static void read_slots(const uint8_t *input, size_t size)
{
    char         *text = malloc(size + 1);
    tr_raw_slots *slots = NULL;

    memcpy(text, input, size);
    text[size] = '\0';
    if (tr_raw_slots_parse(&slots, text, size, feeds) == TR_OK) {
        if (slots->count != 3 || !tr_raw_slots_equal(slots, slots))
            abort();
        fill(slots);
    }
    tr_raw_slots_free(slots);
    free(text);
}

static void read_texts(const uint8_t *input, size_t size)
{
    int64_t ids[256];

    if (size && tr_raw_ids(ids, input[0], 1000, input + 1, (int64_t)size - 1) == TR_OK)
        for (int i = 0; i < input[0]; i++)
            if (ids[i] < 0 || ids[i] >= 1000)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!feeds.block)
        make_feeds();
    if (size)
        (*input % 2 ? read_texts : read_slots)(input + 1, size - 1);
    return 0;
}
