/* op.h - what an operator is: one constant record.
 *
 * A file under kernels/ defines one, top to bottom: interface (slots, attributes with default, range and
 * comment), shape inference, kernels, gradient rule, registration. kernels/ops.def lists the records; there
 * is no code at start-up.
 *
 * What must stay true:
 *   - `infer` is pure. It runs when the operator is appended to a program (dimensions may be -1) and when a
 *     plan lays out memory for known shapes; a dimension it still leaves at -1 then depends on data, and the
 *     kernel sets it by tr_run_resize.
 *   - a kernel reads its inputs, writes its outputs, keeps no state. Its results depend on nothing else; in
 *     particular not on the number of threads.
 *   - integers and flags do not change while a kernel runs, whoever owns the memory that was fed: a run has a copy (docs/adr/0046). So a kernel
 *     may check an index and read it again.
 *   - attributes are decoded into the operator's own struct once, when a plan is made. */
#pragma once

#include "framework/base/status.h"
#include "framework/tensors/dtype.h"
#include "framework/tensors/scope.h"
#include "framework/tensors/shape.h"
#include "framework/tensors/tensor.h"

/* == interface ============================================================================== */

typedef struct tr_slot_def {
    const char *name;                 /* "X" */
    const char *comment;              /* shape, dtype and meaning: "[n, m] float; the logits" */
    unsigned    flags;                /* TR_SLOT_REPEATED, _OPTIONAL, _INTERMEDIATE, and these: */
    const char *form;                 /* how the comment begins, where the shape is checked (slot_form.h) */
} tr_slot_def;

/* TR_SLOT("Y", "[rows, m]", " float; the truth", TR_SLOT_OPTIONAL): form and comment in one. */
#define TR_SLOT(slot_name, slot_form, about, ...) {.name = slot_name, .form = slot_form, .comment = slot_form about, ##__VA_ARGS__}

/* A word that a STRING attribute may be, and the number that it is decoded to. Several words may mean one number. */
typedef struct tr_choice {
    const char *name;                 /* NULL ends a list */
    int         value;
} tr_choice;

/* The kinds of values that a slot takes beside dense tensors of the kernel's type (op_check.h). Gradient slots take what their forward slots do. */
enum {
    TR_SLOT_ROWS = 64,                /* selected rows, too */
    TR_SLOT_ANY_KIND = 128,           /* arrays, tables, ...: infer looks at the kind */
    TR_SLOT_ANY_TYPE = 256,           /* infer looks at the type: ids, lengths, flags */
    TR_SLOT_HOLES = 512,              /* of a repeated slot: some arguments may be @EMPTY@ */
    TR_SLOT_WIDE = 1024,              /* float32, too, where the kernel's type is stored in 16 bits: parameters, statistics, states */
    /* Tensors of this type alone, whatever the kernel's is; */
    TR_SLOT_BOOL = TR_SLOT_ANY_TYPE | 2048,
    TR_SLOT_UINT8 = TR_SLOT_ANY_TYPE | 4096,
    TR_SLOT_INT32 = TR_SLOT_ANY_TYPE | 8192,
    TR_SLOT_INT64 = TR_SLOT_ANY_TYPE | 16384,
    TR_SLOT_FP32 = TR_SLOT_ANY_TYPE | 32768,
    TR_SLOT_FP64 = TR_SLOT_ANY_TYPE | 65536,
    TR_SLOT_INDEX = TR_SLOT_INT64 | TR_SLOT_INT32,      /* or of one of two */
    TR_SLOT_OWN_TYPE = 2048 | 4096 | 8192 | 16384 | 32768 | 65536,
    TR_SLOT_PUBLIC = 63               /* what trireme.h tells of the flags */
};

/* A closed or open interval, or a set of words: { .has_min = true, .min = 0, .open_min = true } is > 0. */
typedef struct tr_attr_range {
    bool             has_min, has_max, open_min, open_max;
    double           min, max;
    const tr_choice *one_of;          /* of a STRING: an enumeration */
} tr_attr_range;

