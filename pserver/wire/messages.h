/* messages.h - every message between ranks: its fields, its sender and receiver, its payload and its limit.
 *
 * This list is the only definition of the protocol's messages. wire.h makes from it the structs, wire.c the encoder, the decoder
 * with its checks, and the printer. docs/protocol.md explains what the messages are for; a test compares its table with this list.
 *
 * A message is a frame (wire.h), the fields of its form, and a payload. A form is a list of fields. Two messages may share a form
 * when every field means the same in both. A message without fields has the form `none`.
 *
 * What must stay true: a field has one meaning. The fields of a form take at most 32 bytes. Where a form has a `step` or an
 * `update`, that field comes first, so that code that handles several messages can read it.
 *
 * A field is F(type, name, most, "meaning"). `most` is the highest value that the decoder accepts. Types:
 *   u32, u64   an unsigned number               flag   0 or 1
 *   offset     u64; offset + payload bytes is at most 2^63 - 1
 *   weight     f64; finite and not negative */
#pragma once

#define TR_ANY UINT64_MAX             /* every value of the type is accepted */

/* -- forms: start ------------------------------------------------------------------------------- */
#define TR_FORM_setup(F)                                                                                     \
    F(u64,  updates, TR_ANY, "updates in the state that the job goes on from; 0 without `resumes`")          \
    F(flag, resumes, 1,      "the server keeps the state that it has; no VALUE and no WRITE_ROWS follow")
#define TR_FORM_value(F)                                                                                     \
    F(offset, offset, TR_ANY, "bytes of the value before the payload")                                       \
    F(u32,    value,  TR_ANY, "number of the value in Setup.values")
#define TR_FORM_restore(F)                                                                                   \
    F(u64, number, TR_ANY, "number of the checkpoint (Manifest.snapshot)")
#define TR_FORM_restored(F)                                                                                  \
    F(u32, status, TR_STATUS_COUNT - 1, "a tr_status: TR_OK, it has read its part; TR_EFORMAT, TR_EIO, it is damaged; else why not")
#define TR_FORM_join(F)                                                                                      \
    F(u64, step,            TR_ANY, "steps of this trainer that this server has settled")                    \
    F(u64, everywhere,      TR_ANY, "steps of this trainer that every server has settled")                   \
    F(u32, newest_snapshot, TR_ANY, "highest number of a snapshot that this trainer knows of; 0: none")

/* -- forms: a trainer's step -------------------------------------------------------------------- *
 * `part`: a tr_wire_part, which says what the trainers of a host have in common (carrier.h). */
#define TR_FORM_push(F)                                                                                      \
    F(u64,    step,   TR_ANY, "step of this trainer that the gradient belongs to: 1, 2, ...")                \
    F(weight, weight, TR_ANY, "samples of the gradient")                                                 \
    F(offset, offset, TR_ANY, "bytes of the block before this chunk, uncompressed")                          \
    F(u32,    block,  TR_ANY, "number of the block in Setup.blocks")                                         \
    F(u32,    part,   TR_PART_COUNT - 1, "whose gradient the payload is")
#define TR_FORM_push_many(F)                                                                                 \
    F(u64,    step,   TR_ANY, "step of this trainer that the gradients belong to")                           \
    F(weight, weight, TR_ANY, "samples of each gradient")                                                \
    F(u32,    count,  TR_ANY, "entries in the payload")                                                      \
    F(u32,    part,   TR_PART_COUNT - 1, "whose gradients the entries are; TR_PART_OTHER: they have no data")
#define TR_FORM_push_rows(F)                                                                                 \
    F(u64,    step,   TR_ANY, "step of this trainer that the gradient belongs to")                           \
    F(weight, weight, TR_ANY, "samples of the gradient")                                                 \
    F(u32,    table,  TR_ANY, "number of the table in Setup.tables")                                         \
    F(u32,    piece,  TR_ANY, "number of this piece: 0 .. pieces - 1")                                       \
    F(u32,    pieces, TR_ANY, "pieces of the table's gradient to this server, at least 1")                   \
    F(u32,    part,   TR_PART_COUNT - 1, "whose gradient the payload is")
#define TR_FORM_set(F)                                                                                       \
    F(u64,    step,   TR_ANY, "step of this trainer before which its script set the value")                  \
    F(offset, offset, TR_ANY, "bytes of the value before the payload")                                       \
    F(u32,    value,  TR_ANY, "number of the value in Setup.values")
