/* checkpoint_messages.h - the messages that a checkpoint consists of (proto/checkpoint.proto), by short names. */
#ifndef TR_STORAGE_CHECKPOINT_MESSAGES_H
#define TR_STORAGE_CHECKPOINT_MESSAGES_H

#include "proto/checkpoint.pb-c.h"

typedef Trireme__Checkpoint__Manifest tr_manifest;
typedef Trireme__Checkpoint__Part     tr_part;
typedef Trireme__Checkpoint__Tensor   tr_part_tensor;

#endif
