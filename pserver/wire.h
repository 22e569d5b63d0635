/* wire.h - what a message between ranks looks like.
 *
 * Every message is one fixed header of 64 bytes, little-endian, and a payload of `bytes` bytes: raw tensor
 * data sent from where it lies, or a protobuf message (proto/pserver.proto) for what is said once. A header
 * says all that a receiver needs to know in order to choose where the payload goes before it arrives.
 *
 * What must stay true: decoding trusts nothing. Whatever passes it is in range by itself; whether a block
 * exists or a trainer may say this now is for the cores to check.
 *
 *   offset  0 magic "TRM1"       u32      24 step     u64
 *           4 kind               u8       32 block    u32
 *           5 zero               u8       36 part     u32
 *           6 zero               u16      40 offset   u64
 *           8 epoch              u32      48 bytes    u64
 *          12 sender             u32      56 weight   f64
 *          16 seq                u64
 */
#ifndef TR_PSERVER_WIRE_H
#define TR_PSERVER_WIRE_H

#include "framework/status.h"

enum { TR_WIRE_HEADER = 64, TR_WIRE_VERSION = 1 };

/* X(name, payload limit): no payload, a control message, or data. */
#define TR_LIMIT_CONTROL ((uint64_t)1 << 30)
#define TR_LIMIT_DATA    ((uint64_t)1 << 28)
#define TR_LIMIT_SHARE   ((uint64_t)1 << 10)
#define TR_WIRE_KINDS(X)                                                                                    \
    X(HELLO,     TR_LIMIT_CONTROL)  /* any to any: Hello */                                                 \
    X(BEAT,      0)                 /* any to any: I live */                                                \
    X(BYE,       0)                 /* any to any: I am done; my silence from now on means nothing */       \
    X(ABORT,     TR_LIMIT_CONTROL)  /* any to any: Abort */                                                 \
    X(SETUP,     TR_LIMIT_CONTROL)  /* request: Setup; `part` 1: as before, as it was after `step` */                                                   \
    X(VALUE,     TR_LIMIT_DATA)     /* request: bytes [offset, offset + bytes) of value `block` */          \
    X(JOIN,      TR_LIMIT_CONTROL)  /* request: Join; `step` are behind me here, `offset` everywhere */                                                     \
    X(PUSH,      TR_LIMIT_DATA)     /* request: bytes [offset, offset + bytes) of a gradient */             \
    X(PUSH_MANY, TR_LIMIT_DATA)     /* request: `block` whole small gradients (see entries below) */        \
    X(STEP_END,  0)                 /* request: all of `step` was pushed; `part` 1: it has no gradient, and is in no update; */ \
                                    /*          `offset` steps are settled everywhere */                    \
    X(PULL,      TR_LIMIT_DATA)     /* request: u32 numbers of blocks, wanted as of `step`; `part` of these steps are to be made again */ \
    X(GOODBYE,   TR_LIMIT_CONTROL)  /* request: `step` was my last; Cut, with the place, or nothing; `offset` as in STEP_END; */ \
                                    /*          `part` 1: the last checkpoint is behind me */ \
    X(ACK,       0)                 /* reply: requests up to `seq` are done, but for pulls; `block` makes checkpoints, or TR_MAKER_...; */ \
                                    /*          `part`: cut to take part in, or 0; `offset`: the newest; `weight` 1: a cut would be declined */ \
    X(DATA,      TR_LIMIT_DATA)     /* reply to pull `seq`, number `part`: a piece of a parameter */        \
    X(DATA_MANY, TR_LIMIT_DATA)     /* reply to pull `seq`, number `part`: `block` whole small ones */      \
    X(REFUSED,   TR_LIMIT_CONTROL)  /* reply: Refusal */                                                    \
    X(SERVING,   TR_LIMIT_CONTROL)  /* server to all: Serving; without payload: a question for it */        \
    X(PULL_ROWS, TR_LIMIT_DATA)     /* request: i64 keys of table `block`, wanted as of `step`, behind `offset` others of the same pull; */ \
                                    /*          `part` as of PULL */ \
    X(PUSH_ROWS, TR_LIMIT_DATA)     /* request: piece `part` of `offset` of a gradient of table `block`: */ \
                                    /*          i64 keys, all different, then as many rows of f32 */        \
    X(DATA_ROWS, TR_LIMIT_DATA)     /* reply to row pull `seq`: its rows, in the table's type; ssp: `offset` steps of all are in them */ \
    X(TASKS,     0)                 /* request: `block` tasks, `part` passes, digest `offset`, leases of `weight` s */ \
    X(TASK_ASK,  0)                 /* request: a task, please, behind lease `offset`, the newest that it has got; `part` 1: none, \
                                               only whether all are done */                               \
    X(TASK_END,  0)                 /* request: `part` a tr_wire_task_end */                                \
    X(TASK,      0)                 /* reply to `seq`: tr_task_answer `part`; task `block` of pass `step`, lease `offset`, \
                                               of which `weight` steps were made */                       \
    X(CUT,       TR_LIMIT_CONTROL)  /* request: Cut, number `part`, behind the end of `step`, which trainer `block` has begun; */ \
                                    /*          `offset` 1: cuts up to it are over */ \
    X(CUT_DONE,  TR_LIMIT_CONTROL)  /* reply to cut `part` of who has begun it: CutDone */                     \
    X(SHARE,     TR_LIMIT_SHARE)    /* server to server: what it has of gathering `seq`; `part` 1: answer */ \
    X(READ_ROWS, 0)                 /* request: all rows of virtual shard `part` of table `block`; DATA_ROWS, packed; \
                                               `part` TR_SHARDS: a tr_table_part in their place */ \
    X(WRITE_ROWS, TR_LIMIT_DATA)    /* request: packed rows that table `block` begins with; `part` 1: keys without a row */ \
    X(PUSH_COMPRESSED, TR_LIMIT_DATA) /* request: the piece of a gradient that begins at `offset`: see compress.h */ \
    X(READY,     0)                 /* server to server 0: has `step` of trainer `part`, of parameters of update `offset`; */ \
                                    /*          `block`: flags (server_verdict.c); cut number `seq` */      \
    X(VERDICT,   TR_LIMIT_CONTROL)  /* server 0 to the others: Verdict */                                       \
    X(REPLICA,   TR_LIMIT_CONTROL)  /* replica to its server, when that serves: Replica */                  \
    X(COPY,      TR_LIMIT_CONTROL)  /* to a replica: be as I was after `step`; `part` 1: you have it, Update: what counts; */ \
                                    /*          0: Setup, the rest comes; */ \
                                    /*          2: all has come, what I tell others from here on you have, too; age `offset` */ \
    X(UPDATE,    TR_LIMIT_CONTROL)  /* to a replica: Update, of which all has come; `part` 1: no update, just commit; `step`: as of it */ \
    X(HEIR,      0)                 /* be trainer `block`, in the place of rank `offset`, with epoch `seq`: server_heir.c; `part`: */ \
                                    /*          tr_wire_heir; TR_HEIR_IS: `offset` tr_wire_heir_has, which began behind `step` */ \
    X(MIRROR,    0)                 /* be the replica of server `block`; `part` 1, to all: that I am from here on */ \
    X(OVER,      TR_LIMIT_CONTROL)  /* request: as GOODBYE, but I stay: done when I make the last checkpoint, or it is made */

