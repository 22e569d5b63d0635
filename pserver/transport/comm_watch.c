/* comm_watch.c - detects dead ranks from three sources: a time-out without messages (always), an error of MPI (if it gives one), and the
 * kernel for a process of this host. After a failure one of the living ranks prints the reason. */
#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "pserver/observe/runlog.h"
#include "pserver/transport/comm_state.h"

#include "proto/pserver.pb-c.h"

#include <stdio.h>
#include <string.h>

static const int64_t MILLISECOND = 1000000;

/* == this process was away ======================================================================= */

void tr__comm_turn_begins(tr_comm *comm, int64_t now)
{
    const int64_t pulsed_at = atomic_load_explicit(&comm->pulse.at, memory_order_relaxed);
    const int64_t heard_at = pulsed_at > comm->turned_at ? pulsed_at : comm->turned_at;

    comm->now = now;
    /* The others heard this rank's last heartbeat before the pause, so they may have waited longer than the pause. */
    if (comm->turned_at && comm->now - heard_at > comm->options.timeout - comm->options.heartbeat)
        comm->watch.woke_at = comm->now;
    comm->turned_at = comm->now;
}

/* End this process if the others have declared it dead while it was away. Then another process has its place, or the job goes on without
 * it, and its own view of the others is worthless. It is killed, because an exit code would count as the job's. If all ranks were away
 * (a laptop that slept), they hear of each other again; later failures are handled as usual. */
static void end_if_forgotten(const tr_comm *comm)
{
    if (comm->has_node && comm->watch.woke_at && comm->now - comm->watch.woke_at < 2 * comm->options.timeout)
        comm->machine.end(comm->machine.self, TR_RANK_IS_DEAD, 0);
}

/* == processes of this host ==================================================================== */

void tr__comm_watch_begin(tr_comm *comm)
{
    const tr_machine *machine = &comm->machine;
    const tr_rank    *self = &comm->roster->rank[comm->roster->self];
    int               here = 1;

    comm->bells.are_mutual = true;
    for (int i = 0; i < comm->roster->size; i++) {
        const tr_rank *r = &comm->roster->rank[i];
        tr_liveness_heard(comm->liveness, i, comm->now);
        if (i == comm->roster->self)
            continue;
        if (r->host_id[0] && !strcmp(r->host_id, self->host_id)) {
            here++;
            comm->peer[i].process = machine->open_process(machine->self, r->pid);
            comm->peer[i].bell = machine->open_doorbell(machine->self, r->pid, r->doorbell);
        }
        comm->bells.are_mutual &= comm->peer[i].bell && machine->can_read(machine->self, r->pid);
    }
    const int processors = machine->processors(machine->self);
    comm->is_crowded = here > processors;
    comm->ranks_here = here > processors ? here / processors : 1;
}

void tr__comm_watch_end(tr_comm *comm)
{
    for (int i = 0; comm->peer && i < comm->roster->size; i++) {
        comm->machine.close_doorbell(comm->machine.self, comm->peer[i].bell);
        comm->machine.close_process(comm->machine.self, comm->peer[i].process);
    }
}

/* A script may close descriptors that are not its own (os.closerange). Then all other processes seem to have ended. */
static void lost_descriptors(tr_comm *comm)
{
    tr_fail(TR_EIO, "%s has lost the descriptors of the job's runtime: the script, or a library, closes descriptors that it has not opened "
            "(os.closerange, daemon.DaemonContext). Close single files, or do it before the first step",
            tr_roster_name(comm->roster, comm->roster->self));
    tr__comm_failed(comm, TR_EIO, comm->roster->self, tr_error());
}

static void note_ends(tr_comm *comm)
{
    for (int i = 0; i < comm->roster->size; i++) {
        tr__peer *p = &comm->peer[i];
        if (p->process < 0 || p->gone_at || tr_liveness_is_gone(comm->liveness, i) ||
            !comm->machine.has_ended(comm->machine.self, p->process))
            continue;
        if (!comm->machine.is_open(comm->machine.self, p->process)) {
            lost_descriptors(comm);
            return;
        }
        p->gone_at = comm->now;
        comm->watch.ended++;
    }
}

