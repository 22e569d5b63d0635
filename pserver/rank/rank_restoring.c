/* rank_restoring.c - see rank_restoring.h. */
#include "pserver/rank/rank_restoring.h"

#include "framework/base/memory.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/util/wake.h"

#include <stdlib.h>

typedef enum tr__restoring_wish { TR__WISH_NONE, TR__WISH_READ, TR__WISH_FILL } tr__restoring_wish;

/* The wish hands the fields above it over to the owner, TR__RESTORED hands all of them back. */
struct tr__restoring {
    tr__rank      *rank;
    char          *path;
    uint64_t       number;
    tr_server_part part;
    tr_restored   *restored;          /* the result: this, or the error */
    tr_status      status;
    char          *error;
    atomic_int     wish;
};

tr__restoring *tr__restoring_new(tr__rank *rank)
{
    tr__restoring *r = tr__must_alloc(sizeof *r);

    r->rank = rank;
    return r;
}

void tr__restoring_free(tr__restoring *r)
{
    if (!r)
        return;
    tr_restored_free(r->restored);
    free(r->path);
    free(r->error);
    free(r);
}

/* == the driver ================================================================================== */

static void wish(tr__restoring *r, tr__restoring_wish what)
{
    atomic_store(&r->wish, what);
    tr__bell_ring(&r->rank->bell);
}

void tr__restoring_read(tr__restoring *r, const char *path, uint64_t number, const tr_server_part *part)
{
    tr_server_program_restore(r->rank->program, NULL);         /* the memory of an earlier one */
    free(r->path);
    r->path = tr__must_strdup(path);
    r->number = number;
    r->part = *part;
    wish(r, TR__WISH_READ);
}

void tr__restoring_fill(tr__restoring *r)
{
    wish(r, TR__WISH_FILL);
}

tr_status tr__restoring_finish(tr__restoring *r)
{
    if (r->restored)
        tr_server_program_restore(r->rank->program, r->restored);
    r->restored = NULL;
    if (r->status != TR_OK)
        tr_fail(r->status, "%s", r->error);
    free(r->error);
    r->error = NULL;
    return r->status;
}

/* == the owner =================================================================================== */

tr_status tr__restoring_serve(tr__restoring *r)
{
    const tr__restoring_wish what = (tr__restoring_wish)atomic_exchange(&r->wish, TR__WISH_NONE);

    if (what == TR__WISH_NONE)
        return TR_OK;
    if (what == TR__WISH_READ)
        r->status = tr_server_program_read(&r->restored, r->path, r->number, &r->part);
    else
        r->status = tr_server_program_fill(r->rank->program);
    if (r->status != TR_OK)
        r->error = tr__must_strdup(tr_error());
    return tr__rank_post(r->rank, &(tr__command){.head = {TR__RESTORED, .is_urgent = true}});
}
