/* program_damage.c - see program_damage.h.
 *
 * protobuf-c says yes or no about a whole message. After a no, this file walks the fields of the message by
 * hand, asks protobuf-c about each part that is a message itself, and goes into the first one that it refuses. */
#include "framework/program_damage.h"

#include <stdio.h>
#include <string.h>

#include "proto/framework.pb-c.h"

/* -- the wire format: fields of (number, kind, contents) -------------------------------------------- */

typedef struct field {
    uint32_t       number, kind;
    const uint8_t *data;                  /* of kind LENGTH: as much as is there */
    size_t         size;
    uint64_t       missing;               /* of kind LENGTH: bytes that it should have beyond the end */
} field;

typedef struct cursor {
    const uint8_t *at, *end;
} cursor;

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

static bool read_varint(cursor *c, uint64_t *value)
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

static bool skip(cursor *c, uint64_t size)
{
    if (size > (uint64_t)(c->end - c->at))
        return false;
    c->at += size;
    return true;
}

static bool read_field(cursor *c, field *f)
{
    uint64_t key, size;

    if (!read_varint(c, &key))
        return false;
    f->number = (uint32_t)(key >> 3);
    f->kind = (uint32_t)(key & 7);
    switch (f->kind) {
    case VARINT:  return read_varint(c, &size);
    case FIXED64: return skip(c, 8);
    case FIXED32: return skip(c, 4);
    case LENGTH:
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

/* False: the end, or something that is no field; then the cursor stands before it. */
static bool next_field(cursor *c, field *f)
{
    const uint8_t *start = c->at;

    if (c->at < c->end && read_field(c, f))
        return true;
    c->at = start;
    return false;
}

/* -- which part is it ------------------------------------------------------------------------------- */

/* Where we are, in words: "block 0, operator 3 (mul), attribute 2". */
typedef struct place {
    char   text[256];
    size_t used;
} place;

static void go_into(place *p, const char *what, int index)
{
    const int n = snprintf(p->text + p->used, sizeof p->text - p->used, "%s%s %d", p->used ? ", " : "", what, index);
    if (n > 0 && (size_t)n < sizeof p->text - p->used)
        p->used += (size_t)n;
}

/* The contents of the string field `number`, if it is there and printable: the type of an operator, a name. */
static void add_name(place *p, const uint8_t *data, size_t size, uint32_t number)
{
    cursor c = {data, data + size};
    field  f;

    while (next_field(&c, &f)) {
        if (f.number != number || f.kind != LENGTH || f.size > 80)
            continue;
        for (size_t i = 0; i < f.size; i++)
            if (f.data[i] < ' ' || f.data[i] > '~')
                return;
        const int n = snprintf(p->text + p->used, sizeof p->text - p->used, " (%.*s)", (int)f.size, (const char *)f.data);
        if (n > 0 && (size_t)n < sizeof p->text - p->used)
            p->used += (size_t)n;
        return;
    }
}

static bool is_readable(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, size, data);

    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
    return message != NULL;
}

static const char *plain_name(const ProtobufCMessageDescriptor *type)
{
    if (type == &paddle__framework__proto__block_desc__descriptor)         return "block";
    if (type == &paddle__framework__proto__var_desc__descriptor)           return "variable";
    if (type == &paddle__framework__proto__op_desc__descriptor)            return "operator";
    if (type == &paddle__framework__proto__op_desc__var__descriptor)       return "slot";
    if (type == &paddle__framework__proto__op_desc__attr__descriptor)      return "attribute";
    return type->short_name;
}

static uint32_t name_field(const ProtobufCMessageDescriptor *type)
{
    return type == &paddle__framework__proto__op_desc__descriptor ? 3
         : type == &paddle__framework__proto__block_desc__descriptor ? 0 : 1;
}

/* What a message lacks or cannot have, when all its parts are readable. */
static void describe(char *out, size_t room, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    cursor   c = {data, data + size};
    uint64_t seen = 0;
    field    f;

    while (next_field(&c, &f)) {
        if (f.number < 64)
            seen |= 1ull << f.number;
        if (f.kind == LENGTH && f.missing) {
            snprintf(out, room, "it is cut short: field %u lacks %llu of its bytes", f.number,
                     (unsigned long long)f.missing);
            return;
        }
    }
    if (c.at != c.end) {
        snprintf(out, room, "it is cut short or garbled: at byte %zu of its %zu there is no whole field", (size_t)(c.at - data), size);
        return;
    }
    for (unsigned i = 0; i < type->n_fields; i++)
        if (type->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && !(seen >> type->fields[i].id & 1)) {
            snprintf(out, room, "its field '%s' is missing", type->fields[i].name);
            return;
        }
    snprintf(out, room, "one of its fields has contents of another type");
}

/* The depth is that of the schema. */
static void locate(place *p, char *out, size_t room, const ProtobufCMessageDescriptor *type, const uint8_t *data,
                   size_t size)
{
    cursor c = {data, data + size};
    field  f;
    int    count[16] = {0};               /* of the parts of each field number */

    while (next_field(&c, &f)) {
        const ProtobufCFieldDescriptor *part = protobuf_c_message_descriptor_get_field(type, f.number);
        if (!part || part->type != PROTOBUF_C_TYPE_MESSAGE || f.kind != LENGTH)
            continue;
        const int index = f.number < 16 ? count[f.number]++ : 0;
        if (!f.missing && is_readable(part->descriptor, f.data, f.size))
            continue;
        go_into(p, plain_name(part->descriptor), index);
        if (name_field(part->descriptor))
            add_name(p, f.data, f.size, name_field(part->descriptor));
        if (f.missing && is_readable(part->descriptor, f.data, f.size))       /* cut between its fields */
            snprintf(out, room, "it is cut short by %llu bytes", (unsigned long long)f.missing);
        else
            locate(p, out, room, part->descriptor, f.data, f.size);
        return;
    }
    describe(out, room, type, data, size);
}

tr_status tr__program_explain_damage(const void *bytes, size_t size)
{
    place p = {.used = 0};
    char  what[160];

    locate(&p, what, sizeof what, &paddle__framework__proto__program_desc__descriptor, bytes, size);
    return tr_fail(TR_EFORMAT, "program of %zu bytes: %s%s%s", size, p.text, p.used ? ": " : "", what);
}
