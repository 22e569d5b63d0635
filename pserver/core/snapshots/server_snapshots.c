/* server_snapshots.c - see server_snapshots.h. */
#include "pserver/core/snapshots/server_snapshots.h"

#include "framework/base/memory.h"
#include "pserver/core/snapshots/server_places.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

#include <stdlib.h>
#include <string.h>

typedef Trireme__Pserver__Snapshot     pb_snapshot;
typedef Trireme__Pserver__SnapshotDone pb_done;

struct tr__snapshots {
    tr__snapshot_phase phase;
    int                initiator;     /* the trainer that has begun it */
    uint32_t           initiator_incarnation;
    uint64_t          *step;          /* of each trainer: its last step in the snapshot, where the initiator takes part alone */
    int64_t            begun;         /* when the first trainer took part */
    uint64_t           updates;       /* updates of this server in the copied state */
    uint64_t           pause;         /* nanoseconds from `begun` until the state was copied */
    pb_snapshot      **part;          /* of each trainer: its SNAPSHOT; NULL: it has not taken part */
    void              *tasks;         /* state of the leased tasks at the moment of the snapshot, or NULL */
    size_t             tasks_size;
    uint8_t           *answer;        /* the last SnapshotDone, packed, */
    size_t             answer_size;
    uint32_t           answered;      /* the number of that snapshot */
};

/* The reason in SNAPSHOT_DONE by which the initiator knows that it should begin a new snapshot. */
static const char *const GIVEN_UP = "it was given up, since another rank died, or gave it up";

static void give_up(tr_server *server, const char *why, bool is_for_good);

/* == life ====================================================================================== */

void tr__snapshots_new(tr_server *server)
{
    tr__snapshots *s = server->snapshots = tr__must_alloc(sizeof *s);

    s->part = tr__must_array((size_t)server->trainer_count, sizeof(pb_snapshot *));
    s->step = tr__must_array((size_t)server->trainer_count, sizeof *s->step);
}

static void forget_parts(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->snapshots->part[i]) {
            trireme__pserver__snapshot__free_unpacked(server->snapshots->part[i], NULL);
            server->snapshots->part[i] = NULL;
        }
}

void tr__snapshots_free(tr_server *server)
{
    forget_parts(server);
    free(server->snapshots->part);
    free(server->snapshots->step);
    free(server->snapshots->answer);
    free(server->snapshots->tasks);
    free(server->snapshots);
}

/* == what others see =========================================================================== */

tr__snapshot_phase tr__snapshots_phase(const tr_server *server)
{
    return server->snapshots->phase;
}

/* Is the state being copied or written? */
static bool is_pending(const tr_server *server)
{
    return server->snapshots->phase == TR__SNAPSHOT_TAKING || server->snapshots->phase == TR__SNAPSHOT_WRITING;
}

uint32_t tr__snapshots_number(const tr_server *server)
{
    return server->newest_snapshot;
}

uint64_t tr__snapshots_step(const tr_server *server, const tr__trainer *trainer)
{
    return server->snapshots->step[trainer->index];
}

static bool is_by_all(const tr_server *server)
{
    return server->policy.snapshots_all;
}

bool tr__snapshots_are_decided(const tr_server *server)
{
    return is_by_all(server);
}

uint32_t tr__snapshots_wanted(const tr_server *server)
{
    return is_by_all(server) && server->snapshots->phase == TR__SNAPSHOT_GATHERING ? server->newest_snapshot : 0;
}

void tr__snapshots_tell_all(tr_server *server)
{
    if (is_by_all(server))
        tr__streams_owe_all(server);
}

bool tr__snapshots_are_anothers(const tr_server *server, int initiator)
{
    const tr__snapshots *s = server->snapshots;

    return is_pending(server) &&
           (s->initiator != initiator || s->initiator_incarnation != server->trainer[initiator].incarnation);
}

bool tr__snapshots_must_wait(const tr_server *server)
{
    return is_by_all(server) && tr__server_awaits_replacement(server);
}

/* == gathering ================================================================================= */

bool tr__snapshots_are_gathered(const tr_server *server)
{
    const tr__snapshots *s = server->snapshots;

    if (s->phase != TR__SNAPSHOT_GATHERING || !s->part[s->initiator])
        return false;
    for (int i = 0; is_by_all(server) && i < server->trainer_count; i++)
        if (!s->part[i] && !tr_membership_is_over(server->trainer[i].state))
            return false;
    return !tr_membership_is_over(server->trainer[s->initiator].state) || tr__places_are_complete(server);
}

