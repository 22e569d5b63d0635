/* liveness.c - see liveness.h. It keeps two times for each rank: when a message came from it, and when one was sent to it. */
#include "pserver/transport/liveness.h"

#include "framework/base/memory.h"

#include <stdlib.h>

typedef struct peer {
    tr_life life;
    bool    is_gone;                  /* the rank had left before */
    int64_t heard, sent;
} peer;

struct tr_liveness {
    int     self, size;
    int64_t period, timeout;
    int64_t looked;                   /* when this process last had time to check others' silence */
    peer    peer[];
};

tr_liveness *tr_liveness_new(int self, int size, int64_t period, int64_t timeout, int64_t now)
{
    tr_liveness *liveness = tr__must_alloc(sizeof *liveness + (size_t)size * sizeof(peer));

    *liveness = (tr_liveness){.self = self, .size = size, .period = period, .timeout = timeout, .looked = now};
    for (int i = 0; i < size; i++)
        liveness->peer[i] = (peer){i == self ? TR_LIFE_LEFT : TR_LIFE_ALIVE, false, now, now};
    return liveness;
}

void tr_liveness_free(tr_liveness *liveness)
{
    free(liveness);
}

void tr_liveness_heard(tr_liveness *liveness, int rank, int64_t now)
{
    liveness->peer[rank].heard = now;
}

void tr_liveness_sent(tr_liveness *liveness, int rank, int64_t now)
{
    liveness->peer[rank].sent = now;
}

void tr_liveness_left(tr_liveness *liveness, int rank)
{
    if (liveness->peer[rank].life == TR_LIFE_ALIVE)
        liveness->peer[rank].life = TR_LIFE_LEFT;
}

bool tr_liveness_kill(tr_liveness *liveness, int rank)
{
    if (liveness->peer[rank].life != TR_LIFE_ALIVE)
        return false;
    liveness->peer[rank].life = TR_LIFE_DEAD;
    return true;
}

void tr_liveness_gone(tr_liveness *liveness, int rank)
{
    liveness->peer[rank].is_gone = true;
}

bool tr_liveness_is_gone(const tr_liveness *liveness, int rank)
{
    return liveness->peer[rank].life == TR_LIFE_DEAD || liveness->peer[rank].is_gone;
}

tr_life tr_liveness_of(const tr_liveness *liveness, int rank)
{
    return liveness->peer[rank].life;
}

bool tr_liveness_all_left(const tr_liveness *liveness)
{
    for (int i = 0; i < liveness->size; i++)
        if (liveness->peer[i].life == TR_LIFE_ALIVE)
            return false;
    return true;
}

int tr_liveness_beat(tr_liveness *liveness, int64_t now)
{
    for (int i = 0; i < liveness->size; i++) {
        peer *p = &liveness->peer[i];
        if (!tr_liveness_is_gone(liveness, i) && i != liveness->self && now - p->sent >= liveness->period) {
            p->sent = now;
            return i;
        }
    }
    return -1;
}

int tr_liveness_silent(tr_liveness *liveness, int64_t now)
{
    const bool was_away = now - liveness->looked > liveness->period;

    liveness->looked = now;
    for (int i = 0; i < liveness->size; i++) {
        peer *p = &liveness->peer[i];
        if (p->life != TR_LIFE_ALIVE || now - p->heard <= liveness->timeout)
            continue;
        if (was_away) {
            p->heard = now - liveness->timeout + liveness->period;
            continue;
        }
        p->life = TR_LIFE_DEAD;
        return i;
    }
    return -1;
}
