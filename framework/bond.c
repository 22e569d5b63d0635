/* bond.c - see bond.h. A fork takes the lock, so that the child's is free and its lists are whole. */
#include "framework/bond.h"

#include <pthread.h>
#include <stddef.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t  fork_is_watched = PTHREAD_ONCE_INIT;

static void watch_fork(void)
{
    pthread_atfork(tr__bonds_lock, tr__bonds_unlock, tr__bonds_unlock);
}

void tr__bonds_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tr__bonds_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

tr_bond *tr__bond_find(tr_bond **const owner[TR_BOND_ENDS])
{
    tr_bond *p = *owner[TR_BOND_PROGRAM], *s = *owner[TR_BOND_SCOPE];

    for (; p && s; p = p->end[TR_BOND_PROGRAM].next, s = s->end[TR_BOND_SCOPE].next) {
        if (p->end[TR_BOND_SCOPE].owner == owner[TR_BOND_SCOPE] && p->end[TR_BOND_EXECUTOR].owner == owner[TR_BOND_EXECUTOR])
            return p;
        if (s->end[TR_BOND_PROGRAM].owner == owner[TR_BOND_PROGRAM] && s->end[TR_BOND_EXECUTOR].owner == owner[TR_BOND_EXECUTOR])
            return s;
    }
    return NULL;
}

void tr__bond_tie(tr_bond *bond, tr_bond **const owner[TR_BOND_ENDS])
{
    pthread_once(&fork_is_watched, watch_fork);
    for (int e = 0; e < TR_BOND_ENDS; e++) {
        bond->end[e].owner = owner[e];
        bond->end[e].link = owner[e];
        bond->end[e].next = *owner[e];
        if (bond->end[e].next)
            bond->end[e].next->end[e].link = &bond->end[e].next;
        *owner[e] = bond;
    }
}

static void untie(tr_bond *bond)
{
    for (int e = 0; e < TR_BOND_ENDS; e++) {
        *bond->end[e].link = bond->end[e].next;
        if (bond->end[e].next)
            bond->end[e].next->end[e].link = bond->end[e].link;
    }
}

/* Take a bond of the owner off all lists; NULL: there is none, or none with `other`. */
static tr_bond *take(tr_bond **owner, tr_bond_end end, tr_bond **other, tr_bond_end other_end)
{
    tr__bonds_lock();
    tr_bond *bond = *owner;
    while (bond && other && bond->end[other_end].owner != other)
        bond = bond->end[end].next;
    if (bond)
        untie(bond);
    tr__bonds_unlock();
    return bond;
}

void tr__bonds_cut(tr_bond **owner, tr_bond_end end, tr_bond **other, tr_bond_end other_end)
{
    for (tr_bond *bond; (bond = take(owner, end, other, other_end));)
        bond->cut(bond);
}
