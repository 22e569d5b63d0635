/* fuzz_feed.c - lines of data files: the first byte chooses the format, the rest are lines, of a file with a line of
 * names where the format may have one. Whatever is accepted is whole: every slot has its values for every line. */
#include "trainer/formats/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const int64_t      one[] = {-1, 1}, three[] = {-1, 3};
static const tr_data_slot slots[TR_DATA_TABLE][3] = {
    {{.name = "i", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
     {.name = NULL, .dtype = TR_FP64, .rank = 2, .dims = one},
     {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = three}},
    {{.name = "i", .dtype = TR_INT64, .rank = 2, .dims = one, .hash_buckets = 100},
     {.name = "s", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1},
     {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = three, .has_missing = true}},
    {{.name = "y", .dtype = TR_FP64, .rank = 2, .dims = one},
     {.name = "x", .dtype = TR_FP32, .rank = 2, .dims = three},
     {.name = "i", .dtype = TR_INT64, .rank = 2, .dims = one, .lod_level = 1}},
};

static void check_columns(const tr_columns *columns)
{
    volatile char sink = 0;

    for (int i = 0; i < columns->slots; i++) {
        const tr_column *column = &columns->column[i];
        if (column->count != (column->is_dropped ? 0 : tr_column_begin(column, columns->lines)))
            abort();
        for (int64_t b = 0; b < column->count * column->size; b++)
            sink = (char)(sink + column->data[b]);
        for (int64_t l = 0; column->is_ragged && l < columns->lines; l++)
            if (column->end[l] < tr_column_begin(column, l))
                abort();
    }
}

/* The text as a block of its own size: a line's end and a NUL after it. */
static char *copy_text(const uint8_t *input, size_t *size)
{
    char *text = malloc(*size + 2);

    memcpy(text, input, *size);
    if (*size && text[*size - 1] != '\n')
        text[(*size)++] = '\n';
    text[*size] = '\0';
    return text;
}

static void parse(tr_parser *parser, char *text, size_t size)
{
    const tr_block_text block = {.text = text, .size = size, .piece = {.path = "fuzz", .end = INT64_MAX}};
    tr_bad_lines        bad;
    tr_columns          columns;

    tr_columns_init(&columns, parser->spec);
    tr_parse_block(parser, &columns, &block, true, &bad);
    check_columns(&columns);
    free(bad.first);
    tr_columns_deinit(&columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 1)
        return 0;
    const tr_data_spec spec = {.format = input[0] % TR_DATA_TABLE, .slot_count = 3, .batch_size = 1,
                               .slots = slots[input[0] % TR_DATA_TABLE], .delimiter = ',',
                               .has_header = input[0] & 16, .bad_lines = -1};
    tr_parser parser;

    size--;
    char *const text = copy_text(input + 1, &size);
    char       *lines = text;
    tr_status   status = tr_parser_init(&parser, &spec);
    if (status == TR_OK && spec.format == TR_DATA_CSV && spec.has_header && size) {
        status = tr_parser_header(&parser, "fuzz", text);
        if (status == TR_OK)
            status = tr_parser_header(&parser, "fuzz", text);      /* a file agrees with itself */
        lines = (char *)memchr(text, '\n', size) + 1;
    }
    if (status == TR_OK)
        parse(&parser, lines, size - (size_t)(lines - text));
    tr_parser_deinit(&parser);
    free(text);
    return 0;
}
