/* trireme.h - the C API of Trireme.
 *
 * A program is a list of blocks, a block a list of variables and operators (the messages of
 * proto/framework.proto). You build one or parse a saved one, run it by an executor on a scope,
 * and read the results:
 *
 *     tr_program *program = NULL;
 *     tr_status   status  = tr_program_load(&program, "model/__model__");
 *     tr_scope   *scope   = tr_scope_new(NULL);
 *     ...
 *     status = tr_plan_run(plan, feeds, fetches);
 *     if (status != TR_OK)
 *         fprintf(stderr, "%s\n", tr_error());
 *
 * Rules that hold everywhere:
 *   - A function that can fail returns a tr_status; tr_error() then holds the text. It belongs to
 *     the calling thread and lives until that thread's next failure.
 *   - What a function returns through a first parameter called `out` belongs to the caller, who
 *     frees it; every getter returns something borrowed, which lives as long as what it came from.
 *   - `_free(NULL)` does nothing.
 *   - Handles are not locked: use one program, scope or executor from one thread at a time. Different
 *     ones may be used at the same time.
 *   - Sizes and dimensions are int64_t; a dimension of -1 means "not known before the run".
 */
#ifndef TRIREME_H
#define TRIREME_H

#ifndef TR_CFFI                       /* cffi reads the rest and knows these types by itself */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#if defined(__GNUC__) && !defined(TR_CFFI)
#define TR_API __attribute__((visibility("default")))
#else
#define TR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* == errors ================================================================================= */

/* A code says what the caller can do about the failure; the text says the rest. */
#define TR_STATUS_LIST(X)                                              \
    X(OK,           "success")                                         \
    X(EINVAL,       "invalid argument")                                \
    X(ESHAPE,       "shapes do not fit")                               \
    X(EDTYPE,       "data types do not fit")                           \
    X(ERANGE,       "value out of range")                              \
    X(ENOTFOUND,    "not found")                                       \
    X(EEXIST,       "exists already")                                  \
    X(EIO,          "input or output failed")                          \
    X(EFORMAT,      "damaged data or unknown format")                  \
    X(ENOMEM,       "out of memory")                                   \
    X(ENAN,         "a value is not finite")                           \
    X(EUNSUPPORTED, "not supported")                                   \
    X(ETIMEOUT,     "timed out")                                       \
    X(EPEER,        "a peer is gone or refused")                       \
    X(EINTERNAL,    "internal error")                                  \
    X(EINTR,        "interrupted")

typedef enum tr_status {
#define TR_STATUS_ENUM(name, text) TR_##name,
    TR_STATUS_LIST(TR_STATUS_ENUM)
#undef TR_STATUS_ENUM
    TR_STATUS_COUNT
} tr_status;

/* The text of the calling thread's last failure: the message, and with TRIREME_BACKTRACE=1 one line per frame it
 * went through. Never NULL. */
TR_API const char *tr_error(void);
/* The name of a code, such as "ESHAPE"; "?" for a number that is no code. */
TR_API const char *tr_status_name(tr_status status);
/* The general meaning of a code, such as "shapes do not fit". */
TR_API const char *tr_status_text(tr_status status);
/* "0.1.0" */
TR_API const char *tr_version(void);

/* == start ================================================================================== */

/* Makes the operators known. Call it before anything about programs; again does no harm, from any thread.
 * OpenBLAS is not looked for here but when the first matrix product is computed, which fails when there is none. */
TR_API tr_status tr_init(void);
/* Look for OpenBLAS now. *core is the name of the kernels that it has chosen ("SkylakeX"); TR_EUNSUPPORTED when they do
 * not fit the processor, TR_ENOTFOUND when there is no OpenBLAS. */
TR_API tr_status tr_blas_check(const char **core);

/* == data types ============================================================================= */

/* The values are those of VarType.Type in framework.proto. */
typedef enum tr_dtype {
    TR_BOOL = 0,
    TR_INT16 = 1,
    TR_INT32 = 2,
    TR_INT64 = 3,
    TR_FP16 = 4,
    TR_FP32 = 5,
    TR_FP64 = 6,
    TR_SIZE_T = 19,
    TR_UINT8 = 20,
    TR_INT8 = 21,
    TR_BF16 = 22,
    TR_DTYPE_COUNT,
    TR_DTYPE_NONE = -1                /* not known */
} tr_dtype;

/* Bytes of one element; 0 for a number that is no data type. */
TR_API int64_t tr_dtype_size(tr_dtype dtype);
/* "float32", "int64", ... as NumPy says it; "?" for a number that is no data type. */
TR_API const char *tr_dtype_name(tr_dtype dtype);

