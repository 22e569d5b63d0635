/* rank_pieces.c - see rank_pieces.h. */
#include "pserver/rank/rank_pieces.h"

#include "framework/base/memory.h"
#include "pserver/util/wake.h"

#include <stdlib.h>

/* A smaller piece is not handed over. */
enum { LEAST = 128 << 10 };
/* So long the main thread looks for the next piece before it sleeps, in nanoseconds: about as long as a chunk is on its way. */
enum { PATIENCE = 30000 };

typedef struct piece {
    uint32_t    block;
    uint64_t    offset, bytes;
    const void *grad;
} piece;

struct tr__pieces {
    tr__rank       *rank;
    pthread_mutex_t lock;             /* for the fields up to `is_open` */
    piece          *item;             /* a ring; capacity is a power of two */
    size_t          first, count, capacity;
    atomic_bool     is_open;          /* a piece waits, or is being computed */
    /* the owner's: */
    tr_status       status;           /* of the first piece of this update that failed */
    char           *error;
};

tr__pieces *tr__pieces_new(tr__rank *rank)
{
    tr__pieces *p = tr__must_alloc(sizeof *p);

    p->rank = rank;
    p->capacity = 16;
    p->item = tr__must_array(p->capacity, sizeof *p->item);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void tr__pieces_free(tr__pieces *p)
{
    if (!p)
        return;
    pthread_mutex_destroy(&p->lock);
    free(p->item);
    free(p->error);
    free(p);
}

/* == the driver ================================================================================== */

static void grow(tr__pieces *p)
{
    piece *item = tr__must_array(2 * p->capacity, sizeof *item);

    for (size_t i = 0; i < p->count; i++)
        item[i] = p->item[(p->first + i) % p->capacity];
    free(p->item);
    p->item = item;
    p->first = 0;
    p->capacity *= 2;
}

/* Returns whether the main thread has to be woken. */
static bool hand_over(tr__pieces *p, const piece *one)
{
    pthread_mutex_lock(&p->lock);
    if (p->count == p->capacity)
        grow(p);
    p->item[(p->first + p->count++) % p->capacity] = *one;
    const bool was_open = atomic_exchange(&p->is_open, true);
    pthread_mutex_unlock(&p->lock);
    return !was_open;
}

static bool is_worth_it(uint64_t bytes)
{
    return bytes >= LEAST && tr_num_threads() > 1;
}

tr_status tr__pieces_put(tr__pieces *p, uint32_t block, uint64_t offset, uint64_t bytes, const void *grad)
{
    const piece one = {block, offset, bytes, grad};

    if (!is_worth_it(bytes) && !atomic_load(&p->is_open))
        return tr_server_program_piece(p->rank->program, block, offset, bytes, grad);
    if (hand_over(p, &one))
        tr__bell_ring(&p->rank->bell);
    return TR_OK;
}

bool tr__pieces_are_done(tr__pieces *p)
{
    return !atomic_load(&p->is_open) && p->status == TR_OK;
}

/* == the main thread ============================================================================= */

static bool take(piece *out, tr__pieces *p)
{
    pthread_mutex_lock(&p->lock);
    const bool is_there = p->count > 0;
    if (is_there) {
        *out = p->item[p->first];
        p->first = (p->first + 1) % p->capacity;
        p->count--;
    } else {
        atomic_store(&p->is_open, false);
    }
    pthread_mutex_unlock(&p->lock);
    return is_there;
}

static void compute(tr__pieces *p, const piece *one)
{
    if (p->status != TR_OK)
        return;
    p->status = tr_server_program_piece(p->rank->program, one->block, one->offset, one->bytes, one->grad);
    if (p->status != TR_OK)
        p->error = tr__must_strdup(tr_error());
}

/* Returns whether there was any. */
static bool compute_all(tr__pieces *p)
{
    bool  was_any = false;
    piece one;

    while (atomic_load(&p->is_open) && take(&one, p)) {
        compute(p, &one);
        was_any = true;
    }
    return was_any;
}

void tr__pieces_serve(tr__pieces *p)
{
    while (compute_all(p)) {
        const int64_t until = tr__clock() + (tr__schedule ? 0 : PATIENCE);
        while (!atomic_load(&p->is_open) && !atomic_load(&p->rank->has_update) && tr__clock() < until)
            tr__pause();
    }
}

tr_status tr__pieces_finish(tr__pieces *p)
{
    compute_all(p);
    const tr_status status = p->status == TR_OK ? TR_OK : tr_fail(p->status, "%s", p->error);

    free(p->error);
    p->error = NULL;
    p->status = TR_OK;
    return status;
}
