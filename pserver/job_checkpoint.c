/* job_checkpoint.c - see job_checkpoint.h. */
#include "pserver/job_checkpoint.h"

#include "framework/memory.h"
#include "pserver/mode.h"
#include "pserver/places.h"
#include "pserver/runlog.h"
#include "pserver/snapshot.h"
#include "pserver/wake.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef Trireme__Pserver__Place pb_place;

/* What the trainer that makes checkpoints was asked for. */
typedef struct order {
    char    *dir, *folder, *file;     /* DIR, DIR/step-..., the own part's name or NULL */
    char    *digest;
    int64_t  step, begun;
    uint64_t cut;
    int      keep;
    bool     without_tables;
} order;

/* Where a trainer is behind a step of the job. */
typedef struct spot {
    bool             is_known;
    int64_t          step;
    tr_trainer_state state;
} spot;

struct tr__saving {
    tr_job      *job;
    tr_snapshot *snapshot;
    pthread_t    thread;
    bool         has_thread;
    atomic_bool  has_ended;           /* the thread, or nearly */
    atomic_uint  bell;                /* of who waits for the thread, and of the thread */

    /* servers */
    atomic_bool  is_expected, is_wanted;
    size_t       expected_bytes;
    bool         is_writing, without_tables;
    char        *folder, *file;       /* of what is wanted */
    tr_part     *part;                /* what the thread has made, or */
    char        *error;

    /* who makes checkpoints */
    atomic_bool  is_maker, is_over, has_more;      /* that it is this trainer; that the last one is made; see tr_job_last */
    order        order;
    atomic_bool  is_asked, is_answered;    /* by the servers, of this cut and not of the one before */
    bool         has_report;
    tr_status    status;
    char         text[2048];
    tr_job_checkpoint_report report;
    bool         is_given_up;         /* the last one, for the sake of a death */

    /* trainers: where this one is behind its last step, whose end may be on its way yet, and behind the one that is being made */
    pthread_mutex_t  place_lock;
    spot             place[2];
};

static void free_order(order *o)
{
    free(o->dir);
    free(o->folder);
    free(o->file);
    free(o->digest);
    *o = (order){0};
}

/* == packing ==================================================================================== */

static uint8_t *pack_cut(size_t *size, const tr_trainer_state *place, Trireme__Pserver__Wish *wish)
{
    Trireme__Pserver__Cut cut = TRIREME__PSERVER__CUT__INIT;
    pb_place              p = TRIREME__PSERVER__PLACE__INIT;

    p.index = (uint32_t)place->index;
    p.steps = (uint64_t)place->steps;
    p.runs = (uint64_t)place->runs;
    p.has_position = place->position != NULL;
    p.position.data = (uint8_t *)(uintptr_t)place->position;
    p.position.len = place->position_size;
    cut.place = &p;
    cut.wish = wish;
    *size = trireme__pserver__cut__get_packed_size(&cut);
    uint8_t *bytes = tr__must_alloc(*size + 1);
    trireme__pserver__cut__pack(&cut, bytes);
    return bytes;
}

/* Where the trainer is by its steps in this job; in mode geo the job knows of exchanges. */
static tr_trainer_state place_at(const tr__saving *s, int64_t step)
{
    const tr_job *job = s->job;
    tr_mode       mode;

    if (tr_mode_parse(&mode, job->mode) == TR_OK && mode.kind == TR_MODE_GEO)
        step *= mode.count;
    return (tr_trainer_state){.steps = job->first_step + step, .runs = job->first_run + step};
}

/* For a trainer that cuts because others do, behind this step. */
static uint8_t *pack_place(void *self, size_t *size, uint64_t step)
{
    tr__saving *s = self;

    pthread_mutex_lock(&s->place_lock);
    const spot      *place = &s->place[step % 2];
    tr_trainer_state state = place->is_known && place->step == (int64_t)step ? place->state : place_at(s, (int64_t)step);
    state.index = tr_job_index(s->job);
    uint8_t *bytes = pack_cut(size, &state, NULL);
    pthread_mutex_unlock(&s->place_lock);
    return bytes;
}

