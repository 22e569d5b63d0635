/* wire.c - see wire.h. */
#include "pserver/wire/wire.h"

#include "framework/base/number.h"
#include "storage/util/little_endian.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const uint32_t MAGIC = 0x324d5254;      /* "TRM2" */

static const struct {
    const char *name;
    uint64_t    limit;
} kinds[TR_WIRE_KIND_COUNT] = {
    [TR_WIRE_NONE] = {"NONE", 0},
#define WITH_FORM(KIND, form, sender, receiver, payload, limit) [TR_WIRE_##KIND] = {#KIND, limit},
#define WITHOUT(KIND, sender, receiver, payload, limit) [TR_WIRE_##KIND] = {#KIND, limit},
    TR_MESSAGES(WITH_FORM, WITHOUT)
#undef WITH_FORM
#undef WITHOUT
};

/* == fields: for each type its size, and how it is written, read, checked and printed ============== */

enum { SIZE_u32 = 4, SIZE_flag = 4, SIZE_u64 = 8, SIZE_offset = 8, SIZE_weight = 8 };

#define ADD_SIZE(type, name, most, meaning) +SIZE_##type
#define CHECK_SIZE(form)                                                                                     \
    static_assert(0 TR_FORM_##form(ADD_SIZE) <= TR_WIRE_HEADER - TR_WIRE_FRAME, "the form " #form " is too large");
TR_FORMS(CHECK_SIZE)

static void write_u32(uint8_t *out, uint32_t value)
{
    tr_put_u32(out, value);
}

static void write_flag(uint8_t *out, bool value)
{
    tr_put_u32(out, value);
}

static void write_u64(uint8_t *out, uint64_t value)
{
    tr_put_u64(out, value);
}

static void write_offset(uint8_t *out, uint64_t value)
{
    tr_put_u64(out, value);
}

static void write_weight(uint8_t *out, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    tr_put_u64(out, bits);
}

/* A field is read by one function, and refused by another one, which no correct message calls. */
static bool read_u32(uint32_t *out, const uint8_t *in, uint64_t most, uint64_t payload)
{
    (void)payload;
    *out = tr_get_u32(in);
    return *out <= most;
}

static bool read_flag(bool *out, const uint8_t *in, uint64_t most, uint64_t payload)
{
    uint32_t   value;
    const bool is_allowed = read_u32(&value, in, most, payload);

    *out = value != 0;
    return is_allowed;
}

static bool read_u64(uint64_t *out, const uint8_t *in, uint64_t most, uint64_t payload)
{
    (void)payload;
    *out = tr_get_u64(in);
    return *out <= most;
}

static bool read_offset(uint64_t *out, const uint8_t *in, uint64_t most, uint64_t payload)
{
    (void)most;
    *out = tr_get_u64(in);
    return *out <= INT64_MAX - payload;
}

static bool read_weight(double *out, const uint8_t *in, uint64_t most, uint64_t payload)
{
    const uint64_t bits = tr_get_u64(in);

    (void)most;
    (void)payload;
    memcpy(out, &bits, sizeof bits);
    return isfinite(*out) && !signbit(*out);
}

static tr_status refuse_number(tr_wire_kind kind, const char *name, uint64_t value, uint64_t most)
{
    return tr_fail(TR_EFORMAT, "message %s: %s is %llu, at most %llu is allowed", kinds[kind].name, name, (unsigned long long)value,
                   (unsigned long long)most);
}

static tr_status refuse_u32(tr_wire_kind kind, const char *name, const uint8_t *in, uint64_t most)
{
    return refuse_number(kind, name, tr_get_u32(in), most);
}

static tr_status refuse_flag(tr_wire_kind kind, const char *name, const uint8_t *in, uint64_t most)
{
    return refuse_u32(kind, name, in, most);
}

static tr_status refuse_u64(tr_wire_kind kind, const char *name, const uint8_t *in, uint64_t most)
{
    return refuse_number(kind, name, tr_get_u64(in), most);
}

static tr_status refuse_offset(tr_wire_kind kind, const char *name, const uint8_t *in, uint64_t most)
{
    (void)most;
    return tr_fail(TR_EFORMAT, "message %s: %s %llu is out of range", kinds[kind].name, name, (unsigned long long)tr_get_u64(in));
}

static tr_status refuse_weight(tr_wire_kind kind, const char *name, const uint8_t *in, uint64_t most)
{
    double weight;

    read_weight(&weight, in, most, 0);
    return tr_fail(TR_EFORMAT, "message %s: %s is %g; a finite number, not negative, is allowed", kinds[kind].name, name, weight);
}

#define SHOW_u32(value)    " %s=%llu", (unsigned long long)(value)
#define SHOW_flag(value)   " %s=%llu", (unsigned long long)(value)
#define SHOW_u64(value)    " %s=%llu", (unsigned long long)(value)
#define SHOW_offset(value) " %s=%llu", (unsigned long long)(value)
#define SHOW_weight(value) " %s=%g", (double)(value)

/* == messages ===================================================================================== */

const char *tr_wire_kind_name(tr_wire_kind kind)
{
    return (unsigned)kind < TR_WIRE_KIND_COUNT ? kinds[kind].name : "?";
}

bool tr_wire_is_of_loop(tr_wire_kind kind)
{
    return kind == TR_WIRE_HELLO || kind == TR_WIRE_BEAT || kind == TR_WIRE_BYE || kind == TR_WIRE_ABORT ||
           kind == TR_WIRE_BUNDLE;
}

bool tr_wire_is_push(tr_wire_kind kind)
{
    return kind == TR_WIRE_PUSH || kind == TR_WIRE_PUSH_COMPRESSED || kind == TR_WIRE_PUSH_MANY || kind == TR_WIRE_PUSH_ROWS ||
           kind == TR_WIRE_SET;
}

/* All these forms begin with the same field. */
uint64_t tr_wire_step(const tr_wire *wire)
{
    static_assert(offsetof(tr_form_push, step) == 0 && offsetof(tr_form_push_many, step) == 0 && offsetof(tr_form_push_rows, step) == 0 &&
                      offsetof(tr_form_set, step) == 0 && offsetof(tr_form_step_end, step) == 0 && offsetof(tr_form_pull, step) == 0 &&
                      offsetof(tr_form_pull_rows, step) == 0 && offsetof(tr_form_read_rows, step) == 0 &&
                      offsetof(tr_form_save_rows, step) == 0 && offsetof(tr_form_load_rows, step) == 0 &&
                      offsetof(tr_form_write_rows, step) == 0 && offsetof(tr_form_snapshot, step) == 0 &&
                      offsetof(tr_form_leave, step) == 0 && offsetof(tr_form_join, step) == 0 && offsetof(tr_form_tasks, step) == 0,
                  "a step comes first");
    return wire->push.step;
}

static uint8_t *encode_frame(uint8_t *out, const tr_wire *wire)
{
    tr_put_u32(out, MAGIC);
    tr_put_u32(out + 4, (uint32_t)wire->kind);
    tr_put_u32(out + 8, wire->incarnation);
    tr_put_u32(out + 12, wire->sender);
    tr_put_u64(out + 16, wire->seq);
    tr_put_u32(out + 24, wire->bytes < UINT32_MAX ? (uint32_t)wire->bytes : UINT32_MAX);       /* the receiver refuses it */
    tr_put_u32(out + 28, wire->receiver);
    return out + TR_WIRE_FRAME;
}

#define WRITE(type, name, most, meaning) write_##type(at, form->name); at += SIZE_##type;
#define ENCODE(KIND, form_, ...)                                                                             \
    case TR_WIRE_##KIND: {                                                                                   \
        const tr_form_##form_ *form = &wire->form_;                                                          \
        TR_FORM_##form_(WRITE) break;                                                                        \
    }
