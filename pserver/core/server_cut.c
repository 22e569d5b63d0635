/* server_cut.c - a cut: one state of the whole job, between requests.
 *
 * A trainer that cuts says so in its stream of requests, behind the end of a step. What it sends later waits here
 * ("is parked") until all living trainers have cut and their steps are settled; then the store copies its state, everybody
 * goes on, and the copy is written in the background. Every server cuts each trainer's stream at the same place,
 * so that their parts belong together.
 *
 * One trainer begins cuts, the maker (server_maker.c); a server to which it is not the one, or not any more, declines.
 *
 * In mode sync it is enough that the maker cuts: behind its step s nothing of step s + 1 can be applied without it, and the
 * servers' states depend on nothing but the step. Nobody is parked, and the copy of step s is made while the gradients of
 * the next come in. In the other modes the maker begins; acknowledgements tell the others to cut behind their next step.
 *
 * A cut goes with a server that dies: trainers that had cut there say to whoever takes its place that it is over, and nobody waits
 * there. So does the maker to all others when one has declined it: while the heir of a dead trainer has made no step none is begun
 * (server_heir.c), and acknowledgements tell the maker not to try. That word goes in front of the bound on what the maker may send: a server
 * that keeps what comes acknowledges none of it. One that is not complete in two minutes is given up: nobody waits
 * longer than that for a trainer that computes.
 *
 * No deadlock: a trainer that is parked counts neither as the slowest (ssp), so that at a cut others may come one step
 * further ahead, or two where parameters overtake the word of the cut, and as many again where a rank dies and it is begun anew at once, by its
 * maker or by the next one; nor as one to wait for (sync with backups). A step that sync(backups) has neither applied nor dropped
 * stays out of the copy, as if it were dropped.
 *
 * What must stay true: a trainer begins a cut when it has all answers to its one before. */
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <stdlib.h>
#include <string.h>

typedef Trireme__Pserver__Cut     pb_cut;
typedef Trireme__Pserver__CutDone pb_done;

static bool is_by_all(const tr_server *server)
{
    return server->policy.snapshots_all;
}

bool tr__server_cut_is_decided(const tr_server *server)
{
    return is_by_all(server) && tr__server_has_verdicts(server);
}

bool tr__server_is_moving(const tr__trainer *trainer)
{
    return !tr_membership_is_over(trainer->state) && !trainer->is_parked;
}

uint32_t tr__server_cut_wanted(const tr_server *server)
{
    return is_by_all(server) && server->cut.phase == TR__CUT_GATHERING ? server->cut.number : 0;
}

void tr__server_tell_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        server->trainer[i].owes_ack |= is_by_all(server) && !tr_membership_is_over(server->trainer[i].state) &&
                                       server->trainer[i].state != TR_MEMBER_VACANT;
}

bool tr__server_cut_must_wait(const tr_server *server)
{
    return is_by_all(server) && tr__server_awaits_heir(server);
}

static void give_up(tr_server *server, const char *why, bool is_for_good);

/* To be begun anew. */
static const char *const GIVEN_UP = "it was given up, since another rank died, or gave it up";

/* == gathering ================================================================================= */

/* Has it said that its steps are over? */
static bool has_left(const tr__trainer *trainer)
{
    return trainer->state == TR_MEMBER_DRAINING || trainer->state == TR_MEMBER_LEFT;
}

/* Is everything in the state that trainers have made which are gone? And is it known where that was? A server that has taken a dead one's
 * place hears it again from who stays. */
static bool has_all_of_the_gone(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if ((has_left(t) && t->settled < t->ended) || (t->state == TR_MEMBER_DRAINING && !t->farewell))
            return false;
    }
    return true;
}