/* Lists in a decoded attribute struct: borrowed from the program's desc. */
typedef struct tr_ints    { int count; const int32_t *item; } tr_ints;        /* INTS, BOOLS as 0/1, BLOCKS */
typedef struct tr_longs   { int count; const int64_t *item; } tr_longs;
typedef struct tr_floats  { int count; const float *item; } tr_floats;
typedef struct tr_strings { int count; const char *const *item; } tr_strings;

/* How a type of attribute lies in the struct: INT int32_t, FLOAT float, STRING const char * (with one_of: an enum),
 * BOOL bool, LONG int64_t, BLOCK int32_t, and the list structs above.
 *
 * offset TR_NO_FIELD: known for compatibility, checked, not decoded. Such an attribute either changes no result
 * (TR_ATTR_IGNORED: use_mkldnn and its kind), or it would, and then only the value that asks for nothing is accepted
 * (TR_ATTR_ONLY: data_format, fuse_relu and their kind). */
typedef struct tr_attr_def {
    const char   *name;
    tr_attr_type  type;
    size_t        offset;
    bool          required;           /* no default */
    double        number;             /* the default of INT, FLOAT, BOOL, LONG */
    const char   *text;               /* the default of STRING, and of lists: "1,1"; NULL is empty */
    tr_attr_range range;
    const char   *comment;
    const char   *axis_of;            /* of INT and LONG: a dimension of this input, from -rank to rank - 1 (slot_form.h) */
    const char   *instead;            /* only the default (or a word of range.one_of) is supported; what to do otherwise */
} tr_attr_def;

#define TR_NO_FIELD ((size_t)-1)

