/* bond.c - see bond.h. */
#include "framework/base/bond.h"

#include <stddef.h>

#include "framework/base/fork_lock.h"

static tr_fork_lock lock = TR_FORK_LOCK_INIT;

void tr__bonds_lock(void)
{
    tr__fork_lock_take(&lock);
}

void tr__bonds_unlock(void)
{
    tr__fork_lock_release(&lock);
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
