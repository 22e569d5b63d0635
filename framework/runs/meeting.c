/* meeting.c - see meeting.h. One lock guards the turn. The replica that comes last starts the next turn and wakes the others. */
#include "framework/runs/meeting.h"

#include <pthread.h>
#include <stdlib.h>

#include "framework/base/status.h"
#include "framework/runs/frame.h"

typedef struct offer {
    void          *data;              /* kept between runs */
    size_t         capacity, bytes;
    int            block, op;         /* of the step that made it */
} offer;

typedef struct side {
    offer        *offer;              /* one per replica */
    const void  **data;               /* what a meeting hands out */
} side;

struct tr_meeting {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             count, capacity;
    int             here;             /* that wait in this turn */
    unsigned        turn;
    int             first_left;
    side            side[2];
};

/* -- life ------------------------------------------------------------------------------------------------ */

tr_meeting *tr__meeting_new(void)
{
    tr_meeting *meeting = calloc(1, sizeof *meeting);

    if (meeting) {
        pthread_mutex_init(&meeting->lock, NULL);
        pthread_cond_init(&meeting->changed, NULL);
        meeting->first_left = -1;
    }
    return meeting;
}

void tr__meeting_free(tr_meeting *meeting)
{
    if (!meeting)
        return;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < meeting->capacity && meeting->side[s].offer; i++)
            free(meeting->side[s].offer[i].data);
        free(meeting->side[s].offer);
        free(meeting->side[s].data);
    }
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->lock);
    free(meeting);
}

static tr_status grow(side *of, int old, int count)
{
    offer *offers = realloc(of->offer, (size_t)count * sizeof *offers);

    if (!offers)
        return tr_fail(TR_ENOMEM, "no memory for the meeting of %d replicas", count);
    of->offer = offers;
    for (int i = old; i < count; i++)
        of->offer[i] = (offer){0};
    const void **data = realloc(of->data, (size_t)count * sizeof *data);
    if (!data)
        return tr_fail(TR_ENOMEM, "no memory for the meeting of %d replicas", count);
    of->data = data;
    return TR_OK;
}

tr_status tr__meeting_begin(tr_meeting *meeting, int count)
{
    if (count > meeting->capacity) {
        for (int s = 0; s < 2; s++)
            TR_TRY(grow(&meeting->side[s], meeting->capacity, count));
        meeting->capacity = count;
    }
    meeting->count = count;
    meeting->here = 0;
    meeting->turn = 0;
    meeting->first_left = -1;
    return TR_OK;
}

void tr__meeting_leave(tr_meeting *meeting, int replica)
{
    pthread_mutex_lock(&meeting->lock);
    if (meeting->first_left < 0)
        meeting->first_left = replica;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
}

int tr__meeting_first_left(const tr_meeting *meeting)
{
    return meeting->first_left;
}

/* -- for kernels ------------------------------------------------------------------------------------------- */

int tr_run_replicas(const tr_run *io)
{
    const tr_meeting *meeting = io->frame->plan->root->meeting;

    return meeting ? meeting->count : 1;
}

/* A replica's own turn is that of the meeting: it has left the last one before it offers again. */
static side *side_now(tr_meeting *meeting)
{
    pthread_mutex_lock(&meeting->lock);
    side *now = &meeting->side[meeting->turn % 2];
    pthread_mutex_unlock(&meeting->lock);
    return now;
}

tr_status tr_run_offer(void **mine, const tr_run *io, size_t bytes)
{
    const tr_plan *root = io->frame->plan->root;
    offer         *own = &side_now(root->meeting)->offer[root->replica];

    if (bytes > own->capacity) {
        free(own->data);
        own->capacity = 0;
        own->data = malloc(bytes);
        if (!own->data)
            return tr_fail(TR_ENOMEM, "%s: no memory for %zu bytes that replicas put together", io->step->op->type, bytes);
        own->capacity = bytes;
    }
    own->bytes = bytes;
    own->block = io->frame->plan->block->index;
    own->op = io->step->op_index;
    *mine = own->data;
    return TR_OK;
}

/* All offers must be of one step and as large. */
static tr_status check_offers(const tr_meeting *meeting, const side *now, const tr_run *io)
{
    const offer *first = &now->offer[0];

    for (int i = 1; i < meeting->count; i++) {
        const offer *other = &now->offer[i];
        if (other->block != first->block || other->op != first->op)
            return tr_fail(TR_EINVAL, "%s: replica 0 is at operator %d of block %d, but replica %d is at operator %d of block %d; all replicas "
                           "must run the same operators", io->step->op->type, first->op, first->block, i, other->op, other->block);
        if (other->bytes != first->bytes)
            return tr_fail(TR_ESHAPE, "%s: replica 0 offers %zu bytes, replica %d %zu; their shapes must fit", io->step->op->type, first->bytes,
                           i, other->bytes);
    }
    return TR_OK;
}

tr_status tr_run_meet(const void *const **all, const tr_run *io)
{
    const tr_plan *root = io->frame->plan->root;
    tr_meeting    *meeting = root->meeting;

    pthread_mutex_lock(&meeting->lock);
    const unsigned turn = meeting->turn;
    side          *now = &meeting->side[turn % 2];
    now->data[root->replica] = now->offer[root->replica].data;
    if (++meeting->here == meeting->count) {
        meeting->here = 0;
        meeting->turn++;
        pthread_cond_broadcast(&meeting->changed);
    }
    while (meeting->turn == turn && meeting->first_left < 0)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    const bool complete = meeting->turn != turn;
    const int  left = meeting->first_left;
    pthread_mutex_unlock(&meeting->lock);
    if (!complete)
        return tr_fail(TR_EINVAL, "%s: replica %d has ended its step without coming here; all replicas must run the same operators",
                       io->step->op->type, left);
    *all = now->data;
    return check_offers(meeting, now, io);
}
