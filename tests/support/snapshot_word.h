/* snapshot_word.h - what a trainer says of a snapshot: where it is, and, if it makes the checkpoint, where that is to be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A Snapshot of trainer `index` at `steps` steps, to be freed; the target is for file "part" of folder "folder". */
uint8_t *pack_snapshot(int index, uint64_t steps, bool with_target, size_t *size);
