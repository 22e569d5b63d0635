/* reduction.c - see reduction.h. One lock guards the turn. The replica that comes last starts the next turn and wakes the others. */
#include "framework/runs/reduction.h"

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
    const void  **data;               /* what a reduction hands out */
} side;

struct tr_reduction {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             count, capacity;
    int             here;             /* that wait in this turn */
    unsigned        turn;
    int             first_left;
    side            side[2];
};

/* -- life ------------------------------------------------------------------------------------------------ */

tr_reduction *tr__reduction_new(void)
{
    tr_reduction *reduction = calloc(1, sizeof *reduction);

    if (reduction) {
        pthread_mutex_init(&reduction->lock, NULL);
        pthread_cond_init(&reduction->changed, NULL);
        reduction->first_left = -1;
    }
    return reduction;
}

void tr__reduction_free(tr_reduction *reduction)
{
    if (!reduction)
        return;
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < reduction->capacity && reduction->side[s].offer; i++)
            free(reduction->side[s].offer[i].data);
        free(reduction->side[s].offer);
        free(reduction->side[s].data);
    }
    pthread_cond_destroy(&reduction->changed);
    pthread_mutex_destroy(&reduction->lock);
    free(reduction);
}

static tr_status grow(side *of, int old, int count)
{
    offer *offers = realloc(of->offer, (size_t)count * sizeof *offers);

    if (!offers)
        return tr_fail(TR_ENOMEM, "no memory for the reduction of %d replicas", count);
    of->offer = offers;
    for (int i = old; i < count; i++)
        of->offer[i] = (offer){0};
    const void **data = realloc(of->data, (size_t)count * sizeof *data);
    if (!data)
        return tr_fail(TR_ENOMEM, "no memory for the reduction of %d replicas", count);
    of->data = data;
    return TR_OK;
}

tr_status tr__reduction_begin(tr_reduction *reduction, int count)
{
    if (count > reduction->capacity) {
        for (int s = 0; s < 2; s++)
            TR_TRY(grow(&reduction->side[s], reduction->capacity, count));
        reduction->capacity = count;
    }
    reduction->count = count;
    reduction->here = 0;
    reduction->turn = 0;
    reduction->first_left = -1;
    return TR_OK;
}

void tr__reduction_leave(tr_reduction *reduction, int replica)
{
    pthread_mutex_lock(&reduction->lock);
    if (reduction->first_left < 0)
        reduction->first_left = replica;
    pthread_cond_broadcast(&reduction->changed);
    pthread_mutex_unlock(&reduction->lock);
}

int tr__reduction_first_left(const tr_reduction *reduction)
{
    return reduction->first_left;
}

/* -- for kernels ------------------------------------------------------------------------------------------- */

int tr_run_replicas(const tr_run *io)
{
    const tr_reduction *reduction = io->frame->plan->root->reduction;

    return reduction ? reduction->count : 1;
}

/* A replica's own turn is that of the reduction: it has left the last one before it offers again. */
static side *side_now(tr_reduction *reduction)
{
    pthread_mutex_lock(&reduction->lock);
    side *now = &reduction->side[reduction->turn % 2];
    pthread_mutex_unlock(&reduction->lock);
    return now;
}

tr_status tr_run_offer(void **mine, const tr_run *io, size_t bytes)
{
    const tr_plan *root = io->frame->plan->root;
    offer         *own = &side_now(root->reduction)->offer[root->replica];

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
static tr_status check_offers(const tr_reduction *reduction, const side *now, const tr_run *io)
{
    const offer *first = &now->offer[0];

    for (int i = 1; i < reduction->count; i++) {
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

tr_status tr_run_gather(const void *const **all, const tr_run *io)
{
    const tr_plan *root = io->frame->plan->root;
    tr_reduction    *reduction = root->reduction;

    pthread_mutex_lock(&reduction->lock);
    const unsigned turn = reduction->turn;
    side          *now = &reduction->side[turn % 2];
    now->data[root->replica] = now->offer[root->replica].data;
    if (++reduction->here == reduction->count) {
        reduction->here = 0;
        reduction->turn++;
        pthread_cond_broadcast(&reduction->changed);
    }
    while (reduction->turn == turn && reduction->first_left < 0)
        pthread_cond_wait(&reduction->changed, &reduction->lock);
    const bool complete = reduction->turn != turn;
    const int  left = reduction->first_left;
    pthread_mutex_unlock(&reduction->lock);
    if (!complete)
        return tr_fail(TR_EINVAL, "%s: replica %d has ended its step without coming here; all replicas must run the same operators",
                       io->step->op->type, left);
    *all = now->data;
    return check_offers(reduction, now, io);
}
