/* server_restore.c - see server_restore.h. */
#include "pserver/core/members/server_restore.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* The last RESTORE of a trainer. */
typedef struct question {
    uint64_t seq;
    uint32_t incarnation;
    uint64_t number;                  /* of the checkpoint */
    char    *path;                    /* NULL: the trainer has asked nothing */
    bool     waits;
} question;

/* What became of a checkpoint. */
typedef struct verdict {
    uint64_t  number;
    tr_status status;
    char     *text;
} verdict;

struct tr__restore {
    question *question;               /* of each trainer */
    verdict  *verdict;                /* of each checkpoint that was read: seldom more than one */
    int       count;
    bool      is_reading;
    uint64_t  reading;                /* the number of the checkpoint that the store reads now */
};

void tr__restore_new(tr_server *server)
{
    server->restore = tr__must_alloc(sizeof *server->restore);
    server->restore->question = tr__must_array((size_t)server->trainer_count, sizeof(question));
}

void tr__restore_free(tr_server *server)
{
    tr__restore *r = server->restore;

    for (int i = 0; i < server->trainer_count; i++)
        free(r->question[i].path);
    for (int i = 0; i < r->count; i++)
        free(r->verdict[i].text);
    free(r->question);
    free(r->verdict);
    free(r);
}

bool tr__restore_is_reading(const tr_server *server)
{
    return server->restore->is_reading;
}

static const verdict *find_verdict(const tr__restore *r, uint64_t number)
{
    for (int i = 0; i < r->count; i++)
        if (r->verdict[i].number == number)
            return &r->verdict[i];
    return NULL;
}

static void add_verdict(tr_server *server, uint64_t number, tr_status status)
{
    tr__restore *r = server->restore;

    r->verdict = tr__must_realloc(r->verdict, ((size_t)r->count + 1) * sizeof *r->verdict);
    r->verdict[r->count++] = (verdict){number, status, status == TR_OK ? NULL : tr__must_strdup(tr_error())};
}

static void answer(tr_server *server, int trainer)
{
    question      *q = &server->restore->question[trainer];
    const verdict *v = find_verdict(server->restore, q->number);
    const size_t   bytes = v->text ? strlen(v->text) : 0;

    q->waits = false;
    tr__server_send(server, server->trainer[trainer].rank,
                    (tr_wire){.kind = TR_WIRE_RESTORED,
                              .incarnation = q->incarnation,
                              .seq = q->seq,
                              .bytes = bytes,
                              .restored = {.status = (uint32_t)v->status}},
                    bytes ? memcpy(tr__must_bytes(bytes), v->text, bytes) : NULL);
}

/* Let the store read the checkpoint. A later one drops the earlier: trainers ask for another only when this one is damaged somewhere. */
static void begin(tr_server *server, const question *q)
{
    if (!server->store.restore) {
        add_verdict(server, q->number, tr_fail(TR_EUNSUPPORTED, "this server reads no checkpoints"));
        return;
    }
    server->restore->is_reading = true;
    server->restore->reading = q->number;
    server->store.restore(server->store.worker, q->path, q->number);
}

static void look(tr_server *server)
{
    tr__restore *r = server->restore;

    for (int i = 0; i < server->trainer_count; i++) {
        question *q = &r->question[i];
        if (!q->waits || q->incarnation != server->trainer[i].incarnation)
            continue;
        if (!find_verdict(r, q->number) && !r->is_reading)
            begin(server, q);
        if (find_verdict(r, q->number))
            answer(server, i);
    }
}

void tr__restore_read(tr_server *server, tr_status status)
{
    server->restore->is_reading = false;
    add_verdict(server, server->restore->reading, status);
    look(server);
}

static tr_status on_restore(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    question *q = &server->restore->question[trainer->index];

    (void)is_owned;
    if (server->setup && !find_verdict(server->restore, wire->restore.number))     /* trainer 0 may be ahead of others */
        return tr_fail(TR_EPEER, "%s asks for another checkpoint than trainer 0", tr__server_trainer_name(server, trainer));
    if (!wire->bytes || memchr(payload, '\0', wire->bytes))
        return tr_fail(TR_EFORMAT, "%s asks for a checkpoint with a damaged path", tr__server_trainer_name(server, trainer));
    free(q->path);
    *q = (question){.seq = wire->seq,
                    .incarnation = trainer->incarnation,
                    .number = wire->restore.number,
                    .path = tr__must_format("%.*s", (int)wire->bytes, (const char *)payload),
                    .waits = true};
    look(server);
    return TR_OK;
}

static void on_restore_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const question *q = &server->restore->question[trainer->index];

    (void)payload;
    if (q->path && q->seq == wire->seq && q->incarnation == trainer->incarnation && !q->waits)
        answer(server, trainer->index);
}

const tr__handler tr__restore_handlers[] = {{TR_WIRE_RESTORE, on_restore, on_restore_again}, {0}};