/* A process that has ended may have left unread messages, such as a BYE. So wait a moment before it counts as gone. */
static void take_ends(tr_comm *comm)
{
    for (int i = 0; i < comm->roster->size; i++)
        if (comm->peer[i].gone_at > 0 && comm->now - comm->peer[i].gone_at > 20 * MILLISECOND) {
            comm->peer[i].gone_at = -1;
            comm->watch.ended--;
            if (!tr_liveness_is_gone(comm->liveness, i))
                tr__comm_gone(comm, i, "died");
        }
}

static void watch_processes(tr_comm *comm)
{
    if (comm->machine.has_any_ended(comm->machine.self))
        note_ends(comm);
    if (comm->watch.ended && comm->status == TR_OK)
        take_ends(comm);
}

static void watch_silence(tr_comm *comm)
{
    char how[64];
    int  peer;

    /* After this rank's goodbye no other rank watches it. A rank that has all goodbyes may have stopped MPI already. */
    while (!comm->said_bye && (peer = tr_liveness_beat(comm->liveness, comm->now)) >= 0)
        tr__comm_send(comm, peer, TR_WIRE_BEAT, NULL, 0);
    if (!comm->has_node)                           /* ranks that start slowly have a time-out of their own */
        return;
    tr__format(how, sizeof how, "was silent for %.1f s", (double)comm->options.timeout / 1e9);
    while ((peer = tr_liveness_silent(comm->liveness, comm->now)) >= 0) {
        tr_liveness_kill(comm->liveness, peer);
        end_if_forgotten(comm);
        comm->machine.tell(comm->machine.self, TR_NOTICE_SILENT, peer, how);    /* before a standby kills it, because other ranks may see
                                                                                 * that first */
        tr__comm_dead(comm, peer, how);
    }
}

static void watch_start(tr_comm *comm)
{
    char missing[256];

    if (comm->now < comm->watch.start_deadline)
        return;
    tr_roster_missing(comm->roster, missing, sizeof missing);
    tr_fail(TR_ETIMEOUT, "%s waited %.0f s for the hello of %s", tr_roster_name(comm->roster, comm->roster->self),
            (double)comm->options.start_timeout / 1e9, missing);
    tr__comm_failed(comm, TR_ETIMEOUT, comm->roster->self, tr_error());
}

/* == failure =================================================================================== */

enum { LAST_IN_LINE = 5 };

/* The place of this rank in the order of ranks that may print the failure. */
static int place_in_line(const tr_comm *comm)
{
    const tr_roster *roster = comm->roster;
    int              before = 0;

    if (!comm->has_node)
        return roster->self;
    if (comm->watch.culprit == roster->self)
        return roster->rank[roster->self].index;
    if (tr_liveness_of(comm->liveness, comm->watch.culprit) == TR_LIFE_ALIVE)
        return LAST_IN_LINE;                       /* the rank that caused the failure refuses the job, and says so itself */
    const tr_role dead_role = roster->rank[comm->watch.culprit].role;
    const bool    is_other = roster->rank[roster->self].role != dead_role;
    for (int i = 0; i < roster->size; i++) {
        const bool is_candidate = i != comm->watch.culprit && (i == roster->self || tr_liveness_of(comm->liveness, i) == TR_LIFE_ALIVE);
        const bool is_first = roster->rank[i].role != dead_role;
        before += is_candidate && (is_first == is_other ? i < roster->self : is_first);
    }
    return before;
}

/* How long this rank lets others print first. At the start some ranks know the roles and others do not, so there are two orders: a rank
 * that does not know the roles waits for half a place more, and the first ranks of both orders do not print at once. */
