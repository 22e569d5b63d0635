/* dataset.h - what the loop needs of a dataset beside the public calls. */
#ifndef TR_TRAINER_DATASET_H
#define TR_TRAINER_DATASET_H

#include "trainer/trireme_trainer.h"

const tr_data_spec *tr__dataset_spec(const tr_dataset *dataset);
/* Have other trainers parts of the data, so that this one may have none? */
bool tr__dataset_is_shared(const tr_dataset *dataset);

#endif
