/* feed.c - Out = item `col` of the list of arrays given to a run.
 *
 * Saved programs begin with these operators. A plan turns them into places where it takes the caller's memory; none
 * becomes a step, so the kernel only says so if one does. */
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { OUT };

typedef struct attrs {
    int32_t col;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = item col of the list of arrays given to the run.",
    .in = TR_SLOTS({"X", "the feed list", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "the array; its type and shape are those its variable declares"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, col, INT, "which item, from 0", .required = true, .range = TR_AT_LEAST(0))),
};

/* -- kernel: no shapes, for Out stays as it was declared -------------------------------------- */

static tr_status run(const tr_run *io)
{
    return tr_fail(TR_EUNSUPPORTED, "feed: '%s' was to be fed by an operator that runs; feeds belong to the global "
                   "block", tr_run_out_name(io, OUT, 0));
}

TR_REGISTER_OP(feed, .proto = &proto, .run = run);