/* == life ======================================================================================= */

tr__saving *tr__saving_new(tr_job *job)
{
    tr__saving *s = tr__must_alloc(sizeof *s);

    s->job = job;
    s->snapshot = tr_snapshot_new();
    pthread_mutex_init(&s->place_lock, NULL);
    return s;
}

static void join(tr__saving *s)
{
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    s->has_thread = false;
}

static tr_status start(tr__saving *s, void *(*run)(void *))
{
    atomic_store(&s->has_ended, false);
    if (pthread_create(&s->thread, NULL, run, s))
        return tr_fail(TR_ENOMEM, "cannot start a thread to write a checkpoint");
    s->has_thread = true;
    return TR_OK;
}

void tr__saving_end(tr__saving *s)
{
    join(s);
}

void tr__saving_free(tr__saving *s)
{
    if (!s)
        return;
    tr_snapshot_free(s->snapshot);
    tr_part_free(s->part);
    free_order(&s->order);
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)s->place[i].state.position);
    free(s->folder);
    free(s->file);
    free(s->error);
    pthread_mutex_destroy(&s->place_lock);
    free(s);
}

/* == a server ==================================================================================== */

typedef struct written {
    uint8_t *part;
    size_t   size;
    char    *error;
} written;

void tr__saving_expect(tr__saving *s)
{
    tr_state *states = tr__must_alloc(tr_server_program_state_room(s->job->program) * sizeof *states + 1);

    signal(SIGTERM, SIG_IGN);
    s->expected_bytes = tr_snapshot_bytes(tr_server_program_states(s->job->program, states), states);
    free(states);
    atomic_store(&s->is_expected, true);
    tr__bell_ring(&s->job->bell);
}

void tr__saving_begin(tr__saving *s, const Trireme__Pserver__Wish *wish)
{
    free(s->folder);
    free(s->file);
    s->folder = tr__must_strdup(wish->folder);
    s->file = tr__must_strdup(wish->file);
    s->without_tables = wish->without_tables;
    atomic_store(&s->is_wanted, true);
    tr__bell_ring(&s->job->bell);
}

bool tr__saving_is_due(const tr__saving *s)
{
    return atomic_load(&s->is_wanted) || atomic_load(&s->is_expected) || (s->is_writing && atomic_load(&s->has_ended));
}

static void end_thread(tr__saving *s)
{
    atomic_store(&s->has_ended, true);
    tr__bell_ring(&s->bell);
    tr__bell_ring(&s->job->bell);
}

static void *run_reserve(void *self)
{
    tr__saving *s = self;

    tr_snapshot_reserve(s->snapshot, s->expected_bytes);      /* if it fails, so does the snapshot */
    end_thread(s);
    return NULL;
}

static void *run_write(void *self)
{
    tr__saving *s = self;

    if (tr_snapshot_write(&s->part, s->snapshot, s->folder, s->file) != TR_OK)
        s->error = tr__must_strdup(tr_error());
    end_thread(s);
    return NULL;
}

static tr_status take(tr__saving *s)
{
    tr_state *states = tr__must_alloc(tr_server_program_state_room(s->job->program) * sizeof *states + 1);
    int       count = tr_server_program_states(s->job->program, states);

    while (s->without_tables && count && states[count - 1].kind == TR_STATE_TABLE)
        count--;                                   /* they come last */
    const tr_status status = tr_snapshot_take(s->snapshot, count, states);
    free(states);
    return status;
}

static tr_status tell_written(tr__saving *s)
{
    written *w = tr__must_alloc(sizeof *w);

    if (s->part)
        w->part = tr_part_pack(&w->size, s->part);
    w->error = s->error;
    s->error = NULL;
    tr_part_free(s->part);
    s->part = NULL;
    return tr_comm_post(s->job->comm, &(tr_command){.kind = TR__WRITTEN, .data = w, .is_urgent = true});
}