#define NO_FIELDS(KIND, ...) case TR_WIRE_##KIND: break;

void tr_wire_encode(uint8_t out[TR_WIRE_HEADER], const tr_wire *wire)
{
    uint8_t *at = encode_frame(out, wire);

    switch (wire->kind) {
        TR_MESSAGES(ENCODE, NO_FIELDS)
    default:
        break;
    }
    memset(at, 0, (size_t)(out + TR_WIRE_HEADER - at));
}

static tr_status decode_frame(tr_wire *out, const uint8_t *in)
{
    const uint32_t kind = tr_get_u32(in + 4);

    if (tr_get_u32(in) != MAGIC)
        return tr_fail(TR_EFORMAT, "message: begins with %08x instead of \"TRM2\"", tr_get_u32(in));
    if (kind == TR_WIRE_NONE || kind >= TR_WIRE_KIND_COUNT)
        return tr_fail(TR_EFORMAT, "message: there is no kind %u", kind);
    *out = (tr_wire){
        .kind = (tr_wire_kind)kind,
        .incarnation = tr_get_u32(in + 8),
        .sender = tr_get_u32(in + 12),
        .seq = tr_get_u64(in + 16),
        .bytes = tr_get_u32(in + 24),
        .receiver = tr_get_u32(in + 28),
    };
    if (out->bytes > kinds[kind].limit)
        return tr_fail(TR_EFORMAT, "message %s: payload of %llu bytes, at most %llu are allowed", kinds[kind].name,
                       (unsigned long long)out->bytes, (unsigned long long)kinds[kind].limit);
    return TR_OK;
}

#define READ(type, name_, most_, meaning)                                                                    \
    if (!read_##type(&form->name_, at, most_, out->bytes))                                                   \
        return refuse_##type(out->kind, #name_, at, most_);                                                  \
    at += SIZE_##type;
#define DECODE(KIND, form_, ...)                                                                             \
    case TR_WIRE_##KIND: {                                                                                   \
        tr_form_##form_ *form = &out->form_;                                                                 \
        TR_FORM_##form_(READ) break;                                                                         \
    }

