/* parse.c - see parse.h. */
#include "trainer/formats/parse_state.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

tr_status tr_parser_init(tr_parser *parser, const tr_data_spec *spec)
{
    static const tr_line_fn line[] = {tr_line_multislot, tr_line_csv, tr_line_libsvm, NULL};
    _Static_assert(TR_COUNT(line) == TR_DATA_FORMAT_COUNT, "one for each format");

    *parser = (tr_parser){.spec = spec, .line = line[spec->format]};
    if (spec->format == TR_DATA_CSV)
        return tr_csv_init(parser);
    return spec->format == TR_DATA_LIBSVM ? tr_libsvm_init(parser) : TR_OK;
}

void tr_parser_deinit(tr_parser *parser)
{
    for (int i = 0; parser->column && i < parser->column_count; i++)
        free(parser->column[i]);
    free(parser->column);
    free(parser->target);
    free(parser->header_path);
    *parser = (tr_parser){0};
}

/* == blocks ================================================================================== */

/* Does the line hold no row? In CSV a space may be a delimiter: a line of spaces is not empty there. */
static bool is_empty(tr_data_format format, const char *line)
{
    const char *at = format == TR_DATA_CSV ? line + (*line == '\r') : tr_skip_spaces(line);
    return *at == '\n' || (format == TR_DATA_LIBSVM && *at == '#');
}

void tr_parse_block(const tr_parser *parser, tr_columns *to, const tr_block_text *block, bool skip, tr_bad_lines *bad)
{
    const char *const end = block->text + block->size;
    const char       *at = block->text;
    tr_mistake        mistake;

    *bad = (tr_bad_lines){0};
    if (parser->spec->format == TR_DATA_TABLE) {
        tr_parse_rows(parser->spec, to, block, skip, bad);
        return;
    }
    for (int64_t line = 0; at < end; line++) {
        const char *const begin = at;
        if (is_empty(parser->spec->format, begin)) {
            at = (const char *)rawmemchr(begin, '\n') + 1;
            continue;
        }
        if (TR_LIKELY(parser->line(parser, to, &at, &mistake))) {
            at++;
            if (TR_LIKELY(tr_columns_end_line(to)))
                continue;
            tr_mistake_memory(&mistake);
        }
        tr_columns_drop_line(to);
        bad->count++;
        if (!bad->first || mistake.is_memory) {
            bad->status = tr_mistake_explain(&mistake, parser->spec, block, begin, line);
            free(bad->first);
            bad->first = tr__must_strdup(tr_error());
        }
        if (!skip || mistake.is_memory)
            return;
        at = (const char *)memchr(begin, '\n', (size_t)(end - begin)) + 1;
    }
}
