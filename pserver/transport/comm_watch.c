/* comm_watch.c - three sources say that a rank is dead: our own time-out (always), MPI's error (if it gives one),
 * the kernel for a process on the same host. One of the living says it aloud. */
#include "framework/memory.h"
#include "pserver/observe/runlog.h"
#include "pserver/transport/comm_state.h"

#include "proto/pserver.pb-c.h"

#include <stdio.h>
#include <string.h>

static const int64_t MILLISECOND = 1000000;

/* == absence =================================================================================== */

void tr__comm_turn_begins(tr_comm *comm, int64_t now)
{
    comm->now = now;
    /* They heard of this rank by its last heartbeat, which was before it went. */
    if (comm->turned_at && comm->now - comm->turned_at > comm->options.timeout - comm->options.heartbeat)
        comm->woke_at = comm->now;
    comm->turned_at = comm->now;
}

/* Who was away for longer than the others wait is dead to them: its place is taken, or the job goes on without it, and what it
 * believes to see of them is not worth saying. Its exit code would still be the job's to mpirun, so it ends as the dead do.
 * Where all were away (a laptop that slept), they hear of each other again, and what fails later fails as ever. */
static void end_if_forgotten(const tr_comm *comm)
{
    if (comm->has_node && comm->woke_at && comm->now - comm->woke_at < 2 * comm->options.timeout)
        comm->machine.end(comm->machine.self, TR_RANK_IS_DEAD, 0);
}

/* == processes of this host ==================================================================== */

void tr__comm_watch_begin(tr_comm *comm)
{
    const tr_machine *machine = &comm->machine;
    const tr_rank    *self = &comm->roster->rank[comm->roster->self];
    int               here = 1;

    comm->is_rung_by_all = true;
    for (int i = 0; i < comm->roster->size; i++) {
        const tr_rank *r = &comm->roster->rank[i];
        tr_liveness_heard(comm->liveness, i, comm->now);
        if (i == comm->roster->self)
            continue;
        if (r->host_id[0] && !strcmp(r->host_id, self->host_id)) {
            here++;
            comm->process[i] = machine->open_process(machine->self, r->pid);
            comm->doorbell[i] = machine->open_doorbell(machine->self, r->pid, r->doorbell);
        }
        comm->is_rung_by_all &= comm->doorbell[i] && machine->can_read(machine->self, r->pid);
    }
    comm->is_crowded = here > machine->processors(machine->self);
}

void tr__comm_watch_end(tr_comm *comm)
{
    for (int i = 0; comm->process && i < comm->roster->size; i++) {
        comm->machine.close_doorbell(comm->machine.self, comm->doorbell[i]);
        comm->machine.close_process(comm->machine.self, comm->process[i]);
    }
}

/* A process that has ended may have left messages, a BYE among them, that are still to be read. */
static void watch_processes(tr_comm *comm)
{
    for (int i = 0; i < comm->roster->size; i++) {
        if (comm->process[i] < 0 || tr_liveness_is_gone(comm->liveness, i))
            continue;
        if (!comm->gone_at[i] && comm->machine.has_ended(comm->machine.self, comm->process[i]))
            comm->gone_at[i] = comm->now;
        else if (comm->gone_at[i] && comm->now - comm->gone_at[i] > 20 * MILLISECOND)
            tr__comm_gone(comm, i, "died");
    }
}

static void watch_silence(tr_comm *comm)
{
    char how[64];
    int  peer;

    /* After our goodbye nobody watches us, and who has ours and all others' may be beyond MPI's end. */
    while (!comm->said_bye && (peer = tr_liveness_beat(comm->liveness, comm->now)) >= 0)
        tr__comm_send(comm, peer, TR_WIRE_BEAT, NULL, 0);
    if (!comm->has_node)                           /* those who start slowly have their own time-out */
        return;
    snprintf(how, sizeof how, "was silent for %.1f s", (double)comm->options.timeout / 1e9);
    while ((peer = tr_liveness_silent(comm->liveness, comm->now)) >= 0) {
        tr_liveness_kill(comm->liveness, peer);
        end_if_forgotten(comm);
        comm->machine.tell(comm->machine.self, "silent", peer, how);    /* before a standby ends it, which others may see first */
        tr__comm_dead(comm, peer, how);
    }
}

