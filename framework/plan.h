/* plan.h - a block made ready to run.
 *
 * Building (once for a program, scope, feeds and fetches):
 *   plan_build.c   dead operators are dropped, names become numbered variables, every write of a temporary
 *                  makes a new one (so that no later pass has to think about overwriting), attributes are
 *                  decoded, kernels chosen, sub-blocks planned;
 *   plan_fuse.c    chains of steps become one step;
 *   plan_separate.c  outputs that would overwrite an input too early go through a temporary.
 * Laying out (once for a set of shapes of feeds and scope variables):
 *   plan_layout.c  shapes are inferred, temporaries get offsets in one arena by liveness, outputs take over
 *                  the memory of inputs where the operator allows it. Steps whose shapes depend on data are
 *                  marked dynamic: shapes are inferred when they run, their outputs own their memory.
 * Running:
 *   frame.c        a frame is the storage of one activation of a plan; tables of pointers made with it let a
 *                  step run without any look-up. Loops open a frame per iteration; closed ones are kept.
 *
 * A variable is in one place: LOCAL to the frame, FED by the user, in the SCOPE, OUTER: a variable of the plan
 * around, or the CALLER'S: a gradient block's parent is its forward block, but when it is nested in another
 * gradient block it also sees the gradients there. Sub-plans are always dynamic. */
#ifndef TR_FRAMEWORK_PLAN_H
#define TR_FRAMEWORK_PLAN_H

#include "framework/infer.h"
#include "framework/program.h"

typedef enum tr_place { TR_LOCAL, TR_FED, TR_SCOPE, TR_OUTER, TR_CALLERS } tr_place;

typedef struct tr_plan_var {
    char        *name;
    tr_var_desc *desc;                /* NULL: not declared (made by a fusion) */
    tr_place     place;
    int          outer;               /* OUTER, CALLERS: variable of that plan; FED: number of the feed */
    bool         captured;            /* a sub-plan looks at it: never in the arena, never shared in place */
    bool         written_inside;      /* a sub-plan writes it: its shape is never known before the run */
    bool         fetched;
    bool         read, written;
} tr_plan_var;

struct tr_step {
    const tr_op  *op;
    tr_op_desc   *desc;               /* a copy: the program may change while the plan is being printed */
    int           op_index;           /* in the block; of the last one, if fused */
    void         *attrs;
    tr_kernel_fn  kernel;
    int           in_slots, out_slots, in_args, arg_count;
    int          *count;              /* arguments of each slot, inputs' slots first */
    int          *arg;                /* variable of each argument, slot by slot; -1: absent */
    int           first_arg, first_slot;     /* where its pointers stand in a frame's tables */
    tr_plan      *sub;                /* plan of attribute sub_block */
    tr_infer_frame *infer;            /* room for inference when it runs as a dynamic step; made at its first */
    uint64_t      random_seed;
    void         *notes;              /* what the operator worked out once for all runs: one malloc, or NULL */
};

typedef struct tr_layout tr_layout;

struct tr_plan {
    tr_executor *executor;
    tr_program  *program;
    tr_block    *block;
    tr_plan     *parent;              /* whose variables OUTER ones are; NULL: the root */
    tr_plan     *caller;              /* the plan of the step that runs this one: mostly the parent */
    tr_plan     *root;
    /* what it was made for */
    uint64_t     program_id, revision, scope_id, scope_generation;
    tr_scope    *scope;
    int          feed_count, fetch_count;
    char       **feed_name, **fetch_name;
    int         *feed_var, *fetch_var;       /* a feed that nothing reads: -1 */
    tr_map       feed_of;             /* name -> number of the feed, plus 1 */
    /* what it is */
    tr_plan_var *var;
    int          var_count, var_capacity;
    tr_step     *step;
    int          step_count;
    int          total_args, total_slots;
    bool         has_arrays;          /* local tensor arrays, which are empty when a run begins */
    bool         uses_scope;
    bool         awaits;              /* its own steps wait for what comes late (late.h) before they read it */
    tr_map       current;             /* name -> number of its latest version, plus 1 */
    /* running */
    tr_frame    *frame;               /* of the root */
    tr_frame    *closed;              /* frames to be used again */
    tr_layout   *layouts;             /* of the root, most recent first */
    uint64_t    *runs;                /* the executor's counter for this program and scope */
    uint64_t     activations;         /* of a sub-plan: so that its random numbers differ each time */
    int64_t      allocations;         /* by runs so far */
    tr_plan     *next;                /* in the executor's list */
};

/* plan_build.c */
tr_status tr__plan_build(tr_plan *plan);                  /* root: names of feeds and fetches are set */
void      tr__plan_free(tr_plan *plan);
void      tr__plan_free_frames(tr_plan *plan);                 /* frame.c */
/* The number of the variable that `name` means at this point of building; ENOTFOUND names the reader. */
tr_status tr__plan_resolve(int *out, tr_plan *plan, const char *name);
/* Does the program say of the variable what is so? EDTYPE of another type, EINVAL of another kind. */
tr_status tr__plan_var_check(const tr_plan_var *var, const tr_meta *is);
bool      tr__step_reads_data(const tr_step *step, int arg);       /* not only its shape */
tr_status tr__step_finish(tr_plan *plan, tr_step *step);           /* decode attributes, choose the kernel */
void      tr__step_deinit(tr_step *step);
tr_status tr__step_alloc(tr_step *step, const tr_op *op, tr_op_desc *desc);  /* counts and args from desc; takes desc */
/* "operator 'mul' (block 0, operator 3, at train.py:12)" into a buffer of the thread. */
const char *tr__step_text(const tr_plan *plan, const tr_step *step);

/* A new temporary that is declared like variable `like`. */
tr_status tr__plan_add_temporary(int *out, tr_plan *plan, int like);

/* plan_fuse.c */
tr_status tr__plan_fuse(tr_plan *plan);

/* plan_separate.c */
tr_status tr__plan_separate(tr_plan *plan);

/* plan_layout.c */
struct tr_layout {
    tr_meta   *given;                 /* per variable: what it was when it came from outside; rank 0: nothing */
    tr_meta   *meta;                  /* per variable: what is known before the run; rank 0: nothing */
    int64_t   *offset;                /* per variable: in the arena, or -1 */
    int       *shares;                /* per variable: the one whose memory it took over, or -1 */
    bool      *dynamic;               /* per step */
    int       *lod_from;              /* per variable: whose LoD it takes when it is computed, or -1 */
    bool      *has_lod_copies;        /* per step: one of its outputs has a lod_from */
    bool      *may_have_lod;          /* per variable: a LOCAL one that a run may leave with LoD */
    int64_t    arena_bytes;
    tr_layout *next;
};
tr_status tr__layout_new(tr_layout **out, const tr_plan *plan, tr_var *const *vars);
void      tr__layout_free(tr_layout *layout);
/* Was it made for the shapes that feeds and scope variables have now? */
bool      tr__layout_fits(const tr_layout *layout, const tr_plan *plan, tr_var *const *vars);

#endif