/* The kind of a variable's content. The values are those of VarType.Type. */
typedef enum tr_var_kind {
    TR_KIND_TENSOR = 7,               /* LOD_TENSOR: a dense tensor, perhaps with sequence offsets */
    TR_KIND_SELECTED_ROWS = 8,        /* some rows of a larger tensor */
    TR_KIND_FEED = 9,
    TR_KIND_FETCH = 10,
    TR_KIND_STEP_SCOPES = 11,
    TR_KIND_RANK_TABLE = 12,
    TR_KIND_ARRAY = 13,               /* LOD_TENSOR_ARRAY: a growing list of tensors */
    TR_KIND_PLACES = 14,
    TR_KIND_READER = 15,
    TR_KIND_RAW = 17,
    TR_KIND_TUPLE = 18,
    TR_KIND_NONE = -1
} tr_var_kind;

/* == tensors ================================================================================ */

enum { TR_MAX_RANK = 9 };

/* A dense array in row-major order, with optional sequence offsets (LoD), or, when it has rows,
 * the SelectedRows of Fluid: row i of the data is row rows[i] of a tensor `height` rows high. */
typedef struct tr_tensor tr_tensor;

TR_API tr_tensor *tr_tensor_new(void);
TR_API void       tr_tensor_free(tr_tensor *tensor);
/* Give the tensor this type and shape and memory of its own (kept when it is large enough and not
 * shared). The contents are undefined; LoD and rows are dropped. */
TR_API tr_status tr_tensor_resize(tr_tensor *tensor, tr_dtype dtype, int rank, const int64_t *dims);
/* Let the tensor look at memory that the caller keeps alive and does not move. */
TR_API tr_status tr_tensor_borrow(tr_tensor *tensor, tr_dtype dtype, int rank, const int64_t *dims,
                                  void *data);
/* Make `to` share the memory of `from` (reference-counted), with its shape, LoD and rows. */
TR_API void tr_tensor_share(tr_tensor *to, const tr_tensor *from);
/* Make `to` a copy of `from` in memory of its own. */
TR_API tr_status tr_tensor_copy(tr_tensor *to, const tr_tensor *from);

TR_API tr_dtype       tr_tensor_dtype(const tr_tensor *tensor);   /* TR_DTYPE_NONE: never set */
TR_API int            tr_tensor_rank(const tr_tensor *tensor);
TR_API const int64_t *tr_tensor_dims(const tr_tensor *tensor);
TR_API int64_t        tr_tensor_numel(const tr_tensor *tensor);
TR_API int64_t        tr_tensor_bytes(const tr_tensor *tensor);
TR_API void          *tr_tensor_data(tr_tensor *tensor);          /* NULL when never set */
/* Wait until a value that is on its way into the tensor is there: in a job, parameters that come between two steps. As
 * tr_tensor_data does, which cannot say that they will not come. */
TR_API tr_status      tr_tensor_await(const tr_tensor *tensor);

/* Sequence offsets. Level 0 is the outermost. Offsets of a level start with 0, never fall, and the
 * last one is the number of sequences one level down (of rows, at the last level). */
TR_API tr_status tr_tensor_set_lod(tr_tensor *tensor, int levels, const int64_t *counts,
                                   const int64_t *const *offsets);
TR_API int            tr_tensor_lod_levels(const tr_tensor *tensor);
TR_API int64_t        tr_tensor_lod_count(const tr_tensor *tensor, int level);   /* offsets, not sequences */
TR_API const int64_t *tr_tensor_lod_offsets(const tr_tensor *tensor, int level);

/* SelectedRows: the indices of the data's rows in a tensor `height` rows high; NULL for a dense one.
 * An index may stand more than once; the rows then add up. */
TR_API tr_status      tr_tensor_set_rows(tr_tensor *tensor, int64_t height, int64_t count,
                                         const int64_t *rows);
TR_API bool           tr_tensor_has_rows(const tr_tensor *tensor);
TR_API int64_t        tr_tensor_height(const tr_tensor *tensor);
TR_API const int64_t *tr_tensor_rows(const tr_tensor *tensor);

/* The on-disk format of one LoDTensor or SelectedRows (docs/formats.md), to and from a file. */
TR_API tr_status tr_tensor_save(const tr_tensor *tensor, const char *path);
/* The values go into the tensor's own memory where they fit and nobody shares it. A file that is no tensor changes nothing. */
TR_API tr_status tr_tensor_load(tr_tensor *tensor, const char *path);
/* Give tensors the types, shapes and sequences of the records of a file, `count` and no more, without memory for the data. */
TR_API tr_status tr_tensor_scan(tr_tensor *const *forms, int count, const char *path);

