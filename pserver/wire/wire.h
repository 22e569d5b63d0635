/* wire.h - messages between ranks: the frame that all share, the fields of each, and their bytes.
 *
 * A message has a fixed header of 64 bytes, little-endian, and a payload. The header is the frame and the message's own fields
 * (messages.h), packed in their order. The payload is raw tensor data, sent from where it lies, or a protobuf message. The
 * receiver can choose from the header where the payload goes before it arrives.
 *
 *   offset  0 magic "TRM2"   u32     8 epoch    u32     16 seq     u64     32 fields   32 bytes
 *           4 kind           u32    12 sender   u32     24 bytes   u64
 *
 * What must stay true: decoding trusts nothing. Each field of a decoded message is in its range, and header bytes that no field
 * uses are zero. Whether a block exists, and whether the sender may say this now, is for the cores to check. */
#ifndef TR_PSERVER_WIRE_H
#define TR_PSERVER_WIRE_H

#include "framework/status.h"
#include "pserver/trireme_tasks.h"
#include "pserver/wire/messages.h"

enum { TR_WIRE_HEADER = 64, TR_WIRE_FRAME = 32 };

/* Limits of payloads. A HELLO lists the kept states of a host: 16 bytes for each of at most 60,000 servers. An ABORT has one text, which
 * the event loop holds in 4 KiB. Both come before the receiver knows anything of the sender, so their limits are near their content. */
#define TR_LIMIT_HELLO   ((uint64_t)1 << 20)
#define TR_LIMIT_ABORT   ((uint64_t)1 << 13)
#define TR_LIMIT_CONTROL ((uint64_t)1 << 30)
#define TR_LIMIT_DATA    ((uint64_t)1 << 28)
#define TR_LIMIT_SHARE   ((uint64_t)1 << 10)

typedef enum tr_wire_kind {
    TR_WIRE_NONE = 0,                 /* no message: a header of zeros is refused */
#define TR_WIRE_M(KIND, form, ...) TR_WIRE_##KIND,
#define TR_WIRE_E(KIND, ...) TR_WIRE_##KIND,
    TR_MESSAGES(TR_WIRE_M, TR_WIRE_E)
#undef TR_WIRE_M
#undef TR_WIRE_E
    TR_WIRE_KIND_COUNT
} tr_wire_kind;

/* ACK.initiator when no trainer makes checkpoints: nobody can, or the last one is made. */
#define TR_INITIATOR_NONE (UINT32_MAX - 1)
#define TR_INITIATOR_OVER UINT32_MAX

/* READY.flags: the trainer is dead for this server; it has left; this server has all of the snapshot; it has given it up. */
enum {
    TR_READY_LOST = 1, TR_READY_LEFT = 2, TR_READY_GATHERED = 4, TR_READY_GIVEN_UP = 8,
    TR_READY_FLAGS = 15
};

/* REPLACE_DONE.progress: what a replacement has done on a server, in whose place another process may be by now. */
typedef enum tr_replacement_progress {
    TR_REPLACEMENT_CALLED,            /* it has not joined there */
    TR_REPLACEMENT_JOINED,            /* it has joined, and has made no step yet */
    TR_REPLACEMENT_STEPPED,
    TR_REPLACEMENT_COUNT
} tr_replacement_progress;

/* POST.until: the answer comes at once; when all trainers have posted that have not left; when that trainer has posted, or has left. */
typedef enum tr_wire_until { TR_UNTIL_NOW, TR_UNTIL_ALL, TR_UNTIL_ONE, TR_UNTIL_COUNT } tr_wire_until;

/* The C types of fields (messages.h). */
typedef uint32_t tr_field_u32;
typedef uint64_t tr_field_u64;
typedef uint64_t tr_field_offset;
typedef double   tr_field_weight;
typedef bool     tr_field_flag;

#define TR_WIRE_FIELD(type, name, most, meaning) tr_field_##type name;
#define TR_WIRE_STRUCT(form)                                                                                 \
    typedef struct tr_form_##form {                                                                          \
        TR_FORM_##form(TR_WIRE_FIELD)                                                                        \
    } tr_form_##form;
TR_FORMS(TR_WIRE_STRUCT)
#undef TR_WIRE_STRUCT
#undef TR_WIRE_FIELD

typedef struct tr_wire {
    tr_wire_kind kind;
    uint32_t     epoch;               /* start of the trainer that sends or receives; 0 where no trainer does */
    uint32_t     sender;              /* rank */
    uint64_t     seq;                 /* number in the sender's stream to the receiver: 1, 2, ...; of an answer: what it answers; else 0 */
    uint64_t     bytes;               /* of the payload */
    union {                           /* the fields of the form that `kind` has */
#define TR_WIRE_MEMBER(form) tr_form_##form form;
        TR_FORMS(TR_WIRE_MEMBER)
#undef TR_WIRE_MEMBER
    };
} tr_wire;

/* The name of a kind as in messages.h; "?" for a number that is no kind. */
const char *tr_wire_kind_name(tr_wire_kind kind);
/* Do the ranks' event loops say this to each other, and not their cores? */
bool        tr_wire_is_of_loop(tr_wire_kind kind);
/* Is it part of a step's gradient? Such a message has a `step` in front. */
bool        tr_wire_is_push(tr_wire_kind kind);
/* The step in front of the fields; only of messages that have one. */
uint64_t    tr_wire_step(const tr_wire *wire);
void        tr_wire_encode(uint8_t out[TR_WIRE_HEADER], const tr_wire *wire);
/* TR_EFORMAT when these 64 bytes are no header of ours; the text names the message and the field. */
tr_status   tr_wire_decode(tr_wire *out, const uint8_t in[TR_WIRE_HEADER]);
/* The message as text on one line, without its payload: "PUSH epoch=1 sender=3 seq=7 bytes=4096 step=3 weight=32 ...". Snapshot at `size`. */
void        tr_wire_print(char *out, size_t size, const tr_wire *wire);

/* -- entries: the payload of PUSH_MANY and DATA_MANY ------------------------------------------------
 * `count` entries of { u32 block, u32 bytes }, then their data in the same order, each padded to 8 bytes. */
enum { TR_WIRE_ENTRY = 8 };

/* Whether blocks of this size travel together in MANY messages. */
bool     tr_wire_is_small(uint64_t bytes, uint64_t chunk_bytes);
/* Bytes that an entry with this much data adds to a payload. */
uint64_t tr_wire_entry_size(uint64_t bytes);
/* Write entry `index` of a payload that will have `count`; `cursor` is where its data goes, at first
 * count * TR_WIRE_ENTRY, and moves on. Returns where the caller is to copy the data. */
uint8_t *tr_wire_entry_put(uint8_t *payload, uint32_t index, uint64_t *cursor, uint32_t block, uint64_t bytes);

typedef struct tr_wire_entries {
    const uint8_t *payload;
    uint64_t       size, cursor;
    uint32_t       count, next;
} tr_wire_entries;

/* Check the whole payload before anything is read from it. */
tr_status tr_wire_entries_open(tr_wire_entries *out, const uint8_t *payload, uint64_t size, uint32_t count);
/* The next entry; false after the last. `data` is aligned to 8 where the payload is. */
bool      tr_wire_entries_next(tr_wire_entries *entries, uint32_t *block, const uint8_t **data, uint64_t *bytes);

/* Little-endian words, for payloads that are lists of numbers. */
uint32_t tr_wire_get_u32(const uint8_t *in);
void     tr_wire_put_u32(uint8_t *out, uint32_t value);

#endif
