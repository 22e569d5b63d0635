/* parse.c - see parse.h. */
#include "trainer/parse_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/memory.h"

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

/* == mistakes ================================================================================ */

/* Copy the text at the place of a mistake, shortened for a message. */
static void describe_got(char *out, size_t size, const char *at)
{
    size_t used = 0;

    if (*at == '\n' || *at == '\0') {
        snprintf(out, size, "the end of the line");
        return;
    }
    out[used++] = '\'';
    for (; used < size - 8 && *at != '\n' && (used == 1 || !tr_is_space(*at)); at++) {
        if ((unsigned char)*at >= ' ' && *at != 127)
            out[used++] = *at;
        else
            used += (size_t)snprintf(out + used, size - used, "\\x%02x", (unsigned char)*at);
    }
    snprintf(out + used, size - used, "'");
}

static tr_status explain(const tr_mistake *mistake, const tr_block_text *block, const char *line_begin, int64_t line)
{
    char got[64];

    if (mistake->is_memory)
        return tr_fail(TR_ENOMEM, "data: no memory for the lines of '%s'", block->piece.path);
    describe_got(got, sizeof got, mistake->at);
    return tr_fail(TR_EFORMAT, "%s, line %lld, column %lld: %s%s%s%s, got %s", block->piece.path,
                   (long long)tr_piece_line_number(&block->piece, block->line + line),
                   (long long)(mistake->at - line_begin + 1), mistake->slot ? "slot '" : "",
                   mistake->slot ? mistake->slot : "", mistake->slot ? "': " : "", mistake->expected, got);
}

/* == blocks ================================================================================== */

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
        /* Empty lines are skipped. Where a space may be a delimiter, a line of spaces is not empty. */
        at = parser->spec->format == TR_DATA_CSV ? begin + (*begin == '\r') : tr_skip_spaces(begin);
        if (*at == '\n') {
            at++;
            continue;
        }
        at = begin;
        if (TR_LIKELY(parser->line(parser, to, &at, &mistake))) {
            at++;
            if (TR_LIKELY(tr_columns_end_line(to)))
                continue;
            tr_mistake_memory(&mistake);
        }
        tr_columns_drop_line(to);
        bad->count++;
        if (!bad->first || mistake.is_memory) {
            bad->status = explain(&mistake, block, begin, line);
            free(bad->first);
            bad->first = tr__must_strdup(tr_error());
        }
        if (!skip || mistake.is_memory)
            return;
        at = (const char *)memchr(begin, '\n', (size_t)(end - begin)) + 1;
    }
}