/* == names and files ======================================================================== */

/* A name (of a variable, an operator, a slot, an attribute, a table) is valid UTF-8 of 1 to 1024 bytes without control
 * characters. TR_EINVAL says why another one is refused. */
TR_API tr_status tr_name_check(const char *name);
/* The path of the file `name` in `folder` ("" is the current one), malloc'ed: free it by tr_free. It stays in the folder:
 * `name` is a name, and relative, with no part that is empty, "." or ".."; '/' leads to a folder in it; no symbolic link on
 * the way leads out of it. Otherwise TR_EINVAL. Neither the folder nor the file need exist. */
TR_API tr_status tr_path_inside(char **out, const char *folder, const char *name);

/* == scopes ================================================================================= */

/* Name -> variable. A scope looks a name up in itself, then in its parents. */
typedef struct tr_scope tr_scope;
typedef struct tr_var   tr_var;

TR_API tr_scope *tr_scope_new(tr_scope *parent);        /* the parent must outlive it */
TR_API void      tr_scope_free(tr_scope *scope);        /* frees its variables */
TR_API tr_var   *tr_scope_var(tr_scope *scope, const char *name);          /* find here or create; NULL: tr_error says
                                                                              why (tr_name_check, or no memory) */
TR_API tr_var   *tr_scope_find(const tr_scope *scope, const char *name);   /* here or in a parent, or NULL */
TR_API tr_var   *tr_scope_find_local(const tr_scope *scope, const char *name);
/* Forget a variable of this scope. Plans made for this scope must not be run afterwards without
 * tr_executor_prepare, which looks it up anew. */
TR_API void        tr_scope_erase(tr_scope *scope, const char *name);
TR_API int64_t     tr_scope_count(const tr_scope *scope);
TR_API const char *tr_scope_name(const tr_scope *scope, int64_t index);    /* in order of creation */

TR_API tr_var_kind tr_var_kind_of(const tr_var *var);
TR_API tr_tensor  *tr_var_tensor(tr_var *var);                             /* borrowed */
TR_API int64_t     tr_var_array_count(const tr_var *var);
TR_API tr_tensor  *tr_var_array_item(tr_var *var, int64_t index);          /* borrowed; NULL beyond the end */
/* Append a copy of `tensor` to an array; a variable without a value becomes one. */
TR_API tr_status   tr_var_array_append(tr_var *var, const tr_tensor *tensor);

/* == programs =============================================================================== */

typedef struct tr_program  tr_program;
typedef struct tr_block    tr_block;
typedef struct tr_var_desc tr_var_desc;
typedef struct tr_op_desc  tr_op_desc;

TR_API tr_program *tr_program_new(void);                                    /* with an empty global block */
TR_API void        tr_program_free(tr_program *program);
TR_API tr_program *tr_program_clone(const tr_program *program);
/* A damaged program is refused with TR_EFORMAT and a message that says what is wrong where. */
TR_API tr_status   tr_program_parse(tr_program **out, const void *bytes, size_t size);
/* The means by which a program reaches beyond its scope. */
enum { TR_IO_FILES = 1, TR_IO_PEERS = 2, TR_IO_ALL = 3, TR_IO_CODE = 4 };
/* TR_EUNSUPPORTED where an operator of the program, in any block, reaches something that is not in `allowed`: TR_IO_FILES is
 * reading or writing files (save, load), TR_IO_PEERS talking to other processes (send, recv). 0: nothing is allowed.
 * TR_IO_CODE is calling a function of the process that has made the program (py_func). TR_IO_ALL does not allow it: no file holds the function. */
TR_API tr_status   tr_program_check_io(const tr_program *program, unsigned allowed);
/* Read a program from a file: tr_program_parse, then tr_program_check_io. A model of somebody else is loaded with 0. */
TR_API tr_status   tr_program_load(tr_program **out, const char *path, unsigned allowed);
/* `*out` is malloc'ed; free it by tr_free. */
TR_API tr_status   tr_program_serialize(void **out, size_t *size, const tr_program *program);
/* The program as readable text, one line per variable and operator; free it by tr_free. */
TR_API tr_status   tr_program_to_string(char **out, const tr_program *program);
TR_API void        tr_free(void *memory);
/* A copy in which composite operators are replaced by those that they are made of, as a plan does it. */
TR_API tr_status   tr_program_expand(tr_program **out, const tr_program *program);

