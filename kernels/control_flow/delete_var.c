/* delete_var.c - says that variables are not needed any more, as Fluid's release_memory writes it into programs.
 *
 * A plan finds that out by itself, and lets variables share memory. So nothing is left for this operator to do: a plan leaves it out. */
#include "framework/operators/op.h"

static const tr_op_proto proto = {
    .doc = "Says that X is not needed any more. A plan knows that by itself, so nothing happens; X keeps its value for readers that follow.",
    .in = TR_SLOTS({"X", "of any kind; not read", TR_SLOT_REPEATED | TR_SLOT_ANY_KIND}),
};

static tr_status run(const tr_run *io)
{
    (void)io;
    return TR_OK;
}

TR_REGISTER_OP(delete_var, .proto = &proto, .run = run);
