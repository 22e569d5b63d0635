/* op_case.h - the inputs of one run of an operator, as a row of a table.
 *
 *     static const op_case cases[] = {             // name, inputs slot by slot, attributes, expected outputs
 *         {"ragged", {DIMS(3, 17), DIMS(17)}},
 *         {"axis",   {DIMS(2, 3, 4), DIMS(3)}, {INT_ATTR("axis", 1)}, {DIMS(2, 3, 4)}},
 *         {"lookup", {DIMS(10, 4), INT64S(0, 10, 6, 1)}},
 *         {"many",   {DIMS(2, 3), MORE(2, 3), MORE(2, 3)}},      // three arguments of the first slot
 *     };
 *
 * Values are generated: the same ones in every run, in [-1, 1) unless the row says otherwise. Inputs are of the
 * type under test (float32, then float64) unless the row names one. */
#pragma once

#include "framework/trireme.h"

enum { OP_MAX_ARGS = 10, OP_MAX_ATTRS = 10, OP_MAX_LODS = 2 };

typedef struct op_offsets {
    int64_t        count;
    const int64_t *item;
} op_offsets;

typedef struct op_arg {
    int           rank;               /* 0: absent, or, of an expected output, not asked */
    int64_t       dims[TR_MAX_RANK];
    bool          is_typed;           /* has this dtype whatever type is under test */
    tr_dtype      dtype;
    double        low, high;          /* generated values; both 0: [-1, 1) */
    const double *values;             /* given instead */
    bool          is_more;            /* one more argument of the slot before */
    bool          is_constant;        /* its gradient is not asked for */
    op_offsets    lod[OP_MAX_LODS];
    int64_t       height;             /* not 0: selected rows of a tensor this high */
    op_offsets    rows;
} op_arg;

typedef struct op_attr {
    const char   *name;
    tr_attr_type  type;
    double        number;
    const char   *text;
    int           count;
    const double *list;
} op_attr;

typedef struct op_case {
    const char *name;
    op_arg      in[OP_MAX_ARGS];
    op_attr     attr[OP_MAX_ATTRS];
    op_arg      out[OP_MAX_ARGS];     /* what shape (sequences, rows, type) is expected */
    int         out_count[OP_MAX_ARGS];   /* arguments of an output slot; 0: one; -1: none */
    bool        has_jumps;            /* the gradient jumps at a bound of a result: stored in 16 bits it may be on the other side */
} op_case;

/* -- inputs -------------------------------------------------------------------------------------- */

#define OP_COUNT(type, ...)    ((int)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type)))
#define SIZE(...)              .rank = OP_COUNT(int64_t, __VA_ARGS__), .dims = {__VA_ARGS__}
#define DIMS(...)              {SIZE(__VA_ARGS__)}
#define MORE(...)              {SIZE(__VA_ARGS__), .is_more = true}
#define FLOATS(from, to, ...)  {SIZE(__VA_ARGS__), .low = (from), .high = (to)}
#define CONSTANT(...)          {SIZE(__VA_ARGS__), .is_constant = true}
#define TYPED(type, from, to)  .is_typed = true, .dtype = (type), .low = (from), .high = (to)
/* Whole numbers of from .. to - 1. */
#define INT64S(from, to, ...)  {SIZE(__VA_ARGS__), TYPED(TR_INT64, from, to)}
#define INT32S(from, to, ...)  {SIZE(__VA_ARGS__), TYPED(TR_INT32, from, to)}
#define BOOLS(...)             {SIZE(__VA_ARGS__), TYPED(TR_BOOL, 0, 2)}
#define ABSENT                 {.rank = 0}
/* VALUES(LIST(1, 2, 3, 4), 2, 2) */
#define LIST(...)              (const double[]){__VA_ARGS__}
#define VALUES(list, ...)      {SIZE(__VA_ARGS__), .values = list}
/* SEQUENCES(OFFSETS(0, 2, 5), 5, 4): two sequences of 2 and 3 rows. ROWS(100, OFFSETS(7, 3, 7), 3, 4) */
#define OFFSETS(...)           {OP_COUNT(int64_t, __VA_ARGS__), (const int64_t[]){__VA_ARGS__}}
#define SEQUENCES(offsets, ...) {SIZE(__VA_ARGS__), .lod = {offsets}}
/* NESTED(OFFSETS(0, 1, 2), OFFSETS(0, 2, 5), 5, 4): the same two, each in a group of its own */
#define NESTED(groups, offsets, ...) {SIZE(__VA_ARGS__), .lod = {groups, offsets}}
#define ROWS(full_height, numbers, ...) {SIZE(__VA_ARGS__), .height = (full_height), .rows = numbers}

