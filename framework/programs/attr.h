/* attr.h - attributes by themselves: one typed value with a name.
 *
 * An attribute owns its name and value. Which member of the union is alive follows from the type alone, and
 * is_list types have `count` elements. */
#pragma once

#include "framework/base/text.h"
#include "framework/trireme.h"

typedef struct tr_attr {
    char        *name;
    tr_attr_type type;
    int          count;               /* elements of a list; bytes of a string (which also ends with a 0) */
    union {
        int64_t  i;                   /* INT, BOOL, BLOCK, LONG */
        float    f;
        char    *s;
        int32_t *ints;                /* INTS, BOOLS, BLOCKS */
        int64_t *longs;
        float   *floats;
        char   **strings;
    };
} tr_attr;

bool        tr_attr_type_is_list(tr_attr_type type);
bool        tr_attr_type_is_valid(int type);
/* The type of a list's elements: INT of INTS; the type itself of a single value. */
tr_attr_type tr_attr_type_element(tr_attr_type type);
/* "an int", "a list of floats": for messages. */
const char *tr_attr_type_text(tr_attr_type type);

void    tr__attr_deinit(tr_attr *attr);
tr_attr tr__attr_dup(const tr_attr *attr);
bool    tr__attr_equal(const tr_attr *a, const tr_attr *b);         /* type and value; floats bit by bit */
/* Element `index` as a number; 0 of a string. */
int64_t tr__attr_int(const tr_attr *attr, int index);
double  tr__attr_float(const tr_attr *attr, int index);
/* Element `index` of STRING (its only one) or STRINGS. */
const char *tr__attr_string(const tr_attr *attr, int index);
/* The value as text: 1, 0.5, true, "NCHW", [1, 1]; long ones are cut short. */
void    tr__attr_print(tr_text *text, const tr_attr *attr);