static tr_status copy_and_write(tr__saving *s)
{
    join(s);                                       /* it made memory ready */
    const tr_status taken = take(s);
    if (taken != TR_OK)
        s->error = tr__must_strdup(tr_error());
    TR_TRY(tr_comm_post(s->job->comm, &(tr_command){.kind = TR__SNAPPED, .is_urgent = true}));
    if (taken == TR_OK && start(s, run_write) == TR_OK) {
        s->is_writing = true;
        return TR_OK;
    }
    tr_snapshot_end(s->snapshot);
    if (!s->error)
        s->error = tr__must_strdup(tr_error());
    return tell_written(s);
}

tr_status tr__saving_serve(tr__saving *s)
{
    if (atomic_exchange(&s->is_expected, false))
        start(s, run_reserve);                     /* without it the first pause is longer */
    if (s->is_writing && atomic_load(&s->has_ended)) {
        join(s);
        tr_snapshot_end(s->snapshot);
        s->is_writing = false;
        TR_TRY(tell_written(s));
    }
    return atomic_exchange(&s->is_wanted, false) ? copy_and_write(s) : TR_OK;
}

void tr__saving_server_command(tr_job *job, const tr_command *command)
{
    written *w = command->data;

    if (command->kind == TR__SNAPPED) {
        tr_server_snapped(job->server, tr__clock());
        return;
    }
    tr_server_written(job->server, w->part, w->size, w->error);
    free(w->part);
    free(w->error);
    free(w);
}

/* == trainers: where they are =================================================================== */

static void keep_place(spot *to, int64_t step, const tr_trainer_state *state)
{
    void *position = realloc((void *)(uintptr_t)to->state.position, state->position_size + 1);

    memcpy(position, state->position_size ? state->position : "", state->position_size);
    *to = (spot){true, step, *state};
    to->state.position = position;
}

void tr__saving_first_place(tr__saving *s, const tr_trainer_state *place)
{
    pthread_mutex_lock(&s->place_lock);
    keep_place(&s->place[0], 0, place);
    pthread_mutex_unlock(&s->place_lock);
}

tr_status tr_job_set_place(tr_job *job, const tr_trainer_state *place)
{
    tr__saving   *s = job->saving;
    const int64_t step = job->step + 1;

    TR_TRY(tr__job_check_trainer(job, "tr_job_set_place"));
    pthread_mutex_lock(&s->place_lock);
    if (place)
        keep_place(&s->place[step % 2], step, place);
    else
        s->place[0].is_known = s->place[1].is_known = false;
    pthread_mutex_unlock(&s->place_lock);
    return TR_OK;
}

/* == who makes checkpoints: the manifest ======================================================== */

typedef struct parts {
    tr_part **item;
    int       count;
    Trireme__Pserver__CutDone **answer;
    int       answers;
} parts;

static tr_status hear_answer(parts *p, tr_job *job, int server)
{
    const tr_client_answer    *a = tr_client_cut_answer(job->client, server);
    Trireme__Pserver__CutDone *done = trireme__pserver__cut_done__unpack(NULL, a->size, a->bytes);

    if (!done)
        return tr_fail(TR_EFORMAT, "the answer of server %d about its part is damaged", server);
    p->answer[p->answers++] = done;
    return TR_OK;
}

/* What the server says of its part. */
static tr_status take_part(parts *p, int server)
{
    const Trireme__Pserver__CutDone *done = p->answer[server];

    if (!done->has_part)
        return tr_fail(TR_EIO, "server %d: %s", server, done->error ? done->error : "it wrote no part");
    tr_part *part = tr_part_parse(done->part.data, done->part.len);
    if (!part)
        return tr_fail(TR_EFORMAT, "the description of the part of server %d is damaged", server);
    p->item[p->count++] = part;
    return TR_OK;
}

