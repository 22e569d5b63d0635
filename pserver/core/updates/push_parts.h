/* push_parts.h - what a push of dense gradients consists of: a chunk, or the entries of a PUSH_MANY. Each of them is checked against the
 * blocks of the server, and against what a trainer may send in the place of its host group (carrier.h). */
#pragma once

#include "pserver/core/updates/server_state.h"

/* Is this kind of message a push of dense gradients? */
bool         tr__push_is_dense(tr_wire_kind kind);
/* What the payload of a push is. */
tr_wire_part tr__push_part(const tr_wire *wire);
/* Open the entries of a PUSH_MANY; of another push they stay empty. */
tr_status    tr__push_open(tr_wire_entries *out, const tr_wire *wire, const uint8_t *payload);
typedef bool (*tr__push_fn)(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t block, uint64_t offset,
                            const uint8_t *data, uint64_t bytes);
/* Call `each` for every part of a push. It stops at the first false, which it returns. */
bool         tr__push_each(tr_server *server, tr__trainer *trainer, const tr_wire *wire, tr_wire_entries entries, tr__push_fn each);
/* Are these bytes a whole piece of a block, as it travels uncompressed? */
bool         tr__push_is_piece(const tr_server *server, uint32_t index, uint64_t offset, uint64_t bytes);
/* May the trainer push this part? TR_EFORMAT: there is no such piece, or it is of a sum that the trainer must not send. */
tr_status    tr__push_check(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                            const uint8_t *data, uint64_t bytes);
/* Are all parts of this push such parts? */
bool         tr__push_is_good(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
