/* server_board.c - see server_board.h. */
#include "pserver/core/snapshots/server_board.h"

#include "framework/base/memory.h"
#include "pserver/core/board/board.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/updates/server_streams.h"
#include "storage/util/little_endian.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last POST of a trainer that waits for an answer. */
typedef struct question {
    uint64_t      seq;
    uint32_t      incarnation;
    tr_wire_until until;
    uint32_t      of;
    uint64_t      number;
    char         *name, *call;        /* the name of the notice; the script's call and its line */
    uint64_t      step;               /* steps that the trainer had ended */
    bool          has_joined;
    bool          waits, is_put_off;  /* put off: the trainer is to make a step, and to ask again */
} question;

struct tr__board {
    tr_board *board;
    question *question;               /* of each trainer: its waiting POST */
};

static tr__trainer *trainer_at(const tr_server *server, int index)
{
    return &server->trainer[index];
}

static question *question_of(const tr_server *server, const tr__trainer *trainer)
{
    return &server->board->question[trainer->index];
}

static const char *called(const tr_post *post)
{
    return post->call && post->call[0] ? post->call : "a collective";
}

/* Print the call of a post: "all_gather() at train.py:41", or without the place if the post has none. */
static void print_call(char *out, size_t size, const tr_post *post)
{
    const bool has_line = post->line && post->line[0];
    snprintf(out, size, "%s%s%s", called(post), has_line ? " at " : "", has_line ? post->line : "");
}

/* == posts ======================================================================================== */

static void open_board(tr_server *server, bool resumes)
{
    if (server->board)
        return;
    server->board = tr__must_alloc(sizeof *server->board);
    server->board->board = tr_board_new(&server->store, server->trainer_count, resumes);
    server->board->question = tr__must_alloc((size_t)server->trainer_count * sizeof(question));
}

void tr__board_take_over(tr_server *server)
{
    if (server->self == 0 && server->store.board)
        open_board(server, true);
}

uint32_t tr__board_stops(const tr_server *server)
{
    return server->board ? tr_board_stops(server->board->board) : 0;
}

static tr_status put(tr_server *server, uint8_t *packed, size_t size)
{
    bool            is_new = false;
    const uint32_t  stops = tr__board_stops(server);
    const tr_status status = tr_board_put(&is_new, server->board->board, packed, size);

    if (tr__board_stops(server) != stops)
        tr__streams_owe_all(server);               /* acknowledgements contain the new value */
    if (is_new)
        tr__replication_post(server, packed, size);
    else
        free(packed);
    return status;
}

/* All posts of a collective must be of the same call. */
static tr_status check_call(const tr_server *server, const tr__trainer *trainer, const tr_post *post)
{
    const tr_board      *board = server->board->board;
    const tr_board_item *item = tr_board_find(board, post->number, post->name);
    const tr_post       *first = tr_board_first(board, item);
    char                 theirs[512], mine[512], name[320];

    if (!post->number || !first || item->is_complete || item->post[post->trainer] || !strcmp(called(first), called(post)))
        return TR_OK;
    print_call(theirs, sizeof theirs, first);
    print_call(mine, sizeof mine, post);
    snprintf(name, sizeof name, "%s", tr__server_trainer_name(server, trainer_at(server, (int)first->trainer)));
    return tr_fail(TR_EPEER, "collective %llu: %s calls %s, %s calls %s: all trainers are to make the same calls in the same order",
                   (unsigned long long)post->number, name, theirs, tr__server_trainer_name(server, trainer), mine);
}

static tr_status check_post(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const tr_post *post)
{
    if (!post || post->trainer != (uint32_t)trainer->index || post->has_is_complete ||
        (wire->post.until == TR_UNTIL_ONE && wire->post.trainer >= (uint32_t)server->trainer_count))
        return tr_fail(TR_EFORMAT, "%s sent a damaged post", tr__server_trainer_name(server, trainer));
    if (server->self != 0)
        return tr_fail(TR_EPEER, "%s: server 0 alone has the board", tr__server_trainer_name(server, trainer));
    return TR_OK;
}

/* == answers ====================================================================================== */

static bool takes_part(const tr__trainer *trainer)
{
    return !tr_membership_is_over(trainer->state);
}

static bool is_whole(const tr_server *server, const tr_board_item *item)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (takes_part(trainer_at(server, i)) && !(item && item->post[i]))
            return false;
    return true;
}