bool tr__snapshots_may_take(const tr_server *server)
{
    const tr__snapshots       *s = server->snapshots;
    const tr_decided_snapshot *decided = &server->decided.snapshot;

    if (tr__updates_queued(server) || !tr__snapshots_are_gathered(server))
        return false;
    if (tr__snapshots_are_decided(server) && (decided->number != server->newest_snapshot || !decided->is_taken))
        return false;
    if (tr__server_decides_updates(server) && tr__snapshots_are_decided(server))
        return decided->update == server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        if (s->part[i] && server->trainer[i].settled < server->trainer[i].ended)
            return false;
    return true;
}

void tr__snapshots_take(tr_server *server)
{
    tr__snapshots *s = server->snapshots;
    bool          *has_taken_part = tr__must_array((size_t)server->trainer_count, sizeof *has_taken_part);

    for (int i = 0; i < server->trainer_count; i++)
        has_taken_part[i] = s->part[i];
    s->phase = TR__SNAPSHOT_TAKING;
    s->updates = server->updates;
    tr__places_record(server, s->part, s->initiator);
    free(s->tasks);
    s->tasks = tr__tasks_pack(server, has_taken_part, &s->tasks_size);
    free(has_taken_part);
    tr_effects_add(&server->effects, TR_EFFECT_SNAPSHOT);
}

const Trireme__Pserver__SnapshotTarget *tr__snapshots_target(const tr_server *server)
{
    return server->snapshots->part[server->snapshots->initiator]->target;
}

/* A snapshot has this number, or is given up that had it. Acknowledgements tell it to trainers. It is committed before they leave: a
 * successor of this server must not give it to another snapshot. */
static void raise_number(tr_server *server, uint32_t number)
{
    if (number <= server->newest_snapshot)
        return;
    server->newest_snapshot = number;
    tr__replication_commit(server);
}

/* Begin a snapshot. Where the initiator takes part alone, acknowledgements tell each other trainer its number and this trainer's last step
 * in it. */
static void begin(tr_server *server, const tr_form_snapshot *word)
{
    tr__snapshots *s = server->snapshots;

    s->phase = TR__SNAPSHOT_GATHERING;
    raise_number(server, word->number);
    for (int i = 0; i < server->trainer_count; i++)
        s->step[i] = is_by_all(server) ? word->step : tr__places_step(&server->trainer[i], &server->trainer[word->initiator]);
    s->initiator = (int)word->initiator;
    s->initiator_incarnation = server->trainer[word->initiator].incarnation;
    s->begun = server->now;
    tr__streams_owe_all(server);
}

/* == answers =================================================================================== */

/* Takes `answer`, a packed SnapshotDone, over. */
static void send_answer(tr_server *server, const tr__trainer *to, uint32_t number, uint8_t *answer, size_t size)
{
    tr__server_send(
        server, to->rank,
        (tr_wire){.kind = TR_WIRE_SNAPSHOT_DONE, .incarnation = to->incarnation, .bytes = size, .snapshot_number = {.number = number}},
        answer);
}

static void send_answer_to_initiator(tr_server *server)
{
    const tr__snapshots *s = server->snapshots;

    send_answer(server, &server->trainer[s->initiator], server->newest_snapshot,
                memcpy(tr__must_bytes(s->answer_size + 1), s->answer, s->answer_size), s->answer_size);
}

/* Tell the trainer that this server will write no part of the snapshot that this trainer began. */
static void refuse(tr_server *server, const tr__trainer *trainer, uint32_t number, const char *why)
{
    pb_done done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    done.error = (char *)(uintptr_t)why;
    done.has_given_up = done.given_up = true;
    uint8_t *answer = tr__must_bytes(trireme__pserver__snapshot_done__get_packed_size(&done) + 1);
    send_answer(server, trainer, number, answer, trireme__pserver__snapshot_done__pack(&done, answer));
}

/* == SNAPSHOT ================================================================================== */

static bool begins(const tr__trainer *trainer, const tr_wire *wire)
{
    return wire->snapshot.initiator == (uint32_t)trainer->index;
}

/* Is this SNAPSHOT a repetition of the initiator, whose answer may have been lost? Then answer it again, if the answer is known. */
static bool has_asked_before(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__snapshots *s = server->snapshots;

    if (wire->snapshot.number > server->newest_snapshot || !begins(trainer, wire))
        return false;
    if (wire->snapshot.number < server->newest_snapshot || (uint32_t)s->initiator != wire->snapshot.initiator) {
        refuse(server, trainer, wire->snapshot.number, "it came too late");
        return true;
    }
    if (s->phase == TR__SNAPSHOT_GATHERING && !s->part[s->initiator])
        return false;
    if (s->phase == TR__SNAPSHOT_NONE && s->answered == wire->snapshot.number)
        send_answer_to_initiator(server);
    else if (s->phase == TR__SNAPSHOT_NONE)
        refuse(server, trainer, wire->snapshot.number, GIVEN_UP);
    return true;
}