/* TR_ATTRS_OF(attrs, TR_ATTR(attrs, scale, FLOAT, "factor", .number = 1.0, .range = TR_GREATER(0)), ...) */
#define TR_ATTR(struct_type, field, attr_type, about, ...)                                            \
    {.name = #field, .type = TR_ATTR_##attr_type, .offset = offsetof(struct_type, field), .comment = about, \
     ##__VA_ARGS__}
#define TR_ATTR_IGNORED(attr_name, attr_type, ...)                                                     \
    {.name = attr_name, .type = TR_ATTR_##attr_type, .offset = TR_NO_FIELD,                            \
     .comment = "accepted for old programs; no result depends on it", ##__VA_ARGS__}
/* TR_ATTR_ONLY("fuse_relu", BOOL, "add the operator relu after it") */
#define TR_ATTR_ONLY(attr_name, attr_type, what_instead, ...)                                          \
    {.name = attr_name, .type = TR_ATTR_##attr_type, .offset = TR_NO_FIELD, .instead = what_instead,   \
     .comment = "other values are not supported: " what_instead, ##__VA_ARGS__}

#define TR_GREATER(value)       {.has_min = true, .open_min = true, .min = (value)}
#define TR_AT_LEAST(value)      {.has_min = true, .min = (value)}
#define TR_BETWEEN(low, high)   {.has_min = true, .min = (low), .has_max = true, .max = (high)}
/* .range = TR_ONE_OF({"max", POOL_MAX}, {"avg", POOL_AVERAGE}) */
#define TR_ONE_OF(...)          {.one_of = (const tr_choice[]){__VA_ARGS__, {NULL, 0}}}

#define TR_SLOTS(...) (const tr_slot_def[]){__VA_ARGS__, {.name = NULL}}
#define TR_ATTRS(...) (const tr_attr_def[]){__VA_ARGS__, {.name = NULL}}
/* Of a proto, in place of .attr and .attrs_size: attributes that are decoded into `struct_type`. */
#define TR_ATTRS_OF(struct_type, ...) .attr = TR_ATTRS(__VA_ARGS__), .attrs_size = sizeof(struct_type)

/* Every operator accepts tr__common_attrs (op_registry.c) beside its own. */
typedef struct tr_op_proto {
    const char        *doc;           /* what it computes; the formula; where it is from */
    const tr_slot_def *in, *out;      /* ends with a NULL name; NULL: none */
    const tr_attr_def *attr;
    size_t             attrs_size;    /* sizeof the struct that attributes are decoded into */
} tr_op_proto;

/* == shape inference ========================================================================== */

/* The knowledge of a variable before it exists. */
typedef struct tr_meta {
    tr_var_kind kind;                 /* NONE: the slot is absent */
    tr_dtype    dtype;
    tr_shape    shape;                /* SelectedRows: of the rows held; dim 0 is mostly -1 */
    int64_t     height;               /* SelectedRows: rows of the whole; -1 unknown */
    int         lod_level;
    int         lod_source;           /* whose LoD it has at run time; copied along with the rest: do not touch */
} tr_meta;

typedef struct tr_meta_list {
    int      count;
    tr_meta *item;
} tr_meta_list;

/* `in[SLOT]`, `out[SLOT]`: the first argument of each slot, which is all of most. `ins[SLOT].item[i]`: of
 * repeated slots (item[0] is not in[SLOT]: write through outs for repeated slots, through out for others).
 * An output starts out as what the program already says of the variable (or unknown). Assigning a whole
 * meta (`io->out[OUT] = io->in[X]`) shares the LoD too. */
typedef struct tr_infer {
    const char         *type;         /* of the operator, for messages */
    const tr_meta      *in;
    tr_meta            *out;
    const tr_meta_list *ins;
    const tr_meta_list *outs;
    const void         *attrs;
    bool                for_gradient; /* to check the gradient operator: an input that its rule does not read seems absent */
} tr_infer;

typedef tr_status (*tr_infer_fn)(const tr_infer *io);

/* Say "dense tensor of this type and shape, no LoD". */
tr_meta tr_meta_dense(tr_dtype dtype, tr_shape shape);

/* == kernels ================================================================================== */

typedef struct tr_args {
    int          count;
    tr_tensor  **item;
} tr_args;

typedef struct tr_frame tr_frame;
typedef struct tr_step  tr_step;

/* The arguments of a kernel. Absent arguments are NULL. Outputs have their type, shape and memory already,
 * except where infer left a -1. */
typedef struct tr_run {
    tr_tensor *const *in;             /* first argument of each slot */
    tr_tensor *const *out;
    const tr_args    *ins, *outs;     /* all of them */
    const void       *attrs;
    uint64_t          random_key;     /* of operators with .is_random: see framework/tensors/random.h */
    bool              is_upcast;     /* arguments of 16 bits are handed to it as float32 (upcast.c) */
    tr_frame         *frame;          /* what is being run; for control flow and scratch memory */
    const tr_step    *step;
} tr_run;

typedef tr_status (*tr_kernel_fn)(const tr_run *io);

/* Give output `index` of a slot its shape and memory, where infer could not know it. */
tr_status tr_run_resize(const tr_run *io, int slot, int index, tr_dtype dtype, const tr_shape *shape);
/* Scratch memory until the kernel returns: one piece at a time, 64-byte aligned, not cleared. It is kept
 * between runs, so that a repeated step allocates nothing. */
tr_status tr_run_scratch(void **out, const tr_run *io, size_t bytes);
/* The same for an operator that runs a block, whose operators have tr_run_scratch: of loops within loops the outermost may have it. */
tr_status tr_run_loop_scratch(void **out, const tr_run *io, size_t bytes);
/* The operator's notes about its step, made at its first run, such as numbers for names: kept, all zeros at first,
 * and freed with the plan. */
tr_status tr_run_notes(void **out, const tr_run *io, size_t bytes);
/* The job in which the run takes part (tr_executor_set_job), whose type this floor does not know; NULL: none, or it is over. */
void *tr_run_job(const tr_run *io);
/* The operator's type and the name of an argument, for messages. */
const char *tr_run_op_type(const tr_run *io);
const char *tr_run_in_name(const tr_run *io, int slot, int index);
const char *tr_run_out_name(const tr_run *io, int slot, int index);

/* The values that the caller has asked the run for: their count (of a sub-block none), and number `index` with its name. It has its final value
 * when tr_run_has_made_fetch: no operator from this one on writes it; that does not change from run to run. */
int              tr_run_fetch_count(const tr_run *io);
const tr_tensor *tr_run_fetch(const char **name, const tr_run *io, int index);
bool             tr_run_has_made_fetch(const tr_run *io, int index);

/* A table of kernels by data type. Which argument's type chooses is the record's `.key`. */
typedef struct tr_kernels {
    tr_kernel_fn of[TR_DTYPE_COUNT];
} tr_kernels;

/* Types without kernels: a bit for each. */
typedef uint64_t tr_types;

#define TR_TYPE(dtype)      ((tr_types)1 << (dtype))
#define TR_FLOAT_TYPES      (TR_TYPE(TR_FP32) | TR_TYPE(TR_FP64) | TR_TYPE(TR_BF16) | TR_TYPE(TR_FP16))

/* The kernel of float32 for tensors of 16 bits (upcast.c), which are stored and not computed in. */
tr_status tr__run_upcast(const tr_run *io);

#define TR_FLOAT_TABLE(name)     [TR_FP32] = name##_f32, [TR_FP64] = name##_f64, \
                                 [TR_BF16] = tr__run_upcast, [TR_FP16] = tr__run_upcast
#define TR_FLOAT_KERNELS(name)   {{TR_FLOAT_TABLE(name)}}
#define TR_NUMBER_KERNELS(name)  {{TR_FLOAT_TABLE(name), [TR_INT32] = name##_i32, [TR_INT64] = name##_i64}}

/* == gradients ================================================================================ */

enum { TR_RULE_MAX = 12 };

/* A read or a made thing of a gradient rule: a slot of the forward operator. The gradient operator's slots are
 * named after them: X, Out, Out@GRAD; X@GRAD. In the gradient operator's arrays they come in the order written. */
typedef enum tr_grad_what {
    TR_GRAD_END = 0,
    TR_GRAD_IN,                       /* the forward input */
    TR_GRAD_OUT,                      /* the forward output */
    TR_GRAD_DOUT,                     /* the gradient of the forward output */
    TR_GRAD_DIN                       /* the gradient of the forward input */
} tr_grad_what;

typedef struct tr_grad_item {
    tr_grad_what what;
    int          slot;
    bool         shape_only;          /* the data is not read: its memory may be gone by then */
} tr_grad_item;

#define TR_IN(slot_)        {TR_GRAD_IN, slot_, false}
#define TR_IN_SHAPE(slot_)  {TR_GRAD_IN, slot_, true}
#define TR_OUT(slot_)       {TR_GRAD_OUT, slot_, false}
#define TR_OUT_SHAPE(slot_) {TR_GRAD_OUT, slot_, true}
#define TR_DOUT(slot_)      {TR_GRAD_DOUT, slot_, false}
#define TR_DIN(slot_)       {TR_GRAD_DIN, slot_, false}

struct tr_grad_maker;                 /* framework/gradients/grad_maker.h */
struct tr_composite;                  /* framework/composites/composite.h */

/* Either data: one gradient operator that gets the forward operator's attributes; or, for gradients made of
 * other operators (sum's are assigns, scale's is a scale), a function.
 *
 * `second` makes the gradient of that gradient operator: one of those in grad_second.h and grad_body.h, or a function of the
 * operator's own. NULL: a second gradient through it is refused by name. */
typedef struct tr_grad_rule {
    const char  *op;
    tr_grad_item reads[TR_RULE_MAX];
    tr_grad_item makes[TR_RULE_MAX];
    tr_status  (*make)(struct tr_grad_maker *maker);
    tr_status  (*second)(struct tr_grad_maker *maker);
    tr_status  (*body)(struct tr_composite *composite);   /* for tr__second_body: what the gradient operator computes, from its
                                                             slots X, Out, Out@GRAD to X@GRAD; or else */
    tr_status  (*rest)(struct tr_grad_maker *maker);      /* tr__grad_by_parts, tr__grad_ends: of outputs whose gradients `op` does not read */
    tr_status  (*parts)(struct tr_composite *composite);  /* what the operator itself computes: for `rest` those outputs; without
                                                             `body` all outputs, whose gradient the gradient operator computes */
} tr_grad_rule;

/* == the record =============================================================================== */

/* Output `out` may lie in the memory of input `in` when that is not needed any more; of a list in that of its first
 * item, if it is dense. */
typedef struct tr_inplace {
    int in, out;
} tr_inplace;

typedef enum tr_op_key {
    TR_KEY_FIRST_IN = 0,              /* the first input argument that is there */
    TR_KEY_OUT,                       /* output slot 0: for operators that make something from nothing */
    TR_KEY_IN_SLOT                    /* input slot .key_slot */
} tr_op_key;

struct tr_op {
    const char         *type;
    tr_op_locality      locality;     /* works point by point, or row by row (trireme.h) */
    const tr_op_proto  *proto;        /* NULL for a gradient operator: derived from grad_of's proto and rule */
    const tr_op        *grad_of;      /* the operator whose gradient this is */
    tr_infer_fn         infer;        /* what slots' forms do not say, and in a gradient operator: X@GRAD is like X or a value "like X" that it reads */
    tr_kernel_fn        run;          /* one kernel for all types, or */
    tr_kernels          kernels;      /* one for each */
    tr_status         (*expand)(struct tr_composite *composite);   /* instead of kernels: made of other operators, */
    tr_types            types;        /* of tensors of these types */
    tr_op_key           key;
    int                 key_slot;
    const tr_grad_rule *grad;         /* NULL: no gradient flows through it */
    tr_inplace          inplace[4];   /* ends where in == out == 0 unless it is the first and inplace_count says so */
    int                 inplace_count;
    tr_inplace          copies[2];    /* output `out` has the numbers of input `in` if it has as many: a copy of 16 bits is no work for the kernel */
    int                 copy_count;
    bool                updates;      /* an output may be the same variable as any input: an optimizer's ParamOut and Param */
    bool                has_effect;   /* does more than write outputs (print, save, send): never left out */
    unsigned            io;           /* reaches beyond the scope: TR_IO_FILES, TR_IO_PEERS, TR_IO_CODE. A program from a file may not have it,
                                         unless the caller allows it (tr_program_check_io) */
    bool                only_copies;  /* an output has the values of an input: it makes no NaN that was not there */
    bool                is_random;    /* wants random_key */
    bool                is_varying;   /* random_key changes from run to run (dropout), not only from op to op */
    bool                is_itemwise;  /* element i of an output depends on elements i of inputs alone, where all have as many; the kernel then
                                         cannot fail and takes no scratch memory (upcast.c) */
    bool                has_block;    /* runs a sub-block: attribute sub_block */
    bool                awaits;       /* waits for pending values; a program with such operators has one before each first
                                         reader of it (framework/tensors/pending_value.h) */
    bool                reduces;        /* replicas of a program put values together in it (reduction.h) */
    tr_status         (*check)(const void *attrs);   /* of attributes that a range cannot say; may be NULL */
};

/* One record per operator, named tr_op_record_<type>; kernels/ops.def lists the types. */
#define TR_REGISTER_OP(op_type, ...) const tr_op tr_op_record_##op_type = {.type = #op_type, __VA_ARGS__}
#define TR_DECLARE_OP(op_type) extern const tr_op tr_op_record_##op_type