static int64_t time_in_line(const tr_comm *comm)
{
    const int64_t wait = 60 * MILLISECOND;
    const int     place = place_in_line(comm);

    return (place < LAST_IN_LINE ? place : LAST_IN_LINE) * wait + (comm->has_node ? 0 : wait / 2);
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
    comm->watch.culprit = culprit;
    comm->watch.failed_at = comm->now;
    comm->watch.report_at = comm->now + time_in_line(comm);
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

/* May this rank tell the launcher that the job goes on without `peer`? Of a dead trainer only servers say so, because a standby does not
 * know the mode. Of a dead server a trainer may say it, if it is the only rank left: it knows that it needs no server. Of a dead server
 * a standby says it, too, because a standby takes the place. But a standby that has left after trainers' deaths does not say it: servers
 * that end then have ended the job, and could no longer tell the reason. */
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
    if (comm->status != TR_OK)                     /* only this thread writes the status */
        return;
    if (!comm->has_node) {
        comm->machine.tell(comm->machine.self, TR_NOTICE_DIED, peer, how);
        tr_fail(TR_EPEER, "%s %s at the start of the job", tr_roster_name(comm->roster, peer), how);
        tr__comm_failed(comm, TR_EPEER, peer, tr_error());
        return;
    }
    tr__comm_away(comm);
    if (comm->node.lost)
        comm->node.lost(comm->node.self, peer, how);
    tr__comm_back(comm);
    const tr_status status = comm->node.status(comm->node.self, &text);
    if (status != TR_OK && !comm->said_bye) {      /* a rank that has said goodbye needs no other rank */
        comm->machine.tell(comm->machine.self, TR_NOTICE_DIED, peer, how);
        tr__comm_failed(comm, status, peer, text);
        return;
    }
    atomic_store(&comm->watch.has_survived, true);
    note_death(comm, peer, how);
    if (may_say_lost(comm, peer))
        comm->machine.tell(comm->machine.self, TR_NOTICE_LOST, peer, how);
}

void tr__comm_gone(tr_comm *comm, int peer, const char *how)
{
    if (tr_liveness_of(comm->liveness, peer) == TR_LIFE_ALIVE) {
        tr__comm_dead(comm, peer, how);
    } else if (!tr_liveness_is_gone(comm->liveness, peer)) {
        tr_liveness_gone(comm->liveness, peer);
        comm->table->drop(comm->transport, peer);
        atomic_store(&comm->watch.has_survived, true);
    }
}

void tr_comm_set_exit_code(tr_comm *comm, int code)
{
    atomic_store(&comm->watch.exit_code, code);
}

int tr_comm_exit_code(const tr_comm *comm)
{
    const int code = atomic_load(&comm->watch.exit_code);
    return code ? code : 1;
}

void tr__comm_on_abort(tr_comm *comm, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Abort *abort_ = trireme__pserver__abort__unpack(NULL, bytes, payload);

    if (abort_ && abort_->rank < (uint32_t)comm->roster->size) {
        atomic_store(&comm->watch.is_told, true);        /* the sender of an ABORT has printed the text */
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

    abort_.rank = (uint32_t)comm->watch.culprit;
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

/* The rank that prints first tells the others, so that no other rank prints. This thread may have lost the processor since it looked, so
 * it looks again. */
static void speak(tr_comm *comm)
{
    for (int i = 0; i < 1000 && comm->table->poll(comm->transport); i++)
        continue;
    if (!atomic_load(&comm->watch.is_told) && comm->machine.may_explain(comm->machine.self)) {
        tell_all(comm);
        /* The launcher prints the text: mpirun may end before it passes a line on. */
        if (!comm->machine.tell(comm->machine.self, TR_NOTICE_TOLD, comm->roster->self, comm->text))
            comm->machine.print(comm->machine.self, comm->text);
    }
    atomic_store(&comm->watch.is_told, true);
    comm->machine.ring(comm->machine.self, &comm->owner_bell, FUTEX_BITSET_MATCH_ANY);
}

static void watch_failure(tr_comm *comm)
{
    if (!atomic_load(&comm->watch.is_told) && comm->now >= comm->watch.report_at)
        speak(comm);
    if (comm->now - comm->watch.failed_at > comm->options.grace)
        comm->machine.end(comm->machine.self, TR_RANK_EXITS, tr_comm_exit_code(comm));
}

void tr__comm_watch(tr_comm *comm)
{
    if (comm->status != TR_OK) {
        watch_failure(comm);
        return;
    }
    if (comm->now - comm->watch.at < 5 * MILLISECOND)
        return;
    comm->watch.at = comm->now;
    watch_silence(comm);
    if (comm->has_node)
        watch_processes(comm);
    else
        watch_start(comm);
}