static pb_snapshot *parse(const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    pb_snapshot *snapshot = trireme__pserver__snapshot__unpack(NULL, wire->bytes, payload);

    if (snapshot && (snapshot->target != NULL) == begins(trainer, wire))
        return snapshot;
    if (snapshot)
        trireme__pserver__snapshot__free_unpacked(snapshot, NULL);
    return NULL;
}

/* Decline a snapshot. Its initiator gets the reason. */
static void decline(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const char *why)
{
    tr__snapshots_give_up(server, wire->snapshot.number);
    if (begins(trainer, wire))
        refuse(server, trainer, wire->snapshot.number, why);
    tr__server_due(server, TR__RULE_DECIDE);
}

/* Decline a snapshot because a replacement has made no step: all trainers would wait for it. Or decline it because this server has a step
 * of the trainer that other servers lack, so that the parts would not belong together. */
static void decline_for_replacement(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    decline(server, trainer, wire, "a standby is taking a dead trainer's place, and has made no step yet");
}

/* Was this snapshot begun by a trainer that is not the initiator for this server? It may have been the initiator, or may become it. */
static bool is_of_another(const tr_server *server, const tr_wire *wire)
{
    const int initiator = tr__server_initiator(server);

    return initiator < 0 || wire->snapshot.initiator != (uint32_t)initiator || server->trainer[initiator].state == TR_MEMBER_VACANT;
}

static void decline_anothers(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->snapshot.number > server->newest_snapshot)
        tr__snapshots_give_up(server, wire->snapshot.number);
    if (begins(trainer, wire))
        refuse(server, trainer, wire->snapshot.number, "another trainer makes checkpoints");
    tr__server_due(server, TR__RULE_DECIDE);
}

/* The first SNAPSHOT with a new number: give up an older snapshot that is being gathered, and begin this one. */
static void begin_anew(tr_server *server, const tr_wire *wire)
{
    if (wire->snapshot.number <= server->newest_snapshot)
        return;
    if (server->snapshots->phase == TR__SNAPSHOT_GATHERING)
        give_up(server, GIVEN_UP, false);
    if (server->snapshots->phase == TR__SNAPSHOT_NONE)
        begin(server, &wire->snapshot);
}

static tr_status take_in(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr__snapshots *s = server->snapshots;
    const uint64_t begun = tr__contributions_begun(server, trainer);

    if (wire->snapshot.number != server->newest_snapshot || s->phase != TR__SNAPSHOT_GATHERING || s->part[trainer->index] || begun)
        return tr_fail(TR_EPEER, "%s takes part in snapshot %u in the middle of something (number %u here, %llu pieces of step %llu)",
                       tr__server_trainer_name(server, trainer), wire->snapshot.number, server->newest_snapshot,
                       (unsigned long long)begun, (unsigned long long)trainer->ended + 1);
    s->part[trainer->index] = parse(trainer, wire, payload);
    if (!s->part[trainer->index])
        return tr_fail(TR_EFORMAT, "the snapshot of %s is damaged", tr__server_trainer_name(server, trainer));
    if (is_by_all(server) && !tr_membership_is_over(trainer->state))
        tr__stream_park(server, trainer);
    tr__server_due(server, TR__RULE_SNAPSHOT);
    tr__server_due(server, TR__RULE_ANSWER);       /* pulls need not wait for this parked trainer */
    tr__server_due(server, TR__RULE_DECIDE);
    return TR_OK;
}

/* Must this SNAPSHOT wait: is the state being frozen for a replica, or is an older snapshot being copied or written? */
static bool is_early(const tr_server *server, const tr_wire *wire, bool must_wait)
{
    return must_wait || (wire->snapshot.number > server->newest_snapshot && is_pending(server));
}

/* Handle the SNAPSHOT of a trainer that has not left, after its step. */
static tr_status on_word(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload, bool must_wait)
{
    const tr__snapshots *s = server->snapshots;

    if (has_asked_before(server, trainer, wire) || wire->snapshot.number < server->newest_snapshot)
        return TR_OK;
    if (is_early(server, wire, must_wait)) {
        tr__stream_park(server, trainer);
        tr__stream_defer(server, trainer, wire, (uint8_t *)(uintptr_t)payload, false);
        return TR_OK;
    }
    if (is_of_another(server, wire)) {
        decline_anothers(server, trainer, wire);
        return TR_OK;
    }
    if (wire->snapshot.number > server->newest_snapshot && tr__snapshots_must_wait(server)) {
        decline_for_replacement(server, trainer, wire);
        return TR_OK;
    }
    begin_anew(server, wire);
    const bool was_given_up = wire->snapshot.number <= server->newest_snapshot && s->phase != TR__SNAPSHOT_GATHERING;
    return was_given_up ? TR_OK : take_in(server, trainer, wire, payload);
}

