/* pieces.h - the files of a dataset, cut into pieces that are read at a time. */
#ifndef TR_TRAINER_PIECES_H
#define TR_TRAINER_PIECES_H

#include "trainer/data_spec.h"
#include "trainer/source.h"

/* All pieces in order, numbered by their ids from 0; free *out. Paths are the spec's. Cut into tasks only where the
 * dataset is split so. */
tr_status tr_pieces_list(tr_piece **out, int64_t *count, const tr_data_spec *spec);

#endif