static tr_status write_manifest(tr__saving *s, parts *p, const tr_places *places)
{
    const Trireme__Pserver__CutDone *first = p->answer[0];
    tr_trainer_state *trainers = tr__must_alloc((size_t)places->count * sizeof *trainers + 1);

    for (int i = 0; i < places->count; i++) {
        const pb_place *from = places->place[i];
        trainers[i] = (tr_trainer_state){(int)from->index, (int64_t)from->steps, (int64_t)from->runs,
                                         from->has_position ? from->position.data : NULL,
                                         from->has_position ? from->position.len : 0};
    }
    const tr_checkpoint_facts facts = {s->order.step, s->job->mode, s->order.digest, places->count, trainers,
                                       first->has_tasks ? first->tasks.data : NULL, first->tasks.len};
    const tr_status           status = tr_manifest_write(s->order.folder, &facts, s->order.cut, p->count, p->item);
    free(trainers);
    return status;
}

static tr_status write_manifest_of_answers(tr__saving *s, parts *p)
{
    const int trainers = tr_job_trainers(s->job);
    tr_places places;
    tr_mode   mode;

    TR_TRY(tr_mode_parse(&mode, s->job->mode));
    tr_status status = tr_places_merge(&places, trainers, tr_mode_cuts_by_all(&mode), p->answers, p->answer);
    s->is_given_up = status != TR_OK;
    status = status == TR_OK ? write_manifest(s, p, &places) : TR_EIO;       /* the job goes on */
    tr_places_deinit(&places);
    return status;
}

static tr_status wait_for_answers(tr__saving *s)
{
    for (;;) {
        const unsigned seen = atomic_load(&s->bell);
        if (atomic_load(&s->is_answered))
            return TR_OK;
        TR_TRY(tr_comm_status(s->job->comm));
        tr__bell_wait(&s->bell, seen, 50000000);
    }
}

/* The next cut begins when all servers have answered to this one: they are waited for even when the own part has failed. */
static tr_status put_together(tr__saving *s, parts *p)
{
    const int servers = tr_job_servers(s->job);

    s->is_given_up = false;
    const tr_status own = s->order.file ? tr_snapshot_write(&p->item[0], s->snapshot, s->order.folder, s->order.file) : TR_OK;
    TR_TRY(wait_for_answers(s));
    TR_TRY(own);
    p->count = s->order.file != NULL;
    for (int i = 0; i < servers; i++)
        TR_TRY(hear_answer(p, s->job, i));
    s->is_given_up = tr_places_are_given_up(servers, p->answer);
    for (int i = 0; i < servers; i++)
        TR_TRY(take_part(p, i));
    TR_TRY(write_manifest_of_answers(s, p));
    if (s->order.keep > 0)
        tr_checkpoint_prune(s->order.dir, s->order.keep);
    return TR_OK;
}

static void make_report(tr__saving *s, const parts *p)
{
    s->report = (tr_job_checkpoint_report){.step = s->order.step, .is_given_up = s->is_given_up, .seconds = (double)(tr__clock() - s->order.begun) / 1e9};
    for (int i = 0; i < p->count; i++)
        s->report.bytes += (int64_t)p->item[i]->bytes;
    for (int i = 0; i < p->answers; i++)
        if ((double)p->answer[i]->pause / 1e9 > s->report.pause)
            s->report.pause = (double)p->answer[i]->pause / 1e9;
}

static void *run_order(void *self)
{
    tr__saving *s = self;
    const int   servers = tr_job_servers(s->job);
    parts       p = {.item = tr__must_alloc((size_t)(servers + 1) * sizeof *p.item),
                     .answer = tr__must_alloc((size_t)servers * sizeof *p.answer)};

    s->status = put_together(s, &p);
    if (s->status != TR_OK) {
        tr_context(s->status, "while writing the checkpoint '%s'", s->order.folder);
        snprintf(s->text, sizeof s->text, "%s", tr_error());
    }
    make_report(s, &p);
    tr_runlog_note("checkpoint", ",\"step\":%lld,\"written_bytes\":%lld,\"took_ms\":%.3f,\"pause_ms\":%.3f,\"is_good\":%s",
                   (long long)s->report.step, (long long)s->report.bytes, 1e3 * s->report.seconds, 1e3 * s->report.pause,
                   s->status == TR_OK ? "true" : "false");
    for (int i = 0; i < p.count; i++)
        tr_part_free(p.item[i]);
    for (int i = 0; i < p.answers; i++)
        trireme__pserver__cut_done__free_unpacked(p.answer[i], NULL);
    free(p.item);
    free(p.answer);
    end_thread(s);
    return NULL;
}

