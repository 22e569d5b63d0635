/* server_snapshot.c - one server's part of a snapshot: a state of the whole job between two steps (docs/protocol.md, "Snapshot").
 *
 * Gathering. A trainer that takes part sends SNAPSHOT in its stream of requests, behind the end of a step. What it sends after that is parked:
 * it waits here until every trainer that is not over has taken part and its steps are settled. Then the store copies its state, the parked
 * requests are taken in, and the copy is written in the background. Every server divides each trainer's stream at the same request, so the
 * parts of all servers belong together.
 *
 * Who begins. Only the initiator (server_initiator.c) begins a snapshot. A server for which another trainer is the initiator declines.
 *
 * Who takes part. In mode sync the initiator alone: nothing of step s + 1 can be applied without the initiator, so behind its step s the
 * servers' states depend on the step alone. Nobody is parked, and the copy of step s is made while gradients of step s + 1 come in. In the
 * other modes all trainers take part: acknowledgements ask them to, behind their next step.
 *
 * Deaths. A server that dies takes its part of the snapshot with it. The trainers that had taken part there send SNAPSHOT_OVER to its successor, so
 * the successor waits for nobody. The initiator sends SNAPSHOT_OVER to all other servers when one server has declined. Servers decline
 * while a replacement has made no step (server_replacement.c), and acknowledgements tell the initiator so beforehand. SNAPSHOT_OVER is not
 * held up by the bound on unacknowledged bytes: a server that parks requests acknowledges none of them.
 *
 * No deadlock. A snapshot that is not complete after two minutes is given up. A parked trainer does not count as the slowest one (ssp) and is not
 * waited for (sync with backups). So in ssp other trainers may come further ahead during a snapshot: by one step, by two where
 * parameters overtake the request to take part, and by as many again each time a death makes the snapshot begin anew. A step that
 * sync(backups) has neither applied nor dropped is not in the copy, as if it had been dropped.
 *
 * Invariant: a trainer begins a snapshot only when it has all answers to the one before. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <stdlib.h>
#include <string.h>

typedef Trireme__Pserver__Snapshot     pb_snapshot;
typedef Trireme__Pserver__SnapshotDone pb_done;

static bool is_by_all(const tr_server *server)
{
    return server->policy.snapshots_all;
}

bool tr__server_snapshot_is_decided(const tr_server *server)
{
    return is_by_all(server) && tr__server_has_decisions(server);
}

bool tr__server_is_moving(const tr__trainer *trainer)
{
    return !tr_membership_is_over(trainer->state) && !trainer->is_parked;
}

uint32_t tr__server_snapshot_wanted(const tr_server *server)
{
    return is_by_all(server) && server->snapshot.phase == TR__SNAPSHOT_GATHERING ? server->snapshot.number : 0;
}

void tr__server_tell_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        server->trainer[i].owes_ack |= is_by_all(server) && !tr_membership_is_over(server->trainer[i].state) &&
                                       server->trainer[i].state != TR_MEMBER_VACANT;
}

bool tr__server_snapshot_must_wait(const tr_server *server)
{
    return is_by_all(server) && tr__server_awaits_replacement(server);
}

static void give_up(tr_server *server, const char *why, bool is_for_good);

/* The reason in SNAPSHOT_DONE by which the initiator knows that it should begin the snapshot anew. */
static const char *const GIVEN_UP = "it was given up, since another rank died, or gave it up";

/* == gathering ================================================================================= */

/* Has this trainer said that it makes no more steps? */
static bool has_left(const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_DRAINING || trainer->state == TR_MEMBER_LEFT;
}

/* Does the state have all steps of the trainers that make no more steps, and is it known where in their data these trainers ended? A successor of
 * a dead server hears the places again from the trainers that are draining. */
static bool has_all_of_the_gone(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if ((has_left(t) && t->settled < t->ended) || (t->state == TR_MEMBER_DRAINING && !t->last_place))
            return false;
    }
    return true;
}

bool tr__server_snapshot_is_gathered(const tr_server *server)
{
    const tr__snapshot *snapshot = &server->snapshot;

    if (snapshot->phase != TR__SNAPSHOT_GATHERING || !snapshot->snapshot[snapshot->initiator])
        return false;
    for (int i = 0; is_by_all(server) && i < server->trainer_count; i++)
        if (!snapshot->snapshot[i] && !tr_membership_is_over(server->trainer[i].state))
            return false;
    return !tr_membership_is_over(server->trainer[snapshot->initiator].state) || has_all_of_the_gone(server);
}