bool tr__server_cut_is_gathered(const tr_server *server)
{
    const tr__cut *cut = &server->cut;

    if (cut->phase != TR__CUT_GATHERING || !cut->cut[cut->maker])
        return false;
    for (int i = 0; is_by_all(server) && i < server->trainer_count; i++)
        if (!cut->cut[i] && !tr_membership_is_over(server->trainer[i].state))
            return false;
    return !tr_membership_is_over(server->trainer[cut->maker].state) || has_all_of_the_gone(server);
}

static bool is_ready(const tr_server *server)
{
    const tr__verdicts *v = &server->verdicts;

    if (server->queued || !tr__server_cut_is_gathered(server))
        return false;
    if (tr__server_cut_is_decided(server))
        return v->cut == server->cut.number && v->cut_update == server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        if (server->cut.cut[i] && server->trainer[i].settled < server->trainer[i].ended)
            return false;
    return true;
}

tr_status tr__server_note_farewell(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!wire->bytes || trainer->farewell)
        return TR_OK;                              /* a job without checkpoints */
    trainer->farewell = trireme__pserver__cut__unpack(NULL, wire->bytes, payload);
    if (trainer->farewell)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "the goodbye of %s is damaged", tr__server_trainer_name(server, trainer));
}

/* Who has left is where it was then, when all that it did is in the state. */
static void note_who_left(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        server->cut.place[i].had_left = has_left(t) && t->settled == t->ended;
    }
}

/* Where the maker cuts alone all are where it is, unless a trainer has died and the job was started again: then some may have made more steps
 * than others, always the same number. */
static void note_who_is_apart(tr_server *server)
{
    const tr__trainer             *maker = &server->trainer[server->cut.maker];
    const Trireme__Pserver__Place *of_maker = server->cut.cut[server->cut.maker]->place;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        tr__cut_place     *place = &server->cut.place[i];
        const uint64_t     more = t->settled - maker->settled;     /* modulo 2^64, as the sums below */
        place->is_apart = more && !is_by_all(server) && !tr_membership_is_over(t->state) && !tr_membership_is_over(maker->state);
        place->apart = (Trireme__Pserver__Place)TRIREME__PSERVER__PLACE__INIT;
        place->apart.index = (uint32_t)i;
        place->apart.steps = of_maker->steps + more;
        place->apart.runs = of_maker->runs + more;
        place->is_apart &= (int64_t)place->apart.steps >= 0 && (int64_t)place->apart.runs >= 0;
    }
}

/* Where it is in the cut; NULL: it is lost, or has not said again where it was when it left; or it is where the maker is. */
static Trireme__Pserver__Place *place_of(const tr_server *server, int trainer)
{
    const tr__trainer *t = &server->trainer[trainer];
    tr__cut_place     *place = &server->cut.place[trainer];

    if (server->cut.cut[trainer])
        return server->cut.cut[trainer]->place;
    if (place->is_apart)
        return &place->apart;
    return place->had_left && t->farewell ? t->farewell->place : NULL;
}

void tr__server_try_cut(tr_server *server)
{
    if (!is_ready(server) || !tr__server_copy_makes_way(server))
        return;
    server->cut.phase = TR__CUT_TAKING;
    note_who_left(server);
    note_who_is_apart(server);
    free(server->cut.tasks);
    server->cut.tasks = tr__server_tasks_pack(server, &server->cut.tasks_size);
    server->store.snapshot(server->store.self, server->cut.cut[server->cut.maker]->wish);
}

static tr_status begin(tr_server *server, uint32_t number, int maker)
{
    tr__cut *cut = &server->cut;

    if (!cut->cut)
        cut->cut = calloc((size_t)server->trainer_count, sizeof *cut->cut);
    if (!cut->place)
        cut->place = calloc((size_t)server->trainer_count, sizeof *cut->place);
    if (!cut->cut || !cut->place)
        return tr_fail(TR_ENOMEM, "no memory for a checkpoint");
    cut->phase = TR__CUT_GATHERING;
    cut->number = number;
    cut->maker = maker;
    cut->maker_epoch = server->trainer[maker].epoch;
    cut->begun = server->now;
    tr__server_tell_all(server);
    return TR_OK;
}