#define TR_FORM_step_end(F)                                                                                  \
    F(u64,  step,       TR_ANY, "the step that ends: all of its gradients were sent before")                 \
    F(u64,  everywhere, TR_ANY, "steps of this trainer that every server has settled")                       \
    F(flag, is_idle,    1,      "the step has no gradient and is part of no update")
#define TR_FORM_pull(F)                                                                                      \
    F(u64, step,    TR_ANY, "parameters are wanted as of this step of the trainer")                          \
    F(u32, remakes, TR_ANY, "of `step`, the last steps that a replacement computes again")                   \
    F(u32, part,    TR_PART_COUNT - 1, "whose answer it is")
#define TR_FORM_pull_rows(F)                                                                                 \
    F(u64, step,    TR_ANY, "rows are wanted as of this step of the trainer")                                \
    F(u64, before,  TR_ANY, "keys in earlier messages of the same pull from this server")                    \
    F(u32, table,   TR_ANY, "number of the table in Setup.tables")                                           \
    F(u32, remakes, TR_ANY, "of `step`, the last steps that a replacement computes again")                   \
    F(flag, is_rounded, 1,  "rows of float32 are to be answered in bfloat16 (rounded.h)")
#define TR_FORM_expect_rows(F)                                                                               \
    F(u32, table, TR_ANY, "number of the table in Setup.tables")
#define TR_FORM_read_rows(F)                                                                                 \
    F(u64, step,  TR_ANY, "rows are wanted as of this step of the trainer")                                  \
    F(u32, table, TR_ANY, "number of the table in Setup.tables")                                             \
    F(u32, shard, TR_ANY, "virtual shard, rows of which are wanted; TR_SHARDS: a tr_table_part")          \
    F(u32, since, TR_ANY, "only rows that an update of this server after this one touched; 0: all")
#define TR_FORM_write_rows(F)                                                                                \
    F(u64,  step,           TR_ANY, "rows set between two steps: the last step of all; to a replica, the last update; 0: first rows") \
    F(u64,  clock,          TR_ANY, "with `clears`: the clock of the table that the rows come from (table.h)")  \
    F(u32,  table,          TR_ANY, "number of the table in Setup.tables")                                   \
    F(flag, has_candidates, 1,      "the payload holds counted keys without rows, not rows")                 \
    F(flag, clears,         1,      "the table's present rows and counted keys go first")
#define TR_FORM_save_rows(F)                                                                                 \
    F(u64, step,   TR_ANY, "rows are wanted as of this step of the trainer")                                 \
    F(u32, table,  TR_ANY, "number of the table in Setup.tables")                                            \
    F(u32, shard,  TR_ANY, "the first virtual shard whose rows are written")                                 \
    F(u32, shards, TR_ANY, "the number of these shards, all of this server")                                 \
    F(u32, since,  TR_ANY, "only rows that an update of this server after this one touched; 0: all")
#define TR_FORM_load_rows(F)                                                                                 \
    F(u64, step,  TR_ANY, "rows set between two steps: the last step of all; 0: first rows")                 \
    F(u32, table, TR_ANY, "number of the table in Setup.tables")                                             \
    F(flag, only_checks, 1, "the file is read and compared with its checksum, and no row is set")
#define TR_FORM_rows_file(F)                                                                                 \
    F(u64, rows,   TR_ANY, "SAVE_ROWS: rows in the file")                                                    \
    F(u32, last,   TR_ANY, "SAVE_ROWS: the newest update that touched one of them; 0: there is none")        \
    F(u32, crc,    TR_ANY, "SAVE_ROWS: CRC-32C of the packed rows")                                          \
    F(u32, status, TR_STATUS_COUNT - 1, "a tr_status: TR_OK, the file is written, or its rows are in the table; else why not")
#define TR_FORM_ack(F)                                                                                       \
    F(u64,  updates,         TR_ANY, "updates that this server has made")                                    \
    F(u32,  initiator,       TR_ANY, "trainer that makes checkpoints; TR_INITIATOR_NONE or _OVER")       \
    F(u32,  wanted_snapshot, TR_ANY, "snapshot that this trainer is to take part in; 0: none")               \
    F(u32,  newest_snapshot, TR_ANY, "highest number of a snapshot that this server knows of; 0: none")      \
    F(u32,  snapshot_step,   TR_ANY, "lower half of the last step of this trainer that this snapshot has")        \
    F(u32,  stops,           TR_ANY, "server 0: highest number of a training that a notice asks to end; 0: none") \
    F(flag, declines,        1,      "a snapshot that begins now would be declined: a replacement is awaited")
