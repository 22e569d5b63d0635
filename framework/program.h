/* program.h - the program as the framework's own files see it.
 *
 * These structs are the in-memory form of the messages of proto/framework.proto; program_io.c turns one into
 * the other, without loss: a program that was parsed serialises to the same bytes (which is why the presence
 * of optional fields is kept). Everything is owned downwards: program -> blocks -> variables, operators ->
 * strings. Addresses of blocks, variable and operator descs do not change while they exist.
 *
 * Every change goes through a function that bumps the program's revision. */
#ifndef TR_FRAMEWORK_PROGRAM_H
#define TR_FRAMEWORK_PROGRAM_H

#include "framework/map.h"
#include "framework/op.h"
#include "framework/shape.h"
#include "framework/status.h"

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

typedef struct tr_slot {
    char  *name;
    int    count;
    char **arg;
} tr_slot;

struct tr_op_desc {
    char      *type;
    int        in_count, out_count, attr_count;
    tr_slot   *in, *out;
    tr_attr   *attr;
    bool       has_is_target, is_target;
    tr_block  *block;                 /* NULL: not inserted yet */
};

struct tr_var_desc {
    char       *name;
    tr_var_kind kind;
    tr_dtype    dtype;                /* TR_DTYPE_NONE: the message has no tensor type yet */
    tr_shape    shape;
    int         lod_level;
    bool        has_lod_level;        /* written although it may be 0 */
    bool        persistable, has_persistable;
    void       *other_type;           /* serialised VarType of kinds we only carry (reader, tuple, ...), or NULL */
    size_t      other_type_size;
    char       *gradient;             /* see tr_var_desc_gradient; no part of the message */
    tr_block   *block;
};

struct tr_block {
    tr_program  *program;
    int          index, parent, forward;
    bool         has_forward;
    tr_map       vars;                /* name -> tr_var_desc, in order of creation */
    tr_op_desc **op;
    int          op_count, op_capacity;
    uint64_t     revision;            /* of the two lists; the program's changes with what the entries say, too */
    uint64_t     op_revision;         /* of the operators: their list, and what they say */
};

struct tr_program {
    tr_block **block;
    int        block_count;
    bool       has_version, has_version_number;   /* the message Version; the number in it */
    int64_t    version;
    int64_t    random_seed;           /* 0: none was set */
    uint64_t   id;                    /* never used twice in a process */
    uint64_t   revision;
};

/* tr_block_create_var for a name that was checked before, or derived from such a one. */
tr_var_desc   *tr__block_var(tr_block *block, const char *name);
tr_slot       *tr__op_desc_slot(const tr_op_desc *op, bool output, const char *name);   /* or NULL */
tr_attr       *tr__op_desc_attr(const tr_op_desc *op, const char *name);                /* or NULL */
tr_op_desc    *tr__op_desc_clone(const tr_op_desc *op);
void           tr__attr_copy(tr_op_desc *op, const tr_attr *attr);     /* set a copy of it */
/* Put the operator into the list, unchecked: tr_block_insert_op (infer.c) has checked it. */
tr_status      tr__block_place_op(tr_block *block, int index, tr_op_desc *op);
/* One operator as "Out : float32[?, 10] = mul(X=x, Y=w) {x_num_col_dims=1}"; free by tr_free. */
char          *tr__op_desc_to_string(const tr_op_desc *op);
/* Where the user made it: the last line of op_callstack, or "". */
const char    *tr__op_desc_origin(const tr_op_desc *op);
void           tr__program_touch(tr_program *program);                 /* bump the revision */

#endif
