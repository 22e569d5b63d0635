/* body_lines.h - lines that several bodies of gradient rules have (framework/composites/composite.h). */
#pragma once

#include "framework/composites/composite.h"

/* `out` = ones, of the shape and type of `like`. */
tr_status tr__add_ones(tr_composite *c, const char *like, const char *out);
/* `out` = the argument `slot` in float32 where it is stored in 16 bits, and back: `out` = `from` in the type of the argument `slot`. */
tr_status tr__add_wide(tr_composite *c, const char *slot, const char *out);
tr_status tr__add_narrow(tr_composite *c, const char *from, const char *slot, const char *out);
/* marks = -1 where a column of a row is the row's class in the slot Label, else 0; like `like`, which is [..., classes]. A row whose label is
 * `ignore` has zeros alone. No gradient flows through them. */
tr_status tr__add_marks(tr_composite *c, const char *like, int32_t ignore);