#define TR_FORM_data(F)                                                                                      \
    F(offset, offset, TR_ANY, "bytes of the block, as it is answered, before this chunk")                    \
    F(u32,    block,  TR_ANY, "number of the block in Setup.blocks")                                         \
    F(u32,    number, TR_ANY, "number of this message in the answer: 0, 1, ...")
#define TR_FORM_data_many(F)                                                                                 \
    F(u32, count,  TR_ANY, "entries in the payload")                                                         \
    F(u32, number, TR_ANY, "number of this message in the answer: 0, 1, ...")
#define TR_FORM_data_rows(F)                                                                                 \
    F(u64, clock, TR_ANY, "mode ssp: steps that every trainer has in these rows; 0 in other modes")

/* -- forms: snapshots and the end --------------------------------------------------------------- */
#define TR_FORM_snapshot(F)                                                                                  \
    F(u64, step,        TR_ANY, "the snapshot has this trainer's steps up to this one")                      \
    F(u32, number,      TR_ANY, "number of the snapshot: 1, 2, ...")                                         \
    F(u32, initiator,   TR_ANY, "trainer that has begun the snapshot")
#define TR_FORM_snapshot_number(F)                                                                           \
    F(u32, number, TR_ANY, "number of the snapshot")
#define TR_FORM_leave(F)                                                                                     \
    F(u64,  step,       TR_ANY, "the trainer's last step")                                                   \
    F(u64,  everywhere, TR_ANY, "steps of this trainer that every server has settled")                       \
    F(flag, has_last,   1,      "this trainer has made the job's last checkpoint, or has tried to")

/* -- forms: leased tasks ------------------------------------------------------------------------ */
#define TR_FORM_tasks(F)                                                                                     \
    F(u64,    step,    TR_ANY, "steps of this trainer so far")                                               \
    F(u64,    digest,  TR_ANY, "digest of the list of tasks")                                                \
    F(u32,    milliseconds, TR_ANY, "duration of a lease")                                                   \
    F(u32,    count,   TR_ANY, "tasks of a pass")                                                            \
    F(u32,    passes,  TR_ANY, "passes over all tasks")                                                      \
    F(u32,    list,    TR_ANY, "number of this list of tasks: 0, 1, ...; each loop of the trainer has one")
#define TR_FORM_task_ask(F)                                                                                  \
    F(u64,  last_lease, TR_ANY, "newest lease that this trainer has got; 0: none")                           \
    F(flag, only_asks,  1,      "no task is wanted, only whether all are done")
#define TR_FORM_task_end(F)                                                                                  \
    F(u64,  lease,      TR_ANY, "lease that has ended")                                                      \
    F(flag, has_failed, 1,      "the task was not done and is to be given to another trainer")
#define TR_FORM_settled(F)                                                                                   \
    F(u64, everywhere, TR_ANY, "steps of this trainer that every server has settled")
#define TR_FORM_task(F)                                                                                      \
    F(u64, lease,  TR_ANY,                   "number of the lease")                                          \
    F(u32, answer, TR_TASK_ANSWER_COUNT - 1, "a tr_task_answer")                                             \
    F(u32, task,   TR_ANY,                   "number of the task: 0 .. count - 1")                           \
    F(u32, pass,   TR_ANY,                   "number of the pass: 0, 1, ...")                                \
    F(u32, steps,  TR_ANY,                   "steps of the task that were made before")

/* -- forms: posts on server 0's board ----------------------------------------------------------- */
#define TR_FORM_post(F)                                                                                      \
    F(u64,  step,       TR_ANY, "steps that this trainer has ended")                                         \
    F(u32,  until,      TR_UNTIL_COUNT - 1, "a tr_wire_until: what the answer waits for")                    \
    F(u32,  trainer,    TR_ANY, "TR_UNTIL_ONE: the trainer that the answer waits for; else 0")               \
    F(flag, has_joined, 1,      "this trainer has sent its JOIN")                                            \
    F(flag, resumes,    1,      "the servers go on from an earlier start of the job")