TR_API int64_t   tr_program_random_seed(const tr_program *program);
TR_API void      tr_program_set_random_seed(tr_program *program, int64_t seed);
/* Changes with every change of the program: what was derived from it is stale when they differ. */
TR_API uint64_t  tr_program_revision(const tr_program *program);
TR_API int       tr_program_block_count(const tr_program *program);
TR_API tr_block *tr_program_block(tr_program *program, int index);           /* NULL beyond the end */
TR_API tr_block *tr_program_append_block(tr_program *program, int parent);   /* NULL: no such parent */

TR_API int          tr_block_index(const tr_block *block);
TR_API int          tr_block_parent(const tr_block *block);                  /* -1: the global block */
TR_API int          tr_block_forward(const tr_block *block);                 /* of a gradient block, or -1 */
TR_API void         tr_block_set_forward(tr_block *block, int forward);
/* Grows by 1 whenever a variable or an operator is added to the block, removed from it, renamed or moved; what the variables
 * and operators say does not count. */
TR_API uint64_t     tr_block_revision(const tr_block *block);
/* Grows whenever an operator is added to the block, removed from it, moved or changed. */
TR_API uint64_t     tr_block_op_revision(const tr_block *block);
TR_API int          tr_block_var_count(const tr_block *block);
TR_API tr_var_desc *tr_block_var_at(tr_block *block, int index);
TR_API tr_var_desc *tr_block_find_var(tr_block *block, const char *name);            /* here only */
TR_API tr_var_desc *tr_block_find_var_recursive(tr_block *block, const char *name);  /* and outwards;
                                                       a gradient block looks into its forward block, too */
TR_API tr_var_desc *tr_block_create_var(tr_block *block, const char *name);          /* or the one there is;
                                                       NULL: the name is not possible (tr_name_check) */
TR_API void         tr_block_remove_var(tr_block *block, const char *name);
TR_API tr_status    tr_block_rename_var(tr_block *block, const char *from, const char *to);
TR_API tr_status    tr_block_rename_vars(tr_block *block, int count, const char *const *from, const char *const *to);   /* all or none; in one pass */
TR_API int          tr_block_op_count(const tr_block *block);
TR_API tr_op_desc  *tr_block_op_at(tr_block *block, int index);
/* Check the operator against its proto, fill in the defaults, infer the shapes and types of its
 * outputs (creating the variables that do not exist), and insert it before position `index`; -1 means
 * at the end. On success the block owns the operator; on failure the block is as it was and the
 * caller still owns it. */
TR_API tr_status tr_block_insert_op(tr_block *block, int index, tr_op_desc *op);
TR_API void      tr_block_remove_op(tr_block *block, int index);
/* Let the operators of the block be those that now stand at `places`, in that order; the others are removed. For many changes
 * at a time: each of the two calls above takes as long as the block has operators. Fails, and changes nothing, when a place
 * is not in the block (TR_ERANGE) or stands there twice (TR_EEXIST). */
TR_API tr_status tr_block_arrange_ops(tr_block *block, int count, const int *places);
/* All that the operators of the block from number `begin` on say, in one piece: words that end with a 0 each, numbers in decimal digits. Of each operator:
 * its type; the number of its input slots, and of each its name, the number of its arguments and those; the same of its outputs;
 * the number of its attributes, and of each its name, its type (tr_attr_type), the number of its values and those. op_callstack is
 * left out. A string with a 0 inside has -1 values here. Free `*out` by tr_free. */
TR_API tr_status tr_block_read_ops(void **out, size_t *size, const tr_block *block, int begin);
/* Put the operators of such a text at the end of the block, each as by tr_block_insert_op; op_callstack may be in it. When one is
 * refused, or the text is damaged (TR_EFORMAT), those before it stay. */
TR_API tr_status tr_block_append_ops(tr_block *block, const void *words, size_t size);
/* Declare a variable that the block does not have: kind, type and shape in one call. TR_EEXIST: there is one of that name. */
TR_API tr_status tr_block_declare_var(tr_block *block, const char *name, tr_var_kind kind, tr_dtype dtype, int rank,
                                      const int64_t *dims, bool persistable);