static bool is_ready(const tr_server *server)
{
    const tr__decisions *v = &server->decisions;

    if (server->queued || !tr__server_snapshot_is_gathered(server))
        return false;
    if (tr__server_snapshot_is_decided(server))
        return v->snapshot == server->snapshot.number && v->snapshot_update == server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        if (server->snapshot.snapshot[i] && server->trainer[i].settled < server->trainer[i].ended)
            return false;
    return true;
}

tr_status tr__server_note_last_place(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!wire->bytes || trainer->last_place)
        return TR_OK;                              /* a job without checkpoints */
    trainer->last_place = trireme__pserver__snapshot__unpack(NULL, wire->bytes, payload);
    if (trainer->last_place)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "the goodbye of %s is damaged", tr__server_trainer_name(server, trainer));
}

/* A trainer that has left has its last place in this snapshot if all of its steps are settled here. */
static void note_who_left(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        server->snapshot.place[i].had_left = has_left(t) && t->settled == t->ended;
    }
}

/* Where the initiator takes part alone, all trainers are where it is. The exception is a job that was started again behind a death: there some
 * trainers may be ahead of others, by a number of steps that does not change. Note the places of such trainers. */
static void note_who_is_apart(tr_server *server)
{
    const tr__trainer             *initiator = &server->trainer[server->snapshot.initiator];
    const Trireme__Pserver__Place *of_initiator = server->snapshot.snapshot[server->snapshot.initiator]->place;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        tr__snapshot_place     *place = &server->snapshot.place[i];
        const uint64_t     more = t->settled - initiator->settled;     /* modulo 2^64, as the sums below */
        place->is_apart = more && !is_by_all(server) && !tr_membership_is_over(t->state) && !tr_membership_is_over(initiator->state);
        place->apart = (Trireme__Pserver__Place)TRIREME__PSERVER__PLACE__INIT;
        place->apart.index = (uint32_t)i;
        place->apart.steps = of_initiator->steps + more;
        place->apart.runs = of_initiator->runs + more;
        place->is_apart &= (int64_t)place->apart.steps >= 0 && (int64_t)place->apart.runs >= 0;
    }
}

/* The trainer's place in the snapshot. NULL: the trainer is lost, or has left and has not told this server its place again, or is where the initiator is. */
static Trireme__Pserver__Place *place_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    tr__snapshot_place     *place = &server->snapshot.place[trainer];

    if (server->snapshot.snapshot[trainer])
        return server->snapshot.snapshot[trainer]->place;
    if (place->is_apart)
        return &place->apart;
    return place->had_left && t->last_place ? t->last_place->place : NULL;
}

void tr__server_try_snapshot(tr_server *server)
{
    if (!is_ready(server) || !tr__server_copy_makes_way(server))
        return;
    server->snapshot.phase = TR__SNAPSHOT_TAKING;
    note_who_left(server);
    note_who_is_apart(server);
    free(server->snapshot.tasks);
    server->snapshot.tasks = tr__server_tasks_pack(server, &server->snapshot.tasks_size);
    server->store.snapshot(server->store.self, server->snapshot.snapshot[server->snapshot.initiator]->target);
}

static tr_status begin(tr_server *server, uint32_t number, int initiator)
{
    tr__snapshot *snapshot = &server->snapshot;

    if (!snapshot->snapshot)
        snapshot->snapshot = tr__must_array((size_t)server->trainer_count, sizeof *snapshot->snapshot);
    if (!snapshot->place)
        snapshot->place = tr__must_array((size_t)server->trainer_count, sizeof *snapshot->place);
    snapshot->phase = TR__SNAPSHOT_GATHERING;
    snapshot->number = number;
    snapshot->initiator = initiator;
    snapshot->initiator_epoch = server->trainer[initiator].epoch;
    snapshot->begun = server->now;
    tr__server_tell_all(server);
    return TR_OK;
}

/* Takes `answer`, a packed SnapshotDone, over. */
static void send_answer(tr_server *server, const tr__trainer *to, uint32_t number, uint8_t *answer, size_t size)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = to->rank, .payload = answer, .owned = answer,
        .wire = {.kind = TR_WIRE_SNAPSHOT_DONE, .epoch = to->epoch, .sender = (uint32_t)server->roster->self,
                 .bytes = size, .snapshot_number = {.number = number}}});
}