#define TR_FORM_posted(F)                                                                                    \
    F(u32,  count,        TR_ANY, "entries in the payload")                                                  \
    F(flag, is_awaited,   1,      "no answer yet: a trainer that is to post first waits for the receiver's JOIN or next step") \
    F(flag, is_forgotten, 1,      "the collective was complete and is not kept any more")                    \
    F(flag, is_lost,      1,      "the trainer whose post was awaited has died, nobody replaces it, and it had not posted")

/* -- forms: between servers --------------------------------------------------------------------- */
#define TR_FORM_share(F)                                                                                     \
    F(u64,  number, TR_ANY, "number of the gathering (gathering.h), at least 1")                                \
    F(flag, asks,   1,      "the receiver is to send its own share again")
#define TR_FORM_ready(F)                                                                                     \
    F(u64, step,    TR_ANY, "all gradients of this step are here")                                           \
    F(u64, pulled,  TR_ANY, "update whose parameters the gradients were computed with")                      \
    F(u32, trainer, TR_ANY, "number of the trainer")
#define TR_FORM_snapshot_news(F)                                                                             \
    F(u64, decision, TR_ANY,                     "newest decision that the sender has; 0: none")             \
    F(u32, number,   TR_ANY,                     "number of the snapshot")                                   \
    F(u32, news,     TR_SNAPSHOT_NEWS_COUNT - 1, "a tr_snapshot_news: what has become of it on the sender")

/* -- forms: replicas ---------------------------------------------------------------------------- */
#define TR_FORM_copy(F)                                                                                      \
    F(u64, update,     TR_ANY, "updates in the state")                                                         \
    F(u32, generation, TR_ANY, "generation of the state (tr_store.generation): the highest of several is the newest")
#define TR_FORM_copy_generation(F)                                                                                  \
    F(u32, generation, TR_ANY, "generation of the state (tr_store.generation): the highest of several is the newest")
#define TR_FORM_replica_block(F)                                                                             \
    F(u64,    update,    TR_ANY, "update that the array belongs to")                                         \
    F(offset, offset,    TR_ANY, "bytes of the block before this chunk")                                     \
    F(u32,    block,     TR_ANY, "number of the block in Setup.blocks")                                      \
    F(flag,   is_pulled, 1,      "parameters that the gradient was computed with, not the gradient")
#define TR_FORM_replica_set(F)                                                                               \
    F(u64,    update, TR_ANY, "update before which the value is set")                                        \
    F(offset, offset, TR_ANY, "bytes of the value before the payload")                                       \
    F(u32,    value,  TR_ANY, "number of the value in Setup.values")
#define TR_FORM_replica_rows(F)                                                                              \
    F(u64,    update,  TR_ANY, "update that the gradient belongs to")                                        \
    F(weight, weight,  TR_ANY, "samples of the gradient")                                                \
    F(u32,    table,   TR_ANY, "number of the table in Setup.tables")                                        \
    F(u32,    trainer, TR_ANY, "trainer that has sent the gradient")                                         \
    F(flag,   is_sum,  1,      "it is the sum of the trainer's host group")
#define TR_FORM_replica_update(F)                                                                            \
    F(u64, update, TR_ANY, "update that the message belongs to")
#define TR_FORM_server(F)                                                                                    \
    F(u32, server, TR_ANY, "number of the server")

/* -- forms: replacement of a dead trainer ------------------------------------------------------- */
#define TR_FORM_replace_call(F)                                                                              \
    F(u32, trainer, TR_ANY, "number of the trainer")                                                         \
    F(u32, called,  TR_ANY, "incarnation that the receiver gets as this trainer")
#define TR_FORM_replace_done(F)                                                                              \
    F(u64, step,     TR_ANY,                     "steps of the trainer after which the sender began")     \
    F(u32, trainer,  TR_ANY,                     "number of the trainer")                                    \
    F(u32, called,   TR_ANY,                     "incarnation that the sender has as this trainer")                \
    F(u32, progress, TR_REPLACEMENT_COUNT - 1,   "a tr_replacement_progress, as the receiver's server knows it")
#define TR_FORM_member(F)                                                                                    \
    F(u64, decision, TR_ANY,            "newest decision that the sender has; 0: none")                      \
    F(u32, trainer,  TR_ANY,            "number of the trainer")                                             \
    F(u32, rank,     TR_ANY,            "rank of the process that is meant")                                 \
    F(u32, news,     TR_NEWS_COUNT - 1, "a tr_news: what has become of this process")
/* -- forms: between event loops ------------------------------------------------------------------- */
#define TR_FORM_bundle(F)                                                                                    \
    F(u32, count, TR_ANY, "messages in the payload")