TR_API const char    *tr_var_desc_name(const tr_var_desc *var);
TR_API tr_var_kind    tr_var_desc_kind(const tr_var_desc *var);
TR_API void           tr_var_desc_set_kind(tr_var_desc *var, tr_var_kind kind);
TR_API tr_dtype       tr_var_desc_dtype(const tr_var_desc *var);             /* TR_DTYPE_NONE: not known */
TR_API void           tr_var_desc_set_dtype(tr_var_desc *var, tr_dtype dtype);
TR_API int            tr_var_desc_rank(const tr_var_desc *var);
TR_API const int64_t *tr_var_desc_dims(const tr_var_desc *var);
TR_API tr_status      tr_var_desc_set_shape(tr_var_desc *var, int rank, const int64_t *dims);
TR_API int            tr_var_desc_lod_level(const tr_var_desc *var);
TR_API void           tr_var_desc_set_lod_level(tr_var_desc *var, int level);
TR_API bool           tr_var_desc_persistable(const tr_var_desc *var);
TR_API void           tr_var_desc_set_persistable(tr_var_desc *var, bool persistable);

/* The values are those of AttrType in framework.proto. */
typedef enum tr_attr_type {
    TR_ATTR_INT = 0,
    TR_ATTR_FLOAT = 1,
    TR_ATTR_STRING = 2,
    TR_ATTR_INTS = 3,
    TR_ATTR_FLOATS = 4,
    TR_ATTR_STRINGS = 5,
    TR_ATTR_BOOL = 6,
    TR_ATTR_BOOLS = 7,
    TR_ATTR_BLOCK = 8,
    TR_ATTR_LONG = 9,
    TR_ATTR_BLOCKS = 10,
    TR_ATTR_LONGS = 11,
    TR_ATTR_TYPE_COUNT
} tr_attr_type;

TR_API tr_op_desc *tr_op_desc_new(const char *type);
TR_API void        tr_op_desc_free(tr_op_desc *op);     /* only of one that no block owns */
/* A copy that no block owns, without op_callstack and op_namescope: those say where an operator was made. */
TR_API tr_op_desc *tr_op_desc_copy(const tr_op_desc *op);
TR_API const char *tr_op_desc_type(const tr_op_desc *op);
/* Slots: the named inputs and outputs; each holds any number of variable names. */
TR_API void        tr_op_desc_set_input(tr_op_desc *op, const char *slot, int count, const char *const *names);
TR_API void        tr_op_desc_set_output(tr_op_desc *op, const char *slot, int count, const char *const *names);
TR_API int         tr_op_desc_input_slots(const tr_op_desc *op);
TR_API const char *tr_op_desc_input_slot(const tr_op_desc *op, int slot);
TR_API int         tr_op_desc_input_count(const tr_op_desc *op, const char *slot);
TR_API const char *tr_op_desc_input(const tr_op_desc *op, const char *slot, int index);
/* The names in all slots, one after the other; NULL beyond the end. */
TR_API int         tr_op_desc_input_args(const tr_op_desc *op);
TR_API const char *tr_op_desc_input_arg(const tr_op_desc *op, int index);
TR_API int         tr_op_desc_output_args(const tr_op_desc *op);
TR_API const char *tr_op_desc_output_arg(const tr_op_desc *op, int index);
TR_API int         tr_op_desc_output_slots(const tr_op_desc *op);
TR_API const char *tr_op_desc_output_slot(const tr_op_desc *op, int slot);
TR_API int         tr_op_desc_output_count(const tr_op_desc *op, const char *slot);
TR_API const char *tr_op_desc_output(const tr_op_desc *op, const char *slot, int index);
/* Attributes. One typed value each; a setter replaces what was there. Numbers convert when the
 * operator is inserted: an INT may be given for a FLOAT or LONG, never the other way round. */
TR_API void         tr_op_desc_set_int(tr_op_desc *op, const char *name, int64_t value, tr_attr_type type); /* INT LONG BOOL BLOCK */
TR_API void         tr_op_desc_set_float(tr_op_desc *op, const char *name, double value);
TR_API void         tr_op_desc_set_string(tr_op_desc *op, const char *name, const char *value, size_t size);
TR_API void         tr_op_desc_set_ints(tr_op_desc *op, const char *name, int count, const int64_t *values, tr_attr_type type); /* INTS LONGS BOOLS BLOCKS */
TR_API void         tr_op_desc_set_floats(tr_op_desc *op, const char *name, int count, const double *values);
TR_API void         tr_op_desc_set_strings(tr_op_desc *op, const char *name, int count, const char *const *values);
TR_API void         tr_op_desc_remove_attr(tr_op_desc *op, const char *name);
TR_API int          tr_op_desc_attr_count(const tr_op_desc *op);
TR_API const char  *tr_op_desc_attr_name(const tr_op_desc *op, int index);
TR_API bool         tr_op_desc_has_attr(const tr_op_desc *op, const char *name);
TR_API tr_attr_type tr_op_desc_attr_type(const tr_op_desc *op, const char *name);
/* The value of an attribute that is there; for a list, element `index` of tr_op_desc_attr_size. */
TR_API int          tr_op_desc_attr_size(const tr_op_desc *op, const char *name);   /* 1 for a single value */
TR_API int64_t      tr_op_desc_attr_int(const tr_op_desc *op, const char *name, int index);
TR_API double       tr_op_desc_attr_float(const tr_op_desc *op, const char *name, int index);
TR_API const char  *tr_op_desc_attr_string(const tr_op_desc *op, const char *name, int index, size_t *size);

