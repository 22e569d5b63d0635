/* message.c - see message.h. */
#include "framework/base/message.h"

#include <string.h>

static bool read_varint(tr_message_cursor *c, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; c->at < c->end && shift < 70; shift += 7) {
        const uint8_t byte = *c->at++;
        if (shift < 64)
            *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool skip(tr_message_cursor *c, uint64_t size)
{
    if (size > (uint64_t)(c->end - c->at))
        return false;
    c->at += size;
    return true;
}

static bool read_field(tr_message_cursor *c, tr_message_field *f)
{
    uint64_t key, size;

    if (!read_varint(c, &key))
        return false;
    f->number = (uint32_t)(key >> 3);
    f->kind = (uint32_t)(key & 7);
    switch (f->kind) {
    case TR_FIELD_VARINT:  return read_varint(c, &size);
    case TR_FIELD_FIXED64: return skip(c, 8);
    case TR_FIELD_FIXED32: return skip(c, 4);
    case TR_FIELD_LENGTH:
        if (!read_varint(c, &size))
            return false;
        f->data = c->at;
        f->size = size < (uint64_t)(c->end - c->at) ? (size_t)size : (size_t)(c->end - c->at);
        f->missing = size - f->size;
        return skip(c, f->size);
    default:
        return false;
    }
}

bool tr__message_next(tr_message_cursor *c, tr_message_field *f)
{
    const uint8_t *start = c->at;

    if (c->at < c->end && read_field(c, f))
        return true;
    c->at = start;
    return false;
}

/* -- strings ---------------------------------------------------------------------------------------- */

/* The depth is that of the schema. */
tr_status tr__message_check_strings(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size)
{
    tr_message_cursor c = {bytes, (const uint8_t *)bytes + size};
    tr_message_field  f;

    while (tr__message_next(&c, &f)) {
        const ProtobufCFieldDescriptor *part = protobuf_c_message_descriptor_get_field(type, f.number);
        if (!part || f.kind != TR_FIELD_LENGTH)
            continue;
        if (part->type == PROTOBUF_C_TYPE_STRING && memchr(f.data, 0, f.size))
            return tr_fail(TR_EFORMAT, "field '%s' of a message %s has a zero byte in its text: it would end there", part->name,
                           type->short_name);
        if (part->type == PROTOBUF_C_TYPE_MESSAGE)
            TR_TRY(tr__message_check_strings(part->descriptor, f.data, f.size));
    }
    return TR_OK;
}