static void watch_start(tr_comm *comm)
{
    char missing[256];

    if (comm->now < comm->start_deadline)
        return;
    tr_roster_missing(comm->roster, missing, sizeof missing);
    tr_fail(TR_ETIMEOUT, "%s waited %.0f s for the hello of %s", tr_roster_name(comm->roster, comm->roster->self),
            (double)comm->options.start_timeout / 1e9, missing);
    tr__comm_failed(comm, TR_ETIMEOUT, comm->roster->self, tr_error());
}

/* == failure =================================================================================== */

enum { LAST_IN_LINE = 5 };

/* Where this rank stands in the order of those who might say it. */
static int place_in_line(const tr_comm *comm)
{
    const tr_roster *roster = comm->roster;
    int              before = 0;

    if (!comm->has_node)
        return roster->self;
    if (comm->culprit == roster->self)
        return roster->rank[roster->self].index;
    if (tr_liveness_of(comm->liveness, comm->culprit) == TR_LIFE_ALIVE)
        return LAST_IN_LINE;                       /* it refuses, and says so itself */
    const tr_role dead_role = roster->rank[comm->culprit].role;
    const bool    is_other = roster->rank[roster->self].role != dead_role;
    for (int i = 0; i < roster->size; i++) {
        const bool is_candidate = i != comm->culprit && (i == roster->self || tr_liveness_of(comm->liveness, i) == TR_LIFE_ALIVE);
        const bool is_first = roster->rank[i].role != dead_role;
        before += is_candidate && (is_first == is_other ? i < roster->self : is_first);
    }
    return before;
}

void tr__comm_failed(tr_comm *comm, tr_status status, int culprit, const char *text)
{
    char quoted[4096];

    if (culprit != comm->roster->self)
        end_if_forgotten(comm);
    pthread_mutex_lock(&comm->lock);
    const bool is_news = comm->status == TR_OK;
    if (is_news) {
        comm->status = status;
        snprintf(comm->text, sizeof comm->text, "%s", text);
    }
    pthread_mutex_unlock(&comm->lock);
    if (!is_news)
        return;
    tr_json_quote(quoted, sizeof quoted, text);
    tr_runlog_note("failed", ",\"why\":%s", quoted);
    comm->culprit = culprit;
    comm->failed_at = comm->now;
    const int place = place_in_line(comm);
    comm->report_at = comm->now + (place < LAST_IN_LINE ? place : LAST_IN_LINE) * 60 * MILLISECOND;
    atomic_store(&comm->state, TR__FAILED);
    comm->machine.ring(comm->machine.self, &comm->owner_bell, FUTEX_BITSET_MATCH_ANY);
}

static void note_death(const tr_comm *comm, int peer, const char *how)
{
    static const char *const roles[TR_ROLE_COUNT] = {"trainer", "server", "standby", "replica"};
    const tr_rank           *dead = &comm->roster->rank[peer];
    char                     quoted[128];

    tr_runlog_note("died", ",\"rank\":%d,\"role\":\"%s\",\"index\":%d,\"how\":%s", peer, roles[dead->role], dead->index,
                   tr_json_quote(quoted, sizeof quoted, how));
}

/* Whether a trainer is missed is for the servers to say: a standby does not know the mode. Of a server a trainer may be the only one that is
 * left: it knows that it misses nothing. A standby says it of servers, since it takes their places, or the next one does; but not one that has left because
 * trainers have died: servers that end then, and could not tell it any more why, have ended the job. */
static bool may_say_lost(const tr_comm *comm, int peer)
{
    const tr_roster *roster = comm->roster;
    const tr_role    role = roster->rank[roster->self].role, dead = roster->rank[peer].role;
    bool             is_over = false;

    for (int i = 0; role == TR_ROLE_STANDBY && comm->said_bye && i < roster->trainers; i++)
        is_over |= roster->rank[roster->trainer_rank[i]].is_dead;
    return role == TR_ROLE_SERVER || (role == TR_ROLE_STANDBY && dead != TR_ROLE_TRAINER && !is_over) ||
           (role == TR_ROLE_TRAINER && dead == TR_ROLE_SERVER);
}

void tr__comm_dead(tr_comm *comm, int peer, const char *how)
{
    const char *text;

    end_if_forgotten(comm);
    tr_liveness_kill(comm->liveness, peer);
    comm->roster->rank[peer].is_dead = true;
    comm->table->drop(comm->transport, peer);
    if (comm->status != TR_OK)                     /* written by this thread alone */
        return;
    if (!comm->has_node) {
        comm->machine.tell(comm->machine.self, "died", peer, how);
        tr_fail(TR_EPEER, "%s %s at the start of the job", tr_roster_name(comm->roster, peer), how);
        tr__comm_failed(comm, TR_EPEER, peer, tr_error());
        return;
    }
    comm->node.lost(comm->node.self, peer, how);
    const tr_status status = comm->node.status(comm->node.self, &text);
    if (status != TR_OK && !comm->said_bye) {      /* who has left misses nobody */
        comm->machine.tell(comm->machine.self, "died", peer, how);
        tr__comm_failed(comm, status, peer, text);
        return;
    }
    atomic_store(&comm->has_survived, true);
    note_death(comm, peer, how);
    if (may_say_lost(comm, peer))
        comm->machine.tell(comm->machine.self, "lost", peer, how);
}