typedef enum tr_wire_kind {
    TR_WIRE_NONE = 0,                 /* no message: a header of zeros is refused */
#define TR_WIRE_ENUM(name, limit) TR_WIRE_##name,
    TR_WIRE_KINDS(TR_WIRE_ENUM)
#undef TR_WIRE_ENUM
    TR_WIRE_KIND_COUNT
} tr_wire_kind;

/* In the place of who makes checkpoints: nobody does; the last one is made. */
#define TR_MAKER_NONE (UINT32_MAX - 1)
#define TR_MAKER_OVER UINT32_MAX

/* Lease `offset` is done, or has failed; `offset` steps are settled everywhere. */
typedef enum tr_wire_task_end { TR_TASK_DONE, TR_TASK_FAILED, TR_TASK_EVERYWHERE } tr_wire_task_end;

/* Server 0 to a spare; a spare to all; a server to server 0. */
typedef enum tr_wire_heir { TR_HEIR_CALLED, TR_HEIR_IS, TR_HEIR_WANTED } tr_wire_heir;
/* What it has said to the servers in whose place others may be by now. */
typedef enum tr_wire_heir_has { TR_HEIR_NOTHING, TR_HEIR_JOINED, TR_HEIR_STEPPED } tr_wire_heir_has;

typedef struct tr_wire {
    tr_wire_kind kind;
    uint32_t     epoch;               /* of the trainer that asks, or is answered */
    uint32_t     sender;              /* rank */
    uint64_t     seq;                 /* of a trainer's requests to one server: 1, 2, ... */
    uint64_t     step;
    uint32_t     block;               /* of this server; in MANY kinds the number of entries */
    uint32_t     part;                /* of a reply in more than one message; of cuts (and in ACK) the newest's number */
    uint64_t     offset;
    uint64_t     bytes;               /* of the payload */
    double       weight;              /* samples behind a gradient: finite, not negative */
} tr_wire;

const char *tr_wire_kind_name(tr_wire_kind kind);
void        tr_wire_encode(uint8_t out[TR_WIRE_HEADER], const tr_wire *wire);
/* TR_EFORMAT when these 64 bytes are no header of ours. */
tr_status   tr_wire_decode(tr_wire *out, const uint8_t in[TR_WIRE_HEADER]);

/* -- entries: the payload of PUSH_MANY and DATA_MANY ------------------------------------------------
 * `block` entries of { u32 block, u32 bytes }, then their data in the same order, each padded to 8 bytes. */
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
