/* parse_state.h - the inside of a parser, shared by parse.c and the files of the formats: each has a function that reads a line, or the
 * rows of a table. */
#pragma once

#include "trainer/formats/parse.h"
#include "trainer/formats/parse_value.h"

bool tr_line_multislot(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake);
bool tr_line_csv(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake);
bool tr_line_libsvm(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake);
/* Does the work of tr_parse_block for rows of a table. */
void tr_parse_rows(const tr_data_spec *spec, tr_columns *to, const tr_block_text *block, bool skip, tr_bad_lines *bad);
tr_status tr_csv_init(tr_parser *parser);
tr_status tr_libsvm_init(tr_parser *parser);