static void send_answer_to_initiator(tr_server *server)
{
    const tr__snapshot *snapshot = &server->snapshot;

    send_answer(server, &server->trainer[snapshot->initiator], snapshot->number, memcpy(tr__must_bytes(snapshot->answer_size + 1), snapshot->answer, snapshot->answer_size),
                snapshot->answer_size);
}

/* There will be no part of the snapshot that this trainer has begun. */
static void refuse(tr_server *server, const tr__trainer *trainer, uint32_t number, const char *why)
{
    pb_done done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    done.error = (char *)(uintptr_t)why;
    done.has_given_up = done.given_up = true;
    uint8_t *answer = tr__must_bytes(trireme__pserver__snapshot_done__get_packed_size(&done) + 1);
    send_answer(server, trainer, number, answer, trireme__pserver__snapshot_done__pack(&done, answer));
}

static bool begins(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    return wire->snapshot.initiator == (uint32_t)(trainer - server->trainer);
}

/* Who asks again for its snapshot has not got the answer, which may be on its way. */
static bool has_asked_before(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__snapshot *snapshot = &server->snapshot;

    if (wire->snapshot.number > snapshot->number || !begins(server, trainer, wire))
        return false;
    if (wire->snapshot.number < snapshot->number || (uint32_t)snapshot->initiator != wire->snapshot.initiator) {
        refuse(server, trainer, wire->snapshot.number, "it came too late");
        return true;
    }
    if (snapshot->phase == TR__SNAPSHOT_GATHERING && !snapshot->snapshot[snapshot->initiator])
        return false;
    if (snapshot->phase == TR__SNAPSHOT_NONE && snapshot->answered == wire->snapshot.number)
        send_answer_to_initiator(server);
    else if (snapshot->phase == TR__SNAPSHOT_NONE)
        refuse(server, trainer, wire->snapshot.number, GIVEN_UP);
    return true;
}

static pb_snapshot *parse(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    pb_snapshot *snapshot = trireme__pserver__snapshot__unpack(NULL, wire->bytes, payload);

    if (snapshot && (snapshot->target != NULL) == begins(server, trainer, wire))
        return snapshot;
    if (snapshot)
        trireme__pserver__snapshot__free_unpacked(snapshot, NULL);
    return NULL;
}

/* A replacement is awaited: all would wait for it. Or a step of its own is here and not on every other server: that would be no state of the job. */
static void decline(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->snapshot.number > server->snapshot.number || server->snapshot.phase == TR__SNAPSHOT_GATHERING)
        tr__server_snapshot_give_up(server, wire->snapshot.number);
    if (begins(server, trainer, wire))
        refuse(server, trainer, wire->snapshot.number, "a standby is taking a dead trainer's place, and has made no step yet");
    tr__server_decision_moves(server);
}

/* Another trainer begins snapshots, or nobody: who has begun this one has lost its place, or has not got it here. */
static bool is_of_another(const tr_server *server, const tr_wire *wire)
{
    const int initiator = tr__server_initiator(server);

    return initiator < 0 || wire->snapshot.initiator != (uint32_t)initiator || server->trainer[initiator].state == TR_MEMBER_VACANT;
}

static void decline_anothers(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->snapshot.number > server->snapshot.number)
        tr__server_snapshot_give_up(server, wire->snapshot.number);
    if (begins(server, trainer, wire))
        refuse(server, trainer, wire->snapshot.number, "another trainer makes checkpoints");
    tr__server_decision_moves(server);
}

/* This server has taken a dead one's place: trainers that had taken part there do not take part here. Or another server has declined it. */
static void hear_over(tr_server *server, uint32_t number)
{
    if (number < server->snapshot.number || server->snapshot.phase == TR__SNAPSHOT_TAKING || server->snapshot.phase == TR__SNAPSHOT_WRITING)
        return;
    tr__server_snapshot_give_up(server, number);
    tr__server_decision_moves(server);
}

/* Another one has begun the snapshot before, which is being taken; or the state is frozen for a replica. */
static bool is_early(const tr_server *server, const tr_wire *wire)
{
    const bool is_taking = server->snapshot.phase == TR__SNAPSHOT_TAKING || server->snapshot.phase == TR__SNAPSHOT_WRITING;

    return server->replication.is_freezing || (wire->snapshot.number > server->snapshot.number && is_taking);
}

