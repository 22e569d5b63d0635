/* parse.h - turns lines of text, or rows of tables, into columns.
 *
 * Many threads may use a parser at a time. Only a file's line of names changes a parser; it is read before the other lines of the file. */
#pragma once

#include "trainer/formats/columns.h"
#include "trainer/formats/mistake.h"

/* The place for a value of a CSV line. */
typedef struct tr_target {
    int column;                       /* column of the line, from 0 */
    int slot;
    int64_t place;                    /* index in the slot's row */
} tr_target;

typedef struct tr_parser tr_parser;

/* Read the line at *at, which ends with '\n', and move *at to that '\n'. False: *mistake describes the mistake. */
typedef bool (*tr_line_fn)(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake);

struct tr_parser {
    const tr_data_spec *spec;         /* the dataset's */
    tr_line_fn line;
    /* CSV */
    tr_target *target;                /* in order of columns */
    int        target_count;
    char     **column;                /* names; NULL: there are none, or not yet */
    int        column_count;          /* 0: not known */
    char      *header_path;           /* the file that the names come from */
    /* libsvm: the slot of labels, of dense features, of indices, of values; -1: there is none */
    int        label, dense, index, value;
};

tr_status tr_parser_init(tr_parser *parser, const tr_data_spec *spec);
void      tr_parser_deinit(tr_parser *parser);
/* Read a file's line of names. The first file decides which column goes to which slot; later files must agree. A tr_header_fn. */
tr_status tr_parser_header(void *parser, const char *path, const char *text);

typedef struct tr_bad_lines {
    int64_t   count;
    tr_status status;                 /* TR_ENOMEM ends the parse; TR_EFORMAT: a bad line */
    char     *first;                  /* text of the first one, malloc'ed */
} tr_bad_lines;

/* Read all lines of a block, or rows of a table. With `skip` bad lines are left out; without it the first bad line ends the parse. */
void tr_parse_block(const tr_parser *parser, tr_columns *to, const tr_block_text *block, bool skip, tr_bad_lines *bad);
