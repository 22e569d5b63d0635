/* push_parts.c - see push_parts.h. */
#include "pserver/core/updates/push_parts.h"

#include "pserver/core/updates/server_rounds.h"

tr_wire_part tr__push_part(const tr_wire *wire)
{
    return (tr_wire_part)(wire->kind == TR_WIRE_PUSH_MANY ? wire->push_many.part : wire->push.part);
}

tr_status tr__push_open(tr_wire_entries *out, const tr_wire *wire, const uint8_t *payload)
{
    *out = (tr_wire_entries){.payload = payload};
    return wire->kind == TR_WIRE_PUSH_MANY ? tr_wire_entries_open(out, payload, wire->bytes, wire->push_many.count) : TR_OK;
}

bool tr__push_each(tr_server *server, tr__trainer *trainer, const tr_wire *wire, tr_wire_entries entries, tr__push_fn each)
{
    uint32_t       block;
    const uint8_t *data;
    uint64_t       bytes;

    if (wire->kind != TR_WIRE_PUSH_MANY)
        return each(server, trainer, wire, wire->push.block, wire->push.offset, entries.payload, wire->bytes);
    while (tr_wire_entries_next(&entries, &block, &data, &bytes))
        if (!each(server, trainer, wire, block, 0, data, bytes))
            return false;
    return true;
}

static bool begins_piece(const tr_server *server, uint32_t index, uint64_t offset)
{
    return index < server->block_count && (offset == 0 || offset % server->chunk_bytes == 0) && offset < server->block[index].bytes;
}

bool tr__push_is_piece(const tr_server *server, uint32_t index, uint64_t offset, uint64_t bytes)
{
    return begins_piece(server, index, offset) && bytes == tr__chunk_bytes(server, &server->block[index], offset);
}

/* May this piece travel compressed, and is it what it says? */
static tr_status check_compressed(const tr_server *server, uint32_t index, uint64_t offset, const uint8_t *data, uint64_t bytes)
{
    const tr__block *block = &server->block[index];

    if (!tr_compress_takes(&server->compress, block->dtype, block->bytes, server->chunk_bytes))
        return tr_fail(TR_EFORMAT, "compressed gradient: '%s' travels as it is", server->setup->blocks[index]->grad);
    return tr_compress_check(&server->compress, data, bytes, (int64_t)tr__chunk_bytes(server, block, offset) / 4);
}

/* May the trainer's gradient travel in a sum of its group? */
static tr_status check_group(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint64_t bytes)
{
    const tr_roster *roster = server->roster;
    const bool       begins = roster->group_first[trainer->index] == trainer->index, is_first = tr__push_part(wire) == TR_PART_FIRST;
    const bool       is_alone = begins && roster->group_end[trainer->index] == trainer->index + 1;

    if (server->policy.gathers_per_trainer || is_alone || begins != is_first ||
        wire->kind == TR_WIRE_PUSH_COMPRESSED || (!is_first && bytes))
        return tr_fail(TR_EFORMAT, "%s pushes %s of its host's trainers, which it must not", tr__server_trainer_name(server, trainer),
                       is_first ? "the sum" : "a part in the sum");
    return TR_OK;
}

tr_status tr__push_check(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset,
                             const uint8_t *data, uint64_t bytes)
{
    const bool is_compressed = wire->kind == TR_WIRE_PUSH_COMPRESSED, has_data = tr__push_part(wire) != TR_PART_OTHER;

    if (tr__push_part(wire) != TR_PART_OWN)
        TR_TRY(check_group(server, trainer, wire, bytes));
    if (is_compressed || !has_data ? !begins_piece(server, index, offset) : !tr__push_is_piece(server, index, offset, bytes))
        return tr_fail(TR_EFORMAT, "%s pushed %llu bytes at %llu of block %u, which is no piece of one",
                       tr__server_trainer_name(server, trainer), (unsigned long long)bytes, (unsigned long long)offset, index);
    if (is_compressed && check_compressed(server, index, offset, data, bytes) != TR_OK)
        return tr_context(TR_EFORMAT, "while %s pushed '%s' at %llu", tr__server_trainer_name(server, trainer),
                          server->setup->blocks[index]->grad, (unsigned long long)offset);
    return TR_OK;
}

bool tr__push_is_dense(tr_wire_kind kind)
{
    return kind == TR_WIRE_PUSH || kind == TR_WIRE_PUSH_COMPRESSED || kind == TR_WIRE_PUSH_MANY;
}

static bool part_is_good(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint32_t index, uint64_t offset, const uint8_t *data,
                         uint64_t bytes)
{
    return tr__push_check(server, trainer, wire, index, offset, data, bytes) == TR_OK;
}

bool tr__push_is_good(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr_wire_entries entries;

    return tr__push_open(&entries, wire, payload) == TR_OK && tr__push_each(server, trainer, wire, entries, part_is_good);
}