/* The first word of a snapshot. */
static tr_status begin_anew(tr_server *server, const tr_wire *wire)
{
    if (wire->snapshot.number <= server->snapshot.number)
        return TR_OK;
    if (server->snapshot.phase == TR__SNAPSHOT_GATHERING)
        give_up(server, GIVEN_UP, false);
    return server->snapshot.phase == TR__SNAPSHOT_NONE ? begin(server, wire->snapshot.number, (int)wire->snapshot.initiator) : TR_OK;
}

static tr_status take_in(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr__snapshot  *snapshot = &server->snapshot;
    const int index = (int)(trainer - server->trainer);

    if (wire->snapshot.number != snapshot->number || snapshot->phase != TR__SNAPSHOT_GATHERING || snapshot->snapshot[index] || trainer->pushed_count)
        return tr_fail(TR_EPEER, "%s takes part in snapshot %u in the middle of something (number %u here, %llu pieces of step %llu)",
                       tr__server_trainer_name(server, trainer), wire->snapshot.number, snapshot->number,
                       (unsigned long long)trainer->pushed_count, (unsigned long long)trainer->ended + 1);
    snapshot->snapshot[index] = parse(server, trainer, wire, payload);
    if (!snapshot->snapshot[index])
        return tr_fail(TR_EFORMAT, "the snapshot of %s is damaged", tr__server_trainer_name(server, trainer));
    trainer->is_parked = is_by_all(server) && !tr_membership_is_over(trainer->state);
    if (is_by_all(server))
        tr__server_fewer_move(server);             /* others need not wait for it now */
    tr__server_try_snapshot(server);
    return TR_OK;
}

/* Of a trainer that is there, behind its step. */
static tr_status hear_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr__snapshot *snapshot = &server->snapshot;

    if (has_asked_before(server, trainer, wire) || wire->snapshot.number < snapshot->number)
        return TR_OK;
    if (is_early(server, wire)) {
        trainer->is_parked = true;
        tr__server_hold(server, &trainer->parked_end, wire, (uint8_t *)(uintptr_t)payload, false);
        return TR_OK;
    }
    if (is_of_another(server, wire)) {
        decline_anothers(server, trainer, wire);
        return TR_OK;
    }
    if (wire->snapshot.number > snapshot->number && tr__server_snapshot_must_wait(server)) {
        decline(server, trainer, wire);
        return TR_OK;
    }
    TR_TRY(begin_anew(server, wire));
    const bool was_given_up = wire->snapshot.number <= snapshot->number && snapshot->phase != TR__SNAPSHOT_GATHERING;
    return was_given_up ? TR_OK : take_in(server, trainer, wire, payload);
}

tr_status tr__server_on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->kind == TR_WIRE_SNAPSHOT_OVER) {
        hear_over(server, wire->snapshot_number.number);
        return TR_OK;
    }
    if (!tr__server_is_there(trainer))
        return TR_OK;                              /* the server that died had it before it left */
    if (tr__server_lags(trainer, wire->snapshot.step)) {
        decline(server, trainer, wire);
        return TR_OK;
    }
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    if (!server->store.snapshot)
        return tr_fail(TR_EUNSUPPORTED, "%s wants a checkpoint, which this server cannot write",
                       tr__server_trainer_name(server, trainer));
    return hear_snapshot(server, trainer, wire, payload);
}

/* == going on =================================================================================== */

void tr__server_snapshot_go_on(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].is_parked && !(server->snapshot.snapshot && server->snapshot.snapshot[i]))
            tr__server_unpark(server, &server->trainer[i]);
    tr__server_try_snapshot(server);
}

static void forget_snapshots(tr_server *server)
{
    for (int i = 0; server->snapshot.snapshot && i < server->trainer_count; i++)
        if (server->snapshot.snapshot[i]) {
            trireme__pserver__snapshot__free_unpacked(server->snapshot.snapshot[i], NULL);
            server->snapshot.snapshot[i] = NULL;
        }
}

void tr__server_snapshot_give_up(tr_server *server, uint32_t number)
{
    if (server->snapshot.phase == TR__SNAPSHOT_GATHERING)
        give_up(server, GIVEN_UP, false);
    if (server->snapshot.number < number)
        server->snapshot.number = number;               /* whoever cuts for it yet is too late */
}

