/* text_start.h - the first bytes of a text file: a byte order mark, or the mark of a file that is no text in UTF-8. */
#pragma once

#include "framework/base/status.h"

enum { TR_TEXT_START = 16 };          /* so many bytes are looked at */

/* *skip: bytes of a mark that is no part of the text. A failure: the file is packed, or in another encoding; the message says what to
 * do. */
tr_status tr_text_start(size_t *skip, const char *bytes, size_t size, const char *path);