static tr_status complete(tr_server *server, const question *q)
{
    size_t   size;
    uint8_t *packed = tr_board_pack_complete(q->number, q->name, &size);

    return put(server, packed, size);
}

/* Can the question be answered now? */
static bool is_due(tr_server *server, const question *q)
{
    const tr_board_item *item = tr_board_find(server->board->board, q->number, q->name);

    switch (q->until) {
    case TR_UNTIL_ONE:
        return (item && item->post[q->of]) || !takes_part(trainer_at(server, (int)q->of));
    case TR_UNTIL_ALL:
        if (item && item->is_complete)
            return true;
        if (tr_board_has_forgotten(server->board->board, q->number))
            return true;
        return is_whole(server, item) && complete(server, q) == TR_OK;
    default:
        return true;
    }
}

static uint8_t *pack_answer(const tr_server *server, const tr_board_item *item, uint32_t *count, uint64_t *bytes)
{
    *count = 0;
    *bytes = 0;
    for (int i = 0; item && i < server->trainer_count; i++)
        if (item->post[i]) {
            ++*count;
            *bytes += tr_wire_entry_size(TR_BOARD_STEP + item->post[i]->data.len);
        }
    uint8_t *payload = tr__must_alloc(*bytes);
    uint64_t cursor = (uint64_t)*count * TR_WIRE_ENTRY;
    uint32_t entry = 0;
    for (int i = 0; item && i < server->trainer_count; i++)
        if (item->post[i]) {
            const ProtobufCBinaryData data = item->post[i]->data;
            uint8_t *to = tr_wire_entry_put(payload, entry++, &cursor, (uint32_t)i, TR_BOARD_STEP + data.len);
            tr_put_u64(to, item->post[i]->step);
            if (data.len)
                memcpy(to + TR_BOARD_STEP, data.data, data.len);
        }
    return payload;
}

static void answer(tr_server *server, const tr__trainer *trainer, const question *q)
{
    const tr_board_item *item = q->is_put_off ? NULL : tr_board_find(server->board->board, q->number, q->name);
    const bool           is_forgotten = !q->is_put_off && !item && tr_board_has_forgotten(server->board->board, q->number);
    const bool           is_lost = !q->is_put_off && q->until == TR_UNTIL_ONE && !(item && item->post[q->of]) &&
                                   trainer_at(server, (int)q->of)->state == TR_MEMBER_LOST;
    uint32_t             count;
    uint64_t             bytes;
    uint8_t             *payload = pack_answer(server, item, &count, &bytes);

    tr__server_send(server, trainer->rank,
                    (tr_wire){.kind = TR_WIRE_POSTED,
                              .incarnation = q->incarnation,
                              .seq = q->seq,
                              .bytes = bytes,
                              .posted = {.count = count, .is_awaited = q->is_put_off, .is_forgotten = is_forgotten, .is_lost = is_lost}},
                    payload);
}

void tr__board_answer(tr_server *server)
{
    for (int i = 0; server->board && server->status == TR_OK && i < server->trainer_count; i++) {
        const tr__trainer *t = trainer_at(server, i);
        question          *q = question_of(server, t);
        if (!q->waits || q->incarnation != t->incarnation || !is_due(server, q))
            continue;
        q->waits = false;
        answer(server, t, q);
    }
}

static const question *waiting_question(const tr_server *server, const tr__trainer *trainer)
{
    const question *q = server->board ? question_of(server, trainer) : NULL;
    return q && q->waits && q->incarnation == trainer->incarnation ? q : NULL;
}

bool tr__board_awaits_posts(const tr_server *server, const tr__trainer *trainer)
{
    return waiting_question(server, trainer);
}

bool tr__board_awaits_post_of(const tr_server *server, const tr__trainer *trainer, const tr__trainer *of)
{
    const question *q = waiting_question(server, trainer);

    if (!q || trainer == of || !takes_part(of) || q->until == TR_UNTIL_NOW || (q->until == TR_UNTIL_ONE && (int)q->of != of->index))
        return false;
    const tr_board_item *item = tr_board_find(server->board->board, q->number, q->name);
    return !(item && item->post[of->index]);
}