/* == operators ============================================================================== */

/* An operator's description of itself: its slots, its attributes with default and range, its comment. */
typedef struct tr_op tr_op;

/* The dependence of an operator's outputs on its inputs, for any attributes. So an operator may run on a part of its tensors and give the same bits. */
typedef enum tr_op_locality {
    TR_NOT_LOCAL = 0,
    TR_ROWWISE = 1,                   /* all dense inputs have as many rows (dimension 0), or one element. Row i of each output depends on
                                         row i of the inputs, and on those of one element */
    TR_POINTWISE = 2                  /* the same of element i, where all dense inputs have as many elements, or one. Tensors may have any
                                         shape, a vector's too */
} tr_op_locality;

enum { TR_SLOT_REPEATED = 1, TR_SLOT_OPTIONAL = 2, TR_SLOT_INTERMEDIATE = 4 };

TR_API int          tr_op_count(void);
TR_API const tr_op *tr_op_at(int index);                /* in alphabetical order */
TR_API const tr_op *tr_op_find(const char *type);       /* NULL: there is no such operator */
TR_API const char  *tr_op_type(const tr_op *op);
TR_API const char  *tr_op_doc(const tr_op *op);
TR_API bool         tr_op_has_grad(const tr_op *op);
TR_API tr_op_locality tr_op_get_locality(const tr_op *op);
TR_API bool         tr_op_is_composite(const tr_op *op);   /* it is made of others */
TR_API unsigned     tr_op_io(const tr_op *op);          /* what it reaches: TR_IO_... */
TR_API int          tr_op_input_count(const tr_op *op);
TR_API const char  *tr_op_input_name(const tr_op *op, int slot);
TR_API const char  *tr_op_input_comment(const tr_op *op, int slot);
TR_API int          tr_op_input_flags(const tr_op *op, int slot);        /* TR_SLOT_... */
TR_API int          tr_op_output_count(const tr_op *op);
TR_API const char  *tr_op_output_name(const tr_op *op, int slot);
TR_API const char  *tr_op_output_comment(const tr_op *op, int slot);
TR_API int          tr_op_output_flags(const tr_op *op, int slot);
TR_API int          tr_op_attr_count(const tr_op *op);
TR_API const char  *tr_op_attr_name(const tr_op *op, int index);
TR_API const char  *tr_op_attr_comment(const tr_op *op, int index);
TR_API tr_attr_type tr_op_attr_type(const tr_op *op, int index);
TR_API bool         tr_op_attr_required(const tr_op *op, int index);
/* The default and the range as text ("1", "[1, 1]", "\"NCHW\""; "> 0", "one of max, avg"); "" is none. */
TR_API const char  *tr_op_attr_default(const tr_op *op, int index);
TR_API const char  *tr_op_attr_range(const tr_op *op, int index);
/* The OpProto message of framework.proto; free it by tr_free. */
TR_API tr_status    tr_op_serialize_proto(void **out, size_t *size, const tr_op *op);

/* == gradients ============================================================================== */

/* Append to the global block the operators that compute the gradient of `loss` (one element) with
 * respect to the trainable parameters, and to sub-blocks what that needs. The gradient of variable v
 * is v@GRAD, or, where the block has that already, v@GRAD_0, v@GRAD_1, ...: tr_var_desc_gradient tells.
 * Variables in `no_grad` (and the descs with stop_gradient in Python) get none. Variables in `inputs` get one although
 * nothing that they are computed from wants one. */
TR_API tr_status tr_append_backward(tr_program *program, const char *loss, int input_count, const char *const *inputs,
                                    int no_grad_count, const char *const *no_grad);
/* The same for any targets and inputs: the target gradients are taken as given (`target_grads`,
 * which may be NULL or hold NULLs for ones). Only what leads from `inputs` to a target has gradients; an input may be any
 * variable, computed or not. Without inputs (0, NULL) everything has gradients that tr_append_backward would give one. */
