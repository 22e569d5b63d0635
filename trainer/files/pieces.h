/* pieces.h - cuts the files of a dataset into pieces; a piece is read at a time. */
#pragma once

#include "trainer/files/data_spec.h"
#include "trainer/files/source.h"

/* List all pieces in order; their ids count from 0. Free *out. The paths belong to the spec. Files are cut into tasks only if the
 * dataset's split asks for it. */
tr_status tr_pieces_list(tr_piece **out, int64_t *count, const tr_data_spec *spec);
