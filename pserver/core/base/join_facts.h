/* join_facts.h - the facts that all trainers must agree on, and how two trainers' facts differ, in words. */
#pragma once

#include "proto/pserver.pb-c.h"

#include <stdbool.h>
#include <stddef.h>

/* Write a line for each fact of `first` that `second` lacks or has with another value, and, with `both`, for each fact that only `second`
 * has. Returns the number of differences; `out` gets as many lines as fit. */
int tr_join_facts_diff(char *out, size_t size, const Trireme__Pserver__Join *first, const Trireme__Pserver__Join *second, bool both);
