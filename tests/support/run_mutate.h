/* run_mutate.h - a run_case (run_case.h) made wrong at random, in ways that stay well-formed.
 *
 * Bytes changed at random mostly make files that no parser takes. A mutation changes the program or its values
 * instead: an attribute, an argument of a slot, an operator, a declaration, a block, the shape or the numbers of
 * what is fed. The same seed makes the same mutant. */
#ifndef TR_TESTS_SUPPORT_RUN_MUTATE_H
#define TR_TESTS_SUPPORT_RUN_MUTATE_H

#include "tests/support/run_case.h"

void run_mutate(run_case *c, uint64_t seed);

#endif
