/* wire.h - messages between ranks: the frame that all share, the fields of each, and their bytes.
 *
 * A message has a fixed header of 64 bytes, little-endian, and a payload. The header is the frame and the message's own fields
 * (messages.h), packed in their order. The payload is raw tensor data, sent from where it lies, or a protobuf message. The
 * receiver can choose from the header where the payload goes before it arrives.
 *
 *   offset  0 magic "TRM2"   u32     8 incarnation    u32     16 seq     u64     28 receiver u32
 *           4 kind           u32    12 sender         u32     24 bytes   u32     32 fields   32 bytes
 *
 * What must stay true: decoding trusts nothing. Each field of a decoded message is in its range, and header bytes that no field
 * uses are zero. Whether a block exists, and whether the sender may say this now, is for the cores to check. */
#pragma once

#include "framework/base/status.h"
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
#define TR_LIMIT_BUNDLE  ((uint64_t)1 << 16)

typedef enum tr_wire_kind {
    TR_WIRE_NONE = 0,                 /* no message: a header of zeros is refused */
#define TR_WIRE_M(KIND, form, ...) TR_WIRE_##KIND,
#define TR_WIRE_E(KIND, ...) TR_WIRE_##KIND,
    TR_MESSAGES(TR_WIRE_M, TR_WIRE_E)
#undef TR_WIRE_M
#undef TR_WIRE_E
    TR_WIRE_KIND_COUNT
} tr_wire_kind;

/* ACK.initiator when no trainer makes checkpoints: no trainer can, or the last checkpoint is made. */
#define TR_INITIATOR_NONE (UINT32_MAX - 1)
#define TR_INITIATOR_OVER UINT32_MAX

/* SNAPSHOT_NEWS.news: all trainers have taken part in the snapshot on this server; or the server has given the snapshot up. */
typedef enum tr_snapshot_news { TR_SNAPSHOT_GATHERED, TR_SNAPSHOT_GIVEN_UP, TR_SNAPSHOT_NEWS_COUNT } tr_snapshot_news;

/* MEMBER.news: what has become of a process that is a trainer, or was called to become one. */
typedef enum tr_news {
    TR_NEWS_DIED,                     /* it is dead for the sender; or, called and not come, it is no standby any more */
    TR_NEWS_LEFT,                     /* it has said goodbye, and all of its steps are settled on the sender */
    TR_NEWS_CAME,                     /* it says that it was called, in a decision that the sender does not have */
    TR_NEWS_COUNT
} tr_news;

/* REPLACE_DONE.progress: the progress of a replacement on a server. Another process may have taken the same place by now. */
typedef enum tr_replacement_progress {
    TR_REPLACEMENT_CALLED,            /* the replacement has not joined there */
    TR_REPLACEMENT_JOINED,            /* it has joined, and has made no step yet */
    TR_REPLACEMENT_STEPPED,
    TR_REPLACEMENT_COUNT
} tr_replacement_progress;

/* POST.until: when the server answers. At once; when all trainers have posted that have not left; when that trainer has posted, has left or
 * is lost. */
typedef enum tr_wire_until { TR_UNTIL_NOW, TR_UNTIL_ALL, TR_UNTIL_ONE, TR_UNTIL_COUNT } tr_wire_until;

/* PUSH.part, PULL.part: a request of one trainer, or of all trainers of a host group (roster.h), whose requests a carrier has put together
 * (carrier.h). */
typedef enum tr_wire_part {
    TR_PART_OWN,                      /* the gradient, or the answer, is this trainer's alone */
    TR_PART_FIRST,                    /* the gradient is the sum of the group, or the answer goes to its carrier, for the whole group */
    TR_PART_OTHER,                    /* the gradient is in that sum, so there is no payload; or the answer is that of the first request */
    TR_PART_COUNT
} tr_wire_part;

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
    uint32_t     incarnation;               /* incarnation of the trainer that sends or receives; 0 if neither is a trainer */
    uint32_t     sender;              /* the sender's rank */
    uint64_t     seq;                 /* number of a request in the sender's stream to the receiver: 1, 2, ...; in an answer: the number of
                                       * the request; else 0 */
    uint64_t     bytes;               /* size of the payload */
    uint32_t     receiver;            /* a message that is carried (carrier.h): the rank that it is for, + 1; 0: another message */
    uint32_t     carrier;             /* not sent, but noted where it arrives: the rank that has carried it, + 1; 0: nobody has */
    union {                           /* the fields of the form of `kind` */
#define TR_WIRE_MEMBER(form) tr_form_##form form;
        TR_FORMS(TR_WIRE_MEMBER)
#undef TR_WIRE_MEMBER
    };
} tr_wire;

/* The name of a kind as in messages.h; "?" for a number that is no kind. */
const char *tr_wire_kind_name(tr_wire_kind kind);
/* Is this a message between the ranks' event loops, and not between their cores? */
bool        tr_wire_is_of_loop(tr_wire_kind kind);
/* Is it part of a step's gradient? Such a message has a `step` in front. */
bool        tr_wire_is_push(tr_wire_kind kind);
/* The step, which is the first field. Only for messages that have one. */
uint64_t    tr_wire_step(const tr_wire *wire);
void        tr_wire_encode(uint8_t out[TR_WIRE_HEADER], const tr_wire *wire);
/* Decode a header. TR_EFORMAT: these 64 bytes are no valid header; the text names the message and the field. */
tr_status   tr_wire_decode(tr_wire *out, const uint8_t in[TR_WIRE_HEADER]);
/* Print the message on one line, without its payload: "PUSH incarnation=1 sender=3 seq=7 bytes=4096 step=3 weight=32 ...". The text is cut
 * off at `size`. */
void        tr_wire_print(char *out, size_t size, const tr_wire *wire);

/* -- entries: the payload of PUSH_MANY and DATA_MANY ------------------------------------------------
 * `count` entries of { u32 block, u32 bytes }, then their data in the same order, each padded to 8 bytes. */
enum { TR_WIRE_ENTRY = 8 };

/* Do blocks of this size travel together in MANY messages? */
bool     tr_wire_is_small(uint64_t bytes, uint64_t chunk_bytes);
/* Bytes that an entry with this much data adds to a payload. */
uint64_t tr_wire_entry_size(uint64_t bytes);
/* Write the head of entry `index` of a payload that will have `count` entries. `cursor` is the place for its data: at first count *
 * TR_WIRE_ENTRY; the call moves it on. Returns where the caller copies the data to. */
uint8_t *tr_wire_entry_put(uint8_t *payload, uint32_t index, uint64_t *cursor, uint32_t block, uint64_t bytes);

typedef struct tr_wire_entries {
    const uint8_t *payload;
    uint64_t       size, cursor;
    uint32_t       count, next;
} tr_wire_entries;

/* Check the whole payload before anything is read from it. */
tr_status tr_wire_entries_open(tr_wire_entries *out, const uint8_t *payload, uint64_t size, uint32_t count);
/* Read the next entry; false after the last. `data` is aligned to 8 if the payload is. */
bool      tr_wire_entries_next(tr_wire_entries *entries, uint32_t *block, const uint8_t **data, uint64_t *bytes);