#define TR_FORMS(X)                                                                                          \
    X(setup) X(value) X(restore) X(restored) X(join) X(push) X(push_many) X(push_rows) X(set) X(step_end) X(pull) X(pull_rows) \
    X(expect_rows) X(read_rows) X(save_rows) X(load_rows) X(rows_file)                                        \
    X(write_rows) X(ack) X(data) X(data_many) X(data_rows) X(snapshot) X(snapshot_number) X(leave)           \
    X(tasks) X(task_ask) X(task_end) X(settled) X(task) X(post) X(posted) X(share) X(ready) X(snapshot_news) X(copy) \
    X(copy_generation)                                                                                       \
    X(replica_block) X(replica_set) X(replica_rows) X(replica_update) X(server) X(replace_call) X(replace_done) X(member) X(bundle)

/* -- messages -----------------------------------------------------------------------------------
 *
 * M(KIND, form, sender, receiver, payload, limit) for a message with fields,
 * E(KIND,       sender, receiver, payload, limit) for one without.
 * A payload is the name of a protobuf message (proto/pserver.proto), what its bytes are, or "". */
#define TR_MESSAGES(M, E)                                                                                    \
    E(HELLO,                        "any",     "any",      "Hello",              TR_LIMIT_HELLO)             \
    E(BEAT,                         "any",     "any",      "",                   0)                          \
    E(BYE,                          "any",     "any",      "",                   0)                          \
    E(ABORT,                        "any",     "any",      "Abort",              TR_LIMIT_ABORT)             \
    M(RESTORE,     restore,         "trainer", "server",   "path of the checkpoint", TR_LIMIT_ABORT)         \
    M(RESTORED,    restored,        "server",  "trainer",  "why not: a text",    TR_LIMIT_CONTROL)           \
    M(SETUP,       setup,           "trainer", "server",   "Setup",              TR_LIMIT_CONTROL)           \
    M(VALUE,       value,           "trainer, server", "server, replica", "bytes of a value", TR_LIMIT_DATA) \
    M(JOIN,        join,            "trainer", "server",   "Join",               TR_LIMIT_CONTROL)           \
    M(PUSH,        push,            "trainer", "server",   "a chunk of a gradient", TR_LIMIT_DATA)           \
    M(PUSH_COMPRESSED, push,        "trainer", "server",   "a compressed chunk (compress.h)", TR_LIMIT_DATA) \
    M(PUSH_MANY,   push_many,       "trainer", "server",   "entries: whole small gradients", TR_LIMIT_DATA)  \
    M(PUSH_ROWS,   push_rows,       "trainer", "server",   "i64 keys, then f32 rows", TR_LIMIT_DATA)         \
    M(SET,         set,             "trainer", "server",   "bytes of a value",   TR_LIMIT_DATA)              \
    M(STEP_END,    step_end,        "trainer", "server",   "",                   0)                          \
    M(PULL,        pull,            "trainer", "server",   "u32 numbers of blocks (rounded.h)", TR_LIMIT_DATA)           \
    M(PULL_ROWS,   pull_rows,       "trainer", "server",   "i64 keys",           TR_LIMIT_DATA)              \
    M(EXPECT_ROWS, expect_rows,     "trainer", "server",   "i64 keys",           TR_LIMIT_DATA)              \
    M(READ_ROWS,   read_rows,       "trainer", "server",   "",                   0)                          \
    M(WRITE_ROWS,  write_rows,      "trainer, server", "server, replica", "packed rows (table.h)", TR_LIMIT_DATA) \
    M(SAVE_ROWS,   save_rows,       "trainer", "server",   "RowsFile",           TR_LIMIT_CONTROL)           \
    M(LOAD_ROWS,   load_rows,       "trainer", "server",   "RowsFile",           TR_LIMIT_CONTROL)           \
    M(ROWS_FILE,   rows_file,       "server",  "trainer",  "why not: a text",    TR_LIMIT_CONTROL)           \
    M(ACK,         ack,             "server",  "trainer",  "",                   0)                          \
    M(DATA,        data,            "server",  "trainer",  "a chunk of a parameter, in its type or rounded", TR_LIMIT_DATA)          \
    M(DATA_MANY,   data_many,       "server",  "trainer",  "entries: whole small parameters, in their type or rounded", TR_LIMIT_DATA) \
    M(DATA_ROWS,   data_rows,       "server",  "trainer",  "rows in the table's type, rounded, or packed", TR_LIMIT_DATA) \
    E(REFUSED,                      "server",  "trainer",  "Refusal",            TR_LIMIT_CONTROL)           \
    E(REPLACED,                     "server",  "trainer",  "Refusal",            TR_LIMIT_CONTROL)           \
    E(SERVING,                      "server",  "any",      "Serving",            TR_LIMIT_CONTROL)           \
    E(SERVING_ASK,                  "any",     "server",   "",                   0)                          \
    M(SNAPSHOT,    snapshot,        "trainer", "server",   "Snapshot, or nothing when the answer is asked for again", TR_LIMIT_CONTROL) \
    M(SNAPSHOT_DONE, snapshot_number, "server", "trainer", "SnapshotDone",            TR_LIMIT_CONTROL)           \
    M(DRAIN,       leave,           "trainer", "server",   "Snapshot, or nothing",    TR_LIMIT_CONTROL)           \
    M(GOODBYE,     leave,           "trainer", "server",   "Snapshot, or nothing",    TR_LIMIT_CONTROL)           \
    M(TASKS,       tasks,           "trainer", "server",   "",                   0)                          \
    M(TASK_ASK,    task_ask,        "trainer", "server",   "",                   0)                          \
    M(TASK_END,    task_end,        "trainer", "server",   "",                   0)                          \
    M(SETTLED,     settled,         "trainer", "server",   "",                   0)                          \
    M(TASK,        task,            "server",  "trainer",  "",                   0)                          \
    M(POST,        post,            "trainer", "server",   "Post",               TR_LIMIT_DATA)              \
    M(POSTED,      posted,          "server",  "trainer",  "entries: trainers, each with its u64 step and its data", TR_LIMIT_DATA) \
    M(SHARE,       share,           "server",  "server",   "a server's share of a sum", TR_LIMIT_SHARE)      \
    M(READY,       ready,           "server",  "server",   "",                   0)                          \
    M(SNAPSHOT_NEWS, snapshot_news, "server",  "server",   "",                   0)                          \
    E(DECISION,                     "server",  "server",   "Decision",            TR_LIMIT_CONTROL)           \
    E(REPLICA_STATE,                "replica", "server",   "Replica",            TR_LIMIT_CONTROL)           \
    E(REPLICA_ACK,                  "replica", "server",   "",                   0)                          \
    M(COPY_STATE,  copy,            "server",  "replica",  "Setup",              TR_LIMIT_CONTROL)           \
    M(COPY_KEEP,   copy,            "server",  "replica",  "Update",             TR_LIMIT_CONTROL)           \
    M(COPY_LIVE,   copy_generation, "server",  "replica",  "",                   0)                          \
    M(REPLICA_PUSH, replica_block,  "server",  "replica",  "a chunk of an array", TR_LIMIT_DATA)             \
    M(REPLICA_SET, replica_set,     "server",  "replica",  "bytes of a value",   TR_LIMIT_DATA)              \
    M(REPLICA_ROWS, replica_rows,   "server",  "replica",  "i64 keys, then f32 rows", TR_LIMIT_DATA)         \
    M(REPLICA_UPDATE, replica_update, "server", "replica", "Update",             TR_LIMIT_CONTROL)           \
    M(REPLICA_COMMIT, replica_update, "server", "replica", "Update",             TR_LIMIT_CONTROL)           \
    M(REPLICA_SHARES, replica_update, "server", "replica", "the shares of all servers", TR_LIMIT_CONTROL)    \
    M(REPLICA_TASKS, replica_update, "server", "replica",  "state of leased tasks (tasks.h)", TR_LIMIT_CONTROL) \
    M(REPLICA_POST, replica_update, "server", "replica",   "Post",               TR_LIMIT_CONTROL)           \
    M(REPLICA_CALL, server,          "server",  "standby",  "",                   0)                          \
    M(REPLICA_DONE, server,          "replica", "any",      "",                   0)                          \
    M(REPLACE_CALL, replace_call,   "server",  "standby",  "",                   0)                          \
    M(REPLACE_DONE, replace_done,   "trainer", "any",      "",                   0)                          \
    M(MEMBER,      member,          "server",  "server",   "",                   0)                          \
    M(BUNDLE,      bundle,          "any",     "any",      "messages: each with its header (bundle.h)", TR_LIMIT_BUNDLE)
