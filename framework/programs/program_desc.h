/* program_desc.h - what a program consists of.
 *
 * These structs are the in-memory form of the messages of proto/framework.proto; program_io.c turns one into
 * the other, without loss: a program that was parsed serialises to the same bytes (which is why the presence
 * of optional fields is kept). Everything is owned downwards: program -> blocks -> variables, operators ->
 * strings. Addresses of blocks, variable and operator descs do not change while they exist.
 *
 * Every change goes through a function of program.h or op_desc.h, which counts the revision up. */
#pragma once

#include "framework/base/bond.h"
#include "framework/base/map.h"
#include "framework/programs/attr.h"
#include "framework/tensors/shape.h"

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
    tr_bond   *bonds;                 /* what goes with it */
};

/* The program says something new. */
static inline void tr__program_touch(tr_program *program) { program->revision++; }