/* Takes `answer`, a packed CutDone, over. */
static void send_answer(tr_server *server, const tr__trainer *to, uint32_t number, uint8_t *answer, size_t size)
{
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = to->rank, .payload = answer, .owned = answer,
        .wire = {.kind = TR_WIRE_SNAPSHOT_DONE, .epoch = to->epoch, .sender = (uint32_t)server->roster->self,
                 .bytes = size, .snapshot_number = {.number = number}}});
}

static void send_answer_to_maker(tr_server *server)
{
    const tr__cut *cut = &server->cut;

    send_answer(server, &server->trainer[cut->maker], cut->number, memcpy(malloc(cut->answer_size + 1), cut->answer, cut->answer_size),
                cut->answer_size);
}

/* There will be no part of the cut that this trainer has begun. */
static void refuse(tr_server *server, const tr__trainer *trainer, uint32_t number, const char *why)
{
    pb_done done = TRIREME__PSERVER__CUT_DONE__INIT;

    done.error = (char *)(uintptr_t)why;
    done.has_given_up = done.given_up = true;
    uint8_t *answer = malloc(trireme__pserver__cut_done__get_packed_size(&done) + 1);
    send_answer(server, trainer, number, answer, trireme__pserver__cut_done__pack(&done, answer));
}

static bool begins(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    return wire->snapshot.coordinator == (uint32_t)(trainer - server->trainer);
}

/* Who asks again for its cut has not got the answer, which may be on its way. */
static bool has_asked_before(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const tr__cut *cut = &server->cut;

    if (wire->snapshot.number > cut->number || !begins(server, trainer, wire))
        return false;
    if (wire->snapshot.number < cut->number || (uint32_t)cut->maker != wire->snapshot.coordinator) {
        refuse(server, trainer, wire->snapshot.number, "it came too late");
        return true;
    }
    if (cut->phase == TR__CUT_GATHERING && !cut->cut[cut->maker])
        return false;
    if (cut->phase == TR__CUT_NONE && cut->answered == wire->snapshot.number)
        send_answer_to_maker(server);
    else if (cut->phase == TR__CUT_NONE)
        refuse(server, trainer, wire->snapshot.number, GIVEN_UP);
    return true;
}

static pb_cut *parse(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    pb_cut *cut = trireme__pserver__cut__unpack(NULL, wire->bytes, payload);

    if (cut && (cut->wish != NULL) == begins(server, trainer, wire))
        return cut;
    if (cut)
        trireme__pserver__cut__free_unpacked(cut, NULL);
    return NULL;
}

/* An heir is awaited: all would wait for it. Or a step of its own is here and not on every other server: that would be no state of the job. */
static void decline(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->snapshot.number > server->cut.number || server->cut.phase == TR__CUT_GATHERING)
        tr__server_cut_give_up(server, wire->snapshot.number);
    if (begins(server, trainer, wire))
        refuse(server, trainer, wire->snapshot.number, "a spare is taking a dead trainer's place, and has made no step yet");
    tr__server_verdict_moves(server);
}

/* Another trainer begins cuts, or nobody: who has begun this one has lost its place, or has not got it here. */
static bool is_of_another(const tr_server *server, const tr_wire *wire)
{
    const int maker = tr__server_maker(server);

    return maker < 0 || wire->snapshot.coordinator != (uint32_t)maker || server->trainer[maker].state == TR_MEMBER_VACANT;
}

static void decline_anothers(tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->snapshot.number > server->cut.number)
        tr__server_cut_give_up(server, wire->snapshot.number);
    if (begins(server, trainer, wire))
        refuse(server, trainer, wire->snapshot.number, "another trainer makes checkpoints");
    tr__server_verdict_moves(server);
}

/* This server has taken a dead one's place: trainers that had cut there do not cut here. Or another server has declined it. */
static void hear_over(tr_server *server, uint32_t number)
{
    if (number < server->cut.number || server->cut.phase == TR__CUT_TAKING || server->cut.phase == TR__CUT_WRITING)
        return;
    tr__server_cut_give_up(server, number);
    tr__server_verdict_moves(server);
}

