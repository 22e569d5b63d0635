/* shard_list.h - the entries of tables' shards in messages: in the file of a manifest, and in what a server says of its part.
 *
 * A part has up to 1024 entries for each table, and a checkpoint of changes names those of all files that it needs. As messages of their
 * own each takes some 50 bytes. So a table's description has a list of numbers in their place, some 5 bytes an entry. In memory every
 * entry is a tr_part_tensor. docs/formats.md has the list. */
#pragma once

#include "framework/base/status.h"
#include "storage/checkpoint/checkpoint_messages.h"

/* A copy of a part with lists in the place of such entries. It shares everything else with `part`. */
tr_part  *tr__shards_list(const tr_part *part);
void      tr__shards_list_free(tr_part *listed);
/* Make entries of the lists of a part that was unpacked, in the order of their offsets. TR_EFORMAT: a list is damaged. */
tr_status tr__shards_expand(tr_part *part);
