/* program_damage.c - see program_damage.h.
 *
 * protobuf-c says yes or no about a whole message. After a no, this file walks the fields of the message by
 * hand, asks protobuf-c about each part that is a message itself, and goes into the first one that it refuses. */
#include "framework/formats/program_damage.h"

#include "framework/base/message.h"

#include <stdio.h>
#include <string.h>

#include "proto/framework.pb-c.h"

/* -- which part is it ------------------------------------------------------------------------------- */

/* The position in the program, in words: "block 0, operator 3 (mul), attribute 2". */
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
    tr_message_cursor c = {data, data + size};
    tr_message_field f;

    while (tr__message_next(&c, &f)) {
        if (f.number != number || f.kind != TR_FIELD_LENGTH || f.size > 80)
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

/* The defect of a message whose parts are all readable: it lacks something, or has something impossible. */
static void describe(char *out, size_t room, const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size)
{
    tr_message_cursor c = {data, data + size};
    uint64_t          seen = 0;
    tr_message_field f;

    while (tr__message_next(&c, &f)) {
        if (f.number < 64)
            seen |= 1ull << f.number;
        if (f.kind == TR_FIELD_LENGTH && f.missing) {
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
    tr_message_cursor c = {data, data + size};
    tr_message_field f;
    int    count[16] = {0};               /* of the parts of each field number */

    while (tr__message_next(&c, &f)) {
        const ProtobufCFieldDescriptor *part = protobuf_c_message_descriptor_get_field(type, f.number);
        if (!part || part->type != PROTOBUF_C_TYPE_MESSAGE || f.kind != TR_FIELD_LENGTH)
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
