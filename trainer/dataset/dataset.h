/* dataset.h - calls of a dataset for the loop, beside the public ones. */
#pragma once

#include "trainer/trireme_data.h"

struct tr_piece;

const tr_data_spec *tr__dataset_spec(const tr_dataset *dataset);
/* Begin a pass without pieces. The caller adds pieces one by one, with ids of its own, until tr_dataset_end. Batches then say which piece
 * their lines are from (batch.h). A batch, perhaps an empty one, ends each piece. */
tr_status tr__dataset_begin_leased(tr_dataset *dataset);
/* Add a piece to a leased pass. Its path must stay alive until the pass ends. */
void      tr__dataset_add(tr_dataset *dataset, const struct tr_piece *piece);
/* Do other trainers read other parts of the data? Then this trainer may have no lines. */
bool tr__dataset_is_shared(const tr_dataset *dataset);
