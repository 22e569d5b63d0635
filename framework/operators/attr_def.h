/* attr_def.h - one attribute as an operator's record declares it: its default, its range, its words. */
#pragma once

#include "framework/operators/op.h"
#include "framework/programs/attr.h"

/* The default as an attribute that the caller owns; false: its text is not of its type. */
bool  tr__attr_default(tr_attr *out, const tr_attr_def *def);
/* "> 0", ">= 0 and <= 1", "one of max, avg", "only false", ""; the caller's, to be freed by tr_free. `value` is the
 * default; NULL: there is none. */
char *tr__attr_range_text(const tr_attr_def *def, const tr_attr *value);
bool  tr__attr_is_in_range(const tr_attr *attr, const tr_attr_range *range);
/* NULL: `name` is none of the choices. */
const tr_choice *tr__choice_find(const tr_choice *choices, const char *name);