tr_status tr__snapshots_on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload, bool must_wait)
{
    if (!tr__server_is_present(trainer))
        return TR_OK;                              /* a dead server had taken it before the trainer left */
    if (tr__server_lags(trainer, wire->snapshot.step)) {
        decline_for_replacement(server, trainer, wire);
        return TR_OK;
    }
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    if (!server->store.snapshot)
        return tr_fail(TR_EUNSUPPORTED, "%s wants a checkpoint, which this server cannot write",
                       tr__server_trainer_name(server, trainer));
    return on_word(server, trainer, wire, payload, must_wait);
}

/* == the end of a snapshot ===================================================================== */

void tr__snapshots_resume(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (!server->snapshots->part[i])
            tr__stream_unpark(server, &server->trainer[i]);
    tr__server_due(server, TR__RULE_SNAPSHOT);
}

void tr__snapshots_copied(tr_server *server)
{
    tr__snapshots *s = server->snapshots;

    s->phase = TR__SNAPSHOT_WRITING;
    s->pause = server->now > s->begun ? (uint64_t)(server->now - s->begun) : 0;
    tr__streams_unpark_all(server);
    tr__server_due(server, TR__RULE_BEGIN);
}

/* Pack and store the answer. The content of `done` stays the caller's. */
static void pack_answer(tr_server *server, const pb_done *done)
{
    tr__snapshots *s = server->snapshots;

    free(s->answer);
    s->answered = server->newest_snapshot;
    s->answer_size = trireme__pserver__snapshot_done__get_packed_size(done);
    s->answer = tr__must_bytes(s->answer_size + 1);
    trireme__pserver__snapshot_done__pack(done, s->answer);
}

/* The snapshot is over: unpark all trainers, and let the initiator begin the next one. */
static void end(tr_server *server)
{
    forget_parts(server);
    server->snapshots->phase = TR__SNAPSHOT_NONE;
    tr__streams_unpark_all(server);
    tr__server_due(server, TR__RULE_COPY);
}

static void end_with(tr_server *server, pb_done *done)
{
    tr__snapshots     *s = server->snapshots;
    const tr__trainer *initiator = &server->trainer[s->initiator];

    done->pause = s->pause;
    pack_answer(server, done);
    end(server);
    if (server->status == TR_OK && tr__server_is_present(initiator) && initiator->state != TR_MEMBER_VACANT)
        send_answer_to_initiator(server);
    tr__server_due(server, TR__RULE_INITIATOR);
}

void tr__snapshots_written(tr_server *server, const uint8_t *part, size_t size, const char *error)
{
    const tr__snapshots *s = server->snapshots;
    pb_done              done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    if (part)
        tr__places_fill(server, &done);
    uint32_t                 *left = done.left;
    Trireme__Pserver__Place **places = done.places;
    done.has_part = done.has_updates = part != NULL;
    done.updates = s->updates;
    done.part = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)part};
    done.has_tasks = part && s->tasks;
    done.tasks = (ProtobufCBinaryData){done.has_tasks ? s->tasks_size : 0, s->tasks};
    done.error = (char *)(uintptr_t)(part ? NULL : error);
    end_with(server, &done);
    free(places);
    free(left);
}

/* Give up the snapshot, and let all trainers continue. The initiator gets the reason. `is_for_good`: another attempt would take as long
 * again, so the initiator should not retry. */
static void give_up(tr_server *server, const char *why, bool is_for_good)
{
    tr__snapshots *s = server->snapshots;
    pb_done        done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    if (!s->part[s->initiator]) {
        end(server);
        return;
    }
    done.error = (char *)(uintptr_t)why;
    done.has_given_up = true;
    done.given_up = !is_for_good;
    end_with(server, &done);
}

void tr__snapshots_give_up(tr_server *server, uint32_t number)
{
    if (server->snapshots->phase == TR__SNAPSHOT_GATHERING)
        give_up(server, GIVEN_UP, false);
    raise_number(server, number);                  /* a SNAPSHOT with this number comes too late from now on */
}

void tr__snapshots_without(tr_server *server, const tr__trainer *trainer)
{
    if (server->snapshots->phase != TR__SNAPSHOT_GATHERING)
        return;
    tr__server_due(server, TR__RULE_SNAPSHOT);
    if (trainer->index == server->snapshots->initiator)
        give_up(server, GIVEN_UP, false);          /* its initiator, which writes the manifest, has left */
}

int64_t tr__snapshots_tick(tr_server *server, int64_t now)
{
    static const int64_t PATIENCE = (int64_t)120e9;
    const tr__snapshots *s = server->snapshots;

    if (s->phase != TR__SNAPSHOT_GATHERING || !is_by_all(server))
        return INT64_MAX;
    if (now - s->begun < PATIENCE)
        return s->begun + PATIENCE;
    give_up(server, "not all trainers came to the end of a step in time", true);
    tr__server_due(server, TR__RULE_DECIDE);
    return INT64_MAX;
}