/* == who makes checkpoints: the calls ============================================================ */

/* The data of TR__CUT, in one piece. */
typedef struct cut_call {
    int       servers;
    uint8_t **payload;
    size_t   *size;
} cut_call;

void tr__saving_trainer_command(tr_job *job, const tr_command *command)
{
    cut_call *call = command->data;

    tr_client_cut(job->client, call->payload, call->size);
    atomic_store(&job->saving->is_asked, true);
    free(call->payload);
    free(call->size);
    free(call);
}

static void look_who_makes(tr__saving *s, const tr_client *client)
{
    const bool is_maker = tr_client_is_maker(client);

    atomic_store_explicit(&s->is_maker, is_maker, memory_order_relaxed);
    if (is_maker)
        atomic_store_explicit(&s->has_more, tr_client_updates(client) > tr_client_step(client), memory_order_relaxed);
    else if (tr_client_is_over(client))
        atomic_store_explicit(&s->is_over, true, memory_order_relaxed);
}

bool tr_job_makes_checkpoints(const tr_job *job)
{
    return atomic_load_explicit(&job->saving->is_maker, memory_order_relaxed);
}

void tr__saving_last(const tr__saving *s, tr_job_last *last)
{
    last->is_mine = !atomic_load(&s->is_over);
    last->has_more = atomic_load(&s->has_more);
}

void tr__saving_poll(tr_job *job)
{
    if (tr_client_take_word(job->client)) {
        atomic_store_explicit(&job->awaits_heir, tr_client_awaits_heir(job->client), memory_order_relaxed);
        look_who_makes(job->saving, job->client);
    }
    if (!atomic_load_explicit(&job->saving->is_asked, memory_order_relaxed) || !tr_client_cut_is_answered(job->client) ||
        atomic_load_explicit(&job->saving->is_answered, memory_order_relaxed))
        return;
    atomic_store(&job->saving->is_answered, true);
    tr__bell_ring(&job->saving->bell);
}

static cut_call *make_call(const tr__saving *s, const tr_trainer_state *place)
{
    cut_call *call = tr__must_alloc(sizeof *call);
    const int count = tr_job_servers(s->job) + (s->order.file != NULL);

    call->servers = tr_job_servers(s->job);
    call->payload = tr__must_alloc((size_t)call->servers * sizeof *call->payload);
    call->size = tr__must_alloc((size_t)call->servers * sizeof *call->size);
    for (int i = 0; i < call->servers; i++) {
        Trireme__Pserver__Wish wish = TRIREME__PSERVER__WISH__INIT;
        wish.folder = s->order.folder;
        wish.has_without_tables = wish.without_tables = s->order.without_tables;
        wish.file = tr_part_name(i, count, s->order.cut);
        call->payload[i] = pack_cut(&call->size[i], place, &wish);
        free(wish.file);
    }
    return call;
}

static void make_order(tr__saving *s, const tr_job_checkpoint_spec *spec)
{
    const int servers = tr_job_servers(s->job);

    free_order(&s->order);
    s->order = (order){
        .dir = tr__must_strdup(spec->folder), .folder = tr_checkpoint_path(spec->folder, spec->step), .step = spec->step,
        .digest = tr__must_strdup(spec->digest ? spec->digest : ""), .cut = tr_checkpoint_new_cut(), .keep = spec->keep,
        .without_tables = spec->without_tables,
        .begun = tr__clock()};
    if (spec->count > 0)
        s->order.file = tr_part_name(servers, servers + 1, s->order.cut);
}

