/* plan_layout.h - shapes and memory of a root plan for one set of shapes of what it is given. */
#pragma once

#include "framework/plans/plan.h"
#include "framework/threads/team_choice.h"

struct tr_layout {
    tr_meta   *given;                 /* per variable: what it was when it came from outside; rank 0: nothing */
    tr_meta   *meta;                  /* per variable: what is known before the run; rank 0: nothing */
    int64_t   *offset;                /* per variable: in the arena, or -1 */
    int       *shares;                /* per variable: the one whose memory it took over, or -1 */
    bool      *dynamic;               /* per step */
    bool      *foreseen;              /* per variable: a dynamic step makes it, with this shape unless the run finds another */
    int       *lod_from;              /* per variable: whose LoD it takes when it is computed, or -1 */
    bool      *has_lod_copies;        /* per step: one of its outputs has a lod_from */
    bool      *may_have_lod;          /* per variable: a LOCAL one that a run may leave with LoD */
    bool       has_lods;              /* there is one */
    int64_t    arena_bytes;
    tr_team_choice team;              /* of its steps */
    tr_layout *next;
};
tr_status tr__layout_new(tr_layout **out, const tr_plan *plan, tr_var *const *vars);
void      tr__layout_free(tr_layout *layout);
/* Was it made for the shapes that feeds and scope variables have now? */
bool      tr__layout_fits(const tr_layout *layout, const tr_plan *plan, tr_var *const *vars);