bool tr__board_is_before(const tr_server *server, const tr__trainer *trainer, uint64_t step)
{
    const question *q = waiting_question(server, trainer);
    return q && q->has_joined && q->step < step;
}

bool tr__board_is_before_join(const tr_server *server, const tr__trainer *trainer)
{
    const question *q = waiting_question(server, trainer);
    return q && !q->has_joined;
}

const char *tr__board_call(const tr_server *server, const tr__trainer *trainer)
{
    return waiting_question(server, trainer)->call;
}

void tr__board_put_off(tr_server *server, const tr__trainer *trainer)
{
    question *q = question_of(server, trainer);

    q->waits = false;
    q->is_put_off = true;
    answer(server, trainer, q);
}

/* == messages ===================================================================================== */

static void ask(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const tr_post *post)
{
    question *q = question_of(server, trainer);
    char      call[512];

    print_call(call, sizeof call, post);
    free(q->name);
    free(q->call);
    *q = (question){.seq = wire->seq, .incarnation = trainer->incarnation, .until = (tr_wire_until)wire->post.until,
                    .of = wire->post.trainer, .number = post->number, .name = tr__must_strdup(post->name ? post->name : ""),
                    .call = tr__must_strdup(call), .step = wire->post.step, .has_joined = wire->post.has_joined, .waits = true};
}

void tr__board_look(tr_server *server)
{
    if (server->board)
        tr__server_due(server, TR__RULE_BOARD);
}

static tr_status on_post(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    tr_post  *post = trireme__pserver__post__unpack(NULL, wire->bytes, payload);
    tr_status status = check_post(server, trainer, wire, post);

    if (status == TR_OK) {
        open_board(server, server->is_running || wire->post.resumes);
        status = check_call(server, trainer, post);
    }
    if (status == TR_OK && post->has_data)
        status = put(server, memcpy(tr__must_alloc(wire->bytes), payload, wire->bytes), wire->bytes);
    if (status == TR_OK) {
        ask(server, trainer, wire, post);
        tr__server_due(server, TR__RULE_BOARD);
        tr__server_due(server, TR__RULE_DECIDE);   /* the next update may not need to wait for this trainer now */
    }
    if (post)
        trireme__pserver__post__free_unpacked(post, NULL);
    return status;
}

static void on_post_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    (void)payload;
    const question *q = server->board ? question_of(server, trainer) : NULL;

    if (q && q->seq == wire->seq && q->incarnation == trainer->incarnation && !q->waits)
        answer(server, trainer, q);
}

const tr__handler tr__board_handlers[] = {{TR_WIRE_POST, on_post, on_post_again}, {0}};

static void replicate_post(void *self, uint8_t *packed, size_t size)
{
    tr__replication_post(self, packed, size);
}

void tr__board_replicate(tr_server *server)
{
    if (server->is_running)
        tr__board_take_over(server);        /* read the stored posts first, because the replica needs them, too */
    if (server->board)
        tr_board_each(server->board->board, replicate_post, server);
}

/* == in words ===================================================================================== */

static const question *first_waiting(const tr_server *server)
{
    for (int i = 0; server->board && i < server->trainer_count; i++) {
        const question *q = &server->board->question[i];
        if (q->waits && q->until == TR_UNTIL_ALL && q->incarnation == trainer_at(server, i)->incarnation)
            return q;
    }
    return NULL;
}

bool tr__board_describe(const tr_server *server, char *out, size_t size)
{
    const question *q = first_waiting(server);
    char            call[512];

    if (!q)
        return false;
    const tr_board_item *item = tr_board_find(server->board->board, q->number, q->name);
    const tr_post       *first = tr_board_first(server->board->board, item);
    if (!first)
        return false;
    print_call(call, sizeof call, first);
    size_t used = (size_t)snprintf(out, size, "%s of", call);
    for (int i = 0; i < server->trainer_count && used < size; i++)
        if (takes_part(trainer_at(server, i)) && !item->post[i])
            used += (size_t)snprintf(out + used, size - used, "%s trainer %d", used && out[used - 1] != 'f' ? "," : "", i);
    return true;
}

void tr__board_free(tr_server *server)
{
    if (!server->board)
        return;
    for (int i = 0; i < server->trainer_count; i++) {
        free(server->board->question[i].name);
        free(server->board->question[i].call);
    }
    free(server->board->question);
    tr_board_free(server->board->board);
    free(server->board);
}