TR_API tr_status tr_append_gradients(tr_program *program, int target_count, const char *const *targets,
                                     const char *const *target_grads, int input_count, const char *const *inputs,
                                     int no_grad_count, const char *const *no_grad);

/* The name of the gradient of a variable of the global block that the last of these two calls has made (or
 * was given); NULL: none. It is the variable's, until the next such call. */
TR_API const char *tr_var_desc_gradient(const tr_var_desc *var);

/* == running ================================================================================ */

/* A feed: an array that the caller keeps alive, and leaves as it is, during the run. */
typedef struct tr_feed {
    const char           *name;
    tr_dtype              dtype;
    int                   rank;
    const int64_t        *dims;
    const void           *data;
    int                   lod_levels;
    const int64_t        *lod_counts;                   /* offsets per level */
    const int64_t *const *lod_offsets;
} tr_feed;

/* How matrix products of float32 tensors are computed, also those within convolutions and recurrent layers. The tensors are
 * float32 either way, and so are sums; bfloat16 rounds the factors of each product to 8 significant bits, to nearest even. */
typedef enum tr_precision {
    TR_PRECISION_FLOAT32 = 0,
    TR_PRECISION_BFLOAT16 = 1,
    TR_PRECISION_COUNT
} tr_precision;

/* Makes plans, which share its memory. */
typedef struct tr_executor tr_executor;
typedef struct tr_plan     tr_plan;

TR_API tr_executor *tr_executor_new(void);
TR_API void         tr_executor_free(tr_executor *executor);
/* Check the results of every operator for NaN and infinity; a run then ends with TR_ENAN and a message
 * that names the operator and the variable. A run whose batch has no samples is not checked. */
TR_API void         tr_executor_check_finite(tr_executor *executor, bool check);
/* The precision of the runs of this executor, by its name; NULL: that of the process. TR_EINVAL: there is no such name. */
TR_API tr_status    tr_executor_set_matmul_precision(tr_executor *executor, const char *name);
/* The precision of this executor's runs: its own, or that of the process. */
TR_API tr_precision tr_executor_matmul_precision(const tr_executor *executor);
/* The plan for running block 0 of `program` in `scope`: made, or found again when nothing changed.
 * `plan` lives until the first of executor, program and scope is freed, in whatever order, or the program has changed and is prepared
 * anew. */
TR_API tr_status tr_executor_prepare(tr_plan **plan, tr_executor *executor, tr_program *program,
                                     tr_scope *scope, int feed_count, const char *const *feeds,
                                     int fetch_count, const char *const *fetches);
/* How often this executor has run a program in a scope: operators such as dropout draw other numbers each time. A
 * training that goes on from a checkpoint sets it to what it was. */
TR_API int64_t   tr_executor_runs(const tr_executor *executor, const tr_program *program, const tr_scope *scope);
TR_API tr_status tr_executor_set_runs(tr_executor *executor, tr_program *program, tr_scope *scope, int64_t runs);
/* Keep plans whose user may outlive them: after a call of retain the pointer is good until as many calls of release, and a run of a plan that is
 * gone fails with TR_EINVAL. The last release ends the plan. Any thread may call these. */
TR_API void      tr_plan_retain(tr_plan *plan);
TR_API void      tr_plan_release(tr_plan *plan);
/* Whether tr_executor_prepare would return this plan again: it is not gone, and its program has not changed. To be asked of a plan that is
 * retained. */
TR_API bool      tr_plan_is_current(const tr_plan *plan);
/* How many plans the process has. */
TR_API int64_t   tr_plan_count(void);
/* End this executor's plans of a program, and forget how often it was run. */
TR_API void      tr_executor_forget(tr_executor *executor, const tr_program *program);
/* Run once. `feeds` are in the order of prepare. `fetches` are tensors of the caller, which share the
 * results' memory afterwards: a later run leaves what was fetched as it is. */
TR_API tr_status tr_plan_run(tr_plan *plan, const tr_feed *feeds, tr_tensor *const *fetches);
/* Run several plans at the same time, each on one thread of the pool, as tr_plan_run does with feeds[i] and fetches[i]. They must be of
 * different executors, and none may write a variable of a scope that another one reads or writes. All of them run; the failure
 * is that of the first in their order that failed. */
TR_API tr_status tr_plans_run(int count, tr_plan *const *plans, const tr_feed *const *feeds, tr_tensor *const *const *fetches);
/* The plan as text: its steps, its fusions, what shares memory with what; free it by tr_free. */
TR_API tr_status tr_plan_to_string(char **out, const tr_plan *plan);
/* Number of memory allocations that runs of this plan made since it was prepared. */
TR_API int64_t   tr_plan_allocations(const tr_plan *plan);

