/* plan.h - a block made ready to run: its variables and steps. Other files make them and run them.
 *
 * Building (once for a program, scope, feeds and fetches):
 *   expanded.h     composite operators are replaced by their parts;
 *   plan_build.h   dead operators are dropped, names become numbered variables, every write of a temporary
 *                  makes a new one (so that no later pass has to think about overwriting), attributes are
 *                  decoded, kernels chosen, sub-blocks planned;
 *   plan_fuse.c    chains of steps become one step;
 *   plan_update.c  optimizers run with the operators that make their gradients;
 *   plan_separate.c  outputs that would overwrite an input too early go through a temporary.
 * Laying out (once for a set of shapes of feeds and scope variables):
 *   plan_layout.h  shapes are inferred, temporaries get offsets in one arena by liveness (plan_arena.h), outputs take over
 *                  the memory of inputs where the operator allows it. Steps whose shapes depend on data are
 *                  marked dynamic: shapes are inferred when they run. Their outputs own their memory, but those whose
 *                  shape follows from what is known; these lie in the arena, too.
 * Ending: plan_life.h - with the first of its executor, its program and its scope.
 * Running:
 *   frame.h        a frame is the storage of one activation of a plan; tables of pointers made with it let a
 *                  step run without any look-up. Loops open a frame per iteration; closed ones are kept.
 *
 * A variable has one home: LOCAL to the frame, FED by the user, in the SCOPE, where a persistable one stays that is fed, OUTER: a variable of the plan
 * around, or the CALLER'S: a gradient block's parent is its forward block, but when it is nested in another
 * gradient block it also sees the gradients there. Sub-plans are always dynamic. */
#pragma once

#include "framework/base/weak.h"
#include "framework/composites/expanded.h"
#include "framework/operators/infer_frame.h"
#include "framework/programs/program.h"

typedef enum tr_home { TR_LOCAL, TR_FED, TR_SCOPE, TR_OUTER, TR_CALLERS } tr_home;

typedef struct tr_plan_var {
    char        *name;
    tr_var_desc *desc;                /* NULL: not declared (made by a fusion) */
    tr_home      home;
    int          outer;               /* OUTER, CALLERS: variable of that plan; FED: number of the feed; SCOPE: the same, or -1 */
    bool         captured;            /* a sub-plan looks at it: never in the arena, never shared in place */
    bool         written_inside;      /* a sub-plan writes it: its shape is never known before the run */
    bool         is_handed;           /* of a sub-plan: the step that runs the block puts it there */
    bool         fetched;
    bool         read, written;
    bool         is_set;              /* an operator writes it that brings no value from servers: see watched.h */
} tr_plan_var;

struct tr_step {
    const tr_op  *op;
    tr_op_desc   *desc;               /* a copy: the program may change while the plan is being printed */
    int           op_index;           /* in the block of the program; of the last one, if fused */
    const char   *composite;          /* type of the operator there whose part this is (expanded.h), or NULL */
    void         *attrs;
    tr_kernel_fn  kernel;
    int           in_slots, out_slots, in_args, arg_count;
    int          *count;              /* arguments of each slot, inputs' slots first */
    int          *arg;                /* variable of each argument, slot by slot; -1: absent */
    int           first_arg, first_slot;     /* where its pointers stand in a frame's tables */
    tr_plan      *sub;                /* plan of attribute sub_block */
    tr_infer_frame *infer;            /* room for inference when it runs as a dynamic step; made at its first */
    uint64_t      random_seed;
    void         *notes;              /* results that the operator keeps for all runs: one malloc, or NULL */
    size_t        note_bytes;
};

typedef struct tr_layout tr_layout;

/* The memory that the plans of one executor share: they run one at a time. */
typedef struct tr_workspace {
    bool          check_finite;
    bool          looks;              /* in this run, which has samples */
    tr_weak      *job;                /* in which the runs take part, or NULL; see tr_run_job */
    int           precision;          /* of products; -1: the process's */
    tr_tensor     arena;              /* grows to the largest layout */
    tr_tensor     scratch;            /* of one operator (tr_run_scratch) */
    tr_tensor     loop_scratch;       /* of the outermost loop */
    tr_tensor     upcast;             /* arguments of 16 bits as floats, for one step (upcast.c) */
} tr_workspace;

