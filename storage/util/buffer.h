/* buffer.h - memory that is kept from step to step, and grows when more is wanted. */
#pragma once

#include "framework/base/status.h"

/* Make room for `count` items in the array at `memory`, and keep its contents. TR_ENOMEM: the array is as before. */
tr_status tr_buffer_reserve(void *memory, uint64_t *capacity, uint64_t count, size_t item);