static tr_status check_order(const tr_job *job, const tr_job_checkpoint_spec *spec)
{
    const tr__saving *s = job->saving;

    TR_TRY(tr__job_check_trainer(job, "tr_job_checkpoint"));
    if (!job->is_set_up)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: tr_job_setup comes first");
    if (!tr_job_makes_checkpoints(job))
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: another trainer makes checkpoints; this is trainer %d", tr_job_index(job));
    if (!spec->folder || !spec->folder[0] || spec->step < 0 || spec->keep < 0 || spec->count < 0)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: folder '%s', step %lld, keep %d", spec->folder ? spec->folder : "",
                       (long long)spec->step, spec->keep);
    if (job->pushed)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: in the middle of step %lld: end it first", (long long)job->step + 1);
    if (s->has_thread && !atomic_load(&s->has_ended))
        return tr_fail(TR_EEXIST, "tr_job_checkpoint: that of step %lld is still being written", (long long)s->order.step);
    return TR_OK;
}

/* All that it does without its steps is wait; in vain, then the servers decline. */
static tr_status wait_for_heirs(const tr_job *job)
{
    const int64_t deadline = tr__clock() + (int64_t)120e9;

    while (atomic_load(&job->awaits_heir) && tr__clock() < deadline) {
        TR_TRY(tr_comm_status(job->comm));
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    return TR_OK;
}

tr_status tr_job_checkpoint(tr_job *job, const tr_job_checkpoint_spec *spec)
{
    tr__saving      *s = job->saving;
    tr_trainer_state place = spec->place;

    TR_TRY(check_order(job, spec));
    TR_TRY(tr_job_finish_pulls(job));
    TR_TRY(wait_for_heirs(job));
    join(s);
    TR_TRY(tr_snapshot_take(s->snapshot, spec->count, spec->states));
    make_order(s, spec);
    s->has_report = true;
    atomic_store(&s->is_asked, false);
    atomic_store(&s->is_answered, false);
    place.index = tr_job_index(job);
    cut_call *call = make_call(s, &place);
    TR_TRY(tr_comm_post(job->comm, &(tr_command){.kind = TR__CUT, .data = call, .is_urgent = true}));
    return start(s, run_order);
}

static bool is_being_written(const tr__saving *s)
{
    return s->has_report && s->has_thread && !atomic_load(&s->has_ended);
}

/* Of what an heir finds one server may have a step that others miss, until it has made its first. */
bool tr_job_checkpoint_is_under_way(const tr_job *job)
{
    const bool is_uneven = atomic_load(&job->is_heir) && job->step == job->joined_at;

    return is_uneven || is_being_written(job->saving);
}

tr_status tr_job_checkpoint_wait(tr_job *job, double seconds, tr_job_checkpoint_report *report)
{
    tr__saving   *s = job->saving;
    const int64_t deadline = tr__clock() + tr__seconds(seconds);

    if (!s->has_report)
        return tr_fail(TR_ENOTFOUND, "tr_job_checkpoint_wait: no checkpoint was begun");
    while (is_being_written(s)) {
        const unsigned seen = atomic_load(&s->bell);
        const int64_t  left = deadline - tr__clock();
        if (left <= 0)
            return tr_fail(TR_ETIMEOUT, "the checkpoint '%s' is not complete after %.1f s", s->order.folder, seconds);
        if (is_being_written(s))
            tr__bell_wait(&s->bell, seen, left < 50000000 ? left : 50000000);
    }
    join(s);
    if (report)
        *report = s->report;
    return s->status == TR_OK ? TR_OK : tr_fail(s->status, "%s", s->text);
}

tr_status tr__saving_finish(tr__saving *s)
{
    return s->has_report && s->has_thread ? tr_job_checkpoint_wait(s->job, s->job->options.wait_timeout, NULL) : TR_OK;
}

void tr__saving_watch_places(tr__saving *s)
{
    tr_client_set_place(s->job->client, pack_place, s);
}
