/* raw_rows.h - rows of raw values as feeds; their API is in trireme_serving.h. */
#pragma once

#include "serving/raw_slots.h"

/* A fill needs `slots`. NULL: the model in `folder` has none (TR_EUNSUPPORTED). */
tr_status tr__raw_rows_new(tr_raw_rows **out, const tr_raw_slots *slots, const char *folder);
