/* job_board.c - a trainer's calls about posts: checked and packed here, carried out by the driver. */
#include "pserver/api/job_board.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_view.h"
#include "pserver/core/board/board.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_options.h"
#include "storage/util/little_endian.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)TR_JOB_POST_LIMIT == (int)TR_BOARD_POST, "posts of this size are taken");
_Static_assert((int)TR_JOB_NOW == (int)TR_UNTIL_NOW && (int)TR_JOB_ALL == (int)TR_UNTIL_ALL && (int)TR_JOB_ONE == (int)TR_UNTIL_ONE,
               "the wire says the same");

enum { TEXT_LIMIT = 4096 };

struct tr__board_call {
    tr_client_post post;
    tr_ticket      ticket;
    int           *trainer;           /* the answer, unpacked */
    int64_t       *step;
    const void   **data;
    int64_t       *bytes;
};

static void drop_answer(struct tr__board_call *call)
{
    free(call->post.answer);
    free(call->trainer);
    free(call->step);
    free(call->data);
    free(call->bytes);
    *call = (struct tr__board_call){.ticket = call->ticket};
}

void tr__job_board_free(tr_job *job)
{
    if (job->call)
        drop_answer(job->call);
    free(job->call);
}

static bool is_short(const char *text)
{
    return !text || strlen(text) <= TEXT_LIMIT;
}

static tr_status check(const tr_job *job, const tr_job_post *post)
{
    TR_TRY(tr__job_check_trainer(job, "tr_job_post_begin"));
    TR_TRY(tr_comm_status(job->rank.comm));      /* in a job that has failed no answer comes */
    if (job->blocks.pushed || job->tables.pushed)
        return tr_fail(TR_EINVAL, "tr_job_post_begin: in the middle of step %lld: end it first", (long long)job->step + 1);
    if (job->call && !tr_job_is_done(job, job->call->ticket))
        return tr_fail(TR_EEXIST, "tr_job_post_begin: the answer to the one before has not come: wait for it first");
    if (post->number < 0 || (post->number == 0 && !post->name) || !is_short(post->name) || !is_short(post->call) || !is_short(post->line))
        return tr_fail(TR_EINVAL, "tr_job_post_begin: a post has a number, or a name of up to %d bytes", (int)TEXT_LIMIT);
    if (post->step < 0)
        return tr_fail(TR_ERANGE, "tr_job_post_begin: after step %lld", (long long)post->step);
    if (post->stops < 0 || (post->stops && post->number))
        return tr_fail(TR_EINVAL, "tr_job_post_begin: stops %d; a notice asks a training to end by its number, 1, 2, ...", post->stops);
    if (post->bytes < 0 || post->bytes > TR_JOB_POST_LIMIT)
        return tr_fail(TR_ERANGE, "tr_job_post_begin: %lld bytes; a trainer posts up to %d", (long long)post->bytes,
                       (int)TR_JOB_POST_LIMIT);
    if (post->until < TR_JOB_NOW || post->until > TR_JOB_ONE ||
        (post->until == TR_JOB_ONE && (post->of < 0 || post->of >= tr_job_trainers(job))))
        return tr_fail(TR_ERANGE, "tr_job_post_begin: until %d of trainer %d; there are %d trainers", (int)post->until, post->of,
                       tr_job_trainers(job));
    return TR_OK;
}

static uint8_t *pack(const tr_job *job, const tr_job_post *post, size_t *size)
{
    tr_post packed = TRIREME__PSERVER__POST__INIT;

    packed.number = (uint64_t)post->number;
    packed.name = (char *)(uintptr_t)post->name;
    packed.trainer = (uint32_t)tr_job_index(job);
    packed.call = (char *)(uintptr_t)post->call;
    packed.line = (char *)(uintptr_t)post->line;
    packed.has_data = post->data != NULL;
    packed.has_stops = post->stops > 0;
    packed.stops = (uint32_t)post->stops;
    packed.has_step = post->step > 0;
    packed.step = (uint64_t)post->step;
    packed.data = (ProtobufCBinaryData){(size_t)post->bytes, (uint8_t *)(uintptr_t)post->data};
    return tr_board_pack(&packed, size);
}

int tr_job_stops(const tr_job *job)
{
    return (int)atomic_load_explicit(&job->rank.stops, memory_order_relaxed);
}

tr_status tr_job_post_begin(tr_job *job, const tr_job_post *post)
{
    size_t size;

    TR_TRY(check(job, post));
    if (job->policy.decides)                       /* others take the parameters after this post, as of the steps before it: these are to
                                                    * count by then */
        TR_TRY(tr__job_settle(job));
    TR_TRY(tr_job_wait(job, 1));                   /* ticket 1 is done when it is known whether the servers go on from an earlier
                                                    * start: then they have its posts */
    if (!job->call)
        job->call = tr__must_alloc(sizeof *job->call);
    drop_answer(job->call);
    uint8_t *packed = pack(job, post, &size);
    job->call->post = (tr_client_post){.packed = packed, .size = size, .until = (tr_wire_until)post->until, .of = (uint32_t)post->of};
    const tr_status status = tr__job_call(job, &(tr__command){.head = {TR__POST, .is_urgent = true}, .post = &job->call->post},
                                          &job->call->ticket);
    if (status != TR_OK)
        free(packed);
    return status;
}

/* The entries were checked when the answer came (client_board.c). */
static tr_status open_answer(struct tr__board_call *call)
{
    tr_wire_entries entries;
    const uint8_t  *data;
    uint32_t        trainer;
    uint64_t        bytes;

    TR_TRY(tr_wire_entries_open(&entries, call->post.answer, call->post.answer_size, call->post.count));
    call->trainer = tr__must_alloc(call->post.count * sizeof *call->trainer);
    call->step = tr__must_alloc(call->post.count * sizeof *call->step);
    call->data = tr__must_alloc(call->post.count * sizeof *call->data);
    call->bytes = tr__must_alloc(call->post.count * sizeof *call->bytes);
    for (uint32_t i = 0; tr_wire_entries_next(&entries, &trainer, &data, &bytes); i++) {
        call->trainer[i] = (int)trainer;
        call->step[i] = (int64_t)tr_get_u64(data);
        call->data[i] = data + TR_BOARD_STEP;
        call->bytes[i] = (int64_t)bytes - TR_BOARD_STEP;
    }
    return TR_OK;
}

tr_status tr_job_post_wait(tr_job *job, double seconds, tr_job_posted *out)
{
    struct tr__board_call *call = job->call;

    TR_TRY(tr__job_check_trainer(job, "tr_job_post_wait"));
    if (!call)
        return tr_fail(TR_EINVAL, "tr_job_post_wait: tr_job_post_begin comes first");
    TR_TRY(tr_comm_wait(NULL, job->rank.comm, call->ticket, tr__seconds(seconds)));
    if (!call->trainer)
        TR_TRY(open_answer(call));
    *out = (tr_job_posted){.count = (int)call->post.count, .trainer = call->trainer, .step = call->step, .data = call->data,
                           .bytes = call->bytes, .is_forgotten = call->post.is_forgotten, .is_awaited = call->post.is_awaited,
                           .is_lost = call->post.is_lost};
    return TR_OK;
}
