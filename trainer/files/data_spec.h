/* data_spec.h - a checked copy of the caller's description of data. */
#pragma once

#include "framework/base/status.h"
#include "trainer/trireme_data.h"

/* Copy the spec with all that it points at, fill in defaults, and refuse impossible values. */
tr_status tr__data_spec_copy(tr_data_spec *out, const tr_data_spec *from);
void      tr__data_spec_deinit(tr_data_spec *spec);

/* Elements of one row of a slot: the product of dims[1..]. */
int64_t tr__slot_width(const tr_data_slot *slot);