struct tr_plan {
    tr_workspace *workspace;
    tr_program  *program;
    tr_expanded *expanded;            /* the root's: what is planned instead of the program, where that has composite operators */
    tr_block    *block;               /* of that, or of the program */
    tr_plan     *parent;              /* whose variables OUTER ones are; NULL: the root */
    tr_plan     *caller;              /* the plan of the step that runs this one: mostly the parent */
    tr_plan     *root;
    /* what it was made for */
    uint64_t     revision, scope_generation;
    tr_scope    *scope;
    struct tr_binding *binding;       /* of the root: whose it is (plan_life.h); NULL: it is gone */
    int          users;               /* its binding, and those that retained it */
    int          feed_count, fetch_count;
    char       **feed_name, **fetch_name;
    int         *feed_var, *fetch_var;       /* a feed that nothing reads: -1 */
    tr_map       feed_of;             /* name -> number of the feed, plus 1 */
    /* what it is */
    tr_plan_var *var;
    int          var_count, var_capacity;
    int         *outside;             /* the variables that are FED or in the SCOPE: what a repeated run looks at */
    int          outside_count;
    int         *writes;              /* of the root: the variables in the SCOPE that a run sets (is_set) */
    int          write_count;
    int         *reads;               /* of the root: the variables in the SCOPE that a run reads */
    int          read_count;
    tr_step     *step;
    int          step_count;
    int          total_args, total_slots;
    int         *unset;               /* LOCAL variables that have no value when a run begins: arrays, and what sub-plans write, which may not run */
    int          unset_count;
    bool         uses_scope;
    bool         is_random;           /* some of its own steps are */
    bool         reduces;               /* of the root: a step of it or of its sub-plans needs values of other replicas (reduction.h) */
    bool         awaits;              /* its own steps wait for pending values (pending_value.h) before they read them */
    tr_map       current;             /* name -> number of its latest version, plus 1 */
    /* running */
    tr_frame    *frame;               /* of the root */
    tr_frame    *closed;              /* frames to be used again */
    tr_layout   *layouts;             /* of the root, most recent first */
    uint64_t    *runs;                /* of the root: how often it and others like it have run (its binding's) */
    uint64_t     activations;         /* of a sub-plan: so that its random numbers differ each time */
    int64_t      allocations;         /* by runs so far */
    struct tr_reduction *reduction;       /* of the root, while replicas run that reduce; NULL: it runs alone */
    int          replica;             /* its number among them */
    struct tr_reduction *own_reduction;   /* of the replicas whose first plan this is; kept between runs */
    tr_plan     *next;                /* of the same binding */
};

/* The name must be new in the plan, or it becomes the name's latest version. */
tr_status tr__plan_add_var(int *out, tr_plan *plan, const char *name, tr_home home, int outer);
/* A new temporary that is declared like variable `like`. */
tr_status tr__plan_add_temporary(int *out, tr_plan *plan, int like);
/* Does the program say of the variable what is so? EDTYPE of another type, EINVAL of another kind. */
tr_status tr__plan_var_check(const tr_plan_var *var, const tr_meta *is);
tr_status tr__step_alloc(tr_step *step, const tr_op *op, tr_op_desc *desc);  /* counts and args from desc; takes desc */
tr_status tr__step_finish(tr_plan *plan, tr_step *step);           /* decode attributes, choose the kernel */
/* The plan of its sub-block has been freed. */
void      tr__step_deinit(tr_step *step);
/* Close the gaps that fused steps left: their op is NULL. */
void      tr__plan_close_gaps(tr_plan *plan);
bool      tr__step_reads_data(const tr_step *step, int arg);       /* not only its shape */
/* "operator 'mul' (block 0, operator 3, at train.py:12)" into a buffer of the thread. */
const char *tr__step_text(const tr_plan *plan, const tr_step *step);
/* A failed inference: the trail names the variable whose kind the operator does not take, and says what to do. */
tr_status   tr__step_name_argument(tr_status status, const tr_plan *plan, const tr_step *step, const tr_infer_frame *frame);