void tr__comm_gone(tr_comm *comm, int peer, const char *how)
{
    if (tr_liveness_of(comm->liveness, peer) == TR_LIFE_ALIVE) {
        tr__comm_dead(comm, peer, how);
    } else if (!tr_liveness_is_gone(comm->liveness, peer)) {
        tr_liveness_gone(comm->liveness, peer);
        comm->table->drop(comm->transport, peer);
        atomic_store(&comm->has_survived, true);
    }
}

void tr_comm_set_exit_code(tr_comm *comm, int code)
{
    atomic_store(&comm->exit_code, code);
}

int tr_comm_exit_code(const tr_comm *comm)
{
    const int code = atomic_load(&comm->exit_code);
    return code ? code : 1;
}

void tr__comm_on_abort(tr_comm *comm, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Abort *abort_ = trireme__pserver__abort__unpack(NULL, bytes, payload);

    if (abort_ && abort_->rank < (uint32_t)comm->roster->size) {
        atomic_store(&comm->is_told, true);        /* whoever sends this has printed it */
        if (abort_->has_exit_code && abort_->exit_code > 0 && abort_->exit_code < 256)
            tr_comm_set_exit_code(comm, (int)abort_->exit_code);
        tr__comm_failed(comm, TR_EPEER, (int)abort_->rank, abort_->text);
    } else {
        tr__comm_failed(comm, TR_EPEER, peer, "a rank ended the job and its reason is damaged");
    }
    if (abort_)
        trireme__pserver__abort__free_unpacked(abort_, NULL);
}

static void tell_all(tr_comm *comm)
{
    Trireme__Pserver__Abort abort_ = TRIREME__PSERVER__ABORT__INIT;

    abort_.rank = (uint32_t)comm->culprit;
    abort_.text = comm->text;
    abort_.has_exit_code = true;
    abort_.exit_code = (uint32_t)tr_comm_exit_code(comm);
    const size_t size = trireme__pserver__abort__get_packed_size(&abort_);
    for (int i = 0; i < comm->roster->size; i++) {
        if (i == comm->roster->self || tr_liveness_of(comm->liveness, i) != TR_LIFE_ALIVE)
            continue;
        uint8_t *payload = tr__must_bytes(size);
        trireme__pserver__abort__pack(&abort_, payload);
        tr__comm_send(comm, i, TR_WIRE_ABORT, payload, size);
    }
}

/* The one who speaks tells the others first, so that nobody begins to speak meanwhile. This thread may have lost the
 * processor since it looked, so it looks again. */
static void speak(tr_comm *comm)
{
    for (int i = 0; i < 1000 && comm->table->poll(comm->transport); i++)
        continue;
    if (!atomic_load(&comm->is_told) && comm->machine.take_word(comm->machine.self)) {
        tell_all(comm);
        /* mpirun may be gone before it has passed a line on: the launcher says it then. */
        if (!comm->machine.tell(comm->machine.self, "told", comm->roster->self, comm->text))
            comm->machine.print(comm->machine.self, comm->text);
    }
    atomic_store(&comm->is_told, true);
    comm->machine.ring(comm->machine.self, &comm->owner_bell, FUTEX_BITSET_MATCH_ANY);
}

static void watch_failure(tr_comm *comm)
{
    if (!atomic_load(&comm->is_told) && comm->now >= comm->report_at)
        speak(comm);
    if (comm->now - comm->failed_at > comm->options.grace)
        comm->machine.end(comm->machine.self, TR_RANK_EXITS, tr_comm_exit_code(comm));
}

void tr__comm_watch(tr_comm *comm)
{
    if (comm->status != TR_OK) {
        watch_failure(comm);
        return;
    }
    if (comm->now - comm->watched_at < 5 * MILLISECOND)
        return;
    comm->watched_at = comm->now;
    watch_silence(comm);
    if (comm->has_node)
        watch_processes(comm);
    else
        watch_start(comm);
}
