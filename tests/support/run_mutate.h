/* run_mutate.h - a run_case (run_case.h) made wrong at random, in ways that stay well-formed.
 *
 * Bytes changed at random mostly make files that no parser takes. A mutation changes the program or its values
 * instead: an attribute, an argument of a slot, an operator, a declaration, a block, the shape or the numbers of
 * what is fed. The same seed makes the same mutant. */
#pragma once

#include "tests/support/run_case.h"

/* One to three changes. */
void run_mutate(run_case *c, uint64_t seed);

/* One change, by a path of choices; the next path is another one, until all have been gone. Where many choices are alike
 * (the elements of a tensor) only some are on a path. A path of zeros is the first. */
enum { RUN_PATH_MAX = 32 };

typedef struct run_path {
    int at, length, choice[RUN_PATH_MAX], of[RUN_PATH_MAX];
} run_path;

void run_mutate_along(run_case *c, run_path *path);
bool run_path_next(run_path *path);            /* false: that was the last one */
