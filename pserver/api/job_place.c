/* job_place.c - see job_place.h. */
#include "pserver/api/job_place.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The place after one step of the job. */
typedef struct spot {
    bool             is_known;
    int64_t          step;
    tr_trainer_state state;
} spot;

struct tr__place {
    const tr__rank *rank;
    pthread_mutex_t lock;             /* guards all fields from `first_step` on */
    int64_t          first_step, first_run, period;
    spot            after[2];        /* the places after even steps and after odd steps */
};

tr__place *tr__place_new(const tr__rank *rank)
{
    tr__place *p = tr__must_alloc(sizeof *p);

    p->rank = rank;
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void tr__place_free(tr__place *p)
{
    if (!p)
        return;
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)p->after[i].state.position);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* == packing the place =========================================================================== */

uint8_t *tr__place_pack(size_t *size, const tr_trainer_state *state, Trireme__Pserver__SnapshotTarget *target)
{
    Trireme__Pserver__Snapshot   snapshot = TRIREME__PSERVER__SNAPSHOT__INIT;
    Trireme__Pserver__Place p = TRIREME__PSERVER__PLACE__INIT;

    p.index = (uint32_t)state->index;
    p.steps = (uint64_t)state->steps;
    p.runs = (uint64_t)state->runs;
    p.has_position = state->position != NULL;
    p.position.data = (uint8_t *)(uintptr_t)state->position;
    p.position.len = state->position_size;
    snapshot.place = &p;
    snapshot.target = target;
    *size = trireme__pserver__snapshot__get_packed_size(&snapshot);
    uint8_t *bytes = tr__must_alloc(*size + 1);
    trireme__pserver__snapshot__pack(&snapshot, bytes);
    return bytes;
}

/* Compute the trainer's place from its steps in this job. In mode geo the job counts exchanges. */
static tr_trainer_state place_at(const tr__place *p, int64_t step)
{
    step *= p->period;
    return (tr_trainer_state){.steps = p->first_step + step, .runs = p->first_run + step};
}

/* Pack the place after this step, when the trainer takes part in another trainer's snapshot. */
static uint8_t *pack_later_place(void *self, size_t *size, uint64_t step)
{
    tr__place       *p = self;
    const tr_roster *roster = tr_comm_roster(p->rank->comm);

    pthread_mutex_lock(&p->lock);
    const spot      *at = &p->after[step % 2];
    tr_trainer_state state = at->is_known && at->step == (int64_t)step ? at->state : place_at(p, (int64_t)step);
    state.index = roster->rank[roster->self].index;
    uint8_t *bytes = tr__place_pack(size, &state, NULL);
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

void tr__place_watch(tr__place *p, tr_client *client)
{
    tr_client_set_place(client, pack_later_place, p);
}

/* == setting the place =========================================================================== */

static void keep(spot *to, int64_t step, const tr_trainer_state *state)
{
    void *position = tr__must_realloc((void *)(uintptr_t)to->state.position, state->position_size + 1);

    memcpy(position, state->position_size ? state->position : "", state->position_size);
    *to = (spot){true, step, *state};
    to->state.position = position;
}

void tr__place_begin(tr__place *p, const tr_trainer_state *place, int64_t period)
{
    pthread_mutex_lock(&p->lock);
    p->first_step = place->steps;
    p->first_run = place->runs;
    p->period = period;
    if (place->position)
        keep(&p->after[0], 0, place);
    pthread_mutex_unlock(&p->lock);
}

tr_status tr_job_set_place(tr_job *job, const tr_trainer_state *place)
{
    tr__place    *p = job->place;
    const int64_t step = job->step + 1;

    TR_TRY(tr__job_check_trainer(job, "tr_job_set_place"));
    pthread_mutex_lock(&p->lock);
    if (place)
        keep(&p->after[step % 2], step, place);
    else
        p->after[0].is_known = p->after[1].is_known = false;
    pthread_mutex_unlock(&p->lock);
    return TR_OK;
}
