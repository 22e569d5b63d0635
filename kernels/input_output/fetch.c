/* fetch.c - item `col` of the run's list of results = X.
 *
 * Saved programs end with these operators. Like feed, they are places of a plan and never steps. */
#include "framework/operators/op.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

typedef struct attrs {
    int32_t col;
} attrs;

static const tr_op_proto proto = {
    .doc = "Item col of the list of the run's results = X.",
    .in = TR_SLOTS({"X", "what is fetched", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "the fetch list"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, col, INT, "which item, from 0", .required = true, .range = TR_AT_LEAST(0))),
};

/* -- shapes and kernel ------------------------------------------------------------------------ */

static tr_status infer(const tr_infer *io)
{
    io->out[OUT].kind = TR_KIND_FETCH;
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    return tr_fail(TR_EUNSUPPORTED, "fetch: '%s' was to be fetched by an operator that runs; fetches belong to the "
                   "global block", tr_run_in_name(io, X, 0));
}

TR_REGISTER_OP(fetch, .proto = &proto, .infer = infer, .run = run, .has_effect = true);