/* -- attributes ----------------------------------------------------------------------------------- */

#define INT_ATTR(attr_name, value)    {attr_name, TR_ATTR_INT, .number = (value)}
#define LONG_ATTR(attr_name, value)   {attr_name, TR_ATTR_LONG, .number = (double)(value)}
#define BOOL_ATTR(attr_name, value)   {attr_name, TR_ATTR_BOOL, .number = (value)}
#define FLOAT_ATTR(attr_name, value)  {attr_name, TR_ATTR_FLOAT, .number = (value)}
#define STRING_ATTR(attr_name, value) {attr_name, TR_ATTR_STRING, .text = (value)}
#define LIST_ATTR(attr_name, attr_type, ...) \
    {attr_name, attr_type, .count = OP_COUNT(double, __VA_ARGS__), .list = LIST(__VA_ARGS__)}
#define INTS_ATTR(attr_name, ...)     LIST_ATTR(attr_name, TR_ATTR_INTS, __VA_ARGS__)
#define LONGS_ATTR(attr_name, ...)    LIST_ATTR(attr_name, TR_ATTR_LONGS, __VA_ARGS__)
#define FLOATS_ATTR(attr_name, ...)   LIST_ATTR(attr_name, TR_ATTR_FLOATS, __VA_ARGS__)

/* The number that the case gives an attribute, or `otherwise`. */
double op_case_number(const op_case *c, const char *attr, double otherwise);
/* Element i of a list, or `otherwise`. Does the case give a STRING attribute this text? */
double op_case_item(const op_case *c, const char *attr, int i, double otherwise);
bool   op_case_says(const op_case *c, const char *attr, const char *text);
/* Input `index`'s sequences: its last level of offsets. */
const op_offsets *op_case_sequences(const op_case *c, int index);
/* The row in batch order of step t of a sequence: after those of earlier steps, and in this one after those of sequences that are longer,
 * or as long and earlier. */
int64_t op_offsets_batch_row(const op_offsets *offsets, int64_t sequence, int64_t t);
/* How many inputs the row lists, absent ones in between included. */
int    op_case_inputs(const op_case *c);
/* Set them all. */
void   op_case_set_attrs(tr_op_desc *op, const op_case *c);

/* -- arrays: what references compute with ------------------------------------------------------------ */

/* Numbers of any type, as double. */
typedef struct op_array {
    int      rank;                    /* 0: absent */
    int64_t  dims[TR_MAX_RANK];
    int64_t  count;
    tr_dtype dtype;
    double  *data;
    int64_t  row_count, height;       /* of selected rows */
    int64_t *rows;
} op_array;

/* The type of input `index` when `tested` is under test. */
tr_dtype op_case_dtype(const op_case *c, int index, tr_dtype tested);
/* The values of input `index` of a case, exact in their type. */
op_array op_array_of_input(const op_case *c, int index, tr_dtype tested);
op_array op_array_of_tensor(tr_tensor *tensor);
/* The numbers in the array's own type: malloc'ed. */
void    *op_array_encode(const op_array *array);
void     op_array_free(op_array *array);
/* Each number next to it in a type; TR_DTYPE_NONE has all. */
void     op_array_round(op_array *array, tr_dtype dtype);
/* The number next to x in a type. */
double   op_round(tr_dtype dtype, double x);
/* A number of [0, 1) from two. */
double   op_random(uint64_t stream, uint64_t index);
