/* message.h - the fields of a serialised protobuf message, walked by hand, for what protobuf-c does not tell.
 *
 * It says yes or no about a whole message (program_damage.c finds the part), and its strings end at their first zero
 * byte, whatever the message has behind that. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "framework/base/status.h"

typedef struct tr_message_field {
    uint32_t       number, kind;
    const uint8_t *data;                  /* of kind TR_FIELD_LENGTH: as much as is there */
    size_t         size;
    uint64_t       missing;               /* of kind TR_FIELD_LENGTH: bytes that it should have beyond the end */
} tr_message_field;

typedef struct tr_message_cursor {
    const uint8_t *at, *end;
} tr_message_cursor;

enum { TR_FIELD_VARINT = 0, TR_FIELD_FIXED64 = 1, TR_FIELD_LENGTH = 2, TR_FIELD_FIXED32 = 5 };

/* False: the end, or something that is no field; then the cursor stands before it. */
bool tr__message_next(tr_message_cursor *c, tr_message_field *f);

/* TR_EFORMAT where a string of a message that protobuf-c has read, or of a message in it, has a zero byte. */
tr_status tr__message_check_strings(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size);