/* Another one has begun the cut before, which is being taken; or the state is frozen for a replica. */
static bool is_early(const tr_server *server, const tr_wire *wire)
{
    const bool is_taking = server->cut.phase == TR__CUT_TAKING || server->cut.phase == TR__CUT_WRITING;

    return server->mirror.is_freezing || (wire->snapshot.number > server->cut.number && is_taking);
}

/* The first word of a cut. */
static tr_status begin_anew(tr_server *server, const tr_wire *wire)
{
    if (wire->snapshot.number <= server->cut.number)
        return TR_OK;
    if (server->cut.phase == TR__CUT_GATHERING)
        give_up(server, GIVEN_UP, false);
    return server->cut.phase == TR__CUT_NONE ? begin(server, wire->snapshot.number, (int)wire->snapshot.coordinator) : TR_OK;
}

static tr_status take_in(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    tr__cut  *cut = &server->cut;
    const int index = (int)(trainer - server->trainer);

    if (wire->snapshot.number != cut->number || cut->phase != TR__CUT_GATHERING || cut->cut[index] || trainer->pushed_count)
        return tr_fail(TR_EPEER, "%s cut number %u in the middle of something (number %u here, %llu pieces of step %llu)",
                       tr__server_trainer_name(server, trainer), wire->snapshot.number, cut->number,
                       (unsigned long long)trainer->pushed_count, (unsigned long long)trainer->ended + 1);
    cut->cut[index] = parse(server, trainer, wire, payload);
    if (!cut->cut[index])
        return tr_fail(TR_EFORMAT, "the cut of %s is damaged", tr__server_trainer_name(server, trainer));
    trainer->is_parked = is_by_all(server) && !tr_membership_is_over(trainer->state);
    if (is_by_all(server))
        tr__server_fewer_move(server);             /* others need not wait for it now */
    tr__server_try_cut(server);
    return TR_OK;
}

/* Of a trainer that is there, behind its step. */
static tr_status hear_cut(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr__cut *cut = &server->cut;

    if (has_asked_before(server, trainer, wire) || wire->snapshot.number < cut->number)
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
    if (wire->snapshot.number > cut->number && tr__server_cut_must_wait(server)) {
        decline(server, trainer, wire);
        return TR_OK;
    }
    TR_TRY(begin_anew(server, wire));
    const bool was_given_up = wire->snapshot.number <= cut->number && cut->phase != TR__CUT_GATHERING;
    return was_given_up ? TR_OK : take_in(server, trainer, wire, payload);
}

tr_status tr__server_on_cut(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
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
    return hear_cut(server, trainer, wire, payload);
}

/* == going on =================================================================================== */

void tr__server_cut_go_on(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->trainer[i].is_parked && !(server->cut.cut && server->cut.cut[i]))
            tr__server_unpark(server, &server->trainer[i]);
    tr__server_try_cut(server);
}

static void forget_cuts(tr_server *server)
{
    for (int i = 0; server->cut.cut && i < server->trainer_count; i++)
        if (server->cut.cut[i]) {
            trireme__pserver__cut__free_unpacked(server->cut.cut[i], NULL);
            server->cut.cut[i] = NULL;
        }
}

void tr__server_cut_give_up(tr_server *server, uint32_t number)
{
    if (server->cut.phase == TR__CUT_GATHERING)
        give_up(server, GIVEN_UP, false);
    if (server->cut.number < number)
        server->cut.number = number;               /* whoever cuts for it yet is too late */
}

int64_t tr__server_watch_cut(tr_server *server, int64_t now)
{
    static const int64_t PATIENCE = (int64_t)120e9;

    if (server->cut.phase != TR__CUT_GATHERING || !is_by_all(server))
        return INT64_MAX;
    if (now - server->cut.begun >= PATIENCE) {
        give_up(server, "not all trainers came to the end of a step in time", true);
        tr__server_verdict_moves(server);
        return INT64_MAX;
    }
    return server->cut.begun + PATIENCE;
}