tr_status tr_wire_decode(tr_wire *out, const uint8_t in[TR_WIRE_HEADER])
{
    const uint8_t *at = in + TR_WIRE_FRAME;

    TR_TRY(decode_frame(out, in));
    switch (out->kind) {
        TR_MESSAGES(DECODE, NO_FIELDS)
    default:
        break;
    }
    for (; at < in + TR_WIRE_HEADER; at += 4)
        if (tr_get_u32(at))
            return tr_fail(TR_EFORMAT, "message %s: bytes %d to %d of its header are not used, and not 0", kinds[out->kind].name,
                           (int)(at - in), (int)(at - in) + 3);
    return TR_OK;
}

/* == text ========================================================================================= */

typedef struct text {
    char  *out;
    size_t size, used;
} text;

static void add(text *t, const char *format, ...)
{
    va_list args;

    if (t->used >= t->size)
        return;
    va_start(args, format);
    t->used += (size_t)tr__vformat(t->out + t->used, t->size - t->used, format, args);
    va_end(args);
}

#define PRINT_1(format, value, name) add(&t, format, name, value)
#define PRINT_0(...) PRINT_1(__VA_ARGS__)
#define PRINT(type, name, most, meaning) PRINT_0(SHOW_##type(form->name), #name);
#define PRINT_FIELDS(KIND, form_, ...)                                                                       \
    case TR_WIRE_##KIND: {                                                                                   \
        const tr_form_##form_ *form = &wire->form_;                                                          \
        TR_FORM_##form_(PRINT) break;                                                                        \
    }

void tr_wire_print(char *out, size_t size, const tr_wire *wire)
{
    text t = {out, size, 0};

    add(&t, "%s incarnation=%u sender=%u seq=%llu bytes=%llu", tr_wire_kind_name(wire->kind), wire->incarnation, wire->sender,
        (unsigned long long)wire->seq, (unsigned long long)wire->bytes);
    if (wire->receiver)
        add(&t, " for=%u", wire->receiver - 1);
    switch (wire->kind) {
        TR_MESSAGES(PRINT_FIELDS, NO_FIELDS)
    default:
        break;
    }
}

/* == entries ====================================================================================== */

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) & ~(uint64_t)7;
}

bool tr_wire_is_small(uint64_t bytes, uint64_t chunk_bytes)
{
    static const uint64_t LIMIT = 16384;
    return bytes <= LIMIT && tr_wire_entry_size(bytes) <= chunk_bytes;
}

uint64_t tr_wire_entry_size(uint64_t bytes)
{
    return TR_WIRE_ENTRY + padded(bytes);
}

uint8_t *tr_wire_entry_put(uint8_t *payload, uint32_t index, uint64_t *cursor, uint32_t block, uint64_t bytes)
{
    uint8_t *entry = payload + (uint64_t)index * TR_WIRE_ENTRY;
    uint8_t *data = payload + *cursor;

    tr_put_u32(entry, block);
    tr_put_u32(entry + 4, (uint32_t)bytes);
    *cursor += padded(bytes);
    memset(data + bytes, 0, padded(bytes) - bytes);
    return data;
}

tr_status tr_wire_entries_open(tr_wire_entries *out, const uint8_t *payload, uint64_t size, uint32_t count)
{
    uint64_t need = (uint64_t)count * TR_WIRE_ENTRY;

    if (need > size)
        return tr_fail(TR_EFORMAT, "message: %u entries do not fit into %llu bytes", count, (unsigned long long)size);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = tr_get_u32(payload + (uint64_t)i * TR_WIRE_ENTRY + 4);
        if (padded(bytes) > size - need)
            return tr_fail(TR_EFORMAT, "message: entry %u of %u has %llu bytes, which do not fit into %llu", i, count,
                           (unsigned long long)bytes, (unsigned long long)size);
        need += padded(bytes);
    }
    if (need != size)
        return tr_fail(TR_EFORMAT, "message: %u entries take %llu bytes of %llu", count, (unsigned long long)need,
                       (unsigned long long)size);
    *out = (tr_wire_entries){payload, size, (uint64_t)count * TR_WIRE_ENTRY, count, 0};
    return TR_OK;
}

bool tr_wire_entries_next(tr_wire_entries *entries, uint32_t *block, const uint8_t **data, uint64_t *bytes)
{
    const uint8_t *entry = entries->payload + (uint64_t)entries->next * TR_WIRE_ENTRY;

    if (entries->next == entries->count)
        return false;
    entries->next++;
    *block = tr_get_u32(entry);
    *bytes = tr_get_u32(entry + 4);
    *data = entries->payload + entries->cursor;
    entries->cursor += padded(*bytes);
    return true;
}
