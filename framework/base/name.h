/* name.h - which names are possible: of variables, operators, slots, attributes, tables.
 *
 * A name is text of 1 to TR_NAME_MAX bytes: valid UTF-8 without control characters. Other bytes would merge two
 * names (a C string ends at a zero), hide a part of a message, or steer the terminal that shows it. Names are
 * checked where they enter: tr_block_create_var, tr_block_rename_var, tr_scope_var and the readers of files. Names
 * that the core derives from checked ones (X@GRAD) are not checked again.
 *
 * A name may become the path of a file. tr_path_inside (path.c) says which ones may. */
#pragma once

#include <stdint.h>

#include "framework/base/status.h"

enum { TR_NAME_MAX = 1024 };

/* TR_EINVAL unless `name` is possible; the text shows the name with its bytes escaped. */
tr_status tr_name_check(const char *name);

/* The code point at `*at`, which moves after it; -1: this is no UTF-8. The text ends with a byte that is no continuation, such as a zero or
 * the end of a line: nothing after it is read. */
int32_t tr__code_point(const uint8_t **at);

/* The place of the first byte of a text that is no UTF-8; -1: all of it is. */
int64_t tr__utf8_mistake(const char *text, int64_t size);

/* Up to 80 bytes of a text as a message can show them: "a\x00b". `room` has at least TR_NAME_SHOWN bytes. */
enum { TR_NAME_SHOWN = 4 * 80 + 4 };
const char *tr__name_show(char *room, const char *text, size_t size);
