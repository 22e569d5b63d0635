/* bond.h - what an executor, a program and a scope have in common. It goes with the first of the three.
 *
 * Each of the three has a list of its bonds. One lock of the process guards all lists, since a thread may free a scope while another one
 * prepares a plan by the same executor. Whoever cuts a bond has taken it off all lists before; no lock is held while it is freed. */
#pragma once

typedef enum tr_bond_end { TR_BOND_EXECUTOR, TR_BOND_PROGRAM, TR_BOND_SCOPE, TR_BOND_ENDS } tr_bond_end;

typedef struct tr_bond tr_bond;
struct tr_bond {
    struct {
        tr_bond **owner;              /* the list, by which the owner is known */
        tr_bond  *next, **link;
    } end[TR_BOND_ENDS];
    void (*cut)(tr_bond *bond);       /* free what is around it */
};

void     tr__bonds_lock(void);
void     tr__bonds_unlock(void);
/* With the lock held. The bond of three owners, or NULL: it looks through the shorter one of the program's and the scope's lists. */
tr_bond *tr__bond_find(tr_bond **const owner[TR_BOND_ENDS]);
/* With the lock held. */
void     tr__bond_tie(tr_bond *bond, tr_bond **const owner[TR_BOND_ENDS]);
/* Without the lock. Cut all bonds of one owner, or those that it has with another one as well, unless that is NULL. */
void     tr__bonds_cut(tr_bond **owner, tr_bond_end end, tr_bond **other, tr_bond_end other_end);
