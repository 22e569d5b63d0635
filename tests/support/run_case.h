/* run_case.h - a program with all that one run of it needs, as one file: for fuzzing.
 *
 * A file is a list of items, each a line "KIND NAME SIZE" and SIZE bytes after it:
 *
 *     program - 812      a ProgramDesc
 *     feed x 94          a tensor record (tensor_io.h), fed as x
 *     scope w 210        a tensor record, in the scope as w
 *     fetch loss 0       the name of a result */
#pragma once

#include "framework/programs/program.h"
#include "framework/tensors/scope.h"

enum { RUN_CASE_MAX = 64 };               /* values, fetches */

typedef struct run_value {
    char     *name;
    bool      is_fed;                     /* else: in the scope */
    tr_tensor tensor;
} run_value;

typedef struct run_case {
    tr_program *program;
    int         value_count, fetch_count;
    run_value   value[RUN_CASE_MAX];
    char       *fetch[RUN_CASE_MAX];
} run_case;

/* False: it is no such file; nothing is left to be freed. */
bool run_case_read(run_case *out, const void *bytes, size_t size);
/* The file, to be freed. */
void *run_case_write(size_t *size, const run_case *c);
void run_case_deinit(run_case *c);

/* What a test has run. */
typedef struct saved_run {
    tr_program        *program;
    tr_scope          *scope;
    int                feed_count, fetch_count;
    const char *const *feed_name, *const *fetch_name;
    const tr_feed     *feed;
} saved_run;

/* Keep it as a file of tests/fuzz/corpus/run; false: that did not work. */
bool run_case_save(const char *path, const saved_run *kept);

/* The program in a scope of its own, to be run with several sets of values: those of cases with the same names. */
typedef struct run_place {
    tr_scope    *scope;
    tr_executor *executor;
    tr_tensor   *result[RUN_CASE_MAX];    /* of the last run, one for each fetch */
} run_place;

void      run_place_init(run_place *place, const run_case *c);
/* Put the case's values into the scope, and run its program. */
tr_status run_place_run(run_place *place, run_case *c);
void      run_place_deinit(run_place *place, const run_case *c);

/* Run the program twice in a place of its own: what a first run prepares serves the second. */
tr_status run_case_run(run_case *c);