/* -- functions that programs call ------------------------------------------------------------------- */

/* A call of the operator py_func. It lives until the function returns. */
typedef struct tr_call tr_call;
/* Calls function tr_call_number: reads tr_call_input, and fills each output that somebody wants; a gradient that it leaves out
 * is zeros. A failure is that of tr_call_output, or of
 * tr_call_fail. It is called by threads that run plans, and must not run a plan. */
typedef tr_status (*tr_call_fn)(tr_call *call);

/* One for the process; NULL: there are no functions. */
TR_API void             tr_set_call_fn(tr_call_fn fn);
TR_API int64_t          tr_call_number(const tr_call *call);
TR_API int              tr_call_input_count(const tr_call *call);
TR_API const tr_tensor *tr_call_input(const tr_call *call, int index);
TR_API int              tr_call_output_count(const tr_call *call);
TR_API bool             tr_call_wants(const tr_call *call, int index);     /* false: nobody reads this gradient */
TR_API tr_dtype         tr_call_output_dtype(const tr_call *call, int index);
/* *out has the memory for output `index`, to be written. TR_EDTYPE, TR_ESHAPE: the program declares something else. */
TR_API tr_status        tr_call_output(tr_tensor **out, tr_call *call, int index, tr_dtype dtype, int rank, const int64_t *dims);
/* TR_EINVAL with this text. */
TR_API tr_status        tr_call_fail(const char *text);
/* The failure of tr_call_output, with one more line. */
TR_API tr_status        tr_call_refused(const tr_call *call, const char *line);

/* Threads that kernels use; results do not depend on it. 0 sets the default: the CPUs this process may
 * use, or the environment's TRIREME_NUM_THREADS. */
TR_API void tr_set_num_threads(int count);
TR_API int  tr_num_threads(void);
/* Fails where the environment asks for something that is no number of threads, and nobody has set one. Preparing a plan asks. */
TR_API tr_status tr_num_threads_check(void);

/* The precision of runs in this process, by its name: "float32" or "bfloat16". NULL: what the environment's
 * TRIREME_MATMUL_PRECISION says, else float32. Runs that begin later have it; an executor may have another one. TR_EINVAL:
 * there is no such name. Any thread may call it. */
TR_API tr_status    tr_set_matmul_precision(const char *name);
TR_API tr_precision tr_matmul_precision(void);
/* Whether convolutions of floats may go by Winograd's way, which is faster and rounds more (kernels/math/images/conv_winograd.h). Until
 * somebody sets it, it is what the environment's TRIREME_WINOGRAD says: "0" no, else yes. Any thread may call these. */
TR_API void tr_set_winograd(bool allow);
TR_API bool tr_winograd(void);
/* Fails where the environment names no precision, and nobody has set one. Preparing a plan asks. */
TR_API tr_status    tr_matmul_precision_check(void);
/* The precision called `name`. TR_EINVAL: there is none; the text says which there are. */
TR_API tr_status    tr_precision_parse(tr_precision *out, const char *name);
/* "float32" or "bfloat16"; "?" for a number that is no precision. */
TR_API const char  *tr_precision_name(tr_precision precision);
/* The instructions that multiply in TR_PRECISION_BFLOAT16 on this processor: "amx_bf16" (tiles), "avx512_bf16" (vectors), or "float32": there are
 * no such instructions, so that operands are rounded to bfloat16 and multiplied in float32, which is slower than float32
 * alone. */
TR_API const char  *tr_bfloat16_way(void);

/* End the runs that are under way, in all threads of the process: each returns TR_EINTR at the next boundary between two
 * operators (so an endless `while` ends), and so does a wait for servers in a job. The step is abandoned: variables of the
 * scope have the values that the operators before the boundary gave them. Runs that begin later are not concerned, and the
 * same plan may be run again. Async-signal-safe; any thread may call it. */
TR_API void      tr_interrupt(void);
/* Let a signal, such as SIGINT, do so: a handler is installed that first calls the handler that was there, then
 * tr_interrupt. Where there was the default action, the signal only interrupts; where it was ignored, it still is. Again does
 * no harm, and is needed when somebody has set another handler since. TR_EINVAL: no such signal, or one that cannot be caught. */
TR_API tr_status tr_interrupt_on(int signal);

/* == watching =============================================================================== */

/* Record every step of every plan from now on; stop writes a Chrome trace to `path`. */
TR_API void      tr_profiler_start(void);
TR_API tr_status tr_profiler_stop(const char *path);

#ifdef __cplusplus
}
#endif
#endif