int64_t tr__server_watch_snapshot(tr_server *server, int64_t now)
{
    static const int64_t PATIENCE = (int64_t)120e9;

    if (server->snapshot.phase != TR__SNAPSHOT_GATHERING || !is_by_all(server))
        return INT64_MAX;
    if (now - server->snapshot.begun >= PATIENCE) {
        give_up(server, "not all trainers came to the end of a step in time", true);
        tr__server_decision_moves(server);
        return INT64_MAX;
    }
    return server->snapshot.begun + PATIENCE;
}

void tr_server_snapped(tr_server *server, int64_t now)
{
    tr__snapshot *snapshot = &server->snapshot;

    snapshot->phase = TR__SNAPSHOT_WRITING;
    snapshot->pause = now > snapshot->begun ? (uint64_t)(now - snapshot->begun) : 0;
    tr__server_unpark_all(server);
    tr__server_apply_next(server);
}

/* Takes what lies in `done` for the answer, but no memory of it. */
static void pack_answer(tr_server *server, const pb_done *done)
{
    tr__snapshot *snapshot = &server->snapshot;

    free(snapshot->answer);
    snapshot->answered = snapshot->number;
    snapshot->answer_size = trireme__pserver__snapshot_done__get_packed_size(done);
    snapshot->answer = tr__must_bytes(snapshot->answer_size + 1);
    trireme__pserver__snapshot_done__pack(done, snapshot->answer);
}

static void end_snapshot(tr_server *server, pb_done *done)
{
    tr__snapshot *snapshot = &server->snapshot;

    done->pause = snapshot->pause;
    pack_answer(server, done);
    forget_snapshots(server);
    snapshot->phase = TR__SNAPSHOT_NONE;
    if (server->status == TR_OK && tr__server_is_there(&server->trainer[snapshot->initiator]) && server->trainer[snapshot->initiator].state != TR_MEMBER_VACANT)
        send_answer_to_initiator(server);
    tr__server_unpark_all(server);
    tr__server_initiator_changed(server);
}

void tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error)
{
    Trireme__Pserver__Place **places = tr__must_array((size_t)server->trainer_count + 1, sizeof *places);
    pb_done                   done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;
    uint32_t                 *left = tr__must_array((size_t)server->trainer_count + 1, sizeof *left);
    tr__snapshot                  *snapshot = &server->snapshot;

    for (int i = 0; part && i < server->trainer_count; i++) {
        Trireme__Pserver__Place *place = place_of(server, i);
        if (place)
            places[done.n_places++] = place;
        if (snapshot->place[i].had_left)
            left[done.n_left++] = (uint32_t)i;
    }
    done.places = places;
    done.left = left;
    done.has_part = part != NULL;
    done.part.data = (uint8_t *)(uintptr_t)part;
    done.part.len = size;
    done.has_tasks = part && snapshot->tasks;
    done.tasks.data = snapshot->tasks;
    done.tasks.len = done.has_tasks ? snapshot->tasks_size : 0;
    done.error = (char *)(uintptr_t)(part ? NULL : error);
    end_snapshot(server, &done);
    free(places);
    free(left);
}

/* Let everybody go on without a checkpoint; who has begun it hears of it. `is_for_good`: to begin it anew would be as long a wait again. */
static void give_up(tr_server *server, const char *why, bool is_for_good)
{
    tr__snapshot   *snapshot = &server->snapshot;
    const bool is_asked = snapshot->snapshot[snapshot->initiator] != NULL;
    pb_done    done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    done.error = (char *)(uintptr_t)why;
    done.has_given_up = true;
    done.given_up = !is_for_good;
    snapshot->phase = TR__SNAPSHOT_NONE;
    if (is_asked) {
        end_snapshot(server, &done);
        return;
    }
    forget_snapshots(server);
    tr__server_unpark_all(server);
}

void tr__server_snapshot_without(tr_server *server, const tr__trainer *trainer)
{
    if (server->snapshot.phase != TR__SNAPSHOT_GATHERING)
        return;
    if (trainer != &server->trainer[server->snapshot.initiator]) {
        tr__server_try_snapshot(server);
        return;
    }
    give_up(server, GIVEN_UP, false);              /* nobody is there to make a checkpoint of it */
}

void tr__server_snapshot_free(tr_server *server)
{
    forget_snapshots(server);
    free(server->snapshot.snapshot);
    free(server->snapshot.place);
    free(server->snapshot.answer);
    free(server->snapshot.tasks);
}