void tr_server_snapped(tr_server *server, int64_t now)
{
    tr__cut *cut = &server->cut;

    cut->phase = TR__CUT_WRITING;
    cut->pause = now > cut->begun ? (uint64_t)(now - cut->begun) : 0;
    tr__server_unpark_all(server);
    tr__server_apply_next(server);
}

/* Takes what lies in `done` for the answer, but no memory of it. */
static void pack_answer(tr_server *server, const pb_done *done)
{
    tr__cut *cut = &server->cut;

    free(cut->answer);
    cut->answered = cut->number;
    cut->answer_size = trireme__pserver__cut_done__get_packed_size(done);
    cut->answer = malloc(cut->answer_size + 1);
    trireme__pserver__cut_done__pack(done, cut->answer);
}

static void end_cut(tr_server *server, pb_done *done)
{
    tr__cut *cut = &server->cut;

    done->pause = cut->pause;
    pack_answer(server, done);
    forget_cuts(server);
    cut->phase = TR__CUT_NONE;
    if (server->status == TR_OK && tr__server_is_there(&server->trainer[cut->maker]) && server->trainer[cut->maker].state != TR_MEMBER_VACANT)
        send_answer_to_maker(server);
    tr__server_unpark_all(server);
    tr__server_maker_moves(server);
}

void tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error)
{
    Trireme__Pserver__Place **places = calloc((size_t)server->trainer_count + 1, sizeof *places);
    pb_done                   done = TRIREME__PSERVER__CUT_DONE__INIT;
    uint32_t                 *left = calloc((size_t)server->trainer_count + 1, sizeof *left);
    tr__cut                  *cut = &server->cut;

    for (int i = 0; part && i < server->trainer_count; i++) {
        Trireme__Pserver__Place *place = place_of(server, i);
        if (place)
            places[done.n_places++] = place;
        if (cut->place[i].had_left)
            left[done.n_left++] = (uint32_t)i;
    }
    done.places = places;
    done.left = left;
    done.has_part = part != NULL;
    done.part.data = (uint8_t *)(uintptr_t)part;
    done.part.len = size;
    done.has_tasks = part && cut->tasks;
    done.tasks.data = cut->tasks;
    done.tasks.len = done.has_tasks ? cut->tasks_size : 0;
    done.error = (char *)(uintptr_t)(part ? NULL : error);
    end_cut(server, &done);
    free(places);
    free(left);
}

/* Let everybody go on without a checkpoint; who has begun it hears of it. `is_for_good`: to begin it anew would be as long a wait again. */
static void give_up(tr_server *server, const char *why, bool is_for_good)
{
    tr__cut   *cut = &server->cut;
    const bool is_asked = cut->cut[cut->maker] != NULL;
    pb_done    done = TRIREME__PSERVER__CUT_DONE__INIT;

    done.error = (char *)(uintptr_t)why;
    done.has_given_up = true;
    done.given_up = !is_for_good;
    cut->phase = TR__CUT_NONE;
    if (is_asked) {
        end_cut(server, &done);
        return;
    }
    forget_cuts(server);
    tr__server_unpark_all(server);
}

void tr__server_cut_without(tr_server *server, const tr__trainer *trainer)
{
    if (server->cut.phase != TR__CUT_GATHERING)
        return;
    if (trainer != &server->trainer[server->cut.maker]) {
        tr__server_try_cut(server);
        return;
    }
    give_up(server, GIVEN_UP, false);              /* nobody is there to make a checkpoint of it */
}

void tr__server_cut_free(tr_server *server)
{
    forget_cuts(server);
    free(server->cut.cut);
    free(server->cut.place);
    free(server->cut.answer);
    free(server->cut.tasks);
}
